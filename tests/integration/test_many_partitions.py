"""2,000 partitions of one topic: written by key, read, paused, resumed and sought as a whole. `make bench-scale` has the figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest

from integration.cluster import Cluster
from pykafka4 import Consumer, Producer, TopicPartition
from tests.integration.reading import LONG_S, assert_in_order, read, values

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PARTITIONS, RECORDS, MORE = 2_000, 40_000, 100  # 20 keys a partition: none is left out
CONFIGS = {"segment.index.bytes": "65536"}  # brokers set aside 20 MiB of index for each partition otherwise
CALL_S = 2.0  # seconds for one call about the whole assignment; a client that looks at all partitions for each of them takes longer
STILL_S = 2.0  # seconds in which nothing may come


def timed(call: Callable[[], object], what: str) -> None:
    began = time.monotonic()
    call()
    took = time.monotonic() - began
    assert took < CALL_S, f"{what} of {PARTITIONS} partitions took {took:.1f} s"


def send(producer: Producer, topic: str, first: int, last: int) -> None:
    for number in range(first, last):
        producer.send(topic, b"%d" % number, key=b"key-%d" % number)
    producer.flush(LONG_S)


def test_two_thousand_partitions_are_written_read_paused_and_sought_as_a_whole(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, PARTITIONS, 1, CONFIGS)
    tps = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with (
        Producer(**cluster.client) as producer,
        Consumer(**cluster.client, auto_offset_reset="earliest", max_poll_records=5_000) as consumer,
    ):
        send(producer, topic, 0, RECORDS)
        timed(lambda: consumer.assign(tps), "assign")
        records = read(consumer, RECORDS)
        assert values(records) == list(range(RECORDS))
        assert_in_order(records)
        assert len({record.partition for record in records}) == PARTITIONS, "a partition got no record: nothing is tested there"

        timed(lambda: consumer.pause(tps), "pause")
        send(producer, topic, RECORDS, RECORDS + MORE)
        deadline = time.monotonic() + STILL_S
        while time.monotonic() < deadline:
            assert consumer.poll(0.1) == []
        timed(lambda: consumer.resume(tps), "resume")
        assert values(read(consumer, MORE)) == list(range(RECORDS, RECORDS + MORE))

        timed(lambda: [consumer.seek(tp, 0) for tp in tps], "seek")
        records = read(consumer, RECORDS + MORE)
        assert values(records) == list(range(RECORDS + MORE))
        assert_in_order(records)
        timed(consumer.seek_to_end, "seek_to_end")
        ends = Counter(record.partition for record in records)
        assert {tp.partition: consumer.position(tp, LONG_S) for tp in tps} == ends
    cluster.delete_topic(topic)
