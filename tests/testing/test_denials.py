"""Rights that a test denies: our own clients against the model server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.client.client import Client
from pykafka4.consumer import Consumer
from pykafka4.errors import AuthorizationError, DeliveryFailed, KafkaError
from pykafka4.producer import Producer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer

LIMIT_S = 20.0  # seconds; every wait in here ends
QUICK = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50}
T0 = TopicPartition("t", 0)
pytestmark = pytest.mark.model(brokers=1, topics={"t": 1, "u": 1})


def deny(server: ModelServer, *what: str) -> None:
    server.do(lambda cluster: cluster.deny(*what))


def allow(server: ModelServer, *what: str) -> None:
    server.do(lambda cluster: cluster.allow(*what))


def lacks(error: BaseException | None, operation: str, name: str) -> None:
    assert isinstance(error, AuthorizationError)
    assert (error.operation, error.resource_name) == (operation, name)


def refused(consumer: Consumer, operation: str, name: str) -> None:
    """`poll` says that this is missing."""
    with pytest.raises(AuthorizationError) as caught:
        while True:
            consumer.poll(LIMIT_S)
    lacks(caught.value, operation, name)


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """So many records, whatever is raised about rights before them."""
    values: list[bytes | None] = []
    while len(values) < count:
        try:
            records = consumer.poll(LIMIT_S)
        except AuthorizationError:
            continue
        assert records
        values += [record.value for record in records]
    return values


@pytest.mark.parametrize(
    ("what", "operation", "code"),
    [
        (("topic", "t", "WRITE"), "WRITE", "TOPIC_AUTHORIZATION_FAILED"),
        (("topic", "t", "DESCRIBE"), "DESCRIBE or CREATE", "TOPIC_AUTHORIZATION_FAILED"),
        (("cluster", "kafka-cluster", "IDEMPOTENT_WRITE"), "WRITE", "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_a_producer_names_what_is_missing_and_goes_on_when_it_is_allowed(
    server: ModelServer, what: tuple[str, ...], operation: str, code: str
) -> None:
    deny(server, *what)
    with Producer(bootstrap_servers=server.bootstrap_servers, **QUICK) as producer:
        for _ in range(3):
            error = producer.send("t", b"denied").exception(LIMIT_S)
            assert isinstance(error, DeliveryFailed)
            assert error.code == code
            lacks(error.cause, operation, "t")
        allow(server, *what)
        assert producer.send("t", b"allowed").result(LIMIT_S).offset == 0
    assert [record.value for record in server.records("t")] == [b"allowed"]


def test_a_topic_that_may_not_be_created_is_not(server: ModelServer) -> None:
    deny(server, "topic", "new", "CREATE")
    with Producer(bootstrap_servers=server.bootstrap_servers, **QUICK) as producer:
        error = producer.send("new", b"").exception(LIMIT_S)
        assert isinstance(error, DeliveryFailed)
        lacks(error.cause, "DESCRIBE or CREATE", "new")
        assert server.do(lambda cluster: "new" in cluster.topics) is False
        allow(server, "topic", "new")
        assert producer.send("new", b"").result(LIMIT_S).offset == 0


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_an_assigned_consumer_names_what_is_missing_and_goes_on_when_it_is_allowed(server: ModelServer, operation: str) -> None:
    deny(server, "topic", "t", operation)
    server.produce("t", "a")
    server.produce("u", "b")
    with Consumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", **QUICK) as consumer:
        consumer.assign([T0, ("u", 0)])
        refused(consumer, operation, "t")
        assert read(consumer, 1) == [b"b"]
        allow(server, "topic", "t")
        assert read(consumer, 1) == [b"a"]


def test_position_raises_what_keeps_it_unknown(server: ModelServer) -> None:
    deny(server, "topic", "t", "DESCRIBE")
    with Consumer(bootstrap_servers=server.bootstrap_servers, **QUICK) as consumer:
        consumer.assign([T0])
        with pytest.raises(AuthorizationError, match="needs DESCRIBE on topic 't'"):
            consumer.position(T0, timeout=LIMIT_S)
        allow(server, "topic", "t")
        consumer.seek_to_end([T0])
        assert consumer.position(T0, timeout=LIMIT_S) == 0


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_a_member_without_its_group_joins_when_it_may(server: ModelServer, operation: str) -> None:
    deny(server, "group", "g", operation)
    server.produce("t", "a")
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest", **QUICK) as consumer:
        consumer.subscribe(["t"])
        for _ in range(2):
            refused(consumer, operation, "g")
        allow(server, "group", "g", operation)
        assert read(consumer, 1) == [b"a"]
        consumer.commit()
    assert server.committed("g") == {T0: 1}


def test_commits_and_committed_name_what_is_missing(server: ModelServer) -> None:
    server.produce("t", "a")
    with Consumer(
        bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **QUICK
    ) as consumer:
        consumer.assign([T0])
        assert read(consumer, 1) == [b"a"]
        calls: list[tuple[tuple[str, ...], Callable[[], Any]]] = [
            (("group", "g", "READ"), consumer.commit),
            (("topic", "t", "READ"), consumer.commit),
            (("group", "g", "DESCRIBE"), lambda: consumer.committed([T0])),
            (("topic", "t", "DESCRIBE"), lambda: consumer.committed([T0])),
        ]
        for what, act in calls:
            deny(server, *what)
            with pytest.raises(AuthorizationError) as caught:
                act()
            lacks(caught.value, what[2], what[1])
            allow(server, *what)
            act()


def test_an_automatic_commit_that_is_denied_is_raised(server: ModelServer) -> None:
    server.produce("t", "a")
    with Consumer(
        bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest", auto_commit_interval_ms=50, **QUICK
    ) as consumer:
        consumer.assign([T0])
        deny(server, "group", "g", "READ")
        assert read(consumer, 1) == [b"a"]
        refused(consumer, "READ", "g")
        allow(server, "group", "g")
        consumer.poll(0)
        server.wait_for(lambda cluster: cluster.group("g").offsets)


def test_a_subscribed_topic_that_is_denied_leaves_the_others(server: ModelServer) -> None:
    server.produce("t", "a")
    server.produce("u", "b")
    deny(server, "topic", "u")
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest", **QUICK) as consumer:
        consumer.subscribe(["t", "u"])
        refused(consumer, "DESCRIBE", "u")
        assert read(consumer, 1) == [b"a"]
        allow(server, "topic", "u")
        assert read(consumer, 1) == [b"b"]


def test_what_was_refused_to_one_user_of_a_client_is_asked_again_for_the_next(server: ModelServer) -> None:
    deny(server, "topic", "t")
    with Client(bootstrap_servers=server.bootstrap_servers, **QUICK) as client, Consumer(client=client) as consumer:
        consumer.assign([T0])
        refused(consumer, "DESCRIBE", "t")
        for call in (client.partitions_for, lambda topic: client.refresh_metadata([topic])):
            with pytest.raises(AuthorizationError, match="needs DESCRIBE on topic 't'"):
                call("t")
        allow(server, "topic", "t")
        with Producer(client=client) as producer:
            assert producer.send("t", b"").result(LIMIT_S).offset == 0
        assert client.partitions_for("t") == [0]
        client.refresh_metadata(["t"])


def test_a_denial_of_another_topic_does_not_end_a_refresh_of_all(server: ModelServer) -> None:
    deny(server, "topic", "t")
    with Client(bootstrap_servers=server.bootstrap_servers, **QUICK) as client, Consumer(client=client) as consumer:
        consumer.assign([T0])
        refused(consumer, "DESCRIBE", "t")
        client.refresh_metadata()
        client.refresh_metadata(["u"])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (("topics", "t"), "'topics' is not one of topic, group, cluster"),
        (("topic", "t", "write"), "'write' is not an operation on a topic: ALTER, ALTER_CONFIGS, CREATE, DELETE, DESCRIBE, DESCRIBE_CO"),
        (("group", "g", "READ", "WRITE"), "'WRITE' is not an operation on a group"),
    ],
)
def test_a_denial_that_could_never_happen_is_rejected(server: ModelServer, what: tuple[str, ...], message: str) -> None:
    for order in (deny, allow):
        with pytest.raises(ValueError, match=message):
            order(server, *what)


def test_heal_allows_everything(server: ModelServer) -> None:
    deny(server, "topic", "t")
    server.do(lambda cluster: cluster.heal())
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        assert producer.send("t", b"").result(LIMIT_S).offset == 0


def test_a_denial_is_an_error_of_the_clients_own_kind() -> None:
    assert issubclass(AuthorizationError, KafkaError)
    assert issubclass(AuthorizationError, PermissionError)


def test_partitions_for_does_not_raise_what_was_refused_to_another_user_before(server: ModelServer) -> None:
    deny(server, "topic", "t")
    with Client(bootstrap_servers=server.bootstrap_servers, retry_backoff_ms=500) as client, Consumer(client=client) as consumer:
        consumer.assign([T0])
        refused(consumer, "DESCRIBE", "t")
        allow(server, "topic", "t")
        assert client.partitions_for("t") == [0]


def test_a_denied_fetch_is_answered_at_once(server: ModelServer) -> None:
    deny(server, "topic", "t", "READ")
    options = {"fetch_max_wait_ms": 10_000, "auto_offset_reset": "earliest", **QUICK}
    with Consumer(bootstrap_servers=server.bootstrap_servers, **options) as consumer:
        consumer.assign([T0])
        began = time.monotonic()
        refused(consumer, "READ", "t")
        assert time.monotonic() - began < 5
