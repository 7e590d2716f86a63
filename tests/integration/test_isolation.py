"""Isolation of partitions on real brokers: with one broker away and a record refused, the other partitions go on as before.

Each partition has one replica, so that those of the broker that is away have no leader until it is back, and the others need nothing of it.
The same with their queues full, for each policy of a full buffer.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from typing import Any

import attrs
import pytest

from integration.cluster import Cluster
from integration.waiting import until
from integration.workload.load import PARTITIONS, Load, content, judge
from pykafka4 import BufferFull, DeliveryFailed, Producer, TopicPartition
from pykafka4.records import Written
from tests.inspection import inspect

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

RATE = 3_000
CALM, AWAY = 12.0, 40.0  # seconds
CONFIGS = {
    "message.timestamp.after.max.ms": "3600000",
    # The only replica of a killed broker has left the in-sync set; without this it may never lead again.
    "unclean.leader.election.enable": "true",
}
TRIES = 4  # records refused in one partition at most
BURST = 200  # records to one partition at once: several batches of 1 KiB, pipelined


def dealt(cluster: Cluster, topic: str) -> tuple[int, list[int]]:
    """Creates the topic. Returns a broker, and the two partitions that it leads."""
    cluster.create_topic(topic, PARTITIONS, 1, CONFIGS)
    nodes = sorted(cluster.running())
    for partition in range(PARTITIONS):
        cluster.move_leader(topic, partition, nodes[partition % len(nodes)])
    away = cluster.leader(topic, 0)
    sick = [p for p, row in cluster.partitions(topic).items() if row.leader == away]
    assert len(sick) == 2
    return away, sick


class Observed(Load):
    """A load that notes when each partition was acknowledged, and in which some records have a timestamp that brokers refuse."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.acks: list[list[float]] = [[] for _ in range(PARTITIONS)]  # monotonic seconds
        self.refuse_in: int | None = None  # partition whose next record is one to be refused

    def send_one(self, later_ms: int = 0) -> None:
        """As `Load`; a record to be refused is followed at once by a burst for its partition."""
        if self.refuse_in != self.partition(self.sent):
            super().send_one(later_ms)
            return
        self.refuse_in, self.refuse = None, True
        super().send_one()
        for _ in range(BURST * PARTITIONS):
            super().send_one()

    def finished(self, n: int, delivery: Any) -> None:
        """Note the outcome, and when it came."""
        super().finished(n, delivery)
        if n in self.offsets:
            self.acks[self.partition(n)].append(time.monotonic())

    def epoch(self, partition: int) -> int:
        """The producer epoch of a partition: it rises when a batch was under way behind one that was refused."""
        return int(inspect(self.producer).machine.queues[TopicPartition(self.topic, partition)].epoch)

    def acks_per_second(self, partition: int, begin: float, end: float) -> float:
        """Acknowledgements per second in that time."""
        return sum(begin <= at < end for at in self.acks[partition]) / (end - begin)

    def longest_gap(self, partition: int, begin: float, end: float) -> float:
        """Seconds without an acknowledgement in that time."""
        times = [begin, *(at for at in self.acks[partition] if begin <= at < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


def refuse_in_a_pipeline(load: Observed, partition: int) -> None:
    """A record is refused; again, if the machine was too slow to have more batches under way behind it."""
    for _ in range(TRIES):
        known = len(load.failures)
        load.refuse_in = partition
        until(lambda known=known: len(load.failures) > known, 10, "the record to be refused")  # type: ignore[misc]
        if load.epoch(partition) > 0:
            return


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_healthy_partitions_go_on_while_a_broker_is_away_and_a_record_is_refused(cluster: Cluster, topic: str, how: str) -> None:
    away, sick = dealt(cluster, topic)
    healthy = [p for p in range(PARTITIONS) if p not in sick]
    ending = False
    with contextlib.closing(Producer(**cluster.client, batch_size=1024, linger_ms=1)) as producer:
        load = Observed(producer, topic, RATE, lambda _: ending)
        load.start()
        until(lambda: all(load.last_ack), 60, "an acknowledgement from every partition")
        time.sleep(CALM)
        (cluster.freeze if how == "frozen" else cluster.kill)(away)
        began = time.monotonic()
        try:
            for partition in healthy[:2]:
                time.sleep(AWAY / 4)
                refuse_in_a_pipeline(load, partition)
            time.sleep(began + AWAY - time.monotonic())
            back = time.monotonic()
        finally:
            (cluster.thaw if how == "frozen" else cluster.start)(away)
        until(lambda: all(at > back for at in load.last_ack), 60, "an acknowledgement from every partition")
        ending = True
        load.join(timeout=30)
        producer.flush(timeout=120)
        epochs = {p: load.epoch(p) for p in range(PARTITIONS)}
    before = [load.acks_per_second(p, began - CALM + 2, began) for p in healthy]
    during = [load.acks_per_second(p, began, back) for p in healthy]
    gaps = [load.longest_gap(p, began, back) for p in healthy]
    print(
        f"\nisolation, broker {how} for {back - began:.0f} s: {load.sent:,} sent; acknowledgements of the healthy partitions "
        f"{sum(before):,.0f}/s before, {sum(during):,.0f}/s meanwhile, longest gap {max(gaps):.2f} s; "
        f"{len(load.refused)} records refused; epochs {epochs}"
    )
    verdict = judge(cluster, topic, load)
    assert load.failures.keys() == load.refused
    assert 2 <= len(load.refused) <= 2 * TRIES
    for n, error in load.failures.items():
        assert isinstance(error, DeliveryFailed)
        assert (error.code, error.written, error.partition) == ("INVALID_TIMESTAMP", Written.NO, n % PARTITIONS)
        assert error.record is not None
        assert error.record.value == content(n).value
    assert not attrs.evolve(verdict, failed={}).complaints()
    assert verdict.acked == verdict.sent - len(load.refused)
    assert any(epochs[p] > 0 for p in healthy), "nothing was pipelined behind the refused records: that showed nothing"
    assert all(now >= 0.9 * then for now, then in zip(during, before, strict=True)), (before, during)
    assert max(gaps) <= 2.0


EACH = 100  # records a second to each partition
FULL, MEASURED = 30.0, 6.0  # seconds
AT_ONCE = 20  # turns: a thread that was late makes up for no more
SMALL = {"max_partition_bytes": 512 * 1024, "batch_size": 4 * 1024, "linger_ms": 1, "max_block_ms": 500, "delivery_timeout_ms": 120_000}


class Application:
    """Sends to all partitions: with `block` from a thread for each, else from one for all. A record that is refused is not sent again."""

    def __init__(self, cluster: Cluster, topic: str, policy: str) -> None:
        self.producer = Producer(**cluster.client, **SMALL, on_full=policy)
        self.topic, self.policy = topic, policy
        self.refused: Counter[int] = Counter()  # by partition
        self.acked: Counter[int] = Counter()
        self.ending = threading.Event()
        turns = [[p] for p in range(PARTITIONS)] if policy == "block" else [list(range(PARTITIONS))]
        self.threads = [threading.Thread(target=self.work, args=(partitions,), daemon=True) for partitions in turns]

    def work(self, partitions: list[int]) -> None:
        """Bursts are short, so that they fill no queue."""
        begin, done = time.monotonic(), 0
        while not self.ending.is_set():
            due = int((time.monotonic() - begin) * EACH)
            for _ in range(min(due - done, AT_ONCE)):
                for partition in partitions:
                    self.send(partition)
            done = due
            time.sleep(0.01)

    def send(self, partition: int) -> None:
        """One record of 1,000 bytes."""

        def finished(delivery: Any) -> None:
            (self.acked if delivery.exception(0) is None else self.refused)[partition] += 1

        try:
            self.producer.send(self.topic, bytes(1_000), partition=partition, on_delivery=finished)
        except BufferFull:
            self.refused[partition] += 1

    def full(self, partitions: list[int]) -> bool:
        """Whether records of each of these partitions were refused."""
        return all(self.refused[p] for p in partitions)

    def end(self) -> None:
        """Everything that was accepted has its outcome."""
        self.ending.set()
        for thread in self.threads:
            thread.join(30)
        self.producer.flush(60)


def counts(applications: list[Application], partitions: list[int]) -> list[int]:
    """Acknowledged so far, by application."""
    return [sum(application.acked[p] for p in partitions) for application in applications]


@pytest.mark.lengthy
def test_healthy_partitions_go_on_while_the_queues_of_the_others_are_full(cluster: Cluster, topic: str) -> None:
    topics = [f"{topic}-{policy}" for policy in ("block", "raise", "drop")]
    away, sick = dealt(cluster, topics[0])
    for name in topics[1:]:
        cluster.create_topic(name, PARTITIONS, 1, CONFIGS)
        for partition, row in cluster.partitions(topics[0]).items():
            cluster.move_leader(name, partition, row.leader)
    healthy = [p for p in range(PARTITIONS) if p not in sick]
    applications = [Application(cluster, name, name.rpartition("-")[2]) for name in topics]
    try:
        for thread in itertools.chain.from_iterable(application.threads for application in applications):
            thread.start()
        until(lambda: all(a.acked[p] for a in applications for p in range(PARTITIONS)), 60, "an acknowledgement from every partition")
        before = measured(applications, healthy)
        cluster.kill(away)
        try:
            until(lambda: all(a.full(sick) for a in applications), FULL, lambda: f"full queues: {[a.refused for a in applications]}")
            during, refused = measured(applications, healthy), [a.refused.copy() for a in applications]
        finally:
            cluster.start(away)
        for application in applications:
            application.end()
    finally:
        for application in applications:
            application.ending.set()
            application.producer.close(0)
    print(f"\nfull queues: {before} records/s in the healthy partitions before, {during} meanwhile; refused {refused}")
    assert all(now >= 0.9 * then for now, then in zip(during, before, strict=True)), (before, during)
    for application, name in zip(applications, topics, strict=True):
        assert set(application.refused) == set(sick), (name, application.refused)
        assert {p: len(records) for p, records in cluster.log(name).items()} == dict(application.acked)
        stats = application.producer.stats()
        assert (stats.failed, stats.acked) == ({}, application.acked.total())
        assert stats.dropped == ({"BUFFER_FULL": application.refused.total()} if application.policy == "drop" else {})


def measured(applications: list[Application], partitions: list[int]) -> list[float]:
    """Acknowledged records a second, by application."""
    began, first = time.monotonic(), counts(applications, partitions)
    time.sleep(MEASURED)
    return [(later - earlier) / (time.monotonic() - began) for earlier, later in zip(first, counts(applications, partitions), strict=True)]
