"""Many records in one call, serializers, hooks and a full buffer, on real brokers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from integration.cluster import Cluster
from pykafka4 import BatchOutcome, BufferFull, Producer, ProducerHooks
from tests.integration.reading import SECONDS

pytestmark = pytest.mark.cluster

COUNT = 20_000


class Outcomes(ProducerHooks):
    """Adds up what `on_ack` is told."""

    def __init__(self) -> None:
        self.offsets: Counter[tuple[int | None, int]] = Counter()
        self.closed = 0

    def on_ack(self, outcome: BatchOutcome) -> None:
        assert outcome.error is None
        self.offsets.update((outcome.partition, offset) for offset in outcome.offsets)

    def on_close(self) -> None:
        self.closed += 1


def test_send_many_with_serializers_and_hooks_writes_each_record_once(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    hook = Outcomes()
    with Producer(**cluster.client, key_serializer="str", value_serializer="json", hooks=hook) as producer:
        deliveries = producer.send_many(topic, ({"n": n} for n in range(COUNT)), keys=(f"key {n % 100}" for n in range(COUNT)))
        results = [delivery.result(SECONDS) for delivery in deliveries]
    log = cluster.log(topic)
    assert hook.closed == 1
    assert hook.offsets == Counter((partition, record.offset) for partition, records in log.items() for record in records)
    numbers = {(partition, record.offset): json.loads(record.value or b"")["n"] for partition, records in log.items() for record in records}
    assert [numbers[meta.partition, meta.offset] for meta in results] == list(range(COUNT))
    assert {record.key for record in log[results[0].partition]} >= {b"key 0"}


@pytest.mark.parametrize("on_full", ["raise", "drop"])
def test_a_full_buffer_loses_nothing_that_was_accepted(cluster: Cluster, topic: str, on_full: str) -> None:
    cluster.create_topic(topic, 1)
    refused = 0
    with Producer(**cluster.client, on_full=on_full, buffer_memory=65_536, batch_size=16_384) as producer:
        for n in range(COUNT):
            try:
                producer.send(topic, b"%d" % n + b" " * 500)
            except BufferFull:
                refused += 1
        producer.flush(SECONDS)
        stats = producer.stats()
    written = [int(record.value or b"") for record in cluster.log(topic)[0]]
    assert len(written) == stats.acked == COUNT - refused - sum(stats.dropped.values())
    assert written == sorted(set(written))
    assert (refused > 0, set(stats.dropped)) == ((True, set()) if on_full == "raise" else (False, {"BUFFER_FULL"}))
