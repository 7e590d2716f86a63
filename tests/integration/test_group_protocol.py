"""Groups of the consumer protocol (KIP-848) on real brokers: members that come, go, die, freeze and restart; migration both ways."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, KafkaError, Producer, Record, TopicPartition
from pykafka4.wire.protocol.messages_group import LeaveGroupRequest
from tests.integration.reading import (
    LONG_S,
    MODERN,
    SECONDS,
    Notes,
    assert_in_order,
    followers,
    poll_until,
    produce,
    read,
    read_beside_java,
    send,
    values,
    wait_leaders,
)

pytestmark = pytest.mark.cluster

CLASSIC = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}
SESSION = 6.0  # group.consumer.session.timeout.ms of these brokers


@attrs.define(eq=False)
class Members:
    """Consumers of one group in this process, polled in turn on one thread."""

    cluster: Cluster
    topic: str
    members: list[Consumer] = attrs.Factory(list)
    got: list[Record] = attrs.Factory(list)
    longest: dict[TopicPartition, float] = attrs.Factory(dict)  # the longest time without a record of each partition
    lost: set[TopicPartition] = attrs.Factory(set)
    _last: dict[TopicPartition, float] = attrs.Factory(dict)
    alone: Consumer | None = None  # polled beside them, in no group: what it waits for is the fault of the machine or of this test
    pauses: dict[TopicPartition, float] = attrs.Factory(dict)  # its own
    _alone_last: dict[TopicPartition, float] = attrs.Factory(dict)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.lost.update(partitions)

    def start(self, **options: Any) -> Consumer:
        """One more member."""
        member = Consumer(**self.cluster.client, **{**MODERN, "group_id": self.topic, **options})
        member.subscribe([self.topic], self)
        self.members.append(member)
        return member

    def stop(self, member: Consumer) -> None:
        """It leaves; what its last poll handed out is finished."""
        self.members.remove(member)
        if member.assignment():
            member.commit()
        member.close()

    def poll(self) -> bool:
        for member in self.members:
            records = member.poll(0.02)
            self.got.extend(records)
            note_pauses(records, self.longest, self._last)
        if self.alone is not None:
            note_pauses(self.alone.poll(0.02), self.pauses, self._alone_last)
        return True

    def shared(self, *counts: int) -> bool:
        """Whether every partition has one owner, and the members have these numbers of partitions."""
        self.poll()
        owned = [tp for member in self.members for tp in member.assignment()]
        return len(owned) == len(set(owned)) == sum(counts) and sorted(len(m.assignment()) for m in self.members) == sorted(counts)

    def wait_shared(self, *counts: int, timeout: float = LONG_S) -> None:
        until(lambda: self.shared(*counts), timeout, f"members with {counts} partitions; {[m.status()['consumer'] for m in self.members]}")

    def close(self) -> None:
        for member in [*self.members, *([self.alone] if self.alone is not None else [])]:
            member.close()


def note_pauses(records: list[Record], longest: dict[TopicPartition, float], last: dict[TopicPartition, float]) -> None:
    now = time.monotonic()
    for tp in {TopicPartition(r.topic, r.partition) for r in records}:
        longest[tp] = max(longest.get(tp, 0.0), now - last.get(tp, now))
        last[tp] = now


@pytest.fixture
def group(cluster: Cluster, topic: str) -> Iterator[Members]:
    members = Members(cluster, topic)
    yield members
    members.close()


class Writer(threading.Thread):
    """Writes numbers into every partition all the time."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.topic, self.partitions = cluster, topic, partitions
        self.written, self.ends = 0, threading.Event()

    def run(self) -> None:
        with Producer(**self.cluster.client, linger_ms=0) as producer:
            while not self.ends.wait(0.02):
                for partition in range(self.partitions):
                    producer.send(self.topic, b"%d" % self.written, partition=partition)
                    self.written += 1

    def finish(self) -> int:
        """How many were written."""
        self.ends.set()
        self.join(LONG_S)
        return self.written


# ---- members that come and go


@pytest.mark.main_job
@pytest.mark.secured
def test_members_come_and_go_and_partitions_that_stay_are_read_on(cluster: Cluster, topic: str, group: Members) -> None:
    cluster.create_topic(topic, 6)
    writer = Writer(cluster, topic, 6)
    group.alone = Consumer(**cluster.client, auto_offset_reset="earliest")
    group.alone.assign([(topic, partition) for partition in range(6)])
    first = group.start()
    group.wait_shared(6)
    writer.start()
    until(lambda: group.poll() and len({r.partition for r in group.got}) == 6, LONG_S, "records of every partition")
    stay: set[TopicPartition] = set(first.assignment())
    second = group.start()
    group.wait_shared(3, 3)
    stay &= first.assignment()
    third = group.start()
    group.wait_shared(2, 2, 2)
    stay &= first.assignment()
    group.stop(second)
    group.wait_shared(3, 3)
    stay &= first.assignment()
    group.stop(third)
    group.wait_shared(6)
    written = writer.finish()
    until(lambda: group.poll() and len({r.value for r in group.got}) == written, LONG_S, "all records")
    assert len(group.got) == written, "what was finished was committed before it changed hands: nothing came twice"
    assert stay
    # A poll waits for a last commit alone for half a second.
    assert max(group.longest[tp] for tp in stay) < max(1.0, 0.6 + max(group.pauses.values()))


def test_the_coordinator_assigns_with_the_assignor_that_members_name(cluster: Cluster, topic: str, group: Members) -> None:
    cluster.create_topic(topic, 5)
    first = group.start(group_remote_assignor="range")
    second = group.start(group_remote_assignor="range")
    group.wait_shared(2, 3)
    assert sorted(tp.partition for tp in max(first.assignment(), second.assignment(), key=len)) == [0, 1, 2]


def test_an_assignor_that_the_coordinator_does_not_have_is_named_with_those_that_it_has(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Consumer(**cluster.client, **MODERN, group_id=topic, group_remote_assignor="none such") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(KafkaError, match=r"UNSUPPORTED_ASSIGNOR.*uniform"):
            poll_until(consumer, lambda: False)


def test_a_changed_subscription_and_a_recreated_topic_are_followed(cluster: Cluster, topic: str, group: Members) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        cluster.create_topic(name, 2)
    member = group.start(metadata_max_age_ms=1_000)
    group.wait_shared(2)
    member.subscribe([topic, other])
    group.wait_shared(4)
    member.subscribe([topic])
    group.wait_shared(2)
    produce(cluster, topic, 0, 20)
    until(lambda: group.poll() and len(group.got) == 20, LONG_S, "the records of the first topic")
    cluster.delete_topic(topic)
    until(lambda: group.poll() and not member.assignment(), LONG_S, "the member to lose the partitions of a topic that is gone")
    cluster.create_topic(topic, 3)
    group.wait_shared(3)
    produce(cluster, topic, 20, 40)
    until(lambda: group.poll() and len(group.got) == 40, LONG_S, "the records of the second topic")
    assert values(group.got) == list(range(40))


# ---- members that fail

DOOMED = """
import json, sys
from pykafka4 import Consumer

class Listener:
    def on_partitions_assigned(self, partitions):
        print("assigned", len(partitions), flush=True)
    def on_partitions_revoked(self, partitions):
        print("revoked", len(partitions), flush=True)
    def on_partitions_lost(self, partitions):
        print("lost", len(partitions), flush=True)

_, options, topic = sys.argv
with Consumer(**json.loads(options)) as consumer:
    consumer.subscribe([topic], Listener())
    while True:
        for record in consumer.poll(0.1):
            print("read", record.partition, record.offset, flush=True)
"""


@attrs.define(eq=False)
class Doomed:
    """A member in a process of its own."""

    process: subprocess.Popen[str]
    lines: list[list[str]] = attrs.Factory(list)

    def follow(self) -> None:
        """On a thread: note what it prints until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.split())

    def events(self) -> list[str]:
        return [line[0] for line in self.lines if line[0] != "read"]

    def holds(self) -> int:
        """How many partitions it has."""
        signs = {"assigned": 1, "revoked": -1, "lost": -1}
        return sum(signs[line[0]] * int(line[1]) for line in self.lines if line[0] in signs)


@pytest.fixture
def doom(cluster: Cluster, topic: str) -> Iterator[Callable[..., Doomed]]:
    """Starts members in processes of their own; none outlives the test."""
    with followers() as follow:

        def start(**options: Any) -> Doomed:
            everything = {**cluster.client, **MODERN, "group_id": topic, **options}
            return follow(
                Doomed(subprocess.Popen([sys.executable, "-c", DOOMED, json.dumps(everything), topic], stdout=subprocess.PIPE, text=True))
            )

        yield start


def test_a_killed_members_partitions_are_taken_over_after_its_session(
    cluster: Cluster, topic: str, group: Members, doom: Callable[..., Doomed]
) -> None:
    cluster.create_topic(topic, 4)
    group.start()
    doomed = doom()
    until(lambda: group.poll() and doomed.holds() == 2, LONG_S, "two partitions for each")
    group.wait_shared(2)
    died = time.monotonic()
    doomed.process.kill()
    group.wait_shared(4)
    assert SESSION / 2 < time.monotonic() - died < SESSION + SECONDS


def test_a_frozen_member_is_fenced_and_comes_back(cluster: Cluster, topic: str, group: Members, doom: Callable[..., Doomed]) -> None:
    cluster.create_topic(topic, 4)
    group.start()
    doomed = doom()
    until(lambda: group.poll() and doomed.holds() == 2, LONG_S, "two partitions for each")
    os.kill(doomed.process.pid, signal.SIGSTOP)
    try:
        group.wait_shared(4)
    finally:
        os.kill(doomed.process.pid, signal.SIGCONT)
    until(lambda: group.poll() and "lost" in doomed.events(), SECONDS, "the member to hear that it was fenced")
    until(lambda: group.poll() and doomed.holds() == 2, LONG_S, "the member to be back")
    group.wait_shared(2)
    produce(cluster, topic, 0, 100)
    until(lambda: group.poll() and len(group.got) + sum(line[0] == "read" for line in doomed.lines) >= 100, LONG_S, "all records")


def test_a_static_member_restarts_without_a_rebalance(cluster: Cluster, topic: str, group: Members) -> None:
    cluster.create_topic(topic, 4)
    notes = Notes()
    first = group.start(group_instance_id="a")
    first.subscribe([topic], notes)
    second = group.start(group_instance_id="b")
    group.wait_shared(2, 2)
    before, had = list(notes.kinds), second.assignment()
    epoch = first.status()["consumer"]["generation"]
    group.stop(second)
    again = group.start(group_instance_id="b")
    group.wait_shared(2, 2)
    assert again.assignment() == had
    assert notes.kinds == before
    assert first.status()["consumer"]["generation"] == epoch


def test_a_static_member_that_was_killed_comes_back_when_its_session_is_over(
    cluster: Cluster, topic: str, group: Members, doom: Callable[..., Doomed]
) -> None:
    """Its place is not released, as it did not leave. Java's consumer fails then; ours waits."""
    cluster.create_topic(topic, 4)
    doomed = doom(group_instance_id="a")
    until(lambda: doomed.holds() == 4, LONG_S, "all partitions")
    doomed.process.kill()
    member = group.start(group_instance_id="a")
    until(lambda: group.poll() and "UNRELEASED_INSTANCE_ID" in str(member.status()["consumer"]["reason"]), SECONDS, "the refusal")
    group.wait_shared(4, timeout=SESSION + SECONDS)


# ---- brokers that fail


def test_brokers_that_restart_one_after_the_other_cost_no_rebalance(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    notes = Notes()
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, **MODERN, group_id=topic) as consumer,
    ):
        consumer.subscribe([topic], notes)
        poll_until(consumer, lambda: len(consumer.assignment()) == 3)
        before = list(notes.kinds)  # a broker that does not know all partitions of a new topic yet assigns them in two steps
        records: list[Record] = []
        for number, node in enumerate(cluster.nodes):
            cluster.kill(node)
            wait_leaders(cluster, topic, other_than=node)
            send(producer, topic, range(30 * number, 30 * number + 30))
            records += read(consumer, 30)
            cluster.start(node)
            cluster.wait_full_isr()
        assert values(records) == list(range(90))
        assert_in_order(records)
        assert notes.kinds == before


# ---- migration


@pytest.mark.parametrize(("before", "after"), [(CLASSIC, MODERN), (MODERN, CLASSIC)], ids=["classic to consumer", "consumer to classic"])
def test_offline_migration_goes_on_at_the_committed_offsets(
    cluster: Cluster, topic: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 30)
    records: list[Record] = []
    for options, last in ((before, 30), (after, 60)):
        produce(cluster, topic, 30, last)
        with Consumer(**cluster.client, **options, group_id=topic) as consumer:
            consumer.subscribe([topic])
            records += read(consumer, 30)
            consumer.commit()
    assert values(records) == list(range(60))


def test_rolling_migration_from_classic_to_consumer_and_back_under_load(cluster: Cluster, topic: str, group: Members) -> None:
    """Members are replaced one by one, with a writer at work: the group is converted by the first and by the last of them."""
    cluster.create_topic(topic, 6)
    writer = Writer(cluster, topic, 6)
    classic = {**CLASSIC, "group_protocol": "classic"}
    old = [group.start(**classic) for _ in range(3)]
    group.wait_shared(2, 2, 2)
    writer.start()
    for options in (MODERN, classic):
        for _ in range(3):
            group.stop(old.pop(0))
            old.append(group.start(**options))
            group.wait_shared(2, 2, 2)
    written = writer.finish()
    until(lambda: group.poll() and len({r.value for r in group.got}) == written, LONG_S, "all records")
    times = Counter((r.partition, r.offset) for r in group.got)
    twice = {TopicPartition(topic, partition) for (partition, _), count in times.items() if count > 1}
    print(f"\nmigration: {len(group.got) - written} of {written} records came twice; lost: {sorted(group.lost)}")
    assert twice <= group.lost, "nothing comes twice but what a member lost, and then could not commit any more"


def test_a_member_that_was_removed_from_a_group_that_is_classic_again_comes_back(cluster: Cluster, topic: str, group: Members) -> None:
    """Its heartbeat is answered GROUP_ID_NOT_FOUND; its join converts the group once more."""
    cluster.create_topic(topic, 4)
    produce(cluster, topic, 0, 20)
    group.start(**{**CLASSIC, "group_protocol": "classic"})
    ours = group.start()
    group.wait_shared(2, 2)
    leave = LeaveGroupRequest.Member(member_id=ours.group_metadata().member_id, group_instance_id=None)

    def removed() -> bool:
        answers = [cluster.admin.ask(node, LeaveGroupRequest(group_id=topic, members=[leave])) for node in cluster.nodes]
        return any(answer.error_code == 0 and answer.members[0].error_code == 0 for answer in answers)

    until(removed, LONG_S, "the coordinator to remove the member")
    until(lambda: group.poll() and not ours.assignment(), LONG_S, "the loss of its partitions")
    group.wait_shared(2, 2)
    until(lambda: group.poll() and len({r.value for r in group.got}) == 20, LONG_S, "all records")


def test_a_java_member_and_ours_share_a_group(cluster: Cluster, topic: str) -> None:
    read_beside_java(cluster, topic, {"group.protocol": "consumer"}, **MODERN)


# ---- transactions


def test_exactly_once_with_members_that_come_and_go(cluster: Cluster, topic: str) -> None:
    """Records are copied in transactions with the offsets of the group; each arrives once."""
    target, total = f"{topic}-copy", 600
    cluster.create_topic(topic, 4)
    cluster.create_topic(target, 2)
    produce(cluster, topic, 0, total)
    stop, errors = threading.Event(), list[BaseException]()

    def copy(number: int, ends: threading.Event) -> None:
        options = {**MODERN, "group_id": topic, "isolation_level": "read_committed", "enable_auto_commit": False, "max_poll_records": 20}
        try:
            with (
                Producer(**cluster.client, transactional_id=f"{topic}-{number}") as producer,
                Consumer(**cluster.client, **options) as consumer,
            ):
                consumer.subscribe([topic])
                producer.init_transactions()
                while not (stop.is_set() or ends.is_set()):
                    records = consumer.poll(0.1)
                    try:
                        with producer.transaction(consumer):
                            for record in records:
                                producer.send(target, record.value)
                    except KafkaError as error:
                        if "TransactionAborted" not in type(error).__name__ and "ILLEGAL_GENERATION" not in str(error):
                            raise
        except BaseException as error:
            errors.append(error)

    threads: list[tuple[threading.Thread, threading.Event]] = []

    def start() -> None:
        ends = threading.Event()
        threads.append((threading.Thread(target=copy, args=(len(threads), ends), daemon=True), ends))
        threads[-1][0].start()

    with Consumer(**cluster.client, isolation_level="read_committed", auto_offset_reset="earliest") as reader:
        reader.assign([(target, 0), (target, 1)])
        start()
        copied = read(reader, 50)
        start()
        copied += read(reader, min(50, total - len(copied)))
        threads[0][1].set()
        copied += read(reader, total - len(copied), 2 * LONG_S)
        copied += reader.poll(1.0)
    stop.set()
    for thread, _ in threads:
        thread.join(LONG_S)
    assert errors == []
    assert values(copied) == list(range(total))
