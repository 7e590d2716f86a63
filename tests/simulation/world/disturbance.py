"""What faults keep from working, and for how long. Invariant: time that no fault explains is the client's own.

A fault has a place: the partitions that it stops. One that only misleads (metadata that is stale, slow or damaged, a broker that is asked
and does not answer) stops no partition that works; it makes another fault's effects last longer, where the two meet.
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
    """From `start` to `end` partitions `tps` (None: all) may stand still, others where another fault has stopped them already."""

    start: float
    end: float
    tps: frozenset[TopicPartition] | None
    node: int | None  # the broker that it is at, if it is at one


class Disturbances:
    """All faults of a schedule. `base` seconds without an acknowledgement are normal, `aftermath` seconds after a fault are the fault's.

    `leader(tp)` is the broker that a partition has moved to without a fault that says so; -1: that does not happen.
    """

    def __init__(self, base: float, aftermath: float, leader: Callable[[TopicPartition], int]) -> None:
        self.base, self.aftermath, self._leader = base, aftermath, leader
        self._all: list[Disturbance] = []

    def add(self, start: float, end: float, tps: frozenset[TopicPartition] | None = EVERYTHING, node: int | None = None) -> None:
        """A fault from `start` to `end`. They are reported in the order in which they start."""
        self._all.append(Disturbance(start, end, tps, node))

    def calm(self, tp: TopicPartition | None, since: float, now: float) -> float:
        """Seconds from `since` to `now` in which nothing kept `tp` (None: one that any fault may concern) from going on."""
        calm, at = 0.0, since
        for start, end in self._spans(tp):
            if end <= at:
                continue
            if start >= now:
                break
            calm += max(0.0, start - at)
            at = max(at, end)
        return calm + max(0.0, now - at)

    def _spans(self, tp: TopicPartition | None) -> list[tuple[float, float]]:
        """When `tp` may stand still: from each fault that stops it, for as long as other faults go on meanwhile."""
        spans: list[tuple[float, float]] = []
        until = 0.0  # the end of the aftermath of all faults so far, wherever they are
        leader = -1 if tp is None else self._leader(tp)
        stopped = 0.0  # until when `tp` may stand still
        for fault in self._all:
            end = fault.end + self.aftermath
            until = max(until, end)
            if tp is None or fault.tps is None or tp in fault.tps or fault.node == leader:
                stopped = max(stopped, until)
                spans.append((fault.start, stopped))
            elif fault.start <= stopped and end > stopped:
                stopped = end
                spans.append((fault.start, stopped))
        return spans
