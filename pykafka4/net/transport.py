"""Declares `Transport`, the loop's interface to its sockets, and `Event`. Invariant: a transport handles bytes and frames, not requests.

The interface has three implementations: `portable` (on `selectors`, everywhere), `pump` (compiled, on Linux), and `secure` (TLS, derived
from `portable`). Errors of connections reach the loop as events: `ConnectionLost`, or `AuthenticationError` for problems with certificates,
credentials or the security protocol. Error messages begin with the broker's address.
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
    CONNECTED = "connected"  # payload None
    FRAME = "frame"  # payload: the frame without its size, in its own buffer
    LOST = "lost"  # payload: KafkaError
    WRITTEN = "written"  # payload None: the socket has taken all bytes passed to `write`


class Event(NamedTuple):
    """An event of connection `link`."""

    kind: EventKind
    link: int
    payload: Any = None


class Transport(Protocol):
    """The sockets of one loop. All methods are called on the loop thread, except `wakeup.wake`, and `abandon` in a forked child."""

    @property
    def wakeup(self) -> Wakes:
        """The object that ends `select` early."""

    def connect(self, link: int, host: str, port: int) -> None:
        """Start to connect; the event CONNECTED or LOST follows, unless `close` is called first."""

    def write(self, link: int, buffers: Sequence[Buffer], report: bool) -> bool:
        """Write `buffers`, keep the bytes that the socket does not take yet, and return whether it has taken all bytes.

        If not, and if `report` is true, WRITTEN follows as soon as no byte is left to write, unless the connection is lost.
        """

    def close(self, link: int) -> None:
        """Close the connection; no further event of `link` follows."""

    def select(self, timeout: float) -> list[Event]:
        """Wait up to `timeout` seconds for events, and return them; `wakeup.wake` ends the wait early."""

    def shut(self) -> None:
        """Close all sockets and descriptors."""

    def abandon(self) -> None:
        """Close the descriptors in a forked child; change nothing that the child shares with its parent."""


def explain(error: BaseException) -> str:
    """Return why a lookup or a socket failed, for the message of a ConnectionLost."""
    if isinstance(error, socket.gaierror):
        return (
            "host name not found" if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else str(error.strerror).lower()
        )
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return f"{type(error).__name__}: {error}"


def end_of_stream(*, in_frame: bool) -> str:
    """`in_frame`: whether a part of a frame had arrived."""
    return f"the broker closed the connection{' in the middle of a response' if in_frame else ''}"


def bad_frame(address: str, error: DecodeError) -> ConnectionLost:
    """Return the error for a frame of invalid size. A consumer learns from the error's cause to request less."""
    kind = AuthenticationError if isinstance(error, PeerSpeaksTls) else ConnectionLost
    return caused_by(kind(f"{address}: {error}"), error)
