"""Connection. Rule: replies come in the order of requests, and the first thing that is wrong ends the connection for all of them."""

from __future__ import annotations

from enum import Enum

from pykafka4.config import ClientConfig
from pykafka4.core import Outcome, Request
from pykafka4.errors import KafkaError

__all__ = ["Connection", "ConnectionState"]


class ConnectionState(Enum):
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


class Connection:
    """Nobody but `Network` uses this."""

    state: ConnectionState
    reason: KafkaError | None  # why it is CLOSED
    answers: list[tuple[Request, Outcome]]  # Network takes them and calls `on_reply`

    def __init__(self, node: int, link: int, config: ClientConfig, setup_deadline: float) -> None: ...
