"""Destructors of the application may run on a client's own thread: nothing waits there, and `close` is done by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4 import Client, Consumer, Producer
from pykafka4.errors import KafkaTimeoutError
from pykafka4.net.loop import Loop
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, read, topic
from tests.consumer.streaming import member
from tests.inspection import inspect, thread_of

FOREVER = 10 * LONG


class Where(Listener):
    """Notes on which threads it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        super().on_partitions_revoked(partitions)
        self.threads.append(threading.current_thread())


def destructor(loop: Loop, act: Callable[[], object]) -> list[BaseException]:
    """Run `act` on the loop's thread, as the collector may run a destructor there; returns what it raises."""
    raised: list[BaseException] = []
    returned = threading.Event()

    def run(now: float) -> None:
        try:
            act()
        except Exception as error:
            raised.append(error)
        finally:
            returned.set()

    loop.call(run)
    assert returned.wait(LONG), "the loop waits for what only the loop does"
    return raised


def left_with(server: ModelServer, offset: int) -> None:
    server.wait_for(lambda cluster: not cluster.group("g").members)
    assert server.committed("g") == {("t", 0): offset}


def finished(consumer: Consumer, listener: Listener | None = None) -> Loop:
    """Read five records as a member of the group, and ask for more; returns the loop."""
    consumer.subscribe(["t"], listener)
    read(consumer, 5)
    consumer.poll(0)
    return inspect(consumer).loop


@pytest.mark.parametrize("client", ["shared", "of its own"])
def test_a_consumer_that_is_closed_on_the_loop_commits_calls_the_listener_and_leaves(server: ModelServer, make: Maker, client: str) -> None:
    topic(server, 5)
    listener = Where()
    with Client(bootstrap_servers=server.bootstrap_servers) as shared:
        consumer = make(group_id="g", client=shared) if client == "shared" else make(group_id="g")
        loop = finished(consumer, listener)
        assert destructor(loop, lambda: consumer.close(FOREVER)) == []
        left_with(server, 5)
        assert listener.kinds[-1] == "revoked"
        assert thread_of(loop) not in listener.threads


def test_a_block_that_ends_on_the_loop_closes_its_consumer(server: ModelServer, make: Maker) -> None:
    """The collector ends a generator that has a `with` block."""
    topic(server, 5)

    def records() -> Any:
        with make(group_id="g") as consumer:
            yield finished(consumer)

    generator = records()
    loop = next(generator)
    assert destructor(loop, generator.close) == []
    left_with(server, 5)


def test_a_client_that_is_closed_on_the_loop_closes_its_consumers(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    loop = finished(make(group_id="g", client=client))
    assert destructor(loop, lambda: client.close(LONG)) == []
    left_with(server, 5)
    thread_of(loop).join(LONG)
    assert not loop.alive


@pytest.mark.parametrize("whose", ["its own", "another client's"])
def test_a_client_that_is_closed_on_a_loop_delivers_what_its_producers_have(server: ModelServer, whose: str) -> None:
    server.create_topic("t", 1)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    producer = Producer(client, linger_ms=1_000)
    producer.send("t", b"a").result(LONG)
    with Client(bootstrap_servers=server.bootstrap_servers) as other:
        loop = inspect(client if whose == "its own" else other).loop
        server.delay("Produce", 0.2)
        delivery = producer.send("t", b"b")
        assert destructor(loop, lambda: client.close(LONG)) == []
        assert delivery.result(LONG).offset == 1
        inspect(client).thread.join(LONG)
    assert not inspect(client).loop.alive


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.poll(FOREVER),
        lambda consumer: consumer.poll(None),
        lambda consumer: next(iter(consumer)),
        lambda consumer: consumer.commit({("t", 0): 3}, FOREVER),
        lambda consumer: consumer.committed([("t", 0)], FOREVER),
        lambda consumer: consumer.extend_lease(1),
    ],
)
def test_a_call_that_would_wait_on_the_loop_says_why_it_does_not(
    server: ModelServer, make: Maker, call: Callable[[Consumer], object]
) -> None:
    topic(server, 5)
    consumer = make(group_id="g")
    (error,) = destructor(finished(consumer), lambda: call(consumer))
    assert isinstance(error, KafkaTimeoutError)
    assert "destructor" in str(error)
    consumer.poll(0)


def test_unsubscribe_on_the_loop_commits_and_leaves_without_waiting(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = make(group_id="g")
    assert destructor(finished(consumer), consumer.unsubscribe) == []
    left_with(server, 5)


def test_a_call_on_the_thread_of_another_client_does_not_wait_either(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = make(group_id="g")
    finished(consumer)
    with Client(bootstrap_servers=server.bootstrap_servers) as other:
        (error,) = destructor(inspect(other).loop, lambda: consumer.poll(FOREVER))
        assert isinstance(error, KafkaTimeoutError)
        assert destructor(inspect(other).loop, lambda: consumer.close(FOREVER)) == []
        left_with(server, 5)


def test_streams_that_are_closed_on_the_loop_end_in_the_background(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = member(make)
    streams = consumer.streams({"t": 1}, drain_timeout=FOREVER)
    records = iter(streams[0])
    next(records)
    assert destructor(inspect(consumer).loop, streams.close) == []
    assert list(records) == []
    assert inspect(streams).dispatcher.wait_for_end(LONG)
