"""Share groups (KIP-932) on real brokers: acknowledgements, locks, brokers and members that die, beside Java's share consumer."""

from __future__ import annotations

import json
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
from integration.host import prerequisites
from integration.java.client import JVM, LOGGING, with_tools
from integration.waiting import until
from pykafka4 import (
    AcknowledgeType,
    BrokerError,
    Client,
    ConfigError,
    Consumer,
    KafkaError,
    Producer,
    RecordLockLost,
    ShareConsumer,
    TopicPartition,
)
from tests.inspection import inspect
from tests.integration.command_line import tools_bootstrap
from tests.integration.reading import followers, produce, read
from tests.integration.sharing import LOCK_S, LONG_S, SECONDS, Worker, configure, share, take_explicitly, values, wait_drained

pytestmark = pytest.mark.cluster

EXPLICIT = {"share_acknowledgement_mode": "explicit"}
MOST_DELIVERIES = 5  # group.share.delivery.count.limit


@pytest.fixture
def employ(cluster: Cluster, topic: str) -> Iterator[Callable[..., Worker]]:
    """Starts members on threads; none outlives the test."""
    started: list[Worker] = []

    def start(**options: Any) -> Worker:
        started.append(Worker(share(cluster, topic, topic, **{**EXPLICIT, **options})).start())
        return started[-1]

    yield start
    for worker in started:
        worker.stop()


@pytest.mark.main_job
def test_records_of_one_partition_are_shared_by_several_members(cluster: Cluster, topic: str, employ: Callable[..., Worker]) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    workers = [employ(max_poll_records=20) for _ in range(3)]
    until(lambda: all(w.consumer.status()["share_consumer"]["partitions"] for w in workers), LONG_S, "the partition at all members")
    with Producer(**cluster.client, batch_size=1_024) as producer:
        for n in range(3_000):
            producer.send(topic, b"%d" % n)
    wait_drained(workers, 3_000)
    for worker in workers:
        worker.stop()
    seen = [row for worker in workers for row in worker.seen]
    assert sorted(value for value, _, _ in seen) == list(range(3_000))  # none twice
    assert {count for _, count, _ in seen} == {1}
    assert sum(bool(worker.seen) for worker in workers) >= 2
    with share(cluster, topic, topic) as late:
        assert late.poll(1.0) == []


def test_implicit_acknowledgement_accepts_what_polls_have_returned(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    configure(cluster, topic)
    produce(cluster, topic, 0, 500)
    results: list[dict[TopicPartition, KafkaError | None]] = []
    with share(cluster, topic, topic, max_poll_records=50) as consumer:
        consumer.set_acknowledgement_callback(results.append)
        assert values(read(consumer, 500)) == list(range(500))
        assert not any(consumer.commit().values())
        until(lambda: consumer.stats()["acknowledged"] == 500, SECONDS, consumer.stats)
        assert results
        assert not any(error for each in results for error in each.values())
        assert consumer.commit() == {}
        produce(cluster, topic, 500, 510)
        assert values(read(consumer, 10)) == list(range(500, 510))
    with share(cluster, topic, topic) as late:  # the end of the block accepted the last ones
        assert late.poll(1.0) == []


def test_an_exception_in_the_block_releases_the_last_records(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 10)
    with pytest.raises(ZeroDivisionError), share(cluster, topic, topic) as consumer:
        assert len(read(consumer, 10)) == 10
        raise ZeroDivisionError
    with share(cluster, topic, topic) as second:  # at once: they were released, their locks would last for 30 s
        again = read(second, 10, SECONDS)
    assert values(again) == list(range(10))
    assert {record.delivery_count for record in again} == {2}


def test_a_for_loop_accepts_a_record_when_the_next_one_is_requested(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 20)
    with pytest.raises(ZeroDivisionError), share(cluster, topic, topic) as consumer:
        for record in consumer:
            if record.value == b"12":
                raise ZeroDivisionError
    with share(cluster, topic, topic) as second:
        again = read(second, 8, SECONDS)
    assert values(again) == list(range(12, 20))


@pytest.mark.main_job
def test_released_records_come_again_and_rejected_ones_do_not(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 30)
    with share(cluster, topic, topic, **EXPLICIT) as consumer:
        records = sorted((r for r in take_until_all(consumer, 30)), key=lambda r: r.offset)
        for record in records:
            kind = (consumer.accept, consumer.release, consumer.reject)[record.offset % 3]
            kind(record)
        assert consumer.commit() == {(topic, 0): None}
        again = take_explicitly(consumer, 10)
        assert values(again) == list(range(1, 30, 3))
        assert {record.delivery_count for record in again} == {2}
        assert consumer.poll(1.0) == []


def take_until_all(consumer: ShareConsumer, count: int) -> list[Any]:
    """`count` records in one poll or several, none acknowledged: renewals keep them in hand between polls."""
    records: list[Any] = []

    def polled() -> bool:
        for record in records:
            consumer.renew(record)
        records.extend(consumer.poll(0.5))
        return len(records) >= count

    until(polled, LONG_S, lambda: f"{len(records)} of {count} records")
    return records


def test_a_record_is_delivered_up_to_the_limit_and_then_archived(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 1)
    with share(cluster, topic, topic, **EXPLICIT) as consumer:
        counts = [take_explicitly(consumer, 1, "release")[0].delivery_count for _ in range(MOST_DELIVERIES)]
        assert counts == list(range(1, MOST_DELIVERIES + 1))
        assert consumer.poll(1.0) == []
        produce(cluster, topic, 1, 2)
        assert values(take_explicitly(consumer, 1)) == [1]  # the partition is not blocked


def test_a_lock_that_ends_is_told_and_the_record_comes_again(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic, LOCK_S)
    produce(cluster, topic, 0, 2)
    with share(cluster, topic, topic, **EXPLICIT) as slow:
        told: list[dict[TopicPartition, KafkaError | None]] = []
        slow.set_acknowledgement_callback(told.append)
        mine = take_until_all(slow, 2)
        assert slow.acquisition_lock_timeout_ms() == LOCK_S * 1000
        slow.commit()
        until(lambda: raises_lost(slow, mine[0]), LONG_S, "the end of the lock")
        with share(cluster, topic, topic) as other:
            again = read(other, 2)
            assert not any(other.commit().values())
        assert values(again) == [0, 1]
        assert {record.delivery_count for record in again} == {2}
        until(lambda: slow.poll(0.0) == [] and told, SECONDS, "to be told about the other record")
        (error,) = [each for results in told for each in results.values()]
        assert isinstance(error, RecordLockLost)
        assert error.offsets == (mine[1].offset,)


def raises_lost(consumer: ShareConsumer, record: Any) -> bool:
    try:
        consumer.accept(record)
    except RecordLockLost:
        return True
    return False


def test_the_broker_refuses_what_was_acknowledged_too_late(cluster: Cluster, topic: str) -> None:
    """The client's clock is not asked: the outcome of `commit` has the broker's verdict."""
    cluster.create_topic(topic, 1)
    configure(cluster, topic, LOCK_S)
    produce(cluster, topic, 0, 1)
    with share(cluster, topic, topic, **EXPLICIT) as slow, share(cluster, topic, topic, **EXPLICIT) as other:
        (mine,) = take_until_all(slow, 1)
        inspect(mine).acquired.until = float("inf")
        (again,) = take_until_all(other, 1)
        assert again.delivery_count == 2
        slow.accept(mine)
        (error,) = slow.commit().values()
        assert isinstance(error, RecordLockLost)
        other.accept(again)
        assert other.commit() == {(topic, 0): None}


def test_a_renewed_record_stays_in_hand_beyond_its_first_lock(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic, LOCK_S)
    produce(cluster, topic, 0, 1)
    with share(cluster, topic, topic, **EXPLICIT) as consumer, share(cluster, topic, topic) as other:
        (record,) = take_until_all(consumer, 1)
        begin = time.monotonic()

        def renewed_for_long() -> bool:
            consumer.acknowledge(record, AcknowledgeType.RENEW)
            assert consumer.commit() == {(topic, 0): None}
            assert other.poll(0.3) == []
            return time.monotonic() > begin + 2 * LOCK_S

        until(renewed_for_long, LONG_S, "twice the time of a lock")
        consumer.accept(record)
        assert consumer.commit() == {(topic, 0): None}
        assert other.poll(1.0) == []


def test_nothing_is_lost_and_nothing_accepted_comes_again_when_a_leader_is_killed(
    cluster: Cluster, topic: str, employ: Callable[..., Worker]
) -> None:
    cluster.create_topic(topic, 3)
    configure(cluster, topic, LOCK_S)
    workers = [employ(max_poll_records=50) for _ in range(2)]
    with Producer(**cluster.client) as producer:
        sent = 0

        def send(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                producer.send(topic, b"%d" % sent)
                sent += 1
            producer.flush()

        send(1_000)
        until(lambda: sum(len(w.accepted) for w in workers) > 300, LONG_S, "the first records")
        victim = cluster.leader(topic, 0)
        cluster.kill(victim)
        send(1_000)
        wait_drained(workers, 2_000, 2 * LONG_S)
        cluster.restart(victim)
        send(1_000)
        wait_drained(workers, 3_000, 2 * LONG_S)
    cluster.wait_full_isr([topic])
    for worker in workers:
        worker.stop()
    assert_accepted_once(workers, 3_000)


def assert_accepted_once(workers: list[Worker], count: int) -> None:
    """Every number was accepted, or may have been when an answer was lost; none for sure by two members."""
    times = Counter(number for worker in workers for number in worker.accepted)
    unknown = set[int]().union(*(worker.unknown for worker in workers))
    assert set(times) | unknown == set(range(count))
    assert len(unknown - set(times)) <= count // 10
    assert {number for number, often in times.items() if often > 1} == set()


def test_a_moved_leader_costs_only_the_records_in_hand(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 10)
    with share(cluster, topic, topic, **EXPLICIT) as consumer:
        mine = take_until_all(consumer, 10)
        leader = cluster.leader(topic, 0)
        cluster.move_leader(topic, 0, next(node for node in cluster.nodes if node != leader))
        for record in mine:
            if not raises_lost(consumer, record):
                consumer.accept(record)
        results = consumer.commit()
        assert all(isinstance(error, RecordLockLost) for error in results.values())
        again = take_explicitly(consumer, 10)  # at once, though their locks would last for 30 s
        assert values(again) == list(range(10))


MEMBER = """
import json, sys
from pykafka4 import ShareConsumer
options, topic = json.loads(sys.argv[1]), sys.argv[2]
consumer = ShareConsumer(**options, share_acknowledgement_mode="explicit")
consumer.subscribe([topic])
while not (records := consumer.poll(1.0)):
    pass
print(json.dumps([int(record.value) for record in records]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def doomed(cluster: Cluster, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own that takes records and keeps them. It does not outlive the test."""
    options = json.dumps({**cluster.client, "group_id": topic})
    with subprocess.Popen([sys.executable, "-c", MEMBER, options, topic], stdin=-1, stdout=-1, text=True) as process:
        yield process
        process.kill()


def test_the_records_of_a_killed_member_go_to_the_others(cluster: Cluster, topic: str, doomed: subprocess.Popen[str]) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    until(lambda: produced_and_taken(cluster, topic, doomed), LONG_S, "the records of the other process")
    assert doomed.stdout is not None
    held = json.loads(doomed.stdout.readline())
    with share(cluster, topic, topic) as other:
        doomed.kill()
        died = time.monotonic()
        again: list[Any] = []
        until(lambda: again.extend(other.poll(0.5)) or set(held) <= set(values(again)), LONG_S, "the records of the killed member")
        took = time.monotonic() - died
    assert set(held) <= set(values(again))
    assert {record.delivery_count for record in again if int(record.value or b"") in held} == {2}
    assert took < 25  # its connection was lost, which releases them: a lock lasts for 30 s


def produced_and_taken(cluster: Cluster, topic: str, doomed: subprocess.Popen[str]) -> bool:
    produce(cluster, topic, 0, 10)
    return doomed.poll() is None


def test_one_client_serves_share_consumers_and_a_producer(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    configure(cluster, topic)
    with Client(**cluster.client) as client, Producer(client) as producer, ShareConsumer(client, group_id=topic) as consumer:
        consumer.subscribe([topic])
        for n in range(100):
            producer.send(topic, b"%d" % n)
        assert values(read(consumer, 100)) == list(range(100))
        consumer.unsubscribe()
        assert consumer.subscription() == set()
        consumer.subscribe([topic])
        producer.send(topic, b"100")
        producer.flush()
        again = read(consumer, 1)
        assert 100 in values(again) or 100 in values(read(consumer, 1))


def test_wakeup_ends_a_poll_and_close_leaves_the_group_in_time(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    consumer = share(cluster, topic, topic)
    until(lambda: consumer.poll(0.1) == [] and consumer.status()["share_consumer"]["state"] == "stable", LONG_S, "membership")
    timer = threading.Timer(0.5, consumer.wakeup)
    timer.start()
    begin = time.monotonic()
    assert consumer.poll(LONG_S) == []
    assert time.monotonic() - begin < SECONDS
    begin = time.monotonic()
    consumer.close(2.0)
    assert time.monotonic() - begin < 2.5
    timer.join()


def test_misuse_is_refused_with_the_way_out(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    produce(cluster, topic, 0, 2)
    with share(cluster, topic, topic) as implicit:
        (record, *_) = read(implicit, 2)
        with pytest.raises(ConfigError, match="share_acknowledgement_mode='explicit'"):
            implicit.accept(record)
    produce(cluster, topic, 2, 4)
    with share(cluster, topic, topic, **EXPLICIT) as consumer:
        with pytest.raises(TypeError, match="no patterns"):
            consumer.subscribe("a.*")
        records = take_until_all(consumer, 2)
        consumer.commit()
        with pytest.raises(ConfigError, match="not in hand"):
            consumer.accept(record) if inspect(record).acquired.lease.ended is None else consumer.accept(other_record(records))
        consumer.accept(records[0])
        consumer.commit()
        with pytest.raises(ConfigError, match="not in hand"):
            consumer.accept(records[0])
        consumer.accept(records[1])
        produce(cluster, topic, 4, 6)
        until(lambda: bool(consumer.poll(0.5)), LONG_S, "records")
        with pytest.raises(KafkaError, match="unacknowledged records of the last poll"):
            consumer.poll(0.5)


def other_record(records: list[Any]) -> Any:
    """The same record, as if another consumer had it."""
    first = records[0]
    return type(first)(first._record, first.delivery_count, inspect(first).acquired)


def test_the_name_of_a_consumer_group_is_refused(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Consumer(**cluster.client, group_id=topic, group_protocol="consumer") as consumer:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) == [] and consumer.assignment(), LONG_S, "a consumer group of that name")
        with share(cluster, topic, topic) as other, pytest.raises(BrokerError) as caught:
            until(lambda: other.poll(1.0), LONG_S, "the refusal")
        assert topic in str(caught.value)


@attrs.define(eq=False)
class JavaMember:
    """Java's verifiable share consumer."""

    process: subprocess.Popen[str]
    accepted: set[tuple[int, int]] = attrs.Factory(set)  # partition, offset
    started: bool = False

    def follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            self.started = self.started or event.get("name") == "startup_complete"
            if event.get("name") == "offsets_acknowledged" and event.get("success"):
                for part in event["partitions"]:
                    self.accepted |= {(part["partition"], offset) for offset in part["offsets"]}


@pytest.fixture
def java_members(cluster: Cluster, topic: str) -> Iterator[Callable[[], JavaMember]]:
    """Starts Java's members; none outlives the test."""
    with followers() as follow:

        def start() -> JavaMember:
            where = [
                "--bootstrap-server",
                tools_bootstrap(cluster),
                "--topic",
                topic,
                "--group-id",
                topic,
                "--acknowledgement-mode",
                "sync",
            ]
            main = "org.apache.kafka.tools.VerifiableShareConsumer"
            log = f"-Dlog4j2.configurationFile={LOGGING}"
            command = [prerequisites.java(), log, *JVM, *with_tools(), main, *where]
            return follow(JavaMember(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)))

        yield start


def test_javas_share_consumer_and_ours_share_one_partition(
    cluster: Cluster, topic: str, java_members: Callable[[], JavaMember], employ: Callable[..., Worker]
) -> None:
    cluster.create_topic(topic, 1)
    configure(cluster, topic)
    java, ours = java_members(), employ(max_poll_records=20)
    until(lambda: java.started, 2 * LONG_S, "Java's member to start")
    count = 0
    with Producer(**cluster.client, batch_size=1_024) as producer:

        def both_have_some() -> bool:
            nonlocal count
            for _ in range(500):
                producer.send(topic, b"%d" % count)
                count += 1
            producer.flush()
            return len(java.accepted) > 50 and len(ours.accepted) > 50

        until(both_have_some, 2 * LONG_S, lambda: f"{len(java.accepted)} records of Java's, {len(ours.accepted)} of ours")
    until(
        lambda: len(java.accepted) + len(ours.accepted) >= count, LONG_S, lambda: f"{len(java.accepted)} + {len(ours.accepted)} of {count}"
    )
    ours.stop()
    offsets = {offset for _, offset in java.accepted}
    assert not offsets & ours.accepted  # one partition: the value is the offset
    assert offsets | ours.accepted == set(range(count))
