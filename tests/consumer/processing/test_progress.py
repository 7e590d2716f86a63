"""Progress: the window begins at the first record that is not finished."""

from __future__ import annotations

import random
import time

from pykafka4.consumer.processing.progress import PartitionProgress, TaskInHand
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record

TP = TopicPartition("t", 0)


def progress(*offsets: int, epoch: int = 3) -> tuple[PartitionProgress, dict[int, TaskInHand]]:
    found = PartitionProgress(TP)
    return found, {offset: found.add(Record("t", 0, offset, leader_epoch=epoch)) for offset in offsets}


def test_the_first_is_the_first_record_that_is_not_finished() -> None:
    found, tasks = progress(5, 6, 7, 9)
    assert found.first == (5, 3)
    found.finish(tasks[6])
    assert (found.first, found.window) == ((5, 3), 4)
    found.finish(tasks[5])
    assert (found.first, found.window) == ((7, 3), 2)
    found.finish(tasks[9])
    found.finish(tasks[7])
    assert (found.first, found.window) == (None, 0)


def test_whatever_the_order_every_record_before_the_first_is_finished() -> None:
    for seed in range(50):
        drawn = random.Random(seed)
        offsets = sorted(drawn.sample(range(200), 60))
        (found, tasks), open_ones = progress(*offsets), set(offsets)
        for offset in drawn.sample(offsets, len(offsets)):
            found.finish(tasks[offset])
            open_ones.discard(offset)
            assert found.first == ((min(open_ones), 3) if open_ones else None)
            assert found.window == sum(at >= min(open_ones, default=200) for at in offsets)


def test_after_a_step_back_the_records_before_it_stay_and_those_behind_it_do_not_count() -> None:
    found, old = progress(5, 6, 7, 8)
    new = found.add(Record("t", 0, 7, leader_epoch=4))
    assert [task.ended for task in old.values()] == [False, False, True, True]
    assert (found.first, found.window, new.ended) == ((5, 3), 3, False)
    for task in (old[7], old[8], old[5], old[6]):
        found.finish(task)
    assert (found.first, found.window) == ((7, 4), 1)
    found.ended = True
    assert new.ended


def test_a_long_window_costs_no_more_per_record_than_a_short_one() -> None:
    def seconds(count: int) -> float:
        found, tasks = progress(*range(count))
        start = time.process_time()
        for task in tasks.values():
            found.finish(task)
        return (time.process_time() - start) / count

    short = min(seconds(1_000) for _ in range(3))
    assert seconds(30_000) < 10 * short
