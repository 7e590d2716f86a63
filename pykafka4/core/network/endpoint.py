"""Endpoint. Rule: a node is a broker or a lane to it; an endpoint holds the state of connecting to a node, and `Network` acts on it.

A lane is a separate connection to the same broker, for requests that others must not wait behind (see `network`).
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

import attrs

from pykafka4.core import INFINITY, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.errors import KafkaError

__all__ = ["LANE", "Endpoint", "LinkStatus", "broker_of", "via"]

LANE = 1 << 32  # broker ids are below it
READY = ConnectionState.READY


def via(lane: int, node: int) -> int:
    """The node for `node` over `lane`. ANY and CONTROLLER have no lanes."""
    return node + lane * LANE if node >= 0 else node


def broker_of(node: int) -> int:
    """The broker behind `node`, whatever the lane."""
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

    `throttled_ms`: for so long nothing is written yet, as the broker throttles this client (KIP-219); 0 if it does not. `failures`:
    attempts to connect that have failed since the last success; with 0 an `error` is that of a connection that ended and is not needed now.
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
    """A node and its connection, if there is one."""

    node: int
    host: str
    port: int
    backoff: Backoff
    setup: Backoff
    tie: float  # random, so that not every client starts with the first bootstrap server
    max_idle: float  # seconds until an unused connection is closed
    connection: Connection | None = None
    waiting: list[Request] = attrs.Factory(list)  # requests, until there is a connection
    wanted: bool = False
    leaving: bool = False  # the broker left the cluster, or the lane was dropped
    failures: int = 0  # attempts since it was READY
    refusals: int = 0  # attempts in a row that ended with an AuthenticationError, and with the same suspicion
    suspicion: str = ""
    refused_since: float = 0.0  # when the first of them ended
    undecodable: bool = False  # its last response could not be decoded
    avoided_at: float = -INFINITY  # when a response of it turned out to be outdated or useless
    not_before: float = 0.0
    dialled_at: float = 0.0  # when the last attempt began
    error: KafkaError | None = None  # why the last connection or attempt ended
    failed_at: float = 0.0
    down_since: float | None = None  # when the first attempt began that failed, since the last connection
    alarm: float = INFINITY  # when `Network` looks at it, if nothing happens before

    @property
    def address(self) -> str:
        """The address for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def title(self) -> str:
        """`broker 2`, or the address of a bootstrap server, whose number is not known."""
        return f"broker {broker_of(self.node)}" if self.node >= 0 else self.address

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self.waiting) + (self.connection.in_flight if self.connection is not None else 0)

    @property
    def why(self) -> str:
        """`127.0.0.1:9092 connection refused`: why the last connection or attempt ended; empty if none did."""
        error = self.error  # looked at once, as any thread may ask
        return "" if error is None else f"{self.address} {str(error).removeprefix(f'{self.address}: ')}"

    def advice(self, bootstrap: Collection[tuple[str, int]]) -> str:
        """Words for errors of an advertised address: if it never answers, it is usually wrong for this machine."""
        if self.node < 0 or (self.host, self.port) in bootstrap:
            return ""
        elsewhere = is_loopback(self.host) and not any(is_loopback(host) for host, _ in bootstrap)
        address = "this address, which every machine has for itself" if elsewhere else "this address"
        return f"broker {broker_of(self.node)} advertises {address}: see its advertised.listeners"

    def status(self, now: float) -> LinkStatus:
        """For `Network.status`."""
        connection = self.connection
        state, throttled = ("idle", 0.0) if connection is None else (connection.state.value, max(0.0, connection.muted_until - now))
        error = None if self.error is None else str(self.error)
        node, muted_ms = broker_of(self.node), round(throttled * 1000, 3)
        return LinkStatus(node, self.host, self.port, state, self.in_flight, muted_ms, error, self.failures)

    def due(self) -> float:
        """When `Network` has to look at this endpoint again."""
        connection = self.connection
        if connection is None:
            starts = self.not_before if self.wanted or self.waiting else INFINITY
            return min(starts, min((request.deadline for request in self.waiting), default=INFINITY))
        if connection.in_flight or connection.state is not READY:
            return connection.wake_at
        return min(connection.wake_at, connection.idle_since + self.max_idle)
