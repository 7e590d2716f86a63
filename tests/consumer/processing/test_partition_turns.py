"""PartitionTurns: a backlog of one partition does not delay another partition."""

from __future__ import annotations

from typing import Any

from pykafka4.consumer.processing.partition_turns import PartitionTurns
from pykafka4.records import TopicPartition


def of(partition: int, *numbers: int) -> list[tuple[TopicPartition, Any]]:
    return [(TopicPartition("t", partition), (print, (partition, n))) for n in numbers]


def taken(turns: PartitionTurns, count: int) -> list[tuple[int, int]]:
    return [turns.take()[1] for _ in range(count)]  # type: ignore[misc]


def test_partitions_take_turns_and_each_keeps_its_order() -> None:
    turns = PartitionTurns()
    for tp, call in of(0, 0, 1, 2) + of(1, 0) + of(2, 0, 1):
        turns.add(tp, call)
    assert taken(turns, 6) == [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2)]
    assert not turns


def test_a_call_of_a_partition_that_was_empty_comes_before_the_second_call_of_a_backlog() -> None:
    turns = PartitionTurns()
    for tp, call in of(0, *range(1_000)):
        turns.add(tp, call)
    assert taken(turns, 2) == [(0, 0), (0, 1)]
    for tp, call in of(1, 0):
        turns.add(tp, call)
    assert taken(turns, 3) == [(0, 2), (1, 0), (0, 3)]


def test_clear_drops_every_call() -> None:
    turns = PartitionTurns()
    for tp, call in of(0, 0) + of(1, 0):
        turns.add(tp, call)
    turns.clear()
    assert not turns
