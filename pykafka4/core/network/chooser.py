"""Brokers for requests to ANY. Rule: a connected broker that responds gets a request; it waits for a connection only if there is none such.

Connected brokers are preferred to avoided ones, and avoided ones to those that have left a request unanswered for long. Bootstrap addresses
are connected to only while no broker of the cluster is connected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from pykafka4.core import INFINITY, Failed, Request
from pykafka4.core.network.connection import Answer, Connection, ConnectionState
from pykafka4.core.network.endpoint import LANE, Endpoint, broker_of, via
from pykafka4.errors import ConnectionLost
from pykafka4.records import Written

__all__ = ["BrokerChooser", "RequestsForAny", "least_failed"]

AVOID_SECONDS = 10.0  # for which other brokers are preferred to an avoided one
STALLED = 2.0  # seconds: a connection whose oldest request has waited for so long is not used for ANY
STAGGER = 0.5  # seconds until the next address is tried as well
GAP = 0.1  # seconds between attempts while all attempts fail
READY = ConnectionState.READY


class Endpoints(Protocol):
    """The network, as the chooser knows it."""

    def endpoint(self, node: int) -> Endpoint | None:
        """The endpoint of a node; the endpoint of a lane is created."""


class Connections(Protocol):
    """The network, as the requests for ANY use it."""

    def hand_over(self, now: float, endpoint: Endpoint, request: Request) -> None:
        """Send the request on the connection of the endpoint."""

    def open(self, now: float, endpoint: Endpoint) -> None:
        """Connect to an endpoint without a connection."""

    def why_unreachable(self) -> str:
        """The last errors of all addresses; empty while a broker is connected."""


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


class RequestsForAny:
    """The requests for ANY that wait for a connection. Invariant: each goes to a connected broker, or fails at its deadline."""

    __slots__ = ("_answers", "_attempted_at", "_chooser", "_network", "_requests", "_wanted")

    def __init__(self, chooser: BrokerChooser, network: Connections, answers: list[Answer]) -> None:
        """`answers` gets the outcomes of requests that fail."""
        self._chooser, self._network, self._answers = chooser, network, answers
        self._requests: deque[Request] = deque()
        self._wanted = False  # a connection, without a request
        self._attempted_at = -INFINITY  # when the last attempt to connect started

    @property
    def waiting(self) -> bool:
        """Whether requests wait, or a connection is wanted."""
        return self._wanted or bool(self._requests)

    def want(self) -> bool:
        """Connect to a broker, if none is connected. Returns whether that is news."""
        news, self._wanted = not self._wanted, True
        return news

    def submit(self, now: float, request: Request) -> bool:
        """Pass `request` to a connected broker; False: it waits for one."""
        best = self._chooser.best(now)
        if best is None:
            self._requests.append(request)
            return False
        self._network.hand_over(now, best, request)
        return True

    def serve(self, now: float) -> float:
        """Pass the requests to a connected broker, or try to connect. Returns when to look again; -INFINITY: there is output now."""
        self._fail_late(now)
        if not self.waiting:
            return INFINITY
        best = self._chooser.best(now)
        if best is not None:
            self._wanted = False
            while self._requests:
                self._network.hand_over(now, best, self._requests.popleft())
            return -INFINITY
        return min(self._connect(now), min((request.deadline for request in self._requests), default=INFINITY))

    def _connect(self, now: float) -> float:
        """Start an attempt to connect, if one is due; returns when the next is due."""
        candidate = self._chooser.candidate(now)
        pause = STAGGER if self._chooser.connecting() else 0.0 if candidate is None or candidate.failures == 0 else GAP
        if now < self._attempted_at + pause:
            return self._attempted_at + pause
        if candidate is None:
            return min((e.not_before for e in self._chooser.candidates(now)), default=INFINITY)
        self._attempted_at = now
        self._network.open(now, candidate)
        return now + STAGGER

    def _fail_late(self, now: float) -> None:
        late = [request for request in self._requests if request.deadline <= now]
        if late:
            reason = ConnectionLost(self._network.why_unreachable() or "no broker responded in time")
            self._answers += [(request, Failed(reason, Written.NO)) for request in late]
            self._requests = deque(request for request in self._requests if request.deadline > now)


def least_failed(endpoints: Iterable[Endpoint]) -> Endpoint | None:
    """The endpoint with the fewest failures; brokers before bootstrap addresses."""
    return min(endpoints, key=lambda e: (e.failures, e.node < 0, e.tie), default=None)
