"""Limits the part of the backlog that a micro-batch reads. Invariant: a limited batch has offsets of each partition with a backlog.

The rules are the JVM connector's. A limit is divided in proportion to the backlogs, rounded down. Each partition with a backlog gets at
least one offset, so the batch can exceed the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from pykafka4.records import TopicPartition
from pykafka4.spark.source.offsets import Positions

__all__ = ["Holdback", "backlog", "limited"]


def backlog(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Positions:
    """The number of unread offsets of each partition that has some."""
    return {tp: end - starts[tp] for tp, end in ends.items() if end > starts[tp]}


def limited(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int) -> Positions:
    """The ends of the next batch with the limit `most`."""
    waiting = backlog(starts, ends)
    total = sum(waiting.values())
    return {tp: min(end, starts[tp] + _share(waiting[tp], total, most)) if tp in waiting else end for tp, end in ends.items()}


def _share(waiting: int, total: int, most: int) -> int:
    return max(1, waiting * most // total)  # in integers: a float has 53 bits, offsets have 63


@attrs.define
class Holdback:
    """Holds batches back until `least` offsets wait, or until `max_delay_s` after `holds` last returned False.

    The first call returns False.
    """

    least: int
    max_delay_s: float
    last_s: float = -math.inf  # the time when `holds` last returned False

    def holds(self, waiting: int, now_s: float) -> bool:
        """Whether the batch must wait. If not, the delay begins again at `now_s`."""
        if waiting < self.least and now_s - self.last_s < self.max_delay_s:
            return True
        self.last_s = now_s
        return False
