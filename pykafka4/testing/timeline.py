"""Time as data. Rule: everything that happens later is an entry (time, number) here; equal times keep the order they were made in."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from pykafka4.core import INFINITY

__all__ = ["NEVER", "Moment", "Timeline"]


class Moment:
    """Something that will happen; `cancel` makes it not happen."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], object] | None) -> None:
        self.act = act

    @property
    def pending(self) -> bool:
        """Whether it is still to happen."""
        return self.act is not None

    def cancel(self) -> None:
        """Forget it; harmless when it has happened already."""
        self.act = None


NEVER: Final = Moment(None)  # where nothing has been planned yet


class Timeline:
    """A clock and what is due on it. Whoever owns it moves it: the simulation by jumping, the server by the real clock."""

    __slots__ = ("_count", "_moments", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._moments: list[tuple[float, int, Moment]] = []  # tuples compare without a call of Python code
        self._count = 0

    def at(self, when: float, act: Callable[[], object]) -> Moment:
        """Do `act` at `when`, not before now."""
        self._count = count = self._count + 1
        if when < self.now:
            when = self.now
        moment = Moment(act)
        heappush(self._moments, (when, count, moment))
        return moment

    def after(self, delay: float, act: Callable[[], object]) -> Moment:
        """Do `act` in `delay` seconds."""
        return self.at(self.now + delay, act)

    @property
    def next_at(self) -> float:
        """When the next thing happens; infinity when nothing will."""
        moments = self._moments
        while moments:
            at, _, moment = moments[0]
            if moment.act is not None:
                return at
            heappop(moments)
        return INFINITY

    def step(self) -> bool:
        """Jump to the next thing and do it; False when nothing is left."""
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
        """Do everything that is due up to `to`, in order, each at its own time."""
        while self.next_at <= to:
            self.step()
        self.now = max(self.now, to)
