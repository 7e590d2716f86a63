"""What one frame costs in memory, from any sender. How true the weights are is measured for every version in `test_hostile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.errors import DecodeError
from pykafka4.wire.protocol.compiler import decoder
from pykafka4.wire.protocol.messages_cluster import MetadataResponse
from pykafka4.wire.protocol.messages_fetch import FetchResponse
from pykafka4.wire.protocol.messages_group import ConsumerProtocolSubscription, OffsetFetchResponse
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from pykafka4.wire.protocol.schema import Message, decode, decode_data, encode
from tests.wire.memory_meter import MIB, linux, peak_memory, traced
from tests.wire.wire_samples import every_version, heaviest, name_of

pytestmark = linux


def uvarint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def array_of(element: bytes, count: int) -> bytes:
    return uvarint(count + 1) + element * count


def metadata(topics: int, partitions: int) -> bytearray:
    numbers = list(range(1001, 1004))
    rows = [
        MetadataResponse.Topic.Partition(partition_index=i, leader_id=1001, leader_epoch=70_000, replica_nodes=numbers, isr_nodes=numbers)
        for i in range(partitions)
    ]
    topic = MetadataResponse.Topic(name="orders-of-the-day", partitions=rows)
    return bytearray().join(map(bytes, encode(MetadataResponse(topics=[topic] * topics), 12)))


def text(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def produced() -> bytes:
    return array_of(b"\1\1\0", 999_999) + bytes(5)


def produced_twice() -> bytes:
    partitions = array_of(bytes(30) + b"\1\0\0", 600_000)
    return uvarint(3) + 2 * (b"\1" + partitions + b"\0") + bytes(5)


def committed() -> bytes:
    return bytes(4) + b"\2\1" + array_of(bytes(20) + b"\1\0", 800_000) + bytes(5)


def fetched(*names: bytes) -> bytes:
    return bytes(10) + uvarint(len(names) + 1) + b"".join(text(name) + b"\1\0" for name in names) + b"\0"


def known(name: bytes, partitions: bytes = b"\1") -> bytes:
    return bytes(4) + b"\1\0" + bytes(4) + b"\2" + bytes(2) + text(name) + bytes(17) + partitions + bytes(6)


WIDE = b"x" * 20_000_000 + "🌊".encode()


@pytest.mark.parametrize(
    ("cls", "version", "frame"),
    [
        (ProduceResponse, 9, produced),
        (ProduceResponse, 9, produced_twice),
        (OffsetFetchResponse, 7, committed),
        (FetchResponse, 12, lambda: fetched(WIDE)),
        (FetchResponse, 12, lambda: fetched(*[WIDE[-30_000:]] * 3000)),
        (MetadataResponse, 12, lambda: known(WIDE)),
    ],
    ids=["empty topics", "two arrays", "empty partitions", "a wide text", "many texts", "a wide text, copied"],
)
@pytest.mark.parametrize("buffer", [bytes, bytearray])
def test_a_frame_that_grows_when_it_is_decoded_is_refused_in_time(
    cls: type[Message], version: int, frame: Callable[[], bytes], buffer: Any
) -> None:
    data = buffer(frame())
    with peak_memory(), pytest.raises(DecodeError, match=rf"^{cls.__name__}\..* would take more than 60 MiB of memory"):
        decode(cls, version, data)


def test_a_frame_that_would_be_copied_is_bounded_itself() -> None:
    frame = bytearray(known(b"t") + bytes(95 * MIB))
    with (
        peak_memory(MIB),
        pytest.raises(DecodeError, match="v12: 99614759 bytes; the limit for a message without records is 62914560"),
    ):
        decode(MetadataResponse, 12, frame)


def test_numbers_weigh_what_they_cost() -> None:
    frame = bytearray(known(b"t", b"\2" + bytes(14) + array_of(b"\x7f" * 4, 999_999) + b"\1\1\0"))
    with peak_memory():
        decode(MetadataResponse, 12, frame)


def test_short_lists_that_differ_weigh_what_they_cost() -> None:
    rows = b"".join(bytes(14) + b"\3" + n.to_bytes(4, "big") + b"\x7f" * 4 + b"\1\1\0" for n in range(150_000))
    frame = bytearray(known(b"t", uvarint(150_001) + rows))
    with peak_memory(), pytest.raises(DecodeError, match=r"^MetadataResponse.Topic.Partition.replica_nodes .* 60 MiB of memory"):
        decode(MetadataResponse, 12, frame)


def test_data_inside_a_frame_has_the_same_bound() -> None:
    count = (800_000).to_bytes(4, "big")
    data = b"\0\1" + count + bytes(2) * 800_000 + b"\xff" * 4 + count + bytes(6) * 800_000
    with peak_memory(), pytest.raises(DecodeError, match=r"^ConsumerProtocolSubscription\..* 60 MiB of memory"):
        decode_data(ConsumerProtocolSubscription, data)


def test_a_large_cluster_is_read_within_the_same_bound() -> None:
    """200,000 partitions of three replicas."""
    frame = metadata(2000, 100)
    with peak_memory():
        found = decode(MetadataResponse, 12, frame)
    assert sum(len(topic.partitions) for topic in found.topics) == 200_000
    assert found.topics[-1].partitions[-1].replica_nodes == [1001, 1002, 1003]


def test_lists_that_came_before_are_not_made_again() -> None:
    found = decode(MetadataResponse, 12, metadata(3, 3))
    rows = [row for topic in found.topics for row in topic.partitions]
    assert len({id(row.replica_nodes) for row in rows}) == 1


# -- how true weights are ------------------------------------------------------------------------


def charged(cls: Any, version: int, frame: bytes) -> int:
    """The least room that is enough to decode `frame`."""
    function, has_records = decoder(cls, version)
    low, high = -1, 64 * MIB
    while high - low > 1:
        room = (low + high) // 2
        try:
            function(frame, memoryview(frame) if has_records else None, 0, len(frame), room)
            high = room
        except DecodeError:
            low = room
    return high


@pytest.mark.parametrize(("cls", "version"), every_version(), ids=name_of)
def test_what_a_message_costs_was_taken_off_the_budget(cls: type[Message], version: int) -> None:
    """Every array of every version, with as many of the widest values as it takes to see each byte."""
    frame = b"".join(map(bytes, encode(heaviest(cls, version, 6), version)))
    decode(cls, version, frame)
    cost, taken = traced(lambda: decode(cls, version, frame)), charged(cls, version, frame)
    assert cost - 1000 <= taken <= 1000 + 2 * cost
