"""Time as data. Rule: everything that happens later is an entry (time, number) here; equal times keep the order they were made in."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from pykafka4.core import INFINITY

__all__ = ["Moment", "Timeline"]


class Moment:
    """Something that will happen; `cancel` makes it not happen."""

    __slots__ = ("_number", "act", "at")

    def __init__(self, at: float, number: int, act: Callable[[], object]) -> None:
        self.at = at
        self._number = number
        self.act: Callable[[], object] | None = act

    def cancel(self) -> None:
        """Forget it; harmless when it has happened already."""
        self.act = None

    def __lt__(self, other: Moment) -> bool:
        return (self.at, self._number) < (other.at, other._number)


class Timeline:
    """A clock and what is due on it. Whoever owns it moves it: the simulation by jumping, the server by the real clock."""

    __slots__ = ("_count", "_moments", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._moments: list[Moment] = []
        self._count = 0

    def at(self, when: float, act: Callable[[], object]) -> Moment:
        """Do `act` at `when`, not before now."""
        self._count += 1
        moment = Moment(max(when, self.now), self._count, act)
        heapq.heappush(self._moments, moment)
        return moment

    def after(self, delay: float, act: Callable[[], object]) -> Moment:
        """Do `act` in `delay` seconds."""
        return self.at(self.now + delay, act)

    @property
    def next_at(self) -> float:
        """When the next thing happens; infinity when nothing will."""
        while self._moments and self._moments[0].act is None:
            heapq.heappop(self._moments)
        return self._moments[0].at if self._moments else INFINITY

    def step(self) -> bool:
        """Jump to the next thing and do it; False when nothing is left."""
        if self.next_at == INFINITY:
            return False
        moment = heapq.heappop(self._moments)
        self.now = max(self.now, moment.at)
        act, moment.act = moment.act, None
        assert act is not None
        act()
        return True

    def advance(self, to: float) -> None:
        """Do everything that is due up to `to`, in order, each at its own time."""
        while self.next_at <= to:
            self.step()
        self.now = max(self.now, to)
