"""The Java peer says and reads exactly the bytes it is given."""

from __future__ import annotations

import pytest

from integration.cluster import Cluster
from integration.java.client import JVM, JavaRecord, java_consume, java_produce, run_tool
from integration.kafka.class_archive import mapped_classes
from integration.kafka.jars import TOOLS, tools_jars
from pykafka4.wire.records.compression import CODECS

pytestmark = pytest.mark.cluster

ODD = [
    JavaRecord(key=None, value=None),
    JavaRecord(key=b"", value=b""),
    JavaRecord(key=b"\x00\xff\n\t", value=bytes(range(256)), headers=(("a", None), ("a", b""), ("ü", b"\xff"))),
    JavaRecord(key=b"big", value=bytes(900_000), timestamp=1_700_000_000_123),
]


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_null_empty_odd_and_large_records_cross_unchanged(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, partitions=2)
    sent = [record._replace(partition=1) for record in ODD]
    acks = java_produce(cluster.bootstrap, topic, sent, codec=codec)
    assert [(ack.partition, ack.offset) for ack in acks] == [(1, 0), (1, 1), (1, 2), (1, 3)]
    read = java_consume(cluster.bootstrap, topic)
    assert [row[:4] for row in read] == [row[:4] for row in sent]
    assert [row.offset for row in read] == [0, 1, 2, 3]
    assert read[3].timestamp == 1_700_000_000_123


def test_a_group_reads_so_many_and_goes_on_there(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    java_produce(cluster.bootstrap, topic, [JavaRecord(value=b"%d" % number) for number in range(4)])
    group = {"group.id": topic, "max.poll.records": "1"}
    assert [row.value for row in java_consume(cluster.bootstrap, topic, count=2, properties=group)] == [b"0", b"1"]
    assert [row.value for row in java_consume(cluster.bootstrap, topic, count=2, properties=group)] == [b"2", b"3"]


def test_an_aborted_transaction_is_not_read_committed(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    for end in ("abort", "commit"):
        java_produce(cluster.bootstrap, topic, [JavaRecord(value=end.encode())], properties={"transactional.id": topic}, transaction=end)
    read = java_consume(cluster.bootstrap, topic, properties={"isolation.level": "read_committed"})
    assert [row.value for row in read] == [b"commit"]


def test_the_command_line_tools_run(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    told = run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", topic)
    assert f"Topic: {topic}" in told
    assert "ReplicationFactor: 3" in told


def test_a_tool_maps_kafkas_classes_from_their_archive() -> None:
    assert (
        run_tool("org.apache.kafka.tools.TopicCommand", "--version", jvm=(*JVM, "-Xshare:on")) == f"{TOOLS}\n"
    )  # else the JVM refuses to run
    assert mapped_classes(tools_jars())
