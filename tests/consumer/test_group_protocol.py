"""`group_protocol="consumer"` (KIP-848), from the application's side, against the model."""

from __future__ import annotations

from typing import Any

import pytest
from consuming import Listener, Maker, fill, numbers, poll_until, read, topic

from pykafka4.consumer import Consumer
from pykafka4.errors import UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import ModelServer

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
