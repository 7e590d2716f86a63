"""Computes rates of counts in the last ten minutes. Invariant: samples are in the order of their times."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs

__all__ = ["POINTS", "STEP_S", "Rates", "Sample"]

STEP_S: Final = 5.0  # seconds between two points of a curve
POINTS: Final = 120
RECENT_S: Final = 5.0  # seconds; the current rates are means over the samples of this time, or over the last two samples
MOST: Final = 1500  # samples: with one every half second, these cover more than POINTS steps


@attrs.frozen
class Sample:
    """Counts since the start, by name, at a monotonic time."""

    at: float
    counts: Mapping[str, int]


class Rates:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._samples: deque[Sample] = deque(maxlen=MOST)

    def add(self, sample: Sample) -> None:
        """Keep the sample if it is later than the last one, and drop samples that no curve needs."""
        if self._samples and sample.at <= self._samples[-1].at:
            return
        self._samples.append(sample)
        oldest = sample.at - STEP_S * (POINTS + 1)
        while len(self._samples) > 2 and self._samples[1].at < oldest:
            self._samples.popleft()

    @property
    def settled(self) -> bool:
        """Whether the samples cover RECENT_S."""
        return len(self._samples) > 1 and self._samples[-1].at - self._samples[0].at >= RECENT_S

    def now(self) -> dict[str, float]:
        """The current rates; 0 before the second sample."""
        if len(self._samples) < 2:
            return dict.fromkeys(self._names, 0.0)
        last = self._samples[-1]
        first = next(sample for sample in self._samples if sample.at >= last.at - RECENT_S or sample is self._samples[-2])
        return {name: (last.counts[name] - first.counts[name]) / (last.at - first.at) for name in self._names}

    def curves(self, names: Sequence[str]) -> dict[str, list[float | None]]:
        """POINTS rates for each name, the newest last; None for times before the first sample."""
        samples = list(self._samples)
        if len(samples) < 2:
            return {name: [None] * POINTS for name in names}
        # The points are on a fixed grid of times: otherwise their values would change while they move to the left.
        end = samples[-1].at // STEP_S * STEP_S
        times = [end - STEP_S * back for back in range(POINTS, -1, -1)]
        ats = [sample.at for sample in samples]
        return {name: _slopes(times, ats, [sample.counts[name] for sample in samples]) for name in names}


def _slopes(times: Sequence[float], ats: Sequence[float], counts: Sequence[int]) -> list[float | None]:
    values = [_at(time, ats, counts) for time in times]
    return [None if before is None or after is None else round((after - before) / STEP_S, 2) for before, after in pairwise(values)]


def _at(time: float, ats: Sequence[float], counts: Sequence[int]) -> float | None:
    """The count at `time`, interpolated between two samples; None before the first and after the last sample."""
    after = bisect_left(ats, time)
    if after == len(ats) or (after == 0 and ats[0] > time):
        return None
    if ats[after] == time:
        return counts[after]
    share = (time - ats[after - 1]) / (ats[after] - ats[after - 1])
    return counts[after - 1] + share * (counts[after] - counts[after - 1])
