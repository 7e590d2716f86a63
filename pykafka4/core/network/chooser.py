"""Chooses the broker for each request to ANY, and keeps requests that wait for a connection.

Invariant: a request waits for a connection only if no connected broker responds. The order of preference among connected nodes: brokers,
avoided brokers, bootstrap addresses, nodes that throttle this client or authenticate it again, and last nodes that have left a request
unanswered for long (stalled). The client connects to bootstrap addresses only while no broker of the cluster is connected, lanes aside.
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

AVOID_S = 10.0  # seconds for which other brokers are preferred to an avoided one
STALLED_S = 2.0  # seconds: a connection whose oldest request has waited for this long counts as stalled
STAGGER_S = 0.5  # seconds until the client tries the next address as well, while an attempt to connect is under way
GAP_S = 0.1  # seconds between attempts while all attempts fail
READY = ConnectionState.READY


class Endpoints(Protocol):
    """The network: the part that the chooser uses."""

    def endpoint(self, node: int) -> Endpoint | None:
        """Return the endpoint of a node; the endpoint of a lane is created on first use."""


class Connections(Protocol):
    """The network: the part that requests for ANY use."""

    def hand_over(self, now: float, endpoint: Endpoint, request: Request) -> None:
        """Send the request on the connection of the endpoint."""

    def open(self, now: float, endpoint: Endpoint) -> None:
        """Connect to an endpoint without a connection."""

    def why_unreachable(self) -> str:
        """Return the last errors of all addresses; empty while a broker is connected."""


class BrokerChooser:
    """Chooses among the endpoints and READY connections of a `Network`. Creates spare endpoints on demand, and changes nothing else."""

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
        """Return the connected node that comes first (`_load`); None if no node is connected, or if the first is stalled and the client
        is connecting, or can connect, to another node."""
        node = min(filter(self._serves_any, self._ready), key=lambda n: self._load(now, n), default=None)
        if node is None:
            return None
        if self._stalled(now, self._ready[node]) and (self.connecting() or self.candidate(now) is not None):
            return None
        return self._endpoints[node]

    def _serves_any(self, node: int) -> bool:
        """Lanes belong to machines, except the spare lane."""
        return node < LANE or node // LANE == self._spare

    def _load(self, now: float, node: int) -> tuple[bool, bool, bool, float, bool, int, float]:
        connection = self._ready[node]
        return (
            self._stalled(now, connection),
            connection.muted_until > now or connection.is_engaged,
            node < 0,  # bootstrap connections come after brokers: they are closed soon
            self.avoided_at(now, broker_of(node)),
            node >= LANE,
            connection.in_flight,
            self._endpoints[node].tie,
        )

    def avoided_at(self, now: float, node: int) -> float:
        """Return the time at which `node` was last avoided; -INFINITY if AVOID_S have passed since. The broker with the earliest time
        comes first."""
        avoided_at = self._endpoints[node].avoided_at
        return avoided_at if avoided_at > now - AVOID_S else -INFINITY

    def _stalled(self, now: float, connection: Connection) -> bool:
        return connection.silent_since < now - STALLED_S

    def connecting(self) -> bool:
        return any(self._is_connecting(e) and self._serves_any(e.node) for e in self._endpoints.values())

    def _is_connecting(self, endpoint: Endpoint) -> bool:
        return endpoint.connection is not None and endpoint.connection.state is not READY

    def candidates(self, now: float) -> list[Endpoint]:
        """Return the endpoints to which a connection for ANY could be opened, now or after a backoff."""
        return [*self.unconnected(INFINITY), *self._spares(now)]

    def candidate(self, now: float) -> Endpoint | None:
        """Return the endpoint for the next connection for ANY: an unconnected one, otherwise a spare one of a stalled broker; None if no
        endpoint can be connected now."""
        return least_failed(self.unconnected(now)) or least_failed(e for e in self._spares(now) if e.not_before <= now)

    def unconnected(self, now: float) -> list[Endpoint]:
        """Return the brokers to which the client can connect at `now`, and bootstrap addresses if no broker is connected, lanes aside."""
        least = 0 if any(0 <= node < LANE for node in self._ready) else -INFINITY
        return [
            e for e in self._endpoints.values() if least <= e.node < LANE and e.connection is None and not e.leaving and e.not_before <= now
        ]

    def _spares(self, now: float) -> list[Endpoint]:
        stalled = [n for n, connection in self._ready.items() if 0 <= n < LANE and self._stalled(now, connection)]
        spares = [self._network.endpoint(via(self._spare, node)) for node in stalled]
        return [e for e in spares if e is not None and e.connection is None and not e.leaving]


class RequestsForAny:
    """The requests for ANY that wait for a connection. Each goes to a connected broker, or fails at its deadline."""

    __slots__ = ("_answers", "_attempted_at", "_chooser", "_network", "_requests", "_wanted")

    def __init__(self, chooser: BrokerChooser, network: Connections, answers: list[Answer]) -> None:
        """`answers` receives the outcomes of requests that fail."""
        self._chooser, self._network, self._answers = chooser, network, answers
        self._requests: deque[Request] = deque()
        self._wanted = False  # whether a connection is wanted, even without a request
        self._attempted_at = -INFINITY  # the start of the last attempt to connect

    @property
    def waiting(self) -> bool:
        return self._wanted or bool(self._requests)

    def want(self) -> bool:
        """Make `serve` connect to a broker, unless a connected one responds. Return False if an earlier call is still in effect."""
        news, self._wanted = not self._wanted, True
        return news

    def submit(self, now: float, request: Request) -> bool:
        """Hand `request` to a connected broker; return False if the request has to wait for a connection."""
        best = self._chooser.best(now)
        if best is None:
            self._requests.append(request)
            return False
        self._network.hand_over(now, best, request)
        return True

    def serve(self, now: float) -> float:
        """Pass the requests to a connected broker, or try to connect. Return the time of the next call; -INFINITY: there may be output."""
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
        """Start an attempt to connect, if one is due. Return the time of the next attempt."""
        candidate = self._chooser.candidate(now)
        pause = STAGGER_S if self._chooser.connecting() else 0.0 if candidate is None or candidate.failures == 0 else GAP_S
        if now < self._attempted_at + pause:
            return self._attempted_at + pause
        if candidate is None:
            return min((e.not_before for e in self._chooser.candidates(now)), default=INFINITY)
        self._attempted_at = now
        self._network.open(now, candidate)
        return now + STAGGER_S

    def _fail_late(self, now: float) -> None:
        late = [request for request in self._requests if request.deadline <= now]
        if late:
            reason = ConnectionLost(self._network.why_unreachable() or "no broker responded in time")
            self._answers += [(request, Failed(reason, Written.NO)) for request in late]
            self._requests = deque(request for request in self._requests if request.deadline > now)


def least_failed(endpoints: Iterable[Endpoint]) -> Endpoint | None:
    return min(endpoints, key=lambda e: (e.failures, e.node < 0, e.tie), default=None)
