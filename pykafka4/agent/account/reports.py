"""Reports of intervals: the current one, the last finished one, and all together. Invariant: each count is in exactly one interval."""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.agent.account.tallies import Tallies
from pykafka4.agent.account.values import Report
from pykafka4.agent.settings.values import ReportSettings

__all__ = ["Reports"]


class Reports:
    """Intervals of fixed length since the start, on a monotonic clock: a wall clock that is set does not move them. No lock."""

    def __init__(self, settings: ReportSettings, clock: Callable[[], float], started_at: float) -> None:
        """`clock` is in seconds; `started_at` is the wall clock's time now, in seconds since the epoch."""
        self._prefix_size, self._interval, self._clock = settings.prefix_size, settings.interval_s, clock
        self._origin, self._started_at = clock(), started_at
        self._number = 0
        self._ends = self._origin + self._interval
        self._tallies, self._before = Tallies(self._prefix_size), Tallies(self._prefix_size)
        self._finished: Report | None = None
        self._finished_read = True  # there is none yet that could be missed
        self.unread = 0  # finished reports that were replaced before anybody read them

    def current(self) -> Tallies:
        """The tallies of the interval that goes on now."""
        now = self._clock()
        if now >= self._ends:
            self._turn(now)
        return self._tallies

    def totals(self) -> tuple[Tallies, Tallies]:
        """The tallies of the finished intervals together, and those of the current one."""
        current = self.current()
        return self._before, current

    def _turn(self, now: float) -> None:
        """The interval has ended, and perhaps empty ones after it."""
        number = max(int((now - self._origin) // self._interval), self._number + 1)  # the division may round down
        skipped = number - self._number - 1
        self.unread += (not self._finished_read) + skipped
        last = self._tallies if not skipped else Tallies(self._prefix_size)
        self._finished = last.report(number - 1, self._start_of(number - 1), self._start_of(number))
        self._finished_read = False
        self._before.absorb(self._tallies)
        self._tallies = Tallies(self._prefix_size)
        self._number, self._ends = number, self._origin + (number + 1) * self._interval

    def _start_of(self, number: int) -> int:
        return int(self._started_at + number * self._interval)

    def unfinished(self) -> Report:
        """The interval that goes on now."""
        current = self.current()
        return current.report(self._number, self._start_of(self._number), None)

    def finished(self) -> Report | None:
        """The last interval that has ended; None in the first one. It counts as read."""
        self.current()
        self._finished_read = True
        return self._finished

    def total(self) -> Report:
        """All intervals together."""
        before, current = self.totals()
        everything = Tallies(self._prefix_size)
        everything.absorb(before)
        everything.absorb(current)
        return everything.report(0, self._start_of(0), None)
