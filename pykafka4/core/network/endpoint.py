"""Keeps the state of the connection to one node, for `Network`. A node is a broker, a lane to a broker, or a bootstrap address."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

import attrs

from pykafka4.core import INFINITY, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.errors import KafkaError

__all__ = ["LANE", "Endpoint", "LinkStatus", "broker_of", "via"]

LANE = 1 << 32  # the node of broker `n` over lane `l` is `n + l * LANE`; broker ids are below LANE
READY = ConnectionState.READY


def via(lane: int, node: int) -> int:
    """Return the node for `node` over `lane`. ANY, CONTROLLER and bootstrap addresses have no lanes."""
    return node + lane * LANE if node >= 0 else node


def broker_of(node: int) -> int:
    """Return the broker of `node`, whatever the lane; a bootstrap address, ANY or CONTROLLER unchanged."""
    return node % LANE if node >= 0 else node


def is_loopback(host: str) -> bool:
    """Whether `host` stands for the machine that looks it up."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


@attrs.frozen
class LinkStatus:
    """A connection in `status()`. `state` is a `ConnectionState` value, or "idle" without a connection.

    `throttled_ms` is the remaining time for which the client writes nothing, because the broker throttles it (KIP-219); otherwise 0.
    `failures` counts the failed attempts to connect since the last success or change of address. `error` is the reason why the last
    connection or attempt failed; None after a success.
    """

    node: int
    host: str
    port: int
    state: str
    in_flight: int
    throttled_ms: float
    error: str | None
    failures: int = 0


@attrs.define(eq=False)
class Endpoint:
    node: int
    host: str
    port: int
    backoff: Backoff
    setup: Backoff
    tie: float  # random: otherwise every client would start with the first bootstrap server
    max_idle: float  # seconds until an unused connection is closed
    connection: Connection | None = None
    waiting: list[Request] = attrs.Factory(list)  # requests, until there is a connection
    wanted: bool = False
    leaving: bool = False  # the broker left the cluster, or the lane was dropped
    failures: int = 0  # failed attempts since the last READY connection or change of address
    refusals: int = 0  # attempts in a row that ended with an AuthenticationError and the same `guessed_cause`
    guessed_cause: str = ""
    refused_since: float = 0.0  # the end of the first of these attempts
    undecodable: bool = False  # an undecodable response has been logged; reset when requests succeed again
    avoided_at: float = -INFINITY  # the time of the last `Network.avoid` for this node
    not_before: float = 0.0  # the end of the backoff: no attempt to connect before that
    dialled_at: float = 0.0  # the start of the last attempt
    error: KafkaError | None = None  # the reason why the last connection or attempt failed; None after a success
    failed_at: float = 0.0  # the time of the last failure
    down_since: float | None = None  # the start of the first failed attempt since the last connection
    alarm: float = INFINITY  # the time at which `Network` checks this endpoint, unless an event comes first

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def title(self) -> str:
        """`broker 2`, or the address of a bootstrap server, whose broker id is not known."""
        return f"broker {broker_of(self.node)}" if self.node >= 0 else self.address

    @property
    def in_flight(self) -> int:
        return len(self.waiting) + (self.connection.in_flight if self.connection is not None else 0)

    @property
    def why(self) -> str:
        """The address and `error`, as `127.0.0.1:9092 connection refused`; empty without an error. For any thread."""
        error = self.error  # read once: the loop may change it between two reads of another thread
        return "" if error is None else f"{self.address} {str(error).removeprefix(f'{self.address}: ')}"

    def advice(self, bootstrap: Collection[tuple[str, int]]) -> str:
        """Return advice for errors of an advertised address; empty for a bootstrap address. An advertised address that never answers is
        usually wrong for this machine."""
        if self.node < 0 or (self.host, self.port) in bootstrap:
            return ""
        elsewhere = is_loopback(self.host) and not any(is_loopback(host) for host, _ in bootstrap)
        address = "this address, which every machine has for itself" if elsewhere else "this address"
        return f"broker {broker_of(self.node)} advertises {address}: see its advertised.listeners"

    def status(self, now: float) -> LinkStatus:
        connection = self.connection
        state, throttled = ("idle", 0.0) if connection is None else (connection.state.value, max(0.0, connection.muted_until - now))
        error = None if self.error is None else str(self.error)
        node, muted_ms = broker_of(self.node), round(throttled * 1000, 3)
        return LinkStatus(node, self.host, self.port, state, self.in_flight, muted_ms, error, self.failures)

    def due(self) -> float:
        connection = self.connection
        if connection is None:
            starts = self.not_before if self.wanted or self.waiting else INFINITY
            return min(starts, min((request.deadline for request in self.waiting), default=INFINITY))
        if connection.in_flight or connection.state is not READY:
            return connection.wake_at
        return min(connection.wake_at, connection.idle_since + self.max_idle)
