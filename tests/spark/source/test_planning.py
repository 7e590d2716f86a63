"""Ranges of tasks: every offset once, the same ranges for the same arguments, as many as asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka4.records import TopicPartition
from pykafka4.spark.source.planning import plan
from pykafka4.spark.source.ranges import OffsetRange

SPANS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12)),
    st.tuples(st.integers(0, 50), st.integers(0, 1_000)),
    max_size=12,
)
LIMIT = st.none() | st.integers(1, 60)


def test_one_range_for_each_partition_that_has_offsets() -> None:
    spans = {
        TopicPartition("t", 10): (0, 5),
        TopicPartition("t", 2): (3, 4),
        TopicPartition("a", 0): (7, 7),
        TopicPartition("s", 0): (9, 8),
    }
    assert plan(spans) == [OffsetRange("t", 2, 3, 4), OffsetRange("t", 10, 0, 5)]
    assert plan({}) == []


def test_large_partitions_share_the_parts_and_small_ones_stay_whole() -> None:
    spans = {TopicPartition("t", 0): (0, 1000), TopicPartition("t", 1): (0, 1000), TopicPartition("t", 2): (0, 10)}
    assert [(part.partition, len(part)) for part in plan(spans, min_partitions=5)] == [(0, 500), (0, 500), (1, 500), (1, 500), (2, 10)]
    assert len(plan(spans, min_partitions=3)) == 3
    assert len(plan(spans, min_partitions=1)) == 3


def test_max_records_divides_into_parts_of_about_the_same_size() -> None:
    parts = plan({TopicPartition("t", 0): (5, 16)}, max_records=4)
    assert [(part.start, part.until) for part in parts] == [(5, 8), (8, 12), (12, 16)]


def test_more_parts_than_offsets() -> None:
    assert [len(part) for part in plan({TopicPartition("t", 0): (0, 3)}, min_partitions=100)] == [1, 1, 1]


@given(SPANS, LIMIT, LIMIT)
def test_each_offset_is_in_exactly_one_range(spans, min_partitions, max_records) -> None:
    parts = plan(spans, min_partitions, max_records)
    assert parts == sorted(parts, key=lambda part: (part.topic, part.partition, part.start)) == plan(spans, min_partitions, max_records)
    assert all(part.start < part.until for part in parts)
    covered = [(part.tp, offset) for part in parts for offset in range(part.start, part.until)]
    assert covered == [(tp, offset) for tp, (start, until) in sorted(spans.items()) for offset in range(start, until)]
    if max_records is not None:
        assert all(len(part) <= max_records for part in parts)
