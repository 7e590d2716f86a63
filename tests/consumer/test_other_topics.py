"""After `subscribe` of other topics no record of the old ones is returned, and none is lost if the old ones come back."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.testing import ModelServer
from tests.consumer.consuming import Maker, fill, numbers, poll_until, read, topic

PROTOCOLS: list[dict[str, Any]] = [{}, {"partition_assignment_strategy": "cooperative-sticky"}, {"group_protocol": "consumer"}]
each_protocol = pytest.mark.parametrize("options", PROTOCOLS, ids=["range", "cooperative", "consumer"])


@pytest.fixture
def topics(server: ModelServer) -> None:
    topic(server, 50)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 5))


@each_protocol
def test_no_buffered_record_of_an_old_topic_is_returned(make: Maker, topics: None, options: dict[str, Any]) -> None:
    consumer = make.member(**options)
    assert [r.offset for r in read(consumer, 1, max_records=1)] == [0]
    consumer.subscribe(["u"])
    assert [(r.topic, r.offset) for r in read(consumer, 5)] == [("u", offset) for offset in range(5)]
    assert consumer.poll(0) == []


@each_protocol
def test_a_loop_leaves_the_rest_of_its_list(make: Maker, topics: None, options: dict[str, Any]) -> None:
    consumer = make.member(**options)
    got: list[tuple[str, int]] = []
    for record in consumer:
        got.append((record.topic, record.offset))
        if len(got) == 2:
            consumer.subscribe(["u"])
        if len(got) == 7:
            break
    assert got == [("t", 0), ("t", 1), *(("u", offset) for offset in range(5))]


@each_protocol
def test_an_old_topic_that_comes_back_is_read_on_without_a_gap(make: Maker, topics: None, options: dict[str, Any]) -> None:
    consumer = make.member(**options)
    assert [r.offset for r in read(consumer, 3, max_records=3)] == [0, 1, 2]
    consumer.subscribe(["u"])
    consumer.subscribe(["t"])
    assert [(r.topic, r.offset) for r in read(consumer, 47)] == [("t", offset) for offset in range(3, 50)]


@each_protocol
def test_a_topic_in_both_subscriptions_is_read_on(make: Maker, topics: None, options: dict[str, Any]) -> None:
    consumer = make.member(**options)
    read(consumer, 3, max_records=3)
    consumer.subscribe(["t", "u"])
    got = [(r.topic, r.offset) for r in read(consumer, 52)]
    assert [offset for name, offset in got if name == "t"] == list(range(3, 50))


def test_a_pattern_that_matches_the_old_topic_keeps_it(make: Maker, topics: None) -> None:
    consumer = make.member(partition_assignment_strategy="cooperative-sticky")
    read(consumer, 3, max_records=3)
    consumer.subscribe("[st]")
    assert [r.offset for r in consumer.poll(0)] == list(range(3, 50))


def test_partitions_of_assign_are_not_withheld(make: Maker, topics: None) -> None:
    consumer = make(group_id="g")
    consumer.assign([("t", 0)])
    read(consumer, 3, max_records=3)
    consumer.subscribe(["u"])
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    consumer.seek(("t", 0), 3)
    got = [(r.topic, r.offset) for r in read(consumer, 47)]
    assert [offset for name, offset in got if name == "t"] == list(range(3, 50))[: len(got)]


def test_what_was_finished_of_an_old_topic_is_committed(server: ModelServer, make: Maker, topics: None) -> None:
    consumer = make.member()
    read(consumer, 3, max_records=3)
    consumer.subscribe(["u"])
    read(consumer, 5)
    assert consumer.committed([("t", 0)])[("t", 0)].offset == 3
