"""The consumer on real brokers: what it promises, each with its real fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java import JavaRecord, java_consume
from integration.proxied import Proxied
from integration.waiting import until
from pykafka4 import BrokerError, Client, Consumer, GroupError, KafkaError, Producer, Record, TopicPartition

pytestmark = pytest.mark.cluster

LONG = 60.0
GROUP = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}


def produce(cluster: Any, topic: str, first: int, last: int, partition: int | None = None) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for n in range(first, last):
            producer.send(topic, b"%d" % n, key=None if partition is not None else b"%d" % n, partition=partition)


def read(consumer: Consumer, count: int, timeout: float = LONG) -> list[Record]:
    """At least `count` records."""
    records: list[Record] = []
    deadline = time.monotonic() + timeout
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records; {consumer.status()}"
        records += consumer.poll(0.5)
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any], timeout: float = LONG) -> list[Record]:
    records: list[Record] = []
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, consumer.status()
        records += consumer.poll(0.1)
    return records


def values(records: list[Record]) -> list[int]:
    return sorted(int(r.value) for r in records)


def assert_in_order(records: list[Record]) -> None:
    """Every offset of every partition once, none skipped, from the first on."""
    at: dict[int, int] = {}
    for record in records:
        assert record.offset == at.get(record.partition, 0), f"{record.topic}-{record.partition}"
        at[record.partition] = record.offset + 1


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


def test_a_topic_that_does_not_exist_is_waited_for_and_read_once_it_is_created(cluster: Cluster, topic: str) -> None:
    with Consumer(bootstrap_servers=cluster.bootstrap, **{**GROUP, "auto_offset_reset": "latest"}, group_id=topic) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, lambda: "UNKNOWN_TOPIC_OR_PARTITION" in str(consumer.status()["topics"]))
        cluster.create_topic(topic, 2)
        produce(cluster, topic, 0, 100)
        assert values(read(consumer, 100)) == list(range(100))


def test_a_leader_that_dies_costs_no_record_and_no_rebalance(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    notes = Notes()
    with (
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) as consumer,
    ):
        consumer.subscribe([topic], notes)
        records: list[Record] = []
        for n in range(200):
            producer.send(topic, b"%d" % n, key=b"%d" % n)
        records += read(consumer, 200)
        dead = cluster.leader(topic, 0)
        cluster.kill(dead)
        try:
            for n in range(200, 400):
                producer.send(topic, b"%d" % n, key=b"%d" % n)
            records += read(consumer, 200)
        finally:
            cluster.start(dead)
        consumer.commit()
        assert values(records) == list(range(400))
        assert_in_order(records)
        assert notes.kinds == ["assigned"]
    cluster.wait_full_isr([topic])


def test_the_coordinator_that_dies_or_freezes_is_replaced_without_a_rebalance(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 30)
    notes = Notes()
    with Consumer(
        bootstrap_servers=cluster.bootstrap, **{**GROUP, "session_timeout_ms": 30_000}, group_id=topic, enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic], notes)
        records = read(consumer, 30)
        for fault, mend in ((cluster.kill, cluster.start), (cluster.freeze, cluster.thaw)):
            node = consumer.status()["consumer"]["coordinator"]
            fault(node)
            try:
                consumer.commit(timeout=LONG)
                assert consumer.status()["consumer"]["coordinator"] != node
            finally:
                mend(node)
            cluster.wait_full_isr()
        produce(cluster, topic, 30, 60)
        records += read(consumer, 30)
        assert values(records) == list(range(60))
        assert notes.kinds == ["assigned"]


def test_reading_follows_leaders_that_move_and_brokers_that_restart(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    total = 25_000
    stop = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for n in range(total):
                producer.send(topic, b"%d" % n, key=b"%d" % n)
                if n % 500 == 0:
                    producer.flush()
                    stop.wait(0.05)

    writer = threading.Thread(target=write)
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(6)])
        writer.start()
        records = read(consumer, 18)
        for node in (1, 2):
            cluster.stop(node)
            records += read(consumer, 500)
            cluster.start(node)
            cluster.wait_full_isr([topic])
        for p in range(6):
            cluster.move_leader(topic, p, 1 + p % 3)
            records += consumer.poll(0.1)
        records += read(consumer, total - len(records))
        writer.join(LONG)
    assert values(records) == list(range(total))
    assert_in_order(records)


def test_connecting_and_asking_for_offsets_works_while_a_broker_is_down(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 100)
    dead = cluster.leader(topic, 0)
    cluster.stop(dead)
    try:
        cluster.wait_leader(topic, 0, other_than=dead)
        with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, p) for p in range(3)])
            assert values(read(consumer, 100)) == list(range(100))
            consumer.seek_to_end()
            ends = [consumer.position((topic, p), LONG) for p in range(3)]
            cluster.start(dead)
            cluster.wait_full_isr([topic])
            assert sum(ends) == 100
            consumer.seek_to_beginning()
            assert values(read(consumer, 100)) == list(range(100))
    finally:
        cluster.heal()


def test_three_members_share_six_partitions_and_each_record_is_owned_once(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    produce(cluster, topic, 0, 3_000)
    members = [Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) for _ in range(3)]
    try:
        got: list[Record] = []
        for member in members:
            member.subscribe([topic])

        def shared_out() -> bool:
            for member in members:
                got.extend(member.poll(0.05))
            owned = [tp for member in members for tp in member.assignment()]
            return len(owned) == 6 == len(set(owned)) and all(len(m.assignment()) == 2 for m in members)

        until(shared_out, LONG, "every member to have two partitions")
        until(lambda: shared_out() and len({(r.partition, r.offset) for r in got}) == 3_000, LONG, "all records")
        last = members.pop()
        last.commit()  # what its last poll handed out is finished only when it says so
        last.close()
        until(lambda: [got.extend(m.poll(0.05)) for m in members] and all(len(m.assignment()) == 3 for m in members), LONG, "take-over")
        assert set(values(got)) == set(range(3_000))
        assert len(got) == 3_000  # what was finished was committed before it changed hands: nothing came twice
    finally:
        for member in members:
            member.close()


def test_a_java_member_and_ours_share_a_group(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    theirs: list[JavaRecord] = []
    java = threading.Thread(
        target=lambda: theirs.extend(java_consume(cluster.bootstrap, topic, count=1_000, properties={"group.id": topic}, timeout=15))
    )
    ours: list[Record] = []
    with Consumer(bootstrap_servers=cluster.bootstrap, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        java.start()
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        produce(cluster, topic, 0, 2_000)
        deadline = time.monotonic() + LONG
        while java.is_alive() or len(ours) + len(theirs) < 2_000:
            assert time.monotonic() < deadline, (len(ours), len(theirs))
            ours += consumer.poll(0.2)
    assert theirs
    assert ours
    assert {int(r.value) for r in ours} | {int(r.value or b"-1") for r in theirs} == set(range(2_000))


def test_an_offset_out_of_range_names_partition_offset_and_range(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 10, partition=0)
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 1_000)
        with pytest.raises(BrokerError, match=f"{topic}-0: OFFSET_OUT_OF_RANGE .*offset 1000 is not among 0 to 10"):
            poll_until(consumer, lambda: False)
        consumer.seek((topic, 0), 8)
        assert [r.offset for r in read(consumer, 2)] == [8, 9]


def test_positions_saved_elsewhere_are_resumed_exactly(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 300)
    tps = [TopicPartition(topic, p) for p in range(3)]
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", max_poll_records=50) as first:
        first.assign(tps)
        records = read(first, 100)
        saved = {tp: first.position(tp) for tp in tps}
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as second:
        second.assign(tps)
        for tp, offset in saved.items():
            second.seek(tp, offset)
        records += read(second, 300 - len(records))
    assert values(records) == list(range(300))
    assert_in_order(records)


def test_a_handler_slower_than_the_stream_has_bounded_memory_and_skips_nothing(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for n in range(3_000):
            producer.send(topic, b"%d " % n + bytes(5_000), partition=n % 2)
    limit = 2 * 1024 * 1024
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", prefetch_bytes=limit) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        seen: list[Record] = []
        most = 0
        for record in consumer:
            seen.append(record)
            most = max(most, consumer.stats()["buffered_bytes"])
            if len(seen) == 3_000:
                break
    assert_in_order(seen)
    assert most <= limit + 2 * 1024 * 1024  # one answer may go over it


def test_consumers_share_one_client_with_a_producer(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with Client(bootstrap_servers=cluster.bootstrap) as client:
        consumers = [Consumer(client=client, auto_offset_reset="earliest") for _ in range(4)]
        with Producer(client=client) as producer:
            for consumer in consumers:
                consumer.assign([(topic, 0), (topic, 1)])
                consumer.poll(0)
            began = time.monotonic()
            for n in range(20):  # a Fetch that waits for data must not hold back what is produced
                producer.send(topic, b"%d" % n).result(LONG)
            assert time.monotonic() - began < 5
        for consumer in consumers:
            assert values(read(consumer, 20)) == list(range(20))
            consumer.close()


def test_a_member_cut_off_from_its_coordinator_loses_its_partitions_and_returns(proxied_cluster: Proxied, topic: str) -> None:
    proxied_cluster.create_topic(topic, 2)
    produce(proxied_cluster, topic, 0, 10)
    notes = Notes()
    with Consumer(
        bootstrap_servers=proxied_cluster.bootstrap,
        **{**GROUP, "session_timeout_ms": 3_000},
        group_id=topic,
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic], notes)
        read(consumer, 10)
        for node in proxied_cluster.nodes:
            proxied_cluster.proxies[node].silence()
            proxied_cluster.proxies[node].drop_connections()
        poll_until(consumer, lambda: "lost" in notes.kinds)
        with pytest.raises(GroupError):
            consumer.commit()
        proxied_cluster.heal_proxies()
        poll_until(consumer, lambda: notes.kinds == ["assigned", "lost", "assigned"])


def test_chaotic_connections_cost_the_group_no_record(proxied_cluster: Proxied, topic: str) -> None:
    proxied_cluster.create_topic(topic, 3)
    total = 3_000
    with (
        Producer(bootstrap_servers=proxied_cluster.bootstrap) as producer,
        Consumer(bootstrap_servers=proxied_cluster.bootstrap, **GROUP, group_id=topic, auto_commit_interval_ms=200) as consumer,
    ):
        consumer.subscribe([topic])
        for node in proxied_cluster.nodes:
            proxied_cluster.proxies[node].chaos()
        seen: set[int] = set()
        deadline = time.monotonic() + 2 * LONG
        for n in range(total):
            producer.send(topic, b"%d" % n, key=b"%d" % n)
            if n % 100 == 0:
                seen.update(int(r.value) for r in consumer.poll(0.2))
        while len(seen) < total:
            assert time.monotonic() < deadline, (len(seen), consumer.status())
            try:
                seen.update(int(r.value) for r in consumer.poll(0.5))
            except KafkaError as error:
                pytest.fail(f"chaos came out of poll: {error!r}")
        proxied_cluster.heal_proxies()
    assert seen == set(range(total))
