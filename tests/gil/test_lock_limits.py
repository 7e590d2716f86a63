"""`Lock`: as `threading.Lock`, whatever the timeout and whatever signals arrive."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pykafka4.gil.flag import compiled
from tests.net.net_helpers import SECONDS

if compiled is None or sys.platform != "linux":
    pytest.skip("the compiled lock is not used here", allow_module_level=True)


class Alarm(Exception):
    """What a signal handler raises."""


@pytest.fixture
def alarms() -> Iterator[Callable[[float], None]]:
    """Call it to have Alarm raised every so many seconds; 0 ends that."""

    def ring(signum: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: (signal.setitimer(signal.ITIMER_REAL, seconds, seconds), None)[1]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("timeout", [0.0, 1e-9, 1e-4, 0.02])
def test_a_lock_that_is_held_is_waited_for_as_long_as_asked(timeout: float) -> None:
    lock = compiled.Lock()
    assert lock.acquire()
    began, used = time.monotonic(), time.process_time()
    assert not lock.acquire(True, timeout)
    assert timeout <= time.monotonic() - began + 1e-6 < timeout + SECONDS
    assert time.process_time() - used < 0.01 + timeout / 2, "it sleeps"


@pytest.mark.parametrize("timeout", [-1.0, 3599.5, 3600.0, 2.0**31, threading.TIMEOUT_MAX])
def test_a_release_ends_the_wait_whatever_its_limit(timeout: float) -> None:
    lock = compiled.Lock()
    assert lock.acquire()
    timer = threading.Timer(0.1, lock.release)
    timer.start()
    used = time.process_time()
    assert lock.acquire(True, timeout)
    assert time.process_time() - used < 0.05, "it sleeps"
    timer.join()


def test_what_a_signal_handler_raises_ends_the_wait_and_leaves_the_lock_usable(alarms: Callable[[float], None]) -> None:
    lock = compiled.Lock()
    assert lock.acquire()
    for _ in range(50):
        with pytest.raises(Alarm):
            try:
                alarms(0.002)
                lock.acquire(True, SECONDS)
            finally:
                alarms(0)
    assert lock.locked()
    timer = threading.Timer(0.02, lock.release)
    timer.start()
    assert lock.acquire(True, SECONDS)
    timer.join()


def test_one_thread_at_a_time_and_no_wake_up_is_lost() -> None:
    lock, inside, most, count = compiled.Lock(), 0, 0, 0

    def work(timeout: float) -> None:
        nonlocal inside, most, count
        for _ in range(300):
            while not lock.acquire(True, timeout):
                pass
            inside += 1
            most = max(most, inside)
            if not count % 16:
                time.sleep(0.0001)
            inside -= 1
            count += 1
            lock.release()

    threads = [threading.Thread(target=work, args=(timeout,), daemon=True) for timeout in (-1.0, -1.0, 0.0005, 0.01)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert (most, count) == (1, 1200)
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()
