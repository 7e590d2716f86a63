"""isolation_level=read_committed on real brokers: Java's transactions, and transactions that overlap, read whole and in small pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume, java_produce
from pykafka4 import Consumer, TopicPartition
from tests.conformance.transaction_script import Txn
from tests.conformance.worlds import RealPlace, World
from tests.integration.reading import SECONDS, poll_until, read

pytestmark = pytest.mark.cluster
ROUNDS = 24


def committed(cluster: Cluster, topic: str, *partitions: int, **options: Any) -> Consumer:
    consumer = Consumer(**{**cluster.client, "auto_offset_reset": "earliest", "isolation_level": "read_committed", **options})
    consumer.assign([TopicPartition(topic, p) for p in partitions])
    return consumer


def everything(consumer: Consumer) -> list[Any]:
    """All records up to the end that its isolation level sees."""
    tps = consumer.assignment()
    return poll_until(consumer, lambda: all(consumer.lag(tp) == 0 for tp in tps))


def test_javas_transactions(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    settings = {**cluster.java, "transactional.id": topic, "batch.size": "200"}
    for number, end in enumerate(("commit", "abort", "commit", "abort")):
        rows = [JavaRecord(value=b"%s %d.%d" % (end.encode(), number, n), partition=n % 2) for n in range(100)]
        java_produce(cluster.bootstrap, topic, rows, properties=settings, transaction=end)
    java = java_consume(cluster.bootstrap, topic, properties={**cluster.java, "isolation.level": "read_committed"})
    with committed(cluster, topic, 0, 1) as consumer:
        ours = everything(consumer)
        ends = [consumer.position((topic, p)) for p in (0, 1)]
    assert sorted((r.partition, r.offset, r.value) for r in ours) == sorted((r.partition, r.offset, r.value) for r in java)
    assert [r.value for r in ours if r.partition == 0] == [b"commit %d.%d" % (k, n) for k in (0, 2) for n in range(0, 100, 2)]
    assert ends == [204, 204], "four transactions of 50 records and a marker"
    with committed(cluster, topic, 0, 1, isolation_level="read_uncommitted") as consumer:
        assert len(everything(consumer)) == 400


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    made = World(RealPlace(cluster))
    yield made
    made.close()


def overlapping(world: World) -> tuple[str, list[int], Txn]:
    """A topic, the offsets of its committed records, and a transaction that is still open at its end.

    Three producers write in turn, a fourth one without transactions; each round of a producer is committed or aborted while others go on.
    """
    topic = world.create("overlapping")
    writers = [Txn(world, f"overlapping-{n}", raising=True) for n in range(3)]
    for writer in writers:
        writer.begin()
    held: dict[int, list[int]] = {n: [] for n in range(3)}
    kept: list[int] = []
    for number in range(ROUNDS):
        for n, writer in enumerate(writers):
            offset = writer.put(topic, 7)[1]
            held[n] += range(offset, offset + 7)
        n = number % 3
        writers[n].finish(number % 4 != 0)
        kept += held[n] if number % 4 else []
        held[n] = []
    for n in (0, 1):
        writers[n].finish(n == 0)
        kept += held[n] if n == 0 else []
    return topic, sorted(kept), writers[2]


def test_overlapping_transactions_whole_and_in_small_pieces(cluster: Cluster, world: World) -> None:
    topic, kept, last = overlapping(world)
    place = (topic, 0)
    open_from = max(kept) + 1
    for options in ({}, {"max_partition_fetch_bytes": 1}, {"fetch_max_bytes": 2_000}):
        with committed(cluster, topic, 0, **options) as consumer:
            found = [r.offset for r in everything(consumer)]
            stable = consumer.position(place)
            assert found == [offset for offset in kept if offset < stable]
            assert consumer.lag(place) == 0
    for start in (1, 50, 333, stable - 1):
        with committed(cluster, topic, 0) as consumer:
            consumer.seek(place, start)
            assert [r.offset for r in everything(consumer)] == [offset for offset in kept if start <= offset < stable]
    with committed(cluster, topic, 0, auto_offset_reset="latest") as consumer:
        assert consumer.position(place, SECONDS) == stable, "latest is the last stable offset"
        last.finish(False)
        rest = [offset for offset in kept if offset >= stable]
        assert [r.offset for r in read(consumer, len(rest))] == rest
        poll_until(consumer, lambda: consumer.position(place) > open_from and consumer.lag(place) == 0, SECONDS)
