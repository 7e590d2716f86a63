"""Rate limits: how many records pass in a window, who waits how long, and in which order."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import BufferFull
from pykafka4.policies import RateLimit
from pykafka4.producer.rates import RateLimits, Window


class Clock:
    """A producer's rate limits under a clock that only a test, or a pause, moves."""

    def __init__(self, *limits: RateLimit, patience: float = 60.0) -> None:
        self.now, self.pauses = 100.0, list[float]()
        self.limits = RateLimits(limits, lambda: patience, lambda: self.now, contextlib.nullcontext(), self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def ask(self, topic: str = "t", *, drop: bool = True) -> Any:
        admit = self.limits.admission(topic, drop=drop)
        assert admit is not None
        return admit()


def test_over_the_limit_of_a_window_records_are_dropped_with_the_limit_named() -> None:
    clock = Clock(RateLimit("t*", 2, 1000))
    assert [clock.ask() for _ in range(2)] == [None, None]
    assert str(clock.ask()) == "t: over its limit of 2 records in 1000 ms (rate_limits['t*'])"
    clock.now += 0.999
    assert clock.ask() is not None
    clock.now += 0.001
    assert [clock.ask() is None for _ in range(3)] == [True, True, False]
    assert clock.pauses == []


def test_a_window_begins_with_its_first_record() -> None:
    clock = Clock(RateLimit("t", 1, 1000))
    assert clock.ask() is None
    clock.now += 1.9
    assert clock.ask() is None
    clock.now += 0.9
    assert clock.ask() is not None


def test_every_topic_of_a_pattern_has_windows_of_its_own() -> None:
    clock = Clock(RateLimit("t*", 1, 1000))
    assert [clock.ask(topic) is None for topic in ("t1", "t2", "t1")] == [True, True, False]


def test_a_topic_without_limit_is_not_asked() -> None:
    assert Clock(RateLimit("t", 1, 1000)).limits.admission("u", drop=True) is None


def test_a_topic_that_is_met_again_goes_on_in_its_window() -> None:
    clock = Clock(RateLimit("t", 1, 1000))
    assert clock.ask() is None
    assert clock.ask() is not None, "each `ask` meets the topic anew"


def test_windows_of_many_topics_are_dropped_when_they_have_ended() -> None:
    clock = Clock(RateLimit("*", 1, 1000))
    for number in range(1_500):
        clock.ask(f"t{number}")
        clock.now += 0.01
    assert len(clock.limits._windows) <= 1_000
    assert clock.ask("t1499") is not None


def test_delayed_records_wait_for_the_next_window() -> None:
    clock = Clock(RateLimit("t", 2, 1000))
    for _ in range(5):
        assert clock.ask(drop=False) is None
    assert clock.pauses == [pytest.approx(1.0), pytest.approx(1.0)]


def test_threads_that_wait_have_their_places_in_the_order_in_which_they_came() -> None:
    window = Window(2, 1.0)
    waits = [window.take(100.25, 60.0) for _ in range(7)]
    assert waits == [0, 0, 1.0, 1.0, 2.0, 2.0, 3.0]
    assert window.take(101.25, 60.0) == 2.0, "a record that comes later does not take the place of one that waits"


def test_a_wait_over_the_limit_fails_and_takes_no_place() -> None:
    clock = Clock(RateLimit("t", 1, 1000), patience=0.5)
    assert clock.ask(drop=False) is None
    for _ in range(3):
        with pytest.raises(BufferFull, match=r"^t: over its limit of 1 records in 1000 ms .* later than in 0.5 s"):
            clock.ask(drop=False)
    clock.now += 0.75
    assert clock.ask(drop=False) is None
    assert clock.pauses == [pytest.approx(0.25)]


@given(st.integers(1, 5), st.lists(st.floats(0, 0.7), max_size=60), st.floats(0, 3))
def test_no_window_ever_has_more_and_places_are_in_order(most: int, gaps: list[float], patience: float) -> None:
    window, now, used = Window(most, 1.0), 0.0, list[float]()
    for gap in gaps:
        now += gap
        wait = window.take(now, patience)
        if wait is not None:
            assert 0 <= wait <= patience
            used.append(now + wait)
    assert used == sorted(used)
    starts: list[float] = []
    for at in used:
        if not starts or at >= starts[-1] + 1.0 - 1e-9:
            starts.append(at)
        assert sum(1 for other in used if starts[-1] <= other < starts[-1] + 1.0 - 1e-9) <= most
