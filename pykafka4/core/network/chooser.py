"""Chooses the broker that a request for ANY goes to, and where to open a connection when there is none.

A broker that is connected and answers is taken before one in doubt, one in doubt before one that has left a request unanswered for long.
The addresses of the configuration are connected to only while no broker of the cluster is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pykafka4.core import INFINITY
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.core.network.endpoint import LANE, Endpoint, broker_of, via

__all__ = ["BrokerChooser", "least_failed"]

AVOID_SECONDS = 10.0  # seconds for which others are asked first
STALLED = 2.0  # a connection whose oldest request waits so long is no good for ANY
READY = ConnectionState.READY


class BrokerChooser:
    """Looks at the endpoints and ready connections of a `Network`, and changes neither, except that spare endpoints are made on demand."""

    __slots__ = ("_endpoint", "_endpoints", "_ready", "_spare")

    def __init__(
        self,
        endpoints: Mapping[int, Endpoint],
        ready: Mapping[int, Connection],
        spare: int,
        endpoint: Callable[[int], Endpoint | None],
    ) -> None:
        """`spare` is the lane of spare connections, `endpoint(node)` finds the endpoint of a node, and makes that of a lane."""
        self._endpoints, self._ready, self._spare, self._endpoint = endpoints, ready, spare, endpoint

    def best(self, now: float) -> Endpoint | None:
        """The connected broker with least to do; one that does not answer only when there is no other to try."""
        node = min(filter(self._serves_any, self._ready), key=lambda n: self._load(now, n), default=None)
        if node is None:
            return None
        if self._stalled(now, self._ready[node]) and (self.attempt_under_way() or self.candidate(now) is not None):
            return None
        return self._endpoints[node]

    def _serves_any(self, node: int) -> bool:
        """Lanes belong to somebody, but for the spare one."""
        return node < LANE or node // LANE == self._spare

    def _load(self, now: float, node: int) -> tuple[bool, bool, bool, float, bool, int, float]:
        connection = self._ready[node]
        return (
            self._stalled(now, connection),
            connection.muted_until > now,
            node < 0,  # bootstrap connections go away
            self.avoided_at(now, broker_of(node)),
            node >= LANE,
            connection.in_flight,
            self._endpoints[node].tie,
        )

    def avoided_at(self, now: float, node: int) -> float:
        """When it was doubted last, if that is not long ago: of several in doubt the one least lately."""
        avoided_at = self._endpoints[node].avoided_at
        return avoided_at if avoided_at > now - AVOID_SECONDS else -INFINITY

    def _stalled(self, now: float, connection: Connection) -> bool:
        return connection.silent_since < now - STALLED

    def attempt_under_way(self) -> bool:
        """Whether a connection is being opened that ANY could use."""
        return any(self._under_way(e) and self._serves_any(e.node) for e in self._endpoints.values())

    def _under_way(self, endpoint: Endpoint) -> bool:
        return endpoint.connection is not None and endpoint.connection.state is not READY

    def candidates(self, now: float) -> list[Endpoint]:
        """Where a connection for ANY could be opened, now or after a rest."""
        return [*self.unconnected(INFINITY), *self._spares(now)]

    def candidate(self, now: float) -> Endpoint | None:
        """Where to open the next connection for ANY: to a broker that is not connected, else a spare one beside a stalled one."""
        return least_failed(self.unconnected(now)) or least_failed(e for e in self._spares(now) if e.not_before <= now)

    def unconnected(self, now: float) -> list[Endpoint]:
        """The brokers that are not connected and may be; the addresses of the configuration only while no broker is connected."""
        least = 0 if any(0 <= node < LANE for node in self._ready) else -INFINITY
        return [
            e for e in self._endpoints.values() if least <= e.node < LANE and e.connection is None and not e.leaving and e.not_before <= now
        ]

    def _spares(self, now: float) -> list[Endpoint]:
        """The spare endpoints, not connected, of brokers whose own connection is stalled."""
        stalled = [n for n, connection in self._ready.items() if 0 <= n < LANE and self._stalled(now, connection)]
        spares = [self._endpoint(via(self._spare, node)) for node in stalled]
        return [e for e in spares if e is not None and e.connection is None and not e.leaving]


def least_failed(endpoints: Iterable[Endpoint]) -> Endpoint | None:
    """The endpoint that failed least; brokers before the addresses of the configuration."""
    return min(endpoints, key=lambda e: (e.failures, e.node < 0, e.tie), default=None)
