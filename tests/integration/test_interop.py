"""Java reads what we write and we read what Java writes: every codec, headers, nulls, empty values, 900 KB records."""

from __future__ import annotations

import pytest

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_consume, java_produce
from pykafka4 import Consumer, Producer, Record, TopicPartition
from pykafka4.wire.records.compression import CODECS

pytestmark = pytest.mark.cluster

RECORDS = [
    JavaRecord(key=None, value=None),
    JavaRecord(key=b"", value=b""),
    JavaRecord(key=b"\x00\xff\n\t", value=bytes(range(256)), headers=(("a", None), ("a", b""), ("ü", b"\xff"))),
    *[JavaRecord(key=b"%d" % n, value=b"value %d" % n * 20, headers=(("n", b"%d" % n),)) for n in range(300)],
    JavaRecord(key=b"big", value=bytes(range(250)) * 3_600, timestamp=1_700_000_000_123),
]


def read(cluster: Cluster, topic: str, count: int) -> list[Record]:
    with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records: list[Record] = []
        while len(records) < count:
            more = consumer.poll(timeout=20)
            assert more, f"{len(records)} of {count} records came"
            records += more
    return records


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_java_reads_what_we_write(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client, compression_type=codec, max_request_size=2_000_000) as producer:
        for r in RECORDS:
            producer.send(topic, r.value, key=r.key, headers=r.headers, timestamp_ms=r.timestamp, partition=0)
    theirs = java_consume(cluster.bootstrap, topic, properties=cluster.java)
    assert [(r.key, r.value, tuple(r.headers)) for r in theirs] == [(r.key, r.value, r.headers) for r in RECORDS]
    assert [r.offset for r in theirs] == list(range(len(RECORDS)))
    assert theirs[-1].timestamp == 1_700_000_000_123


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_we_read_what_java_writes(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, 1)
    java_produce(cluster.bootstrap, topic, [r._replace(partition=0) for r in RECORDS], codec=codec, properties=cluster.java)
    ours = read(cluster, topic, len(RECORDS))
    assert [(r.key, r.value, r.headers) for r in ours] == [(r.key, r.value, r.headers) for r in RECORDS]
    assert [r.offset for r in ours] == list(range(len(RECORDS)))
    assert ours[-1].timestamp_ms == 1_700_000_000_123


def test_keys_choose_the_partition_java_chooses(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 7)
    keys = [b"key %d" % n for n in range(200)] + [b"", b"\xff" * 5, "schlüssel".encode()]
    java = java_produce(cluster.bootstrap, topic, [JavaRecord(key=key, value=b"java") for key in keys], properties=cluster.java)
    with Producer(**cluster.client) as producer:
        ours = [producer.send(topic, b"ours", key=key).result(30).partition for key in keys]
    assert ours == [record.partition for record in java]
