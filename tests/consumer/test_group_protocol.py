"""`group_protocol="consumer"` (KIP-848), from the application's side, against the model."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.errors import BrokerError, ConfigError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import Listener, Maker, fill, numbers, poll_until, read, topic

MODERN: dict[str, Any] = {"group_id": "g", "group_protocol": "consumer", "auto_offset_reset": "earliest"}


@pytest.fixture
def quick(server: ModelServer) -> ModelServer:
    """A server whose groups have short intervals and sessions."""

    def hurry(cluster: Any) -> None:
        cluster.coordinators.heartbeat_interval, cluster.coordinators.session_timeout = 0.05, 2.0

    server.do(hurry)
    return server


def members_of(server: ModelServer) -> int:
    return int(server.do(lambda cluster: len(cluster.group("g").modern.members)))


def test_members_share_partitions_commit_and_leave(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0, 0, 0, 0)
    told, theirs = Listener(), Listener()
    first = make(**MODERN)
    first.subscribe(["t"], told)
    poll_until(first, lambda: len(first.assignment()) == 4)
    fill(quick, "t", 0, numbers(0, 5))
    fill(quick, "t", 3, numbers(0, 5))
    read(first, 10)
    first.commit()
    second = make(**MODERN)
    second.subscribe(["t"], theirs)
    poll_until(second, lambda: first.poll(0) or len(second.assignment()) == 2)
    assert len(first.assignment()) == 2
    assert not first.assignment() & second.assignment()
    assert told.kinds == ["assigned", "revoked"]
    assert theirs.kinds[-1] == "assigned"
    status = second.status()["consumer"]
    assert (status["state"], len(status["member_id"])) == ("stable", 36)
    assert status["generation"] == second.group_metadata().generation_id > 1
    second.close()
    assert members_of(quick) == 1
    poll_until(first, lambda: len(first.assignment()) == 4)
    assert first.committed([("t", 0), ("t", 3)]) == {TopicPartition("t", number): OffsetAndMetadata(5, 0) for number in (0, 3)}


def test_a_member_that_polls_too_rarely_leaves_and_joins_again(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0)
    told = Listener()
    consumer = make(**MODERN, max_poll_interval_ms=200)
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    quick.wait_for(lambda cluster: not cluster.group("g").modern.members)
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


def test_a_fenced_member_loses_its_partitions_and_joins_again(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0)
    told = Listener()
    consumer = make(**MODERN)
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    quick.fail("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH")
    poll_until(consumer, lambda: told.kinds == ["assigned", "lost", "assigned"])


def test_a_coordinator_change_is_no_rebalance(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0, 0)
    told = Listener()
    consumer = make(**MODERN)
    consumer.subscribe(["t"], told)
    poll_until(consumer, consumer.assignment)
    node = quick.do(lambda cluster: cluster.coordinator("g"))
    quick.do(lambda cluster: cluster.stop_broker(node, failover=0.1))
    fill(quick, "t", 0, numbers(0, 5))
    read(consumer, 5)
    consumer.commit()
    assert told.kinds == ["assigned"]


def test_a_static_member_restarts_with_its_partitions(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0, 0)
    for _ in range(2):
        consumer = make(**MODERN, group_instance_id="i")
        consumer.subscribe(["t"])
        poll_until(consumer, lambda member=consumer: len(member.assignment()) == 2)
        consumer.close()
    assert members_of(quick) == 1  # it is expected back


def test_a_pattern_that_matches_nothing_yet_joins_when_there_is_a_topic(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0)
    consumer = make(**MODERN, metadata_max_age_ms=100)
    consumer.subscribe("new-.*")
    before = quick.do(lambda cluster: cluster.requests["Metadata"])
    poll_until(consumer, lambda: quick.do(lambda cluster: cluster.requests["Metadata"]) > before + 2)
    assert members_of(quick) == 0
    quick.create_topic("new-1", 2)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)


def test_brokers_without_the_protocol_are_told_apart() -> None:
    with ModelServer(release="3.9") as server:
        server.create_topic("t", 1)
        with Consumer(bootstrap_servers=server.bootstrap_servers, **MODERN) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(UnsupportedVersion, match=r"group_protocol='consumer' needs .*use group_protocol='classic'"):
                poll_until(consumer, lambda: False)


# ---- patterns that the coordinator matches


def test_the_coordinator_matches_a_subscription_pattern(quick: ModelServer, make: Maker) -> None:
    """Also for a topic that comes later: it is noticed although metadata_max_age_ms is minutes, and read from its beginning."""
    for name in ("orders-1", "audit", "other"):
        quick.create_topic(name, 1)
    consumer = make(**MODERN | {"auto_offset_reset": "latest"})
    consumer.subscribe(["audit", SubscriptionPattern("orders-.*")])
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    member = quick.do(lambda cluster: [(m.topics, m.regex) for m in cluster.group("g").modern.members.values()])
    assert member == [(("audit",), "orders-.*")]
    assert consumer.subscription() == {"audit", "orders-1"}
    quick.create_topic("orders-2", 2)
    fill(quick, "orders-2", 1, numbers(0, 5))
    assert len(read(consumer, 5)) == 5
    assert consumer.subscription() == {"audit", "orders-1", "orders-2"}
    consumer.subscribe(["audit"])
    poll_until(consumer, lambda: len(consumer.assignment()) == 1)
    assert quick.do(lambda cluster: [m.regex for m in cluster.group("g").modern.members.values()]) == [""]


def test_a_pattern_that_only_python_knows_ends_the_member_with_the_coordinators_error(quick: ModelServer, make: Maker) -> None:
    topic(quick, 0)
    consumer = make(**MODERN)
    quick.fail("ConsumerGroupHeartbeat", "INVALID_REGULAR_EXPRESSION")
    consumer.subscribe(SubscriptionPattern("(?!x)t"))
    with pytest.raises(BrokerError, match=r"INVALID_REGULAR_EXPRESSION"):
        poll_until(consumer, consumer.assignment)


PATTERN = SubscriptionPattern("a.*")


@pytest.mark.parametrize(
    ("protocol", "topics", "exclude", "message"),
    [
        (
            "classic",
            PATTERN,
            None,
            r"only coordinators of group_protocol='consumer' match a SubscriptionPattern; pass re.compile\('a\.\*'\)",
        ),
        ("consumer", [PATTERN, SubscriptionPattern("b")], None, "one pattern per member; combine the patterns"),
        ("consumer", [PATTERN, re.compile("b")], None, "one pattern per member; combine the patterns"),
        ("consumer", PATTERN, ["abc"], "the coordinator excludes nothing"),
        ("consumer", "a.*", [PATTERN], "the coordinator excludes nothing"),
        ("consumer", SubscriptionPattern("("), None, "is not a regular expression"),
    ],
)
def test_a_subscription_pattern_is_refused_where_no_coordinator_matches_it(
    server: ModelServer, make: Maker, protocol: str, topics: Any, exclude: Any, message: str
) -> None:
    consumer = make(**MODERN | {"group_protocol": protocol})
    with pytest.raises(ConfigError, match=message):
        consumer.subscribe(topics, exclude=exclude)


@pytest.mark.parametrize("pattern", [b"a", None, 5, re.compile("a")])
def test_a_subscription_pattern_is_text(pattern: Any) -> None:
    with pytest.raises(TypeError, match="SubscriptionPattern takes a regular expression as text"):
        SubscriptionPattern(pattern)
