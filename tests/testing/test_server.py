"""The model cluster on real sockets, as an application's tests use it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.errors import ClosedError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.frame import decode_response, encode_request
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from tests.net.net_helpers import exactly

LIMIT_S = 10.0  # seconds; every wait in here ends

pytestmark = pytest.mark.model(brokers=2)


def connect(server: ModelServer, number: int = 0) -> socket.socket:
    host, _, port = server.bootstrap_servers.split(",")[number].rpartition(":")
    return socket.create_connection((host, int(port)), LIMIT_S)


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


def test_a_stopped_broker_refuses_connections_and_comes_back_on_its_port_at_once(server: ModelServer) -> None:
    for _ in range(20):
        with connect(server) as sock:
            assert topics(sock) == []
            server.do(lambda cluster: cluster.stop_broker(1))
            assert sock.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        server.do(lambda cluster: cluster.start_broker(1))
    with connect(server) as sock:
        assert topics(sock) == []


def test_invalid_bytes_close_one_connection_and_not_the_server(server: ModelServer) -> None:
    with connect(server) as bad, connect(server) as good:
        bad.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert bad.recv(1) == b""
        assert topics(good) == []


def test_waiting_for_what_never_comes_has_an_end(server: ModelServer) -> None:
    with pytest.raises(KafkaTimeoutError):
        server.wait_for(lambda cluster: "never" in cluster.topics, timeout=0.05)


def test_waiting_ends_when_it_is_so(server: ModelServer) -> None:
    threading.Timer(0.05, lambda: server.create_topic("late")).start()
    server.wait_for(lambda cluster: "late" in cluster.topics, timeout=LIMIT_S)


def test_a_closed_server_says_so_and_closes_twice() -> None:
    server = ModelServer(brokers=1)
    server.close()
    server.close()
    with pytest.raises(ClosedError):
        server.create_topic("t")


def test_a_crash_is_raised_by_close() -> None:
    server = ModelServer(brokers=1)

    def explode() -> None:
        raise ZeroDivisionError

    server.do(lambda cluster: cluster.timeline.after(0, explode))
    with pytest.raises(RuntimeError, match="crashed"):
        server.wait_for(lambda cluster: False, timeout=LIMIT_S)
    with pytest.raises(RuntimeError, match="crashed"):
        server.close()


# ---- what tests look at and put in


def test_what_is_produced_is_in_the_log_in_order(server: ModelServer) -> None:
    assert server.produce("t", b"a", "b", None, key="k", timestamp_ms=5) == 0
    assert server.produce("t", b"d", partition=0) == 3
    server.produce("t", b"other", partition=2)
    kept = server.records("t", 0)
    assert [(r.offset, r.key, r.value) for r in kept] == [(0, b"k", b"a"), (1, b"k", b"b"), (2, b"k", None), (3, None, b"d")]
    assert [r.timestamp_ms for r in kept[:3]] == [5, 5, 5]
    assert abs(kept[3].timestamp_ms - time.time() * 1000) < 60_000
    assert [r.value for r in server.records("t")] == [b"a", b"b", None, b"d", b"other"]


@pytest.mark.parametrize(
    ("arguments", "names", "error"),
    [((), {}, ValueError), ((1,), {}, TypeError), ((b"x",), {"key": 5}, TypeError), ((b"x",), {"partition": 9}, IndexError)],
)
def test_a_wrong_value_to_produce_is_refused(
    server: ModelServer, arguments: tuple[Any, ...], names: dict[str, Any], error: type[Exception]
) -> None:
    server.create_topic("t", 1)
    with pytest.raises(error):
        server.produce("t", *arguments, **names)
    assert server.records("t") == []


def test_records_of_a_topic_that_is_not_there_are_an_error_that_suggests_one(server: ModelServer) -> None:
    server.create_topic("orders")
    with pytest.raises(ValueError, match="no such topic 'order'; did you mean 'orders'"):
        server.records("order")


def test_what_a_group_committed_is_there_for_all_to_see(server: ModelServer) -> None:
    server.produce("t", b"a", b"b")
    assert server.committed("g") == {}
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([("t", 0)])
        consumer.commit({TopicPartition("t", 0): 2}, timeout=LIMIT_S)
    assert server.committed("g") == {TopicPartition("t", 0): 2}


def test_many_threads_use_one_server(server: ModelServer) -> None:
    server.create_topic("t", 4)

    def work(partition: int) -> None:
        for number in range(100):
            server.produce("t", b"%d" % number, partition=partition)
            server.delay("Heartbeat", 0.01)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [len(server.records("t", partition)) for partition in range(4)] == [100] * 4
    assert len(server.unmet()) == 400


def test_a_crash_is_logged_and_raised_by_every_later_call(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    made = ModelServer(brokers=1)
    made.do(lambda cluster: cluster.timeline.after(0, lambda: 1 / 0))
    with pytest.raises(RuntimeError, match="crashed"):
        made.wait_for(lambda cluster: False, timeout=LIMIT_S)
    for call in (
        lambda: made.wait_for(lambda cluster: True),
        made.unmet,
        made.assert_all_met,
        lambda: made.records("t"),
        lambda: made.committed("g"),
        lambda: made.fail("Fetch", "UNKNOWN_TOPIC_ID"),
    ):
        with pytest.raises(RuntimeError, match="crashed") as told:
            call()
        assert isinstance(told.value.__cause__, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text
    with pytest.raises(RuntimeError, match="crashed"):
        made.close()


def test_nobody_else_gets_the_port_of_a_broker_that_is_down(server: ModelServer) -> None:
    """Another process that connects somewhere may be given any port that is free."""
    host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
    for _ in range(2):
        server.do(lambda cluster: cluster.stop_broker(1))
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        server.do(lambda cluster: cluster.start_broker(1))
        connect(server).close()
