"""Admission control: what a batch gets of the backlog, and when it is held back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka4.records import TopicPartition
from pykafka4.spark.source.limits import Holdback, backlog, limited

P = [TopicPartition("t", n) for n in range(20)]
SIZES = st.lists(st.integers(0, 2**62), min_size=1, max_size=20)


def sizes(waiting: list[int], most: int) -> list[int]:
    """The size of a batch in each partition, of `waiting` offsets."""
    starts = {P[n]: 10 * n for n in range(len(waiting))}
    ends = {P[n]: 10 * n + size for n, size in enumerate(waiting)}
    return [end - starts[tp] for tp, end in limited(starts, ends, most).items()]


def test_a_limit_is_divided_by_backlog():
    assert sizes([600, 300, 100], 100) == [60, 30, 10]
    assert sizes([2**62 - 1] * 2, 2**62 - 1) == [2**61 - 1] * 2, "more digits than a float has"


def test_a_small_backlog_beside_a_large_one_is_not_left_out():
    assert sizes([1_000_000, 1], 10) == [9, 1]
    assert sizes([1_000_000, 1, 1, 1], 2) == [1, 1, 1, 1]


def test_less_than_the_limit_is_read_whole():
    assert sizes([5, 0, 7], 100) == [5, 0, 7]


def test_nothing_waits():
    assert sizes([0, 0], 5) == [0, 0]


@given(SIZES, st.integers(1, 2**62))
def test_a_limited_batch(waiting, most):
    batch = sizes(waiting, most)
    assert all(got <= size for got, size in zip(batch, waiting, strict=True))
    assert all(got >= 1 for got, size in zip(batch, waiting, strict=True) if size)
    assert sum(batch) <= max(most, 0) + sum(1 for got in batch if got == 1)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(1, 300))
def test_a_backlog_ends_and_small_partitions_end_with_it(waiting, most):
    left, batches = list(waiting), 0
    while any(left):
        left = [size - got for size, got in zip(left, sizes(left, most), strict=True)]
        batches += 1
    assert batches <= -(-sum(waiting) // max(1, most - len(waiting))) + len(waiting) + 1 or most <= len(waiting)


def test_backlog_leaves_out_what_is_read():
    assert backlog({P[0]: 5, P[1]: 7}, {P[0]: 9, P[1]: 7}) == {P[0]: 4}


def test_the_first_batch_is_never_held_back():
    assert not Holdback(100, 60.0).holds(0, 5.0)


def test_a_batch_waits_for_the_minimum():
    holdback = Holdback(100, 60.0)
    holdback.holds(0, 0.0)
    assert holdback.holds(99, 1.0)
    assert not holdback.holds(100, 2.0)
    assert holdback.holds(99, 61.0)  # the delay counts from the last batch


def test_a_batch_waits_no_longer_than_the_delay():
    holdback = Holdback(100, 60.0)
    holdback.holds(0, 0.0)
    assert holdback.holds(1, 59.9)
    assert not holdback.holds(1, 60.0)
    assert holdback.holds(1, 119.9)
