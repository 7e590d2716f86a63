"""How TLS connections end: in the handshake, in any state, and in a forked child. Nothing stays behind.

What ends after the handshake, at any byte, is tested for every transport in test_transport_ends.
"""

from __future__ import annotations

import contextlib
import socket
import warnings
from collections.abc import Iterator
from random import Random

import pytest

from tests.net.net_helpers import until

pytest.importorskip("trustme")

from pykafka4.net.secure import SESSIONS
from tests.net.connection_ends import LARGE, TIMES, Footprint, flat, listening, nothing_is_held, shaken
from tests.net.proxy_servers import Server
from tests.net.tls_peers import AUTHORITY, context
from tests.net.tls_refusals import hello
from tests.net.transport_driver import CONNECTED, FRAME, LOST, TLS, Driver


class Greeter(Server):
    """It closes a connection when the client does."""

    def __init__(self) -> None:
        self.context = context(AUTHORITY.server())
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        with self.context.wrap_socket(connection, server_side=True) as encrypted:
            hello(encrypted)
            encrypted.recv(1)

    close = Server.stop


@pytest.fixture
def driver() -> Iterator[Driver]:
    it = Driver(TLS)
    yield it
    it.transport.shut()


def test_handshakes_that_are_cut_anywhere_leave_nothing_behind(driver: Driver) -> None:
    """By the server, by this side, and by bytes that are no handshake."""
    random, began = Random(5), None
    with listening() as listener, warnings.catch_warnings():
        warnings.simplefilter("error")
        port = listener.getsockname()[1]
        for n in range(TIMES // 2):
            if n == TIMES // 10:
                began = Footprint()
            driver.transport.connect(n, "127.0.0.1", port)
            if n % 5 == 0:  # while the certificates are read
                driver.transport.close(n)
                continue
            until(lambda: (driver.step(0.001), driver.sockets)[1])
            with listener.accept()[0] as raw:
                if n % 3 == 0:
                    driver.step(0.0)
                    driver.transport.close(n)
                    driver.events.clear()
                    assert not driver.step(0.0)
                    continue
                if n % 3 == 1:
                    raw.sendall(b"\x16\x03\x03" + random.randbytes(random.randrange(200)))
                else:
                    raw = shaken(driver, raw, turns=n % 2)
                raw.close()
                (reason,) = driver.until(LOST, link=n)
            assert not [event for event in driver.events if event.kind is CONNECTED] or n % 3 == 2
            assert str(reason).startswith(f"127.0.0.1:{port}: ")
            driver.events.clear()
    until(lambda: (driver.step(0.001), not driver.transport._is_asking)[1])
    flat(began, driver)
    assert len(driver.sessions.kept) <= SESSIONS


def test_a_thousand_connections_leave_no_memory_behind(driver: Driver) -> None:
    began = None
    with contextlib.closing(Greeter()) as server:
        for n in range(TIMES + 100):
            if n == 100:
                began = Footprint()
            driver.connect(server.port, n)
            driver.until(FRAME, link=n)
            driver.transport.close(n)
            driver.events.clear()
        ended = Footprint()
    assert began is not None
    assert ended.descriptors <= began.descriptors + 2, "the last ones of the server"
    assert ended.resident <= began.resident + TIMES * 4_500


def test_shutting_down_in_any_state_closes_everything() -> None:
    """Preparing, dialling, in the handshake, open, with unread bytes."""
    before = Footprint()
    it = Driver(TLS)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        port = listener.getsockname()[1]
        it.transport.connect(1, "127.0.0.1", port)
        until(lambda: (it.step(0.001), it.sockets)[1])
        peer = stack.enter_context(shaken(it, listener.accept()[0]))
        it.until(CONNECTED)
        peer.sendall(LARGE[:1000])
        it.transport.connect(2, "127.0.0.1", port)
        until(lambda: (it.step(0.001), 2 in it.sockets)[1])
        stack.enter_context(listener.accept()[0])
        assert it.shaking
        it.transport.connect(3, "127.0.0.1", port)
        until(lambda: it.inbox)
        it.inbox.run(0.0)
        it.transport.connect(4, "127.0.0.1", port)
        it.transport.shut()
        until(lambda: it.inbox)
        it.inbox.run(0.0)  # the certificates of the last one arrive after the end
        nothing_is_held(it)
    until(lambda: Footprint().descriptors <= before.descriptors)
