"""Unused topics: they are not requested, not created again, not reported, and take no memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from pykafka4 import Client, Consumer, KafkaTimeoutError, Producer
from pykafka4.testing import ModelServer
from tests.inspection import inspect, remembered
from tests.net.net_helpers import SECONDS as LIMIT
from tests.net.net_helpers import until

pytestmark = pytest.mark.model(topics={"t": 2})


@pytest.fixture
def client(server: ModelServer) -> Iterator[Client]:
    with Client(bootstrap_servers=server.bootstrap_servers, unknown_topic_timeout_ms=300, retry_backoff_max_ms=100) as made:
        yield made


NOTHING = {"wanted": set(), "topics": set(), "names": 0, "offline": 0, "waiters": 0, "promises": 0}


def metadata_requests(server: ModelServer, seconds: float) -> int:
    """How many come within `seconds`."""
    before = server.do(lambda cluster: cluster.requests["Metadata"])
    threading.Event().wait(seconds)
    return int(server.do(lambda cluster: cluster.requests["Metadata"])) - before


def test_a_misspelt_topic_is_not_requested_after_the_wait_ended(server: ModelServer, client: Client) -> None:
    with pytest.raises(KafkaTimeoutError):
        client.partitions_for("typo", timeout=0.2)
    assert remembered(inspect(client).runtime) == NOTHING
    assert client.status()["topics"] == {}
    assert metadata_requests(server, 0.5) == 0


def test_calls_that_time_out_in_an_outage_leave_nothing(server: ModelServer, client: Client) -> None:
    client.refresh_metadata(timeout=LIMIT)
    server.do(lambda cluster: [cluster.stop_broker(node) for node in list(cluster.brokers)])
    for _ in range(20):
        for ask in (lambda: client.refresh_metadata(["t", "typo"], timeout=0.01), lambda: client.partitions_for("t", timeout=0.01)):
            with pytest.raises(KafkaTimeoutError):
                ask()
    assert remembered(inspect(client).runtime) == NOTHING


def test_refreshing_no_topics_asks_a_broker_and_returns(client: Client) -> None:
    client.refresh_metadata([], timeout=LIMIT)
    assert client.status()["cluster_id"] == "model-cluster"


def test_a_deleted_topic_is_not_offline_once_its_consumer_is_closed(server: ModelServer, client: Client) -> None:
    consumer = Consumer(client=client, auto_offset_reset="earliest", fetch_max_wait_ms=20)
    consumer.assign([("t", 0), ("t", 1)])
    consumer.poll(0.1)
    server.do(lambda cluster: cluster.delete_topic("t"))
    until(lambda: client.status()["offline"])
    consumer.close()
    assert (client.status()["offline"], client.status()["topics"]) == ({}, {})
    assert remembered(inspect(client).runtime) == NOTHING
    assert metadata_requests(server, 0.5) <= 1, "one was on its way at most"
    assert metadata_requests(server, 0.5) == 0


def test_members_of_a_group_leave_nothing(server: ModelServer, client: Client) -> None:
    with Consumer(client=client, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t", "typo"])
        until(lambda: consumer.poll(0.05) is not None and consumer.assignment())
        consumer.unsubscribe()
        assert remembered(inspect(client).runtime) == NOTHING
        consumer.subscribe(["t"])
        until(lambda: consumer.poll(0.05) is not None and consumer.assignment())
    assert remembered(inspect(client).runtime) == NOTHING


def test_an_idle_producer_does_not_bring_a_deleted_topic_back_and_a_busy_one_does(server: ModelServer, client: Client) -> None:
    with Producer(client=client, linger_ms=0) as producer:
        producer.send("fresh", b"x").result(LIMIT)
        server.do(lambda cluster: cluster.delete_topic("fresh"))
        client.refresh_metadata(["fresh"], timeout=LIMIT)
        until(lambda: not inspect(client).loop.ask(lambda now: inspect(client).engine.cluster.partitions("fresh"), LIMIT))
        metadata_requests(server, 0.5)
        assert server.do(lambda cluster: "fresh" not in cluster.topics)
        assert producer.send("fresh", b"y").result(LIMIT).offset == 0
    assert [record.value for record in server.records("fresh")] == [b"y"]


def test_a_closed_producer_wants_nothing_of_a_shared_client(server: ModelServer, client: Client) -> None:
    producer = Producer(client=client, linger_ms=0)
    producer.send("t", b"x").result(LIMIT)
    producer.send("u-1", b"x").result(LIMIT)
    assert remembered(inspect(client).runtime)["wanted"] == {"t", "u-1"}
    producer.close(LIMIT)
    assert remembered(inspect(client).runtime) == NOTHING


def test_a_partition_that_was_just_added_can_be_sent_to_at_once(server: ModelServer) -> None:
    with Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=0, retry_backoff_ms=1) as producer:
        producer.send("t", b"x", partition=0).result(LIMIT)
        server.do(lambda cluster: cluster.add_partitions("t", 3))
        until(lambda: inspect(producer).loop.ask(lambda now: inspect(producer).engine.cluster.age("t", now), LIMIT) > 0.001)
        assert producer.send("t", b"y", partition=2).result(LIMIT).partition == 2
    assert [record.value for record in server.records("t", 2)] == [b"y"]


def test_a_partition_that_is_not_there_is_refused_and_brokers_are_not_hammered_about_it(server: ModelServer) -> None:
    with Producer(
        bootstrap_servers=server.bootstrap_servers, linger_ms=0, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000
    ) as producer:
        producer.send("t", b"x", partition=0).result(LIMIT)
        before = server.do(lambda cluster: cluster.requests["Metadata"])
        for _ in range(100):
            with pytest.raises(ValueError, match="partition=2, but the highest partition of the topic is 1"):
                producer.send("t", b"y", partition=2)
        assert server.do(lambda cluster: cluster.requests["Metadata"]) <= before + 1


def test_without_a_reachable_broker_an_unknown_partition_is_refused_within_max_block_ms(server: ModelServer) -> None:
    options = {"linger_ms": 0, "retry_backoff_ms": 1, "max_block_ms": 200, "delivery_timeout_ms": 500}
    with Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
        producer.send("t", b"x", partition=0).result(LIMIT)
        server.do(lambda cluster: [cluster.stop_broker(node) for node in list(cluster.brokers)])
        began = time.monotonic()
        with pytest.raises(ValueError, match="partition=2"):
            producer.send("t", b"y", partition=2)
        assert 0.15 < time.monotonic() - began < LIMIT


def test_topics_unused_for_long_are_dropped_and_can_be_used_again(server: ModelServer) -> None:
    options = {"linger_ms": 0, "metadata_max_idle_ms": 100, "metadata_max_age_ms": 50}
    with Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
        runtime = inspect(producer).runtime
        for number in range(20):
            producer.send(f"day-{number}", b"1").result(LIMIT)
        until(lambda: remembered(runtime) == NOTHING)
        for number in range(20):
            producer.send(f"day-{number}", b"2").result(LIMIT)
    for number in range(20):
        assert sorted(record.value or b"" for record in server.records(f"day-{number}")) == [b"1", b"2"]
