"""TLS and bytes: what OpenSSL keeps is read without a new event, each direction may need the other, and the end is noticed.

What every transport must do is tested in test_transport, over TLS, too.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.net.net_helpers import SECONDS, in_thread, serving, until

pytest.importorskip("trustme")

from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.net import portable, secure
from pykafka4.net.portable import READ, TURN_BYTES, WRITE
from pykafka4.net.secure import HELD_BYTES, TLS_RECORD, _next_piece
from tests.net.tls_peers import AUTHORITY, context, right, wrapping
from tests.net.transport_driver import CONNECTED, FRAME, LOST, TLS, WRITTEN, Driver, framed

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def driver() -> Iterator[Driver]:
    it = Driver(TLS)
    yield it
    it.transport.shut()


class Proxy:
    """A socket in which some calls do as the test says."""

    def __init__(self, sock: Any, **calls: Any) -> None:
        self._sock = sock
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def once(error: Exception, then: Any) -> Any:
    """A call that raises the first time."""
    errors = [error]

    def call(*arguments: Any) -> Any:
        if errors:
            raise errors.pop()
        return then(*arguments)

    return call


# -- reading


def test_what_openssl_has_read_already_is_read_without_a_new_event(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record of 16 KiB, read in small steps: after the first one the socket is empty, and no selector reports it again."""
    monkeypatch.setattr(secure, "TURN_BYTES", 1000)
    bodies = [b"%03d" % n * 300 for n in range(17)]
    with driver.serving(lambda c: (c.sendall(framed(*bodies)), c.recv(1))) as port:
        driver.connect(port)
        driver.transport._scratch = bytearray(1500)
        driver.transport._scratch_view = memoryview(driver.transport._scratch)
        until(lambda: driver.step(0.1), "the first turn with data")
        while driver.unread:
            began = time.monotonic()
            events = driver.step(SECONDS)
            assert time.monotonic() - began < SECONDS / 2, "it waits although there is more"
            assert sum(len(event.payload) for event in events) <= 3000, "more than a turn may read"
        assert [bytes(frame) for frame in driver.until(FRAME, len(bodies))] == bodies


def test_a_large_response_in_one_burst_arrives_although_nothing_follows(driver: Driver) -> None:
    body = Random(3).randbytes(3 * TURN_BYTES + 5)
    with driver.serving(lambda c: (c.sendall(framed(body)), c.recv(1))) as port:
        driver.connect(port)
        assert bytes(driver.until(FRAME)[0]) == body
    assert not driver.transport._overdue


def test_a_turn_reads_no_more_than_its_budget(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is overdue and what the selector reports are one turn."""
    monkeypatch.setattr(secure, "TURN_BYTES", 100_000)
    count = 100
    with driver.serving(lambda c: (c.sendall(framed(bytes(10_000)) * count), c.recv(1))) as port:
        driver.connect(port)
        until(lambda: not driver.socket_of(1).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        while len([event for event in driver.events if event.kind is FRAME]) < count:
            assert sum(len(event.payload) for event in driver.step() if event.kind is FRAME) <= 100_000 + 2 * TLS_RECORD


def test_a_link_that_is_closed_with_unread_bytes_is_not_read_again(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure, "TURN_BYTES", 1000)
    with driver.serving(lambda c: (c.sendall(framed(bytes(500)) * 100), c.recv(1))) as port:
        driver.connect(port)
        until(lambda: (driver.step(0.1), driver.unread)[1])
        driver.transport.close(1)
        assert not driver.step(0.0)
        assert not driver.unread


def test_a_large_frame_is_read_into_its_own_buffer(driver: Driver) -> None:
    """Not through another one: each byte is moved once, by OpenSSL."""
    rooms = []
    size = portable.FIRST_PIECE_BYTES // 2
    with driver.serving(lambda c: (c.recv(1), c.sendall(framed(bytes(size))), c.recv(1))) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock = s.sock

        def recv_into(buffer: Any) -> int:
            rooms.append((isinstance(buffer, memoryview), len(buffer)))
            return int(sock.recv_into(buffer))

        s.sock = Proxy(sock, recv_into=recv_into)
        driver.transport.write(1, [b"."], False)
        driver.until(FRAME)
        s.sock = sock
    through_scratch = [room for is_own, room in rooms if not is_own]
    assert len(rooms) > 100
    assert len(through_scratch) < 20, "the first record, and attempts to read more"


# -- waiting for more


class Parts:
    """A server that sends parts of its stream, each when the test allows it; the sizes of what the transport has read since."""

    def __init__(self, driver: Driver, *parts: bytes) -> None:
        self.driver, self.parts, self.go = driver, parts, threading.Semaphore(0)
        self.rooms: list[int] = []

    def __call__(self, connection: Any) -> None:
        for part in self.parts:
            self.go.acquire(timeout=SECONDS)
            connection.sendall(part)
        connection.recv(1)

    def next(self) -> None:
        """Let one more part come."""
        self.go.release()

    def watch(self, then: Any = lambda: None) -> None:
        """Note each read that got something, and call `then`."""
        s = self.driver.sockets[1]
        sock = s.sock

        def recv_into(buffer: Any) -> int:
            got = int(sock.recv_into(buffer))
            self.rooms.append(got)
            then()
            return got

        s.sock = Proxy(sock, recv_into=recv_into)

    def least(self) -> int:
        return int(self.driver.socket_of(1).getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))


def test_a_wait_does_not_end_with_a_part_of_a_frame(driver: Driver) -> None:
    stream = framed(bytes(1000))
    parts = Parts(driver, stream[:500], stream[500:])
    with driver.serving(parts) as port:
        driver.connect(port)
        parts.watch(parts.next)  # the second part comes when the first one has been read
        parts.next()
        driver.transport.wakeup.asleep = True
        assert [event.kind for event in driver.step(SECONDS)] == [FRAME]
    assert len(parts.rooms) == 2


def test_a_wait_with_a_part_of_a_frame_is_over_when_its_time_is_or_the_loop_is_woken(driver: Driver) -> None:
    parts = Parts(driver, framed(bytes(1000))[:500])
    with driver.serving(parts) as port:
        driver.connect(port)
        parts.watch(driver.transport.wakeup.wake)
        parts.next()
        driver.transport.wakeup.asleep = True
        began = time.monotonic()
        assert driver.step(SECONDS) == []
        assert time.monotonic() - began < SECONDS / 2
        assert parts.rooms
        driver.transport.wakeup.asleep = True
        assert driver.step(0.01) == []


@pytest.mark.skipif(not secure.WAITS_FOR_MANY, reason="a selector reports every byte here")
def test_a_long_frame_is_waited_for_in_large_parts(driver: Driver) -> None:
    """A piece of 16 KiB is of no use before its end, and a part of it may be with OpenSSL."""
    stream = framed(bytes(400_000))
    cuts = [0, 100_000, 100_001, len(stream) - HELD_BYTES - 500, len(stream) - 1, len(stream)]
    parts = Parts(driver, *(stream[begin:end] for begin, end in itertools.pairwise(cuts)))
    with driver.serving(parts) as port:
        driver.connect(port)
        parts.watch()
        assert parts.least() == 1
        for cut in cuts[1:]:
            parts.next()  # the byte after 100,000 is less than the selector reports: it is read when the longest wait is over
            until(lambda cut=cut: (driver.step(0.01), sum(parts.rooms) == cut)[1])
            missing = len(stream) - cut
            assert parts.least() <= max(1, missing - HELD_BYTES)
            if cut == 100_000:
                size = driver.socket_of(1).getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
                assert TLS_RECORD < parts.least() <= size // 4, "more may not fit into the socket"
        assert [len(frame) for frame in driver.until(FRAME)] == [400_000]
        assert parts.least() == 1


@pytest.mark.skipif(not secure.WAITS_FOR_MANY, reason="a selector reports every byte here")
def test_with_tls_1_2_every_byte_is_reported(driver: Driver) -> None:
    """The server may wait for the answer to a renegotiation before the rest of a frame."""
    parts = Parts(driver, framed(bytes(400_000))[:100_000])
    with serving(parts, wrapping(context(AUTHORITY.server(), version=V12))) as port:
        driver.connect(port)
        parts.watch()
        parts.next()
        until(lambda: (driver.step(0.01), sum(parts.rooms) == 100_000)[1])
        assert parts.least() == 1


def test_the_end_of_a_connection_is_noticed_in_the_middle_of_a_long_frame(driver: Driver) -> None:
    with driver.serving(lambda c: (c.sendall(framed(bytes(400_000))[:100_000]), c.recv(1), c.close())) as port:
        driver.connect(port)
        until(lambda: (driver.step(0.01), driver.sockets[1].filled > 99_000)[1])
        driver.transport.write(1, [b"."], False)
        assert str(driver.until(LOST)[0]).endswith("in the middle of a response")


# -- writing


def test_small_buffers_share_a_record_and_large_ones_are_not_copied() -> None:
    large = b"x" * (TLS_RECORD + 1)
    assert _next_piece(deque([large, b"y"])) is large
    assert _next_piece(deque([b"alone"])) == b"alone"
    assert _next_piece(deque([b"ab"] * 10)) == b"ab" * 10
    assert _next_piece(deque([b"head", large])) == b"head" + large[: TLS_RECORD - 4]
    assert _next_piece(deque([b"a" * TLS_RECORD, b"b"])) == b"a" * TLS_RECORD
    huge = bytearray(TURN_BYTES + 1)
    piece = _next_piece(deque([huge]))
    assert isinstance(piece, memoryview), "not copied"
    assert len(piece) == TURN_BYTES, "no call takes longer than a turn"


def test_many_small_buffers_become_few_records(driver: Driver) -> None:
    sent = []
    with driver.serving(lambda c: [c.recv(1 << 16) for _ in range(100)]) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock = s.sock

        def send(data: Any) -> int:
            sent.append(len(data))
            return int(sock.send(data))

        s.sock = Proxy(sock, send=send)
        assert driver.transport.write(1, [b"ab"] * 20_000, False)
        s.sock = sock
    assert sent == [TLS_RECORD, TLS_RECORD, 40_000 - 2 * TLS_RECORD]


@pytest.mark.parametrize("version", [V12, V13])
def test_a_full_socket_is_written_to_again_with_the_same_bytes_and_more(driver: Driver, version: ssl.TLSVersion) -> None:
    """OpenSSL insists on them; meanwhile more is added behind."""
    random = Random(4)
    begin, got = threading.Event(), bytearray()
    parts = [random.randbytes(random.choice([1, 50, 3000, TLS_RECORD - 1, TLS_RECORD, 100_000])) for _ in range(400)]
    data = b"".join(parts)

    def slow(connection: Any) -> None:
        begin.wait(SECONDS)
        while len(got) < len(data):
            got.extend(connection.recv(random.choice([10, 1000, 100_000])))

    with serving(slow, wrapping(context(AUTHORITY.server(), version=version))) as port:
        driver.connect(port)
        driver.socket_of(1).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        for n, part in enumerate(parts):
            driver.transport.write(1, [part], True)
            if n == 200:
                begin.set()
            driver.step(0.0)
        deadline = time.monotonic() + SECONDS
        while len(got) < len(data):
            driver.step(0.01)
            assert time.monotonic() < deadline
    assert bytes(got) == data
    assert [event.kind for event in driver.events if event.kind is not CONNECTED].count(WRITTEN) >= 1
    assert LOST not in {event.kind for event in driver.events}


def test_a_write_that_needs_a_read_first_is_tried_after_it_and_reported(driver: Driver) -> None:
    """In a renegotiation. There is nothing to be written to the socket, so it must not be waited for as for a full one: that would spin."""
    got: list[bytes] = []
    go = threading.Event()
    made = context(AUTHORITY.server(), version=V12)  # after a handshake of TLS 1.3 something is to be read
    with serving(lambda c: (go.wait(SECONDS), c.sendall(framed(b"x")), got.append(c.recv(10)), c.recv(1)), wrapping(made)) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock = s.sock
        s.sock = Proxy(sock, send=once(ssl.SSLWantReadError(), sock.send))
        assert not driver.transport.write(1, [b"request"], True)
        assert s.events == READ
        assert not driver.step(0.02)
        go.set()
        driver.until(WRITTEN)
        driver.until(FRAME)
        s.sock = sock
        until(lambda: got)
    assert got == [b"request"]
    assert [event.kind for event in driver.events].count(WRITTEN) == 1


def test_a_read_that_needs_a_write_first_is_tried_when_the_socket_takes_it(driver: Driver) -> None:
    """Both sides of a connection that change their keys while the socket is full."""
    with serving(lambda c: (c.sendall(framed(b"x")), c.recv(1)), wrapping(context(AUTHORITY.server(), version=V12))) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock, asked, kept = s.sock, list[int](), list[bytes]()

        def recv_into(buffer: Any) -> int:
            """OpenSSL takes the bytes from the socket, but cannot go on."""
            asked.append(s.events)
            if not kept:
                kept.append(sock.recv(1000))
                raise ssl.SSLWantWriteError
            if len(asked) > 2:
                raise ssl.SSLWantReadError
            buffer[: len(kept[0])] = kept[0]
            return len(kept[0])

        s.sock = Proxy(sock, recv_into=recv_into)
        assert bytes(driver.until(FRAME)[0]) == b"x"
        s.sock = sock
        assert s.events == READ
    assert len(asked) == 3, "with the last one there is nothing more to read"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
@pytest.mark.parametrize(("version", "command"), [("-tls1_3", "K"), ("-tls1_3", "k"), ("-tls1_2", "r"), ("-tls1_2", "R")])
def test_keys_may_change_while_frames_go_both_ways(driver: Driver, tmp_path: Path, version: str, command: str) -> None:
    """K: new keys for both directions; r: a renegotiation (R: that asks for a certificate)."""
    certificate, key = AUTHORITY.server().write(tmp_path, "server")
    arguments = [
        "openssl",
        "s_server",
        "-accept",
        "127.0.0.1:0",
        "-cert",
        str(certificate),
        "-key",
        str(key),
        version,
        "-legacy_renegotiation",
    ]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    output = bytearray()
    assert process.stdin is not None
    assert process.stdout is not None
    source = process.stdout
    reader = in_thread(lambda: [output.extend(piece) for piece in iter(lambda: source.read(1 << 16), b"")])
    try:
        until(lambda: b"ACCEPT 127.0.0.1:" in output and output.split(b"ACCEPT 127.0.0.1:")[1].endswith(b"\n"), "a port")
        driver.connect(int(output.split(b"ACCEPT 127.0.0.1:")[1].split()[0]))
        for n in range(5):
            process.stdin.write(command.encode() + b"\n")
            marker = b"<request %d>" % n
            driver.transport.write(1, [marker, b"." * 50_000, b"<end %d>\n" % n], False)
            deadline = time.monotonic() + SECONDS
            while b"<end %d>" % n not in output:
                driver.step(0.01)
                assert time.monotonic() < deadline, bytes(output[-2000:])
            process.stdin.write(framed(b"response %d\n" % n)[3:].rjust(len(framed(b"response %d\n" % n)), b"\0"))
            assert bytes(driver.until(FRAME, n + 1)[n]) == b"response %d\n" % n
        assert LOST not in {event.kind for event in driver.events}
    finally:
        process.kill()
        process.wait(SECONDS)
        reader.join(SECONDS)
        process.stdin.close()
        source.close()


# -- the end


def notify(connection: Any) -> None:
    with contextlib.suppress(OSError):
        connection.unwrap()
    connection.close()


def ragged(connection: Any) -> None:
    connection.close()


@pytest.mark.parametrize("end", [notify, ragged])
@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize(
    ("data", "text"), [(b"", ""), (b"\0\0\0\x09half", " in the middle of a response"), (b"\0\0", " in the middle of a response")]
)
def test_the_end_is_noticed_with_and_without_a_notice(driver: Driver, end: Any, version: ssl.TLSVersion, data: bytes, text: str) -> None:
    with serving(lambda c: (c.sendall(framed(b"whole") + data), end(c)), wrapping(context(AUTHORITY.server(), version=version))) as port:
        driver.connect(port)
        (reason,) = driver.until(LOST)
        assert str(reason) == f"127.0.0.1:{port}: the broker closed the connection{text}"
    assert type(reason) is ConnectionLost
    assert [bytes(event.payload) for event in driver.events if event.kind is FRAME] == [b"whole"]
    assert [event.kind for event in driver.events] == [CONNECTED, FRAME, LOST]


def test_a_peer_that_only_stops_sending_is_lost(driver: Driver) -> None:
    """Half-open: it would still read, but no response can come any more."""
    with driver.serving(lambda c: (c.shutdown(socket.SHUT_WR), c.recv(1))) as port:
        driver.connect(port)
        assert "the broker closed the connection" in str(driver.until(LOST)[0])


def test_a_reset_is_named_and_what_came_before_is_kept(driver: Driver) -> None:
    """A write notices the reset before the frame has been read."""

    def reset(connection: Any) -> None:
        connection.recv(1)
        connection.sendall(framed(b"last words"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        connection.close()

    with serving(reset, wrapping(context(AUTHORITY.server(), version=V12))) as port:  # with TLS 1.3 there would be more to read
        driver.connect(port)
        driver.transport.write(1, [b"ab"], False)
        s = driver.sockets[1]
        until(lambda: is_readable(s.sock))
        sock = s.sock
        s.sock = Proxy(sock, send=once(BrokenPipeError(32, "Broken pipe"), sock.send))
        driver.transport.write(1, [b"cd"], False)
        s.sock = sock
        (reason,) = driver.until(LOST)
    assert [bytes(event.payload) for event in driver.events if event.kind is FRAME] == [b"last words"]
    assert type(reason) is ConnectionLost
    assert [event.kind for event in driver.events][-1] is LOST


def is_readable(sock: Any) -> bool:
    with contextlib.suppress(OSError):
        return len(socket.socket.recv(sock, 30, socket.MSG_PEEK)) == 30
    return False


def test_a_connection_that_fails_both_ways_is_lost_once(driver: Driver) -> None:
    with driver.serving(lambda c: c.close()) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock = s.sock
        s.sock = Proxy(sock, send=once(BrokenPipeError(32, "Broken pipe"), sock.send), recv_into=once(ConnectionResetError(), None))
        driver.transport.write(1, [b"ab"], False)
        assert [event.kind for event in driver.step(0.0)] == [LOST]


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), TimeoutError(110, "Connection timed out")])
def test_a_write_that_fails_ends_the_connection_with_its_reason(driver: Driver, error: OSError) -> None:
    with driver.serving(lambda c: c.recv(1)) as port:
        driver.connect(port)
        s = driver.sockets[1]
        sock = s.sock
        s.sock = Proxy(sock, send=once(error, sock.send))
        assert not driver.transport.write(1, [b"ab"], True)
        began = time.monotonic()
        (event,) = driver.step(SECONDS)
        assert time.monotonic() - began < SECONDS / 2
    assert (event.kind, str(event.payload)) == (LOST, f"127.0.0.1:{port}: {error.strerror.lower()}")
    assert sock.fileno() == -1


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n", b"\x17\x03\x03\x00\x20" + bytes(32), b"\x15\x03\x03\x00\x02\x02\x50", b"\x16\x03\x03\xff\xff"]
)
@pytest.mark.parametrize("version", [V12, V13])
def test_damage_after_the_handshake_is_a_lost_connection_and_no_refusal(driver: Driver, version: ssl.TLSVersion, data: bytes) -> None:
    """Whoever got through the handshake is a broker; nothing that a network does to its bytes says anything of the client."""

    def damage(connection: Any) -> None:
        connection.recv(1)
        socket.socket.send(connection, data)
        connection.recv(1)

    with serving(damage, wrapping(context(AUTHORITY.server(), version=version))) as port:
        driver.connect(port)
        driver.transport.write(1, [b"."], False)
        (reason,) = driver.until(LOST)
    assert not isinstance(reason, AuthenticationError)
    assert str(reason).startswith(f"127.0.0.1:{port}: TLS: ")
    assert isinstance(reason.__cause__, ssl.SSLError)


def test_a_full_socket_is_watched_for_both_directions(driver: Driver) -> None:
    with driver.serving(lambda c: threading.Event().wait(0.5)) as port:
        driver.connect(port)
        assert not driver.transport.write(1, [bytes(8 << 20)], False)
        assert driver.sockets[1].events == READ | WRITE
    assert right()
