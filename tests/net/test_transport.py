"""Transports: whole frames whatever the network cuts, sizes accepted only up to the limit, errors that name address and cause.

What every transport must do is tested over all of them; what only one can do says so.
"""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.errors import AuthenticationError
from pykafka4.net import portable
from pykafka4.wire.protocol.frame import FrameTooLarge
from tests.net.net_helpers import SECONDS, until
from tests.net.transport_driver import ALL_KINDS, FRAME, LOST, MAX_FRAME, WRITTEN, Driver, framed


@pytest.fixture(params=ALL_KINDS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """TLS, too."""
    it = Driver(request.param)
    yield it
    it.transport.shut()


def hang_up(connection: socket.socket) -> None:
    connection.close()


# -- reading


@pytest.mark.parametrize("kind", ALL_KINDS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(sizes=st.lists(st.sampled_from([0, 1, 3, 4, 5, 1000, 70_000, 300_000]), min_size=1, max_size=8), seed=st.integers(0, 10**6))
def test_frames_arrive_whole_however_they_are_cut(kind: str, sizes: list[int], seed: int) -> None:
    random = Random(seed)
    bodies = [random.randbytes(size) for size in sizes]
    data = framed(*bodies)
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(6)))
    driver = Driver(kind)

    def answer(connection: socket.socket) -> None:
        for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True):
            connection.sendall(data[a:b])
            connection.recv(1)  # the client has read that far

    try:
        with driver.serving(answer) as port:
            driver.connect(port)
            for _ in range(len(cuts) + 1):
                driver.step(0.02)
                driver.transport.write(1, [b"."], False)
            assert [bytes(body) for body in driver.until(FRAME, len(bodies))] == bodies
    finally:
        driver.transport.shut()


def test_a_large_frame_grows_as_its_bytes_come(driver: Driver) -> None:
    body = Random(1).randbytes(portable.FIRST_PIECE_BYTES * 3 + 17)
    with driver.serving(lambda c: c.sendall(framed(b"small", body, b"after"))) as port:
        driver.connect(port)
        small, large, after = driver.until(FRAME, 3)
    assert bytes(small) == b"small"
    assert len(large) == len(body)
    assert bytes(large) == body
    assert bytes(after) == b"after"


def test_a_size_alone_takes_no_memory(driver: Driver) -> None:
    with driver.serving(lambda c: (c.sendall((MAX_FRAME).to_bytes(4, "big") + b"x"), c.recv(1))) as port:
        driver.connect(port)
        tracemalloc.start()
        try:
            for _ in range(5):
                driver.step(0.02)
            assert tracemalloc.get_traced_memory()[1] < 2 * portable.FIRST_PIECE_BYTES
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer speaks HTTP, not Kafka; is the port right?"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer speaks SSH"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", f"a frame of 2147483647 bytes exceeds receive_message_max_bytes={MAX_FRAME}"),
        ((MAX_FRAME + 1).to_bytes(4, "big"), "receive_message_max_bytes"),
    ],
)
def test_what_is_no_kafka_frame_is_refused_and_named(driver: Driver, data: bytes, text: str) -> None:
    with driver.serving(lambda c: (c.sendall(data), c.recv(1))) as port:
        driver.connect(port)
        (reason,) = driver.until(LOST)
    assert text in str(reason)
    assert str(reason).startswith(f"127.0.0.1:{port}: ")


def test_a_broker_that_speaks_tls_refuses_who_does_not(driver: Driver) -> None:
    """Such as the alert of Kafka's TLS port for bytes that are none: what waits for the broker fails soon, as trying again is no use."""
    with driver.serving(lambda c: (c.sendall(b"\x15\x03\x03\x00\x02\x02\x50"), c.recv(1))) as port:
        driver.connect(port)
        (reason,) = driver.until(LOST)
    assert isinstance(reason, AuthenticationError)
    assert reason.certain
    assert str(reason) == f"127.0.0.1:{port}: the broker speaks TLS: set security_protocol to SSL or SASL_SSL"


def test_the_end_of_a_connection_says_whether_an_answer_was_cut(driver: Driver) -> None:
    with driver.serving(hang_up) as port:
        driver.connect(port)
        assert str(driver.until(LOST)[0]) == f"127.0.0.1:{port}: the broker closed the connection"
    with driver.serving(lambda c: (c.sendall(framed(b"whole") + b"\0\0\0\x09half"), c.close())) as port:
        driver.connect(port, link=2)
        reason = driver.until(LOST, link=2)[0]
        assert "in the middle of a response" in str(reason)
        assert bytes(driver.until(FRAME, link=2)[0]) == b"whole"


def test_one_connection_that_floods_does_not_starve_another(driver: Driver) -> None:
    size, count = 1 << 16, 200
    flood = framed(b"x" * size) * count
    with driver.serving(lambda c: c.sendall(flood)) as loud, driver.serving(lambda c: (c.recv(1), c.sendall(framed(b"quiet")))) as quiet:
        driver.connect(loud, link=1)
        driver.connect(quiet, link=2)
        driver.transport.write(2, [b"."], False)
        driver.until(FRAME, link=2)
        most = portable.TURN_BYTES + portable.SCRATCH_BYTES
        while len([event for event in driver.events if event.link == 1 and event.kind is FRAME]) < count:
            assert sum(len(event.payload) for event in driver.step() if event.kind is FRAME) <= most


# -- writing


def reading(into: list[bytes], total: int, begin: threading.Event) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        begin.wait(SECONDS)
        got = 0
        while got < total and (data := connection.recv(1 << 16)):
            into.append(data)
            got += len(data)

    return answer


@pytest.mark.parametrize("gathers", [portable.GATHERS, False], ids=["many-buffers-a-call", "one-buffer-a-call"])
def test_what_does_not_fit_is_kept_in_order_until_it_does(driver: Driver, monkeypatch: pytest.MonkeyPatch, gathers: bool) -> None:
    monkeypatch.setattr(portable, "GATHERS", gathers)
    random = Random(2)
    parts: list[Any] = [random.randbytes(random.choice([0, 1, 100, 500_000])) for _ in range(150)]
    parts += [bytearray(b"array" * 1000), memoryview(b"view" * 1000), b"end"]
    data = b"".join(map(bytes, parts))
    got, begin = list[bytes](), threading.Event()
    with driver.serving(reading(got, len(data), begin)) as port:
        driver.connect(port)
        assert not driver.transport.write(1, parts[:75], False)
        assert not driver.transport.write(1, parts[75:], True)
        assert WRITTEN not in {event.kind for event in driver.step(0)}
        begin.set()
        driver.until(WRITTEN)
        deadline = time.monotonic() + SECONDS
        while sum(map(len, got)) < len(data):
            assert time.monotonic() < deadline
            driver.step(0.01)
    assert b"".join(got) == data


def test_what_fits_is_written_at_once(driver: Driver) -> None:
    got, begin = list[bytes](), threading.Event()
    begin.set()
    with driver.serving(reading(got, 600, begin)) as port:
        driver.connect(port)
        if not driver.transport.write(1, [b"ab"] * 300, True):  # more buffers than one system call takes
            assert WRITTEN in {event.kind for event in driver.step(SECONDS)}
        assert WRITTEN not in {event.kind for event in driver.step(0)}


def test_the_end_of_a_write_is_reported_only_if_somebody_waits_for_it(driver: Driver) -> None:
    with driver.serving(lambda c: c.recv(1)) as port:
        driver.connect(port)
        driver.transport.write(1, [b"ab"], False)
        assert not driver.step(0.05)


def test_writing_to_a_peer_that_is_gone_ends_in_an_event_not_an_exception(driver: Driver) -> None:
    with driver.serving(hang_up) as port:
        driver.connect(port)
        deadline = time.monotonic() + SECONDS
        while not [event for event in driver.events if event.kind is LOST]:
            driver.transport.write(1, [b"x" * 1000], False)
            driver.step(0.01)
            assert time.monotonic() < deadline
    assert not driver.transport.write(1, [b"x"], False)


def test_a_closed_link_produces_no_more_events(driver: Driver) -> None:
    with driver.serving(lambda c: c.sendall(framed(b"late"))) as port:
        driver.connect(port)
        driver.step(0.05)
        driver.events.clear()
        driver.transport.close(1)
        driver.transport.close(1)
        for _ in range(3):
            driver.step(0.01)
    assert not driver.events


def test_events_that_wait_keep_select_from_sleeping() -> None:
    """Only the portable transport has any: a `write` may find out that the connection is lost."""
    driver = Driver("portable")
    with driver.serving(lambda c: c.recv(1)) as port:
        driver.connect(port)
        driver.transport._lose(driver.sockets[1], "gone")
        began = time.monotonic()
        (event,) = driver.transport.select(SECONDS)
        assert (event.kind, event.link, str(event.payload)) == (LOST, 1, f"127.0.0.1:{port}: gone")
        assert time.monotonic() - began < SECONDS / 2
    driver.transport.shut()


def test_a_wake_up_ends_select(driver: Driver) -> None:
    driver.transport.wakeup.asleep = True
    timer = threading.Timer(0.02, driver.transport.wakeup.wake)
    timer.start()
    began = time.monotonic()
    driver.transport.select(SECONDS)
    assert time.monotonic() - began < SECONDS / 2
    timer.join()


def descriptors() -> set[str]:
    """The open descriptors of this process; nothing where the system does not tell."""
    directory = Path("/proc/self/fd")
    return {entry.name for entry in directory.iterdir()} if directory.exists() else set()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_shutting_down_leaves_no_descriptor(kind: str) -> None:
    before = descriptors()
    it = Driver(kind)
    with it.serving(lambda c: c.recv(1)) as port:
        it.connect(port)
        it.transport.connect(2, "127.0.0.1", port)  # still dialling, or reported as connected by the next `select`
        sock = it.socket_of(1)
        it.transport.shut()
        assert sock.fileno() == -1
        assert it.transport.wakeup.fileno() == -1
    until(lambda: descriptors() <= before, "closing all descriptors")


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_turn_takes_no_more_than_so_many_frames(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bytes of a peer must not become hundreds of this process without an end."""
    once = 32_768  # bytes that are read at once, as the pump does
    monkeypatch.setattr(portable, "SCRATCH_BYTES", once)
    it = Driver(kind)
    with it.serving(lambda connection: (connection.recv(1), connection.sendall(framed(b"") * (2 << 20)))) as port:
        it.connect(port)
        sock = it.socket_of(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        it.transport.write(1, [b"."], False)
        it.step(0.0)
        until(lambda: arrived(sock) > 2 * (4 * portable.TURN_FRAMES + once))
        taken = len(it.step())
    it.transport.shut()
    assert portable.TURN_FRAMES <= taken <= portable.TURN_FRAMES + once // 4


def arrived(sock: socket.socket) -> int:
    try:
        return len(socket.socket.recv(sock, 1 << 20, socket.MSG_PEEK))
    except BlockingIOError:
        return 0


def test_a_frame_over_the_limit_is_refused_with_its_size(driver: Driver) -> None:
    with driver.serving(lambda connection: connection.sendall((MAX_FRAME + 1).to_bytes(4, "big"))) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        (reason,) = driver.until(LOST)
    assert isinstance(reason.__cause__, FrameTooLarge)
    assert reason.__cause__.size == MAX_FRAME + 1
