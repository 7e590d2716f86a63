"""How TLS connections end: in the handshake, in any state, and in a forked child. Nothing stays behind.

What ends after the handshake, at any byte, is tested for every transport in test_transport_ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from collections.abc import Iterator
from random import Random

import pytest

from tests.net.net_helpers import python, until

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
            until(lambda: (driver.step(0.001), driver.transport._sockets)[1])
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
    assert len(driver.transport._sessions._kept) <= SESSIONS


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
        until(lambda: (it.step(0.001), it.transport._sockets)[1])
        peer = stack.enter_context(shaken(it, listener.accept()[0]))
        it.until(CONNECTED)
        peer.sendall(LARGE[:1000])
        it.transport.connect(2, "127.0.0.1", port)
        until(lambda: (it.step(0.001), 2 in it.transport._sockets)[1])
        stack.enter_context(listener.accept()[0])
        assert it.transport._shaking
        it.transport.connect(3, "127.0.0.1", port)
        until(lambda: it.inbox)
        it.inbox.run(0.0)
        it.transport.connect(4, "127.0.0.1", port)
        it.transport.shut()
        until(lambda: it.inbox)
        it.inbox.run(0.0)  # the certificates of the last one arrive after the end
        nothing_is_held(it)
    until(lambda: Footprint().descriptors <= before.descriptors)


FORK = """
import gc, os, signal, socket, sys, threading, warnings
sys.path[:0] = ["."]
warnings.simplefilter("ignore", DeprecationWarning)
from tests.net.connection_ends import shaken
from tests.net.transport_driver import *
driver = Driver("tls")
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
driver.transport.connect(1, "127.0.0.1", port)
while not driver.transport._sockets:
    driver.step(0.001)
peer = shaken(driver, listener.accept()[0])
driver.until(CONNECTED)
out = b"".join(b"%09d " % n for n in range(800_000))
incoming = b"i" * 300_000
peer.sendall(framed(b"whole", incoming)[:150_000])
driver.transport.write(1, [out], True)
driver.until(FRAME)
driver.transport.connect(2, "127.0.0.1", port)
while 2 not in driver.transport._sockets:  # in the handshake
    driver.step(0.001)
half = listener.accept()[0]
sys.stdout.flush()
pid = os.fork()
if not pid:
    signal.alarm(60)
    links = [driver.socket_of(1), driver.socket_of(2)]
    driver.transport.abandon()
    assert [link.fileno() for link in links] == [-1, -1] and driver.transport.wakeup.fileno() == -1
    if sys.platform == "linux":
        left = [os.readlink(entry) for entry in map("/proc/self/fd/{}".format, os.listdir("/proc/self/fd")) if os.path.exists(entry)]
        assert not [name for name in left if "event" in name], left
        assert len([name for name in left if "socket" in name]) == 3, left  # the listener and two peers
    del driver, links
    gc.collect()
    sys.exit(7)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
got = bytearray()
def drain():
    while len(got) < len(out):
        got.extend(peer.recv(1 << 20))
thread = threading.Thread(target=drain, daemon=True)
thread.start()
while len(got) < len(out):
    driver.step(0.01)
thread.join(60)
peer.sendall(framed(b"whole", incoming)[150_000:] + framed(b"after"))
whole, large, after = driver.until(FRAME, 3)
driver.until(WRITTEN)
assert bytes(got) == out and bytes(large) == incoming and bytes(after) == b"after"
half = shaken(driver, half)
driver.until(CONNECTED, link=2)
driver.transport.shut()
for sock in (peer, half, listener):
    sock.close()
print("the parent goes on")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_abandons_its_copy_and_the_parent_goes_on() -> None:
    """In the middle of a frame, of a buffer, and of a handshake. The child must not end the parent's sessions with a notice."""
    done = python(FORK)
    assert done.stdout == "the parent goes on\n", done.stderr
