"""What tests get wrong in using the model server, and what clients of all kinds send it: a message, and never the end of the server."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from pykafka4.errors import ClosedError
from pykafka4.producer import Producer
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.frame import encode_request
from pykafka4.wire.protocol.messages_admin import CreatePartitionsRequest, CreateTopicsRequest
from pykafka4.wire.protocol.messages_cluster import MetadataRequest

LIMIT_S = 10.0  # seconds; every wait in here ends

pytestmark = pytest.mark.model(brokers=2, topics={"orders": 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "brokers=0 must be from 1"),
        ({"brokers": -1}, "brokers=-1 must be from 1"),
        ({"brokers": "3"}, "brokers='3' is not an int"),
        ({"brokers": True}, "brokers=True is not an int"),
        ({"default_partitions": 0}, "default_partitions=0 must be from 1"),
        ({"release": 4.4}, "release=4.4 must be a string such as '3.9'"),
    ],
)
def test_a_server_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ModelServer(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.create_topic("a b"), "topic 'a b': a name has"),
        (lambda s: s.create_topic(5), "topic must be a str, not int"),
        (lambda s: s.create_topic("new", 0), "partitions=0 must be from 1"),
        (lambda s: s.create_topic("new", "2"), "partitions='2' is not an int"),
        (lambda s: s.create_topic("new", 10**9), "partitions=1000000000 must be from 1 to 100000"),
        (lambda s: s.create_topic("new", min_isr=2), "'min_isr' is not a setting of a topic"),
        (lambda s: s.create_topic("new", min_in_sync="2"), "min_in_sync='2' is not an int"),
        (lambda s: s.create_topic("orders"), "topic 'orders' already exists"),
        (lambda s: s.produce("a b", "x"), "topic 'a b': a name has"),
        (lambda s: s.produce("new", "x", partition="0"), "partition='0' is not an int"),
        (lambda s: s.produce("new", "x", timestamp_ms=2**70), "timestamp_ms=.* must be from 0"),
        (lambda s: s.records("orders", 9), "topic 'orders' has no partition 9; its last partition is 1"),
        (lambda s: s.records("orders", -1), "topic 'orders' has no partition -1; its last partition is 1"),
        (lambda s: s.records(None), "topic must be a str"),
        (lambda s: s.fail("Produce", "NOPE"), "'NOPE' is not the name of a Kafka error$"),
        (lambda s: s.fail(True, "NOT_LEADER_OR_FOLLOWER"), "True is not an API"),
        (lambda s: s.fail(["Fetch"], "NOT_LEADER_OR_FOLLOWER"), "is not an API; give its name"),
        (lambda s: s.delay("Fetch", "1"), "seconds='1' is not a positive number"),
    ],
)
def test_a_wrong_argument_is_named_and_changes_nothing(server: ModelServer, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        call(server)
    assert server.do(lambda cluster: list(cluster.topics)) == ["orders"]
    assert server.unmet() == []


def test_waiting_on_a_closed_server_ends_at_once() -> None:
    server = ModelServer(brokers=1)
    server.close()
    for condition in (False, True):
        with pytest.raises(ClosedError):
            server.wait_for(lambda cluster, holds=condition: holds, timeout=60 * LIMIT_S)


def test_two_servers_in_one_test_know_nothing_of_each_other(server: ModelServer) -> None:
    with ModelServer(brokers=1) as other, Producer(bootstrap_servers=other.bootstrap_servers) as producer:
        server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3)
        producer.send("orders", b"x")
        producer.flush(LIMIT_S)
        assert [record.value for record in other.records("orders")] == [b"x"]
        assert other.unmet() == []
    assert server.records("orders") == []
    assert len(server.unmet()) == 1


def test_ten_orders_at_once_happen_in_the_order_in_which_they_were_given(server: ModelServer) -> None:
    for _ in range(5):
        server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0)
        server.disconnect("Produce", after=True)
    with Producer(bootstrap_servers=server.bootstrap_servers, retry_backoff_ms=1, reconnect_backoff_ms=1) as producer:
        producer.send("orders", b"x", partition=0)
        producer.flush(3 * LIMIT_S)
    assert [record.value for record in server.records("orders")] == [b"x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_an_error_because_the_server_is_its_parents(server: ModelServer) -> None:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: this process has threads
        child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            server.produce("orders", "lost")
        except RuntimeError as error:
            said = str(error).encode()
        finally:
            server.close()
            os.write(write, said)
            os._exit(0)
    os.close(write)
    assert b"runs in process %d" % os.getpid() in os.read(read, 1000)
    os.close(read)
    os.waitpid(child, 0)
    assert server.records("orders") == []
    assert server.produce("orders", "x") == 0


@pytest.fixture
def forked() -> Iterator[Callable[[], None]]:
    """Forks a child that holds copies of all sockets until the test ends."""
    read, write = os.pipe()
    children: list[int] = []

    def fork() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons: this process has threads
            child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent closes its end, or died
            os._exit(0)
        children.append(child)

    yield fork
    os.close(write)
    os.close(read)
    for child in children:
        os.waitpid(child, 0)


def test_connections_and_ports_are_closed_though_a_forked_child_lives(server: ModelServer, forked: Callable[[], None]) -> None:
    addresses = [("127.0.0.1", int(address.rpartition(":")[2])) for address in server.bootstrap_servers.split(",")]
    with socket.create_connection(addresses[0], LIMIT_S) as dropped, socket.create_connection(addresses[0], LIMIT_S) as stopped:
        server.disconnect("Metadata")
        request = b"".join(bytes(part) for part in encode_request(MetadataRequest(), 12, 7, "t"))
        stopped.sendall(b"\0")
        server.wait_for(lambda cluster: len(cluster.brokers[1].sessions) == 2, LIMIT_S)
        forked()
        dropped.sendall(request)
        assert dropped.recv(1) == b""
        server.do(lambda cluster: cluster.stop_broker(1))
        with contextlib.suppress(ConnectionResetError):
            assert stopped.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(addresses[0], LIMIT_S)
    server.do(lambda cluster: cluster.start_broker(1))
    with socket.create_connection(addresses[0], LIMIT_S):
        server.close()
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, LIMIT_S)


ASSIGNED = CreateTopicsRequest.Topic.Assignment


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="n", num_partitions=2**31 - 1, replication_factor=1)]), 5),
        (CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="n", num_partitions=-1, assignments=[ASSIGNED(broker_ids=[7])])]), 5),
        (CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="n", num_partitions=-1, assignments=[ASSIGNED(broker_ids=[])])]), 5),
        (CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="orders", count=2**31 - 1, assignments=None)]), 3),
        (MetadataRequest(topics=[MetadataRequest.Topic(topic_id=UUID(int=9), name=None)]), 11),
    ],
    ids=["too many partitions", "unknown broker", "no broker", "grow too far", "unknown topic id"],
)
def test_a_request_that_no_broker_would_execute_is_answered(server: ModelServer, message: Any, version: int) -> None:
    host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT_S) as client:
        client.sendall(b"".join(bytes(buffer) for buffer in encode_request(message, version, 7, "another")))
        assert len(client.recv(100)) > 8
    assert server.do(lambda cluster: [len(topic.partitions) for topic in cluster.topics.values()]) == [2]
