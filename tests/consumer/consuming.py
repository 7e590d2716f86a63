"""Consuming. What the tests of the consumer do with it and with model brokers. Rule: nothing here sleeps; it polls, with deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pykafka4.consumer import Consumer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from tests.net.net_helpers import SECONDS

LONG = SECONDS  # nothing that works takes so long


CLOSE_S = 0.3  # some tests end with a coordinator that does not answer


class Maker:
    """Makes consumers with short timeouts, and closes them in the end."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._made: list[Consumer] = []

    def __call__(self, **options: Any) -> Consumer:
        short = {"fetch_max_wait_ms": 50} if "group_protocol" in options else {"fetch_max_wait_ms": 50, "heartbeat_interval_ms": 50}
        options = {"auto_offset_reset": "earliest", **short, **options}
        if "client" not in options:
            options["bootstrap_servers"] = self._server.bootstrap_servers
        consumer = Consumer(**options)
        self._made.append(consumer)
        return consumer

    def assigned(self, *partitions: int, **options: Any) -> Consumer:
        """One that reads these partitions of `t`."""
        consumer = self(**options)
        consumer.assign([("t", p) for p in partitions])
        return consumer

    def member(self, listener: object | None = None, **options: Any) -> Consumer:
        """One of group `g` that subscribed to `t`."""
        consumer = self(**{"group_id": "g", **options})
        consumer.subscribe(["t"], listener)
        return consumer

    def close(self) -> None:
        for consumer in self._made:
            consumer.close(CLOSE_S)


class Listener:
    """Records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", sorted(partitions)))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", sorted(partitions)))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", sorted(partitions)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


def topic(server: ModelServer, *counts: int) -> None:
    """Topic `t` with a partition per count, each with so many records numbered from 0."""
    server.create_topic("t", len(counts))
    for partition, count in enumerate(counts):
        if count:
            fill(server, "t", partition, numbers(0, count))


def fill(server: ModelServer, name: str, partition: int, values: Iterable[bytes], **options: Any) -> None:
    """Append a batch."""
    records = [WireRecord(timestamp_ms=1_000 + i, value=value) for i, value in enumerate(values)]
    server.do(lambda cluster: cluster.append(name, partition, records, **options))


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last)]


def read(consumer: Consumer, count: int, **options: Any) -> list[Any]:
    """Exactly `count` records, with polls."""
    records: list[Any] = []
    deadline = time.monotonic() + LONG
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records; {consumer.status()}"
        records += consumer.poll(0.2, **options)
    assert len(records) == count
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any]) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, consumer.status()
        records += consumer.poll(0.05)
    return records


def damage(server: ModelServer, batch: int) -> None:
    """The last byte of that batch of partition 0 of `t` changes: its checksum is wrong."""

    def change(cluster: Any) -> None:
        batches = cluster.log("t", 0).batches
        batches[batch] = attrs.evolve(batches[batch], data=batches[batch].data[:-1] + b"?")

    server.do(change)
