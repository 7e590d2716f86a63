"""A topic that no longer exists: its records fail by name, after `unknown_topic_timeout_ms` and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pykafka4.core import INFINITY
from pykafka4.core.producer.topics.missing import MissingTopics
from pykafka4.errors import DeliveryFailed, KafkaError
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import Written
from tests.core.producer.sender_harness import SenderHarness

LIMIT_S = 20.0


class Deleted:
    """A sender whose topic was just deleted: brokers say that it does not exist."""

    def __init__(self, **options: Any) -> None:
        self.harness = SenderHarness(unknown_topic_timeout_ms=LIMIT_S * 1000, **options).proven()
        self.since: float | None = None
        self.harness.cluster.unknown_since = lambda topic: self.since if topic == "t" else None  # type: ignore[method-assign]
        self.leaders = dict(self.harness.recovery.leaders)
        self.delete()

    def delete(self) -> None:
        self.since = self.harness.now
        self.harness.cluster.error = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"]
        self.harness.recovery.leaders.clear()
        self.harness.cluster.change()
        self.harness.settle()

    def create(self) -> None:
        self.since = self.harness.cluster.error = None
        self.harness.recovery.leaders.update(self.leaders)
        self.harness.cluster.change()
        self.harness.recovery.bring_back()
        self.harness.settle()


def failure(delivery: Any) -> DeliveryFailed:
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    return error


def test_records_of_a_deleted_topic_fail_by_name_and_the_wait_is_from_their_own_sending() -> None:
    deleted = Deleted()
    harness = deleted.harness
    first = harness.batch()
    harness.poll(LIMIT_S / 2)
    second = harness.batch(partition=1)
    harness.poll(LIMIT_S / 2 - 0.1)
    assert not first.done()
    harness.poll(0.2)
    assert failure(first).code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert failure(first).written is Written.NO
    assert f"topic 't' did not exist for {LIMIT_S:g} s" in str(failure(first))
    assert not second.done()
    harness.poll(LIMIT_S / 2)
    assert failure(second).code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_the_machine_wakes_up_for_it() -> None:
    deleted = Deleted(linger_ms=0)
    sent_at = deleted.harness.now
    delivery = deleted.harness.batch()
    wake_at = sent_at
    while not delivery.done():
        deleted.harness.now = wake_at
        wake_at = deleted.harness.poll().wake_at
    assert deleted.harness.now - sent_at < LIMIT_S + 1


def test_a_batch_that_was_in_flight_fails_as_maybe_written() -> None:
    harness = SenderHarness(unknown_topic_timeout_ms=LIMIT_S * 1000).proven()
    delivery = harness.batch()
    since = harness.now
    harness.cluster.unknown_since = lambda topic: since  # type: ignore[method-assign]
    harness.lose(harness.requests.pop())
    harness.recovery.leaders.clear()
    harness.cluster.change()
    harness.poll(LIMIT_S + 0.1)
    harness.poll()
    assert failure(delivery).written is Written.MAYBE


def test_a_topic_that_is_back_in_time_costs_nothing() -> None:
    deleted = Deleted()
    delivery = deleted.harness.batch()
    deleted.harness.poll(LIMIT_S - 1)
    deleted.create()
    deleted.harness.poll(LIMIT_S)
    assert not delivery.done()
    deleted.harness.answer(deleted.harness.requests.pop())
    assert delivery.exception(0) is None


def test_another_deletion_counts_from_its_own_beginning() -> None:
    deleted = Deleted()
    deleted.harness.poll(LIMIT_S - 1)
    deleted.create()
    deleted.delete()
    delivery = deleted.harness.batch()
    deleted.harness.poll(LIMIT_S - 1)
    assert not delivery.done()
    deleted.harness.poll(1.1)
    assert failure(delivery).code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_open_batches_of_other_topics_and_partitions_with_a_leader_are_not_concerned() -> None:
    deleted = Deleted()
    other = deleted.harness.acc.send("u", b"v")
    deleted.harness.poll(LIMIT_S - 0.5)
    assert not other.done()


class Topic:
    """A `MissingTopics` whose topic is missing since `since`, with a batch that was sent at time 0."""

    def __init__(self) -> None:
        self.since: float | None = 0.0
        self.until = INFINITY  # when brokers said so last
        self.failed: list[float] = []
        cluster = SimpleNamespace(unknown_since=lambda _: self.since, was_missing=self.was_missing, topic_error=lambda _: None)
        self.missing = MissingTopics(cluster, LIMIT_S, self)  # type: ignore[arg-type]
        self.missing.note("t")

    def oldest_of(self, topic: str) -> float:
        return 0.0

    def fail_old(self, topic: str, now: float, age: float, error: KafkaError) -> None:
        self.failed.append(now)

    def was_missing(self, topic: str, seconds: float) -> bool:
        return self.since is not None and self.since + seconds <= self.until


def test_a_topic_that_came_back_unnoticed_fails_nothing() -> None:
    topic = Topic()
    topic.since = None
    topic.missing.run(LIMIT_S)
    assert topic.failed == []
    assert topic.missing.wake_at == INFINITY


def test_a_topic_that_came_back_and_went_again_unnoticed_is_waited_for_again() -> None:
    topic = Topic()
    topic.since = 5.0
    topic.missing.run(LIMIT_S)
    assert topic.failed == []
    topic.missing.run(LIMIT_S + 5.0)
    assert topic.failed == [LIMIT_S + 5.0]


def test_an_outage_after_one_report_does_not_count_as_missing() -> None:
    topic = Topic()
    topic.until = 1.0
    for now in (LIMIT_S, LIMIT_S + 30.0):
        topic.missing.run(now)
        assert topic.failed == []
        assert now < topic.missing.wake_at <= now + 1.0
    topic.until = LIMIT_S + 31.0
    topic.missing.run(LIMIT_S + 31.0)
    assert topic.failed == [LIMIT_S + 31.0]
