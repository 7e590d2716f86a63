"""Exposes the metrics of clients to Prometheus. Invariant: nothing is counted for Prometheus; `collect` yields each family once.

Needs the extra `prometheus`: pip install 'pykafka4[prometheus]'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.registry import Collector
    from prometheus_client.utils import floatToGoString
except ModuleNotFoundError as missing:
    missing.add_note("pip install 'pykafka4[prometheus]'")
    raise

from pykafka4.metrics.catalogue import CLIENT_ID, DEFINITIONS
from pykafka4.metrics.naming import family_name, label_name
from pykafka4.metrics.open_clients import OpenClients
from pykafka4.metrics.sources import Measured
from pykafka4.metrics.values import By, Definition, Histogram, Kind, Metric

__all__ = ["ClientCollector", "collector"]

FAMILIES: Final = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}


class ClientCollector(Collector):
    """Exposes the metrics of the clients that were added to it. Use it for a registry of your own, `collector` for the default registry."""

    def __init__(self) -> None:
        self._clients = OpenClients()

    def add(self, *clients: Measured, by: By = "topic", by_broker: bool = False) -> None:
        """Expose the metrics of `clients`, handles of any kind, from now until they are closed.

        `by` and `by_broker` are as in `metrics()`, and determine the number of series. Raises TypeError for any other object, ConfigError
        for an unknown `by`.
        """
        for client in clients:
            self._clients.add(client, by, by_broker)

    def describe(self) -> Iterable[Family]:
        """Return no families, so that a registration does not read the clients."""
        return ()

    def collect(self) -> Iterator[Family]:
        """The current figures."""
        found: dict[str, list[Metric]] = {}
        for metric in self._clients.read():
            found.setdefault(metric.name, []).append(metric)
        for name, metrics in found.items():
            yield _family(DEFINITIONS[name], metrics)


def collector(*clients: Measured, by: By = "topic", by_broker: bool = False) -> ClientCollector:
    """Add `clients` to the common collector of this process until they are closed; return the collector.

    `REGISTRY.register(collector(producer))`, later `REGISTRY.register(collector(consumer))`: the object is the same, so the registry yields
    no family twice. `by`, `by_broker` and errors are as in `ClientCollector.add`.
    """
    _OF_PROCESS.add(*clients, by=by, by_broker=by_broker)
    return _OF_PROCESS


def _family(definition: Definition, metrics: Collection[Metric]) -> Family:
    labels = [label for label in (CLIENT_ID, *definition.labels) if any(label in metric.labels for metric in metrics)]
    names = [label_name(label) for label in labels]
    family: Any = FAMILIES[definition.kind](family_name(definition), definition.description, labels=names)
    for metric in metrics:
        values = _values(labels, metric.labels)
        if isinstance(family, HistogramMetricFamily):
            assert isinstance(metric.value, Histogram)
            family.add_metric(values, _buckets(metric.value), metric.value.sum)
        else:
            family.add_metric(values, metric.value)
    return family  # type: ignore[no-any-return]


def _values(labels: Iterable[str], given: Mapping[str, str]) -> list[str]:
    """Prometheus treats an empty value as a missing label."""
    return [given.get(label, "") for label in labels]


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))


_OF_PROCESS: Final = ClientCollector()
