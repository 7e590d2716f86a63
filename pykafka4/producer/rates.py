"""Rate limits. Rule: of a topic with a limit, no more records are taken in a window than that; time is an argument.

Windows are fixed: the first record after a window has ended begins the next one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import attrs

from pykafka4.errors import BufferFull
from pykafka4.options.policies import Matcher, RateLimit
from pykafka4.wire.records.policy import Place

__all__ = ["RateLimits", "Window"]

INFINITY: Final = float("inf")
MANY: Final = 1_000  # windows kept before ended ones that nobody uses are dropped


@attrs.define(eq=False)
class Window:
    """The window of one topic. It may lie in the future: then those who wait have taken all places before it.

    A signal handler, or a destructor, may take a place while its thread is in `take`. Nothing runs between the comparison with the last
    known state and the assignment of the next one.
    """

    most: int
    interval: float
    _state: tuple[float, int] = attrs.field(default=(-INFINITY, 0), init=False)  # when it begins, and how many places are taken
    user: Callable[[], Admission | None] = attrs.field(default=lambda: None, init=False)  # who takes places of it

    @property
    def begins(self) -> float:
        """When it begins, or has begun."""
        return self._state[0]

    def take(self, now: float, patience: float) -> tuple[float, float] | None:
        """Take the next place; returns (in how many seconds it may be used, when its window begins).

        Returns None, and takes nothing, if one would have to wait for longer than `patience`. Places are given in the order of the calls,
        so whoever waits is served first come, first served.
        """
        if self.most == 0:
            return None
        while True:
            state = self._state
            begins, taken = state
            if now >= begins + self.interval:
                begins, taken = now, 0
            elif taken >= self.most:
                begins, taken = begins + self.interval, 0
            wait = max(0.0, begins - now)
            if wait > patience:
                return None
            following = begins, taken + 1
            if self._state is state:
                self._state = following
                return wait, begins

    def give_back(self, begins: float) -> None:
        """A place of the window that begins then was not used. Nothing changes if places of a later one are taken."""
        while True:
            state = self._state
            if state[0] != begins or state[1] == 0:
                return
            following = begins, state[1] - 1
            if self._state is state:
                self._state = following
                return

    def over(self, now: float) -> bool:
        """Whether a new window would do the same."""
        return now >= self._state[0] + self.interval


class RateLimits:
    """The limits of a producer's topics."""

    def __init__(
        self,
        limits: tuple[RateLimit, ...],
        patience: Callable[[], float],
        clock: Callable[[], float],
        lock: AbstractContextManager[Any, bool | None],
        pause: Callable[[float], object],
    ) -> None:
        """`patience()` is for how many seconds a `send` may wait here; `pause(seconds)` waits, or raises.

        `lock` guards the windows; it has to be reentrant, since a destructor may send anywhere.
        """
        self._find = Matcher({limit.pattern: limit for limit in limits})
        self._patience, self._clock, self._lock, self.pause = patience, clock, lock, pause
        self.windows: dict[str, Window] = {}
        self._many = MANY

    def admission(self, topic: str, *, drop: bool) -> Admission | None:
        """What each record of `topic` has to ask; None for a topic without limit.

        It returns a Place, perhaps after a while. Where the record would have to wait, with `drop` it returns the error for which the
        record is dropped; without `drop` it raises BufferFull, if the wait would be too long.
        """
        limit = self._find(topic)
        if limit is None or limit.max_messages is None:
            return None
        with self._lock:
            window = self._window(topic, limit.max_messages, limit.interval_ms / 1000)
            found = window.user()
            if found is None:
                found = Admission(self, window, f"{topic}: over its limit of {limit}", drop)
                window.user = weakref.ref(found)
            return found

    def _window(self, topic: str, most: int, interval: float) -> Window:
        """That of `topic`. It outlives the accumulator's entry for the topic, which may be shorter than an interval."""
        if len(self.windows) >= self._many and topic not in self.windows:
            now = self._clock()
            for name, window in self.windows.copy().items():  # a destructor may send to a new topic meanwhile
                if window.user() is None and window.over(now):
                    self.windows.pop(name, None)
            self._many = max(MANY, 2 * len(self.windows))  # not each time that there is one more
        return self.windows.setdefault(topic, Window(most, interval))

    def take(self, window: Window, over: str, deadline: float, *, drop: bool) -> tuple[float, float] | BufferFull:
        """(When the window of the place begins, until when the record may wait), after the wait for it."""
        now = self._clock()
        patience = 0.0 if drop else max(0.0, min(self._patience(), deadline - now))
        with self._lock:
            taken = window.take(now, patience)
        if taken is None and drop:
            return BufferFull(over)
        if taken is None and window.most == 0:
            raise BufferFull(f"{over}, which allows no record")
        if taken is None:
            raise BufferFull(f"{over}; the next place is free later than in {patience:.3g} s, so `send` does not wait for it")
        wait, begins = taken
        if wait <= 0:
            return begins, deadline
        try:
            self.pause(wait)
        except BaseException:
            self.give_back(window, begins)
            raise
        return begins, now + patience

    def give_back(self, window: Window, begins: float) -> None:
        """A place was not used."""
        with self._lock:
            window.give_back(begins)


class Admission:
    """What each record of one topic has to ask."""

    __slots__ = ("__weakref__", "_drop", "_limits", "_over", "_place", "_window")

    def __init__(self, limits: RateLimits, window: Window, over: str, drop: bool) -> None:
        self._limits, self._window, self._over, self._drop = limits, window, over, drop
        self._place = -INFINITY, Place(INFINITY, lambda: None)  # of the current window, for records that have not waited

    def __call__(self, deadline: float = INFINITY) -> Place | BufferFull:
        """Take a place for a record that may wait until `deadline`; see `RateLimits.admission`."""
        taken = self._limits.take(self._window, self._over, deadline, drop=self._drop)
        if isinstance(taken, BufferFull):
            return taken
        begins, until = taken
        known = self._place
        if known[0] == begins and until == INFINITY:
            return known[1]
        place = Place(until, partial(self._limits.give_back, self._window, begins))  # no lambda: it would be in a cycle with this object
        if until == INFINITY:
            self._place = begins, place
        return place
