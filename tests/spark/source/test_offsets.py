"""Offsets of a stream: their JSON text, and the ranges between two of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition
from pykafka4.spark.source.offsets import INITIAL, StreamOffset

A0, A1, A10, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 10), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d", "Z_1"]), st.integers(0, 20))
POSITIONS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=8)
OFFSETS = st.builds(
    StreamOffset,
    POSITIONS,
    POSITIONS,
    st.dictionaries(st.sampled_from(["a", "b"]), st.text(min_size=1), max_size=2),
    st.dictionaries(st.sampled_from(["minPartitions", "maxRecordsPerPartition"]), st.integers(1, 9), max_size=2),
    st.booleans(),
)


def text(offset: StreamOffset) -> str:
    """What Spark logs and compares."""
    return json.dumps(offset.as_json())


def test_positions_have_the_form_of_the_jvm_connector():
    assert text(StreamOffset({A0: 5})) == '{"a": {"0": 5}, "@pykafka4": {"version": 1}}'


def test_topics_are_ordered_by_name_and_partitions_by_number():
    assert list(StreamOffset({B0: 1, A10: 2, A1: 3}).as_json()["a"]) == ["1", "10"]
    assert text(StreamOffset({B0: 1, A10: 2, A1: 3})) == text(StreamOffset({A1: 3, A10: 2, B0: 1}))


@given(OFFSETS)
def test_an_offset_survives_the_checkpoint(offset):
    assert StreamOffset.of_json(json.loads(text(offset))) == offset


@given(OFFSETS)
def test_the_text_does_not_change_on_its_way_through_the_checkpoint(offset):
    assert text(StreamOffset.of_json(json.loads(text(offset)))) == text(offset)
    assert json.dumps(json.loads(text(offset))) == text(offset)


@given(OFFSETS, st.randoms(use_true_random=False))
def test_equal_offsets_have_equal_texts_in_whatever_order_they_were_built(offset, random):
    def shuffled(items):
        pairs = list(items.items())
        random.shuffle(pairs)
        return dict(pairs)

    again = StreamOffset(
        shuffled(offset.positions), shuffled(offset.starts), shuffled(offset.topic_ids), shuffled(offset.planning), offset.is_initial
    )
    assert text(again) == text(offset)


def test_the_initial_offset_differs_from_the_end_of_a_batch_without_topics():
    assert text(INITIAL) != text(StreamOffset())


def test_ranges_begin_where_the_batch_before_ended():
    assert StreamOffset({A0: 9, B0: 4}).ranges(StreamOffset({A0: 5, B0: 4})) == {A0: (5, 9)}


def test_the_first_batch_run_again_begins_where_it_began():
    end = StreamOffset({A0: 9}, starts={A0: 5})
    assert end.ranges(INITIAL) == {A0: (5, 9)}


def test_a_new_partition_begins_at_its_logged_start():
    assert StreamOffset({A0: 9, A1: 4}, starts={A1: 1}).ranges(StreamOffset({A0: 9})) == {A1: (1, 4)}


def test_a_logged_start_wins_over_a_position_that_is_void():
    assert StreamOffset({A0: 3}, starts={A0: 0}).ranges(StreamOffset({A0: 900})) == {A0: (0, 3)}


def test_there_is_nothing_between_equal_offsets():
    offset = StreamOffset({A0: 9}, starts={A0: 5})
    assert offset.ranges(offset) == {}


def test_ranges_are_in_the_order_of_partitions():
    end = StreamOffset({B0: 1, A10: 1, A1: 1}, starts={B0: 0, A10: 0, A1: 0})
    assert list(end.ranges(INITIAL)) == [A1, A10, B0]


def test_a_checkpoint_of_the_jvm_connector_is_read():
    start, end = StreamOffset.of_json({"a": {"1": 4, "0": 7}}), StreamOffset.of_json({"a": {"1": 6, "0": 7}})
    assert end.ranges(start) == {A1: (4, 6)}


def test_the_first_batch_of_the_jvm_connector_cannot_be_run_again():
    with pytest.raises(ConfigError, match="where the batch starts in a-0"):
        StreamOffset.of_json({"a": {"0": 7}}).ranges(INITIAL)


def test_an_unknown_version_is_refused():
    with pytest.raises(ConfigError, match="version 2, and this pykafka4 reads version 1: install"):
        StreamOffset.of_json({"@pykafka4": {"version": 2}})


@pytest.mark.parametrize(
    "value", [[], "x", {"a": 5}, {"a": {"x": 1}}, {"a": {"0": None}}, {"@pykafka4": 1}, {"@pykafka4": {"version": 1, "planning": [1]}}]
)
def test_other_json_is_refused(value):
    with pytest.raises(ConfigError, match="does not belong to a Kafka source"):
        StreamOffset.of_json(value)
