"""Events of the metadata. Rule: values only; `Cluster` emits them, and `Client.events` passes them on."""

from __future__ import annotations

from typing import Protocol

import attrs

__all__ = ["BrokerAdded", "BrokerRemoved", "EventSink", "MetadataChanged"]


class EventSink(Protocol):
    """The receiver of events, also of those that the metadata does not report."""

    def emit(self, event: object) -> None:
        """Pass `event` on to `Client.events`. Called on the loop thread; must not block."""


@attrs.frozen
class BrokerAdded:
    """Event: the cluster has a new broker, or a broker has a new address."""

    node: int
    host: str
    port: int


@attrs.frozen
class BrokerRemoved:
    """Event: a broker is no longer in the cluster, or no longer at this address."""

    node: int
    host: str
    port: int


@attrs.frozen
class MetadataChanged:
    """Event: leaders, topics or brokers changed."""

    version: int
