"""Sender: what is not acknowledged in time fails, and says what was missing and whether it may be written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka4.core import Failed
from pykafka4.errors import DeliveryFailed, UnsupportedVersion
from pykafka4.records import TopicPartition, Written
from tests.core.producer.sender_harness import LOST, SenderHarness, header


def test_delivery_timeout_says_not_written_when_it_never_left() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    harness.network.up.clear()
    delivery = harness.batch()
    harness.poll(11)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TIMED_OUT", Written.NO)
    assert error.record is not None
    assert error.record.value == b"v"


@pytest.mark.parametrize("leader", [1, None])
def test_the_time_that_a_record_waited_for_its_topic_counts(leader: int | None) -> None:
    harness = SenderHarness(delivery_timeout_ms=100_000, unknown_topic_timeout_ms=90_000)
    harness.recovery.leaders[TopicPartition("t", 0)] = leader  # type: ignore[assignment]
    harness.cluster.hidden.add("t")
    delivery = harness.acc.send("t", b"parked", partition=0)
    harness.poll(80)
    harness.cluster.hidden.clear()
    harness.cluster.change()
    harness.settle()
    assert not delivery.done()
    harness.poll(19)
    assert not delivery.done()
    assert harness.poll().wake_at <= harness.now + 1
    harness.poll(1)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TIMED_OUT", Written.NO if leader is None else Written.MAYBE)


@pytest.mark.parametrize("options", [{"linger_ms": 0}, {"linger_ms": 100}, {"partitioner": "late"}], ids=str)
def test_a_record_whose_time_was_over_during_a_freeze_of_the_loop_is_not_sent(options: dict[str, Any]) -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000, **options).proven()
    delivery = harness.acc.send("t", b"v")
    harness.poll(11)
    assert (harness.requests, delivery.exception(0).written) == ([], Written.NO)


def test_a_parked_record_whose_time_was_over_during_a_freeze_is_not_sent_when_its_topic_is_known() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000)
    harness.cluster.hidden.add("t")
    delivery = harness.acc.send("t", b"v", partition=0)
    harness.poll()
    harness.cluster.hidden.clear()
    harness.cluster.change()
    harness.poll(11)
    assert (harness.requests, delivery.exception(0).written) == ([], Written.NO)


LATE = "not acknowledged within delivery_timeout_ms=10000"


@pytest.mark.parametrize(
    ("up", "leader", "why"),
    [
        (set(), 1, f"{LATE}: no broker reachable: h1:9092 connection refused"),
        ({2, 3}, 1, f"{LATE}: h1:9092 connection refused"),
        ({1, 2, 3}, None, f"{LATE}: the partition has no leader"),
        ({1, 2, 3}, 1, f"{LATE}: broker 1 has not responded"),
    ],
    ids=["no broker", "no connection to the leader", "no leader", "no answer"],
)
def test_what_is_never_acknowledged_says_what_was_missing(up: set[int], leader: int | None, why: str) -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    harness.network.up = up
    harness.recovery.leaders[TopicPartition("t", 0)] = leader  # type: ignore[assignment]
    delivery = harness.batch()
    harness.poll(11)
    assert str(delivery.exception(0).cause) == why


def test_records_that_expire_while_their_partition_is_offline_say_why_it_is() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    tp = TopicPartition("t", 0)
    harness.recovery.leaders[tp] = None  # type: ignore[assignment]
    harness.recovery.offline[tp] = SimpleNamespace(reason=LOST, attempts=1)
    delivery = harness.batch()
    harness.poll(11)
    assert str(delivery.exception(0)) == f"t-0: TIMED_OUT, not written ({LOST})"


def test_records_of_a_leader_that_never_accepted_a_connection_say_why() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    tp = TopicPartition("t", 0)
    harness.network.up = {2, 3}
    delivery = harness.batch()
    assert harness.recovery.offline[tp].attempts == 0
    harness.recovery.leaders[tp] = None  # type: ignore[assignment]  # as `Recovery` says of what is offline
    harness.poll(11)
    assert str(delivery.exception(0).cause) == f"{LATE}: h1:9092 connection refused"


def test_records_that_expire_without_a_producer_id_say_why_there_is_none() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000)
    delivery = harness.acc.send("t", b"v", partition=0)
    for _ in range(3):
        for request in harness.sender.poll(harness.now).requests:
            request.on_reply(harness.now, Failed(LOST, Written.NO))
    harness.now += 11
    for callback in harness.sender.poll(harness.now).deliver:
        callback()
    assert str(delivery.exception(0)) == f"t-0: TIMED_OUT, not written ({LOST})"


def test_records_that_expire_while_others_have_no_producer_id_say_their_own_reason() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    harness.sender.identity._call.back_off(harness.now, LOST)
    delivery = harness.batch()
    harness.poll(11)
    assert str(delivery.exception(0).cause) == f"{LATE}: broker 1 has not responded"


def test_delivery_timeout_says_maybe_when_in_flight_and_the_late_answer_changes_nothing() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    delivery = harness.batch()
    request = harness.requests.pop()
    harness.poll(11)
    assert delivery.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    acked = harness.sender.ledger.acked
    harness.answer(request)
    assert harness.sender.ledger.acked == acked
    harness.batch(b"next")
    assert header(harness.requests[-1])[:2] == (1, 0), "the hole needs a new epoch"


def test_one_timer_watches_all_batches_of_a_partition() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    timers = len(harness.sender._deadlines._timers._heap)
    for _ in range(100):
        harness.batch()
        harness.answer(harness.requests.pop())
    assert len(harness.sender._deadlines._timers._heap) == timers


@pytest.mark.parametrize("obstacle", ["no connection", "no leader", "no answer"])
def test_what_fails_in_an_outage_has_waited_for_nine_tenths_of_the_timeout_at_least(obstacle: str) -> None:
    """A batch whose linger is over stays open until it can be sent, but not so long that its youngest records expire with the oldest."""
    harness = SenderHarness(delivery_timeout_ms=120_000, linger_ms=5, max_in_flight_requests_per_connection=1).proven()
    if obstacle == "no connection":
        harness.network.up.clear()
    elif obstacle == "no leader":
        harness.recovery.leaders.clear()
        harness.recovery.bring_back()
    else:
        harness.batch(b"in flight")
    sent = []
    for _ in range(150):
        sent.append((harness.now, harness.acc.send("t", b"v", partition=0)))
        harness.poll(1)
    ages = [harness.now - at for at, delivery in sent if delivery.done()]
    assert max(ages) >= 149
    assert min(ages) >= 120 - 12 - 0.005 - 1  # a poll per second
    assert harness.acc.batches <= 16, "as few batches as that allows"


@pytest.mark.parametrize(("later", "batches"), [(11.9, 1), (12.1, 2)])
def test_a_batch_that_cannot_be_sent_takes_records_for_a_tenth_of_the_timeout(later: float, batches: int) -> None:
    harness = SenderHarness(delivery_timeout_ms=120_000, linger_ms=5).proven()
    harness.network.up.clear()
    before = harness.acc.batches
    harness.acc.send("t", b"first", partition=0)
    harness.poll(1)
    harness.poll(later - 1)
    harness.acc.send("t", b"later", partition=0)
    assert harness.acc.batches - before == batches


def test_every_batch_of_a_request_that_the_broker_does_not_speak_fails() -> None:
    harness = SenderHarness()
    deliveries, request = harness.two_partitions_in_one_request()
    request.on_reply(harness.now, Failed(UnsupportedVersion("too old"), Written.NO))
    harness.poll()
    assert [delivery.exception(0).code for delivery in deliveries] == ["UNSUPPORTED_VERSION"] * 2
