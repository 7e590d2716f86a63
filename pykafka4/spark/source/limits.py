"""Admission control: how much of the backlog a micro-batch reads. Invariant: no partition with a backlog is left out of a limited batch.

The rules are those of the JVM connector, so that a job that moves has the same batches. A limit is divided by backlog, rounded down, but
each partition gets one offset at least; so a limit that is smaller than the number of partitions is exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from pykafka4.records import TopicPartition
from pykafka4.spark.source.offsets import Positions

__all__ = ["Holdback", "backlog", "limited"]


def backlog(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Positions:
    """The number of offsets that wait in each partition, of those that have some."""
    return {tp: end - starts[tp] for tp, end in ends.items() if end > starts[tp]}


def limited(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int) -> Positions:
    """The ends of a batch of about `most` offsets."""
    waiting = backlog(starts, ends)
    total = sum(waiting.values())
    return {tp: min(end, starts[tp] + _share(waiting[tp], total, most)) if tp in waiting else end for tp, end in ends.items()}


def _share(waiting: int, total: int, most: int) -> int:
    return max(1, waiting * most // total)  # in integers: a float has 53 bits, offsets have 63


@attrs.define
class Holdback:
    """Holds batches back until `least` offsets wait, for `max_delay_s` at most. The first batch of a run is never held back."""

    least: int
    max_delay_s: float
    last_s: float = -math.inf  # when the last batch began

    def holds(self, waiting: int, now_s: float) -> bool:
        """Whether the batch has to wait; if not, it begins now."""
        if waiting < self.least and now_s - self.last_s < self.max_delay_s:
            return True
        self.last_s = now_s
        return False
