"""Judges figures by bars. Invariant: medians over all rounds are judged, and a figure under wrong conditions is marked as doubtful."""

from __future__ import annotations

import statistics
from typing import Any

import attrs

__all__ = ["CLIENTS", "OURS", "PEER", "Row", "Table"]

OURS, PEER = CLIENTS = ("pykafka4", "confluent")
NAME, FIGURE = 62, 11  # columns


@attrs.define
class Row:
    """One measured figure, of both clients if both can do the work.

    `most`: the largest figure of ours that meets the bar. `times`: the largest multiple of the peer's figure that meets it. Without both
    the row is not judged.
    """

    name: str
    most: float | None = None
    times: float | None = None
    figures: dict[str, list[float]] = attrs.field(factory=lambda: {client: [] for client in CLIENTS})
    doubts: dict[str, None] = attrs.field(factory=dict)

    def median(self, client: str) -> float | None:
        return statistics.median(self.figures[client]) if self.figures[client] else None

    @property
    def ratio(self) -> float | None:
        ours, theirs = self.median(OURS), self.median(PEER)
        return ours / theirs if ours is not None and theirs else None

    @property
    def met(self) -> bool | None:
        """None if there is no bar, or no figure."""
        ours = self.median(OURS)
        verdicts = [ours <= self.most] if self.most is not None and ours is not None else []
        if self.times is not None and self.ratio is not None:
            verdicts.append(self.ratio <= self.times)
        return all(verdicts) if verdicts else None

    @property
    def bar(self) -> str:
        told = [] if self.most is None else [f"{self.most:g}"]
        return ", ".join([*told, *([] if self.times is None else [f"{self.times:g} x its"])])

    @property
    def verdict(self) -> str:
        judged = {True: "met", False: "MISSED", None: ""}[self.met]
        return judged + (f" (in doubt: {'; '.join(self.doubts)})" if self.doubts else "")

    def __str__(self) -> str:
        shown = [self.median(OURS), self.median(PEER), self.ratio]
        cells = [f"{'-' if figure is None else f'{figure:.4g}':>{FIGURE}}" for figure in shown]
        return f"{self.name:{NAME}}{''.join(cells)}  {self.bar:16}{self.verdict}".rstrip()


@attrs.define
class Table:
    rows: dict[str, Row] = attrs.Factory(dict)

    def note(
        self, name: str, client: str, figure: float, *, most: float | None = None, times: float | None = None, doubt: str | None = None
    ) -> None:
        row = self.rows.setdefault(name, Row(name, most, times))
        row.figures[client].append(figure)
        if doubt:
            row.doubts[f"{client}: {doubt}"] = None

    @property
    def missed(self) -> list[str]:
        return [row.name for row in self.rows.values() if row.met is False]

    def show(self) -> None:
        print(f"\n{'medians':{NAME}}{OURS:>{FIGURE}}{PEER:>{FIGURE}}{'ratio':>{FIGURE}}  {'bar':16}verdict")
        for row in self.rows.values():
            print(row)
        if any(row.met is not None for row in self.rows.values()):
            print(f"MISSED: {'; '.join(self.missed)}" if self.missed else "every bar is met", flush=True)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"name": row.name, "bar": row.bar, "met": row.met, "doubts": list(row.doubts), "figures": row.figures}
            for row in self.rows.values()
        ]
