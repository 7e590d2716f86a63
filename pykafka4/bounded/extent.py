"""Checks the extent of a bounded read: topics and both ends, or a split.

Invariant: a split has its own topics, partitions and ends, so with a split these arguments must have their default values. (A default value
cannot be told from an omitted argument.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pykafka4.bounds import Bounds, Selection, Span, as_bounds, as_selection, now_ms
from pykafka4.errors import ConfigError, shown
from pykafka4.records import TopicPartition
from pykafka4.splits import Split

__all__ = ["Extent", "as_extent"]

START, UNTIL = "earliest", "now"  # the defaults of the arguments: any other value was given by the caller


@attrs.frozen
class Extent:
    """The partitions of a read, with the `bounds` of its ranges, or the `ranges` of a split."""

    topics: Selection
    bounds: Bounds | None = None
    ranges: Mapping[TopicPartition, Span] = attrs.Factory(dict)

    @property
    def names(self) -> Collection[str]:
        return self.topics


def as_extent(call: str, topics: object, start: object, until: object, partitions: object, split: object) -> Extent:
    """Raises ConfigError or TypeError for a wrong argument of `call` (read or read_arrow)."""
    if split is None:
        if topics is None:
            raise TypeError(f"{call} needs topics, or split= with one of the splits of Client.splits")
        chosen = as_selection(topics, partitions)
        return Extent(chosen, as_bounds(start, until, chosen, now_ms()))
    if not isinstance(split, Split):
        raise TypeError(f"split={shown(split)}: takes one of the splits that Client.splits returns")
    given = {"topics": topics is not None, "start": start != START, "until": until != UNTIL, "partitions": partitions is not None}
    if others := [name for name, is_given in given.items() if is_given]:
        raise ConfigError(f"{call}(split=…) takes no {others[0]}: a split has its own; pass {others[0]} to Client.splits")
    return Extent(dict.fromkeys(tp.topic for tp in split.ranges), ranges=split.ranges)
