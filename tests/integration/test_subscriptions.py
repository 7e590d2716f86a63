"""Subscriptions on real brokers: patterns, topics and partitions that come later, an extended lease, commits of one topic, times."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from integration.cluster import Cluster
from integration.waiting import Deadline
from pykafka4 import BrokerError, ConfigError, Consumer, GroupError, Producer, Record, SubscriptionPattern
from tests.integration.reading import GROUP, LONG_S, SECONDS, Notes, poll_until, produce, read, values

pytestmark = pytest.mark.cluster

SOON = {"metadata_max_age_ms": 1_000}
LATEST = {**GROUP, "auto_offset_reset": "latest"}


def test_topics_come_and_go_under_a_pattern_and_no_record_is_skipped(cluster: Cluster, topic: str) -> None:
    """With latest. The records of each new topic are written before the consumer can know of it."""
    cluster.create_topic(f"{topic}-1", 2)
    cluster.create_topic(f"{topic}-old", 1)
    produce(cluster, f"{topic}-1", 0, 50)
    with Consumer(**cluster.client, **LATEST, **SOON, group_id=topic) as consumer:
        consumer.subscribe(f"{topic}-.*", exclude=[f"{topic}-old"])
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        assert sum(consumer.position(tp, LONG_S) for tp in consumer.assignment()) == 50
        cluster.create_topic(f"{topic}-2", 3)
        produce(cluster, f"{topic}-2", 0, 100)
        produce(cluster, f"{topic}-1", 100, 200)
        assert values(read(consumer, 200)) == list(range(200))
        assert consumer.subscription() == {f"{topic}-1", f"{topic}-2"}
        cluster.delete_topic(f"{topic}-1")
        poll_until(consumer, lambda: {tp.topic for tp in consumer.assignment()} == {f"{topic}-2"}, SECONDS + SECONDS)
        produce(cluster, f"{topic}-2", 200, 300)
        assert values(read(consumer, 100)) == list(range(200, 300))
        cluster.create_topic(f"{topic}-1", 1)
        produce(cluster, f"{topic}-1", 300, 310)
        assert values(read(consumer, 10)) == list(range(300, 310))


@pytest.mark.main_job
def test_without_a_group_every_consumer_reads_all_partitions_also_new_ones(cluster: Cluster, topic: str) -> None:
    """With latest: the partitions of the beginning from their end, later ones and later topics from their first record."""
    cluster.create_topic(f"{topic}-1", 2)
    produce(cluster, f"{topic}-1", 0, 50)
    latest = {"auto_offset_reset": "latest", **SOON}
    with Consumer(**cluster.client, **latest) as first, Consumer(**cluster.client, **latest) as second:
        for consumer in (first, second):
            consumer.subscribe(f"{topic}-.*")
            poll_until(consumer, lambda consumer=consumer: len(consumer.assignment()) == 2)
            assert sum(consumer.position(tp, LONG_S) for tp in consumer.assignment()) == 50
        cluster.add_partitions(f"{topic}-1", 3)
        cluster.create_topic(f"{topic}-2", 1)
        produce(cluster, f"{topic}-1", 100, 150, partition=2)
        produce(cluster, f"{topic}-2", 150, 200)
        for consumer in (first, second):
            assert values(read(consumer, 100)) == list(range(100, 200))
            assert len(consumer.assignment()) == 4
            with pytest.raises(ConfigError, match="group_id"):
                consumer.commit()


def test_internal_topics_match_only_if_they_are_wanted(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    for excluded, expected in ((True, set()), (False, {"__consumer_offsets"})):
        with Consumer(**cluster.client, **GROUP, group_id=f"{topic}-{excluded}", exclude_internal_topics=excluded) as consumer:
            consumer.subscribe(f"{topic}|__consumer_offsets")
            poll_until(consumer, consumer.assignment)
            assert consumer.subscription() == {topic} | expected


def test_a_group_by_pattern_reads_a_topic_that_comes_later_once_each_record(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(f"{topic}-1", 2)
    with (
        Consumer(**cluster.client, **LATEST, **SOON, group_id=topic) as first,
        Consumer(**cluster.client, **LATEST, **SOON, group_id=topic) as second,
    ):
        members, records, deadline = (first, second), [], Deadline(LONG_S)
        for member in members:
            member.subscribe(f"{topic}-.*")

        def polled_until_each_has(partitions: int, count: int) -> None:
            while not (all(len(member.assignment()) == partitions for member in members) and len(records) >= count):
                assert not deadline.passed(), [member.status() for member in members]
                for member in members:
                    records.extend(member.poll(0.1))

        polled_until_each_has(1, 0)
        cluster.create_topic(f"{topic}-2", 2)
        produce(cluster, f"{topic}-2", 0, 100)
        polled_until_each_has(2, 100)
    assert values(records) == list(range(100))


def test_the_coordinator_matches_a_subscription_pattern_and_no_record_is_skipped(cluster: Cluster, topic: str) -> None:
    """With latest, and metadata that is minutes old. Records of the later topic are written before anybody can know of it."""
    cluster.create_topic(f"{topic}-1", 2)
    cluster.create_topic(f"{topic}-x", 1)
    produce(cluster, f"{topic}-1", 0, 50)
    options = {"group_protocol": "consumer", "auto_offset_reset": "latest", "group_id": topic}
    with Consumer(**cluster.client, **options) as first, Consumer(**cluster.client, **options) as second:
        members, records, deadline = (first, second), [], Deadline(LONG_S)
        for member in members:
            member.subscribe(SubscriptionPattern(f"{topic}-[0-9]+"))

        def only(member: Consumer) -> set[str]:
            return {tp.topic for tp in member.assignment()}

        def polled_until(condition: Callable[[], bool]) -> None:
            while not condition():
                assert not deadline.passed(), [member.status()["consumer"] for member in members]
                for member in members:
                    records.extend(member.poll(0.1))

        polled_until(lambda: all(len(member.assignment()) == 1 for member in members))
        assert sum(member.position(tp, LONG_S) for member in members for tp in member.assignment()) == 50
        cluster.create_topic(f"{topic}-2", 2)
        produce(cluster, f"{topic}-2", 0, 100)
        polled_until(lambda: len(records) >= 100)
        assert values(records) == list(range(100))
        assert first.subscription() == second.subscription() == {f"{topic}-1", f"{topic}-2"}
        first.subscribe([f"{topic}-1"])
        polled_until(lambda: sum(len(member.assignment()) for member in members) == 4 and only(first) == {f"{topic}-1"})


def test_what_the_coordinator_refuses_or_knows_alone_is_said(cluster: Cluster, topic: str) -> None:
    options = {"group_protocol": "consumer", "auto_offset_reset": "earliest", "group_id": topic}
    cluster.create_topic(topic, 1)
    with Consumer(**cluster.client, **options) as consumer:
        consumer.subscribe(SubscriptionPattern(f"(?!x){topic}"))  # RE2 has no look-ahead
        with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"):
            poll_until(consumer, consumer.assignment)
        consumer.subscribe(SubscriptionPattern(f"{topic}|__consumer_offset."))
        poll_until(consumer, lambda: len(consumer.assignment()) > 1)
        assert consumer.subscription() == {topic, "__consumer_offsets"}


@pytest.mark.parametrize("by_pattern", [False, True], ids=["by name", "by pattern"])
def test_records_of_partitions_that_are_added_are_all_read_with_latest(cluster: Cluster, topic: str, by_pattern: bool) -> None:
    """They are written before the consumer can know of the partitions (KAFKA-12478)."""
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, 20)
    with Consumer(**cluster.client, **LATEST, metadata_max_age_ms=3_000, group_id=topic) as consumer:
        consumer.subscribe(topic if by_pattern else [topic])
        poll_until(consumer, consumer.assignment)
        assert consumer.position((topic, 0), LONG_S) == 20
        cluster.add_partitions(topic, 3)
        for partition in range(3):
            produce(cluster, topic, 100 * partition, 100 * partition + 100, partition)
        assert values(read(consumer, 300)) == list(range(300))
        assert len(consumer.assignment()) == 3


def test_an_extended_lease_keeps_the_partitions_until_a_rebalance(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    options = {**GROUP, "max_poll_interval_ms": 2_000, "group_id": topic}
    notes = Notes()
    with Consumer(**cluster.client, **options) as consumer:
        consumer.subscribe([topic], notes)
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        consumer.extend_lease(LONG_S)
        time.sleep(5)  # two and a half times max_poll_interval_ms: what is tested is that nothing happens
        consumer.commit({(topic, 0): 0})
        consumer.poll(0)
        assert notes.kinds == ["assigned"]
        consumer.extend_lease(LONG_S)
        with Consumer(**cluster.client, **options) as other:
            other.subscribe([topic])
            poll_until(other, lambda: len(other.assignment()) == 2, SECONDS)  # it has waited for max_poll_interval_ms only
            with pytest.raises(GroupError):
                consumer.extend_lease(LONG_S)
            with pytest.raises(GroupError):
                consumer.commit({(topic, 0): 0})
        poll_until(consumer, lambda: notes.kinds[:3] == ["assigned", "lost", "assigned"])


def test_a_commit_of_one_topic_leaves_the_others(cluster: Cluster, topic: str) -> None:
    topics = [f"{topic}-1", f"{topic}-2"]
    for name in topics:
        cluster.create_topic(name, 1)
        produce(cluster, name, 0, 10, 0)
    with Consumer(**cluster.client, **GROUP, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe(topics)
        read(consumer, 20)
        consumer.commit(topic=topics[1])
        places = consumer.committed([(name, 0) for name in topics])
        assert [place and place.offset for place in places.values()] == [None, 10]


def test_seek_to_time_finds_the_first_record_that_is_not_older(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    now = int(time.time() * 1000)
    with Producer(**cluster.client) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n, timestamp_ms=now - 10_000 + 1_000 * n)
    with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        for time_ms, offset in ((0, 0), (now - 5_500, 5), (now - 5_000, 5), (now, 10)):
            consumer.seek_to_time(time_ms)
            assert consumer.position((topic, 0), LONG_S) == offset
        consumer.seek_to_time(now - 2_000)
        records: list[Record] = read(consumer, 2)
        assert values(records) == [8, 9]
