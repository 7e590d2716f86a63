"""How often a batch is sent: `retries`, `max_failed_attempts`, and what an acknowledgement says about earlier attempts."""

from __future__ import annotations

from typing import Any

import pytest
from sender_harness import SenderHarness

from pykafka4.error_table import Written
from pykafka4.errors import ConfigError, DeliveryFailed

ONCE: dict[str, Any] = {"retries": 0}


def failure(delivery: Any) -> DeliveryFailed:
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    return error


@pytest.mark.parametrize(
    ("error", "written"),
    [
        ("NOT_ENOUGH_REPLICAS", Written.NO),
        ("NOT_LEADER_OR_FOLLOWER", Written.MAYBE),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Written.MAYBE),
        ("MESSAGE_TOO_LARGE", Written.NO),
        ("INVALID_RECORD", Written.NO),
    ],
)
def test_without_retries_an_error_fails_the_batch_at_once(error: str, written: Written) -> None:
    harness = SenderHarness(**ONCE)
    deliveries = harness.together([b"a", b"b"])
    harness.answer(harness.requests.pop(), error, refused={0: "bad"} if error == "INVALID_RECORD" else None)
    assert [failure(delivery).written for delivery in deliveries] == [written] * 2
    assert str(failure(deliveries[0]).code) == error
    harness.recovery.bring_back()
    harness.poll(5)
    assert not harness.requests


def test_without_retries_a_lost_connection_fails_the_batch_as_maybe_written_and_the_next_record_goes_on() -> None:
    harness = SenderHarness(**ONCE)
    delivery = harness.batch()
    harness.lose(harness.requests.pop())
    assert failure(delivery).written is Written.MAYBE
    harness.recovery.bring_back()
    harness.batch(b"next")
    assert len(harness.requests) == 1


def test_a_request_that_never_reached_a_socket_is_no_attempt() -> None:
    harness = SenderHarness(**ONCE)
    delivery = harness.batch()
    harness.lose(harness.requests.pop(), Written.NO)
    assert not delivery.done()
    harness.recovery.bring_back()
    harness.settle()
    harness.answer(harness.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3
    assert harness.sender.ledger.retries == 0


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_is_sent_again_as_often_as_retries_says(idempotent: bool) -> None:
    harness = SenderHarness(retries=2, enable_idempotence=idempotent)
    delivery = harness.batch()
    for _ in range(3):
        assert not delivery.done()
        harness.lose(harness.requests.pop())
        harness.recovery.bring_back()
        harness.settle()
    assert failure(delivery).written is Written.MAYBE
    assert not harness.requests


def test_a_batch_without_retries_left_fails_when_its_leader_is_replaced() -> None:
    harness = SenderHarness(retries=1).proven()
    delivery = harness.batch()
    tp = next(iter(harness.recovery.leaders))
    for node in (3, 1):
        harness.recovery.leaders[tp], harness.recovery.epoch = node, harness.recovery.epoch + 1
        harness.cluster.change()
        harness.settle()
    assert failure(delivery).written is Written.MAYBE
    assert [r.node for r in harness.requests] == [1, 3]


def test_max_failed_attempts_counts_error_responses_and_not_lost_connections() -> None:
    harness = SenderHarness(max_failed_attempts=2)
    delivery = harness.batch()
    for error in (None, "NOT_ENOUGH_REPLICAS", None, "NOT_ENOUGH_REPLICAS"):
        assert not delivery.done()
        request = harness.requests.pop()
        if error is None:
            harness.lose(request)
        else:
            harness.answer(request, error)
        harness.recovery.bring_back()
        harness.poll(5)
        harness.settle()
    assert str(failure(delivery).code) == "NOT_ENOUGH_REPLICAS"
    assert not harness.requests


def test_the_error_of_a_batch_behind_a_failed_one_is_not_counted_as_its_own() -> None:
    harness = SenderHarness(max_failed_attempts=2).proven()
    deliveries = [harness.batch(b"%d" % n) for n in range(3)]
    for head, behind in (("NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER"), ("NONE", "NONE")):
        requests, harness.requests = harness.requests, []
        for number, request in enumerate(requests):
            harness.answer(request, behind if number else head)
        harness.poll(5)
        harness.settle()
    requests, harness.requests = harness.requests, []
    for request in requests:
        harness.answer(request)
    assert [delivery.exception(0) for delivery in deliveries] == [None] * 3


def test_at_most_once_disables_idempotence() -> None:
    assert SenderHarness(**ONCE).config.enable_idempotence is False
    assert SenderHarness(retries=1).config.enable_idempotence is True


@pytest.mark.parametrize("other", [{"enable_idempotence": True}, {"transactional_id": "x"}])
def test_at_most_once_with_idempotence_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"retries=0 with .*idempotence needs retries"):
        SenderHarness(**ONCE, **other)


@pytest.mark.parametrize(
    ("idempotent", "first", "repeated"),
    [(False, None, True), (True, None, False), (False, "NOT_LEADER_OR_FOLLOWER", True), (False, "NOT_ENOUGH_REPLICAS", False)],
)
def test_an_acknowledgement_says_whether_an_earlier_attempt_may_be_in_the_log(idempotent: bool, first: str | None, repeated: bool) -> None:
    harness = SenderHarness(enable_idempotence=idempotent)
    delivery = harness.batch()
    request = harness.requests.pop()
    if first is None:
        harness.lose(request)
    else:
        harness.answer(request, first)
    harness.recovery.bring_back()
    harness.poll(5)
    harness.settle()
    harness.answer(harness.requests.pop(), offset=1)
    assert delivery.result(0).maybe_repeated is repeated
    assert harness.stats().repeated == int(repeated)


def test_without_idempotence_nothing_of_a_partition_is_sent_while_a_batch_is_retried() -> None:
    harness = SenderHarness(enable_idempotence=False)
    first, second = harness.batch(b"1"), harness.batch(b"2")
    (request,) = harness.requests
    harness.requests.clear()
    harness.answer(request, "NOT_ENOUGH_REPLICAS")
    assert not harness.requests, "its back-off is not over"
    harness.poll(5)
    harness.settle()
    (again,) = harness.requests
    harness.requests.clear()
    harness.answer(again)
    harness.settle()
    assert first.done()
    assert not second.done()
    harness.answer(harness.requests.pop())
    assert second.done()
