"""Counts values by size, in fixed buckets. Invariant: counts only grow; a value costs one search among the bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import attrs

__all__ = ["BATCH_BYTES", "BATCH_RECORDS", "SECONDS", "BucketCounts", "Histogram"]

# Durations in seconds: the buckets of OpenTelemetry's conventions for messaging.
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
BATCH_RECORDS: Final = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
BATCH_BYTES: Final = (1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0)


@attrs.frozen
class Histogram:
    """A copy of the counts: `counts[i]` values are above `bounds[i - 1]` and at most `bounds[i]`; the last item counts the values
    above all bounds.

    `sum` is the sum of all values, in the unit of the metric.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def plus(self, other: Histogram) -> Histogram:
        """Return the sum of both histograms. `other` must have the same bounds."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts, self.sum + other.sum)


class BucketCounts:
    """Counts of all values so far. Only one thread may call `add`."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> Histogram:
        return Histogram(self._bounds, tuple(self._counts), self._sum)
