"""Latches: opened any number of times before or after the thread sleeps, one wakes it once."""

from __future__ import annotations

from typing import Any

from pykafka4.net.handoff.latch import new_latch, open_latch
from tests.net.net_helpers import SECONDS, in_thread


def test_a_latch_wakes_once_however_often_it_was_opened_before() -> None:
    latch = new_latch()
    assert not latch.acquire(False), "nobody has opened it"
    for _ in range(3):
        open_latch(latch)
    assert latch.acquire(False)
    assert not latch.acquire(False)


def test_opening_a_latch_wakes_the_thread_that_sleeps_on_it() -> None:
    latch, woken = new_latch(), list[bool]()
    thread = in_thread(lambda: woken.append(latch.acquire(True, SECONDS)))
    open_latch(latch)
    thread.join(SECONDS)
    assert woken == [True]


def test_a_latch_that_another_thread_opens_at_the_same_time_is_open() -> None:
    class Opened:
        """Locked when it is asked, and no longer when it is released."""

        def locked(self) -> bool:
            return True

        def release(self) -> None:
            raise RuntimeError("release unlocked lock")

    latch: Any = Opened()
    open_latch(latch)
