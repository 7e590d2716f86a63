"""Reading. Rule: what the tests of the consumer on real brokers have in common; every wait has its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from integration.cluster import Cluster
from integration.waiting import Deadline
from pykafka4 import Consumer, Producer, Record, TopicPartition

LONG = 60.0  # seconds for what takes as long as the brokers take
SECONDS = 10.0  # for what the client has to do once the brokers are ready
GROUP = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}
SURVIVES = {**GROUP, "session_timeout_ms": 30_000}  # a member whose coordinator is killed: an election may take longer than a session


R = TypeVar("R", covariant=True)


class Polls(Protocol[R]):
    """A consumer of a group, or of a share group."""

    def poll(self, timeout: float | None = 1.0) -> list[R]:
        """See its poll."""

    def status(self) -> dict[str, Any]:
        """See its status."""


def produce(cluster: Cluster, topic: str, first: int, last: int, partition: int | None = None, size: int = 0) -> None:
    """The numbers from `first` up to `last`, filled up to `size` bytes."""
    with Producer(**cluster.client) as producer:
        send(producer, topic, range(first, last), partition, size)


def send(producer: Producer, topic: str, numbers: Iterable[int], partition: int | None = None, size: int = 0) -> None:
    for n in numbers:
        producer.send(topic, (b"%d" % n).ljust(size), key=None if partition is not None else b"%d" % n, partition=partition)


def read(consumer: Polls[R], count: int, timeout: float = LONG) -> list[R]:
    """At least `count` records."""
    records: list[R] = []
    deadline = Deadline(timeout)
    while len(records) < count:
        assert not deadline.passed(), f"{len(records)} of {count} records; {consumer.status()}"
        records += consumer.poll(0.5)
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any], timeout: float = LONG) -> list[Record]:
    """What was handed out before the condition held."""
    records: list[Record] = []
    deadline = Deadline(timeout)
    while not condition():
        assert not deadline.passed(), consumer.status()
        records += consumer.poll(0.1)
    return records


def values(records: Iterable[Record]) -> list[int]:
    return sorted(int(r.value) for r in records)


def assert_in_order(records: Iterable[Record]) -> None:
    """Every offset of every partition once, none skipped, from the first on."""
    at: dict[int, int] = {}
    for record in records:
        assert record.offset == at.get(record.partition, 0), f"{record.topic}-{record.partition}"
        at[record.partition] = record.offset + 1


def behind(cluster: Cluster, consumer: Consumer, topic: str) -> dict[int, int]:
    """How many records of each partition were not handed out yet, by what the brokers say of its end."""
    ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
    return {partition: end - consumer.position((topic, partition), LONG) for partition, end in ends.items()}


def wait_leaders(cluster: Cluster, topic: str, other_than: int) -> float:
    """Until every partition is led by another broker than that one; the moment when this was seen."""
    for partition in cluster.partitions(topic):
        cluster.wait_leader(topic, partition, other_than=other_than)
    return time.monotonic()


class Notes:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.kinds.append("assigned")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.kinds.append("revoked")

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.kinds.append("lost")
