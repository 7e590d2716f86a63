"""A topic that grows: records without an explicit partition go to the new partitions as soon as any metadata answer has shown them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from net_talk import SECONDS, until
from producing import Maker, knowing

from pykafka4 import Client, Producer
from pykafka4.testing import ModelServer

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
    def known() -> bool:
        with contextlib.suppress(ValueError):  # metadata asked for less than retry_backoff_ms ago is believed
            producer.send("t", b"x", partition=GROWN - 1).result(SECONDS)
            return True
        return False

    until(known)


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


def test_records_queued_for_a_partition_stay_there_when_the_topic_grows(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client, Producer(client, linger_ms=60_000) as producer:
        knowing(producer)
        queued = [producer.send("t", b"x", key=f"key-{number}") for number in range(200)]
        grow(server)
        client.refresh_metadata(["t"], SECONDS)
        until(lambda: len(producer.partitions_for("t", SECONDS)) == GROWN)
        producer.flush(SECONDS)
        assert {delivery.result(0).partition for delivery in queued} == {0, 1, 2}
