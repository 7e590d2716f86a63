"""Limits of a batch read: the topics, partitions and offsets that are left of it. Pure: `pushdown` makes them of filters."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.records import TopicPartition

__all__ = ["MOST", "Limits"]

MOST: Final = 2**63 - 1


@attrs.frozen
class Limits:
    """What is left of a read. Of `topics` and `partitions`, None is all; the offsets go from `first` up to but without `end`."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int = MOST
    since_ms: int | None = None  # no record before the first one with this timestamp

    def has(self, tp: TopicPartition) -> bool:
        """Whether rows of this partition may pass."""
        return (self.topics is None or tp.topic in self.topics) and (self.partitions is None or tp.partition in self.partitions)

    def span(self, start: int, until: int, since: int) -> tuple[int, int]:
        """What is left of an offset range; `since` is the offset that belongs to `since_ms`."""
        return max(start, self.first, since), min(until, self.end)
