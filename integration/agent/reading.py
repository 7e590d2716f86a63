"""Reads topics with librdkafka, which shares no code with pykafka4."""

from __future__ import annotations

from typing import Any, NamedTuple

from integration.cluster import Cluster
from integration.waiting import Deadline

__all__ = ["Read", "read_topic"]

READING_S, MOST = 120.0, 10_000


class Read(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def read_topic(cluster: Cluster, topic: str, timeout: float = READING_S) -> list[Read]:
    """The records between the first and last offsets of this moment, ordered by partition and offset."""
    from confluent_kafka import Consumer, TopicPartition  # imported here: the offline tests run without it

    ends = {partition: span for partition, span in cluster.offsets(topic).items() if span[0] < span[1]}
    consumer = Consumer({**cluster.librdkafka, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    rows: list[Read] = []
    deadline = Deadline(timeout)
    try:
        consumer.assign([TopicPartition(topic, partition, first) for partition, (first, _) in ends.items()])
        missing = {partition: last for partition, (_, last) in ends.items()}
        while missing:
            if deadline.passed():
                raise AssertionError(f"{topic}: {len(rows)} records in {timeout:g} s; not at the end of partitions {sorted(missing)}")
            found: list[Any] = consumer.consume(MOST, 1.0)
            for message in found:
                if message.error() is not None:
                    continue
                row = Read(message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1])
                rows.append(row)
                if row.offset + 1 >= missing.get(row.partition, row.offset + 2):
                    missing.pop(row.partition)
    finally:
        consumer.close()
    return sorted(rows)
