"""Splits of offset ranges: complete, disjoint, balanced."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from pykafka4 import Span, Split, TopicPartition
from pykafka4.splits import divide

OFFSETS = st.integers(0, 2_000)
SPANS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 9)),
    st.builds(lambda start, length: Span(start, start + length, 0), OFFSETS, st.integers(0, 500)),
    max_size=12,
)


@given(SPANS, st.integers(1, 40), st.data())
def test_splits_have_each_offset_once_and_none_is_empty(spans: dict[TopicPartition, Span], n: int, data: st.DataObject) -> None:
    weights = st.fixed_dictionaries({tp: st.floats(0.5, 10_000.0) for tp in spans})
    sizes = data.draw(st.just({}) | weights)
    splits = divide(spans, sizes, n)
    assert len(splits) <= n
    assert [split.number for split in splits] == list(range(len(splits)))
    assert all(len(split) > 0 and not any(span.is_empty for span in split.ranges.values()) for split in splits)
    found: dict[TopicPartition, list[int]] = {}
    for split in splits:
        for tp, span in split.ranges.items():
            found.setdefault(tp, []).extend(range(span.start, span.until))
    assert found == {tp: list(range(span.start, span.until)) for tp, span in spans.items() if not span.is_empty}
    total = sum(sizes.get(tp, 1.0) * (span.until - span.start) for tp, span in spans.items())
    for split in splits:
        weight = sum(sizes.get(tp, 1.0) * (span.until - span.start) for tp, span in split.ranges.items())
        rounding = sum(sizes.get(tp, 1.0) for tp in split.ranges)  # half a record at both ends of a cut
        assert weight <= total / n + rounding + 1e-6 * total


def test_a_split_goes_to_another_process() -> None:
    split = divide({TopicPartition("t", 0): Span(3, 9, 1)}, {}, 6)[0]
    assert pickle.loads(pickle.dumps(split)) == split == Split(0, {TopicPartition("t", 0): Span(3, 4, 1)})
    assert str(split) == "split 0: t-0 3 to 4"


def test_sizes_outweigh_offsets() -> None:
    small, large = TopicPartition("t", 0), TopicPartition("t", 1)
    splits = divide({small: Span(0, 1_000, 0), large: Span(0, 10, 0)}, {small: 1.0, large: 100.0}, 2)
    assert [split.ranges for split in splits] == [{small: Span(0, 1_000, 0)}, {large: Span(0, 10, 0)}]
    assert [split.bytes for split in splits] == [1_000, 1_000]
