"""Transport: whole frames whatever the network cuts, sizes accepted only up to the limit, errors that name address and cause."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from net_helpers import SECONDS, closed_port, serving

from pykafka4.errors import ConnectionLost
from pykafka4.net import transport as transports
from pykafka4.net.handoff.wakeup import Inbox
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.transport import Event, EventKind, SocketTransport
from pykafka4.wire.protocol.frame import FrameTooLarge

CONNECTED, FRAME, LOST, WRITTEN = EventKind.CONNECTED, EventKind.FRAME, EventKind.LOST, EventKind.WRITTEN
MAX_FRAME = 64 << 20


class Driver:
    """Turns a transport in the test's own thread."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.transport = SocketTransport(MAX_FRAME, Helper(), self.post)
        self.events: list[Event] = []

    def post(self, fn: Callable[[float], object]) -> None:
        self.inbox.post(fn)
        self.transport.wakeup.asleep = True
        self.transport.wakeup.wake()

    def step(self, timeout: float = 0.5) -> list[Event]:
        self.inbox.run(time.monotonic())
        events = self.transport.select(timeout)
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


@pytest.fixture
def driver() -> Iterator[Driver]:
    it = Driver()
    yield it
    it.transport.shut()


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def hang_up(connection: socket.socket) -> None:
    connection.close()


# -- connecting


def test_a_refused_connection_names_the_address_and_the_cause(driver: Driver) -> None:
    port = closed_port()
    driver.transport.connect(1, "127.0.0.1", port)
    (reason,) = driver.until(LOST)
    assert isinstance(reason, ConnectionLost)
    assert str(reason) == f"127.0.0.1:{port}: connection refused"


def test_a_refused_name_says_which_addresses_refused(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    address = (socket.AF_INET, ("127.0.0.1", closed_port()))
    monkeypatch.setattr(transports, "_look_up", lambda host, port: [address])
    driver.transport.connect(1, "kafka", 9092)
    assert str(driver.until(LOST)[0]) == "kafka:9092: connection refused (127.0.0.1)"


def test_an_unknown_name_is_named(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    driver.transport.connect(1, "kafka2", 9092)
    assert str(driver.until(LOST)[0]) == "kafka2:9092: host name not found"


@pytest.mark.parametrize(
    ("host", "port"),
    [
        *[(host, 9092) for host in ("a\0b", "\udc80", "", "x" * 70_000, "a..b", "::\0", ":" * 300, "fe80::1%no-such")],
        *[(host, port) for host in ("127.0.0.1", "::1", "localhost") for port in (-1, 65_536, 2**31 - 1, -(2**31))],
    ],
)
def test_an_address_that_cannot_be_one_is_a_lost_connection(driver: Driver, host: str, port: int) -> None:
    """A broker that is damaged, or not well disposed, may name any."""
    driver.transport.connect(1, host, port)
    (reason,) = driver.until(LOST)
    assert isinstance(reason, ConnectionLost)


def test_every_address_of_a_name_is_tried(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        addresses = [(socket.AF_INET, ("127.0.0.1", closed_port())), (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(transports, "_look_up", lambda host, port: addresses)
        for link in (1, 2, 3):  # the first to be tried changes
            driver.connect(9092, link, "kafka")
            assert bytes(driver.until(FRAME, link=link)[0]) == b"hello"


def test_an_address_that_drops_packets_is_followed_by_the_next(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "ADDRESS_SECONDS", 0.05)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(serving(lambda c: c.sendall(framed(b"hello"))))
        full = stack.enter_context(socket.socket())  # its backlog is full: the next connection is not answered
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        addresses = [(socket.AF_INET, full.getsockname()), (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(transports, "_look_up", lambda host, port: addresses)
        for link in (1, 2):
            driver.connect(9092, link, "kafka")


def test_a_name_look_up_that_hangs_blocks_no_other(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(transports, "_look_up", lambda host, port: release.wait(SECONDS) and [])
    driver.transport.connect(1, "slow", 9092)
    driver.transport.close(1)
    monkeypatch.undo()
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        driver.connect(port, link=2)
        release.set()
        driver.until(FRAME, link=2)
    assert not [event for event in driver.events if event.link == 1]


class Names:
    """Look-ups that hang until the test answers; stands in for the helper's threads."""

    def __init__(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.answers: dict[str, list[Any]] = {}
        monkeypatch.setattr(transports, "_look_up", self.look_up)
        driver.transport._helper = self  # type: ignore[assignment]

    def submit(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.jobs.append((run, then))

    def look_up(self, host: str, port: int) -> list[Any]:
        self.asked.append(host)
        return self.answers[host]

    def work(self) -> None:
        jobs, self.jobs = self.jobs, []
        for run, then in jobs:
            then(run())


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_an_address_is_connected_to_without_looking_it_up(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, host: str, family: socket.AddressFamily
) -> None:
    names = Names(driver, monkeypatch)
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"no {host} on this machine")
    with listener:
        driver.connect(listener.getsockname()[1], host=host)
    assert not names.jobs


def test_connections_to_one_name_share_a_look_up(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(driver, monkeypatch)
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        names.answers["kafka"] = [(socket.AF_INET, ("127.0.0.1", port))]
        for link in (1, 2, 3):
            driver.transport.connect(link, "kafka", 9092)
        driver.transport.close(2)
        assert len(names.jobs) == 1
        names.work()
        for link in (1, 3):
            driver.until(FRAME, link=link)
    assert names.asked == ["kafka"]
    assert not driver.transport._lookups
    assert not [event for event in driver.events if event.link == 2]


def test_attempts_that_were_given_up_do_not_queue_look_ups(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(driver, monkeypatch)
    for link in range(100):
        driver.transport.connect(link, "dead", 9092)
        driver.transport.close(link)
    assert len(names.jobs) == 1
    names.work()
    driver.step(0.0)
    assert not names.asked, "nobody waits for it"
    assert not driver.transport._lookups


def test_a_connection_requested_after_a_skipped_look_up_gets_one(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(driver, monkeypatch)
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        names.answers["kafka"] = [(socket.AF_INET, ("127.0.0.1", port))]
        driver.transport.connect(1, "kafka", 9092)
        driver.transport.close(1)
        names.work()
        driver.transport.connect(2, "kafka", 9092)
        driver.step(0.0)
        names.work()
        driver.until(FRAME, link=2)


# -- reading


@settings(max_examples=25, deadline=None, derandomize=True)
@given(sizes=st.lists(st.sampled_from([0, 1, 3, 4, 5, 1000, 70_000, 300_000]), min_size=1, max_size=8), seed=st.integers(0, 10**6))
def test_frames_arrive_whole_however_they_are_cut(sizes: list[int], seed: int) -> None:
    random = Random(seed)
    bodies = [random.randbytes(size) for size in sizes]
    data = framed(*bodies)
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(6)))
    driver = Driver()

    def answer(connection: socket.socket) -> None:
        for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True):
            connection.sendall(data[a:b])
            connection.recv(1)  # the client has read that far

    try:
        with serving(answer) as port:
            driver.connect(port)
            for _ in range(len(cuts) + 1):
                driver.step(0.02)
                driver.transport.write(1, [b"."])
            assert [bytes(body) for body in driver.until(FRAME, len(bodies))] == bodies
    finally:
        driver.transport.shut()


def test_a_large_frame_grows_as_its_bytes_come(driver: Driver) -> None:
    body = Random(1).randbytes(transports.FIRST_PIECE * 3 + 17)
    with serving(lambda c: c.sendall(framed(b"small", body, b"after"))) as port:
        driver.connect(port)
        small, large, after = driver.until(FRAME, 3)
    assert bytes(small) == b"small"
    assert len(large) == len(body)
    assert bytes(large) == body
    assert bytes(after) == b"after"


def test_a_size_alone_takes_no_memory(driver: Driver) -> None:
    with serving(lambda c: (c.sendall((MAX_FRAME).to_bytes(4, "big") + b"x"), c.recv(1))) as port:  # type: ignore[arg-type,return-value]
        driver.connect(port)
        tracemalloc.start()
        try:
            for _ in range(5):
                driver.step(0.02)
            assert tracemalloc.get_traced_memory()[1] < 2 * transports.FIRST_PIECE
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer speaks HTTP, not Kafka; is the port right?"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the peer responds with TLS, which this version does not support"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer speaks SSH"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", f"a frame of 2147483647 bytes exceeds receive_message_max_bytes={MAX_FRAME}"),
        ((MAX_FRAME + 1).to_bytes(4, "big"), "receive_message_max_bytes"),
    ],
)
def test_what_is_no_kafka_frame_is_refused_and_named(driver: Driver, data: bytes, text: str) -> None:
    with serving(lambda c: (c.sendall(data), c.recv(1))) as port:  # type: ignore[arg-type,return-value]
        driver.connect(port)
        (reason,) = driver.until(LOST)
    assert text in str(reason)
    assert str(reason).startswith(f"127.0.0.1:{port}: ")


def test_the_end_of_a_connection_says_whether_an_answer_was_cut(driver: Driver) -> None:
    with serving(hang_up) as port:
        driver.connect(port)
        assert str(driver.until(LOST)[0]) == f"127.0.0.1:{port}: the broker closed the connection"
    with serving(lambda c: (c.sendall(framed(b"whole") + b"\0\0\0\x09half"), c.close())) as port:  # type: ignore[arg-type,return-value]
        driver.connect(port, link=2)
        reason = driver.until(LOST, link=2)[0]
        assert "in the middle of a response" in str(reason)
        assert bytes(driver.until(FRAME, link=2)[0]) == b"whole"


def test_one_connection_that_floods_does_not_starve_another(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "TURN_BYTES", 64 << 10)
    flood = framed(b"x" * 1000) * 5_000
    with serving(lambda c: c.sendall(flood)) as loud, serving(lambda c: (c.recv(1), c.sendall(framed(b"quiet")))) as quiet:  # type: ignore[arg-type,return-value]
        driver.connect(loud, link=1)
        driver.connect(quiet, link=2)
        driver.transport.write(2, [b"."])
        driver.until(FRAME, link=2)
        assert all(sum(len(e.payload) for e in batch if e.kind is FRAME) <= 1 << 20 for batch in [driver.step(0)])
        driver.until(FRAME, 5_000, link=1)


# -- writing


def reading(into: list[bytes], total: int, begin: threading.Event) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        begin.wait(SECONDS)
        got = 0
        while got < total and (data := connection.recv(1 << 16)):
            into.append(data)
            got += len(data)

    return answer


@pytest.mark.parametrize("gathers", [transports.GATHERS, False], ids=["many-buffers-a-call", "one-buffer-a-call"])
def test_what_does_not_fit_is_kept_in_order_until_it_does(driver: Driver, monkeypatch: pytest.MonkeyPatch, gathers: bool) -> None:
    monkeypatch.setattr(transports, "GATHERS", gathers)
    random = Random(2)
    parts: list[Any] = [random.randbytes(random.choice([0, 1, 100, 500_000])) for _ in range(150)]
    parts += [bytearray(b"array" * 1000), memoryview(b"view" * 1000), b"end"]
    data = b"".join(map(bytes, parts))
    got, begin = list[bytes](), threading.Event()
    with serving(reading(got, len(data), begin)) as port:
        driver.connect(port)
        assert not driver.transport.write(1, parts[:75])
        assert not driver.transport.write(1, parts[75:])
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
    with serving(reading(got, 600, begin)) as port:
        driver.connect(port)
        assert driver.transport.write(1, [b"ab"] * 300), "more buffers than one system call takes"
        assert WRITTEN not in {event.kind for event in driver.step(0)}


def test_writing_to_a_peer_that_is_gone_ends_in_an_event_not_an_exception(driver: Driver) -> None:
    with serving(hang_up) as port:
        driver.connect(port)
        deadline = time.monotonic() + SECONDS
        while not [event for event in driver.events if event.kind is LOST]:
            driver.transport.write(1, [b"x" * 1000])
            driver.step(0.01)
            assert time.monotonic() < deadline
    assert not driver.transport.write(1, [b"x"])


def test_a_closed_link_produces_no_more_events(driver: Driver) -> None:
    with serving(lambda c: c.sendall(framed(b"late"))) as port:
        driver.connect(port)
        driver.step(0.05)
        driver.events.clear()
        driver.transport.close(1)
        driver.transport.close(1)
        for _ in range(3):
            driver.step(0.01)
    assert not driver.events


def test_events_that_wait_keep_select_from_sleeping(driver: Driver) -> None:
    driver.transport._lose(transports.Socket(9, "x", 1), "gone")
    began = time.monotonic()
    (event,) = driver.transport.select(SECONDS)
    assert (event.kind, event.link, str(event.payload)) == (LOST, 9, "x:1: gone")
    assert time.monotonic() - began < SECONDS / 2


def test_a_wake_up_ends_select(driver: Driver) -> None:
    driver.transport.wakeup.asleep = True
    timer = threading.Timer(0.02, driver.transport.wakeup.wake)
    timer.start()
    began = time.monotonic()
    driver.transport.select(SECONDS)
    assert time.monotonic() - began < SECONDS / 2
    timer.join()


def test_shutting_down_leaves_no_descriptor(driver: Driver) -> None:
    with serving(lambda c: c.recv(1)) as port:  # type: ignore[arg-type,return-value]
        it = Driver()
        it.connect(port)
        sock = it.transport._sockets[1].sock
        assert sock is not None
        it.transport.shut()
        assert sock.fileno() == -1
        assert it.transport.wakeup.fileno() == -1


def test_small_requests_do_not_wait_for_each_other(driver: Driver) -> None:
    with serving(lambda connection: None) as port:
        driver.connect(port)
        sock = driver.transport._sockets[1].sock
        assert sock is not None
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_addresses_of_a_name_rotate(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, (f"127.0.0.{n}", closed_port())) for n in (1, 2)]
    monkeypatch.setattr(transports, "_look_up", lambda host, port: addresses)
    reasons = []
    for link in (1, 2):
        driver.transport.connect(link, "name.invalid", 9092)
        reasons.append(str(driver.until(LOST, link=link)[0]))
    first = [reason.index("127.0.0.1") < reason.index("127.0.0.2") for reason in reasons]
    assert sorted(first) == [False, True]


def test_a_frame_over_the_limit_is_refused_with_its_size(driver: Driver) -> None:
    with serving(lambda connection: connection.sendall((MAX_FRAME + 1).to_bytes(4, "big"))) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        (reason,) = driver.until(LOST)
    assert isinstance(reason.__cause__, FrameTooLarge)
    assert reason.__cause__.size == MAX_FRAME + 1
