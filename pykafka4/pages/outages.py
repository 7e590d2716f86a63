"""Keeps a timeline of outages, for example of the cluster, a broker or a disk. Invariant: the timeline is bounded, and a subject has at
most one open outage.

An outage is recorded only after two looks in a row have shown it, because a connection that is lost and dialled again at once is no outage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs

__all__ = ["Outage", "Outages"]

MOST_ENDED: Final = 200
MOST_OPEN: Final = 100
MOST_TEXT: Final = 300


@attrs.frozen
class Outage:
    """An outage of a subject. Times are in seconds since the epoch; `ended_at` is None while the outage is open."""

    subject: str
    reason: str
    started_at: float
    ended_at: float | None = None


class Outages:
    def __init__(self) -> None:
        self._open: dict[str, Outage] = {}
        self._suspected: dict[str, Outage] = {}
        self._ended: deque[Outage] = deque(maxlen=MOST_ENDED)

    def note(self, at: float, found: Mapping[str, str]) -> None:
        """Record the subjects that a look has found out of order, with the reasons; end the outages of all other subjects."""
        for subject in [subject for subject in self._open if subject not in found]:
            outage = self._open.pop(subject)
            self._ended.append(attrs.evolve(outage, ended_at=max(at, outage.started_at)))
        suspected: dict[str, Outage] = {}
        for subject, reason in found.items():
            outage = self._open.get(subject) or self._suspected.get(subject) or Outage(subject, "", at)
            outage = attrs.evolve(outage, reason=reason[:MOST_TEXT])
            if subject in self._open or (subject in self._suspected and len(self._open) < MOST_OPEN):
                self._open[subject] = outage
            elif len(suspected) < MOST_OPEN:
                suspected[subject] = outage
        self._suspected = suspected

    def all(self) -> list[Outage]:
        going_on = sorted(self._open.values(), key=_cluster_first)
        return [*going_on, *reversed(self._ended)]

    def as_json(self, most: int) -> dict[str, Any]:
        found = self.all()
        rows = [attrs.asdict(outage) for outage in found[:most]]
        return {"rows": rows, "count": len(found)}

    def since(self, subject: str) -> float | None:
        outage = self._open.get(subject)
        return None if outage is None else outage.started_at


def _cluster_first(outage: Outage) -> tuple[bool, float]:
    return outage.subject != "cluster", -outage.started_at
