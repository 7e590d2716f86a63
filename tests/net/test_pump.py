"""The pump alone: who owns which memory, and that nothing of it is used by two. Sockets here are pairs, without a transport around them."""

from __future__ import annotations

import collections
import contextlib
import errno
import gc
import itertools
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from net_helpers import SECONDS, in_thread, until
from transport_driver import framed

from pykafka4.gil.flag import give_way
from pykafka4.wire.records import hot
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress

pumps: Any = pytest.importorskip("pykafka4.net.pump._pump", reason="the pump is compiled, on Linux only")
KB, MB = 1 << 10, 1 << 20
POOL = 8 * MB  # most that is kept for later frames
FIRST_PIECE = 4 * MB
OPEN, FRAME, WRITTEN, LOST = pumps.OPEN, pumps.FRAME, pumps.WRITTEN, pumps.LOST


class Pumped:
    """A pump with one end of some socket pairs; the test has the other ends."""

    def __init__(self, links: int = 1) -> None:
        self.pump = pumps.Pump(64 * MB)
        self.peers: dict[int, socket.socket] = {}
        self.ours: dict[int, socket.socket] = {}
        self.frames: dict[int, list[Any]] = {}
        self.events: list[tuple[int, int, Any]] = []  # without frames
        for link in range(1, links + 1):
            self.ours[link], self.peers[link] = socket.socketpair()
            self.ours[link].setblocking(False)
            self.peers[link].settimeout(SECONDS)
            self.frames[link] = []
            self.pump.add(link, self.ours[link].fileno(), OPEN)

    def run(self, timeout: float = 0.0) -> None:
        for kind, link, payload in self.pump.run(timeout):
            if kind == FRAME:
                self.frames[link].append(payload)
            else:
                self.events.append((kind, link, payload))

    def until(self, predicate: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not predicate():
            assert time.monotonic() < deadline
            self.run(0.05)

    def take(self, link: int = 1) -> Any:
        """The next frame."""
        self.until(lambda: self.frames[link])
        return self.frames[link].pop(0)

    def send(self, *bodies: bytes, link: int = 1) -> None:
        """From the peer, on a thread of its own: a socket holds less than a large frame."""
        in_thread(lambda: self.peers[link].sendall(framed(*bodies)))

    def get(self, body: bytes, link: int = 1) -> Any:
        """The frame with this body, which the peer sends."""
        self.send(body, link=link)
        return self.take(link)

    def end(self) -> None:
        self.pump.shut()
        self.pump.waker.close()
        for sock in [*self.ours.values(), *self.peers.values()]:
            sock.close()


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


def is_held(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return True
    del buffer[-1]
    return False


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


# -- wake-ups


def test_wake_ups_of_many_threads_lose_nothing(it: Pumped) -> None:
    """Each says that there is work after having queued some, as `Loop` and `Inbox` do it."""
    threads, rounds, done = 4, 400, 0
    work: collections.deque[int] = collections.deque()
    waker = it.pump.waker

    def post() -> None:
        for n in range(rounds):
            work.append(n)
            waker.wake()

    workers = [in_thread(post) for _ in range(threads)]
    deadline = time.monotonic() + SECONDS
    while done < threads * rounds:
        waker.news = False
        while work:
            work.popleft()
            done += 1
        if done == threads * rounds:
            break
        waker.asleep = True
        it.pump.run(0.0 if waker.news else SECONDS)
        waker.asleep = False
        assert time.monotonic() < deadline, "a wake-up was lost"
    for worker in workers:
        worker.join(SECONDS)


def test_many_wake_ups_end_one_wait(it: Pumped) -> None:
    waker = it.pump.waker
    waker.wake()
    assert waker.news
    began = time.monotonic()
    assert not it.pump.run(0.02)
    assert time.monotonic() - began >= 0.02, "a loop that is awake needs no wake-up"
    waker.asleep = True
    for _ in range(3):
        waker.wake()
    assert not waker.asleep
    began = time.monotonic()
    it.pump.run(SECONDS)
    assert time.monotonic() - began < SECONDS / 2
    began = time.monotonic()
    it.pump.run(0.05)
    assert time.monotonic() - began >= 0.05, "the wake-ups of the last wait are over"


def test_a_turn_ends_the_sleep_that_wake_ups_look_at(it: Pumped) -> None:
    it.pump.waker.asleep = True
    it.pump.run(0.0)
    assert not it.pump.waker.asleep


def test_a_closed_waker_wakes_nobody(it: Pumped) -> None:
    waker = it.pump.waker
    waker.close()
    waker.close()
    waker.asleep = True
    waker.wake()
    waker.clear()
    assert waker.fileno() == -1


# -- threads


def test_two_pumps_in_two_threads_do_not_meet() -> None:
    rounds, sizes = 150, [10, 20 * KB, 200 * KB]
    a, b = Pumped(), Pumped()
    for pumped in (a, b):
        pumped.pump.remove(1)
    one, other = socket.socketpair()
    a.pump.add(1, one.fileno(), OPEN)
    b.pump.add(1, other.fileno(), OPEN)
    echoed: list[bool] = []

    def echo() -> None:
        for _ in range(rounds):
            frame = b.take()
            b.pump.write(1, [len(frame).to_bytes(4, "big"), frame])
        b.until(lambda: len(echoed) == rounds)

    thread = in_thread(echo)
    random = Random(3)
    for n in range(rounds):
        body = random.randbytes(sizes[n % 3])
        a.pump.write(1, [framed(body)])
        echoed.append(bytes(a.take()) == body)
    thread.join(SECONDS)
    assert echoed == [True] * rounds
    assert not thread.is_alive()
    for pumped in (a, b):
        pumped.end()
    one.close()
    other.close()


def test_frames_are_freed_on_any_thread_while_the_pump_runs(it: Pumped) -> None:
    """Their memory comes back under the GIL, while `run` has taken some of it without."""
    count, taken = 300, collections.deque[Any]()
    wrong: list[Any] = []

    def check() -> None:
        n = 0
        while n < count:
            try:
                frame = taken.popleft()
            except IndexError:
                threading.Event().wait(0.0005)
                continue
            if bytes(memoryview(frame)[:10]) != b"%010d" % n or bytes(memoryview(frame)[-10:]) != b"%010d" % n:
                wrong.append(n)
            n += 1
            del frame

    thread = in_thread(check)
    it.send(*[b"%010d" % n * (3 * KB) for n in range(count)])
    for _ in range(count):
        taken.append(it.take())
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert not wrong
    assert it.pump.kept <= POOL


def test_a_pump_asks_one_that_computes_no_more_often_than_every_400_microseconds(it: Pumped) -> None:
    rounds, turns, waker = 150, list[float](), it.pump.waker

    def loop() -> None:
        while len(turns) <= rounds:
            waker.asleep = True
            it.pump.run(SECONDS)
            turns.append(time.perf_counter())

    before = sys.getswitchinterval()
    thread = in_thread(loop)
    until(lambda: waker.asleep)
    sys.setswitchinterval(1000.0)
    try:
        began = time.perf_counter()
        for n in range(rounds):
            waker.wake()
            while len(turns) <= n:
                give_way()
                assert time.perf_counter() - began < SECONDS
    finally:
        sys.setswitchinterval(before)
        turns += [0.0] * rounds
        waker.asleep = True
        waker.wake()
        thread.join(SECONDS)
    assert statistics.quantiles([b - a for a, b in itertools.pairwise(turns[1:rounds])], n=4)[0] > 0.0002


# -- how a pump ends


class Holder:
    """Something that refers to itself."""


def test_the_collector_frees_a_pump_in_a_cycle_with_all_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    buffers = []
    frames = []
    for n in range(20):
        pumped = Pumped()
        holder: Any = Holder()
        holder.me, holder.pump = holder, pumped.pump
        buffers.append(bytearray(8 * MB))
        pumped.peers[1].sendall(framed(b"%010d" % n * (2 * KB)))
        holder.frame = pumped.take()
        frames.append(memoryview(holder.frame))
        pumped.pump.write(1, [buffers[-1]])
        pumped.peers[1].sendall((MB).to_bytes(4, "big") + b"half")
        pumped.run()
        assert is_held(buffers[-1])
        for sock in (pumped.ours[1], pumped.peers[1]):
            sock.close()
        del pumped, holder
        gc.collect()
        assert not is_held(buffers.pop())
    assert [bytes(frame[:10]) for frame in frames] == [b"%010d" % n for n in range(20)]
    assert not complaints


def test_the_collector_may_run_in_another_thread_while_the_pump_waits(it: Pumped) -> None:
    holder: Any = Holder()
    holder.me, holder.pump, holder.peer = holder, it.pump, it.peers[1]
    collected = threading.Event()

    def collect() -> None:
        for _ in range(5):
            gc.collect()
        collected.set()
        it.peers[1].sendall(framed(b"done"))

    in_thread(collect)
    del holder
    assert bytes(it.take()) == b"done"
    assert collected.is_set()


def test_a_pump_that_gets_no_descriptor_is_an_error_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        free = probe.fileno()
    errors = []
    try:
        for more in (0, 1):  # no eventfd; no epoll
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, hard))
            with pytest.raises(OSError) as raised:
                pumps.Pump(1)
            errors.append(raised.value.errno)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert errors == [errno.EMFILE] * 2
    with socket.socket() as probe:
        assert probe.fileno() == free
    assert not complaints


def test_a_descriptor_that_cannot_be_watched_is_an_error_and_no_connection(it: Pumped) -> None:
    with pytest.raises(OSError) as raised:
        it.pump.add(7, 10**6, OPEN)
    assert raised.value.errno == errno.EBADF
    it.pump.write(7, [b"x"])
    it.pump.remove(7)
    assert bytes(it.get(b"fine")) == b"fine"


def test_waiting_takes_as_long_as_asked(it: Pumped) -> None:
    for timeout in (0.0, 0.0003, 0.03):
        began = time.monotonic()
        assert it.pump.run(timeout) == []
        assert timeout <= time.monotonic() - began < timeout + SECONDS
