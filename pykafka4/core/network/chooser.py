"""Chooser. Rule: a request for ANY goes to a connected broker that responds; it waits for another connection only if there is none such.

Connected brokers are preferred to avoided ones, and avoided ones to those that have left a request unanswered for long. Bootstrap addresses
are connected to only while no broker of the cluster is connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pykafka4.core import INFINITY
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.core.network.endpoint import LANE, Endpoint, broker_of, via

__all__ = ["BrokerChooser", "least_failed"]

AVOID_SECONDS = 10.0  # for which other brokers are preferred to an avoided one
STALLED = 2.0  # seconds: a connection whose oldest request has waited for so long is not used for ANY
READY = ConnectionState.READY


class Endpoints(Protocol):
    """The network, as the chooser knows it."""

    def endpoint(self, node: int) -> Endpoint | None:
        """The endpoint of a node; the endpoint of a lane is created."""


class BrokerChooser:
    """Reads the endpoints and ready connections of a `Network`. Changes nothing, except that spare endpoints are created on demand."""

    __slots__ = ("_endpoints", "_network", "_ready", "_spare")

    def __init__(
        self,
        endpoints: Mapping[int, Endpoint],
        ready: Mapping[int, Connection],
        spare: int,
        network: Endpoints,
    ) -> None:
        """`spare` is the lane of spare connections."""
        self._endpoints, self._ready, self._spare, self._network = endpoints, ready, spare, network

    def best(self, now: float) -> Endpoint | None:
        """The connected broker with the fewest requests in flight; a stalled one only if no other can be connected to."""
        node = min(filter(self._serves_any, self._ready), key=lambda n: self._load(now, n), default=None)
        if node is None:
            return None
        if self._stalled(now, self._ready[node]) and (self.connecting() or self.candidate(now) is not None):
            return None
        return self._endpoints[node]

    def _serves_any(self, node: int) -> bool:
        """Lanes belong to machines, except the spare one."""
        return node < LANE or node // LANE == self._spare

    def _load(self, now: float, node: int) -> tuple[bool, bool, bool, float, bool, int, float]:
        connection = self._ready[node]
        return (
            self._stalled(now, connection),
            connection.muted_until > now or connection.is_engaged,
            node < 0,  # bootstrap connections are closed soon
            self.avoided_at(now, broker_of(node)),
            node >= LANE,
            connection.in_flight,
            self._endpoints[node].tie,
        )

    def avoided_at(self, now: float, node: int) -> float:
        """Since when `node` is avoided, -INFINITY if it is not: if all brokers are avoided, the one with the lowest time is used."""
        avoided_at = self._endpoints[node].avoided_at
        return avoided_at if avoided_at > now - AVOID_SECONDS else -INFINITY

    def _stalled(self, now: float, connection: Connection) -> bool:
        return connection.silent_since < now - STALLED

    def connecting(self) -> bool:
        """Whether a connection is being opened that ANY could use."""
        return any(self._is_connecting(e) and self._serves_any(e.node) for e in self._endpoints.values())

    def _is_connecting(self, endpoint: Endpoint) -> bool:
        return endpoint.connection is not None and endpoint.connection.state is not READY

    def candidates(self, now: float) -> list[Endpoint]:
        """Where a connection for ANY could be opened, now or after a back-off."""
        return [*self.unconnected(INFINITY), *self._spares(now)]

    def candidate(self, now: float) -> Endpoint | None:
        """Where to open the next connection for ANY: to a broker without a connection, or else a spare one to a stalled broker."""
        return least_failed(self.unconnected(now)) or least_failed(e for e in self._spares(now) if e.not_before <= now)

    def unconnected(self, now: float) -> list[Endpoint]:
        """The brokers that can be connected to; bootstrap addresses only while no broker is connected."""
        least = 0 if any(0 <= node < LANE for node in self._ready) else -INFINITY
        return [
            e for e in self._endpoints.values() if least <= e.node < LANE and e.connection is None and not e.leaving and e.not_before <= now
        ]

    def _spares(self, now: float) -> list[Endpoint]:
        """The unconnected spare endpoints of brokers whose own connection is stalled."""
        stalled = [n for n, connection in self._ready.items() if 0 <= n < LANE and self._stalled(now, connection)]
        spares = [self._network.endpoint(via(self._spare, node)) for node in stalled]
        return [e for e in spares if e is not None and e.connection is None and not e.leaving]


def least_failed(endpoints: Iterable[Endpoint]) -> Endpoint | None:
    """The endpoint with the fewest failures; brokers before bootstrap addresses."""
    return min(endpoints, key=lambda e: (e.failures, e.node < 0, e.tie), default=None)
