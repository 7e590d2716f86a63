"""Connections that end. What both sides of one do, and what a process needs after thousands of them.

`TIMES` connections are 1,000, with PYKAFKA4_FUZZ (`make fuzz`) 10,000.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykafka4.errors import ConnectionLost
from pykafka4.net.handoff.workers import HELPERS
from tests.net.net_helpers import SECONDS, until
from tests.net.transport_driver import CONNECTED, FRAME, LOST, WRITTEN, Driver, framed, tls_peers

TIMES = 10_000 if os.environ.get("PYKAFKA4_FUZZ") else 1000  # connections
SANITIZED = bool(os.environ.get("PYKAFKA4_SANITIZED"))  # freed memory is kept for a while, to notice who uses it
BODIES = b"one", b"", b"three"
STREAM = framed(*BODIES)
LARGE = framed(b"x" * 300_000)
MEMORY = 6 << 20  # bytes that a run may seem to need more than before; each lost frame of LARGE would be 300,000


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0" if sys.platform == "linux" else "127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        yield listener


class Footprint:
    """What this process uses: memory, descriptors, threads."""

    def __init__(self) -> None:
        gc.collect()
        statm, descriptors = Path("/proc/self/statm"), Path("/proc/self/fd")
        measurable = statm.exists() and not SANITIZED
        self.resident = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if measurable else 0
        self.blocks = sys.getallocatedblocks()
        self.descriptors = len(list(descriptors.iterdir())) if descriptors.exists() else 0
        self.threads = threading.active_count()


def lost_after(driver: Driver, link: int) -> tuple[list[bytes], str]:
    """(frames, reason) of a connection that ends. Its events are in order, and forgotten afterwards."""
    (reason,) = driver.until(LOST, link=link)
    assert isinstance(reason, ConnectionLost)
    kinds = [event.kind for event in driver.events if event.link == link and event.kind is not WRITTEN]
    frames = [bytes(event.payload) for event in driver.events if event.kind is FRAME]
    assert kinds == [CONNECTED, *[FRAME] * len(frames), LOST]
    assert driver.events[-1].kind is LOST
    driver.events.clear()
    return frames, str(reason)


def whole_frames(cut: int) -> list[bytes]:
    """The frames that are complete in the first `cut` bytes of STREAM."""
    return [body for n, body in enumerate(BODIES) if len(framed(*BODIES[: n + 1])) <= cut]


def flat(began: Footprint | None, driver: Driver) -> None:
    """It needs no more than it did then, and the transport holds nothing."""
    assert began is not None
    ended = Footprint()
    assert ended.threads <= began.threads + (HELPERS if driver.wrap else 0), "those that read certificates come and go"
    assert ended.descriptors <= began.descriptors
    assert ended.blocks < began.blocks + 2000
    assert ended.resident < began.resident + MEMORY
    nothing_is_held(driver)


def nothing_is_held(driver: Driver) -> None:
    names = ("_sockets", "_preparing", "_prepared", "_shaking", "_unread", "_overdue")  # all but the first are those of TLS
    assert not [name for name in names if getattr(driver.transport, name, None)]


@contextlib.contextmanager
def opened(driver: Driver, listener: socket.socket, link: int, host: str = "127.0.0.1") -> Iterator[Any]:
    """The server's end of a new connection."""
    driver.transport.connect(link, host, listener.getsockname()[1])
    if driver.wrap:
        until(lambda: (driver.step(0.001), driver.sockets)[1])
    with listener.accept()[0] as raw, shaken(driver, raw) if driver.wrap else contextlib.nullcontext(raw) as peer:
        driver.until(CONNECTED, link=link)
        yield peer


def shaken(driver: Driver, raw: socket.socket, turns: int | None = None) -> ssl.SSLSocket:
    """The server's end after its handshake, or after as many turns of it; both ends are moved by this thread."""
    peer = tls_peers.right().wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
    peer.setblocking(False)
    turn = 0
    while turns is None or turn < turns:
        try:
            peer.do_handshake()
            break
        except ssl.SSLWantReadError:
            driver.step(0.001)
            turn += 1
            assert turn < 10_000
    peer.setblocking(True)
    peer.settimeout(SECONDS)
    return peer
