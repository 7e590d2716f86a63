"""The push of metrics beside real clients: nothing without a broker that takes metrics, and closing does not wait for one that hangs."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest

from pykafka4 import Client, Producer, aio
from pykafka4.testing import ModelServer, model
from pykafka4.testing.requests.handlers import HANDLERS
from pykafka4.wire.protocol.messages_telemetry import GetTelemetrySubscriptionsResponse, PushTelemetryResponse
from tests.net.net_helpers import SECONDS, until


class Receiver:
    """Brokers that want all metrics, and what they got."""

    def __init__(self, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.asked, self.pushes = server, 0, list[Any]()
        monkeypatch.setattr(model, "HANDLERS", {**HANDLERS, 71: self._subscribe, 72: self._push})
        server.do(lambda cluster: setattr(cluster, "versions", {**cluster.versions, 71: (0, 0), 72: (0, 0)}))
        server.create_topic("orders", partitions=1)

    def _subscribe(self, call: Any) -> GetTelemetrySubscriptionsResponse:
        self.asked += 1
        return GetTelemetrySubscriptionsResponse(
            error_code=0,
            client_instance_id=UUID(int=7),
            subscription_id=3,
            push_interval_ms=100,
            telemetry_max_bytes=100_000,
            delta_temporality=True,
            requested_metrics=[""],
        )

    def _push(self, call: Any) -> PushTelemetryResponse:
        self.pushes.append(call.message)
        return PushTelemetryResponse(error_code=0)


@pytest.fixture
def receiver(kafka_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    return Receiver(kafka_server, monkeypatch)


def use(receiver: Receiver, **options: Any) -> Producer:
    producer = Producer(bootstrap_servers=receiver.server.bootstrap_servers, **options)
    producer.send("orders", b"a value").result(SECONDS)
    return producer


def test_a_closed_producer_pushes_once_more(receiver: Receiver) -> None:
    with use(receiver):
        until(lambda: len(receiver.pushes) >= 2)
    assert [push.terminating for push in receiver.pushes] == [False] * (len(receiver.pushes) - 1) + [True]
    assert b"org.apache.kafka.producer.record.send.total" in receiver.pushes[0].metrics


def test_a_close_does_not_wait_for_a_broker_that_hangs(receiver: Receiver) -> None:
    producer = use(receiver)
    until(lambda: bool(receiver.pushes))
    receiver.server.delay("PushTelemetry", SECONDS)
    began = time.monotonic()
    producer.close()
    assert time.monotonic() - began < 2  # at most 0.1 s of it for the push


def test_tasks_push_and_close(receiver: Receiver) -> None:
    async def run() -> None:
        async with aio.Producer(bootstrap_servers=receiver.server.bootstrap_servers) as producer:
            await producer.send("orders", b"a value")
            async with asyncio.timeout(SECONDS):
                while not receiver.pushes:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
    assert receiver.pushes[-1].terminating


def test_users_of_a_client_push_apart_and_as_it_says(receiver: Receiver) -> None:
    servers = receiver.server.bootstrap_servers
    with Client(bootstrap_servers=servers) as client, Producer(client=client) as first, Producer(client=client) as second:
        for producer in (first, second):
            producer.send("orders", b"a value").result(SECONDS)
        until(lambda: receiver.asked == 2)
    asked, pushed = receiver.asked, len(receiver.pushes)
    with Client(bootstrap_servers=servers, enable_metrics_push=False) as client, Producer(client=client) as producer:
        producer.send("orders", b"a value").result(SECONDS)
    assert (receiver.asked, len(receiver.pushes)) == (asked, pushed)
