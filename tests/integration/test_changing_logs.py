"""Logs that change under the reader, on real brokers: the right records, or a report of the offsets that were lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import confluent_kafka as foreign
import pytest

from integration.cluster import Cluster
from integration.waiting import Deadline, until
from pykafka4 import Client, Consumer, LossReason, OffsetsLost, Producer, TopicPartition
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest
from tests.integration.reading import LONG_S, SECONDS, poll_until, produce, read, send, values

pytestmark = pytest.mark.cluster

HOWS = ["assign", "subscribe", "group"]


@attrs.define
class Reading:
    """A consumer of partition 0 whose losses are noted."""

    consumer: Consumer
    tp: TopicPartition
    heard: list[OffsetsLost]

    def stop_at(self, offset: int) -> None:
        """Nothing is fetched before `resume`."""
        poll_until(self.consumer, self.consumer.assignment)
        self.consumer.pause([self.tp])
        self.consumer.seek(self.tp, offset)

    def lost(self) -> OffsetsLost:
        """The only loss."""
        until(lambda: bool(self.heard), SECONDS, "the event")
        (lost,) = self.heard
        assert self.consumer.stats()["lost_offsets"] == lost.until - lost.first
        return lost


@pytest.fixture
def reading(cluster: Cluster, topic: str) -> Iterator[Any]:
    made: list[Reading] = []
    clients: list[Client] = []

    def make(how: str = "assign", reset: Any = "earliest") -> Reading:
        client = Client(**cluster.client, metadata_max_age_ms=1_000)
        clients.append(client)
        heard: list[OffsetsLost] = []
        client.events(lambda event: heard.append(event) if isinstance(event, OffsetsLost) else None)
        group = {"group_id": topic} if how == "group" else {}
        consumer = Consumer(client, auto_offset_reset=reset, **group)
        made.append(Reading(consumer, TopicPartition(topic, 0), heard))
        consumer.assign([(topic, 0)]) if how == "assign" else consumer.subscribe([topic])
        return made[-1]

    yield make
    for one in made:
        one.consumer.close()
    for client in clients:
        client.close()


def delete_before(cluster: Cluster, topic: str, offset: int) -> None:
    row = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)
    answer = cluster.admin.ask(cluster.leader(topic, 0), request).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, offset)


def read_by_confluent(cluster: Cluster, topic: str, first: int, count: int) -> list[int]:
    """The offsets that confluent-kafka returns from `first` on."""
    consumer = foreign.Consumer({**cluster.librdkafka, "group.id": f"{topic}-f", "auto.offset.reset": "earliest"})
    consumer.assign([foreign.TopicPartition(topic, 0, first)])
    found, deadline = list[int](), Deadline(LONG_S)
    while len(found) < count and not deadline.passed():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.offset())
    consumer.close()
    return found


@pytest.mark.main_job
def test_a_removed_range_is_reported_and_the_rest_is_read(cluster: Cluster, topic: str, reading: Any) -> None:
    """With and without a group, by each policy. confluent-kafka returns the same records, and says nothing."""
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client) as producer:
        for n in range(90):
            producer.send(topic, b"%d" % n, partition=0)
            producer.flush()
    resets = {"earliest": (70, LossReason.REMOVED), "latest": (90, LossReason.RESET), "by_duration:PT1H": (70, LossReason.RESET)}
    readers = [(how, reset, reading(how, reset)) for how in ("assign", "subscribe") for reset in resets]
    readers.append(("group", "earliest", reading("group", "earliest")))
    for _, _, reader in readers:
        reader.stop_at(50)
    delete_before(cluster, topic, 70)
    for how, reset, reader in readers:
        goes_on, reason = resets[reset]
        reader.consumer.resume([reader.tp])
        assert [record.offset for record in read(reader.consumer, 90 - goes_on)] == [*range(goes_on, 90)], (how, reset)
        assert reader.lost() == OffsetsLost(reader.tp, 50, goes_on, reason), (how, reset)
    assert read_by_confluent(cluster, topic, 50, 20) == [*range(70, 90)]


def test_a_committed_offset_that_the_log_no_longer_has_is_reported(cluster: Cluster, topic: str, reading: Any) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 50, partition=0)
    with Consumer(**cluster.client, group_id=topic, enable_auto_commit=False) as first:
        first.commit({TopicPartition(topic, 0): 10})
    delete_before(cluster, topic, 30)
    reader = reading("group")
    assert [record.offset for record in read(reader.consumer, 20)] == [*range(30, 50)]
    assert reader.lost() == OffsetsLost(reader.tp, 10, 30, LossReason.REMOVED)


def test_retention_under_a_slow_reader_is_reported(cluster: Cluster, topic: str, reading: Any) -> None:
    """Segments that are too old are deleted while the partition is paused."""
    configs = {"segment.bytes": "1048576", "retention.bytes": "1048576", "file.delete.delay.ms": "0"}
    cluster.create_topic(topic, 1, configs=configs)
    produce(cluster, topic, 0, 10, partition=0)
    reader = reading("subscribe")
    reader.stop_at(5)
    produce(cluster, topic, 10, 110, partition=0, size=50_000)
    deadline = Deadline(LONG_S)
    while (start := cluster.offsets(topic)[0][0]) < 10:
        assert not deadline.passed(), cluster.offsets(topic)
    reader.consumer.resume([reader.tp])
    records = read(reader.consumer, 1)
    lost = reader.lost()
    assert (lost.first, lost.reason) == (5, LossReason.REMOVED)
    assert records[0].offset == lost.until >= start
    records += read(reader.consumer, 110 - lost.until - len(records))
    assert [record.offset for record in records] == [*range(lost.until, 110)]


def test_compaction_under_the_reader_is_no_loss(cluster: Cluster, topic: str, reading: Any) -> None:
    """What remains of a compacted log is returned once, as confluent-kafka returns it."""
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    cluster.create_topic(topic, 1, configs=configs)
    reader = reading("subscribe")
    reader.stop_at(0)

    def write(first: int, last: int) -> None:
        with Producer(**cluster.client) as producer:
            for n in range(first, last):
                producer.send(topic, b"%d" % n, key=b"%d" % (n % 5), partition=0)
                producer.flush()

    write(0, 50)
    deadline = Deadline(LONG_S)
    while len(found := read_all(cluster, topic)) >= 50:
        assert not deadline.passed(), found
        write(50 + len(found) % 2, 51 + len(found) % 2)
    reader.consumer.resume([reader.tp])
    ours = [record.offset for record in read(reader.consumer, len(found))]
    assert ours[-1] == found[-1]
    assert set(ours) <= {*range(found[-1] + 1)}
    assert ours == sorted(set(ours))
    assert reader.consumer.stats()["lost_offsets"] == 0


def read_all(cluster: Cluster, topic: str) -> list[int]:
    end = cluster.offsets(topic)[0][1]
    with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        records = poll_until(consumer, lambda: consumer.position((topic, 0), LONG_S) >= end)
    return [record.offset for record in records]


@pytest.mark.parametrize("how", HOWS)
def test_a_topic_that_is_deleted_and_comes_back_is_read_from_its_beginning(cluster: Cluster, topic: str, reading: Any, how: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 20, partition=0)
    reader = reading(how)
    assert len(read(reader.consumer, 20)) == 20
    reader.consumer.pause([reader.tp])
    reader.consumer.seek(reader.tp, 12)
    cluster.delete_topic(topic)
    poll_until(reader.consumer, lambda: "UNKNOWN_TOPIC" in str(reader.consumer.status()))
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 100, 130, partition=0)
    reader.consumer.resume([reader.tp])
    records = read(reader.consumer, 30)
    assert values(records) == [*range(100, 130)]
    assert [record.offset for record in records] == [*range(30)]
    assert reader.lost() == OffsetsLost(reader.tp, 12, 20, LossReason.RECREATED)


def test_a_truncated_log_is_reported_with_the_range(cluster: Cluster, topic: str, reading: Any) -> None:
    """An unclean election: the follower that was frozen lacks the last records, and leads."""
    cluster.create_topic(topic, 1, 2, configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    reader = reading("subscribe")
    with Producer(**cluster.client, acks=1, enable_idempotence=False) as producer:
        send(producer, topic, range(20), 0)
        producer.flush()
        assert len(read(reader.consumer, 20)) == 20
        cluster.wait_full_isr([topic])
        leader = cluster.leader(topic, 0)
        (behind,) = set(cluster.partitions(topic)[0].isr) - {leader}
        cluster.freeze(behind)
        try:
            cluster.wait_fenced(behind)
            cluster.wait(lambda: set(cluster.partitions(topic)[0].isr) == {leader}, LONG_S, "the follower to leave the in-sync replicas")
            send(producer, topic, range(20, 30), 0)
            producer.flush()
            assert values(read(reader.consumer, 10)) == [*range(20, 30)]
            cluster.kill(leader)
        finally:
            cluster.thaw(behind)
        cluster.wait_leader(topic, 0, other_than=leader)
        try:
            send(producer, topic, range(40, 45), 0)
            producer.flush()
            records = read(reader.consumer, 5)
        finally:
            cluster.start(leader)
    assert [(record.offset, int(record.value)) for record in records] == [*zip(range(20, 25), range(40, 45), strict=True)]
    lost = reader.lost()
    assert (lost.first, lost.until, lost.reason) == (20, 30, LossReason.TRUNCATED)
