"""Three old brokers: a leader that dies, freezes or restarts costs and doubles nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from integration.local.cluster import LocalCluster
from pykafka4 import Consumer, Producer, Record, TopicPartition
from tests.compat.old_releases import LONG_S, REPLICATED, marks, on, poll_until

pytestmark = [*marks, on(f"2.1.1{REPLICATED}")]

PAUSE_S = 0.002


class Load:
    """An idempotent producer that writes one number after the other until `stop` is called."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.stop, self.sent = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap, linger_ms=1) as producer:
            while not self.stop.wait(PAUSE_S):
                producer.send(self.topic, b"%d" % self.sent, key=b"%d" % self.sent)
                self.sent += 1

    def __enter__(self) -> Load:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(LONG_S)
        assert not self.thread.is_alive()


def once_each(cluster: LocalCluster, topic: str, count: int) -> None:
    found = [int(r.value or b"-1") for records in cluster.log(topic).values() for r in records]
    assert len(found) == count, f"{len(set(range(count)) - set(found))} lost, {len(found) - len(set(found))} doubled"
    assert set(found) == set(range(count))


def faulted(cluster: LocalCluster, topic: str, fault: Callable[[int], None], mend: Callable[[int], None]) -> None:
    cluster.create_topic(topic, 3)
    records: list[Record] = []
    with Load(cluster, topic) as load, Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(3)])
        for partition in range(2):
            poll_until(consumer, lambda enough=load.sent + 500: len(records) >= enough, LONG_S, records)  # type: ignore[misc]
            dead = cluster.leader(topic, partition)
            fault(dead)
            try:
                cluster.wait_leader(topic, partition, other_than=dead)
                poll_until(consumer, lambda enough=load.sent + 500: len(records) >= enough, LONG_S, records)  # type: ignore[misc]
            finally:
                mend(dead)
            cluster.wait_full_isr([topic])
        load.__exit__()
        poll_until(consumer, lambda: len(records) >= load.sent, LONG_S, records)
    once_each(cluster, topic, load.sent)
    assert sorted(int(r.value or b"-1") for r in records) == list(range(load.sent))


def test_leaders_that_are_killed(cluster: LocalCluster, topic: str) -> None:
    faulted(cluster, topic, cluster.kill, cluster.start)


def test_leaders_that_freeze(cluster: LocalCluster, topic: str) -> None:
    faulted(cluster, topic, cluster.freeze, cluster.thaw)


def test_a_rolling_restart(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with Load(cluster, topic) as load:
        for node in cluster.nodes:
            cluster.restart(node)
            cluster.wait_full_isr([topic])
    once_each(cluster, topic, load.sent)
