"""Partitioners of a whole producer, on a model cluster."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pykafka4 import BufferFull, KafkaTimeoutError, Producer
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until

LEADERS = [1] * 3 + [2] * 7


def create(server: ModelServer, topic: str, leaders: Sequence[int] = LEADERS) -> None:
    server.do(lambda cluster: cluster.create_topic(topic, len(leaders), leaders=leaders))


def test_late_records_are_spread_as_the_partitions_are_and_none_waits_for_one_that_is_offline() -> None:
    with ModelServer() as server:
        create(server, "t")
        server.create_topic("other", 3)
        with Producer(bootstrap_servers=server.bootstrap_servers, partitioner="late", batch_size=1024, linger_ms=1) as producer:
            for partition in range(3):
                producer.send("other", b"connect", partition=partition).result(SECONDS)

            def send(count: int) -> Counter[int]:
                deliveries = [producer.send("t", bytes(100)) for _ in range(count)]
                return Counter(delivery.result(SECONDS).partition for delivery in deliveries)

            send(100)
            got = send(5_000)
            assert 0.27 < sum(got[p] for p in range(3)) / 5_000 < 0.33
            assert set(got) == set(range(10))
            server.do(lambda cluster: cluster.orphan("t", 8, 60.0))
            producer.send("t", b"finds no leader", partition=8)
            until(lambda: producer.status()["partitions"]["t-8"]["state"] == "offline", "partition 8 to be offline")
            assert send(2_000)[8] == 0
            server.do(lambda cluster: cluster.heal())


def by_length(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return len(key or b"") % len(partitions)


def test_a_function_chooses_also_for_the_first_record_of_a_topic() -> None:
    with ModelServer() as server:
        create(server, "t")
        with Producer(bootstrap_servers=server.bootstrap_servers, partitioner=by_length) as producer:
            assert [producer.send("t", b"v", key=bytes(n)).partition for n in (4, 12, 0)] == [4, 2, 0]


def test_a_function_waits_for_its_topic_no_longer_than_max_block_ms() -> None:
    with (
        ModelServer() as server,
        Producer(
            bootstrap_servers=server.bootstrap_servers, partitioner=by_length, max_block_ms=200, allow_auto_create_topics=False
        ) as producer,
        pytest.raises(KafkaTimeoutError, match="absent"),
    ):
        producer.send("absent", b"v")


def test_inside_a_callback_a_function_waits_for_nothing() -> None:
    with ModelServer() as server:
        create(server, "t")
        create(server, "u")
        outcome: list[Any] = []
        done = threading.Event()

        def callback(delivery: Any) -> None:
            try:
                outcome.append(producer.send("u", b"v"))
            except BufferFull as error:
                outcome.append(str(error))
            done.set()

        with Producer(bootstrap_servers=server.bootstrap_servers, partitioner=by_length) as producer:
            producer.send("t", b"v", on_delivery=callback)
            assert done.wait(SECONDS)
        assert outcome[0].startswith("the partitions of 'u' are not known yet, and a callback must not wait")


def test_a_partition_key_moves_on_while_its_partition_is_offline() -> None:
    with ModelServer() as server:
        create(server, "t", [1, 2, 3])
        with Producer(bootstrap_servers=server.bootstrap_servers, partitioner="partition_key") as producer:
            assert [producer.send("t", b"v", partition=n).result(SECONDS).partition for n in (1, 4, 2**32 - 1)] == [1, 1, 0]
            server.do(lambda cluster: cluster.orphan("t", 1, 60.0))
            until(lambda: producer.send("t", b"v", partition=4).partition == 2, "metadata without a leader of partition 1")
            server.do(lambda cluster: cluster.heal())  # records that were sent before that are still to be delivered


def test_round_robin_is_not_held_up_by_a_partition_that_is_stuck() -> None:
    with ModelServer() as server:
        create(server, "t", [1, 2])
        with Producer(
            bootstrap_servers=server.bootstrap_servers,
            partitioner="round_robin",
            max_partition_bytes=16_384,
            batch_size=4096,
            linger_ms=0,
            max_block_ms=SECONDS * 1000,
        ) as producer:
            for partition in (0, 1):
                producer.send("t", b"v", partition=partition).result(SECONDS)
            server.do(lambda cluster: cluster.freeze(2, 60.0))
            sent = Counter(producer.send("t", bytes(1000)).partition for _ in range(300))
            assert sent[1] < 20 < 270 < sent[0], "they went where there was room, although both were full again and again"
            server.do(lambda cluster: cluster.heal())
