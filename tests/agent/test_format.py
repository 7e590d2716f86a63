"""Messages as bytes: the table of cases, the recorded messages of Dory's own clients, and any bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.agent.format import pack, parse
from pykafka4.agent.message import Message, Refused
from tests.agent.cases import CASES, DORY_MESSAGES, Case, message_bytes


def parsed(data: bytes, empty: bytes | None = None) -> Message | tuple[Any, ...]:
    """The message, or the reason of the refusal and its detail."""
    try:
        return parse(data, empty)
    except Refused as refused:
        return refused.reason, refused.detail


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[:70])
def test_each_case_is_read_or_refused(case: Case) -> None:
    assert parsed(case.data, case.empty) == case.expected


@pytest.mark.parametrize("recorded", DORY_MESSAGES, ids=lambda recorded: recorded["command"])
def test_pack_makes_the_bytes_of_dorys_clients(recorded: dict[str, Any]) -> None:
    data = bytes.fromhex(recorded["bytes"])
    topic, key, value = (recorded[name].encode() for name in ("topic", "key", "value"))
    assert pack(topic, value, key, recorded["partition_key"], parse(data)[4]) == data


def test_a_value_and_a_key_are_bytes_objects_of_their_own() -> None:
    _, value, key, _, _ = parse(message_bytes(key=b"k"))
    assert (type(value), type(key)) == (bytes, bytes)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    parsed(data)


@given(
    st.sampled_from([case.data for case in CASES if len(case.data) < 200]),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    st.booleans(),
)
def test_a_damaged_message_is_a_message_or_refused(data: bytes, changes: list[tuple[int, int]], mended: bool) -> None:
    damaged = bytearray(data)
    for at, byte in changes:
        if at < len(damaged):
            damaged[at] = byte
    if mended and len(damaged) >= 4:
        damaged[:4] = len(damaged).to_bytes(4, "big")
    parsed(bytes(damaged))


TOPICS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


@given(TOPICS, st.binary(), st.binary(), st.none() | st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_packed_message_is_read_as_it_was(topic: str, value: bytes, key: bytes, partition_key: int | None, timestamp: int) -> None:
    assert parse(pack(topic.encode(), value, key, partition_key, timestamp), b"") == (topic, value, key, partition_key, timestamp)


@given(st.integers(-(2**31), -1))
def test_a_negative_partition_key_is_the_unsigned_one_with_the_same_bits(partition_key: int) -> None:
    assert parse(pack(b"t", b"v", b"", partition_key))[3] == partition_key % 2**32


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((b"", b"v"), "topic must have 1 to 32,767 bytes, not 0"),
        ((b"t" * 32768, b"v"), "topic must have 1 to 32,767 bytes, not 32,768"),
        ((b"t", b"v", b"k", 2**32), "partition_key must be from -2,147,483,648 to 4,294,967,295, not 4,294,967,296"),
        ((b"t", b"v", b"k", -(2**31) - 1), "partition_key must be from"),
        ((b"t", b"v", b"k", 1, 2**63), "timestamp_ms must be from"),
    ],
)
def test_pack_names_the_argument_and_its_limit(arguments: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        pack(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("t", b"v"), "topic must be bytes, not str"),
        ((b"t", None), "value must be bytes, not NoneType"),
        ((b"t", b"v", "k"), "key must be bytes, not str"),
        ((b"t", b"v", b"k", 1.0), "partition_key must be an int, not float"),
        ((b"t", b"v", b"k", True), "partition_key must be an int, not bool"),
        ((b"t", b"v", b"k", None, 1.5), "timestamp_ms must be an int, not float"),
    ],
)
def test_pack_names_the_argument_of_a_wrong_type(arguments: tuple[Any, ...], error: str) -> None:
    with pytest.raises(TypeError, match=f"^{error}$"):
        pack(*arguments)


def test_pack_refuses_a_message_that_its_size_field_cannot_hold() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31 - 30

    with pytest.raises(ValueError, match=r"^value: the message would have 2,147,483,651 bytes, and its size field holds at most"):
        pack(b"topic", Huge())
