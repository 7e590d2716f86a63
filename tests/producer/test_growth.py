"""A topic that grows: records without an explicit partition go to the new partitions as soon as any metadata answer has shown them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pykafka4 import Client, Delivery, Producer
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import Maker, knowing

GROWN = 12  # partitions; topic t begins with three


def grow(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.add_partitions("t", GROWN))


def used(producer: Producer) -> set[int]:
    """The partitions that 200 keys go to."""
    deliveries = [producer.send("t", b"x", key=f"key-{number}") for number in range(200)]
    producer.flush(SECONDS)
    return {delivery.result(0).partition for delivery in deliveries}


def refresh(server: ModelServer, producer: Producer, client: Client) -> None:
    client.refresh_metadata(["t"], SECONDS)


def lose_connections(server: ModelServer, producer: Producer, client: Client) -> None:
    server.do(lambda cluster: cluster.drop_connections())


def move_a_leader(server: ModelServer, producer: Producer, client: Client) -> None:
    server.do(lambda cluster: cluster.move_leader("t", 0))


def name_a_new_partition(server: ModelServer, producer: Producer, client: Client) -> None:
    producer.send("t", b"x", partition=GROWN - 1).result(SECONDS)


@pytest.mark.parametrize("reason", [refresh, lose_connections, move_a_leader, name_a_new_partition])
def test_keyed_records_use_new_partitions_as_soon_as_metadata_shows_them(
    server: ModelServer, reason: Callable[[ModelServer, Producer, Client], None]
) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client, Producer(client) as producer:
        knowing(producer)
        grow(server)
        assert used(producer) == {0, 1, 2}
        reason(server, producer, client)
        until(lambda: used(producer) == set(range(GROWN)))


def test_new_partitions_are_used_when_the_metadata_has_reached_its_maximum_age(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(metadata_max_age_ms=500))
    grow(server)
    until(lambda: used(producer) == set(range(GROWN)))


def test_send_waits_for_a_partition_of_which_the_brokers_have_not_heard_yet(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(linger_ms=0))
    server.do(lambda cluster: cluster.stale_metadata(0.5))
    grow(server)
    assert producer.send("t", b"x", partition=GROWN - 1).result(SECONDS).partition == GROWN - 1


def test_a_partition_that_brokers_deny_for_a_while_is_refused_and_then_at_once(make: Maker) -> None:
    producer = knowing(make(linger_ms=0, retry_backoff_ms=1, max_block_ms=4_000))
    took = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(ValueError, match="partition=7, but the highest partition of the topic is 2"):
            producer.send("t", b"x", partition=7)
        took.append(time.monotonic() - began)
    assert took[0] >= MISSING_PARTITION_S
    assert max(took[1:]) < MISSING_PARTITION_S


def test_a_send_in_a_callback_fails_at_once_when_the_partition_is_unknown(make: Maker) -> None:
    producer, took = knowing(make(linger_ms=0)), list[float]()

    def callback(_: Delivery) -> None:
        began = time.monotonic()
        with pytest.raises(ValueError, match="partition=7"):
            producer.send("t", b"x", partition=7)
        took.append(time.monotonic() - began)

    producer.send("t", b"x", on_delivery=callback)
    producer.flush(SECONDS)
    assert took[0] < MISSING_PARTITION_S


def test_records_queued_for_a_partition_stay_there_when_the_topic_grows(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client, Producer(client, linger_ms=60_000) as producer:
        knowing(producer)
        queued = [producer.send("t", b"x", key=f"key-{number}") for number in range(200)]
        grow(server)
        client.refresh_metadata(["t"], SECONDS)
        until(lambda: len(producer.partitions_for("t", SECONDS)) == GROWN)
        producer.flush(SECONDS)
        assert {delivery.result(0).partition for delivery in queued} == {0, 1, 2}
