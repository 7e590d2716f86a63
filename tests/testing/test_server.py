"""The model cluster on real sockets, as an application's tests use it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from pykafka4.errors import ClosedError, KafkaTimeoutError
from pykafka4.testing import ModelServer
from pykafka4.wire.frame import decode_response, encode_request
from pykafka4.wire.messages_cluster import MetadataRequest

pytest_plugins = ["pykafka4.testing.pytest_plugin"]

LIMIT = 10.0  # seconds; every wait in here ends


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(brokers=2) as made:
        yield made


def connect(server: ModelServer, number: int = 0) -> socket.socket:
    host, _, port = server.bootstrap_servers.split(",")[number].rpartition(":")
    return socket.create_connection((host, int(port)), LIMIT)


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise EOFError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return data


def topics(sock: socket.socket, number: int = 1) -> list[str]:
    message = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    sock.sendall(b"".join(bytes(part) for part in encode_request(message, 12, number, "t")))
    (size,) = struct.unpack(">i", exactly(sock, 4))
    return [topic.name or "" for topic in decode_response(MetadataRequest, 12, exactly(sock, size))[1].topics]


def test_real_sockets_get_real_answers(server: ModelServer) -> None:
    server.create_topic("t")
    with connect(server) as one, connect(server, 1) as other:
        assert topics(one) == ["t"]
        assert topics(other) == ["t"]
        assert topics(one, 2) == ["t"]


def test_a_stopped_broker_refuses_connections_and_comes_back_on_its_port(server: ModelServer) -> None:
    with connect(server) as sock:
        server.do(lambda cluster: cluster.stop_broker(1))
        assert sock.recv(1) == b""
    server.wait_for(lambda cluster: True)
    refused = threading.Event()
    for _ in range(100):
        try:
            connect(server).close()
        except ConnectionRefusedError:
            refused.set()
            break
    assert refused.is_set()
    server.do(lambda cluster: cluster.start_broker(1))
    for _ in range(1000):
        try:
            with connect(server) as sock:
                assert topics(sock) == []
            return
        except (ConnectionRefusedError, EOFError, ConnectionResetError):
            continue
    pytest.fail("the broker did not come back")


def test_rubbish_ends_one_connection_and_not_the_server(server: ModelServer) -> None:
    with connect(server) as bad, connect(server) as good:
        bad.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert bad.recv(1) == b""
        assert topics(good) == []


def test_waiting_for_what_never_comes_has_an_end(server: ModelServer) -> None:
    with pytest.raises(KafkaTimeoutError):
        server.wait_for(lambda cluster: "never" in cluster.topics, timeout=0.05)


def test_waiting_ends_when_it_is_so(server: ModelServer) -> None:
    threading.Timer(0.05, lambda: server.create_topic("late")).start()
    server.wait_for(lambda cluster: "late" in cluster.topics, timeout=LIMIT)


def test_a_closed_server_says_so_and_closes_twice() -> None:
    server = ModelServer(brokers=1)
    server.close()
    server.close()
    with pytest.raises(ClosedError):
        server.create_topic("t")


def test_a_crash_is_told_to_whoever_closes() -> None:
    server = ModelServer(brokers=1)

    def explode() -> None:
        raise ZeroDivisionError

    server.do(lambda cluster: cluster.timeline.after(0, explode))
    with pytest.raises(RuntimeError, match="crashed"):
        server.wait_for(lambda cluster: False, timeout=LIMIT)
    with pytest.raises(RuntimeError, match="crashed"):
        server.close()


def test_the_fixture_is_a_server_of_three(model_server: ModelServer) -> None:
    assert len(model_server.bootstrap_servers.split(",")) == 3
