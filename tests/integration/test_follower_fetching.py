"""Follower fetching (KIP-392) on real brokers, which choose the follower in the rack of the consumer."""

from __future__ import annotations

import time

import pytest

from integration.cluster import Cluster
from integration.waiting import Deadline
from pykafka4 import Consumer, Producer, Record, TopicPartition
from tests.integration.reading import LONG_S, SECONDS, assert_in_order, read, send, values

pytestmark = pytest.mark.cluster


def fetched_from(consumer: Consumer, topic: str) -> int | None:
    node: int | None = consumer.status()["consumer"]["partitions"][f"{topic}-0"]["fetched_from"]
    return node


def read_from(consumer: Consumer, topic: str, node: int, timeout: float = LONG_S) -> list[Record]:
    """The records that were returned until the partition was read from `node`."""
    records, deadline = list[Record](), Deadline(timeout)
    while fetched_from(consumer, topic) != node:
        assert not deadline.passed(), consumer.status()
        records += consumer.poll(0.1)
    return records


def other(cluster: Cluster, topic: str) -> int:
    """A follower."""
    leader = cluster.leader(topic, 0)
    return next(node for node in (1, 2, 3) if node != leader)


@pytest.mark.main_job
def test_the_follower_in_the_rack_serves_and_its_death_costs_nothing(cluster: Cluster, topic: str) -> None:
    """Read by the follower, from the leader while it is down, and from the follower again."""
    cluster.create_topic(topic, 1)
    cluster.wait_full_isr([topic])
    follower = other(cluster, topic)
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, auto_offset_reset="earliest", client_rack=f"rack-{follower}") as consumer,
    ):
        consumer.subscribe([topic])
        send(producer, topic, range(200), 0)
        records = read(consumer, 200)
        records += read_from(consumer, topic, follower)
        send(producer, topic, range(200, 400), 0)
        records += read(consumer, 200)
        assert fetched_from(consumer, topic) == follower
        cluster.kill(follower)
        try:
            send(producer, topic, range(400, 600), 0)
            records += read(consumer, 200, SECONDS)
            assert fetched_from(consumer, topic) == cluster.leader(topic, 0)
        finally:
            cluster.start(follower)
        cluster.wait_full_isr([topic])
        send(producer, topic, range(600, 800), 0)
        records += read_from(consumer, topic, follower)
        records += read(consumer, 800 - len(records))
    assert values(records) == list(range(800))
    assert_in_order(records)


def test_a_leader_that_dies_costs_the_reader_of_a_follower_nothing(cluster: Cluster, topic: str) -> None:
    """If the follower becomes the leader it goes on; if not, the new leader chooses it again."""
    cluster.create_topic(topic, 1)
    cluster.wait_full_isr([topic])
    follower, leader = other(cluster, topic), cluster.leader(topic, 0)
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, auto_offset_reset="earliest", client_rack=f"rack-{follower}") as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        send(producer, topic, range(200), 0)
        records = read(consumer, 200)
        records += read_from(consumer, topic, follower)
        cluster.kill(leader)
        try:
            cluster.wait_leader(topic, 0, other_than=leader)
            send(producer, topic, range(200, 400), 0)
            records += read(consumer, 200, SECONDS)
            records += read_from(consumer, topic, follower)
        finally:
            cluster.start(leader)
        cluster.wait_full_isr([topic])
        for n in range(400, 800, 100):
            cluster.move_leader(topic, 0, other(cluster, topic))
            send(producer, topic, range(n, n + 100), 0)
            records += read(consumer, 100, SECONDS)
    assert values(records) == list(range(800))
    assert_in_order(records)


def test_a_follower_that_lags_repeats_and_loses_nothing(cluster: Cluster, topic: str) -> None:
    """Frozen, then stopped, while records are written: its log ends before the position of the reader."""
    cluster.create_topic(topic, 1)
    cluster.wait_full_isr([topic])
    follower = other(cluster, topic)
    with (
        Producer(**cluster.client, acks=1, enable_idempotence=False) as producer,
        Consumer(**cluster.client, auto_offset_reset="latest", client_rack=f"rack-{follower}", request_timeout_ms=3_000) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position((topic, 0)) == 0
        send(producer, topic, range(200), 0)
        records = read(consumer, 200)
        records += read_from(consumer, topic, follower)
        cluster.freeze(follower)
        try:
            send(producer, topic, range(200, 5_000), 0)
            producer.flush()
            time.sleep(1)
        finally:
            cluster.thaw(follower)
        records += read(consumer, 4_800)
    assert values(records) == list(range(5_000))
    assert_in_order(records)
