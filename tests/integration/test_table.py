"""Tables on real brokers: equal to what confluent-kafka reads, after compaction and deletions, and while a leader is killed."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer as Foreign
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition as ForeignPartition

from integration.cluster import Cluster
from pykafka4 import Producer, table
from tests.integration.reading import LONG_S

pytestmark = pytest.mark.cluster
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
JSON: dict[str, Any] = {"key_deserializer": "str", "value_deserializer": "json"}


def foreign_rows(cluster: Cluster, topic: str, partitions: int) -> dict[str, Any]:
    """The last value of each key, as confluent-kafka reads them."""
    config = {**cluster.librdkafka, "group.id": topic, "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Foreign(config)
    consumer.assign([ForeignPartition(topic, partition, 0) for partition in range(partitions)])
    rows: dict[str, Any] = {}
    left, deadline = partitions, time.monotonic() + LONG_S
    while left:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            left -= 1
        elif message.value() is None:
            rows.pop(message.key().decode(), None)
        else:
            rows[message.key().decode()] = json.loads(message.value())
    consumer.close()
    return rows


@pytest.mark.main_job
def test_a_table_of_a_compacted_topic_has_the_rows_that_confluent_kafka_reads(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3, configs=COMPACTED)
    chance = random.Random(topic)
    producer = ForeignProducer({**cluster.librdkafka, "linger.ms": 20})

    def write(count: int) -> None:
        for number in range(count):
            deletes = chance.random() < 0.2
            producer.produce(topic, None if deletes else json.dumps({"n": number, "fill": "x" * 300}), key=f"k{chance.randrange(500)}")
            producer.poll(0)
        assert producer.flush(LONG_S) == 0

    write(10_000)
    with table(topic, **JSON, **cluster.client) as rows:
        assert dict(rows) == foreign_rows(cluster, topic, 3)
        write(10_000)
        rows.refresh(LONG_S)
        assert dict(rows) == foreign_rows(cluster, topic, 3)
        assert rows.lag == 0
        with table(topic, **JSON, **cluster.client) as later:  # of a log that is compacted meanwhile
            assert dict(later) == dict(rows)


def test_a_table_survives_the_kill_of_a_leader(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3, configs=COMPACTED)
    stop = threading.Event()
    with Producer(**cluster.client, value_serializer="json") as producer, table(topic, **JSON, **cluster.client) as rows:

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                producer.send(topic, None if number % 5 == 0 else number, key=f"k{number % 50}")
                stop.wait(0.001)

        writer, killed = threading.Thread(target=write), cluster.leader(topic, 0)
        writer.start()
        try:
            rows.wait_until(lambda now: len(now) > 20, LONG_S)
            cluster.kill(killed)
            cluster.wait_leader(topic, 0, other_than=killed)
            before = rows["k1"]
            rows.wait_until(lambda now: now["k1"] != before, LONG_S)  # it goes on
        finally:
            stop.set()
            writer.join()
            cluster.start(killed)
        producer.flush(LONG_S)
        rows.refresh(LONG_S)
        assert dict(rows) == foreign_rows(cluster, topic, 3)
