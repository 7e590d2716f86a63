"""Sender: what is not acknowledged in time fails, and says what was missing and whether it may be written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sender_talk import LOST, Bench, header

from pykafka4.core import Failed
from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed, UnsupportedVersion
from pykafka4.records import TopicPartition


def test_delivery_timeout_says_not_written_when_it_never_left() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    bench.network.up.clear()
    delivery = bench.batch()
    bench.poll(11)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TIMED_OUT", Written.NO)
    assert error.record is not None
    assert error.record.value == b"v"


@pytest.mark.parametrize("leader", [1, None])
def test_the_time_that_a_record_waited_for_its_topic_counts(leader: int | None) -> None:
    bench = Bench(delivery_timeout_ms=100_000, unknown_topic_timeout_ms=90_000)
    bench.recovery.leaders[TopicPartition("t", 0)] = leader  # type: ignore[assignment]
    bench.cluster.hidden.add("t")
    delivery = bench.acc.send("t", b"parked", partition=0)
    bench.poll(80)
    bench.cluster.hidden.clear()
    bench.cluster.change()
    bench.settle()
    assert not delivery.done()
    bench.poll(19)
    assert not delivery.done()
    assert bench.poll().wake_at <= bench.now + 1
    bench.poll(1)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TIMED_OUT", Written.NO if leader is None else Written.MAYBE)


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
    bench = Bench(delivery_timeout_ms=10_000).proven()
    bench.network.up = up
    bench.recovery.leaders[TopicPartition("t", 0)] = leader  # type: ignore[assignment]
    delivery = bench.batch()
    bench.poll(11)
    assert str(delivery.exception(0).cause) == why


def test_what_expires_while_its_partition_is_offline_says_why_that_is() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    tp = TopicPartition("t", 0)
    bench.recovery.leaders[tp] = None  # type: ignore[assignment]
    bench.recovery.offline[tp] = SimpleNamespace(reason=LOST)
    delivery = bench.batch()
    bench.poll(11)
    assert str(delivery.exception(0)) == f"t-0: TIMED_OUT, not written ({LOST})"


def test_what_expires_for_want_of_a_producer_id_says_why_there_is_none() -> None:
    bench = Bench(delivery_timeout_ms=10_000)
    delivery = bench.acc.send("t", b"v", partition=0)
    for _ in range(3):
        for request in bench.sender.poll(bench.now).requests:
            request.on_reply(bench.now, Failed(LOST, Written.NO))
    bench.now += 11
    for callback in bench.sender.poll(bench.now).deliver:
        callback()
    assert str(delivery.exception(0)) == f"t-0: TIMED_OUT, not written ({LOST})"


def test_what_expires_while_others_have_no_producer_id_says_its_own_reason() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    bench.sender.identity.trouble = LOST
    delivery = bench.batch()
    bench.poll(11)
    assert str(delivery.exception(0).cause) == f"{LATE}: broker 1 has not responded"


def test_delivery_timeout_says_maybe_when_in_flight_and_the_late_answer_changes_nothing() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    delivery = bench.batch()
    request = bench.requests.pop()
    bench.poll(11)
    assert delivery.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    acked = bench.sender.ledger.acked
    bench.answer(request)
    assert bench.sender.ledger.acked == acked
    bench.batch(b"next")
    assert header(bench.requests[-1])[:2] == (1, 0), "the hole needs a new epoch"


def test_one_timer_watches_all_batches_of_a_partition() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    timers = len(bench.sender._deadlines._timers._heap)
    for _ in range(100):
        bench.batch()
        bench.answer(bench.requests.pop())
    assert len(bench.sender._deadlines._timers._heap) == timers


@pytest.mark.parametrize("obstacle", ["no connection", "no leader", "no answer"])
def test_what_fails_in_an_outage_has_waited_for_nine_tenths_of_the_timeout_at_least(obstacle: str) -> None:
    """A batch whose linger is over stays open until it can be sent, but not so long that its youngest records expire with the oldest."""
    bench = Bench(delivery_timeout_ms=120_000, linger_ms=5, max_in_flight_requests_per_connection=1).proven()
    if obstacle == "no connection":
        bench.network.up.clear()
    elif obstacle == "no leader":
        bench.recovery.leaders.clear()
        bench.recovery.bring_back()
    else:
        bench.batch(b"in flight")
    sent = []
    for _ in range(150):
        sent.append((bench.now, bench.acc.send("t", b"v", partition=0)))
        bench.poll(1)
    ages = [bench.now - at for at, delivery in sent if delivery.done()]
    assert max(ages) >= 149
    assert min(ages) >= 120 - 12 - 0.005 - 1  # a poll per second
    assert bench.acc.batches <= 16, "as few batches as that allows"


@pytest.mark.parametrize(("later", "batches"), [(11.9, 1), (12.1, 2)])
def test_a_batch_that_cannot_be_sent_takes_records_for_a_tenth_of_the_timeout(later: float, batches: int) -> None:
    bench = Bench(delivery_timeout_ms=120_000, linger_ms=5).proven()
    bench.network.up.clear()
    before = bench.acc.batches
    bench.acc.send("t", b"first", partition=0)
    bench.poll(1)
    bench.poll(later - 1)
    bench.acc.send("t", b"later", partition=0)
    assert bench.acc.batches - before == batches


def test_every_batch_of_a_request_that_the_broker_does_not_speak_fails() -> None:
    bench = Bench()
    deliveries, request = bench.two_partitions_in_one_request()
    request.on_reply(bench.now, Failed(UnsupportedVersion("too old"), Written.NO))
    bench.poll()
    assert [delivery.exception(0).code for delivery in deliveries] == ["UNSUPPORTED_VERSION"] * 2
