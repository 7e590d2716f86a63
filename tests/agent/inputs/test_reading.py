"""Both implementations: the same table of cases, and the same results for any bytes."""

from __future__ import annotations

import errno
import importlib
import socket
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.agent.format import pack
from pykafka4.agent.inputs import plain, reading
from pykafka4.agent.message import Reason
from tests.agent.cases import CASES, Case

try:
    compiled: ModuleType | None = importlib.import_module("pykafka4.agent.inputs.compiled._reading")
except ImportError:
    compiled = None
NEEDS_COMPILED = pytest.mark.skipif(compiled is None, reason="not built; `python setup.py build_ext --inplace` on Linux builds it")
BOTH = [pytest.param(plain, id="plain"), pytest.param(compiled, id="compiled", marks=NEEDS_COMPILED)]
MOST = 1_000_000

messages = st.sampled_from([case.data for case in CASES if len(case.data) < 200])


def plainly(refused: list[Any]) -> list[Any]:
    return [(data, why.reason, why.detail) for data, why in refused]


def cut(module: Any, data: bytes, end: int, max_size: int = MOST, empty: bytes | None = None) -> tuple[Any, ...]:
    used, wrong, found, refused = module.cut_frames(bytearray(data), end, max_size, empty)
    return used, bool(wrong), found, plainly(refused)


def read(module: Any, datagrams: list[bytes], max_size: int = 4000, empty: bytes | None = None) -> tuple[Any, ...]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        for datagram in datagrams:
            theirs.send(datagram)
        count, size, found, refused = module.DatagramReader(max_size, empty).read(ours)
        return count, size, found, plainly(refused)


def test_datagrams_before_an_error_of_the_socket_are_kept() -> None:
    class Failing:
        """A socket with one datagram, then an error."""

        def __init__(self, *left: bytes) -> None:
            self.left = list(left)

        def recv(self, size: int, flags: int) -> bytes:
            if not self.left:
                raise OSError(errno.ENOBUFS, "No buffer space available")
            return self.left.pop()

    reader, sock = plain.DatagramReader(4000, None), Failing(pack(b"t", b"v"))
    assert [message[0] for message in reader.read(sock)[2]] == ["t"]  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No buffer space"):
        reader.read(sock)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[:70])
def test_each_case_is_read_or_refused_as_a_datagram(case: Case, module: Any) -> None:
    _, size, found, refused = read(module, [case.data], max(4000, len(case.data)), case.empty)
    assert size == len(case.data)
    assert found + refused == [case.expected if len(case.expected) == 5 else (case.data, *case.expected)]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if len(case.data) >= 4 and int.from_bytes(case.data[:4], "big") == len(case.data)],
    ids=lambda case: case.name[:70],
)
def test_each_case_with_a_right_size_is_read_or_refused_as_a_frame(case: Case, module: Any) -> None:
    next_one = pack(b"next", b"v")
    used, wrong, found, refused = cut(module, case.data + next_one, len(case.data) + len(next_one), empty=case.empty)
    assert (used, wrong) == (len(case.data) + len(next_one), False)
    assert found[-1][0] == "next"  # a message that is none does not disturb the next one
    assert found[:-1] + refused == [case.expected if len(case.expected) == 5 else (case.data, *case.expected)]


@pytest.mark.parametrize("module", BOTH)
def test_datagrams_are_read_in_order_and_up_to_most(module: Any) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.setblocking(False)
        reader = module.DatagramReader(2_000_000, None)
        assert reader.most == 2  # so that its buffer has at most 4 MiB
        for number in range(3):
            theirs.send(pack(b"t", b"%d" % number))
        first, second, third = (reader.read(ours) for _ in range(3))
        assert ([m[1] for m in first[2]], [m[1] for m in second[2]], third) == ([b"0", b"1"], [b"2"], (0, 0, [], []))


@pytest.mark.parametrize("module", BOTH)
def test_a_datagram_larger_than_the_limit_is_refused_with_its_first_bytes(module: Any) -> None:
    right, larger, largest = (pack(b"t", bytes(n)) for n in (100 - 29, 101 - 29, 5000))
    count, size, found, refused = read(module, [right, larger, largest], max_size=100)
    assert (count, size, len(found)) == (3, 100 + 101 + 101, 1)
    assert refused == [(larger, Reason.MALFORMED, None), (largest[:101], Reason.MALFORMED, None)]


@pytest.mark.parametrize("module", BOTH)
def test_an_error_of_the_socket_is_raised(module: Any) -> None:
    with socket.socket(socket.AF_UNIX) as stream, pytest.raises(OSError):
        module.DatagramReader(100, None).read(stream)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    ("size", "max_size", "wrong"),
    [(3, 10, True), (0, 10, True), (-1, 10, True), (4, 0, False), (14, 10, False), (15, 10, True), (2**31 - 1, 10, True)],
)
def test_a_size_that_no_frame_has_ends_the_cut(module: Any, size: int, max_size: int, wrong: bool) -> None:
    good = pack(b"t", b"")[:]
    data = size.to_bytes(4, "big", signed=True)
    assert cut(module, data, 4, max_size)[:2] == (4 if size == 4 else 0, wrong)
    assert cut(module, good + data, len(good) + 4, max(max_size, len(good)))[2] == [("t", None, None, None, 0)]


@pytest.mark.parametrize("module", BOTH)
def test_bytes_behind_the_end_are_not_read(module: Any) -> None:
    data = pack(b"t", b"one") + pack(b"t", b"two")
    assert cut(module, data, len(data) - 1)[0] == len(data) // 2
    assert cut(module, data, 3) == (0, False, [], [])


@NEEDS_COMPILED
def test_the_same_topic_is_the_same_object() -> None:
    data = pack("größe".encode(), b"") * 2 + pack(b"x" * 300, b"")
    first, second, long = cut(compiled, data, len(data))[2]
    assert first[0] is second[0]
    assert long[0] == "x" * 300


@NEEDS_COMPILED
def test_more_topics_than_names_are_kept() -> None:
    for number in range(5000):
        data = pack(b"topic-%d" % number, b"")
        assert cut(compiled, data, len(data))[2][0][0] == f"topic-{number}"


@NEEDS_COMPILED
def test_a_name_that_begins_another_one_is_not_taken_for_it() -> None:
    names = [name for number in range(20_000) for name in (f"t{number}", "t")]  # some twenty of them have the place of "t"
    data = b"".join(pack(name.encode(), b"") for name in names)
    assert [message[0] for message in cut(compiled, data, len(data))[2]] == names


@NEEDS_COMPILED
def test_an_end_outside_the_data_is_refused() -> None:
    for end in (-1, 11):
        with pytest.raises(ValueError):
            cut(compiled, bytes(10), end)


@NEEDS_COMPILED
@given(
    st.lists(st.one_of(messages, st.binary(max_size=60)), max_size=8),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4),
    st.integers(0, 80),
)
def test_both_cut_any_bytes_alike(parts: list[bytes], changes: list[tuple[int, int]], max_size: int) -> None:
    data = bytearray(b"".join(parts))
    for at, byte in changes:
        if at < len(data):
            data[at] = byte
    for end in {len(data), len(data) // 2}:
        for empty in (None, b""):
            assert cut(plain, data, end, max_size, empty) == cut(compiled, data, end, max_size, empty)


@NEEDS_COMPILED
@given(st.lists(st.one_of(messages, st.binary(max_size=60)), max_size=8), st.tuples(st.integers(0, 40), st.integers(0, 255)))
def test_both_read_any_datagrams_alike(datagrams: list[bytes], change: tuple[int, int]) -> None:
    at, byte = change
    damaged = [data[:at] + bytes([byte]) + data[at + 1 :] for data in datagrams]
    assert read(plain, damaged, 70) == read(compiled, damaged, 70)


@pytest.mark.parametrize(("wanted", "name"), [("python", "python"), (None, None), ("", None)])
def test_the_implementation_is_chosen_by_its_name(wanted: str | None, name: str | None) -> None:
    assert reading.choose(wanted)[0] in ({name} if name else {"compiled", "python"})


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ImportError, match="PYKAFKA4_IMPL='rust' must be one of compiled, python, or unset"):
        reading.choose("rust")
