"""Rate limits. Rule: of a topic with a limit, no more records are taken in a window than that; time is an argument.

Windows are fixed: the first record after a window has ended begins the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import attrs

from pykafka4.errors import BufferFull, KafkaError
from pykafka4.policies import Matcher, RateLimit

__all__ = ["RateLimits", "Window"]

INFINITY: Final = float("inf")
MANY: Final = 1_000  # windows kept, ended ones included


@attrs.define
class Window:
    """The window of one topic. It may lie in the future: then those who wait have taken all places before it."""

    most: int
    interval: float
    begins: float = -INFINITY
    taken: int = 0

    def take(self, now: float, patience: float) -> float | None:
        """Take the next place; returns in how many seconds it may be used, or None if that is longer than `patience`: nothing is taken.

        Places are given in the order of the calls, so whoever waits is served first come, first served.
        """
        begins, taken = self.begins, self.taken
        if now >= begins + self.interval:
            begins, taken = now, 0
        elif taken >= self.most:
            begins, taken = begins + self.interval, 0
        wait = max(0.0, begins - now)
        if wait > patience:
            return None
        self.begins, self.taken = begins, taken + 1
        return wait

    def over(self, now: float) -> bool:
        """Whether a new window would do the same."""
        return now >= self.begins + self.interval


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
        """`patience()` is how many seconds a record may wait: 0 for one that is dropped instead; `pause(seconds)` waits, or raises.

        `lock` guards the windows; it has to be reentrant, since a destructor may send anywhere.
        """
        self._find = Matcher({limit.pattern: limit for limit in limits})
        self._patience, self._clock, self._lock, self._pause = patience, clock, lock, pause
        self._windows: dict[str, Window] = {}

    def admission(self, topic: str, *, drop: bool) -> Callable[[], KafkaError | None] | None:
        """What each record of `topic` has to ask: None lets it pass, perhaps after a while; an error says why it is dropped.

        Returns None for a topic without limit. Without `drop`, asking raises BufferFull if the record would have to wait too long.
        """
        limit = self._find(topic)
        if limit is None:
            return None
        window, over = self._window(topic, limit), f"{topic}: over its limit of {limit}"
        if drop:
            return lambda: self._take(window, 0.0, over)
        return lambda: self._wait(window, over)

    def _window(self, topic: str, limit: RateLimit) -> Window:
        """That of `topic`. It outlives the accumulator's entry for the topic, which may be shorter than an interval."""
        if len(self._windows) >= MANY:
            now = self._clock()
            self._windows = {name: window for name, window in self._windows.items() if not window.over(now)}
        return self._windows.setdefault(topic, Window(limit.max_messages, limit.interval_ms / 1000))

    def _take(self, window: Window, patience: float, over: str) -> KafkaError | None:
        with self._lock:
            wait = window.take(self._clock(), patience)
        if wait is None:
            return BufferFull(over)
        if wait > 0:
            self._pause(wait)
        return None

    def _wait(self, window: Window, over: str) -> None:
        patience = self._patience()
        if (error := self._take(window, patience, over)) is not None:
            raise BufferFull(f"{error}; the next place is free later than in {patience:g} s, so `send` does not wait for it")
