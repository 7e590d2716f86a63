"""The pump alone: memory of frames, buffers that are written."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykafka4.wire.records import hot
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from tests.net.net_helpers import SECONDS
from tests.net.pumped import FIRST_PIECE, FRAME, KB, LOST, MB, OPEN, POOL, WRITTEN, Pumped, is_held, pumps
from tests.net.transport_driver import framed


@pytest.fixture
def it() -> Iterator[Pumped]:
    pumped = Pumped()
    yield pumped
    pumped.end()


@pytest.fixture
def three() -> Iterator[Pumped]:
    pumped = Pumped(3)
    yield pumped
    pumped.end()


# -- frames


@pytest.mark.parametrize("size", [100, 20 * KB, 300 * KB, MB])
def test_a_frame_is_not_overwritten_while_somebody_reads_it(it: Pumped, size: int) -> None:
    random = Random(size)
    bodies = [random.randbytes(size) for _ in range(3)]
    whole = it.get(bodies[0])
    view = memoryview(it.get(bodies[1]))
    part = memoryview(it.get(bodies[2]))[10:50]
    for n in range(20):
        it.get(bytes([n]) * size)
    assert bytes(whole) == bodies[0]
    assert bytes(view) == bodies[1]
    assert bytes(part) == bodies[2][10:50]
    assert view.readonly


def test_a_chunk_keeps_the_frame_that_it_decodes(it: Pumped) -> None:
    batch = build_batch([WireRecord(offset=n, timestamp_ms=0, key=b"%d" % n, value=b"v" * 100) for n in range(300)])
    frame = it.get(batch)
    chunk = hot.Chunk("t", 0, memoryview(frame)[:], 0, decompress=decompress, max_decompressed=MB)
    del frame
    out: list[Any] = []
    while not chunk.exhausted:
        chunk.decode(out, 50)
        it.get(b"\xff" * len(batch))
    assert [record.key for record in out] == [b"%d" % n for n in range(300)]


def test_frames_use_the_memory_of_earlier_ones(it: Pumped) -> None:
    assert it.pump.kept == 0
    frame = it.get(b"1" * MB)
    view = memoryview(frame)
    del frame
    assert it.pump.kept == 0, "the view needs it"
    view.release()
    kept = it.pump.kept
    assert MB <= kept <= MB * 5 / 4
    frame = it.get(b"2" * (MB - 1000))
    assert it.pump.kept == 0
    del frame
    assert it.pump.kept == kept
    small = it.get(b"3" * (MB // 4))
    assert it.pump.kept == kept, "a frame does not take more than twice the memory that it needs"
    del small


def test_small_frames_are_not_kept(it: Pumped) -> None:
    for size in (0, 1, 16 * KB - 1):
        assert len(it.get(b"x" * size)) == size
    assert it.pump.kept == 0


@pytest.mark.parametrize(("size", "count"), [(20 * KB, 600), (MB, 12), (9 * MB, 2)])
def test_what_is_kept_has_a_bound(it: Pumped, size: int, count: int) -> None:
    frames = [it.get(b"x" * size) for _ in range(count)]
    frames.clear()
    assert it.pump.kept <= POOL
    assert it.pump.kept > POOL * 3 / 4 or size > POOL


def test_frames_use_each_others_memory_although_some_of_another_size_is_left(it: Pumped) -> None:
    other, frame = it.get(b"o" * (20 * KB)), it.get(b"f" * MB)
    del other
    it.run()  # from here on the pump has the small one
    kept = it.pump.kept
    del frame
    assert it.pump.kept > kept + MB
    frame = it.get(b"f" * MB)
    assert it.pump.kept == kept
    del frame


def test_memory_of_sizes_that_no_longer_come_makes_room(it: Pumped) -> None:
    frames = [it.get(b"x" * (20 * KB)) for _ in range(600)]
    frames.clear()
    del frames
    for _ in range(2):
        frame = it.get(b"f" * MB)
        del frame
    assert MB <= it.pump.kept < 2 * MB


def test_frames_outlive_the_pump(it: Pumped) -> None:
    body = Random(1).randbytes(MB)
    frame, other = it.get(body), it.get(b"o" * MB)
    it.pump.shut()
    del it.pump, other
    assert bytes(frame) == body
    assert len(frame) == MB
    it.pump = pumps.Pump(1)


@pytest.mark.parametrize("size", [FIRST_PIECE - 1, FIRST_PIECE, FIRST_PIECE + 1, 2 * FIRST_PIECE, 5 * FIRST_PIECE + 17])
def test_a_frame_that_comes_in_pieces_is_whole_whatever_its_size(it: Pumped, size: int) -> None:
    body = Random(size).randbytes(size)
    for _ in range(2):  # the second may get the memory of the first
        frame = it.get(body)
        assert len(frame) == size
        assert bytes(frame) == body
        del frame
    assert bytes(it.get(b"after")) == b"after"


def test_frames_that_come_byte_by_byte_are_whole(it: Pumped) -> None:
    bodies = [b"one", b"", b"x" * 300]
    for byte in framed(*bodies):
        it.peers[1].sendall(bytes([byte]))
        it.run()
    assert [bytes(frame) for frame in it.frames[1]] == bodies


@pytest.mark.parametrize("rest", [b"", b"HTTP", b"x" * 100])
def test_the_first_bytes_of_a_wrong_frame_are_shown(it: Pumped, rest: bytes) -> None:
    it.peers[1].sendall(framed(b"right") + b"\xff\xff\xff\xff" + rest)
    it.until(lambda: it.events)
    assert it.events == [(LOST, 1, (b"\xff\xff\xff\xff" + rest[:12], False))]
    assert bytes(it.frames[1][0]) == b"right"


def test_a_size_alone_takes_no_memory(it: Pumped) -> None:
    def address_space() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    before = address_space()
    it.peers[1].sendall((60 * MB).to_bytes(4, "big") + b"x" * 1000)
    it.run()
    assert address_space() < before + 2 * FIRST_PIECE


def test_a_frame_cannot_be_written_to(it: Pumped) -> None:
    with pytest.raises(TypeError, match="read-write"):
        it.peers[1].recv_into(it.get(b"x"))


# -- what is written


def fill(it: Pumped, link: int = 1) -> None:
    """Write until the socket takes no more."""
    it.pump.write(link, [b"x" * (8 * MB)])
    it.run()


def drain(it: Pumped, size: int, link: int = 1) -> bytes:
    """The next `size` bytes that the peer gets."""
    got = bytearray()
    it.peers[link].setblocking(False)
    while len(got) < size:
        it.run()
        with contextlib.suppress(BlockingIOError):
            got += it.peers[link].recv(min(MB, size - len(got)))
    return bytes(got)


def test_buffers_are_released_when_they_are_written(it: Pumped) -> None:
    first, second, last = bytearray(b"first"), bytearray(8 * MB), bytearray(b"last")
    references = sys.getrefcount(second)
    it.pump.write(1, [first, memoryview(second)[:], b""])
    it.pump.write(1, [last], True)
    assert is_held(first)
    it.run()
    assert is_held(second)
    assert is_held(last)
    assert drain(it, 5 + 8 * MB + 4) == first + second + last
    it.run()
    assert not any(map(is_held, (first, second, last)))
    assert sys.getrefcount(second) == references
    assert it.events == [(WRITTEN, 1, None)]


@pytest.mark.parametrize("how", ["remove", "shut", "collected", "lost"])
def test_buffers_that_are_not_written_are_released_with_their_connection(it: Pumped, how: str) -> None:
    buffers = [bytearray(8 * MB), bytearray(b"a"), bytearray(b"b")]
    references = [sys.getrefcount(buffer) for buffer in buffers]
    it.pump.write(1, buffers[:2], True)
    it.run()
    it.pump.write(1, buffers[2:])  # not seen by `run` yet
    it.peers[1].sendall(framed(b"unread") + (100_000).to_bytes(4, "big") + b"half")
    assert all(map(is_held, buffers))
    if how == "remove":
        it.pump.remove(1)
        it.pump.remove(1)
    elif how == "shut":
        it.pump.shut()
    elif how == "collected":
        it.pump = pumps.Pump(1)
    else:
        it.peers[1].close()
        it.until(lambda: it.events)
        assert [(kind, link) for kind, link, _ in it.events] == [(LOST, 1)]
        it.pump.write(1, [buffers[1]], True)  # nobody told the caller yet
        it.run()
        assert len(it.events) == 1
        it.pump.remove(1)
    assert not any(map(is_held, buffers))
    assert [sys.getrefcount(buffer) for buffer in buffers] == references
    if how == "remove":
        assert not it.pump.run(0), "nothing comes of a connection that was removed"


def test_what_is_no_buffer_leaves_the_others_alone(it: Pumped) -> None:
    buffer = bytearray(b"x")
    with pytest.raises(TypeError):
        it.pump.write(1, [buffer, "text"])
    with pytest.raises(BufferError):
        it.pump.write(1, [buffer, memoryview(b"12345678")[::2]])
    assert not is_held(buffer)
    it.pump.write(1, [b"good"])
    assert drain(it, 4) == b"good"


def test_the_end_is_reported_once_when_nothing_is_left(it: Pumped) -> None:
    it.pump.write(1, [bytes(8 * MB)], True)
    it.run()
    it.pump.write(1, [b"more"], True)
    it.pump.write(1, [b"and more"], False)
    drain(it, 8 * MB + 4)
    assert not it.events or drain(it, 8), "the last bytes may be in the socket's buffer"
    it.until(lambda: it.events)
    it.run()
    assert it.events == [(WRITTEN, 1, None)]


@pytest.mark.parametrize("buffers", [[], [b""], [b"", bytearray()]])
def test_the_end_of_nothing_is_reported_too(it: Pumped, buffers: list[Any]) -> None:
    it.pump.write(1, buffers, True)
    it.until(lambda: it.events)
    assert it.events == [(WRITTEN, 1, None)]


def test_a_connection_that_is_removed_before_its_first_write_disturbs_no_other(three: Pumped) -> None:
    for removed in (3, 1):
        for link in three.ours:
            three.pump.write(link, [b"hello"])
        three.pump.remove(removed)
        three.run()
        rest = [link for link in three.ours if link != removed]
        assert [drain(three, 5, link) for link in rest] == [b"hello"] * len(rest)
        three.pump.add(removed, three.ours[removed].fileno(), OPEN)


def test_a_full_connection_delays_no_other(three: Pumped) -> None:
    fill(three, link=2)
    three.pump.write(2, [b"late"])
    three.pump.write(1, [b"at once"])
    three.send(b"a frame", link=3)
    assert drain(three, 7, link=1) == b"at once"
    assert bytes(three.take(link=3)) == b"a frame"


def test_a_connection_is_read_while_it_is_full(it: Pumped) -> None:
    fill(it)
    assert bytes(it.get(b"answer")) == b"answer"


def test_a_lost_connection_is_reported_once_after_its_frames(it: Pumped) -> None:
    it.peers[1].sendall(framed(b"a", b"b") + b"\0")
    it.peers[1].close()
    events: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while not events or events[-1][0] != LOST:
        assert time.monotonic() < deadline
        events += it.pump.run(0.05)
    assert [kind for kind, _, _ in events] == [FRAME, FRAME, LOST]
    assert events[-1][2] == (0, True)
    assert not it.pump.run(0.01)
