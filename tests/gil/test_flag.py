"""The GIL flag: a thread that computes lets those that wait for I/O go first, and never waits long for one that does not come."""

from __future__ import annotations

import selectors
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4.gil.asking import Turn
from pykafka4.gil.flag import give_way, step_aside
from tests.net.net_helpers import SECONDS, in_thread, python, until

gil: Any = pytest.importorskip("pykafka4.gil._gil", reason="the flag is compiled")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tested on Linux only")
LONGEST_S = 0.001  # that a thread waits for another to take the GIL
PACE_S = 0.0004  # for so long after a thread gave way nobody asks
NOTICED_S = 20e-6  # what takes less found nobody who asked, or did not look: who has the GIL back late twice does not give way for a while
UNHEARD = 0.11  # a bit more than that while
ROUNDS = 20
MANY = 16  # turns


@pytest.fixture
def quiet() -> Iterator[int]:
    """A descriptor that is not readable."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours.fileno()


@pytest.fixture
def stubborn() -> Iterator[None]:
    """Nobody takes the GIL from a thread that computes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    yield
    sys.setswitchinterval(before)


def seconds(fn: Callable[[], object]) -> float:
    began = time.perf_counter()
    fn()
    return time.perf_counter() - began


def raised() -> bool:
    """Whether the flag is up."""
    up: bool = gil.is_raised()
    return up


class Waiter:
    """A thread that sleeps on a lock, notes when it runs, and sleeps again. The thread that wakes it keeps the GIL."""

    def __init__(self) -> None:
        self.lock = gil.Lock()
        self.lock.acquire()
        self.ran: list[float] = []
        self.ending = False
        self.thread = in_thread(self.run)

    def run(self) -> None:
        while not self.ending:
            self.ran.append(time.perf_counter())
            self.lock.acquire()

    def wake(self, meanwhile: Callable[[], object], longest: float = SECONDS) -> float | None:
        """Wake it and compute until it has run, calling `meanwhile` now and then. How long that took; None: it did not run."""
        before, began = len(self.ran), time.perf_counter()
        self.lock.release()
        while len(self.ran) == before:
            sum(range(100))
            meanwhile()
            if time.perf_counter() - began > longest:
                return None
        return self.ran[-1] - began

    def end(self) -> None:
        self.ending = True
        self.lock.release()
        self.thread.join(SECONDS)


@pytest.fixture
def waiter() -> Iterator[Waiter]:
    it = Waiter()
    until(lambda: it.ran)
    yield it
    it.end()


# -- giving way


def test_a_thread_that_gives_way_lets_one_that_asked_take_the_gil(stubborn: None, waiter: Waiter) -> None:
    assert waiter.wake(give_way) is not None
    assert waiter.wake(lambda: None, longest=0.1) is None, "it cannot run if nobody gives way, so the test shows something"


def test_giving_way_to_nobody_takes_no_time() -> None:
    assert seconds(lambda: [give_way() for _ in range(3000)]) < 3000 * LONGEST_S / 2


def test_giving_way_ends_after_a_millisecond_if_nobody_comes(quiet: int) -> None:
    took: list[float] = []
    for _ in range(ROUNDS):
        gil.wait(quiet, 0.0)
        try:
            took += [seconds(give_way) for _ in range(20)]
        finally:
            gil.done()
        waited = [each for each in took if each > NOTICED_S]
        if len(waited) >= 10:
            break
        time.sleep(UNHEARD)
    assert len(waited) >= 10, "nearly all calls returned at once"
    assert 0.8 * LONGEST_S < statistics.median(waited) < 50 * LONGEST_S, "it waits for the thread that asked, but not for long"
    assert not raised(), "the thread no longer asks"


def test_giving_way_ends_when_the_other_thread_has_taken_the_gil(stubborn: None, waiter: Waiter) -> None:
    took = []
    for _ in range(100):
        waiter.wake(lambda: took.append(seconds(give_way)))
    gave_way = [each for each in took if each > NOTICED_S]
    assert min(gave_way, default=0.0) < 0.7 * LONGEST_S


def test_one_who_computes_is_asked_no_more_often_than_every_400_microseconds(stubborn: None, waiter: Waiter) -> None:
    """On a busy machine a thread loses the processor, and four turns that are overdue may then come in a row: so many are looked at."""
    for _ in range(200):
        waiter.wake(give_way)
    took = [b - a for a, b in zip(waiter.ran[1:], waiter.ran[1 + MANY :], strict=False)]
    assert statistics.quantiles(took, n=4)[0] > MANY / 2 * PACE_S


def test_who_waits_runs_sooner_if_those_that_compute_give_way(waiter: Waiter) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.02)
    try:
        keeping = [waiter.wake(lambda: None) for _ in range(15)]
        giving = [waiter.wake(give_way) for _ in range(15)]
    finally:
        sys.setswitchinterval(before)
    assert statistics.median(map(float, giving)) < statistics.median(map(float, keeping)) / 3  # type: ignore[arg-type]


def test_threads_that_give_way_at_once_all_go_on(quiet: int) -> None:
    gil.wait(quiet, 0.0)
    try:
        threads = [in_thread(lambda: [give_way() for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        gil.done()


# -- stepping aside: threads of the client, which want the GIL back


def time_aside() -> float:
    """How long a thread of the client is away that steps aside for another one, while the application computes and gives way."""
    took: list[float] = []
    done: list[None] = []
    ours, theirs = socket.socketpair()

    def client() -> None:
        theirs.send(b"x")  # the other one asks now
        while not (raised() or done):
            pass
        took.append(seconds(step_aside))

    def other() -> None:
        gil.wait(ours.fileno(), SECONDS)
        gil.done()
        done.append(None)

    with ours, theirs:
        threads = [in_thread(other), in_thread(client)]
        while not took:
            give_way()
            sum(range(100))
        for thread in threads:
            thread.join(SECONDS)
    return took[0]


def test_a_thread_that_steps_aside_soon_has_the_gil_back() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.5)
    try:
        for _ in range(30):
            assert time_aside() < 0.25, "it waits until the interpreter takes the GIL from the application"
    finally:
        sys.setswitchinterval(before)
    assert not raised()


def test_stepping_aside_for_nobody_takes_no_time() -> None:
    assert seconds(lambda: [step_aside() for _ in range(3000)]) < 3000 * LONGEST_S / 2


# -- fork


def test_the_flag_is_down_in_a_forked_child() -> None:
    """While it was up in the parent, and a thread of the parent was giving way."""
    done = python(
        f"""
import os, signal, socket, sys, threading, time, warnings
from pykafka4.gil import _gil as gil
warnings.simplefilter("ignore", DeprecationWarning)
ours, theirs = socket.socketpair()
gil.wait(ours.fileno(), 0.0)
threading.Thread(target=lambda: [gil.give_way_to_others() for _ in range(10**9)], daemon=True).start()
for _ in range(20):
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        began = time.perf_counter()
        for _ in range(1000):
            gil.give_way_to_others()
        took = time.perf_counter() - began
        gil.wait(ours.fileno(), 0.0)
        gil.done()
        os._exit(0 if took < 1000 * {LONGEST_S} / 2 else 1)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
print("down")
"""
    )
    assert done.stdout == "down\n", done.stderr


# -- waiting for descriptors


def test_a_wait_is_rounded_up_so_that_a_loop_does_not_spin(quiet: int) -> None:
    def wait() -> None:
        gil.wait(quiet, 0.0004)
        gil.done()

    assert min(seconds(wait) for _ in range(10)) > 0.0004


def test_a_turn_is_up_from_the_end_of_a_wait_until_the_next(quiet: int) -> None:
    turn = Turn()
    with selectors.DefaultSelector() as selector:
        selector.register(quiet, selectors.EVENT_READ)
        assert turn.wait(selector, 0.0) == 0.0
        assert raised()
        for _ in range(5):
            turn.wait(selector, 0.0)
        turn.end()
        assert not raised()
        turn.end()
        turn.wait(selector, 0.0)
        assert raised(), "ending twice is ending once"
        turn.end()
        assert not raised()


def test_nobody_asks_while_a_turn_waits(quiet: int) -> None:
    turn, ended = Turn(), threading.Event()
    ours, theirs = socket.socketpair()

    def wait() -> None:
        turn.wait(selector, 0.0)
        turn.wait(selector, SECONDS)
        turn.end()
        ended.set()

    with ours, theirs, selectors.DefaultSelector() as selector:
        selector.register(ours, selectors.EVENT_READ)
        in_thread(wait)
        until(lambda: not raised())
        assert not ended.is_set()
        theirs.send(b"x")
        assert ended.wait(SECONDS), "what is readable ends the wait"


def test_a_turn_leaves_the_wait_to_a_selector_without_a_descriptor() -> None:
    turn = Turn()
    with selectors.SelectSelector() as selector:
        assert turn.wait(selector, 1.5) == 1.5
        assert not raised()
        turn.end()


def test_a_signal_ends_a_wait_early_and_the_flag_goes_up_and_down(quiet: int) -> None:
    came = []
    before = signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
    ended = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def poke() -> None:
        while not ended.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    poker = in_thread(poke)
    try:
        assert seconds(lambda: gil.wait(quiet, SECONDS)) < SECONDS / 2
    finally:
        ended.set()
        poker.join(SECONDS)
        gil.done()
        signal.signal(signal.SIGUSR1, before)
    assert came
    assert not raised()
