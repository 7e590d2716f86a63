"""Connections through a proxy, over every transport: they carry records as direct ones do, and what fails names the proxy and no secret."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import AuthenticationError, Client, Consumer, KafkaTimeoutError, Producer
from pykafka4.net import dialling, transports
from pykafka4.options.proxy import parse_proxy
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, closed_port, serving, until
from tests.net.proxy_servers import SERVERS, Address, ProxyServer, Server, TlsFront
from tests.net.transport_driver import CONNECTED, FRAME, KINDS, LOST, TRANSPORTS, Driver, framed

WORD = "s3cr3t:/@"
LOGIN = "anna:s3cr3t%3A%2F%40"
GREETING = {"socks5": b"\x05\x00", "http": b""}
SUCCESS = {"socks5": b"\x05\x00\x00\x01" + bytes(6), "http": b"HTTP/1.1 200 OK\r\n\r\n"}


# -- a driver, and a proxy that the test writes


def skim(connection: socket.socket, scheme: str) -> None:
    """Take the client's request, and answer everything before the last answer."""
    if scheme == "socks5":
        assert connection.recv(3, socket.MSG_WAITALL)[:1] == b"\x05"
        connection.sendall(GREETING[scheme])
        connection.recv(4 + 1 + len("kafka") + 2, socket.MSG_WAITALL)
        return
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += connection.recv(1 << 20)


@pytest.fixture(params=KINDS)
def through(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Driver]]:
    """Makes a driver whose transport goes through a proxy."""
    drivers: list[Driver] = []

    def make(url: str) -> Driver:
        drivers.append(Driver(request.param, parse_proxy(url)))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.transport.shut()


both = pytest.mark.parametrize("scheme", SERVERS)


@both
def test_an_answer_that_comes_in_single_bytes_opens_the_connection(through: Callable[[str], Driver], scheme: str) -> None:
    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        skim(connection, scheme)
        for byte in SUCCESS[scheme]:
            connection.sendall(bytes([byte]))
            threading.Event().wait(0.001)
        assert connection.recv(9, socket.MSG_WAITALL) == framed(b"hello")
        connection.sendall(framed(b"world"))

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.connect(9092, host="kafka")
        driver.transport.write(1, [framed(b"hello")], False)
        assert bytes(driver.until(FRAME)[0]) == b"world"
        assert [event.kind for event in driver.events] == [CONNECTED, FRAME]


@both
@pytest.mark.parametrize("cut", [0, 1, 4])
def test_a_proxy_that_closes_in_the_middle_is_a_lost_connection(through: Callable[[str], Driver], scheme: str, cut: int) -> None:
    def answer(connection: socket.socket) -> None:
        skim(connection, scheme)
        connection.sendall(SUCCESS[scheme][:cut])
        connection.close()

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        reason = str(driver.until(LOST)[0])
    assert reason.startswith(f"kafka:9092: proxy 127.0.0.1:{port}: it closed the connection")
    assert not driver.attempts


@both
def test_bytes_behind_the_answer_are_refused(through: Callable[[str], Driver], scheme: str) -> None:
    def answer(connection: socket.socket) -> None:
        skim(connection, scheme)
        connection.sendall(SUCCESS[scheme] + framed(b"from nobody"))

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        assert str(driver.until(LOST)[0]) == f"kafka:9092: proxy 127.0.0.1:{port}: it sent more than its answer"
    assert [event.kind for event in driver.events] == [LOST]


@both
def test_a_refusal_closes_the_socket(through: Callable[[str], Driver], scheme: str) -> None:
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        skim(connection, scheme)
        connection.sendall({"socks5": b"\x05\x02", "http": b"HTTP/1.1 403 No\r\n\r\n"}[scheme])
        if not connection.recv(1):
            ended.set()

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        assert "connection not allowed by its rules" in str(driver.until(LOST)[0])
        assert ended.wait(SECONDS)
        assert not driver.attempts


@both
def test_a_proxy_that_resets_the_connection_is_named(through: Callable[[str], Driver], scheme: str) -> None:
    def answer(connection: socket.socket) -> None:
        skim(connection, scheme)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        assert str(driver.until(LOST)[0]) == f"kafka:9092: proxy 127.0.0.1:{port}: connection reset by peer"


@both
def test_a_proxy_that_is_down_is_named(through: Callable[[str], Driver], scheme: str) -> None:
    port = closed_port()
    driver = through(f"{scheme}://{LOGIN}@127.0.0.1:{port}")
    driver.transport.connect(1, "kafka", 9092)
    assert str(driver.until(LOST)[0]) == f"kafka:9092: proxy 127.0.0.1:{port}: connection refused"


@both
def test_a_broker_that_nobody_can_be_asked_for_is_refused_without_asking(through: Callable[[str], Driver], scheme: str) -> None:
    driver = through(f"{scheme}://127.0.0.1:{closed_port()}")
    driver.transport.connect(1, "a\r\nb", 9092)
    assert str(driver.until(LOST)[0]).endswith("it cannot be asked for this host and port")


@both
def test_while_the_proxy_works_the_loop_sleeps_and_a_close_ends_everything(through: Callable[[str], Driver], scheme: str) -> None:
    waits, ended = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        skim(connection, scheme)
        waits.set()
        if not connection.recv(1):
            ended.set()

    with serving(answer) as port:
        driver = through(f"{scheme}://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        until(lambda: driver.step(0.01) or waits.is_set(), "the request")
        began = time.thread_time()
        for _ in range(3):
            assert driver.step(0.1) == []
        assert time.thread_time() - began < 0.1
        assert driver.dialler.limit(100.0) == 100.0
        driver.transport.close(1)
        assert ended.wait(SECONDS)
        assert driver.step(0.0) == []
        assert not driver.attempts


def test_a_wait_for_the_proxy_lasts_as_long_as_it_was_asked_to(through: Callable[[str], Driver]) -> None:
    with serving(lambda connection: connection.recv(1_000) and connection.recv(1)) as port:
        driver = through(f"http://127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        driver.step(0.2)
        began = time.monotonic()
        driver.step(0.2)
        assert time.monotonic() - began > 0.15


def test_a_request_that_the_socket_does_not_take_at_once_is_sent_as_it_can(through: Callable[[str], Driver]) -> None:
    begin = threading.Event()
    size = 12 << 20

    def answer(connection: socket.socket) -> None:
        begin.wait(SECONDS)
        skim(connection, "http")
        connection.sendall(SUCCESS["http"])
        connection.sendall(framed(b"hello") if connection.recv(1) else b"")

    with serving(answer) as port:
        driver = through(f"http://u:{'p' * size}@127.0.0.1:{port}")
        driver.transport.connect(1, "kafka", 9092)
        until(lambda: driver.step(0.05) or driver.attempts[1].sock is not None, "a connection")
        assert len(driver.attempts[1].handshake.out) > 0
        begin.set()
        driver.until(CONNECTED)
        driver.transport.write(1, [b"x"], False)
        driver.until(FRAME)


def test_the_name_of_the_proxy_is_looked_up_and_no_other(through: Callable[[str], Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    dead = (socket.AF_INET, ("127.0.0.2", closed_port()))

    def answer(connection: socket.socket) -> None:
        skim(connection, "socks5")
        connection.sendall(SUCCESS["socks5"])

    with serving(answer) as port:

        def look_up(host: str, port_: int) -> list[Any]:
            asked.append((host, port_))
            return [dead, (socket.AF_INET, ("127.0.0.1", port))]

        monkeypatch.setattr(dialling, "_look_up", look_up)
        driver = through("socks5://gw:1080")
        for link in (1, 2, 3):  # the address that is tried first changes
            driver.connect(9092, link, "kafka")
    assert set(asked) == {("gw", 1080)}

    def refuse(connection: socket.socket) -> None:
        skim(connection, "socks5")
        connection.sendall(b"\x05\x02")

    with serving(refuse) as port:
        monkeypatch.setattr(dialling, "_look_up", lambda host, port_: [dead, (socket.AF_INET, ("127.0.0.1", port))])
        said = set()
        for link in (5, 6):  # the dead address is the first of one of two attempts
            driver.transport.connect(link, "kafka", 9092)
            said.add(str(driver.until(LOST, link=link)[0]))
    refused = "kafka:9092: proxy gw:1080: connection not allowed by its rules (SOCKS reply 2)"
    assert said == {refused, f"{refused}; connection refused (127.0.0.2)"}
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: [dead])
    driver.transport.connect(4, "kafka", 9092)
    assert str(driver.until(LOST, link=4)[0]) == "kafka:9092: proxy gw:1080: connection refused (127.0.0.2)"


def test_an_address_that_is_open_has_as_long_as_the_handshake_takes(
    through: Callable[[str], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the set-up timeout: it is not given up for another address of the proxy."""
    monkeypatch.setattr(dialling, "ADDRESS_S", 0.02)
    asked, go = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        skim(connection, "http")
        asked.set()
        go.wait(SECONDS)
        connection.sendall(SUCCESS["http"])

    with serving(answer) as port:
        monkeypatch.setattr(dialling, "_look_up", lambda host, port_: [(socket.AF_INET, ("127.0.0.1", port))] * 2)
        driver = through("http://gw:1080")
        driver.transport.connect(1, "kafka", 9092)
        until(lambda: driver.step(0.01) or asked.is_set(), "the request")
        for _ in range(5):
            driver.step(0.02)
        go.set()
        driver.until(CONNECTED)
        assert not driver.connecting


# -- clients, real proxies, a model cluster whose names only the proxies know


class Hidden:
    """A cluster whose brokers are named `broker-N.hidden`, and what stands in front of them."""

    def __init__(self, server: ModelServer, loop: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.servers: list[Server] = []
        self.options: dict[str, Any] = {"bootstrap_servers": "broker-1.hidden:9092", "reconnect_backoff_max_ms": 100}
        self.hosts: dict[str, Address] = server.do(self.hide)
        server.create_topic("t", 1)
        if loop == "tls":
            self.encrypt(folder)
        else:
            monkeypatch.setattr(transports, "_opener", TRANSPORTS[loop])
        self.looked_up: list[str] = []
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: self.looked_up.append(host) or [])

    @staticmethod
    def hide(cluster: Any) -> dict[str, Address]:
        hosts = {}
        for node, broker in cluster.brokers.items():
            hosts[f"broker-{node}.hidden"] = broker.host, broker.port
            broker.host, broker.port = f"broker-{node}.hidden", 9092
        return hosts

    def encrypt(self, folder: Path) -> None:
        authority = pytest.importorskip("trustme", reason="makes the certificates; pip install trustme").CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.options |= {"security_protocol": "SSL", "ssl_cafile": str(folder / "ca.pem")}
        for host, address in list(self.hosts.items()):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(host).configure_cert(context)
            front = TlsFront(context, address)
            self.servers.append(front)
            self.hosts[host] = "127.0.0.1", front.port

    def proxy(self, scheme: str, login: tuple[str, str] | None = None) -> ProxyServer:
        it = SERVERS[scheme](self.hosts, login)
        self.servers.append(it)
        return it

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.server.records("t")]


@pytest.fixture(params=[*KINDS, "tls"])
def hidden(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hidden]:
    with ModelServer() as server:
        it = Hidden(server, request.param, tmp_path, monkeypatch)
        yield it
        for front in it.servers:
            front.stop()
        assert not it.looked_up


@both
@pytest.mark.parametrize("login", [None, ("anna", WORD)])
def test_records_go_through_a_proxy_that_alone_knows_the_brokers(hidden: Hidden, scheme: str, login: tuple[str, str] | None) -> None:
    proxy = hidden.proxy(scheme, login)
    options = hidden.options | {"proxy_url": f"{scheme}://{LOGIN + '@' if login else ''}127.0.0.1:{proxy.port}"}
    with Producer(**options) as producer:
        for number in range(100):
            producer.send("t", f"{number}")
    with Consumer(**options, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        got: list[Any] = []
        until(lambda: got.extend(consumer.poll(0.1)) or len(got) >= 100, "all records")
    assert [record.value for record in got] == hidden.values() == [f"{number}".encode() for number in range(100)]
    assert {host for host, _ in proxy.asked} <= set(hidden.hosts)


@both
def test_a_wrong_password_is_an_authentication_error_and_shown_nowhere(
    hidden: Hidden, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pykafka4")
    proxy = hidden.proxy(scheme, ("anna", "another"))
    place = f"broker-1.hidden:9092: proxy 127.0.0.1:{proxy.port}: "
    for login, says in ((f"{LOGIN}@", "it refuses the user name or the password"), ("", "it demands a user name and a password")):
        with Client(**hidden.options, proxy_url=f"{scheme}://{login}127.0.0.1:{proxy.port}") as client:
            with pytest.raises(AuthenticationError) as caught:
                client.refresh_metadata(timeout=SECONDS)
            shown = str(caught.value) + repr(client.status()) + caplog.text
        assert place + says in str(caught.value)
        assert caught.value.certain
        assert "s3cr3t" not in shown
        assert "anna" not in shown


@both
def test_a_proxy_that_is_down_is_named_with_its_cause(hidden: Hidden, scheme: str) -> None:
    port = closed_port()
    said = f"proxy 127.0.0.1:{port}: connection refused"
    url = f"{scheme}://{LOGIN}@127.0.0.1:{port}"
    with Client(**hidden.options, proxy_url=url) as client, pytest.raises(KafkaTimeoutError, match=said) as caught:
        client.refresh_metadata(timeout=0.8)
    assert "s3cr3t" not in str(caught.value)


@both
def test_a_proxy_that_hangs_has_as_long_as_a_connection_may_take(hidden: Hidden, scheme: str) -> None:
    proxy = hidden.proxy(scheme)
    proxy.hangs = True
    url = f"{scheme}://127.0.0.1:{proxy.port}"
    with Client(
        **hidden.options, proxy_url=url, socket_connection_setup_timeout_ms=100, socket_connection_setup_timeout_max_ms=100
    ) as client:
        said = f"no (response|TLS connection) within the setup timeout through the proxy 127.0.0.1:{proxy.port}"
        with pytest.raises(KafkaTimeoutError, match=said):
            client.refresh_metadata(timeout=0.8)
        proxy.hangs = False
        client.refresh_metadata(timeout=SECONDS)


@both
def test_records_that_are_sent_while_the_proxy_is_gone_are_delivered_when_it_is_back(hidden: Hidden, scheme: str) -> None:
    proxy = hidden.proxy(scheme)
    options = hidden.options | {"proxy_url": f"{scheme}://127.0.0.1:{proxy.port}", "linger_ms": 1}
    with Producer(**options) as producer:
        for phase in range(3):
            for number in range(1000):
                producer.send("t", f"{phase} {number}")
                if number == 500:
                    proxy.stop()
            made = len(proxy.asked)
            proxy.start()
            until(lambda made=made: len(proxy.asked) > made, "a new connection")
        producer.flush(SECONDS)
    assert hidden.values() == [f"{phase} {number}".encode() for phase in range(3) for number in range(1000)]


@pytest.mark.parametrize("hidden", ["tls"], indirect=True)
def test_a_certificate_for_another_name_is_refused_through_a_proxy_as_well(hidden: Hidden) -> None:
    """What is verified is the broker's name, not the proxy's."""
    hidden.hosts["broker-9.hidden"] = hidden.hosts["broker-1.hidden"]
    proxy = hidden.proxy("socks5")
    options = hidden.options | {"bootstrap_servers": "broker-9.hidden:9092", "proxy_url": f"socks5://127.0.0.1:{proxy.port}"}
    with Client(**options) as client, pytest.raises(AuthenticationError, match=r"broker-9\.hidden:9092: .*certificate"):
        client.refresh_metadata(timeout=SECONDS)
