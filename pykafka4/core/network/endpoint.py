"""Endpoint. Rule: a node is a broker and a lane to it; everything known about reaching it lies here, `Network` decides what follows.

A lane is a connection of its own to the same broker, for requests that others must not wait behind (see `network`).
"""

from __future__ import annotations

import attrs

from pykafka4.core import INFINITY, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.errors import KafkaError

__all__ = ["LANE", "Endpoint", "LinkStatus", "broker_of", "via"]

LANE = 1 << 32  # broker ids are below it
READY = ConnectionState.READY


def via(lane: int, node: int) -> int:
    """`node`, reached over `lane`. ANY and CONTROLLER have no lanes."""
    return node + lane * LANE if node >= 0 else node


def broker_of(node: int) -> int:
    """The broker behind `node`, whatever the lane."""
    return node % LANE if node >= 0 else node


@attrs.frozen
class LinkStatus:
    """A connection as `status()` shows it. `state` is a `ConnectionState` value, or "idle" where none is open."""

    node: int
    host: str
    port: int
    state: str
    in_flight: int
    error: str | None


@attrs.define(eq=False)
class Endpoint:
    """A node, and the connection to it if there is one."""

    node: int
    host: str
    port: int
    backoff: Backoff
    setup: Backoff
    tie: float  # random: bootstrap servers are not all asked in the order given
    max_idle: float  # seconds until a connection that is not used is closed
    connection: Connection | None = None
    waiting: list[Request] = attrs.Factory(list)  # until there is a connection
    wanted: bool = False
    leaving: bool = False  # the cluster no longer has it
    failures: int = 0  # attempts since it was READY
    garbled: bool = False  # its last answer could not be understood
    doubted_at: float = -INFINITY  # what it told of the cluster turned out not to be so
    not_before: float = 0.0
    error: KafkaError | None = None  # why the last connection or attempt ended
    failed_at: float = 0.0
    alarm: float = INFINITY  # when `Network` looks at it, if nothing happens before

    @property
    def address(self) -> str:
        """As errors show it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def due(self) -> float:
        """When this one has to be looked at again."""
        connection = self.connection
        if connection is None:
            starts = self.not_before if self.wanted or self.waiting else INFINITY
            return min(starts, min((request.deadline for request in self.waiting), default=INFINITY))
        if connection.in_flight or connection.state is not READY:
            return connection.wake_at
        return min(connection.wake_at, connection.idle_since + self.max_idle)
