"""Pushed figures: averages and sums since the last push, only what is wanted, and rows that name metrics of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka4.core.histogram import Histogram
from pykafka4.core.telemetry import otlp
from pykafka4.core.telemetry.machine import MetricsSubscription
from pykafka4.metrics import pushed
from pykafka4.metrics.catalogue import DEFINITIONS
from pykafka4.metrics.pushed import CONSUMER, PREFIX, PRODUCER, SHARE, PushedFigures, PushedMetric
from pykafka4.metrics.sources import Detail
from pykafka4.metrics.values import Kind, Metric


class Source:
    """Values by metric and labels."""

    key, alive, labels = "source", True, {"messaging.client.id": "shop"}

    def __init__(self) -> None:
        self.values: dict[tuple[str, tuple[tuple[str, str], ...]], float | Histogram] = {}

    def set(self, name: str, value: float | Histogram, **labels: str) -> None:
        self.values[name, tuple((key.replace("_", "."), text) for key, text in labels.items())] = value

    def read(self, detail: Detail) -> Iterator[Metric]:
        for (name, labels), value in self.values.items():
            defined = DEFINITIONS[name]
            yield Metric(name, defined.kind, defined.unit, "", dict(labels), value)


class Pushes:
    """What was encoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *rows: PushedMetric) -> None:
        self.source, self.now = Source(), 10**9
        self.figures = PushedFigures([self.source], rows, lambda: {"group_id": "g"}, lambda: self.now)
        self.start = 0
        monkeypatch.setattr(pushed, "encode", self._encode)

    def _encode(self, points: Any, resource: Any, start: int, now: int) -> bytes:
        self.points, self.start = list(points), start
        return otlp.encode(points, resource, start, now)

    def push(self, *prefixes: str, delta: bool = True, seconds: float = 10) -> dict[str, float]:
        self.now += int(seconds * 1e9)
        self.points: list[Any] = []
        data = self.figures.encode(MetricsSubscription(UUID(int=1), 1, prefixes or ("",), delta, 10, 1_000, 0))
        assert bool(data) == bool(self.points)
        return {point.name.removeprefix(PREFIX) + point.attributes.get("node_id", ""): point.value for point in self.points}


def durations(count: int, total: float) -> Histogram:
    return Histogram((1.0,), (count, 0), total)


@pytest.mark.parametrize("row", [*PRODUCER, *CONSUMER, *SHARE], ids=lambda row: row.name)
def test_each_row_reads_a_metric_of_the_catalogue_with_its_labels(row: PushedMetric) -> None:
    defined = DEFINITIONS[row.source_metric]
    assert row.where.keys() <= set(defined.labels)
    assert (defined.kind is Kind.HISTOGRAM) == (row.shape.name in ("COUNT", "AVERAGE", "SIZE"))
    assert (defined.kind is Kind.COUNTER) == (row.shape.name in ("TOTAL", "RATE"))


def test_sums_are_since_the_last_push_or_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(monkeypatch, *PRODUCER)
    pushes.source.set("messaging.client.sent.messages", 5)
    pushes.source.set("messaging.client.sent.messages", 2, error_type="TIMED_OUT")
    first = pushes.push()
    assert (first["producer.record.send.total"], first["producer.record.error.total"], pushes.start) == (5, 2, 10**9)
    pushes.source.set("messaging.client.sent.messages", 8)
    assert pushes.push()["producer.record.send.total"] == 3
    assert pushes.start == 11 * 10**9
    assert pushes.push(delta=False)["producer.record.send.total"] == 8
    assert pushes.start == 10**9


def test_averages_are_milliseconds_since_the_last_push_by_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(monkeypatch, *PRODUCER)
    name = "pykafka4.client.request.duration"
    pushes.source.set(name, durations(2, 1.0), request="Produce", broker="1")
    pushes.source.set(name, durations(1, 4.0), request="Metadata", broker="2")
    first = pushes.push()
    assert (first["producer.node.request.latency.avgnode-1"], first["producer.node.request.latency.avgnode-2"]) == (500, 4_000)
    assert (first["producer.request.latency.avg"], first["producer.response.total"]) == (500, 3)
    pushes.source.set(name, durations(4, 1.5), request="Produce", broker="1")
    second = pushes.push()
    assert second["producer.request.latency.avg"] == 250
    assert "producer.node.request.latency.avgnode-2" not in second  # nothing was measured


def test_a_rate_is_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(monkeypatch, *PRODUCER)
    pushes.source.set("pykafka4.client.connections.opened", 5, broker="1")
    assert pushes.push(seconds=10)["producer.connection.creation.rate"] == 0.5


def test_the_largest_lag_is_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(monkeypatch, *CONSUMER)
    pushes.source.set("pykafka4.consumer.lag", 5, messaging_destination_partition_id="0")
    pushes.source.set("pykafka4.consumer.lag", 9, messaging_destination_partition_id="1")
    assert pushes.push() == {"consumer.fetch.manager.records.lag.max": 9}


def test_only_wanted_metrics_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = Pushes(monkeypatch, *PRODUCER)
    pushes.source.set("messaging.client.sent.messages", 5)
    pushes.source.set("pykafka4.client.connections", 3)
    assert pushes.push(f"{PREFIX}producer.record.", f"{PREFIX}other") == {"producer.record.send.total": 5}
    assert pushes.push(f"{PREFIX}consumer.") == {}
    assert pushes.push("*").keys() == {"producer.record.send.total", "producer.connection.count"}
