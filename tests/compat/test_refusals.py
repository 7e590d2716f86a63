"""What an old broker cannot take is refused before or by it, with the reason and the way out, and nothing of it is in the log."""

from __future__ import annotations

import contextlib
import time

import pytest

from integration.local.cluster import LocalCluster
from pykafka4 import BrokerError, DeliveryFailed, Producer, TopicPartition, UnsupportedVersion
from tests.compat.old_releases import LONG_S, READ_FROM, WRITTEN_TO, marks, number, on
from tests.inspection import inspect

pytestmark = marks


@on(*READ_FROM)
@pytest.mark.parametrize("idempotent", [True, False])
def test_writing_to_a_broker_without_record_batches_is_refused(cluster: LocalCluster, topic: str, idempotent: bool) -> None:
    cluster.create_topic(topic, 1)
    producer = Producer(bootstrap_servers=cluster.bootstrap, enable_idempotence=idempotent)
    with pytest.raises(DeliveryFailed, match=r"not written .*older than Kafka 0\.11.*upgrade") as failed:
        producer.send(topic, b"x").result(LONG_S)
    assert isinstance(failed.value.cause, UnsupportedVersion)
    producer.close(LONG_S)
    assert cluster.log(topic) == {0: []}


@on("0.11.0.3", "2.8.2")
def test_a_topic_in_an_old_format_refuses_an_idempotent_producer_by_name(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1, configs={"message.format.version": "0.10.0"})
    producer = Producer(bootstrap_servers=cluster.bootstrap)
    with pytest.raises(DeliveryFailed, match=r"UNSUPPORTED_FOR_MESSAGE_FORMAT, not written .*enable_idempotence=False") as failed:
        producer.send(topic, b"x").result(LONG_S)
    producer.close(LONG_S)
    assert isinstance(failed.value.cause, BrokerError)
    assert cluster.log(topic) == {0: []}


@on("0.11.0.3", "1.1.1")
def test_zstd_is_refused_where_the_broker_does_not_know_it(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    producer = Producer(bootstrap_servers=cluster.bootstrap, compression_type="zstd")
    with pytest.raises(DeliveryFailed, match=r"not written .*older than Kafka 2\.1.*zstd"):
        producer.send(topic, b"zstd" * 1000).result(LONG_S)
    producer.close(LONG_S)
    assert cluster.log(topic) == {0: []}


HOUR_MS = 3_600_000
NAMES_RECORDS = (2, 4)  # from here on the answer says which records are refused


@on(*WRITTEN_TO)
def test_what_is_pipelined_behind_a_refused_record_follows_in_order(cluster: LocalCluster, topic: str) -> None:
    """Brokers of every release take the next epoch of a producer id from sequence 0 on, although no broker has given it out."""
    option = "message.timestamp.after.max.ms" if number(cluster) >= (3, 6) else "message.timestamp.difference.max.ms"
    cluster.create_topic(topic, 1, configs={option: str(HOUR_MS)})
    now, bad = time.time_ns() // 1_000_000, {1_000, 2_000}
    with contextlib.closing(Producer(bootstrap_servers=cluster.bootstrap, batch_size=1024)) as producer:
        producer.send(topic, b"first").result(LONG_S)
        handles = [
            producer.send(topic, b"%d" % n, partition=0, timestamp_ms=now + (100 * HOUR_MS if n in bad else 0)) for n in range(3_000)
        ]
        producer.flush(LONG_S)
        epoch = inspect(producer).machine.queues[TopicPartition(topic, 0)].epoch
    failed = {n for n, handle in enumerate(handles) if handle.exception(0) is not None}
    assert bad <= failed
    assert len(failed) == 2 if number(cluster) >= NAMES_RECORDS else len(failed) < 300
    written = [record.value for record in cluster.log(topic)[0]]
    assert written == [b"first", *(b"%d" % n for n in range(3_000) if n not in failed)]
    if number(cluster) >= (1, 0):  # before, one batch is in flight
        assert epoch > 0, "nothing was pipelined behind the refused records: that showed nothing"
