"""Turns filters of Spark into limits of a batch read. Invariant: no row that passes the filters is left out.

A filter on topic, partition or offset that becomes a limit is exact, so Spark need not apply it again. A filter on the timestamp only moves
the beginning of the read: later records may have earlier timestamps, so Spark also applies the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import attrs
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from pykafka4.spark.source.batch import KafkaBatchReader
from pykafka4.spark.source.pruning import MOST, ReadLimits

__all__ = ["FilteringReader", "limits_of"]

T = TypeVar("T")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FilteringReader(KafkaBatchReader):
    """A reader with filter pushdown. A separate class, because Spark refuses readers with `pushFilters` unless a setting of Spark is on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self.limits, left = limits_of(filters)
        return left


def limits_of(filters: Iterable[Filter]) -> tuple[ReadLimits, list[Filter]]:
    limits, left = ReadLimits(), []
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        narrowed = NARROW[column](limits, each) if column in NARROW else None
        limits = limits if narrowed is None else narrowed
        if narrowed is None or column == "timestamp":
            left.append(each)
    return limits, left


def _topics(limits: ReadLimits, filter: Filter) -> ReadLimits | None:
    values = _values(filter, str)
    return None if values is None else attrs.evolve(limits, topics=_both(limits.topics, values))


def _partitions(limits: ReadLimits, filter: Filter) -> ReadLimits | None:
    values = _values(filter, int)
    return None if values is None else attrs.evolve(limits, partitions=_both(limits.partitions, values))


def _both(before: frozenset[T] | None, values: frozenset[T]) -> frozenset[T]:
    return values if before is None else before & values


def _values(filter: Filter, kind: type) -> frozenset[Any] | None:
    values = filter.value if isinstance(filter, In) else [filter.value] if isinstance(filter, EqualTo) else None
    return None if values is None else frozenset(value for value in values if isinstance(value, kind))


def _offsets(limits: ReadLimits, filter: Filter) -> ReadLimits | None:
    if isinstance(filter, In):
        values = _values(filter, int)
        outer = (min(values), max(values) + 1) if values else (0, 0)
        return None if values and outer[1] - outer[0] > len(values) else _cut(limits, *outer)
    if type(filter) not in RANGES or not isinstance(filter.value, int):  # type: ignore[attr-defined]
        return None
    return _cut(limits, *RANGES[type(filter)](filter.value))  # type: ignore[attr-defined]


def _cut(limits: ReadLimits, first: int, end: int) -> ReadLimits:
    return attrs.evolve(limits, first=max(limits.first, first), end=min(limits.end, end))


RANGES: Final[Mapping[type, Callable[[int], tuple[int, int]]]] = {
    EqualTo: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, MOST),
    GreaterThanOrEqual: lambda value: (value, MOST),
    LessThan: lambda value: (0, value),
    LessThanOrEqual: lambda value: (0, value + 1),
}


def _since(limits: ReadLimits, filter: Filter) -> ReadLimits | None:
    if not isinstance(filter, (EqualTo, GreaterThan, GreaterThanOrEqual)) or not isinstance(filter.value, datetime):
        return None
    time = filter.value
    if time.tzinfo is None:
        return None  # the time zone is unknown, so the filter cannot become a time
    ms = (time - EPOCH) // timedelta(milliseconds=1)
    if ms < 0:
        return None  # a record without a timestamp has -1, and a lookup by time does not find it
    return attrs.evolve(limits, since_ms=max(limits.since_ms or 0, ms))


NARROW: Final[Mapping[str, Callable[[ReadLimits, Filter], ReadLimits | None]]] = {
    "topic": _topics,
    "partition": _partitions,
    "offset": _offsets,
    "timestamp": _since,
}
