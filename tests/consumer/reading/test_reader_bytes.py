"""A poll ends when the records that it returns take so much memory, however many partitions and batches they come from."""

from __future__ import annotations

import pytest

from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.consumer.reader_harness import ReaderHarness, offsets

LIMIT, VALUE = 100_000, 30_000  # four records


@pytest.fixture
def harness() -> ReaderHarness:
    harness = ReaderHarness(partitions=2, max_bytes=LIMIT)
    for first in range(0, 6, 2):
        for partition in (0, 1):
            data = build_batch([WireRecord(timestamp_ms=1, value=b"x" * VALUE)] * 2, base_offset=first, codec=1)
            harness.put(first, 2, partition, bytes(data))
    return harness


def test_polls_return_records_until_their_bytes_reach_the_limit(harness: ReaderHarness) -> None:
    polls = [[(r.partition, r.offset) for r in harness.poll()] for _ in range(4)]
    assert list(map(len, polls)) == [4, 4, 4, 0]
    assert sorted(record for poll in polls for record in poll) == [(p, o) for p in (0, 1) for o in range(6)]


def test_a_poll_ends_with_records_that_take_exactly_the_limit() -> None:
    measured = ReaderHarness()
    chunk = measured.put(0, 2)
    measured.poll()
    harness = ReaderHarness(max_bytes=chunk.decoded)
    harness.put(0, 2)
    harness.put(2, 2)
    assert offsets(harness.poll()) == [0, 1]


def test_a_loop_takes_lists_within_the_limit(harness: ReaderHarness) -> None:
    lists = [list(harness.loop()) for _ in range(4)]
    assert list(map(len, lists)) == [4, 4, 4, 0]


def test_a_poll_returns_one_record_that_is_larger_than_the_limit() -> None:
    harness = ReaderHarness(max_bytes=LIMIT)
    for first in (0, 1):
        harness.put(first, 1, data=bytes(build_batch([WireRecord(timestamp_ms=1, value=b"x" * 2 * LIMIT)], base_offset=first)))
    assert [offsets(harness.poll()) for _ in range(3)] == [[0], [1], []]


def test_a_poll_after_an_interrupted_one_has_the_whole_limit(harness: ReaderHarness) -> None:
    harness.poll(1)
    harness.reader.enter()
    assert len(harness.take(500)) == 4
