"""Runs contenders on the sink or on a real cluster. Invariant: the cluster has as many records as the producer claims, whatever the client.

The sink takes almost no CPU, so only the client counts; the real cluster's brokers use the same cores. Over TLS both clients have the same
options, and the same cipher as long as both agree with the brokers on TLS 1.3.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import attrs

from benchmarks import contender
from benchmarks.clients.load import WARM_UP
from benchmarks.meter import Spec
from benchmarks.plan import HALF, Entry
from benchmarks.sink import BATCH, PARTITIONS, Sink
from integration.local.cluster import LocalCluster
from integration.security.options import for_librdkafka


class Place(Protocol):
    """`bar`: the bar of judged cases in this place, if it is not their own."""

    name: str
    bar: float | None

    def produce(self, entry: Entry) -> dict[str, Any]: ...

    def consume(self, entry: Entry) -> dict[str, Any]: ...


def spec(entry: Entry, bootstrap: str, topic: str, records: int, ends: dict[int, int]) -> Spec:
    return Spec(entry.client, entry.case, bootstrap, topic, records, {str(key): end for key, end in ends.items()}, entry.options)


def verify(entry: Entry, expected: int, found: int) -> None:
    if found != expected:
        raise SystemExit(f"{entry.label}: claims {expected:,} records, the cluster has {found:,}")


class SinkPlace:
    name = "sink"
    bar: float | None = None

    def __init__(self, records: int, mode: str = "") -> None:
        self.records, self.mode = records, mode
        share = records // (PARTITIONS * BATCH) * BATCH
        self.served = share

    def produce(self, entry: Entry) -> dict[str, Any]:
        with Sink(verify=self.mode) as sink:
            figures = contender.run(spec(entry, sink.bootstrap, "bench", self.records, {}))
            verify(entry, self.records + WARM_UP, sum(sink.ends("bench").values()))
        return figures

    def consume(self, entry: Entry) -> dict[str, Any]:
        ends = dict.fromkeys(range(PARTITIONS), self.served)
        with Sink(self.served, headers=entry.headers) as sink:
            return contender.run(spec(entry, sink.bootstrap, "bench", sum(ends.values()), ends))


class ClusterPlace:
    """Three real brokers, perhaps over TLS. Every produce run has its own topic; all consume runs read the same topic."""

    counter = itertools.count(1)
    configs = {"file.delete.delay.ms": "1000", "min.insync.replicas": "2"}

    def __init__(self, cluster: LocalCluster, records: int) -> None:
        self.cluster, self.records = cluster, records
        self.name, self.bar = ("cluster", None) if cluster.security is None else ("cluster over TLS", HALF)
        self.ends: dict[int, int] = {}

    def spec(self, entry: Entry, topic: str, records: int, ends: dict[int, int]) -> Spec:
        options = self.cluster.client_security()
        secured = for_librdkafka(options) if entry.client == "confluent" else options
        return spec(attrs.evolve(entry, options=entry.options | secured), self.cluster.bootstrap, topic, records, ends)

    @contextlib.contextmanager
    def topic(self) -> Iterator[str]:
        name = f"bench-{next(self.counter)}"
        self.cluster.create_topic(name, PARTITIONS, 3, self.configs)
        yield name
        self.cluster.delete_topic(name)

    def filled(self, topic: str) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.cluster.offsets(topic).items()}

    def produce(self, entry: Entry) -> dict[str, Any]:
        with self.topic() as name:
            figures = contender.run(self.spec(entry, name, self.records, {}))
            verify(entry, self.records + WARM_UP, sum(self.filled(name).values()))
        return figures

    def consume(self, entry: Entry) -> dict[str, Any]:
        if not self.ends:
            self.fill()
        return contender.run(self.spec(entry, "bench-log", sum(self.ends.values()), self.ends))

    def fill(self) -> None:
        """Fill the log by confluent-kafka for both clients: no client reads a log that only it understands."""
        self.cluster.create_topic("bench-log", PARTITIONS, 3, self.configs)
        contender.run(self.spec(Entry("confluent", "produce"), "bench-log", 2 * self.records, {}))
        self.ends = self.filled("bench-log")
