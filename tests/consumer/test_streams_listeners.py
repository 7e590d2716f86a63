"""Listeners of streams run on the thread that polls: what they may call, and what is subscribed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from integration.waiting import until
from pykafka4.consumer import Consumer
from pykafka4.consumer.processing.streams import Streams
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, fill, numbers, read, topic
from tests.consumer.streaming import Reading, committed, member
from tests.inspection import inspect

T0 = TopicPartition("t", 0)
Call = Callable[[Consumer, Streams], object]


class Calling:
    """Calls something when partitions are revoked, and notes what it raised."""

    def __init__(self, consumer: Consumer, call: Call) -> None:
        self.consumer, self._call = consumer, call
        self.streams: Streams | None = None
        self.outcomes: list[BaseException | None] = []
        self.committed: dict[int, int] = {}

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.outcomes or self.streams is None:
            return
        try:
            self._call(self.consumer, self.streams)
            self.outcomes.append(None)
        except BaseException as error:
            self.outcomes.append(error)
        found = self.consumer.committed([("t", 0), ("t", 1)])
        self.committed = {tp.partition: at.offset for tp, at in found.items() if at is not None}


@pytest.mark.parametrize(
    ("call", "partitions"),
    [
        pytest.param(lambda _, streams: streams.commit(LONG), 2, id="streams.commit"),
        pytest.param(lambda consumer, _: consumer.commit(), 2, id="commit"),
        pytest.param(lambda consumer, _: consumer.commit(topic="t"), 2, id="commit of a topic"),
        pytest.param(lambda _, streams: streams.close(LONG), 1, id="streams.close"),
        pytest.param(lambda _, streams: streams.stop(), 1, id="streams.stop"),
    ],
)
def test_a_listener_does_not_wait_for_its_own_thread_and_commits_only_what_is_finished(
    server: ModelServer, make: Maker, call: Call, partitions: int
) -> None:
    topic(server, 30, 30)
    consumer = member(make, partition_assignment_strategy=["cooperative-sticky"])
    calling = Calling(consumer, call)
    gate, held = threading.Event(), threading.Barrier(3)

    def work(record: object) -> None:
        if getattr(record, "offset", 0) == 10:
            held.wait(LONG)
            assert gate.wait(LONG)

    with consumer.streams({"t": 2}, listener=calling, drain_timeout=0.1) as streams:
        calling.streams = streams
        reading = Reading(streams, work)
        held.wait(LONG)
        second = member(make, partition_assignment_strategy=["cooperative-sticky"])
        second.subscribe(["t"])
        until(lambda: second.poll(0) is not None and calling.outcomes, LONG, "the listener")
        gate.set()
    assert calling.outcomes == [None]
    assert set(calling.committed.values()) == {10}, (calling.committed, reading.places, streams)
    assert len(calling.committed) == partitions
    reading.ended()


def test_an_assignment_of_the_subscription_before_ends_no_stream(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    server.create_topic("old", 1)
    fill(server, "old", 0, numbers(0, 10))
    consumer = member(make)
    consumer.subscribe(["old"])
    consumer.poll(0)
    until(lambda: inspect(consumer).session.reader.ready, LONG, "an assignment that no poll has taken up")
    with consumer.streams({"t": 1}) as streams:
        reading = Reading(streams).wait(10)
    reading.ended()
    assert committed(make, [0]) == {0: 10}
    assert committed(make, [0], "old") == {}


def test_what_is_for_no_stream_is_left_alone(server: ModelServer, make: Maker) -> None:
    topic(server, 20)
    server.create_topic("old", 1)
    fill(server, "old", 0, numbers(0, 10))
    consumer = member(make)

    class Adding:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            if T0 in partitions:
                consumer.subscribe(["t", "old"])

    with consumer.streams({"t": 1}, listener=Adding()) as streams:
        until(lambda: TopicPartition("old", 0) in consumer.paused(), LONG, "the topic that is for no stream")
        reading = Reading(streams).wait(20)
    reading.ended()
    assert {record.topic for got in reading.got for record in got} == {"t"}
    assert committed(make, [0]) == {0: 20}
    assert committed(make, [0], "old") == {}
    assert consumer.paused() == set()
    assert [record.topic for record in read(consumer, 10)] == ["old"] * 10


def test_a_listener_that_subscribes_is_followed_by_the_new_one(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    consumer = member(make)
    told: list[list[TopicPartition]] = []

    class Later:
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            told.append(partitions)

    class First:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            consumer.subscribe(["t"], Later())

    with consumer.streams({"t": 1}, listener=First()) as streams:
        reading = Reading(streams).wait(10)
        second = member(make)
        second.subscribe(["t"])
        until(lambda: second.poll(0) is not None and told, LONG, "the new listener")
        found = committed(make, range(2))
    reading.ended()
    assert found == {0: 5, 1: 5}, "what is finished was committed first"
