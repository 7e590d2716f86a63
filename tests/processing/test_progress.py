"""Progress: the safe offset never passes a record that is not finished."""

from __future__ import annotations

import random
import time

from pykafka4.processing.progress import Progress
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

TP = TopicPartition("t", 0)


def progress(*offsets: int, epoch: int = 3) -> Progress:
    found = Progress(TP, offsets[0])
    for offset in offsets:
        found.add(Record("t", 0, offset, leader_epoch=epoch))
    return found


def test_the_safe_offset_is_that_of_the_first_record_that_is_not_finished() -> None:
    found = progress(5, 6, 7, 9)
    assert found.safe == OffsetAndMetadata(5)
    found.finish(6)
    assert (found.safe, found.window) == (OffsetAndMetadata(5), 4)
    found.finish(5)
    assert (found.safe, found.window) == (OffsetAndMetadata(7, 3), 2)
    found.finish(9)
    found.finish(7)
    assert (found.safe, found.window) == (OffsetAndMetadata(10, 3), 0)


def test_whatever_the_order_every_record_before_the_safe_offset_is_finished() -> None:
    for seed in range(50):
        drawn = random.Random(seed)
        offsets = sorted(drawn.sample(range(200), 60))
        found, finished = progress(*offsets), set[int]()
        for offset in drawn.sample(offsets, len(offsets)):
            found.finish(offset)
            finished.add(offset)
            open_ones = [at for at in offsets if at not in finished]
            assert found.safe.offset == (open_ones[0] if open_ones and open_ones[0] == offsets[0] else found.safe.offset)
            assert all(at in finished for at in offsets if at < found.safe.offset)
            assert found.window == sum(at >= found.safe.offset for at in offsets)
        assert found.safe.offset == offsets[-1] + 1


def test_a_record_before_the_last_one_begins_anew() -> None:
    found = progress(5, 6)
    assert found.continues_with(Record("t", 0, 7))
    assert not found.continues_with(Record("t", 0, 6))
    found.ended = True
    assert not found.continues_with(Record("t", 0, 7))


def test_a_long_window_costs_no_more_per_record_than_a_short_one() -> None:
    def seconds(count: int) -> float:
        found = progress(*range(count))
        start = time.process_time()
        for offset in range(count):
            found.finish(offset)
        return (time.process_time() - start) / count

    short = min(seconds(1_000) for _ in range(3))
    assert seconds(30_000) < 10 * short
