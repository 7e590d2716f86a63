"""Cuts a batch read down to the topics, partitions and offsets that filters leave. `pushdown` makes the limits from filters of Spark."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.records import TopicPartition

__all__ = ["MOST", "ReadLimits"]

MOST: Final = 2**63 - 1


@attrs.frozen
class ReadLimits:
    """The limits of a read. None means all `topics` or `partitions`; the offsets go from `first` up to `end` (not included)."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int = MOST
    since_ms: int | None = None  # the read begins at or after the first record that is not older than this time

    def has(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (self.partitions is None or tp.partition in self.partitions)

    def span(self, start: int, until: int, since: int) -> tuple[int, int]:
        """`since` is the offset of `since_ms`."""
        return max(start, self.first, since), min(until, self.end)
