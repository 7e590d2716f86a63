"""Keeps the counts of the current, the last finished and all earlier intervals. Invariant: each count is in exactly one interval."""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.agent.account.tallies import Tallies
from pykafka4.agent.account.values import Report
from pykafka4.agent.settings.values import ReportSettings

__all__ = ["Reports"]


class Reports:
    """Intervals of fixed length, by a monotonic clock. The caller holds the ledger's lock."""

    def __init__(self, settings: ReportSettings, clock: Callable[[], float], started_at: float) -> None:
        """`clock` is in seconds; `started_at` is the current time, in seconds since the epoch."""
        self._prefix_size, self._interval, self._clock = settings.prefix_size, settings.interval_s, clock
        self._origin, self._started_at = clock(), started_at
        self._number = 0
        self._ends = self._origin + self._interval
        self._tallies, self._before = Tallies(self._prefix_size), Tallies(self._prefix_size)
        self._finished: Report | None = None
        self._finished_read = True  # there is no report yet
        self.unread = 0  # finished reports that were replaced before they were read

    def current(self) -> Tallies:
        """Begin a new interval if it is time; return the current interval's tallies."""
        now = self._clock()
        if now >= self._ends:
            self._turn(now)
        return self._tallies

    def totals(self) -> tuple[Tallies, Tallies]:
        """Return the tallies of all finished intervals together, and of the current interval."""
        current = self.current()
        return self._before, current

    def _turn(self, now: float) -> None:
        """End the current interval, and the empty intervals that have passed without a call."""
        # At `now == _ends` the division may round down to the number of the interval that ends.
        number = max(int((now - self._origin) // self._interval), self._number + 1)
        skipped = number - self._number - 1  # empty intervals: the end of each replaces a report that nobody could read
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
        current = self.current()
        return current.report(self._number, self._start_of(self._number), None)

    def finished(self) -> Report | None:
        self.current()
        self._finished_read = True
        return self._finished

    def total(self) -> Report:
        before, current = self.totals()
        everything = Tallies(self._prefix_size)
        everything.absorb(before)
        everything.absorb(current)
        return everything.report(0, self._start_of(0), None)
