"""The pump and threads: wake-ups, two pumps, the collector, how a pump ends."""

from __future__ import annotations

import collections
import errno
import gc
import itertools
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pykafka4.gil.flag import compiled, give_way
from tests.net.net_helpers import SECONDS, in_thread, until
from tests.net.pumped import KB, MB, OPEN, POOL, Pumped, is_held, pumps
from tests.net.transport_driver import framed


@pytest.fixture
def it() -> Iterator[Pumped]:
    pumped = Pumped()
    yield pumped
    pumped.end()


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


def gaps_beside_one_that_computes(pump: Any, rounds: int) -> list[float]:
    """Seconds between the turns of a pump that is woken again as soon as it has had the GIL."""
    turns, waker = list[float](), pump.waker

    def loop() -> None:
        while len(turns) <= rounds:
            waker.asleep = True
            pump.run(SECONDS)
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
        return [b - a for a, b in itertools.pairwise(turns[1:rounds])]
    finally:
        sys.setswitchinterval(before)
        turns += [0.0] * rounds
        waker.asleep = True
        waker.wake()
        thread.join(SECONDS)


def test_a_pump_asks_one_that_computes_no_more_often_than_every_400_microseconds() -> None:
    """On a busy machine a thread loses the processor, and four turns that are overdue may then come in a row: so many are looked at."""
    many = 16
    pumped = Pumped()
    try:
        gaps = gaps_beside_one_that_computes(pumped.pump, 200)
    finally:
        pumped.end()
    took = [sum(gaps[n : n + many]) for n in range(len(gaps) - many)]
    assert statistics.quantiles(took, n=4)[0] > many / 2 * 0.0004


def test_after_a_while_a_pump_may_ask_several_times_in_a_row() -> None:
    """A batch of an application that computes needs several turns. Several attempts, as above."""
    for _ in range(10):
        pumped = Pumped()
        try:
            pumped.pump.run(0.01)  # longer than any pace
            shortest = min(gaps_beside_one_that_computes(pumped.pump, 4))
        finally:
            pumped.end()
        if shortest < 0.0003:
            return
    pytest.fail(f"no turn began sooner than {shortest * 1e6:.0f} us after the one before")


def test_a_pump_asks_for_the_gil_during_a_turn_as_what_it_calls_may_release_it(it: Pumped) -> None:
    it.pump.run(0.0)
    assert compiled.is_raised()
    lowered = threading.Event()

    def run() -> None:
        lowered.set()
        it.pump.run(SECONDS)

    thread = in_thread(run)
    lowered.wait(SECONDS)
    until(lambda: not compiled.is_raised())
    it.pump.waker.asleep = True
    it.pump.waker.wake()
    thread.join(SECONDS)
    assert compiled.is_raised()
    it.pump.shut()
    assert not compiled.is_raised()


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
