"""The proxy does to bytes exactly what its methods say. No Kafka here: an echo server stands for the broker."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from integration.faults.acks import Acks
from integration.faults.proxy import Proxy
from integration.host.ports import HOST
from integration.waiting import until

SHORT_S = 0.3  # seconds in which nothing may come


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, EchoServer)
        with contextlib.suppress(OSError):
            while data := self.request.recv(65536):
                server.seen += data
                self.request.sendall(data)
        server.ended += 1


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), Echo)
        self.seen, self.ended = bytearray(), 0


@pytest.fixture
def broker() -> Iterator[EchoServer]:
    with EchoServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(broker: EchoServer) -> Iterator[Proxy]:
    with Proxy((HOST, broker.server_address[1])) as between:
        yield between


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address, timeout=10)


def read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def talk_forever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x")
        connection.recv(1)


def nothing_comes(connection: socket.socket) -> bool:
    connection.settimeout(SHORT_S)
    try:
        return connection.recv(1) == b"never"
    except TimeoutError:
        return True


def test_bytes_pass_unchanged_and_are_counted(proxy: Proxy, broker: EchoServer) -> None:
    payload = bytes(range(256)) * 20_000
    with connect(proxy) as client:
        writer = threading.Thread(target=client.sendall, args=(payload,))
        writer.start()
        assert read(client, len(payload)) == payload
        writer.join()
        assert (proxy.open, proxy.counters.connections) == (1, 1)
    assert (proxy.counters.request_bytes, proxy.counters.response_bytes) == (len(payload), len(payload))
    until(lambda: broker.ended == 1, 10, "the broker to see the end")
    until(lambda: proxy.open == 0, 10, "the connection to be forgotten")


def test_delay_holds_every_chunk_back_and_keeps_order(proxy: Proxy) -> None:
    proxy.delay(0.3, jitter=0.1)
    with connect(proxy) as client:
        began = time.monotonic()
        for number in range(20):
            client.sendall(b"%02d" % number)
        assert read(client, 40) == b"".join(b"%02d" % number for number in range(20))
        assert 0.3 <= time.monotonic() - began < 5
        proxy.heal()
        client.sendall(b"x")
        assert read(client, 1) == b"x"


def test_bandwidth_is_a_bound_per_connection(proxy: Proxy) -> None:
    proxy.bandwidth(400_000)
    with connect(proxy) as client:
        began = time.monotonic()
        client.sendall(bytes(200_000))
        assert len(read(client, 200_000)) == 200_000
        assert 0.5 <= time.monotonic() - began < 10


def test_swallowed_responses_were_seen_by_the_broker(proxy: Proxy, broker: EchoServer) -> None:
    with connect(proxy) as client:
        client.sendall(b"before")
        assert read(client, 6) == b"before"
        proxy.swallow_responses()
        client.sendall(b"written")
        until(lambda: broker.seen == b"beforewritten", 10, "the broker to see it")
        until(lambda: proxy.counters.swallowed_bytes == 7, 10, "the answer to be swallowed")
        assert nothing_comes(client)
        proxy.heal()
        client.settimeout(10)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_swallowed_requests_never_arrive(proxy: Proxy, broker: EchoServer) -> None:
    proxy.swallow_requests()
    with connect(proxy) as client:
        client.sendall(b"lost")
        until(lambda: proxy.counters.swallowed_bytes == 4, 10, "the request to be swallowed")
        assert broker.seen == b""


def test_dropped_connections_are_reset_and_new_ones_welcome(proxy: Proxy) -> None:
    with connect(proxy) as client, connect(proxy) as other:
        for connection in (client, other):
            connection.sendall(b"x")
            assert read(connection, 1) == b"x"
        assert proxy.drop_connections() == 2
        for connection in (client, other):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    until(lambda: proxy.counters.resets == 2, 10, "both resets to be counted: a client may see its own before")
    with connect(proxy) as client:
        client.sendall(b"y")
        assert read(client, 1) == b"y"


def test_refuse_refuses_at_once_until_accept(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.accept()
    with connect(proxy) as client:
        client.sendall(b"x")
        assert read(client, 1) == b"x"


def test_a_silent_proxy_accepts_and_answers_nothing_and_hides_closed_connections(proxy: Proxy, broker: EchoServer) -> None:
    with connect(proxy) as old:
        old.sendall(b"x")
        assert read(old, 1) == b"x"
        proxy.silence()
        with connect(proxy) as new:
            new.sendall(b"hello")
            old.sendall(b"hello")
            assert nothing_comes(new)
            assert nothing_comes(old)
    assert broker.seen == b"x"
    assert broker.ended == 0
    proxy.heal()
    until(lambda: broker.ended == 1, 10, "the broker to be told after the silence")


@pytest.mark.parametrize("direction", ["requests", "responses"])
def test_a_cut_lets_exactly_so_many_bytes_through_and_resets_once(proxy: Proxy, broker: EchoServer, direction: str) -> None:
    with connect(proxy) as client:
        getattr(proxy, f"cut_{direction}_after")(5)
        client.sendall(b"0123456789")
        with pytest.raises(ConnectionResetError):
            read(client, 100)
    until(lambda: broker.ended == 1, 10, "the broker to be reset")
    assert bytes(broker.seen) in ((b"01234", b"") if direction == "requests" else (b"0123456789",))
    assert getattr(proxy.counters, {"requests": "request_bytes", "responses": "response_bytes"}[direction]) == 5
    with connect(proxy) as client:
        client.sendall(b"0123456789")
        assert read(client, 10) == b"0123456789"


def test_a_held_request_arrives_after_its_client_is_gone(proxy: Proxy, broker: EchoServer) -> None:
    proxy.hold_requests()
    with connect(proxy) as client:
        client.sendall(b"late")
        assert nothing_comes(client)
    assert broker.seen == b""
    proxy.release()
    until(lambda: broker.seen == b"late", 10, "the held request to arrive")
    until(lambda: broker.ended == 1, 10, "its connection to end after it")
    assert proxy.open == 0


def test_held_responses_come_when_released(proxy: Proxy) -> None:
    proxy.hold_responses()
    with connect(proxy) as client:
        client.sendall(b"x")
        assert nothing_comes(client)
        proxy.release()
        client.settimeout(10)
        assert read(client, 1) == b"x"


def test_chaos_ends_every_connection_within_its_life_until_healed(proxy: Proxy) -> None:
    proxy.chaos(0.05, 0.2, swallow=1.0, tail=0.05)
    for _ in range(3):
        with connect(proxy) as client, pytest.raises(ConnectionError):
            talk_forever(client)
    assert proxy.counters.resets == 3
    proxy.heal()
    with connect(proxy) as client:
        client.sendall(b"x")
        assert read(client, 1) == b"x"
        assert not client.recv(0)
        assert nothing_comes(client)


def test_a_broker_that_is_down_looks_like_a_reset(broker: EchoServer) -> None:
    with socket.create_server((HOST, 0)) as free:
        nobody = free.getsockname()
    with Proxy(nobody) as proxy:
        with pytest.raises(ConnectionResetError), connect(proxy) as client:  # it may come while the connection is being made
            client.recv(1)
        assert proxy.counters.refused == 1
        proxy.retarget((HOST, broker.server_address[1]))
        with connect(proxy) as client:
            client.sendall(b"x")
            assert read(client, 1) == b"x"


def test_close_works_twice_and_ends_the_thread(proxy: Proxy) -> None:
    with connect(proxy) as client:
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    proxy.close()
    assert not proxy.thread.is_alive()


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def request(api: int, correlation: int, rest: bytes = b"") -> bytes:
    return frame(api.to_bytes(2) + b"\0\3" + correlation.to_bytes(4) + rest)


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 11, 1000])
def test_only_answers_to_produce_requests_count_as_acknowledgements(piece: int) -> None:
    acks = Acks()
    asked = request(3, 1) + request(0, 2, bytes(40)) + request(0, 3, bytes(3)) + request(18, 4)
    answers = [frame(n.to_bytes(4) + bytes(9)) for n in (1, 2, 3, 4, 2)] + [frame(b"")]
    for at in range(0, len(asked), piece):
        acks.asked(asked[at : at + piece])
    counts = [sum(acks.answered(answer[at : at + piece]) for at in range(0, len(answer), piece)) for answer in answers]
    assert counts == [0, 1, 1, 0, 0, 0]


def test_a_lost_answer_counts_where_it_acknowledges_and_its_connection_where_it_is_cut(proxy: Proxy, broker: EchoServer) -> None:
    told = request(0, 7)
    with connect(proxy) as client:
        proxy.swallow_responses()
        client.sendall(told + frame(b"\0\0\0\7"))  # the echo of the first is an answer to nothing; that of the second one to it
        until(lambda: proxy.counters.lost_acks == 1, 10, "the answer to be counted")
        assert proxy.counters.lossy_resets == 0
        proxy.drop_connections()
    assert (proxy.counters.lossy_resets, proxy.counters.resets) == (1, 1)
