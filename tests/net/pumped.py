"""A pump whose peers are the test."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.net.net_helpers import SECONDS, in_thread
from tests.net.transport_driver import framed

pumps: Any = pytest.importorskip("pykafka4.net.pump._pump", reason="the pump is compiled, on Linux only")
KB, MB = 1 << 10, 1 << 20
POOL = 8 * MB  # most that is kept for later frames
FIRST_PIECE = 4 * MB
OPEN, FRAME, WRITTEN, LOST = pumps.OPEN, pumps.FRAME, pumps.WRITTEN, pumps.LOST


class Pumped:
    """A pump with one end of some socket pairs; the test has the other ends."""

    def __init__(self, links: int = 1) -> None:
        self.pump = pumps.Pump(64 * MB)
        self.peers: dict[int, socket.socket] = {}
        self.ours: dict[int, socket.socket] = {}
        self.frames: dict[int, list[Any]] = {}
        self.events: list[tuple[int, int, Any]] = []  # without frames
        for link in range(1, links + 1):
            self.ours[link], self.peers[link] = socket.socketpair()
            self.ours[link].setblocking(False)
            self.peers[link].settimeout(SECONDS)
            self.frames[link] = []
            self.pump.add(link, self.ours[link].fileno(), OPEN)

    def run(self, timeout: float = 0.0) -> None:
        for kind, link, payload in self.pump.run(timeout):
            if kind == FRAME:
                self.frames[link].append(payload)
            else:
                self.events.append((kind, link, payload))

    def until(self, predicate: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not predicate():
            assert time.monotonic() < deadline
            self.run(0.05)

    def take(self, link: int = 1) -> Any:
        """The next frame."""
        self.until(lambda: self.frames[link])
        return self.frames[link].pop(0)

    def send(self, *bodies: bytes, link: int = 1) -> None:
        """From the peer, on a thread of its own: a socket holds less than a large frame."""
        in_thread(lambda: self.peers[link].sendall(framed(*bodies)))

    def get(self, body: bytes, link: int = 1) -> Any:
        """The frame with this body, which the peer sends."""
        self.send(body, link=link)
        return self.take(link)

    def end(self) -> None:
        self.pump.shut()
        self.pump.waker.close()
        for sock in [*self.ours.values(), *self.peers.values()]:
            sock.close()


def is_held(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return True
    del buffer[-1]
    return False
