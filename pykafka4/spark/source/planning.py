"""Divides a read into the offset ranges of tasks. Invariant: each offset of the read is in exactly one range; equal arguments give equal
ranges.

The rules are the JVM connector's. By default, a partition is one range. It is divided into ranges of about the same size if it has more
than maxRecordsPerPartition offsets, or if there are fewer ranges than minPartitions and the partition is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType

import attrs

from pykafka4.records import TopicPartition
from pykafka4.spark.source.ranges import OffsetRange

__all__ = ["plan"]


def plan(
    spans: Mapping[TopicPartition, tuple[int, int]],
    min_partitions: int | None = None,
    max_records: int | None = None,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> list[OffsetRange]:
    """`spans`: (start, end) of each partition. The ranges are sorted by topic, partition and offset."""
    ranges = [OffsetRange(*tp, start, until, topic_ids.get(tp.topic, "")) for tp, (start, until) in sorted(spans.items()) if start < until]
    if max_records is not None:
        ranges = [piece for each in ranges for piece in _divided(each, -(-len(each) // max_records))]
    if min_partitions is None or len(ranges) >= min_partitions:
        return ranges
    return list(_shared_out(ranges, min_partitions))


def _shared_out(ranges: list[OffsetRange], wanted: int) -> Iterable[OffsetRange]:
    """Up to about `wanted` ranges. Small ranges stay undivided; the others are divided into the remaining parts, in proportion to their
    sizes.
    """
    total = sum(map(len, ranges))
    small = [_share(each, total, wanted) == 1 for each in ranges]
    left = max(wanted - sum(small), 1)
    large_total = sum(len(each) for each, is_small in zip(ranges, small, strict=True) if not is_small)
    for each, is_small in zip(ranges, small, strict=True):
        yield from _divided(each, 1 if is_small else _share(each, large_total, left))


def _share(part: OffsetRange, total: int, wanted: int) -> int:
    """The number of parts of `part`, if a read of `total` offsets has `wanted` parts: rounded half up, and at least one."""
    return max((2 * len(part) * wanted + total) // (2 * total), 1)


def _divided(part: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    parts = min(parts, len(part))
    ends = [part.start + len(part) * number // parts for number in range(parts + 1)]
    return [attrs.evolve(part, start=start, until=until) for start, until in pairwise(ends)]
