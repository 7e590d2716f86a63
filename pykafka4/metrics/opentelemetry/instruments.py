"""Exports the metrics of clients to OpenTelemetry. Invariant: this module counts nothing itself; a collection reads each client once,
unless another reader collects at the same time.

OpenTelemetry has no observable histogram, so a histogram `NAME` becomes two counters, `NAME.count` and `NAME.sum`. The conventions define
`messaging.client.operation.duration` as a histogram, so it is left out; `pykafka4.client.request.duration` has its values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from pykafka4.metrics.catalogue import DEFINITIONS
from pykafka4.metrics.open_clients import OpenClients
from pykafka4.metrics.sources import Measured
from pykafka4.metrics.values import By, Definition, Histogram, Kind, Metric

__all__ = ["instrument"]

ELSEWHERE: Final = frozenset({"messaging.client.operation.duration"})


def instrument(*clients: Measured, meter_provider: MeterProvider | None = None, by: By = "topic", by_broker: bool = False) -> None:
    """Have the readers of `meter_provider` (default: the global provider) collect the metrics of `clients` until the clients are closed.

    `by` and `by_broker` are as in `metrics()`, and determine the number of series. Each provider gets its instruments once. Raises
    TypeError for an object that is not a client, ConfigError for an unknown `by`.
    """
    current = metrics.get_meter_provider()
    provider = current if meter_provider is None else meter_provider
    with _lock:
        shown = _shown.get(provider)
        if shown is None and provider is current:
            # Until the application sets the global provider, OpenTelemetry returns a proxy, and then gives the instruments of the proxy to
            # the provider that was set. A second set of instruments in this provider would not be collected.
            shown = _shown_globally[0] if _shown_globally else None
        if shown is None:
            shown = Readings()
            _make_instruments(provider.get_meter("pykafka4"), shown)
        _shown[provider] = shown
        if provider is current:
            _shown_globally[:] = [shown]
    for client in clients:
        shown.clients.add(client, by, by_broker)


class Readings:
    """The figures for one provider. A collection calls each instrument once, so a second call of an instrument begins the next reading."""

    def __init__(self) -> None:
        self.clients = OpenClients()
        self._lock = threading.Lock()
        self._served = set[str]()
        self._found: dict[str, list[Metric]] | None = None

    def of(self, definition: Definition, instrument: str) -> list[Metric]:
        with self._lock:
            if self._found is None or instrument in self._served:
                self._served, self._found = set(), {}
                for metric in self.clients.read():
                    self._found.setdefault(metric.name, []).append(metric)
            self._served.add(instrument)
            return self._found.get(definition.name, [])


def _make_instruments(meter: Meter, readings: Readings) -> None:
    for name, defined in DEFINITIONS.items():
        if defined.kind is Kind.HISTOGRAM:
            if name not in ELSEWHERE:
                count, total = partial(_parts, readings, defined, "count"), partial(_parts, readings, defined, "sum")
                meter.create_observable_counter(f"{name}.count", [count], "", f"{defined.description} The number of values.")
                meter.create_observable_counter(f"{name}.sum", [total], defined.unit, f"{defined.description} The sum of the values.")
        elif defined.kind is Kind.COUNTER:
            meter.create_observable_counter(name, [partial(_values, readings, defined)], defined.unit, defined.description)
        else:
            meter.create_observable_gauge(name, [partial(_values, readings, defined)], defined.unit, defined.description)


def _values(readings: Readings, defined: Definition, options: CallbackOptions) -> Iterator[Observation]:
    for metric in readings.of(defined, defined.name):
        assert not isinstance(metric.value, Histogram)
        yield Observation(metric.value, dict(metric.labels))


def _parts(readings: Readings, defined: Definition, part: str, options: CallbackOptions) -> Iterator[Observation]:
    for metric in readings.of(defined, f"{defined.name}.{part}"):
        yield Observation(getattr(metric.value, part), dict(metric.labels))


_lock = threading.Lock()
_shown: WeakKeyDictionary[Any, Readings] = WeakKeyDictionary()  # readings are freed with their provider
_shown_globally: list[Readings] = []  # the readings of the global provider; empty before its first use
