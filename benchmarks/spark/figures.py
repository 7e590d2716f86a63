"""Collects the figures of each contender, a dictionary for each round, and shows their medians."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import attrs

__all__ = ["NAME", "Figures"]

NAME, FIGURE = 56, 16  # columns
LARGE = 100  # from here on without decimals


@attrs.define
class Figures:
    of: dict[str, dict[str, list[float]]] = attrs.field(factory=dict)

    def note(self, label: str, found: Mapping[str, float]) -> None:
        for unit, figure in found.items():
            self.of.setdefault(label, {}).setdefault(unit, []).append(figure)

    def median(self, label: str, unit: str) -> float:
        return statistics.median(self.of[label][unit])

    def show(self, title: str, labels: Sequence[str]) -> None:
        """Print the medians of some contenders, and each round's figure of the first unit."""
        if not labels:
            return
        units = list(self.of[labels[0]])
        print(f"\n{title:{NAME}}" + "".join(f"{unit:>{FIGURE}}" for unit in units))
        for label in labels:
            cells = "".join(f"{format_figure(self.median(label, unit)):>{FIGURE}}" for unit in units)
            rounds = ", ".join(format_figure(figure) for figure in self.of[label][units[0]])
            print(f"  {label:{NAME - 2}}{cells}   ({rounds})")


def format_figure(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= LARGE else f"{figure:.2f}"
