"""A leader that is replaced while requests to it are in flight: what the new one gets, and what late responses of the old one mean."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import Failed, Request
from pykafka4.core.producer.produce.requests import SILENCE_S
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition, Written
from tests.core.producer.sender_harness import LOST, SenderHarness, header, producer_id, values

TP = TopicPartition("t", 0)


def replaced(batches: int = 1, **options: Any) -> tuple[SenderHarness, list[Any], list[Request]]:
    """Batches in flight to node 1, then node 3 leads in a newer epoch: the harness, the deliveries, the requests to node 1."""
    harness = SenderHarness(**options).proven()
    deliveries = [harness.batch(b"%d" % n) for n in range(batches)]
    old = [harness.requests.pop(0) for _ in range(batches)]
    move(harness, 3)
    return harness, deliveries, old


def move(harness: SenderHarness, node: int) -> None:
    harness.recovery.leaders[TP] = node
    harness.recovery.epoch += 1
    harness.cluster.change()
    harness.settle()


def test_a_batch_goes_unchanged_to_a_leader_of_a_newer_epoch_without_waiting_for_the_old_one() -> None:
    harness, _, (old,) = replaced()
    (new,) = harness.requests
    assert (old.node, new.node) == (1, 3)
    assert values(new) == values(old)


def test_the_first_batch_to_the_new_leader_goes_alone_and_the_others_follow_in_order() -> None:
    harness, deliveries, old = replaced(3)
    assert [header(r)[1] for r in harness.requests] == [header(old[0])[1]]
    harness.answer(harness.requests.pop())
    harness.settle()
    assert [header(r)[1] for r in harness.requests] == [header(r)[1] for r in old[1:]]
    for request in harness.requests:
        harness.answer(request)
    assert all(delivery.done() for delivery in deliveries)


@pytest.mark.parametrize("case", ["same leader epoch", "without idempotence"])
def test_a_new_leader_waits_for_the_old_one_if(case: str) -> None:
    harness = SenderHarness(enable_idempotence=case != "without idempotence").proven()
    harness.batch()
    if case == "same leader epoch":
        harness.recovery.epoch -= 1
    move(harness, 3)
    assert [r.node for r in harness.requests] == [1]
    harness.lose(harness.requests[0])
    harness.recovery.bring_back()
    harness.settle()
    assert [r.node for r in harness.requests] == [1, 3]


def test_a_late_acknowledgement_of_the_old_leader_counts_once() -> None:
    harness, (delivery,), (old,) = replaced()
    harness.answer(old, offset=7)
    assert delivery.result(0).offset == 7
    harness.batch(b"next")
    assert len(harness.requests) == 1, "the batch is still in flight to the new leader: the next one waits"
    harness.answer(harness.requests.pop(), offset=7)
    harness.settle()
    assert len(harness.requests) == 1


def test_a_late_acknowledgement_counts_for_the_head_only() -> None:
    """More batches than brokers remember could otherwise be written behind a batch without acknowledgement."""
    harness, deliveries, old = replaced(2)
    harness.answer(old[1], offset=8)
    assert not deliveries[1].done()
    harness.answer(old[0], offset=7)
    assert deliveries[0].result(0).offset == 7


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "MESSAGE_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "INVALID_PRODUCER_EPOCH"])
def test_a_late_error_of_the_old_leader_says_nothing(error: str) -> None:
    harness, (delivery,), (old,) = replaced()
    harness.answer(old, error)
    harness.settle()
    assert len(harness.requests) == 1, "not requeued again"
    assert not harness.recovery.reports
    harness.answer(harness.requests.pop())
    assert delivery.done()
    assert delivery.exception(0) is None


def test_a_lost_connection_to_the_old_leader_says_nothing() -> None:
    harness, (delivery,), (old,) = replaced()
    harness.lose(old)
    assert not harness.recovery.reports
    harness.answer(harness.requests.pop())
    assert delivery.done()


def test_a_late_acknowledgement_is_used_while_the_batch_waits_for_the_new_leader() -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    old = harness.requests.pop()
    harness.network.up.discard(3)
    move(harness, 3)
    assert not harness.requests
    harness.answer(old, offset=4)
    assert delivery.result(0).offset == 4


def test_a_late_duplicate_error_is_not_an_acknowledgement() -> None:
    """The old leader has the batch in its own log; that log may be cut off."""
    harness, (delivery,), (old,) = replaced()
    harness.answer(old, "DUPLICATE_SEQUENCE_NUMBER")
    assert not delivery.done()


def test_a_leader_that_leads_again_gets_the_batch_while_the_first_request_is_still_there() -> None:
    harness, (delivery,), (first,) = replaced()
    move(harness, 1)
    assert [r.node for r in harness.requests] == [3, 1]
    second, third = harness.requests
    assert values(first) == values(second) == values(third)
    harness.answer(second, "NOT_LEADER_OR_FOLLOWER")
    harness.answer(first, "NOT_LEADER_OR_FOLLOWER")
    assert len(harness.requests) == 2
    harness.answer(third, offset=9)
    assert delivery.result(0).offset == 9


def test_a_batch_that_fails_while_two_requests_are_out_may_be_written() -> None:
    harness, (delivery,), (old,) = replaced(delivery_timeout_ms=5_000)
    (new,) = harness.requests
    harness.poll(6)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE
    harness.batch(b"next")
    assert len(harness.requests) == 1, "its request to the current leader has not ended"
    harness.lose(old)
    assert len(harness.requests) == 1
    harness.lose(new)
    harness.recovery.bring_back()
    harness.settle()
    epoch, sequence, _ = header(harness.requests[-1])
    assert (epoch, sequence) == (1, 0), "the next record begins another epoch: an old request that is carried out later is fenced"


def test_a_batch_that_was_only_at_the_old_leader_fails_as_maybe_written() -> None:
    harness = SenderHarness(delivery_timeout_ms=5_000).proven()
    delivery = harness.batch()
    harness.network.up.discard(3)
    move(harness, 3)
    harness.poll(6)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_a_failed_batch_at_the_old_leader_does_not_hold_up_the_new_one() -> None:
    harness = SenderHarness(delivery_timeout_ms=5_000).proven()
    harness.batch()
    old = harness.requests.pop()
    harness.poll(6)
    harness.batch(b"next")
    assert not harness.requests
    move(harness, 3)
    (new,) = harness.requests
    assert header(new)[:2] == (1, 0)
    harness.answer(old)
    harness.answer(new)
    assert harness.sender.ledger.in_flight == 0


def test_halves_of_a_batch_keep_its_sequence_while_the_old_leader_still_has_it() -> None:
    harness = SenderHarness().proven()
    harness.together([b"a", b"b"])
    old = harness.requests.pop()
    numbers = header(old)
    move(harness, 3)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    (half,) = harness.requests
    assert header(half)[:2] == numbers[:2]
    harness.answer(old, offset=5)
    assert harness.sender.ledger.in_flight == 1
    harness.answer(harness.requests.pop(), offset=5)
    harness.settle()
    harness.answer(harness.requests.pop(), offset=6)
    assert harness.sender.ledger.acked == 4


def test_an_epoch_that_ends_in_one_partition_leaves_the_batches_of_another_as_they_were() -> None:
    """With one epoch for all, a batch in doubt would be written again under the new one."""
    harness, (_,), (old,) = replaced()
    harness.batch(b"other", partition=1)
    other = next(r for r in harness.requests if header(r)[2] == 1)
    harness.requests.remove(other)
    numbers = producer_id(other), header(other)
    harness.answer(harness.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.lose(other)
    harness.recovery.bring_back()
    harness.settle()
    again = next(r for r in harness.requests if header(r)[2] == 1)
    assert (producer_id(again), header(again)) == numbers
    harness.lose(old)


def test_the_metadata_of_a_leader_that_does_not_respond_is_requested_every_second() -> None:
    harness = SenderHarness().proven()
    asked: list[float] = []
    harness.cluster.refresh = lambda now, topics=None: asked.append(now)  # type: ignore[method-assign]
    harness.batch()
    sent_at = harness.now
    while harness.now < sent_at + 6:
        harness.poll(0.25)
    assert [round(at - sent_at, 2) for at in asked] == pytest.approx([2, 3, 4, 5, 6], abs=0.3)
    assert SILENCE_S == 2.0
    harness.answer(harness.requests.pop())
    harness.poll(20)
    assert len(asked) <= 5


def test_a_leader_that_falls_silent_is_noticed_on_time_whenever_the_last_look_was() -> None:
    harness = SenderHarness(linger_ms=0).proven()
    asked: list[float] = []
    harness.cluster.refresh = lambda now, topics=None: asked.append(now)  # type: ignore[method-assign]
    harness.batch()
    harness.poll(0.01)
    harness.answer(harness.requests.pop())
    harness.poll(0.03)
    harness.batch()
    sent_at = harness.now
    while not asked:
        harness.now = min(harness.poll().wake_at, sent_at + 5)
    assert asked[0] - sent_at == pytest.approx(SILENCE_S, abs=0.01)


def test_old_brokers_without_leader_epochs_are_waited_for() -> None:
    harness = SenderHarness()
    harness.recovery.epoch = -1
    harness.proven()
    harness.batch()
    harness.recovery.leaders[TP] = 3
    harness.cluster.change()
    harness.settle()
    assert [r.node for r in harness.requests] == [1]
    harness.requests[0].on_reply(harness.now, Failed(LOST, Written.MAYBE))
