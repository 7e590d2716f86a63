"""Rate limits: how many records pass in a window, who waits how long, and in which order."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.core import INFINITY
from pykafka4.errors import BufferFull
from pykafka4.options.policies import RateLimit
from pykafka4.producer.rates import RateLimits, Window
from pykafka4.wire.records.policy import Admission


def wait_of(window: Window, now: float, patience: float) -> float | None:
    taken = window.take(now, patience)
    return None if taken is None else taken[0]


class Clock:
    """A producer's rate limits under a clock that only a test, or a pause, moves."""

    def __init__(self, *limits: RateLimit, patience: float = 60.0) -> None:
        self.now, self.pauses = 100.0, list[float]()
        self.limits = RateLimits(limits, lambda: patience, lambda: self.now, contextlib.nullcontext(), self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def ask(self, topic: str = "t", *, drop: bool = True) -> Any:
        """None if the record may be sent now, or the error for which it is dropped."""
        admit = self.limits.admission(topic, drop=drop)
        assert admit is not None
        place = admit(INFINITY)
        return None if isinstance(place, Admission) else place


def test_over_the_limit_of_a_window_records_are_dropped_with_the_limit_named() -> None:
    clock = Clock(RateLimit("t*", 2, 1000))
    assert [clock.ask() for _ in range(2)] == [None, None]
    assert str(clock.ask()) == "t: over its limit of 2 records in 1000 ms (rate_limits['t*'])"
    clock.now += 0.999
    assert clock.ask() is not None
    clock.now += 0.001
    assert [clock.ask() is None for _ in range(3)] == [True, True, False]
    assert clock.pauses == []


def test_a_limit_of_nothing_takes_no_record_however_long_it_could_wait() -> None:
    clock = Clock(RateLimit("t", 0, 1000))
    for _ in range(3):
        assert str(clock.ask()) == "t: over its limit of 0 records in 1000 ms (rate_limits['t'])"
        clock.now += 1.0
    with pytest.raises(BufferFull, match=r"over its limit of 0 records in 1000 ms .*, which allows no record"):
        clock.ask(drop=False)
    assert clock.pauses == []


def test_a_pattern_can_free_its_topics_of_the_limit_of_a_later_pattern() -> None:
    limits = Clock(RateLimit("free*", None, 1), RateLimit("*", 1, 1000)).limits
    assert limits.admission("free1", drop=True) is None
    assert limits.admission("other", drop=True) is not None


def test_a_window_begins_with_its_first_record() -> None:
    clock = Clock(RateLimit("t", 1, 1000))
    assert clock.ask() is None
    clock.now += 1.9
    assert clock.ask() is None
    clock.now += 0.9
    assert clock.ask() is not None


def test_a_window_is_over_exactly_after_its_interval() -> None:
    window = Window(2, 1.0)
    assert window.take(100.0, 0.0) == (0.0, 100.0)
    assert window.take(101.0, 0.0) == (0.0, 101.0)


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
    for number in range(3_000):
        clock.ask(f"t{number}")
        clock.now += 0.01
    assert len(clock.limits.windows) <= 1_000
    assert clock.ask("t2999") is not None


def test_a_window_in_use_is_kept_however_many_others_come() -> None:
    clock = Clock(RateLimit("*", 1, 1000))
    admit = clock.limits.admission("used", drop=True)
    assert admit is not None
    admit()
    clock.now += 1.0
    for number in range(1_100):
        clock.ask(f"t{number}")
    assert isinstance(admit(), Admission)
    del admit
    assert clock.ask("used") is not None, "the topic was forgotten and met again within the window"


def test_meeting_many_topics_at_once_is_not_quadratic() -> None:
    clock = Clock(RateLimit("*", 1, 1000))
    looked = [0]

    class Counting(dict[str, Window]):
        def copy(self) -> Any:
            looked[0] += len(self)
            return dict(self)

    clock.limits.windows = Counting()
    for number in range(20_000):
        clock.ask(f"t{number}")
    assert looked[0] < 40_000


def test_threads_meet_topics_at_the_same_time() -> None:
    limits = RateLimits((RateLimit("*", 1, 3_600_000),), lambda: 60.0, time.monotonic, threading.RLock(), lambda _: None)
    failed: list[BaseException] = []

    def meet(name: int) -> None:
        try:
            for number in range(1_500):
                admit = limits.admission(f"{name}-{number}", drop=True)
                assert admit is not None
                admit()
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=meet, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []
    assert len(limits.windows) == 6_000, "a topic that was met has its window, whatever other threads do"


def test_a_place_that_is_taken_within_another_is_counted() -> None:
    class Signalled(float):
        """The end of a window, at which a signal handler takes places, too."""

        def __ge__(self, other: float) -> bool:
            if handler:
                handler.pop()()
            return float(self) >= other

    window = Window(3, 1.0)
    assert window.take(100.0, 0.0) == (0.0, 100.0)
    handler = [lambda: window.take(100.0, 0.0)]
    assert window.take(Signalled(100.0), 0.0) == (0.0, 100.0)
    assert window.take(100.0, 0.0) is None, "three places are taken"


def test_a_place_given_back_is_free_unless_its_window_is_over() -> None:
    clock = Clock(RateLimit("t", 2, 1000))
    admit = clock.limits.admission("t", drop=True)
    assert admit is not None
    first, second = admit(), admit()
    assert isinstance(first, Admission)
    assert isinstance(second, Admission)
    assert clock.ask() is not None
    second.give_back()
    assert clock.ask() is None
    assert clock.ask() is not None
    clock.now += 1.0
    assert clock.ask() is None
    first.give_back()
    assert [clock.ask() is None for _ in range(2)] == [True, False]


def test_an_interrupted_wait_gives_its_place_back() -> None:
    clock = Clock(RateLimit("t", 1, 1000))
    clock.ask(drop=False)
    clock.limits.pause = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        clock.ask(drop=False)
    clock.limits.pause = clock.pause
    assert clock.ask(drop=False) is None
    assert clock.pauses == [pytest.approx(1.0)]


class Interrupted:
    def __call__(self, seconds: float) -> object:
        raise KeyboardInterrupt


def test_the_wait_for_a_rate_limit_counts_for_what_comes_after_it() -> None:
    clock = Clock(RateLimit("t", 1, 1000), patience=1.5)
    admit = clock.limits.admission("t", drop=False)
    assert admit is not None
    place = admit(INFINITY)
    assert isinstance(place, Admission)
    assert place.deadline == INFINITY, "it has not waited yet"
    place = admit(INFINITY)
    assert isinstance(place, Admission)
    assert (clock.now, place.deadline) == (101.0, 101.5)
    with pytest.raises(BufferFull, match=r"no place is free within 0\.4 s"):
        admit(101.4)


def test_a_long_interval_is_written_without_an_exponent() -> None:
    clock = Clock(RateLimit("t", 1, 3_600_000.0))
    clock.ask()
    assert str(clock.ask()) == "t: over its limit of 1 record in 3600000 ms (rate_limits['t'])"


def test_delayed_records_wait_for_the_next_window() -> None:
    clock = Clock(RateLimit("t", 2, 1000))
    for _ in range(5):
        assert clock.ask(drop=False) is None
    assert clock.pauses == [pytest.approx(1.0), pytest.approx(1.0)]


def test_threads_that_wait_have_their_places_in_the_order_in_which_they_came() -> None:
    window = Window(2, 1.0)
    waits = [wait_of(window, 100.25, 60.0) for _ in range(7)]
    assert waits == [0, 0, 1.0, 1.0, 2.0, 2.0, 3.0]
    assert wait_of(window, 101.25, 60.0) == 2.0, "a record that comes later does not take the place of one that waits"


def test_a_wait_over_the_limit_fails_and_takes_no_place() -> None:
    clock = Clock(RateLimit("t", 1, 1000), patience=0.5)
    assert clock.ask(drop=False) is None
    for _ in range(3):
        with pytest.raises(BufferFull, match=r"^t: over its limit of 1 record in 1000 ms .* no place is free within 0.5 s"):
            clock.ask(drop=False)
    clock.now += 0.75
    assert clock.ask(drop=False) is None
    assert clock.pauses == [pytest.approx(0.25)]


@given(st.integers(1, 5), st.lists(st.floats(0, 0.7), max_size=60), st.floats(0, 3))
def test_no_window_ever_has_more_and_places_are_in_order(most: int, gaps: list[float], patience: float) -> None:
    window, now, used = Window(most, 1.0), 0.0, list[float]()
    for gap in gaps:
        now += gap
        wait = wait_of(window, now, patience)
        if wait is not None:
            assert 0 <= wait <= patience
            used.append(now + wait)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(used))
    starts: list[float] = []
    for at in used:
        if not starts or at >= starts[-1] + 1.0 - 1e-9:
            starts.append(at)
        assert sum(1 for other in used if starts[-1] <= other < starts[-1] + 1.0 - 1e-9) <= most
