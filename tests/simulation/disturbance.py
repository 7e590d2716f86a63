"""What faults keep from working, and for how long. Invariant: time that no fault explains is the client's own.

A fault that is over goes on for a while, the `aftermath`: connections are found dead by their timeouts, pauses between attempts have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from pykafka4.records import TopicPartition

__all__ = ["Disturbances"]

EVERYTHING: Final = None


@attrs.frozen
class Disturbance:
    """From `start` to `end` partitions `tps` (None: all) may stand still, and all that `node` leads meanwhile."""

    start: float
    end: float
    tps: frozenset[TopicPartition] | None
    node: int | None


class Disturbances:
    """All faults of a schedule. `base` seconds without an acknowledgement are normal, `aftermath` seconds after a fault are the fault's."""

    def __init__(self, base: float, aftermath: float, leader: Callable[[TopicPartition], int]) -> None:
        self.base, self.aftermath, self._leader = base, aftermath, leader
        self._all: list[Disturbance] = []

    def add(self, start: float, end: float, tps: frozenset[TopicPartition] | None = EVERYTHING, node: int | None = None) -> None:
        """A fault from `start` to `end`."""
        self._all.append(Disturbance(start, end, tps, node))

    def calm(self, tp: TopicPartition | None, since: float, now: float) -> float:
        """Seconds from `since` to `now` in which nothing kept `tp` (None: one that any fault may concern) from going on."""
        spans = sorted((d.start, d.end + self.aftermath) for d in self._all if self._concerns(d, tp))
        calm, at = 0.0, since
        for start, end in spans:
            if end <= at:
                continue
            if start >= now:
                break
            calm += max(0.0, start - at)
            at = max(at, end)
        return calm + max(0.0, now - at)

    def _concerns(self, d: Disturbance, tp: TopicPartition | None) -> bool:
        if tp is None or d.tps is None or tp in d.tps:
            return True
        return d.node is not None and d.node == self._leader(tp)
