"""Timers: in order of time, and only what is due."""

from __future__ import annotations

from pykafka4.core import INFINITY
from pykafka4.core.timers import Timers


def test_what_is_due_is_done_in_order_of_time() -> None:
    timers, done = Timers(), []
    for when in (3.0, 1.0, 2.0, 2.0):
        timers.at(when, lambda now, when=when: done.append((when, now)))
    assert timers.wake_at == 1.0
    timers.run(2.5)
    assert done == [(1.0, 2.5), (2.0, 2.5), (2.0, 2.5)]
    assert timers.wake_at == 3.0
    timers.run(3.0)
    assert timers.wake_at == INFINITY


def test_a_timer_set_while_running_for_now_is_run_too() -> None:
    timers, done = Timers(), []
    timers.at(1.0, lambda now: timers.at(now, done.append))
    timers.run(1.0)
    assert done == [1.0]
