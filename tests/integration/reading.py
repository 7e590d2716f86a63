"""Reading. Rule: what the tests of the consumer on real brokers have in common; every wait has its deadline."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume
from integration.waiting import Deadline, until
from pykafka4 import AdminClient, Consumer, Producer, Record, TopicPartition
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest

LONG_S = 60.0  # seconds for what takes as long as the brokers take
SECONDS = 10.0  # for what the client has to do once the brokers are ready
GROUP = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}
MODERN = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
SURVIVES = {**GROUP, "session_timeout_ms": 30_000}  # a member whose coordinator is killed: an election may take longer than a session


R = TypeVar("R", covariant=True)


class Polls(Protocol[R]):
    """A consumer of a group, or of a share group."""

    def poll(self, timeout: float | None = 1.0) -> list[R]:
        """See its poll."""

    def status(self) -> dict[str, Any]:
        """See its status."""


def delete_topics_of(cluster: Cluster, prefix: str) -> None:
    """Delete the topics whose names begin like this."""
    with AdminClient(**cluster.client) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(prefix)], wait=True)


def produce(cluster: Cluster, topic: str, first: int, last: int, partition: int | None = None, size: int = 0) -> None:
    """The numbers from `first` up to `last`, filled up to `size` bytes."""
    with Producer(**cluster.client) as producer:
        send(producer, topic, range(first, last), partition, size)


def send(producer: Producer, topic: str, numbers: Iterable[int], partition: int | None = None, size: int = 0) -> None:
    for n in numbers:
        producer.send(topic, (b"%d" % n).ljust(size), key=None if partition is not None else b"%d" % n, partition=partition)


def read(consumer: Polls[R], count: int, timeout: float = LONG_S) -> list[R]:
    """At least `count` records."""
    records: list[R] = []
    deadline = Deadline(timeout)
    while len(records) < count:
        assert not deadline.passed(), f"{len(records)} of {count} records; {consumer.status()}"
        records += consumer.poll(0.5)
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any], timeout: float = LONG_S) -> list[Record]:
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


def stable_members(cluster: Cluster, group: str) -> int:
    """The members of a classic group that have an assignment, according to the coordinator."""
    answers = [cluster.admin.ask(node, DescribeGroupsRequest(groups=[group])) for node in cluster.nodes]
    return sum(len(each.members) for answer in answers for each in answer.groups if each.group_state == "Stable")


def read_beside_java(
    cluster: Cluster, topic: str, properties: Mapping[str, str] | None = None, java_leads: bool = False, **options: Any
) -> None:
    """One of our members and one of Java's share a group of four partitions, and read every record between them."""
    cluster.create_topic(topic, 4)
    theirs: list[JavaRecord] = []
    everything = {**cluster.java, "group.id": topic, **(properties or {})}
    # It has about half of the keys: 900 of 2,000 records come to it for certain, and then it leaves.
    java = threading.Thread(target=lambda: theirs.extend(java_consume(cluster.bootstrap, topic, 900, everything, LONG_S)))
    ours: list[Record] = []
    if java_leads:
        java.start()
        until(lambda: stable_members(cluster, topic), LONG_S, "Java's member")
    with Consumer(**cluster.client, **options, group_id=topic) as consumer:
        consumer.subscribe([topic])
        if not java_leads:
            poll_until(consumer, lambda: len(consumer.assignment()) == 4)
            java.start()
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        produce(cluster, topic, 0, 2_000)
        deadline = Deadline(LONG_S)
        while java.is_alive() or len(ours) + len(theirs) < 2_000:
            assert not deadline.passed(), (len(ours), len(theirs))
            ours += consumer.poll(0.2)
    assert theirs
    assert ours
    assert {int(r.value) for r in ours} | {int(r.value or b"-1") for r in theirs} == set(range(2_000))


def behind(cluster: Cluster, consumer: Consumer, topic: str) -> dict[int, int]:
    """How many records of each partition were not handed out yet, by what the brokers say of its end."""
    ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
    return {partition: end - consumer.position((topic, partition), LONG_S) for partition, end in ends.items()}


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


class Follows(Protocol):
    """A process, and a method that notes its output until it ends."""

    process: subprocess.Popen[str]

    def follow(self) -> None:
        """Runs on a thread."""


F = TypeVar("F", bound=Follows)


@contextlib.contextmanager
def followers() -> Iterator[Callable[[F], F]]:
    """A block that starts to follow processes; none outlives it."""
    started: list[tuple[Follows, threading.Thread]] = []

    def follow(member: F) -> F:
        started.append((member, threading.Thread(target=member.follow, daemon=True)))
        started[-1][1].start()
        return member

    yield follow
    for member, reader in started:
        member.process.kill()
        reader.join(SECONDS)
        with member.process:  # closes its pipes
            pass
