"""`read` on real brokers: exactly the snapshot, across markers, compaction, deleted records and dead leaders."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as Foreign
from confluent_kafka import TopicPartition as ForeignPartition

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, OffsetOutOfRange, Producer, read
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest
from tests.conformance.worlds import RealPlace, World
from tests.integration.reading import LONG_S, SECONDS, produce
from tests.integration.test_read_committed import overlapping

pytestmark = pytest.mark.cluster
RECORDS, PARTITIONS, KILLS = 30_000, 10, 2
RUNS = 20


class GivenUpError(Exception):
    """Ends a transaction."""


def delete_records(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    row = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)
    answer = cluster.admin.ask(cluster.leader(topic, partition), request).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, before)


def places(records: Any) -> list[tuple[int, int, bytes]]:
    return sorted((record.partition, record.offset, record.value) for record in records)


def foreign_places(cluster: Cluster, topic: str, ends: dict[int, int], **options: Any) -> list[tuple[int, int, bytes]]:
    """What confluent-kafka reads of the same ranges, from the beginning."""
    config = {**cluster.librdkafka, "group.id": topic, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Foreign({**config, "enable.auto.commit": False, **options})
    consumer.assign([ForeignPartition(topic, partition, 0) for partition in ends])
    found, open_ends, deadline = [], set(ends), time.monotonic() + LONG_S
    while open_ends:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            open_ends.discard(message.partition())
        elif message.offset() < ends[message.partition()]:
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return sorted(found)


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    made = World(RealPlace(cluster))
    yield made
    made.close()


@pytest.mark.main_job
def test_exactly_the_snapshot_of_transactions_that_confluent_kafka_reads(cluster: Cluster, world: World) -> None:
    topic, kept, last = overlapping(world)
    last.finish(False)
    records = read(topic, **cluster.client)
    (span,) = records.spans.values()
    produce(cluster, topic, 0, 50, partition=0)
    began = time.monotonic()
    found = places(records)
    assert time.monotonic() - began < SECONDS
    assert [offset for _, offset, _ in found] == kept
    assert found == foreign_places(cluster, topic, {0: span.until})
    every = list(read(topic, until={0: span.until}, isolation_level="read_uncommitted", **cluster.client))
    assert len(every) > len(kept)


def test_an_aborted_transaction_at_the_end_and_empty_partitions(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 4)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            for n in range(5):
                producer.send(topic, b"%d" % n, partition=0)
        with contextlib.suppress(GivenUpError), producer.transaction():
            for n in range(3):
                producer.send(topic, b"no", partition=n)
            producer.flush()
            raise GivenUpError
    began = time.monotonic()
    assert [(p, offset) for p, offset, _ in places(read(topic, **cluster.client))] == [(0, n) for n in range(5)]
    assert time.monotonic() - began < SECONDS


def test_compacted_offsets_at_the_end(cluster: Cluster, topic: str) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    cluster.create_topic(topic, 1, configs=configs)
    with Producer(**cluster.client, batch_size=5_000) as producer:
        for n in range(2_000):
            producer.send(topic, (b"%d" % n).ljust(2_000), key=b"%d" % (n % 7), partition=0)
            if n % 50 == 0:
                producer.flush()
    until(lambda: len(list(read(topic, **cluster.client))) < 1_000, LONG_S, "the cleaner to have compacted the log")
    for end in (2_000, 1_500, 1_001):
        records = list(read(topic, until={0: end}, **cluster.client))
        assert all(record.offset < end for record in records)
        assert {record.key for record in list(read(topic, **cluster.client))} == {b"%d" % n for n in range(7)}


@pytest.mark.main_job
def test_records_deleted_while_they_are_read_are_named(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 2_000, partition=0, size=500)
    small = {"prefetch_bytes": 1_000, "max_partition_fetch_bytes": 1_000, "max_poll_records": 10}
    with read(topic, on_lost="warn", **small, **cluster.client) as records:
        found = [next(records).offset]
        delete_records(cluster, topic, 0, 1_900)
        found += [record.offset for record in records]
        (lost,) = records.lost
    assert (lost.last, len(found)) == (1_899, 2_000 - (1_900 - lost.first))
    assert found == [*range(lost.first), *range(1_900, 2_000)]
    delete_records(cluster, topic, 0, 1_950)
    with pytest.raises(OffsetOutOfRange, match="offsets 1900 to 1949 were deleted before they were read"):
        read(topic, start={0: 1_900}, **cluster.client)


@pytest.mark.main_job
def test_a_group_reads_up_to_the_present_ends_and_its_next_run_goes_on_there(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    produce(cluster, topic, 0, 300)
    for first, last in ((0, 300), (300, 350)):
        with Consumer(**cluster.client, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            loop = consumer.until_end()
            found = [next(loop)]
            produce(cluster, topic, last, last + 50)  # not in this loop, but in the next
            found += loop
        assert sorted(int(record.value or b"") for record in found) == list(range(first, last))


def read_while_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    """Leaders of two partitions are killed, one after the other is back; records that are written meanwhile are not returned."""
    cluster.create_topic(topic, PARTITIONS)
    produce(cluster, topic, 0, RECORDS, size=100)
    heads_and_tails = cluster.offsets(topic)
    small = {"prefetch_bytes": 60_000, "max_partition_fetch_bytes": 6_000, "request_timeout_ms": 5_000}
    found: list[tuple[int, int]] = []
    try:
        with read(topic, timeout=120, **small, **cluster.client) as records:
            for number, record in enumerate(records):
                found.append((record.partition, record.offset))
                if number % (RECORDS // (KILLS + 1)) == RECORDS // (KILLS + 2):
                    cluster.start_all()
                    cluster.wait_full_isr([topic])
                    cluster.kill(cluster.wait_leader(topic, number % PARTITIONS))
                    produce(cluster, topic, 0, 100)
    finally:
        cluster.heal()
    assert sorted(found) == [(p, n) for p, (_, tail) in sorted(heads_and_tails.items()) for n in range(tail)]
    for partition in range(PARTITIONS):
        own = [offset for p, offset in found if p == partition]
        assert own == sorted(own)


def test_exactly_the_snapshot_of_ten_partitions_while_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    read_while_leaders_are_killed(cluster, topic)


@pytest.mark.lengthy
@pytest.mark.parametrize("run", range(RUNS))
def test_exactly_the_snapshot_in_each_of_many_runs(cluster: Cluster, topic: str, run: int) -> None:
    read_while_leaders_are_killed(cluster, topic)
