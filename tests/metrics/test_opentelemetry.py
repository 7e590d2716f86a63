"""Instruments: the values of a collection equal `stats()`, a collection reads each client once, a closed client is gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from pykafka4 import Consumer, Producer
from pykafka4.metrics.catalogue import DEFINITIONS
from pykafka4.metrics.open_clients import OpenClients
from pykafka4.metrics.opentelemetry import instrument
from pykafka4.metrics.values import Kind
from pykafka4.testing import ModelServer


@pytest.fixture
def kafka(kafka_server: ModelServer) -> dict[str, Any]:
    kafka_server.create_topic("orders", partitions=1)
    return {"bootstrap_servers": kafka_server.bootstrap_servers}


class Collector:
    """A provider with a reader in memory."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def collect(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        scopes = [] if data is None else [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def total(self, name: str) -> float:
        found = self.collect().get(name)
        return 0.0 if found is None else sum(point.value for point in found.data.data_points)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.provider.shutdown()


def test_a_collection_equals_stats(kafka: dict[str, Any], collector: Collector) -> None:
    with Producer(**kafka) as producer, Consumer(**kafka, client_id="reader") as consumer:
        instrument(producer, consumer, meter_provider=collector.provider)
        for _ in range(10):
            producer.send("orders", b"a value")
        producer.flush(timeout=10)
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        assert len(consumer.poll(timeout=10)) == 10
        assert collector.total("messaging.client.sent.messages") == producer.stats().acked == 10
        assert collector.total("messaging.client.consumed.messages") == 10
        assert collector.total("pykafka4.producer.batch.messages.sum") == 10
        found = collector.collect()
        assert found["pykafka4.client.connected"].unit == "1"
        clients = {point.attributes["messaging.client.id"] for point in found["pykafka4.client.connected"].data.data_points}
        assert clients == {"pykafka4", "reader"}
    assert collector.total("messaging.client.sent.messages") == 0


def test_every_metric_but_one_histogram_has_an_instrument(kafka: dict[str, Any], collector: Collector) -> None:
    with Producer(**kafka) as producer:
        instrument(producer, meter_provider=collector.provider)
        producer.send("orders", b"a value").result(timeout=10)
        found = {name.removesuffix(".count").removesuffix(".sum") for name in collector.collect()}
        expected = {metric.name for metric in producer.metrics()} - {"messaging.client.operation.duration"}
        assert found == expected <= DEFINITIONS.keys()
        assert any(DEFINITIONS[name].kind is Kind.HISTOGRAM for name in found)


def test_a_collection_reads_a_client_once(kafka: dict[str, Any], collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = []
    read = OpenClients.read
    monkeypatch.setattr(OpenClients, "read", lambda self: readings.append(self) or read(self))
    with Producer(**kafka) as producer:
        instrument(producer, meter_provider=collector.provider)
        instrument(producer, meter_provider=collector.provider)
        for _ in range(3):
            collector.collect()
    assert len(readings) == 3


def test_something_else_is_refused(collector: Collector) -> None:
    with pytest.raises(TypeError, match=r"'orders' has no metrics: pass a Producer"):
        instrument("orders", meter_provider=collector.provider)  # type: ignore[arg-type]


SET_LATER = """
import sys
from opentelemetry import metrics
from pykafka4 import Producer
from pykafka4.metrics.opentelemetry import instrument
from tests.metrics.test_opentelemetry import Collector

collector, kafka = Collector(), {"bootstrap_servers": sys.argv[1]}
with Producer(**kafka, client_id="before") as before, Producer(**kafka, client_id="after") as after:
    instrument(before)
    metrics.set_meter_provider(collector.provider)
    instrument(after)
    instrument(before, meter_provider=collector.provider)
    points = collector.collect()["pykafka4.client.connected"].data.data_points
    print(*sorted(point.attributes["messaging.client.id"] for point in points))
"""


def test_clients_are_collected_from_before_and_after_the_global_provider_is_set(kafka: dict[str, Any]) -> None:
    """In a process of its own, because the global provider can be set only once."""
    command = [sys.executable, "-c", SET_LATER, kafka["bootstrap_servers"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("after before\n", "")
