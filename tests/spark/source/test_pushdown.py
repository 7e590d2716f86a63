"""Filters become limits of the read, and what is left to Spark: no row that passes is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual, Not

from pykafka4.records import TopicPartition
from pykafka4.spark.source.pruning import MOST, ReadLimits
from pykafka4.spark.source.pushdown import limits_of

TIME = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
TIME_MS = 1_767_323_045_678


@pytest.mark.parametrize(
    ("filter", "limits"),
    [
        (EqualTo(("partition",), 3), ReadLimits(partitions=frozenset({3}))),
        (In(("partition",), (1, 2, None)), ReadLimits(partitions=frozenset({1, 2}))),
        (EqualTo(("topic",), "t"), ReadLimits(topics=frozenset({"t"}))),
        (In(("topic",), ("t", "u")), ReadLimits(topics=frozenset({"t", "u"}))),
        (EqualTo(("offset",), 7), ReadLimits(first=7, end=8)),
        (GreaterThan(("offset",), 7), ReadLimits(first=8)),
        (GreaterThanOrEqual(("offset",), 7), ReadLimits(first=7)),
        (LessThan(("offset",), 7), ReadLimits(end=7)),
        (LessThanOrEqual(("offset",), 7), ReadLimits(end=8)),
        (In(("offset",), (7, 8)), ReadLimits(first=7, end=9)),
    ],
)
def test_an_exact_filter_is_taken_over(filter, limits) -> None:
    assert limits_of([filter]) == (limits, [])


@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_timestamp_says_where_to_begin_and_spark_applies_it_too(kind) -> None:
    filter = kind(("timestamp",), TIME.astimezone(timezone(timedelta(hours=5))))
    assert limits_of([filter]) == (ReadLimits(since_ms=TIME_MS), [filter])


def test_a_timestamp_before_1970_leaves_no_record_out() -> None:
    filter = GreaterThan(("timestamp",), datetime(1969, 12, 31, tzinfo=UTC))
    assert limits_of([filter]) == (ReadLimits(), [filter])


@pytest.mark.parametrize(
    "filter",
    [
        LessThan(("timestamp",), TIME),
        GreaterThan(("timestamp",), TIME.replace(tzinfo=None)),
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 3)),
        GreaterThan(("partition",), 3),
        IsNotNull(("offset",)),
        In(("offset",), (7, 9)),
        EqualTo(("headers", "offset"), 7),
    ],
)
def test_other_filters_are_left_to_spark(filter) -> None:
    assert limits_of([filter]) == (ReadLimits(), [filter])


def test_filters_add_up() -> None:
    at = GreaterThan(("timestamp",), TIME)
    filters = [In(("partition",), (1, 2)), EqualTo(("partition",), 2), GreaterThan(("offset",), 3), LessThan(("offset",), 9), at]
    limits, left = limits_of(filters)
    assert (limits.partitions, limits.first, limits.end, limits.since_ms, left) == ({2}, 4, 9, TIME_MS, [at])
    assert limits_of([EqualTo(("partition",), 1), EqualTo(("partition",), 2)])[0].partitions == frozenset()


def test_limits() -> None:
    limits = ReadLimits(topics=frozenset({"t"}), partitions=frozenset({1}), first=5, end=9)
    assert limits.has(TopicPartition("t", 1))
    assert not limits.has(TopicPartition("t", 0))
    assert not limits.has(TopicPartition("u", 1))
    assert limits.span(0, 100, since=7) == (7, 9)
    assert limits.span(6, 8, since=0) == (6, 8)
    assert ReadLimits().span(3, 4, since=0) == (3, 4)
    assert ReadLimits().end == MOST
