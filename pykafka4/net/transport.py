"""Transport. Rule: bytes in, whole frames out; the loop uses only the interface `Transport`, and no implementation knows requests.

Three implementations: `portable` (on `selectors`, everywhere), `pump` (compiled, on Linux), and `secure` (TLS, derived from `portable`).
Errors are `ConnectionLost` (`AuthenticationError` where the two ends do not agree on security), prefixed with the address, and reach the
loop as events, never as exceptions.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from pykafka4.errors import AuthenticationError, ConnectionLost, DecodeError, caused_by
from pykafka4.net.handoff.wakeup import Wakes
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.frame import PeerSpeaksTls

__all__ = ["Event", "EventKind", "Post", "Transport", "bad_frame", "end_of_stream", "explain"]

Post: TypeAlias = Callable[[Callable[[float], object]], None]


class EventKind(Enum):
    """What can happen to a connection."""

    CONNECTED = "connected"  # payload None
    FRAME = "frame"  # payload: the frame without its size, in a buffer of its own
    LOST = "lost"  # payload: KafkaError
    WRITTEN = "written"  # payload None: everything passed to `write` reached the socket


class Event(NamedTuple):
    """An event of connection `link`."""

    kind: EventKind
    link: int
    payload: Any = None


class Transport(Protocol):
    """The sockets of one loop. Every method belongs to the loop thread, except `wakeup.wake`."""

    @property
    def wakeup(self) -> Wakes:
        """Wakes `select`."""

    def connect(self, link: int, host: str, port: int) -> None:
        """Start to connect; ends in CONNECTED or LOST."""

    def write(self, link: int, buffers: Sequence[Buffer], report: bool) -> bool:
        """Write, and keep what the socket does not take yet. Returns whether all of it reached the socket.

        Otherwise, with `report`, WRITTEN follows as soon as nothing is left to write.
        """

    def close(self, link: int) -> None:
        """Close; no further event follows."""

    def select(self, timeout: float) -> list[Event]:
        """Wait up to `timeout` seconds for events; `wakeup.wake` ends it early."""

    def shut(self) -> None:
        """Close everything."""

    def abandon(self) -> None:
        """In a forked child: close descriptors, change nothing that is shared with the parent."""


def explain(error: BaseException) -> str:
    """Why a look-up or a socket failed, for the message of a ConnectionLost."""
    if isinstance(error, socket.gaierror):
        return (
            "host name not found" if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else str(error.strerror).lower()
        )
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return f"{type(error).__name__}: {error}"


def end_of_stream(*, in_frame: bool) -> str:
    """The broker ended the connection; `in_frame`: after a part of a frame."""
    return f"the broker closed the connection{' in the middle of a response' if in_frame else ''}"


def bad_frame(address: str, error: DecodeError) -> ConnectionLost:
    """For a size that is none, or too large. The cause tells a consumer to request less."""
    kind = AuthenticationError if isinstance(error, PeerSpeaksTls) else ConnectionLost
    return caused_by(kind(f"{address}: {error}"), error)
