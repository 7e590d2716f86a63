"""Keeps a clock, and runs planned events. Invariant: all events are in one queue, and events at the same time happen in the order
in which they were planned."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from pykafka4.core import INFINITY

__all__ = ["NEVER", "Moment", "Timeline"]


class Moment:
    """A future event; `cancel` prevents it."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], object] | None) -> None:
        self.act = act

    @property
    def pending(self) -> bool:
        return self.act is not None

    def cancel(self) -> None:
        """Harmless if the event has already happened."""
        self.act = None


NEVER: Final = Moment(None)  # for fields without a planned event


class Timeline:
    """A clock, which its owner moves, and its future events."""

    __slots__ = ("_count", "_moments", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._moments: list[tuple[float, int, Moment]] = []  # tuples compare without calling Python code
        self._count = 0

    def at(self, when: float, act: Callable[[], object]) -> Moment:
        """Call `act` at the time `when`; a time in the past counts as now."""
        self._count = count = self._count + 1
        if when < self.now:
            when = self.now
        moment = Moment(act)
        heappush(self._moments, (when, count, moment))
        return moment

    def after(self, delay: float, act: Callable[[], object]) -> Moment:
        return self.at(self.now + delay, act)

    @property
    def next_at(self) -> float:
        """The time of the next event; infinity if there is none."""
        moments = self._moments
        while moments:
            at, _, moment = moments[0]
            if moment.act is not None:
                return at
            heappop(moments)
        return INFINITY

    def step(self) -> bool:
        """Jump to the next event and run it; return False if there is none."""
        moments = self._moments
        while moments:
            at, _, moment = heappop(moments)
            act, moment.act = moment.act, None
            if act is not None:
                if at > self.now:
                    self.now = at
                act()
                return True
        return False

    def advance(self, to: float) -> None:
        """Run all events up to `to`, in order, each at its own time, or at `now` if that is later."""
        while self.next_at <= to:
            self.step()
        self.now = max(self.now, to)
