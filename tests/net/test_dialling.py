"""Dialling: every address of a name is tried, lookups are shared and block nobody, errors name address and cause. On both transports."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4.errors import ConnectionLost
from pykafka4.net import dialling
from tests.net.net_helpers import SECONDS, closed_port, serving
from tests.net.transport_driver import FRAME, LOST, Driver, framed


def test_a_refused_connection_names_the_address_and_the_cause(driver: Driver) -> None:
    port = closed_port()
    driver.transport.connect(1, "127.0.0.1", port)
    (reason,) = driver.until(LOST)
    assert isinstance(reason, ConnectionLost)
    assert str(reason) == f"127.0.0.1:{port}: connection refused"


def test_a_refused_name_says_which_addresses_refused(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    address = (socket.AF_INET, ("127.0.0.1", closed_port()))
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: [address])
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
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: addresses)
        for link in (1, 2, 3):  # the first to be tried changes
            driver.connect(9092, link, "kafka")
            assert bytes(driver.until(FRAME, link=link)[0]) == b"hello"


@contextlib.contextmanager
def silence() -> Iterator[tuple[str, int]]:
    """An address that does not answer: its backlog is full."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()


def test_an_address_that_drops_packets_is_followed_by_the_next(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "ADDRESS_S", 0.05)
    with serving(lambda c: c.sendall(framed(b"hello"))) as port, silence() as silent:
        addresses = [(socket.AF_INET, silent), (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: addresses)
        for link in (1, 2):
            driver.connect(9092, link, "kafka")


def test_a_name_look_up_that_hangs_blocks_no_other(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: release.wait(SECONDS) and [])
    driver.transport.connect(1, "slow", 9092)
    driver.transport.close(1)
    monkeypatch.undo()
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        driver.connect(port, link=2)
        release.set()
        driver.until(FRAME, link=2)
    assert not [event for event in driver.events if event.link == 1]


class Names:
    """Lookups that hang until the test answers; stands in for the helper's threads."""

    def __init__(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.answers: dict[str, list[Any]] = {}
        monkeypatch.setattr(dialling, "_look_up", self.look_up)
        driver.dialler._helper = self

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
    assert not driver.lookups
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
    assert not driver.lookups


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


def test_the_addresses_of_a_name_rotate(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, (f"127.0.0.{n}", closed_port())) for n in (1, 2)]
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: addresses)
    reasons = []
    for link in (1, 2):
        driver.transport.connect(link, "name.invalid", 9092)
        reasons.append(str(driver.until(LOST, link=link)[0]))
    first = [reason.index("127.0.0.1") < reason.index("127.0.0.2") for reason in reasons]
    assert sorted(first) == [False, True]


def test_small_requests_do_not_wait_for_each_other(driver: Driver) -> None:
    with serving(lambda connection: None) as port:
        driver.connect(port)
        assert driver.socket_of(1).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_peer_that_vanished_is_noticed_some_day(driver: Driver) -> None:
    with serving(lambda connection: None) as port:
        driver.connect(port)
        assert driver.socket_of(1).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_an_address_of_ipv6_is_named_in_brackets(driver: Driver) -> None:
    driver.transport.connect(1, "::1", -1)
    assert str(driver.until(LOST)[0]).startswith("[::1]:-1: ")


class Late(socket.socket):
    """Says only later that it was refused, as across a network."""

    code = 0

    def connect_ex(self, address: Any) -> int:
        self.code = super().connect_ex(address)
        return errno.EINPROGRESS

    def getsockopt(self, level: int, option: int, *size: int) -> Any:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR) and self.code not in dialling.IN_PROGRESS:
            return self.code
        return super().getsockopt(level, option, *size)


def test_an_address_that_refuses_later_is_followed_by_the_next(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(family: int) -> socket.socket:
        sock = Late(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        return sock

    monkeypatch.setattr(dialling, "_socket", late)
    refusing = [(socket.AF_INET, ("127.0.0.1", closed_port())), (socket.AF_INET, ("127.0.0.2", closed_port()))]
    with serving(lambda c: c.sendall(framed(b"hello"))) as port:
        addresses = [*refusing, (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: addresses)
        for link in (1, 2, 3):
            driver.connect(9092, link, "kafka")
            assert bytes(driver.until(FRAME, link=link)[0]) == b"hello"
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: refusing)
    driver.transport.connect(4, "kafka", 9092)
    reason = str(driver.until(LOST, link=4)[0])
    assert sorted(reason.removeprefix("kafka:9092: ").split("; ")) == [f"connection refused (127.0.0.{n})" for n in (1, 2)]


def test_a_wait_ends_when_the_next_address_is_to_be_tried(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(silence())
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: [(socket.AF_INET, silent)] * 2)
        driver.transport.connect(1, "kafka", 9092)
        assert driver.dialler.limit(100.0) == 100.0, "its name is being looked up"
        while not driver.connecting:
            driver.step(0.1)
        assert 0.0 < driver.dialler.limit(100.0) <= dialling.ADDRESS_S
        assert driver.dialler.limit(0.0) == 0.0
        driver.transport.close(1)
        driver.transport.connect(2, *silent)
        assert driver.dialler.limit(100.0) == 100.0, "there is no other address"


def test_an_outcome_that_is_known_keeps_select_from_sleeping(driver: Driver) -> None:
    driver.transport.connect(1, "127.0.0.1", -1)
    began = time.monotonic()
    (event,) = driver.transport.select(SECONDS)
    assert (event.kind, event.link) == (LOST, 1)
    assert time.monotonic() - began < SECONDS / 2
