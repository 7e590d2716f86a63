"""Inbox and wake-up: nothing that is posted is lost, and the loop is woken once for each sleep."""

from __future__ import annotations

import pytest

from pykafka4.net.handoff.wakeup import Inbox, Wakeup
from tests.net.interrupts import interrupts


def test_the_loop_is_woken_by_the_next_thread_after_an_interrupt_anywhere_in_a_wake_up() -> None:
    wakeup = Wakeup()
    try:
        wakeup.asleep = True
        for place in interrupts(wakeup.wake, everywhere=True):
            wakeup.wake()
            assert wakeup._reader.recv(10), f"the loop sleeps on after an interrupt at {place}"
            wakeup.asleep = True
    finally:
        wakeup.close()


def test_the_inbox_runs_what_was_there_and_leaves_what_is_added_meanwhile() -> None:
    inbox, ran = Inbox(), []
    inbox.post(lambda now: (ran.append(now), inbox.post(lambda now: ran.append(-now))))
    inbox.run(1.0)
    assert ran == [1.0]
    assert inbox
    inbox.run(2.0)
    assert ran == [1.0, -2.0]


def test_however_many_wake_the_loop_it_costs_one_byte_a_sleep() -> None:
    wakeup = Wakeup()
    try:
        wakeup.wake()
        with pytest.raises(BlockingIOError):
            wakeup._reader.recv(10)
        assert wakeup.news
        wakeup.asleep = True
        for _ in range(1000):
            wakeup.wake()
        assert wakeup._reader.recv(10) == b"\0"
    finally:
        wakeup.close()
    wakeup.asleep = True
    wakeup.wake()  # no thread sleeps there any more
