"""Pace: after a thread gave way it is left alone for a while, but only if it computes."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest

from pykafka4.gil.flag import compiled
from tests.net.net_helpers import SECONDS

MOST_S = 0.001  # seconds that a thread gives way if nobody takes the GIL
ATTEMPTS = 20
UNHEARD_S = 0.1  # seconds for which nobody gives way after it was in vain twice

if compiled is None or sys.platform != "linux":
    pytest.skip("the compiled flag is not used here", allow_module_level=True)


def wait_after(fd: int, meanwhile: Callable[[], object]) -> float:
    """Do `meanwhile` until another thread asks, then wait for it; returns how long that took. It needs 0.1 ms."""
    began, asked = threading.Event(), list[bool]()
    lock: Any = compiled.Lock()
    lock.acquire()

    def other() -> None:
        began.wait(SECONDS)
        compiled.wait(fd, 0.003)  # meanwhile the other one computes
        asked.append(True)
        compiled.done()
        time.sleep(0.00005)
        lock.release()

    thread = threading.Thread(target=other)
    thread.start()
    began.set()
    while not asked:
        meanwhile()
    before = time.perf_counter()
    assert lock.acquire(True, SECONDS)
    took = time.perf_counter() - before
    thread.join()
    return took


def test_a_thread_that_gave_way_and_waits_then_is_woken_at_once() -> None:
    reader, writer = os.pipe()
    try:
        for _ in range(ATTEMPTS):  # the machine may be busy: then every wait takes longer
            usual = median(wait_after(reader, lambda: None) for _ in range(50))
            found = median(wait_after(reader, compiled.give_way_to_others) for _ in range(50))
            if found < max(0.00035, usual + 0.0002):
                return
    finally:
        os.close(reader)
        os.close(writer)
    pytest.fail(f"it is usually woken after {found * 1e6:.0f} us, and after {usual * 1e6:.0f} us if it has not given way")


# -- giving way in vain: another thread computes, and takes the GIL instead


class Burner:
    """A thread that computes inside a `with` block, and never gives way."""

    def __init__(self) -> None:
        self.burning, self.computes, self.ending = threading.Event(), threading.Event(), False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.ending:
            self.burning.wait(SECONDS)
            while self.burning.is_set():
                self.computes.set()
                sum(range(1000))

    def __enter__(self) -> None:
        self.computes.clear()
        self.burning.set()
        assert self.computes.wait(SECONDS)

    def __exit__(self, *_: object) -> None:
        self.burning.clear()

    def end(self) -> None:
        self.ending = True
        self.burning.set()
        self.burning.clear()
        self.thread.join(SECONDS)


def aside() -> float:
    """Seconds for which this thread gives way."""
    began = time.perf_counter()
    compiled.give_way_to_others()
    return time.perf_counter() - began


def slept_aside() -> bool:
    """Whether this thread gives way now: it sleeps. (By the clock it does so, too, when a busy machine takes the processor away.)"""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    compiled.give_way_to_others()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw > before


@pytest.fixture
def burner() -> Iterator[Burner]:
    """With the flag up, though nobody takes the GIL, and threads that give way as if nothing had been in vain."""
    made = Burner()
    reader, writer = os.pipe()
    compiled.wait(reader, 0.0)
    try:
        deadline = time.monotonic() + SECONDS
        while aside() < MOST_S / 2:
            assert time.monotonic() < deadline
        yield made
    finally:
        compiled.done()
        os.close(reader)
        os.close(writer)
        made.end()


def test_a_thread_that_gives_way_in_vain_twice_keeps_the_gil_for_a_while(burner: Burner) -> None:
    with burner:
        assert not all(slept_aside() for _ in range(20))


def test_giving_way_in_vain_once_may_be_chance(burner: Burner) -> None:
    """On a busy machine a second time often follows that is the system's doing: then it is tried again."""
    assert any(gives_way_after_once(burner) for _ in range(ATTEMPTS))


def gives_way_after_once(burner: Burner) -> bool:
    deadline = time.monotonic() + SECONDS
    while aside() < MOST_S / 2:  # until threads give way again
        assert time.monotonic() < deadline
    with burner:
        while aside() < 4 * MOST_S:
            assert time.monotonic() < deadline
        since = time.monotonic()
    return any(slept_aside() for _ in range(5)) and time.monotonic() < since + UNHEARD_S / 2
