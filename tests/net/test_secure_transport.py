"""TLS on a connection: CONNECTED comes after the handshake, what else may answer, sessions, certificates that are read again.

What every transport must do is tested in test_transport, over TLS, too.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.net.connection_ends import nothing_is_held
from tests.net.net_helpers import SECONDS, serving, until

pytest.importorskip("trustme")

from pykafka4.errors import AuthenticationError, ConfigError
from pykafka4.net import secure
from pykafka4.net.handoff.wakeup import Inbox
from pykafka4.net.portable import FIRST_PIECE_BYTES, PortableTransport
from pykafka4.net.secure import Sessions
from pykafka4.net.tls import Contexts
from pykafka4.net.transports import open_contexts, open_transport
from pykafka4.options.security import SecurityConfig
from tests.net.tls_peers import AUTHORITY, config, context, wrap, wrapping
from tests.net.tls_refusals import hello, lost, refused
from tests.net.transport_driver import CONNECTED, FRAME, LOST, Driver, framed

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
Answer = Callable[[Any], object]


@pytest.fixture
def driver(opened: Callable[..., Driver]) -> Driver:
    return opened()


# -- the handshake


@pytest.mark.parametrize("version", [V12, V13])
def test_a_frame_goes_each_way(driver: Driver, version: ssl.TLSVersion) -> None:
    def echo(connection: Any) -> None:
        assert connection.version() == {V12: "TLSv1.2", V13: "TLSv1.3"}[version]
        while data := connection.recv(1000):
            connection.sendall(data)

    with serving(echo, wrapping(context(AUTHORITY.server(), version=version))) as port:
        driver.connect(port)
        driver.transport.write(1, [framed(b"there"), framed(b"and back")], False)
        assert [bytes(frame) for frame in driver.until(FRAME, 2)] == [b"there", b"and back"]


def test_connected_is_reported_after_the_handshake(driver: Driver) -> None:
    begin = threading.Event()

    def late(connection: socket.socket) -> socket.socket:
        begin.wait(SECONDS)
        return wrap(connection)

    with serving(hello, late) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        for _ in range(20):
            driver.step(0.01)
        assert driver.sockets, "it is connected, but not yet sure to whom"
        assert not driver.events
        begin.set()
        driver.until(FRAME)
        assert [event.kind for event in driver.events] == [CONNECTED, FRAME]


@pytest.mark.parametrize("version", [V12, V13])
def test_a_handshake_may_come_byte_by_byte(driver: Driver, version: ssl.TLSVersion) -> None:
    """Through a pipe that passes on one byte at a time."""
    made = context(AUTHORITY.server(), version=version)

    def drip(connection: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = made.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                server.do_handshake()
                server.write(framed(b"hello"))
                done = True
            except ssl.SSLWantReadError:
                done = False
            for byte in outgoing.read():
                connection.sendall(bytes([byte]))
            if done:
                break
            incoming.write(connection.recv(1))
        connection.recv(1000)

    with serving(drip) as port:
        driver.connect(port)
        assert bytes(driver.until(FRAME)[0]) == b"hello"


def test_a_server_that_says_nothing_costs_nothing(driver: Driver) -> None:
    """The core gives it up after the setup timeout."""
    with serving(lambda connection: connection.recv(1 << 20) and threading.Event().wait(1)) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        until(lambda: (driver.step(0.01), driver.sockets)[1])
        began = time.process_time()
        for _ in range(5):
            driver.step(0.02)
        assert time.process_time() - began < 0.08, "it spins"
        assert not driver.events
        driver.transport.close(1)
        assert not driver.shaking
        assert not driver.step(0.0)


def test_closing_before_the_end_of_the_handshake_is_silent(driver: Driver) -> None:
    with serving(hello, wrap) as port:
        for turns in range(6):
            driver.transport.connect(turns, "127.0.0.1", port)
            for _ in range(turns):
                driver.step(0.005)
            driver.transport.close(turns)
            driver.events.clear()
            for _ in range(3):
                assert not driver.step(0.005)
    nothing_is_held(driver)


# -- what answers instead of a broker with TLS

GARBAGE = bytes(range(128, 256)) * 512


def plain(data: bytes, begin: threading.Event | None = None) -> Answer:
    """Sends `data`, once `begin` is set."""

    def answer(connection: socket.socket) -> None:
        if begin is not None:
            begin.wait(SECONDS)
        connection.sendall(data)
        while connection.recv(1 << 16):
            pass

    return answer


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer speaks HTTP, not Kafka; is the port right?"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer speaks SSH"),
        (b"220 mail.example ESMTP\r\n", "the peer speaks SMTP or FTP"),
        (framed(b"\0\0\0\1\0\0\0\0\0\0"), "it does not speak TLS: use its TLS port, or a security_protocol without SSL"),
        (GARBAGE, "it does not speak TLS"),
        (
            b"\x15\x03\x03\x00\x02\x02\x28",
            "SSLV3_ALERT_HANDSHAKE_FAILURE (the client and the broker have no TLS version or cipher in common",
        ),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLSV1_ALERT_PROTOCOL_VERSION (the client and the broker have no TLS version"),
        (b"\x15\x03\x03\x00\x02\x02\x31", "TLSV1_ALERT_ACCESS_DENIED (the broker does not admit this client's certificate)"),
    ],
    ids=["HTTP", "SSH", "SMTP", "Kafka", "garbage", "no-cipher", "version", "denied"],
)
def test_what_does_not_speak_tls_is_named(driver: Driver, data: bytes, text: str) -> None:
    begin = threading.Event()
    with serving(plain(data, begin)) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        until(lambda: (driver.step(0.005), driver.sockets)[1])  # the client has sent what it sends first
        begin.set()
        (reason,) = driver.until(LOST)
    assert isinstance(reason, AuthenticationError)
    assert reason.certain
    assert isinstance(reason.__cause__, ssl.SSLError)
    assert str(reason).startswith(f"127.0.0.1:{port}: TLS handshake failed: {text}")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"SSH-2.0-dropbear\r\n", "the peer speaks SSH, not Kafka; is the port right?"),
        (b"SSH-1.99-Cisco-1.25\r\n", "the peer speaks SSH"),
        (b"220 mail.example ESMTP Postfix\r\n", "the peer speaks SMTP"),
        (b"220 (vsFTPd 3.0.5)\r\n", "FTP, not Kafka; is the port right?"),
        (b"* OK [CAPABILITY IMAP4rev1] ready\r\n", "the peer speaks IMAP"),
        (b"HTTP/1.0 503 Service Unavailable\r\n", "the peer speaks HTTP"),
        (GARBAGE, "it does not speak TLS"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["OpenSSL", "peek"])
def test_what_comes_unasked_is_named_whoever_reads_it_first(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, data: bytes, text: str, is_first: bool
) -> None:
    """It may arrive between the look at the socket and OpenSSL's."""
    if is_first:
        monkeypatch.setattr(secure, "HEARD_BYTES", 0)
    with serving(plain(data)) as port:
        refused(driver, port, text)


def test_what_comes_in_pieces_is_not_taken_for_tls(driver: Driver) -> None:
    def slowly(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"SSH-2.0-OpenSSH\r\n":  # unasked
            connection.sendall(bytes([byte]))
            threading.Event().wait(0.005)
        connection.recv(1 << 16)

    with serving(slowly) as port:
        refused(driver, port, "TLS handshake failed: ")


@pytest.mark.parametrize("description", [80, 0, 10], ids=["internal-error", "close-notify", "unexpected-message"])
def test_an_alert_that_says_nothing_of_the_client_is_a_guess(driver: Driver, description: int) -> None:
    with serving(plain(b"\x15\x03\x03\x00\x02\x02" + bytes([description]))) as port:
        refused(driver, port, "handshake", certain=False)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_an_end_during_the_handshake_is_a_guess(driver: Driver, reset: bool) -> None:
    """So ends a PLAINTEXT listener of Kafka: it takes the first bytes for the size of a request that is too large."""

    def end(connection: socket.socket) -> None:
        connection.recv(1) if reset else connection.recv(1 << 16)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with serving(end) as port:
        text = "the broker closed the connection during the TLS handshake; perhaps it does not speak TLS: use its TLS port"
        refused(driver, port, text, certain=False, cause=OSError)


def test_endless_garbage_takes_neither_time_nor_memory(driver: Driver) -> None:
    sent = [0]

    def endless(head: bytes) -> Answer:
        def answer(connection: socket.socket) -> None:
            connection.sendall(head)
            while True:
                sent[0] += connection.send(GARBAGE)

        return answer

    # Another protocol; then records of the right version, too long ones and ones of a handshake that never ends.
    for link, head in enumerate((b"", b"\x16\x03\x03\xff\xff", b"\x16\x03\x03\x40\x00\x02\xff\xff\xff"), 1):
        with serving(endless(head)) as port:
            tracemalloc.start()
            try:
                assert isinstance(lost(driver, port, link=link), AuthenticationError)
                assert tracemalloc.get_traced_memory()[1] < 1 << 20
            finally:
                tracemalloc.stop()
    assert sent[0] < 64 << 20


# -- sessions


@pytest.mark.parametrize("version", [V12, V13])
def test_the_next_connection_resumes_the_session_until_the_files_change(
    opened: Callable[..., Driver], tmp_path: Path, version: ssl.TLSVersion
) -> None:
    reused: list[bool] = []
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(AUTHORITY.pem)
    driver = opened(ssl_cafile=str(authorities))
    made = context(AUTHORITY.server(), version=version)

    def answer(connection: Any) -> None:
        reused.append(connection.session_reused)
        hello(connection)

    with serving(answer, wrapping(made)) as port:

        def again(link: int) -> bool:
            driver.connect(port, link)
            driver.until(FRAME, link=link)
            driver.transport.close(link)
            return reused[-1]

        assert [again(link) for link in range(4)] == [False, True, True, True]
        authorities.write_bytes(AUTHORITY.pem + b"\n")
        assert [again(link) for link in range(4, 7)] == [False, True, True]


def test_a_server_that_forgot_the_session_is_connected_to_all_the_same(driver: Driver) -> None:
    for link in range(3):
        with serving(hello, wrapping(context(AUTHORITY.server()))) as port:
            kept = list(driver.sessions.kept.values())
            driver.sessions.kept = dict.fromkeys([("127.0.0.1", port)], kept[0]) if kept else {}
            driver.connect(port, link)
            driver.until(FRAME, link=link)
            driver.transport.close(link)
            assert driver.sessions.kept


def test_a_session_is_forgotten_when_a_handshake_fails(driver: Driver) -> None:
    with driver.serving(hello) as port:
        driver.connect(port)
        driver.until(FRAME)
        driver.transport.close(1)
    assert driver.sessions.kept
    sessions = driver.sessions
    with serving(plain(GARBAGE)) as port:
        sessions.kept = {("127.0.0.1", port): next(iter(sessions.kept.values()))}
        lost(driver, port, link=2)
    assert not sessions.kept


class Session:
    def __init__(self, ticket: bool, number: bytes = b"") -> None:
        self.has_ticket, self.id = ticket, number


def test_sessions_are_bounded_and_belong_to_one_context() -> None:
    sessions, old, new = Sessions(), object(), object()
    assert sessions.of(old, ("k", 1)) is None  # type: ignore[arg-type]
    for n in range(1000):
        sessions.keep(old, ("k", n), Session(True))  # type: ignore[arg-type]
        if n == 800:
            sessions.keep(old, ("k", 700), Session(False, b"1"))  # type: ignore[arg-type]
    assert len(sessions.kept) == 256
    assert set(sessions.kept) == {("k", 700), *(("k", n) for n in range(745, 1000))}, "those that were not used for longest are gone"
    kept = sessions.of(old, ("k", 999))  # type: ignore[arg-type]
    for useless in (None, Session(False)):
        sessions.keep(old, ("k", 999), useless)  # type: ignore[arg-type]
    assert sessions.of(old, ("k", 999)) is kept  # type: ignore[arg-type]
    assert sessions.of(new, ("k", 999)) is None  # type: ignore[arg-type]
    assert not sessions.kept
    sessions.keep(old, ("k", 1), Session(True))  # type: ignore[arg-type]
    assert not sessions.kept, "of a connection from before"


# -- certificates that are read again


class Scripted:
    """Stands in for `Contexts`."""

    def __init__(self, real: Contexts) -> None:
        self.real, self.calls, self.release = real, 0, threading.Event()
        self.error: Exception | None = None

    def current(self) -> ssl.SSLContext:
        self.calls += 1
        self.release.wait(SECONDS)
        if self.error is not None:
            raise self.error
        return self.real.current()


@pytest.fixture
def scripted(driver: Driver) -> Scripted:
    script = driver.transport._contexts = Scripted(driver.transport._contexts)
    return script


def test_the_loop_never_waits_for_certificates_and_asks_once_for_all(driver: Driver, scripted: Scripted) -> None:
    """A callable for the password may hang: then one helper thread does, and the connections that are given up meanwhile cost nothing."""
    with driver.serving(hello) as port:
        began = time.monotonic()
        for link in range(50):
            driver.transport.connect(link, "127.0.0.1", port)
            if link % 2:
                driver.transport.close(link)
        driver.step(0.05)
        while not scripted.calls and time.monotonic() - began < SECONDS / 4:  # until the helper thread has begun
            driver.step(0.05)
        assert time.monotonic() - began < SECONDS / 4
        assert scripted.calls == 1
        driver.transport.close(0)
        scripted.release.set()
        for link in range(2, 50, 2):
            driver.until(CONNECTED, link=link)
    assert scripted.calls == 2, "for the first, and for all that came meanwhile"
    assert not [event for event in driver.events if event.link % 2 or event.link == 0]


@pytest.mark.parametrize(
    ("error", "text"),
    [(ConfigError("what is wrong"), "what is wrong"), (MemoryError("perhaps a secret"), f"MemoryError ({__file__}, line ")],
    ids=["ours", "another"],
)
def test_certificates_that_cannot_be_used_end_in_an_event(driver: Driver, scripted: Scripted, error: Exception, text: str) -> None:
    scripted.error = error
    scripted.release.set()
    driver.transport.connect(1, "kafka.invalid", 9092)
    (reason,) = driver.until(LOST)
    assert isinstance(reason, AuthenticationError)
    assert str(reason).startswith(f"kafka.invalid:9092: the certificates cannot be used: {text}")
    assert "perhaps" not in str(reason)
    assert reason.__cause__ is reason.__context__ is None


def test_no_event_follows_close_even_if_it_was_there(driver: Driver, scripted: Scripted) -> None:
    scripted.error = ConfigError("wrong")
    scripted.release.set()
    driver.transport.connect(1, "127.0.0.1", 1)
    deadline = time.monotonic() + SECONDS
    while not driver.transport._events:
        driver.inbox.run(0.0)
        assert time.monotonic() < deadline
    driver.transport.close(1)
    assert not driver.step(0.0)


def test_a_dial_that_fails_leaves_nothing(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for link in range(10):
        assert str(lost(driver, port, link=link)) == f"127.0.0.1:{port}: connection refused"
    assert not driver.transport._prepared


# -- a peer that is gone before the handshake


@pytest.mark.parametrize("data", [b"", b"early"])
def test_a_peer_that_is_gone_before_the_handshake_leaves_nothing(driver: Driver, data: bytes) -> None:
    """`wrap_socket` raises then, and would leave the socket to the garbage collector."""
    with socket.create_server(("127.0.0.1", 0)) as listener, warnings.catch_warnings():
        warnings.simplefilter("error")
        driver.transport.connect(1, *listener.getsockname())
        take, gone = driver.transport._opened, []

        def late(dialled: Any) -> None:
            peer = listener.accept()[0]
            peer.sendall(data)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            gone.append(dialled.sock)
            until(lambda: is_reset(dialled.sock))
            take(dialled)

        driver.transport._opened = late
        (reason,) = driver.until(LOST)
    assert isinstance(reason, AuthenticationError)
    assert not reason.certain
    assert gone[0].fileno() == -1
    assert not driver.sockets


def is_reset(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return True
    return False


# -- the choice


def test_tls_has_its_transport_only_if_the_options_ask_for_it() -> None:
    inbox = Inbox()
    assert open_contexts(SecurityConfig(), "c") is None
    assert (
        open_contexts(
            SecurityConfig(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_username="u", sasl_password="p"), "c"
        )
        is None
    )
    contexts = open_contexts(config(), "c")
    assert contexts is not None
    for given, name in ((None, None), (contexts, "SecureTransport")):
        transport = open_transport(FIRST_PIECE_BYTES, None, inbox.post, given)  # type: ignore[arg-type]
        assert (type(transport).__name__ == "SecureTransport") is (name is not None)
        transport.shut()
    assert issubclass(type(transport), PortableTransport)
