"""Partitioners on real brokers: the partitions that other clients choose, and those that are offline and get nothing."""

from __future__ import annotations

import contextlib
import zlib
from collections import Counter
from collections.abc import Sequence

import pytest

from integration.cluster import Cluster
from integration.waiting import until
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
        for _ in range(4):  # nobody waits for a broker that took nothing for 100 ms, as it happens on a busy machine
            got = send(20_000)
            share = sum(got[partition] for partition in range(3)) / 20_000
            if 0.27 < share < 0.33:
                break
        assert 0.27 < share < 0.33, got
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


SPREAD = 6  # partitions with one replica each, dealt round the brokers
ALONE = {"unclean.leader.election.enable": "true"}  # the only replica of a killed broker has left the in-sync set


def dealt(cluster: Cluster, topic: str) -> tuple[int, list[int]]:
    """Creates the topic. Returns a broker, and which partitions are offline when it is away."""
    cluster.create_topic(topic, SPREAD, 1, ALONE)
    nodes = sorted(cluster.nodes)
    for partition in range(SPREAD):
        if cluster.leader(topic, partition) != nodes[partition % len(nodes)]:
            cluster.move_leader(topic, partition, nodes[partition % len(nodes)])
    return nodes[0], list(range(0, SPREAD, len(nodes)))


def await_leaderless(producer: Producer, topic: str, partitions: list[int]) -> None:
    """Until the producer knows it of all of them."""

    def known() -> bool:
        rows = producer.status()["partitions"]
        return all(rows[f"{topic}-{partition}"]["reason"] == f"{topic}-{partition}: no leader" for partition in partitions)

    until(known, 30, lambda: f"no leader of {partitions}: {producer.status()['partitions']}")


def test_what_chooses_a_partition_passes_over_those_that_are_offline(cluster: Cluster, topic: str) -> None:
    away, offline = dealt(cluster, topic)
    online = [partition for partition in range(SPREAD) if partition not in offline]

    def following(number: int) -> int:
        """The partition of that number, or the next one that has a leader."""
        return next(p % SPREAD for p in range(number % SPREAD, 2 * SPREAD) if p % SPREAD in online)

    with contextlib.ExitStack() as stack:
        late, turns, numbered = (
            stack.enter_context(Producer(**cluster.client, partitioner=name, metadata_max_age_ms=1_000, batch_size=1_024))
            for name in ("late", "round_robin", "partition_key")
        )

        def send(producer: Producer, numbers: Sequence[int | None]) -> list[int]:
            deliveries = [producer.send(topic, bytes(100), partition=number) for number in numbers]
            producer.flush(30)
            return [delivery.result(0).partition for delivery in deliveries]

        numbers = [7**n % 2**32 for n in range(60)]
        for producer in (late, turns):
            producer.partitions_for(topic)
        until(lambda: set(send(late, [None] * 600)) == set(range(SPREAD)), 30, "records in every partition, once all brokers are connected")
        assert set(Counter(send(turns, [None] * 60)).values()) == {60 // SPREAD}
        assert send(numbered, numbers) == [number % SPREAD for number in numbers]
        send(numbered, range(SPREAD))
        cluster.kill(away)
        try:
            for producer in (late, turns, numbered):
                await_leaderless(producer, topic, offline)
            got = {producer: send(producer, [None] * 600) for producer in (late, turns)}
            assert send(numbered, numbers) == [following(number) for number in numbers]
        finally:
            cluster.start(away)
    assert set(got[late]) == set(online)
    assert set(Counter(got[turns]).values()) == {600 // len(online)}
