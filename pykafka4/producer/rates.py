"""Limits the number of records that are sent to each topic in a window of time. Invariant: at most `most` places of a window are taken.

All windows of a topic have the same length. A window begins with its first record, or, if records wait for it, when the previous one ends.
A record that waits takes its place before its wait. Callers pass the time, or a clock.
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
from pykafka4.wire.records.policy import Admission

__all__ = ["RateLimits", "Window"]

INFINITY: Final = float("inf")
MANY: Final = 1_000  # windows; from this number on, ended and unused windows are dropped


@attrs.define(eq=False)
class Window:
    """The latest window of one topic in which a place was taken. If the window begins in the future, no earlier place is free.

    A signal handler, or a destructor, may take a place while its own thread is in `take`, where no lock helps. So `_state` is replaced in
    one step: no other Python code runs between the comparison with the state that was read and the assignment. Otherwise the handler's
    place could be overwritten, and the window would give one place too many.
    """

    most: int
    interval: float
    _state: tuple[float, int] = attrs.field(default=(-INFINITY, 0), init=False)  # (the time when the window begins, places taken)
    # Returns the TopicRateLimit that takes places of this window; None before the first, and after it was garbage-collected.
    user: Callable[[], TopicRateLimit | None] = attrs.field(default=lambda: None, init=False)

    @property
    def begins(self) -> float:
        return self._state[0]

    def take(self, now: float, patience: float) -> tuple[float, float] | None:
        """Take the next place; return (seconds until the place may be used, the time when its window begins).

        Returns None, and takes no place, if the record would have to wait for more than `patience` seconds, or forever (`most` is 0).
        First come, first served.
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
        """Free the place, unless a place of a later window was taken."""
        while True:
            state = self._state
            if state[0] != begins or state[1] == 0:
                return
            following = begins, state[1] - 1
            if self._state is state:
                self._state = following
                return

    def over(self, now: float) -> bool:
        return now >= self._state[0] + self.interval


class RateLimits:
    def __init__(
        self,
        limits: tuple[RateLimit, ...],
        patience: Callable[[], float],
        clock: Callable[[], float],
        lock: AbstractContextManager[Any, bool | None],
        pause: Callable[[float], object],
    ) -> None:
        """`patience()` returns the seconds for which a `send` on this thread may wait; `pause(seconds)` waits, or raises.

        `lock` guards the windows. It has to be reentrant: a destructor may call `send` even while its thread holds the lock.
        """
        self._find = Matcher({limit.pattern: limit for limit in limits})
        self._patience, self._clock, self._lock, self.pause = patience, clock, lock, pause
        self.windows: dict[str, Window] = {}
        self._many = MANY

    def admission(self, topic: str, *, drop: bool) -> TopicRateLimit | None:
        """The callable that gives each record of `topic` its place; None for a topic without a limit.

        If a record would have to wait, then with `drop` the callable returns the error with which the record is dropped. Without `drop` the
        callable waits, and returns an Admission, or raises BufferFull if the wait would be too long.
        """
        limit = self._find(topic)
        if limit is None or limit.max_messages is None:
            return None
        with self._lock:
            window = self._window(topic, limit.max_messages, limit.interval_ms / 1000)
            found = window.user()
            if found is None:
                found = TopicRateLimit(self, window, f"{topic}: over its limit of {limit}", drop)
                window.user = weakref.ref(found)
            return found

    def _window(self, topic: str, most: int, interval: float) -> Window:
        """The window of `topic`. It outlives the accumulator's entry for the topic, which may live for less than an interval."""
        if len(self.windows) >= self._many and topic not in self.windows:
            now = self._clock()
            for name, window in self.windows.copy().items():  # a copy: a destructor may send to a new topic during the loop
                if window.user() is None and window.over(now):
                    self.windows.pop(name, None)
            self._many = max(MANY, 2 * len(self.windows))  # doubled: otherwise each new topic would check all windows again
        return self.windows.setdefault(topic, Window(most, interval))

    def take(self, window: Window, over: str, deadline: float, *, drop: bool) -> tuple[float, float] | BufferFull:
        """Take a place, and wait for it; return (the time when the place's window begins, the record's deadline for waits).

        With `drop`, returns a BufferFull instead of waiting. Raises BufferFull if the wait would be too long.
        """
        now = self._clock()
        patience = 0.0 if drop else max(0.0, min(self._patience(), deadline - now))
        with self._lock:
            taken = window.take(now, patience)
        if taken is None and drop:
            return BufferFull(over)
        if taken is None and window.most == 0:
            raise BufferFull(f"{over}, which allows no record")
        if taken is None:
            raise BufferFull(f"{over}; no place is free within {patience:.3g} s, so `send` does not wait")
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
        with self._lock:
            window.give_back(begins)


class TopicRateLimit:
    """The rate limit of one topic: a callable that gives each record its place."""

    __slots__ = ("__weakref__", "_admission", "_drop", "_limits", "_over", "_window")

    def __init__(self, limits: RateLimits, window: Window, over: str, drop: bool) -> None:
        self._limits, self._window, self._over, self._drop = limits, window, over, drop
        # The time when a window begins, and the admission of all its records that have not waited: one object instead of many.
        self._admission = -INFINITY, Admission(INFINITY, lambda: None)

    def __call__(self, deadline: float = INFINITY) -> Admission | BufferFull:
        taken = self._limits.take(self._window, self._over, deadline, drop=self._drop)
        if isinstance(taken, BufferFull):
            return taken
        begins, until = taken
        known = self._admission
        if known[0] == begins and until == INFINITY:
            return known[1]
        # Not a lambda, which would be in a cycle with `self`.
        admission = Admission(until, partial(self._limits.give_back, self._window, begins))
        if until == INFINITY:
            self._admission = begins, admission
        return admission
