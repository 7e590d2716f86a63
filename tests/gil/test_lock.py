"""`Lock`: what `threading.Lock` does. Every test is run over both."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4.gil.asking import SLICE_S, PlainLock
from pykafka4.gil.flag import compiled
from tests.net.net_helpers import SECONDS, in_thread, until

LOCKS: dict[str, Any] = {"threading": threading.Lock, "plain": PlainLock}
if compiled is not None and sys.platform == "linux":
    LOCKS["compiled"] = compiled.Lock


@pytest.fixture(params=list(LOCKS))
def lock(request: pytest.FixtureRequest) -> Any:
    return LOCKS[request.param]()


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take the GIL from each other all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_one_holds_it_and_others_do_not_get_it(lock: Any) -> None:
    assert not lock.locked()
    assert lock.acquire() is True
    assert lock.locked()
    assert lock.acquire(False) is False
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(True, 0) is False
    lock.release()
    assert not lock.locked()
    assert lock.acquire(True, 0) is True


def test_a_lock_that_nobody_holds_cannot_be_released(lock: Any) -> None:
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        lock.release()
    lock.acquire()
    lock.release()
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        lock.release()
    assert not lock.locked()


@pytest.mark.parametrize("timeout", [0.001, 0.05, 1.02])
def test_a_wait_ends_without_the_lock_when_its_time_is_over(lock: Any, timeout: float) -> None:
    lock.acquire()
    began = time.monotonic()
    assert lock.acquire(timeout=timeout) is False
    assert timeout <= time.monotonic() - began < timeout + SECONDS
    lock.release()
    assert lock.acquire(False), "one that went away does not keep it"


@pytest.mark.parametrize("timeout", [-1, SECONDS, threading.TIMEOUT_MAX])
def test_a_thread_that_waits_gets_it_when_it_is_released(lock: Any, timeout: float) -> None:
    lock.acquire()
    got: list[bool] = []
    thread = in_thread(lambda: got.append(lock.acquire(True, timeout)))
    assert lock.acquire(True, 0.02) is False
    lock.release()
    thread.join(SECONDS)
    assert got == [True]
    assert lock.locked()


def test_a_wait_without_limit_sleeps(lock: Any) -> None:
    lock.acquire()
    used: list[float] = []

    def wait() -> None:
        before = time.thread_time()
        lock.acquire()
        used.append(time.thread_time() - before)

    thread = in_thread(wait)
    assert lock.acquire(True, 0.5) is False
    lock.release()
    thread.join(SECONDS)
    assert used[0] < 0.05


def test_another_thread_may_release_it(lock: Any) -> None:
    lock.acquire()
    in_thread(lock.release).join(SECONDS)
    assert lock.acquire(True, SECONDS)


def test_each_of_many_that_wait_gets_its_turn(lock: Any) -> None:
    lock.acquire()
    came: list[int] = []
    got: list[int] = []

    def take(n: int) -> None:
        came.append(n)
        if lock.acquire(True, SECONDS):
            got.append(n)
            lock.release()

    threads = [in_thread(lambda n=n: take(n)) for n in range(20)]  # type: ignore[misc]
    until(lambda: len(came) == 20)
    assert lock.acquire(True, 0.02) is False, "meanwhile they begin to wait"
    lock.release()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(got) == list(range(20))


def test_threads_that_count_under_it_count_right(lock: Any, often: None) -> None:
    rounds, total = 300, [0]

    def count() -> None:
        for _ in range(rounds):
            assert lock.acquire()
            seen = total[0]
            sum(range(20))  # others run, if they may
            total[0] = seen + 1
            lock.release()

    threads = [in_thread(count) for _ in range(6)]
    for thread in threads:
        thread.join(SECONDS)
    assert total == [6 * rounds]


def test_a_timed_wait_and_a_release_at_once_lose_no_wake_up(lock: Any, often: None) -> None:
    """Two threads hand it to each other; one waits so briefly that its wait often ends just when it is released."""
    rounds, got = 500, [0]
    ended = threading.Event()

    def brief() -> None:
        while not ended.is_set():
            if lock.acquire(True, 1e-5):
                lock.release()

    def patient() -> None:
        for _ in range(rounds):
            if not lock.acquire(True, SECONDS):
                return
            got[0] += 1
            lock.release()

    other, thread = in_thread(brief), in_thread(patient)
    thread.join(SECONDS)
    ended.set()
    other.join(SECONDS)
    assert got == [rounds]


class Stop(KeyboardInterrupt):
    """What the signal handler raises."""


def signalled(act: Callable[[], object], raises: type[BaseException] | None, give_up: Callable[[], object]) -> int:
    """Call `act` while signals come, all the time; returns how many. `give_up` ends `act` if nothing else does."""
    ended, came = threading.Event(), [0]
    main = threading.main_thread().ident
    assert main is not None

    def handler(*_: object) -> None:
        came[0] += 1
        if raises is not None and not ended.is_set():
            ended.set()
            raise raises

    def poke() -> None:
        deadline = time.monotonic() + SECONDS
        while not ended.wait(0.005):
            signal.pthread_kill(main, signal.SIGUSR1)
            if time.monotonic() > deadline:
                give_up()
                return

    before = signal.signal(signal.SIGUSR1, handler)
    poker = in_thread(poke)
    try:
        act()
    finally:
        ended.set()
        poker.join(SECONDS)
        signal.signal(signal.SIGUSR1, before)
    return came[0]


@pytest.mark.parametrize("timeout", [-1, 1000.0])
def test_ctrl_c_ends_a_wait(lock: Any, timeout: float) -> None:
    lock.acquire()
    released: list[None] = []

    def give_up() -> None:
        released.append(None)
        lock.release()

    with pytest.raises(Stop):
        signalled(lambda: lock.acquire(True, timeout), Stop, give_up)
    assert not released, "the wait has ended before"
    assert lock.locked(), "the one that holds it still does"
    thread = in_thread(lambda: lock.acquire(True, SECONDS) and lock.release())
    lock.release()
    thread.join(SECONDS)
    until(lambda: not lock.locked())


def test_signals_neither_end_a_wait_nor_make_it_longer(lock: Any) -> None:
    lock.acquire()
    began = time.monotonic()
    got: list[bool] = []
    came = signalled(lambda: got.append(lock.acquire(True, 0.2)), None, lock.release)
    assert came > 1
    assert got == [False]
    assert 0.2 <= time.monotonic() - began < SECONDS


@pytest.mark.parametrize("kind", [kind for kind in LOCKS if kind != "threading"])
def test_a_signal_that_interrupts_no_system_call_ends_a_wait_within_a_slice(kind: str) -> None:
    """Another thread receives it, as if it came to this one just before the system call. Takes a second, the length of a slice."""
    lock = LOCKS[kind]()
    lock.acquire()
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(True, SECONDS)
    assert time.monotonic() - began < 1.5 * SLICE_S
