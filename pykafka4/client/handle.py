"""Defines the base class of clients, producers, consumers and admin clients. Invariant: none of them can be pickled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pykafka4.misuse import refuse_pickling
from pykafka4.other_clients.tables import method_hint

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source
    from pykafka4.metrics.values import By, Metric

__all__ = ["Handle"]


class Handle:
    """The base class of public clients, producers, consumers and admin clients."""

    _name: ClassVar[str]

    @property
    def _sources(self) -> tuple[Source, ...]:
        raise NotImplementedError

    def metrics(self, *, by: By = "topic", by_broker: bool = False) -> list[Metric]:
        """Return the current figures about the client's connections, requests and records. No figure costs work per record.

        `by` says how figures about records are summed: "topic" by topic, "partition" by partition, "client" all together; share consumers
        have only sums. With `by_broker`, figures about connections and requests have a label `broker`. A client whose thread does not
        respond within a second has few figures, among them `pykafka4.client.connected` with 0. Also works after `close`. Raises ConfigError
        for an unknown `by`.
        Names and labels: docs/guide/metrics-list.md. Source: OpenTelemetry's conventions for messaging.
        """
        from pykafka4.metrics.sources import Detail, read_all  # imported here: few programs read figures

        return read_all(self._sources, Detail(by, by_broker))

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(method_hint(self._name, name, dir(type(self))))

    def __reduce__(self) -> Any:
        return refuse_pickling(self._name)
