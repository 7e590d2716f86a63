"""Makes the figures that a client pushes to brokers (KIP-714). Invariant: only measures that Java has are pushed, under Java's names and
units.

A name is `org.apache.kafka.`, then Java's group and name with dots. Averages are over the time since the last push; averages of durations
are in milliseconds, ages in seconds. Of Java's maxima and rates over a time window, this module pushes two: `connection.creation.rate`,
since the last push, and `records.lag.max`, at the moment of the push.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from time import time_ns
from typing import Any, Final

import attrs

from pykafka4.core.telemetry.machine import MetricsSubscription
from pykafka4.core.telemetry.otlp import DELTA, TOTAL, Gauge, Sum, encode
from pykafka4.metrics.catalogue import BROKER, ERROR, REQUEST
from pykafka4.metrics.sources import ConsumerSource, Detail, NetworkSource, ProducerSource, ShareSource, Source
from pykafka4.metrics.values import Histogram, Metric

__all__ = ["CONSUMER", "PREFIX", "PRODUCER", "SHARE", "PushedFigures", "PushedMetric", "figures_of"]

PREFIX: Final = "org.apache.kafka."


class Shape(Enum):
    """The ways to compute a row's value."""

    TOTAL = "the sum of the values, which grow"
    RATE = "the growth of the sum of the values per second"
    VALUE = "the sum of the values of this moment"
    LARGEST = "the largest value of this moment"
    COUNT = "the number of values in histograms"
    AVERAGE = "the average of the values in histograms since the last push, in milliseconds"
    SIZE = "the average of the values in histograms since the last push"


@attrs.frozen
class PushedMetric:
    """A metric to push, made from `source_metric` of the catalogue. `where` limits labels: "*" is any text, None a missing label."""

    name: str
    shape: Shape
    source_metric: str
    where: Mapping[str, str | None] = attrs.Factory(dict)
    by_broker: bool = False


def _of_network(role: str) -> tuple[PushedMetric, ...]:
    return (
        PushedMetric(f"{role}.connection.creation.total", Shape.TOTAL, "pykafka4.client.connections.opened"),
        PushedMetric(f"{role}.connection.creation.rate", Shape.RATE, "pykafka4.client.connections.opened"),
        PushedMetric(f"{role}.connection.count", Shape.VALUE, "pykafka4.client.connections"),
        PushedMetric(f"{role}.outgoing.byte.total", Shape.TOTAL, "pykafka4.client.io.sent"),
        PushedMetric(f"{role}.incoming.byte.total", Shape.TOTAL, "pykafka4.client.io.received"),
        PushedMetric(f"{role}.response.total", Shape.COUNT, "pykafka4.client.request.duration"),
        PushedMetric(f"{role}.node.request.latency.avg", Shape.AVERAGE, "pykafka4.client.request.duration", by_broker=True),
    )


PRODUCER: Final = (
    *_of_network("producer"),
    PushedMetric("producer.metadata.age", Shape.VALUE, "pykafka4.client.metadata.age"),
    PushedMetric("producer.requests.in.flight", Shape.VALUE, "pykafka4.client.requests.in_flight"),
    PushedMetric("producer.request.latency.avg", Shape.AVERAGE, "pykafka4.client.request.duration", {REQUEST: "Produce"}),
    PushedMetric("producer.record.send.total", Shape.TOTAL, "messaging.client.sent.messages", {ERROR: None}),
    PushedMetric("producer.record.error.total", Shape.TOTAL, "messaging.client.sent.messages", {ERROR: "*"}),
    PushedMetric("producer.batch.size.avg", Shape.SIZE, "pykafka4.producer.batch.size"),
    PushedMetric("producer.buffer.total.bytes", Shape.VALUE, "pykafka4.producer.buffer.limit"),
)
CONSUMER: Final = (
    *_of_network("consumer"),
    PushedMetric("consumer.last.poll.seconds.ago", Shape.LARGEST, "pykafka4.consumer.poll.age"),
    PushedMetric("consumer.fetch.manager.fetch.latency.avg", Shape.AVERAGE, "pykafka4.client.request.duration", {REQUEST: "Fetch"}),
    PushedMetric("consumer.fetch.manager.fetch.total", Shape.COUNT, "pykafka4.client.request.duration", {REQUEST: "Fetch"}),
    PushedMetric("consumer.fetch.manager.records.consumed.total", Shape.TOTAL, "messaging.client.consumed.messages"),
    PushedMetric("consumer.fetch.manager.bytes.consumed.total", Shape.TOTAL, "pykafka4.consumer.io.fetched"),
    PushedMetric("consumer.fetch.manager.records.lag.max", Shape.LARGEST, "pykafka4.consumer.lag"),
    PushedMetric("consumer.coordinator.commit.latency.avg", Shape.AVERAGE, "pykafka4.client.request.duration", {REQUEST: "OffsetCommit"}),
    PushedMetric("consumer.coordinator.commit.total", Shape.TOTAL, "pykafka4.consumer.commits"),
    PushedMetric("consumer.coordinator.assigned.partitions", Shape.VALUE, "pykafka4.consumer.partitions"),
    PushedMetric("consumer.coordinator.rebalance.total", Shape.TOTAL, "pykafka4.consumer.rebalances"),
)
SHARE: Final = (
    *_of_network("consumer"),
    PushedMetric(
        "consumer.share.fetch.manager.fetch.latency.avg", Shape.AVERAGE, "pykafka4.client.request.duration", {REQUEST: "ShareFetch"}
    ),
    PushedMetric("consumer.share.fetch.manager.fetch.total", Shape.COUNT, "pykafka4.client.request.duration", {REQUEST: "ShareFetch"}),
    PushedMetric("consumer.share.fetch.manager.records.consumed.total", Shape.TOTAL, "messaging.client.consumed.messages"),
    PushedMetric("consumer.share.fetch.manager.acknowledgements.send.total", Shape.TOTAL, "pykafka4.share.acknowledged"),
    PushedMetric("consumer.share.fetch.manager.acknowledgements.error.total", Shape.TOTAL, "pykafka4.share.failed"),
)


class PushedFigures:
    """The figures of one client, which the loop thread reads."""

    def __init__(
        self,
        sources: Sequence[Source],
        rows: Sequence[PushedMetric],
        resource: Callable[[], Mapping[str, str]],
        clock: Callable[[], int] = time_ns,
    ) -> None:
        """`resource` returns labels without the client id, which brokers know; `clock` is in nanoseconds since 1970."""
        self._sources, self._rows, self._resource, self._clock = sources, rows, resource, clock
        self._start = self._last = clock()
        self._before: dict[tuple[str, str], tuple[float, float]] = {}  # by name and broker: (count, sum) at the last push

    def encode(self, subscription: MetricsSubscription) -> bytes:
        """See `core.telemetry.machine.PushedFigures`."""
        now = max(self._clock(), self._last + 1)  # the wall clock may go back, and a rate divides by the difference
        rows = [row for row in self._rows if subscription.wants(PREFIX + row.name)]
        found = self._read() if rows else {}
        points = [point for row in rows for point in self._points(row, found.get(row.source_metric, ()), subscription.delta, now)]
        start = self._last if subscription.delta else self._start
        self._last = now
        return encode(points, self._resource(), start, now) if points else b""

    def _read(self) -> dict[str, list[Metric]]:
        # With all labels: a row may need the largest value of all partitions, or a value for each broker.
        found: dict[str, list[Metric]] = {}
        for source in self._sources:
            for metric in source.read(Detail("partition", by_broker=True)):
                found.setdefault(metric.name, []).append(metric)
        return found

    def _points(self, row: PushedMetric, metrics: Sequence[Metric], delta: bool, now: int) -> Iterator[Gauge | Sum]:
        counted = [metric for metric in metrics if _matches(row, metric)]
        brokers = sorted({metric.labels[BROKER] for metric in counted}) if row.by_broker else [""] if counted else []
        for broker in brokers:
            attributes = {"node_id": f"node-{broker}"} if row.by_broker else {}
            values = [metric.value for metric in counted if not row.by_broker or metric.labels[BROKER] == broker]
            if (value := self._value(row, broker, values, delta, now)) is None:
                continue
            if row.shape in (Shape.TOTAL, Shape.COUNT):
                yield Sum(PREFIX + row.name, value, DELTA if delta else TOTAL, attributes)
            else:
                yield Gauge(PREFIX + row.name, value, attributes)

    def _value(self, row: PushedMetric, broker: str, values: Sequence[float | Histogram], delta: bool, now: int) -> float | None:
        """Store the count and sum that the next push of the row needs. Return None for an average without values since the last push."""
        if row.shape is Shape.LARGEST:
            return max(map(_total, values))
        count, total = float(sum(map(_count, values))), sum(map(_total, values))
        if row.shape is Shape.VALUE:
            return total
        counted, summed = self._before.get((row.name, broker), (0.0, 0.0))
        self._before[row.name, broker] = count, total
        if row.shape is Shape.TOTAL:
            return total - summed if delta else total
        if row.shape is Shape.COUNT:
            return count - counted if delta else count
        if row.shape is Shape.RATE:
            return (total - summed) / ((now - self._last) / 1e9)
        if count == counted:
            return None
        return (total - summed) / (count - counted) * (1_000 if row.shape is Shape.AVERAGE else 1)


KINDS: Final[Mapping[str, tuple[Callable[[Any], Source], tuple[PushedMetric, ...]]]] = {
    "PRODUCER": (ProducerSource, PRODUCER),
    "CONSUMER": (ConsumerSource, CONSUMER),
    "SHARE": (ShareSource, SHARE),
}


def figures_of(kind: str, session: Any, resource: Callable[[], Mapping[str, str]]) -> PushedFigures:
    """`session` is the implementation behind a handle."""
    source, rows = KINDS[kind]
    return PushedFigures((source(session), NetworkSource(session.runtime)), rows, resource)


def _matches(row: PushedMetric, metric: Metric) -> bool:
    return all(name in metric.labels if value == "*" else metric.labels.get(name) == value for name, value in row.where.items())


def _count(value: float | Histogram) -> float:
    return value.count if isinstance(value, Histogram) else 0


def _total(value: float | Histogram) -> float:
    return value.sum if isinstance(value, Histogram) else value
