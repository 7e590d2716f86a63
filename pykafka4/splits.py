"""Divides a bounded read into splits. Invariant: each offset of the read is in exactly one split, and no split is empty.

This module does no I/O: `Client.splits` looks up the offsets and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pykafka4.bounds import Span
from pykafka4.records import TopicPartition

__all__ = ["Split", "divide"]


@attrs.frozen
class Split:
    """A part of a bounded read: offset ranges of one or more partitions. A split can be pickled, for another process or machine.

    `ranges` maps each partition to its `Span`, from `start` up to `until` (not included). `bytes` is the estimated size in the log, 0 if
    the size of any partition is unknown. `number` counts the splits of one call from 0.
    """

    number: int
    ranges: Mapping[TopicPartition, Span]
    bytes: int = 0

    def __len__(self) -> int:
        """The number of offsets; compacted logs have fewer records."""
        return sum(span.until - span.start for span in self.ranges.values())

    def __str__(self) -> str:
        shown = ", ".join(f"{tp} {span.start} to {span.until}" for tp, span in self.ranges.items())
        return f"split {self.number}: {shown}"


def divide(spans: Mapping[TopicPartition, Span], sizes: Mapping[TopicPartition, float], n: int) -> list[Split]:
    """Cut the ranges, one after the other, into at most `n` splits of about equal weight.

    `sizes` has the bytes per offset of each partition; if it is empty, all offsets weigh the same.
    """
    whole = {tp: span for tp, span in sorted(spans.items()) if not span.is_empty}
    weights = {tp: sizes[tp] if sizes else 1.0 for tp in whole}
    total = sum(weights[tp] * (span.until - span.start) for tp, span in whole.items())
    parts: list[dict[TopicPartition, Span]] = [{} for _ in range(n)]
    before = 0.0  # the weight of all ranges before this partition's
    for tp, span in whole.items():
        weight = weights[tp]
        for number, piece in _pieces(span, weight, before, total / n, n):
            parts[number][tp] = piece
        before += weight * (span.until - span.start)
    filled = [part for part in parts if part]
    return [Split(number, part, _bytes(part, sizes)) for number, part in enumerate(filled)]


def _pieces(span: Span, weight: float, before: float, share: float, n: int) -> Iterator[tuple[int, Span]]:
    """Yield (number of the part, its piece of `span`). `before`: the weight of the ranges before `span`. `share`: the weight of a part."""
    at, number = span.start, min(int(before / share), n - 1)
    while at < span.until:
        # The last part ends with the last range, because rounding of a computed end could leave offsets in no part.
        end = span.until if number == n - 1 else span.start + round((share * (number + 1) - before) / weight)
        end = min(max(end, at), span.until)
        if end > at:
            yield number, attrs.evolve(span, start=at, until=end)
            at = end
        number += 1


def _bytes(part: Mapping[TopicPartition, Span], sizes: Mapping[TopicPartition, float]) -> int:
    return round(sum(sizes[tp] * (span.until - span.start) for tp, span in part.items())) if sizes else 0
