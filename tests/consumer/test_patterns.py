"""Subscriptions by pattern, with real threads and model brokers."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read

SOON = {"metadata_max_age_ms": 200}


def topics_of(consumer: Any) -> set[str]:
    return {tp.topic for tp in consumer.assignment()}


def create(server: ModelServer, *topics: str, partitions: int = 1) -> None:
    for topic in topics:
        server.create_topic(topic, partitions)


@pytest.mark.parametrize(
    ("topics", "exclude", "expected"),
    [
        ("orders-.*", None, {"orders-1", "orders-2", "orders-old"}),
        (re.compile("ORDERS-[12]", re.IGNORECASE), None, {"orders-1", "orders-2"}),
        ("orders-.*", ["orders-old"], {"orders-1", "orders-2"}),
        ("orders-.*", ".*-(old|2)", {"orders-1"}),
        (".*", [re.compile("orders-.*"), "u"], {"my.orders-1"}),
        (["u", re.compile(".*-1")], None, {"u", "orders-1", "my.orders-1"}),
        ("orders", None, set()),
    ],
)
def test_a_pattern_means_the_topics_whose_whole_name_matches(
    server: ModelServer, make: Maker, topics: Any, exclude: Any, expected: set[str]
) -> None:
    create(server, "orders-1", "orders-2", "orders-old", "my.orders-1", "u", "__consumer_offsets")
    consumer, told = make(group_id="g"), Listener()
    consumer.subscribe(topics, told, exclude)
    poll_until(consumer, lambda: told.told)
    assert topics_of(consumer) == consumer.subscription() == expected


def test_internal_topics_are_read_only_if_they_are_wanted(server: ModelServer, make: Maker) -> None:
    create(server, "__consumer_offsets", "mine")
    consumer = make(group_id="g", exclude_internal_topics=False)
    consumer.subscribe(".*")
    poll_until(consumer, consumer.assignment)
    assert topics_of(consumer) == {"__consumer_offsets", "mine"}


def test_a_topic_that_comes_later_is_read_from_its_beginning_with_latest(server: ModelServer, make: Maker) -> None:
    create(server, "a-1")
    fill(server, "a-1", 0, numbers(0, 5))
    consumer = make(group_id="g", auto_offset_reset="latest", **SOON)
    consumer.subscribe("a-.*")
    poll_until(consumer, consumer.assignment)
    assert consumer.position(("a-1", 0), LONG) == 5
    create(server, "a-2", partitions=2)
    fill(server, "a-2", 0, numbers(0, 5))
    fill(server, "a-2", 1, numbers(5, 10))
    assert sorted(record.value for record in read(consumer, 10)) == numbers(0, 10)


def test_every_member_of_a_group_gets_its_share_of_a_topic_that_comes_later(server: ModelServer, make: Maker) -> None:
    create(server, "a-1", partitions=2)
    members = [make(group_id="g", auto_offset_reset="latest", **SOON) for _ in range(2)]
    for member in members:
        member.subscribe("a-.*")
    poll_all(members, lambda: all(len(member.assignment()) == 1 for member in members))
    create(server, "a-2", partitions=2)
    fill(server, "a-2", 0, numbers(0, 5))
    fill(server, "a-2", 1, numbers(5, 10))
    records: list[Any] = []
    poll_all(members, lambda: len({r.value for r in records}) == 10 and all(len(m.assignment()) == 2 for m in members), records)
    assert sorted({record.value for record in records}) == numbers(0, 10)


def poll_all(members: list[Any], condition: Any, records: list[Any] | None = None) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, [member.status() for member in members]
        for member in members:
            found = member.poll(0.05)
            if records is not None:
                records += found


def test_a_deleted_topic_leaves_the_assignment_within_seconds(server: ModelServer, make: Maker) -> None:
    create(server, "a-1", "a-2")
    consumer, told = make(group_id="g", **SOON), Listener()
    consumer.subscribe("a-.*", told)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    fill(server, "a-2", 0, numbers(0, 5))
    read(consumer, 5)
    begin = time.monotonic()
    server.do(lambda cluster: cluster.delete_topic("a-2"))
    poll_until(consumer, lambda: told.kinds == ["assigned", "revoked", "assigned"])
    assert told.told[-1] == ("assigned", [TopicPartition("a-1", 0)])
    assert consumer.subscription() == {"a-1"}
    assert time.monotonic() - begin < 4.5, "the last commit of the deleted topic was not waited for"


def test_a_pattern_that_could_take_exponential_time_is_refused_by_subscribe(make: Maker) -> None:
    consumer = make(group_id="g")
    with pytest.raises(ConfigError, match=r"pattern '\(a\+\)\+b' could take exponential time"):
        consumer.subscribe("(a+)+b")
    with pytest.raises(ConfigError, match="could take exponential time"):
        consumer.subscribe("a.*", exclude="(a|b)+")


def test_a_pattern_that_takes_long_does_not_stop_the_heartbeats(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    create(server, "a-1")
    consumer, told = make(group_id="g", session_timeout_ms=300, **SOON), Listener()
    consumer.subscribe("a-.*", told)
    poll_until(consumer, consumer.assignment)
    select = TopicFilter.select

    def slowly(*given: Any) -> Any:
        beats = server.do(lambda cluster: cluster.requests["Heartbeat"])
        server.wait_for(lambda cluster: cluster.requests["Heartbeat"] >= beats + 12)  # twice the session
        return select(*given)

    monkeypatch.setattr(TopicFilter, "select", slowly)
    create(server, "a-2")
    poll_until(consumer, lambda: topics_of(consumer) == {"a-1", "a-2"})
    assert "lost" not in told.kinds


def test_another_subscription_replaces_the_pattern(server: ModelServer, make: Maker) -> None:
    create(server, "a", "b")
    consumer = make(group_id="g")
    consumer.subscribe("a")
    poll_until(consumer, lambda: topics_of(consumer) == {"a"})
    consumer.subscribe("b|c")
    assert consumer.subscription() == set()
    poll_until(consumer, lambda: topics_of(consumer) == {"b"})
    consumer.subscribe(["a"])
    assert consumer.subscription() == {"a"}
    poll_until(consumer, lambda: topics_of(consumer) == {"a"})
    consumer.subscribe("b|c")
    consumer.unsubscribe()
    assert consumer.subscription() == set()
    with pytest.raises(ConfigError, match="call subscribe or assign first"):
        consumer.poll(0)


def test_commits_of_a_member_by_pattern_are_those_of_a_member(server: ModelServer, make: Maker) -> None:
    create(server, "a-1")
    fill(server, "a-1", 0, numbers(0, 5))
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.subscribe("a-.*")
    read(consumer, 5)
    consumer.commit()
    place = consumer.committed(("a-1", 0))
    assert place is not None
    assert place.offset == 5
    assert consumer.group_metadata().generation_id == 1


@pytest.mark.parametrize(
    ("topics", "exclude", "error", "match"),
    [
        ("orders-(", None, ConfigError, r"'orders-\(' is not a regular expression: missing"),
        (re.compile(b"a"), None, TypeError, "pattern of bytes"),
        (b"orders", None, TypeError, "list of topic names, or a pattern"),
        (5, None, TypeError, "list of topic names, or a pattern, not 5"),
        (["orders-.*"], None, ConfigError, r"an item of a list is a name: for a pattern pass re\.compile\('orders-\.\*'\)"),
        (["a"], ["b"], ConfigError, "without a pattern"),
        (["a", re.compile("b")], "a|c", ConfigError, "'a' is both subscribed to by name and excluded"),
        ("a", [5], TypeError, "topic"),
        (r"(a|aa)+\1", None, ConfigError, "exponential time"),
        ("by-.*", None, ConfigError, "'by-hand' matches the pattern of the subscription and is assigned"),
        (["by-hand", re.compile("a")], None, ConfigError, "'by-hand' is both subscribed and assigned"),
    ],
)
def test_misuse_is_answered_with_the_right_way(
    server: ModelServer, make: Maker, topics: Any, exclude: Any, error: type[Exception], match: str
) -> None:
    create(server, "by-hand")
    consumer = make(group_id="g")
    consumer.assign([("by-hand", 0)])
    with pytest.raises(error, match=match):
        consumer.subscribe(topics, None, exclude)
    assert consumer.subscription() == set()


def test_what_matches_a_pattern_cannot_be_assigned(server: ModelServer, make: Maker) -> None:
    create(server, "a-1", "b")
    consumer = make(group_id="g")
    consumer.subscribe("a-.*")
    with pytest.raises(ConfigError, match="'a-1' matches the pattern"):
        consumer.assign([("a-1", 0)])
    consumer.assign([("b", 0)])
    poll_until(consumer, lambda: topics_of(consumer) == {"a-1", "b"})
