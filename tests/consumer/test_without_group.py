"""Subscriptions of a consumer without a group, with real threads and model brokers."""

from __future__ import annotations

import pytest

from pykafka4 import SubscriptionPattern
from pykafka4.errors import ConfigError, NoOffsetForPartition
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic
from tests.net.net_helpers import until

SOON = {"metadata_max_age_ms": 200}


def tps(*partitions: int, name: str = "t") -> list[TopicPartition]:
    return [TopicPartition(name, partition) for partition in partitions]


def test_all_partitions_are_assigned_at_once_and_read(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 0, 7)
    consumer, told = make(), Listener()
    consumer.subscribe(["t"], told)
    records = read(consumer, 12)
    assert sorted(record.partition for record in records) == [0] * 5 + [2] * 7
    assert told.told == [("assigned", tps(0, 1, 2))]
    assert consumer.assignment() == set(tps(0, 1, 2))
    assert consumer.subscription() == {"t"}
    status = consumer.status()["consumer"]
    assert (status["state"], status["group_id"], status["reason"]) == ("stable", None, None)
    consumer.close()
    assert told.told[1:] == [("revoked", tps(0, 1, 2))]
    assert server.do(lambda cluster: cluster.groups) == {}


def test_two_consumers_read_every_partition_each(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    for consumer in (make(), make()):
        consumer.subscribe(["t"])
        assert len(read(consumer, 10)) == 10


def test_commits_are_refused_with_the_option_that_is_missing(server: ModelServer, make: Maker) -> None:
    topic(server, 1)
    consumer = make()
    consumer.subscribe(["t"])
    read(consumer, 1)
    for call in (consumer.commit, consumer.commit_async, lambda: consumer.committed(tps(0)), lambda: consumer.extend_lease(5)):
        with pytest.raises(ConfigError, match="needs a group_id"):
            call()
    with pytest.raises(ConfigError, match="SubscriptionPattern"):
        consumer.subscribe(SubscriptionPattern("t"))


@pytest.mark.parametrize(("policy", "seen"), [("earliest", 5), ("latest", 0)])
def test_partitions_that_come_later_are_read_from_their_beginning(server: ModelServer, make: Maker, policy: str, seen: int) -> None:
    topic(server, 5)
    consumer, told = make(auto_offset_reset=policy, **SOON), Listener()
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment) if not seen else read(consumer, seen)
    assert consumer.position(tps(0)[0], LONG) == 5
    server.do(lambda cluster: cluster.add_partitions("t", 3))
    fill(server, "t", 1, numbers(0, 3))
    fill(server, "t", 2, numbers(3, 6))
    assert sorted(record.value for record in read(consumer, 6)) == numbers(0, 6)
    assert told.told == [("assigned", tps(0)), ("assigned", tps(1, 2))]


def test_topics_come_and_go_under_a_pattern(server: ModelServer, make: Maker) -> None:
    server.create_topic("a-1", 1)
    consumer, told = make(auto_offset_reset="latest", **SOON), Listener()
    consumer.subscribe("a-.*", told)
    poll_until(consumer, consumer.assignment)
    server.create_topic("a-2", 1)
    fill(server, "a-2", 0, numbers(0, 5))
    assert [record.value for record in read(consumer, 5)] == numbers(0, 5)
    server.do(lambda cluster: cluster.delete_topic("a-1"))
    poll_until(consumer, lambda: consumer.assignment() == set(tps(0, name="a-2")))
    server.create_topic("a-1", 1)
    fill(server, "a-1", 0, numbers(5, 9))
    assert [record.value for record in read(consumer, 4)] == numbers(5, 9)
    assert told.told == [
        ("assigned", tps(0, name="a-1")),
        ("assigned", tps(0, name="a-2")),
        ("revoked", tps(0, name="a-1")),
        ("assigned", tps(0, name="a-1")),
    ]


def test_a_topic_that_is_created_later_is_read(server: ModelServer, make: Maker) -> None:
    consumer = make(auto_offset_reset="latest", **SOON)
    server.create_topic("u", 1)
    consumer.subscribe(["t", "u"])
    assert poll_until(consumer, consumer.assignment) == []  # the response that names u says that there is no t
    topic(server, 3)
    assert len(read(consumer, 3)) == 3


def test_a_later_subscription_keeps_the_positions_of_its_topics(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 4))
    consumer, told = make(), Listener()
    consumer.subscribe(["t"], told)
    read(consumer, 4)
    consumer.subscribe(["t", "u"], told)
    assert [record.topic for record in read(consumer, 4)] == ["u"] * 4
    consumer.subscribe(["u"], told)
    poll_until(consumer, lambda: consumer.assignment() == set(tps(0, name="u")))
    assert told.kinds == ["assigned", "assigned", "revoked"]
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    consumer.subscribe(["t"], told)
    assert len(read(consumer, 4)) == 4


def test_a_topic_that_is_subscribed_again_before_its_partitions_are_released_is_read(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    server.create_topic("u", 1)
    consumer = make()
    consumer.subscribe(["t"])
    read(consumer, 4)
    consumer.subscribe(["u"])
    until(lambda: consumer.status()["consumer"]["state"] == "revoking")
    consumer.subscribe(["t"])
    consumer.end_offsets(tps(0))  # the loop goes on meanwhile
    fill(server, "t", 0, [b"new"])
    until(lambda: b"new" in [record.value for record in consumer.poll(0.05)])


def test_seek_pause_and_assign_work_beside_a_subscription(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 3)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 2))
    consumer = make()
    consumer.subscribe(["t"])
    consumer.assign([("u", 0)])
    assert len(read(consumer, 8)) == 8
    consumer.seek(("t", 0), 1)
    assert [record.offset for record in read(consumer, 2)] == [1, 2]
    consumer.pause([("t", 1)])
    fill(server, "t", 1, numbers(3, 4))
    assert consumer.poll(0.2) == []
    consumer.resume([("t", 1)])
    assert [record.offset for record in read(consumer, 1)] == [3]
    with pytest.raises(ConfigError, match="'t'"):
        consumer.assign([("t", 0)])


def test_policy_none_raises_until_a_seek(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make(auto_offset_reset="none")
    consumer.subscribe(["t"])
    with pytest.raises(NoOffsetForPartition, match="group_id is not set"):
        read(consumer, 1)
    consumer.seek(("t", 0), 1)
    assert [record.offset for record in read(consumer, 2)] == [1, 2]


def test_handlers_run_and_nothing_is_committed(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    consumer, handled = make(), list[int]()

    class Enough:
        def is_set(self) -> bool:
            return len(handled) == 10

    consumer.subscribe(["t"])
    consumer.process(lambda record: handled.append(record.offset), stop=Enough(), workers=2)
    assert sorted(handled) == sorted([*range(5)] * 2)
    with make().streams({"t": 1}) as (stream,):
        assert sorted(record.offset for _, record in zip(range(10), stream, strict=False)) == sorted([*range(5)] * 2)
    assert server.do(lambda cluster: cluster.groups) == {}
