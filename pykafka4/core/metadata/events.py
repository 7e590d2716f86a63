"""Events of the metadata. Rule: values only; `Cluster` emits them, and `Client.events` passes them on."""

from __future__ import annotations

import attrs

__all__ = ["BrokerAdded", "BrokerRemoved", "MetadataChanged"]


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
