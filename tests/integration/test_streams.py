"""Streams on real brokers: rebalances, a leader that dies, and commits that never pass a record that is not finished."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, Record, Stream, TopicPartition
from tests.integration.reading import GROUP, LONG_S, SURVIVES, produce

pytestmark = pytest.mark.cluster
PARTITIONS, COUNT = 6, 3_000


class Judge:
    """What all streams of a test got, and how many threads had a record of one partition in hand."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: list[tuple[int, int]] = []
        self.hands: dict[int, int] = {}
        self.worst = 0
        self.errors: list[BaseException] = []
        self.slow = 0.0
        self._never = threading.Event()

    def work(self, record: Record) -> None:
        with self.lock:
            self.hands[record.partition] = self.hands.get(record.partition, 0) + 1
            self.worst = max(self.worst, self.hands[record.partition])
            self.seen.append((record.partition, record.offset))
        if self.slow:
            self._never.wait(self.slow)
        with self.lock:
            self.hands[record.partition] -= 1

    def read(self, stream: Stream) -> None:
        try:
            for record in stream:
                self.work(record)
        except BaseException as error:
            self.errors.append(error)

    def start(self, streams: Iterable[Stream]) -> list[threading.Thread]:
        threads = [threading.Thread(target=self.read, args=(stream,), daemon=True) for stream in streams]
        for thread in threads:
            thread.start()
        return threads

    def wait(self, count: int) -> None:
        until(lambda: len(self.seen) >= count or self.errors, LONG_S, lambda: f"{count} records; there are {len(self.seen)}")
        assert not self.errors, self.errors


def member(cluster: Cluster, group: str) -> Consumer:
    return Consumer(**cluster.client, **SURVIVES, group_id=group, enable_auto_commit=False, max_poll_records=50)


def ended(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()


def committed(cluster: Cluster, topic: str) -> int:
    with Consumer(**cluster.client, group_id=topic) as consumer:
        found = consumer.committed([(topic, p) for p in range(PARTITIONS)], LONG_S)
    return sum(at.offset for at in found.values() if at is not None)


@pytest.mark.parametrize(
    "options",
    [
        {**GROUP, "partition_assignment_strategy": ["range"]},
        {**GROUP, "partition_assignment_strategy": ["cooperative-sticky"]},
        {"group_protocol": "consumer", "auto_offset_reset": "earliest"},
    ],
    ids=["eager", "cooperative", "consumer"],
)
def test_members_that_come_and_go_skip_and_repeat_nothing(cluster: Cluster, topic: str, options: dict[str, Any]) -> None:
    cluster.create_topic(topic, PARTITIONS)
    produce(cluster, topic, 0, COUNT)

    def make() -> Consumer:
        return Consumer(**cluster.client, group_id=topic, enable_auto_commit=False, max_poll_records=50, **options)

    judge, drawn = Judge(), random.Random(7)
    judge.slow = 0.004
    with make() as stays, stays.streams({topic: 2}) as streams:
        threads = judge.start(streams)
        judge.wait(50)
        for _ in range(2):
            with make() as comes, comes.streams({topic: drawn.choice((1, 3))}) as more:
                others = judge.start(more)
                until(lambda more=more: any(stream.partitions for stream in more), LONG_S, "the new member has partitions")
                at = len(judge.seen)
                judge.wait(min(COUNT, at + 150))
            ended(others)
        judge.slow = 0.0
        judge.wait(COUNT)
    ended(threads)
    assert judge.worst == 1, "a partition was on two streams at a time"
    assert len(judge.seen) == len(set(judge.seen)) == COUNT, "every member ended in order, so no record is repeated"
    for partition in range(PARTITIONS):
        mine = [offset for at, offset in judge.seen if at == partition]
        assert mine == sorted(mine)
    assert committed(cluster, topic) == COUNT


def test_a_leader_that_dies_costs_no_record(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    produce(cluster, topic, 0, 300)
    judge = Judge()
    with member(cluster, topic) as consumer, consumer.streams({topic: 3}) as streams:
        threads = judge.start(streams)
        judge.wait(300)
        dead = cluster.leader(topic, 0)
        cluster.kill(dead)
        try:
            for partition in range(PARTITIONS):
                cluster.wait_leader(topic, partition, other_than=dead)
            produce(cluster, topic, 300, 600)
            judge.wait(600)
        finally:
            cluster.start(dead)
        streams.commit(LONG_S)
    ended(threads)
    assert (judge.worst, len(judge.seen), len(set(judge.seen))) == (1, 600, 600)
    assert committed(cluster, topic) == 600
    cluster.wait_full_isr([topic])


def test_a_stream_that_stands_still_holds_back_its_own_commits_alone(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    produce(cluster, topic, 0, 600)
    gate, judge = threading.Event(), Judge()
    with member(cluster, topic) as consumer, consumer.streams({topic: 2}, max_in_hand=60) as streams:
        until(lambda: all(len(stream.partitions) == PARTITIONS // 2 for stream in streams), LONG_S, "three partitions each")
        still = streams[1].partitions
        taken: list[Record] = []

        def stand() -> None:
            taken.append(next(streams[1]))
            gate.wait(LONG_S)
            judge.work(taken[0])
            judge.read(streams[1])

        threads = [threading.Thread(target=stand, daemon=True), *judge.start(streams[:1])]
        threads[0].start()
        until(lambda: taken, LONG_S, "a record in hand")
        with Consumer(**cluster.client, group_id=topic) as other:
            ends = {at: end for at, (_, end) in cluster.offsets(topic).items() if TopicPartition(topic, at) not in still}
            judge.wait(sum(ends.values()))
            streams.commit(LONG_S)
            found = other.committed([(topic, p) for p in range(PARTITIONS)], LONG_S)
        assert all(at is None or at.offset == 0 for tp, at in found.items() if tp in still)
        assert sum(at.offset for at in found.values() if at is not None) >= sum(ends.values()) - 1
        gate.set()
        judge.wait(600)
    ended(threads)
    assert (judge.worst, len(set(judge.seen))) == (1, 600)
    assert committed(cluster, topic) == 600
