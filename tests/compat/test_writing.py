"""Writing to brokers from 0.11 on: every record once, in order, as it was given."""

from __future__ import annotations

import pytest

from integration.local.cluster import LocalCluster
from pykafka4 import Producer
from tests.compat.old_releases import LONG_S, WRITTEN_TO, codecs, marks, on, read_all

pytestmark = [*marks, on(*WRITTEN_TO)]

COUNT = 500
HEADERS = [("trace", b"1"), ("trace", None), ("ä", b"")]


def test_what_is_written_with_any_codec_lies_in_the_log_once_and_is_read_back(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    expected = []
    for codec in codecs(cluster):
        with Producer(bootstrap_servers=cluster.bootstrap, compression_type=codec) as producer:
            for n in range(COUNT):
                key, value = (None if n % 3 == 0 else b"k%d" % n), (None if n % 7 == 0 else b"%s-%d " % (codec.encode(), n) * (n % 50))
                headers = HEADERS if n % 5 == 0 else None
                producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_600_000_000_000 + n, partition=0)
                expected.append((key, value, tuple(headers or ()), 1_600_000_000_000 + n))
    judged = cluster.log(topic)[0]
    assert [(r.key, r.value, r.headers, r.timestamp) for r in judged] == expected
    assert all(r.producer_id >= 0 for r in judged)
    assert [r.sequence for r in judged] == list(range(COUNT)) * len(codecs(cluster))
    read = read_all(cluster, topic, len(expected))
    assert [(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in read] == expected
    assert [r.offset for r in read] == list(range(len(expected)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_without_idempotence_records_arrive_with_any_acks(cluster: LocalCluster, topic: str, acks: int | str) -> None:
    cluster.create_topic(topic, 3)
    with Producer(bootstrap_servers=cluster.bootstrap, acks=acks, enable_idempotence=False) as producer:
        for n in range(COUNT):
            producer.send(topic, b"%d" % n, key=b"%d" % n)
    assert sorted(int(r.value or b"-1") for r in read_all(cluster, topic, COUNT)) == list(range(COUNT))
    assert all(r.producer_id == -1 for records in cluster.log(topic).values() for r in records)


def test_a_topic_that_is_written_to_first_is_created(cluster: LocalCluster, topic: str) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"first").result(LONG_S)
    assert [r.value for records in cluster.log(topic).values() for r in records] == [b"first"]


def test_a_broker_that_restarts_or_is_killed_costs_and_doubles_nothing(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=0) as producer:
        for first, fault in ((0, cluster.stop), (2 * COUNT, cluster.kill)):
            for n in range(first, first + COUNT):
                producer.send(topic, b"%d" % n, key=b"%d" % n)
            fault(1)
            for n in range(first + COUNT, first + 2 * COUNT):
                producer.send(topic, b"%d" % n, key=b"%d" % n)
            cluster.start(1)
    assert sorted(int(r.value or b"-1") for records in cluster.log(topic).values() for r in records) == list(range(4 * COUNT))
