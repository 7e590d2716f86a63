"""Judges the figures of a case. Invariant: medians of the rounds' figures are compared, and a bar that cannot be judged is not met.

Latencies are in milliseconds, `cpu` in microseconds of the process per operation, `pace` in operations per second. A percentile needs
enough samples: if fewer than one is expected beyond it, there is no figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = ["FIGURES", "PERCENTILES", "Bar", "distribution", "figures", "medians", "percentile", "ratio", "ratios", "verdicts"]

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = (*PERCENTILES, "cpu", "pace")
LARGER_IS_BETTER = frozenset({"pace"})
DIGITS = 4
Figures = Mapping[str, float | None]


@attrs.frozen
class Bar:
    """A bar on one figure: at most `times` the best peer's figure, at least `least` times it, or at most `most`."""

    figure: str
    times: float | None = None
    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        if self.most is not None:
            return f"at most {self.most:g}"
        return f"at most {self.times:g} x" if self.times is not None else f"at least {self.least:g} x"

    def met(self, ours: float | None, ratio: float | None) -> bool | None:
        """None if there is no figure or no ratio."""
        if self.most is not None:
            return None if ours is None else ours <= self.most
        if ratio is None:
            return None
        return ratio <= self.times if self.times is not None else ratio >= (self.least or 0.0)


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` percent do not exceed; None if there are too few values for one to exceed it."""
    if not 0 < percent < 100:
        raise ValueError(f"{percent} is no percentile")
    count = len(ordered)
    if count * (100 - percent) < 100 - 1e-6:
        return None
    return ordered[math.ceil(count * percent / 100 - 1e-9) - 1]


def figures(run: Mapping[str, Any]) -> dict[str, float | None]:
    ordered = sorted(run["latencies"])
    found: dict[str, float | None] = {name: percentile(ordered, percent) for name, percent in PERCENTILES.items()}
    operations, seconds = run["operations"], run["seconds"]
    found["cpu"] = 1e6 * run["cpu"] / operations if operations else None
    found["pace"] = operations / seconds if seconds else None
    return found


def medians(rounds: Sequence[Figures]) -> dict[str, float | None]:
    """None for a figure that a round lacks."""
    found: dict[str, float | None] = {}
    for name in FIGURES:
        values = [each[name] for each in rounds]
        known = [value for value in values if value is not None]
        found[name] = statistics.median(known) if known and len(known) == len(values) else None
    return found


def ratio(name: str, ours: Figures, peers: Sequence[Figures]) -> float | None:
    """None without our figure, without any peer's, and if the best is 0."""
    theirs = [value for each in peers if (value := each[name]) is not None]
    mine = ours[name]
    if mine is None or not theirs:
        return None
    best = max(theirs) if name in LARGER_IS_BETTER else min(theirs)
    return mine / best if best > 0 else None


def ratios(ours: Figures, peers: Sequence[Figures]) -> dict[str, float | None]:
    return {name: ratio(name, ours, peers) for name in FIGURES}


def verdicts(bars: Sequence[Bar], ours: Figures, compared: Figures) -> dict[str, bool | None]:
    """Return which bars are met, by figure. `compared`: the ratios."""
    return {bar.figure: bar.met(ours[bar.figure], compared[bar.figure]) for bar in bars}


def distribution(latencies: Sequence[float]) -> list[tuple[float, float]]:
    """(percent, milliseconds) for a plot, with more percentiles towards 100, as far as there are samples."""
    ordered = sorted(latencies)
    points = [*range(1, 100), *(99 + tenth / 10 for tenth in range(1, 10)), *(99.9 + tenth / 100 for tenth in range(1, 10)), 99.999]
    found = ((round(point, 3), percentile(ordered, point)) for point in points)
    return [(point, float(f"{value:.{DIGITS}g}")) for point, value in found if value is not None]
