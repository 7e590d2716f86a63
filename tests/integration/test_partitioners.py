"""Partitioners on real brokers: the partitions that other clients choose, and `late` as brokers lead and fall."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import pytest

from integration.cluster import Cluster
from pykafka4 import Producer

pytestmark = pytest.mark.cluster

PARTITIONS = 10


def three_and_seven(cluster: Cluster, topic: str) -> dict[int, int]:
    """The leaders of the topic: one broker leads three of its partitions, another one seven."""
    cluster.create_topic(topic, PARTITIONS)
    few, many, _ = sorted(cluster.nodes)
    wanted = {partition: few if partition < 3 else many for partition in range(PARTITIONS)}
    for partition, node in wanted.items():
        if cluster.leader(topic, partition) != node:
            cluster.move_leader(topic, partition, node)
    return wanted


def test_late_records_go_to_brokers_as_they_lead_partitions_and_past_a_broker_that_died(cluster: Cluster, topic: str) -> None:
    leaders = three_and_seven(cluster, topic)
    few = leaders[0]
    with Producer(**cluster.client, partitioner="late", batch_size=4096, delivery_timeout_ms=30_000) as producer:
        producer.partitions_for(topic)

        def send(count: int) -> Counter[int]:
            deliveries = [producer.send(topic, bytes(200)) for _ in range(count)]
            producer.flush(30)
            return Counter(delivery.result(0).partition for delivery in deliveries)

        send(1_000)  # connects
        got = send(20_000)
        assert 0.27 < sum(got[partition] for partition in range(3)) / 20_000 < 0.33, got
        assert set(got) == set(range(PARTITIONS))
        cluster.kill(few)
        assert send(2_000).total() == 2_000
        cluster.start(few)


def test_keys_get_librdkafkas_partitions_and_those_of_a_function(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 7)
    keys = [b"key %d" % n for n in range(100)]

    def longest(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        return len(key or b"") % len(partitions)

    with Producer(**cluster.client, partitioner="consistent_random") as producer:
        assert [producer.send(topic, b"v", key=key).result(30).partition for key in keys] == [zlib.crc32(key) % 7 for key in keys]
    with Producer(**cluster.client, partitioner=longest) as producer:
        assert [producer.send(topic, b"v", key=key).result(30).partition for key in keys] == [len(key) % 7 for key in keys]
    assert sum(len(records) for records in cluster.log(topic).values()) == 2 * len(keys)
