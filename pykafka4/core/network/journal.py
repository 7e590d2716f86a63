"""Logs the connections of one client: a line when a broker gets its first connection or loses its last one, for the first failed attempt,
for the first response that cannot be decoded, and for a new address."""

from __future__ import annotations

from typing import Protocol

from pykafka4.core.network.endpoint import Endpoint, broker_of
from pykafka4.errors import DecodeError, KafkaError
from pykafka4.logs import get_log

__all__ = ["Journal"]

log = get_log("pykafka4.network")


class Connections(Protocol):
    """The network: the part that the journal uses."""

    def is_connected(self, broker: int) -> bool:
        """Whether any connection to the broker is READY."""


class Journal:
    """The log lines of one client about its connections. A broker is connected while any of its lanes is."""

    __slots__ = ("_client_id", "_connections", "_unreachable")

    def __init__(self, client_id: str, connections: Connections) -> None:
        self._client_id, self._connections = client_id, connections
        self._unreachable: set[int] = set()  # brokers whose failure has been logged

    def connected(self, endpoint: Endpoint) -> None:
        """Log a broker's only connection, or the first after a failed attempt on any lane."""
        broker, address = broker_of(endpoint.node), endpoint.address
        if broker in self._unreachable or (broker >= 0 and not self._connections.is_connected(broker)):
            self._unreachable.discard(broker)
            log.info("%s: connected to %s (%s)", self._client_id, _name(broker), address, broker=_id(broker), address=address)

    def ended(self, endpoint: Endpoint, reason: KafkaError, was_ready: bool) -> None:
        broker, address = broker_of(endpoint.node), endpoint.address
        name = _name(broker)
        if isinstance(reason.__cause__, DecodeError) and was_ready:
            if not endpoint.undecodable:  # once: requests are retried, perhaps forever, so the log has to show the reason
                log.warning("%s: reconnecting to %s: %s", self._client_id, name, reason, broker=_id(broker), address=address)
            endpoint.undecodable = True
        elif was_ready and not self._connections.is_connected(broker):
            log.info("%s: %s disconnected: %s", self._client_id, name, reason, broker=_id(broker), address=address)
        elif not was_ready and not endpoint.leaving and broker not in self._unreachable:
            self._unreachable.add(broker)
            log.warning("%s: cannot reach %s: %s", self._client_id, name, reason, broker=_id(broker), address=address)

    def moved(self, endpoint: Endpoint, host: str, port: int) -> None:
        broker, address = broker_of(endpoint.node), endpoint.address
        log.info("%s: broker %d moved from %s to %s:%d", self._client_id, broker, address, host, port, broker=broker, address=address)


def _name(broker: int) -> str:
    """A bootstrap server has no broker id yet."""
    return f"broker {broker}" if broker >= 0 else "bootstrap server"


def _id(broker: int) -> int | None:
    return broker if broker >= 0 else None
