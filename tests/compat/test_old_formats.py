"""The record formats before record batches: v0 and v1 are read, whoever wrote them, and not written."""

from __future__ import annotations

import pytest

from integration.java.client import JavaRecord
from integration.java.old_client import old_java_produce
from integration.local.cluster import LocalCluster
from pykafka4 import Consumer, Producer, TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.records.batch import batches
from pykafka4.wire.records.compression import CODECS
from tests.compat.old_releases import LONG_S, READ_FROM, codecs, marks, on, read_all

pytestmark = marks

FORMATS = {0: "0.9.0", 1: "0.10.0"}
TIME = 1_500_000_000_000
RECORDS = [
    JavaRecord(
        key=None if n % 4 == 0 else b"k%d" % n,
        value=None if n % 5 == 0 else b"v%d " % n * (n % 100),
        partition=n % 2,
        timestamp=TIME + n,
    )
    for n in range(300)
]
IN_BATCHES = {"linger.ms": "200"}  # many messages in a compressed one


def forms(cluster: LocalCluster, topic: str) -> set[tuple[int, int]]:
    """Magic and codec of the first message of each partition, as the broker sends it."""
    found = set()
    for index in cluster.partitions(topic):
        row = FetchRequest.Topic.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[FetchRequest.Topic(topic=topic, partitions=[row])])
        answer = cluster.admin.ask(cluster.leader(topic, index), request, highest=12)
        (batch, *_) = batches(answer.responses[0].partitions[0].records or b"")
        found.add((batch.magic, batch.codec))
    return found


@on(*READ_FROM)
@pytest.mark.parametrize("magic", FORMATS)
def test_what_java_wrote_with_any_codec_is_read(cluster: LocalCluster, topic: str, magic: int) -> None:
    for codec in codecs(cluster):
        name = f"{topic}-{codec}"
        cluster.create_topic(name, 2, configs={"message.format.version": FORMATS[magic]})
        old_java_produce(cluster.version, cluster.bootstrap, name, RECORDS, codec, IN_BATCHES)
        assert forms(cluster, name) == {(magic, CODECS[codec])}
        read = read_all(cluster, name, len(RECORDS))
        for partition in range(2):
            wanted = [(r.key, r.value, r.timestamp if magic else -1) for r in RECORDS if r.partition == partition]
            found = [r for r in read if r.partition == partition]
            assert [(r.key, r.value, r.timestamp_ms) for r in found] == wanted, codec
            assert [r.offset for r in found] == list(range(len(wanted)))
            assert [(r.key, r.value, r.timestamp) for r in cluster.log(name)[partition]] == wanted, codec


@on("0.11.0.3", "1.1.1", "2.1.1", "2.8.2")
@pytest.mark.parametrize("magic", FORMATS)
def test_a_topic_in_an_old_format_takes_our_records_without_idempotence_and_gives_them_back(
    cluster: LocalCluster, topic: str, magic: int
) -> None:
    """The broker rewrites each batch."""
    for codec in ("none", "gzip", "snappy", "lz4"):
        name = f"{topic}-{codec}"
        cluster.create_topic(name, 1, configs={"message.format.version": FORMATS[magic]})
        with Producer(bootstrap_servers=cluster.bootstrap, enable_idempotence=False, compression_type=codec) as producer:
            for n in range(200):
                producer.send(name, b"%d" % n * 10, key=b"k%d" % n, timestamp_ms=TIME + n)
        assert forms(cluster, name) == {(magic, CODECS[codec])}
        read = read_all(cluster, name, 200)
        wanted = [(b"k%d" % n, b"%d" % n * 10, TIME + n if magic else -1) for n in range(200)]
        assert [(r.key, r.value, r.timestamp_ms) for r in read] == wanted, codec
        assert [(r.key, r.value, r.timestamp) for r in cluster.log(name)[0]] == wanted, codec


@on(*READ_FROM)
def test_a_reader_in_the_middle_of_a_compressed_message_gets_the_rest_of_it(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1, configs={"message.format.version": FORMATS[1]})
    records = [JavaRecord(value=b"%d" % n, partition=0) for n in range(100)]
    old_java_produce(cluster.version, cluster.bootstrap, topic, records, "gzip", IN_BATCHES)
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek((topic, 0), 42)
        first = consumer.poll(LONG_S)
        assert [int(r.value or b"-1") for r in first][:3] == [42, 43, 44]
        assert first[0].offset == 42
