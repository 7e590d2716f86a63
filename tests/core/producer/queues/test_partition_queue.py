"""A partition's queue: when another batch may leave, and how batches are numbered."""

from __future__ import annotations

from random import Random
from typing import Any

from pykafka4.core.backoff import Backoff
from pykafka4.core.producer.queues.partition_queue import SEQUENCES, PartitionQueue
from pykafka4.records import TopicPartition


def queue(depth: int = 5) -> PartitionQueue:
    return PartitionQueue(TopicPartition("t", 0), Backoff(0.1, 1.0, Random(1)), depth)


class Fake:
    """As much of a batch as a queue looks at."""

    def __init__(self, count: int) -> None:
        self.count, self.base_sequence, self.producer_id = count, -1, -1
        self.in_flight = self.written = self.done = False


def flying(it: PartitionQueue, node: int = 1, count: int = 1) -> Any:
    """A batch of `it` under way to `node`."""
    made: Any = Fake(count)
    it.batches.append(made)
    it.number(made)
    it.meet(0.0, node, 0)
    it.sent(made, node)
    return made


def test_nothing_follows_a_failed_batch_until_its_request_is_back() -> None:
    it = queue()
    first = flying(it)
    it.proven = True
    assert it.may_send(0.0)
    it.hold_behind(first)
    first.done = True
    it.remove(first)
    assert not it.may_send(0.0)
    it.request_ended(first)
    assert it.may_send(0.0)


def test_the_first_batch_of_an_epoch_and_the_first_to_another_leader_go_alone() -> None:
    it = queue()
    it.end_flight(flying(it))
    it.acknowledged(0.0)
    flying(it)
    assert it.may_send(0.0), "five may be under way to the leader that knows us"
    moved = queue()
    moved.end_flight(flying(moved, node=1))
    moved.acknowledged(0.0)
    flying(moved, node=2)
    assert not moved.may_send(0.0)
    renewed = queue()
    renewed.end_flight(flying(renewed))
    renewed.acknowledged(0.0)
    renewed.begin_epoch(7, 1)
    assert (renewed.producer_id, renewed.epoch, renewed.next_sequence) == (7, 1, 0)
    flying(renewed)
    assert not renewed.may_send(0.0)


def test_sequences_count_records_and_wrap() -> None:
    it = queue()
    it.next_sequence = SEQUENCES - 2
    numbers = [flying(it, count=3).base_sequence, flying(it).base_sequence]
    assert numbers == [SEQUENCES - 2, 1]


def test_late_batches_are_found_without_looking_at_those_behind() -> None:
    it, looks = queue(), [0]

    class Sent:
        def __init__(self, at: float) -> None:
            self.at = at

        @property
        def sent_at(self) -> float:
            looks[0] += 1
            return self.at

    it.batches.extend(Sent(float(n)) for n in range(1000))  # type: ignore[misc]
    assert [batch.sent_at for batch in it.late(12.0, 10.0)] == [0.0, 1.0, 2.0]
    assert looks[0] <= 10
