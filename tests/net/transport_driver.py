"""Turns a transport in the test's own thread."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pykafka4.net.handoff.wakeup import Inbox
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.portable import PortableTransport
from pykafka4.net.transport import Event, EventKind
from pykafka4.options.proxy import Proxy
from tests.net.net_helpers import SECONDS, serving

try:
    from pykafka4.net.pump.transport import PumpTransport
except ImportError:  # built on Linux only
    PumpTransport = None  # type: ignore[assignment, misc]

try:
    from tests.net import tls_peers
except ImportError:  # without trustme
    tls_peers = None  # type: ignore[assignment]

CONNECTED, FRAME, LOST, WRITTEN = EventKind.CONNECTED, EventKind.FRAME, EventKind.LOST, EventKind.WRITTEN
MAX_FRAME = 64 << 20
TRANSPORTS = {"portable": PortableTransport, "pump": PumpTransport}
KINDS = [kind for kind, transport in TRANSPORTS.items() if transport is not None]
TLS = "tls"
ALL_KINDS = [*KINDS, *([TLS] if tls_peers is not None else [])]


class Driver:
    """A transport, and the events that it has reported."""

    def __init__(self, kind: str, proxy: Proxy | None = None, **options: Any) -> None:
        """`options`: for TLS, in place of those that fit the servers of `serving`."""
        self.inbox = Inbox()
        self.wrap = tls_peers.wrap if kind == TLS else None
        self.transport: Any = (
            tls_peers.transport(MAX_FRAME, self.post, **options) if kind == TLS else TRANSPORTS[kind](MAX_FRAME, Helper(), self.post, proxy)
        )
        self.dialler: Any = self.transport._dialler
        self.events: list[Event] = []

    @property
    def sockets(self) -> Any:
        """The open sockets of the transport, by link."""
        return self.transport._sockets

    @property
    def attempts(self) -> Any:
        """The connections that are being made, by link."""
        return self.dialler._attempts

    @property
    def lookups(self) -> Any:
        """The name lookups that are under way."""
        return self.dialler._lookups

    @property
    def connecting(self) -> Any:
        """The sockets that are being connected."""
        return self.dialler._connecting

    @property
    def unread(self) -> Any:
        """Links whose TLS layer holds bytes that nobody has read."""
        return self.transport._unread

    @property
    def shaking(self) -> Any:
        """Links in a TLS handshake."""
        return self.transport._shaking

    @property
    def sessions(self) -> Any:
        """The TLS sessions that the transport keeps."""
        return self.transport._sessions

    def serving(self, answer: Callable[[Any], object]) -> AbstractContextManager[int]:
        """A server for this transport; see `net_helpers.serving`."""
        return serving(answer, self.wrap)

    def post(self, fn: Callable[[float], object]) -> None:
        self.inbox.post(fn)
        self.transport.wakeup.asleep = True
        self.transport.wakeup.wake()

    def step(self, timeout: float = 0.5) -> list[Event]:
        self.inbox.run(time.monotonic())
        events: list[Event] = self.transport.select(timeout)
        self.events += events
        return events

    def until(self, kind: EventKind, count: int = 1, link: int = 1) -> list[Any]:
        """Payloads of `count` events of this kind."""
        deadline = time.monotonic() + SECONDS
        while True:
            found = [event.payload for event in self.events if event.kind is kind and event.link == link]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{len(found)} of {count} {kind} in {[e[:2] for e in self.events]}"
            self.step()

    def connect(self, port: int, link: int = 1, host: str = "127.0.0.1") -> None:
        self.transport.connect(link, host, port)
        self.until(CONNECTED, link=link)

    def socket_of(self, link: int) -> socket.socket:
        """The socket of an open link."""
        opened = self.sockets[link]
        found: socket.socket = opened[0] if isinstance(opened, tuple) else opened.sock
        return found


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
