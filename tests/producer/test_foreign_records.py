"""Memory of batches that expired while a request with them was under way is not used for others: no record lands in another topic's log.

The checksum of a batch does not cover its topic, so no broker would notice.
"""

from __future__ import annotations

import contextlib
import time

import pytest

from pykafka4 import KafkaError, Producer
from pykafka4.testing import ModelCluster, ModelServer

TOPICS = {"one": 2, "other": 2}
DELIVERY_S = 0.15
LATE_S = 0.4  # seconds that a broker takes for a request: batches expire meanwhile
ENDS_S = 2.5


def slow(cluster: ModelCluster, seconds: float) -> None:
    for node in cluster.brokers:
        cluster.slow(node, seconds)


@pytest.mark.model(brokers=2, topics=TOPICS)
@pytest.mark.parametrize(("codec", "idempotent"), [("none", True), ("lz4", False)])
def test_no_record_lands_in_another_topic_when_brokers_are_later_than_deliveries_may_take(
    server: ModelServer, codec: str, idempotent: bool
) -> None:
    producer = Producer(
        bootstrap_servers=server.bootstrap_servers, buffer_memory=64 * 1024, max_partition_bytes=16 * 1024, batch_size=2048, linger_ms=0,
        delivery_timeout_ms=DELIVERY_S * 1000, request_timeout_ms=5_000, max_block_ms=20, compression_type=codec,
        enable_idempotence=idempotent,
    )  # fmt: skip
    sent: dict[str, set[bytes]] = {topic: set() for topic in TOPICS}
    deliveries = []
    try:
        for topic in TOPICS:
            producer.send(topic, b"%s first" % topic.encode()).result(10)
        begun, n = time.monotonic(), 0
        while time.monotonic() < begun + ENDS_S:
            server.do(lambda cluster: slow(cluster, LATE_S if (time.monotonic() - begun) % 1.0 < 0.7 else 0.0))
            for _ in range(200):
                n += 1
                topic = ("one", "other")[n % 2]
                value = b"%s %d " % (topic.encode(), n) + bytes(n % 300)
                with contextlib.suppress(KafkaError):
                    deliveries.append((topic, value, producer.send(topic, value, partition=n // 2 % 2)))
                    sent[topic].add(value)
        server.do(lambda cluster: slow(cluster, 0.0))
    finally:
        producer.close(10)
    stats = producer.stats()
    assert stats.acked > 100
    assert stats.lost > 100, "batches expired while brokers had them"
    found = {topic: [record.value for record in server.records(topic)] for topic in TOPICS}
    for topic, values in found.items():
        assert not [value for value in values if value not in sent[topic] and not value.endswith(b"first")], f"foreign records in {topic}"
    logs = {topic: set(values) for topic, values in found.items()}
    assert not [value for topic, value, delivery in deliveries if delivery.exception(0) is None and value not in logs[topic]]
