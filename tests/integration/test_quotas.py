"""Quotas on real brokers: a throttled producer slows down to its quota, without an error, and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Delivery, Producer
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.messages_users import AlterClientQuotasRequest, AlterClientQuotasResponse

pytestmark = pytest.mark.cluster

SECONDS = 30.0
RATE = 100_000  # bytes per second, of each broker
RECORD = 10_000
BURST = 11 * RATE // RECORD  # records: brokers look at the mean of eleven seconds by default


def alter(cluster: Cluster, client_id: str, quota: str, value: float, remove: bool) -> None:
    entry = AlterClientQuotasRequest.Entry
    wanted = entry(
        entity=[entry.Entity(entity_type="client-id", entity_name=client_id)], ops=[entry.Op(key=quota, value=value, remove=remove)]
    )

    def judge(answer: AlterClientQuotasResponse, again: bool) -> None:
        assert [row.error_code for row in answer.entries] == [BY_NAME["NONE"].code], answer.entries

    cluster.admin.order(AlterClientQuotasRequest(entries=[wanted], validate_only=False), judge, SECONDS)


@contextmanager
def limited(cluster: Cluster, client_id: str, quota: str, value: float) -> Iterator[None]:
    alter(cluster, client_id, quota, value, remove=False)
    try:
        yield
    finally:
        alter(cluster, client_id, quota, value, remove=True)


def throttled(producer: Producer) -> list[int]:
    """The brokers that throttle the producer, as its status says; no other sign of it counts."""
    return [broker["node"] for broker in producer.status()["brokers"] if broker["throttled_ms"] > 0]


def leader_throttles(cluster: Cluster, topic: str, producer: Producer) -> bool:
    """Whether the status says so of the partition's leader, and finds nothing else wrong with it."""
    leader = cluster.leader(topic, 0)
    row = next((broker for broker in producer.status()["brokers"] if broker["node"] == leader), None)
    if row is None:  # the metadata is not there yet
        return False
    assert row["error"] is None
    return bool(row["throttled_ms"] > 0)


def test_a_byte_rate_quota_slows_the_producer_down_without_an_error(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with (
        limited(cluster, topic, "producer_byte_rate", RATE),
        Producer(**{**cluster.client, "client_id": topic}, linger_ms=0, batch_size=RECORD) as producer,
    ):
        assert throttled(producer) == []
        sent: list[Delivery] = []
        began = 0.0

        def throttled_after_a_burst() -> bool:
            nonlocal began, sent
            if all(delivery.done() for delivery in sent):  # the leader may hear of the quota after a first burst
                began = time.monotonic()
                sent = [producer.send(topic, bytes(RECORD)) for _ in range(BURST + 4 * RATE // RECORD)]
            return leader_throttles(cluster, topic, producer)

        until(throttled_after_a_burst, SECONDS, "the quota to take effect")
        for delivery in sent:
            delivery.result(SECONDS)
        assert time.monotonic() - began > 2, "beyond the burst, four seconds' worth was sent"
        assert producer.stats().lost == 0
        until(lambda: not throttled(producer), SECONDS, "the end of the throttle")


def test_a_request_quota_slows_the_producer_down_without_an_error(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with (
        limited(cluster, topic, "request_percentage", 0.01),
        Producer(**{**cluster.client, "client_id": topic}, linger_ms=0) as producer,
    ):
        until(
            lambda: producer.send(topic, b"v").result(SECONDS) and leader_throttles(cluster, topic, producer),
            SECONDS,
            "the quota to take effect",
        )
        producer.send(topic, b"last").result(SECONDS)
        assert producer.stats().lost == 0
        until(lambda: not throttled(producer), SECONDS, "the end of the throttle")
