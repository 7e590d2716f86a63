"""How often a batch is sent: `retries`, `max_failed_attempts`, and what an acknowledgement says about earlier attempts."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors import ConfigError, DeliveryFailed
from pykafka4.records import Written
from tests.core.producer.sender_harness import SenderHarness, records

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
    ],
)
def test_without_retries_an_error_fails_the_batch_at_once(error: str, written: Written) -> None:
    harness = SenderHarness(**ONCE)
    deliveries = harness.together([b"a", b"b"])
    harness.answer(harness.requests.pop(), error)
    assert [failure(delivery).written for delivery in deliveries] == [written] * 2
    assert str(failure(deliveries[0]).code) == error
    harness.recovery.bring_back()
    harness.poll(5)
    assert not harness.requests


PARTED = pytest.mark.parametrize(("error", "named"), [("INVALID_RECORD", {0: "bad"}), ("MESSAGE_TOO_LARGE", None)])
LAST = pytest.mark.parametrize("options", [ONCE, {"max_failed_attempts": 1}, {"max_failed_attempts": 1, "enable_idempotence": False}])


@LAST
def test_on_the_last_attempt_a_refused_record_fails_alone_and_the_others_are_sent_once_more(options: dict[str, Any]) -> None:
    harness = SenderHarness(linger_ms=10, **options)
    deliveries = harness.together([b"a", b"bad", b"c"])
    harness.answer(harness.requests.pop(), "INVALID_RECORD", -1, refused={1: "bad"})
    assert (failure(deliveries[1]).written, str(failure(deliveries[1]).code)) == (Written.NO, "INVALID_RECORD")
    harness.settle()
    (again,) = harness.requests
    assert records(again) == [b"a", b"c"]
    harness.answer(harness.requests.pop(), offset=4)
    assert [deliveries[n].result(0).offset for n in (0, 2)] == [4, 5]
    assert not deliveries[0].result(0).maybe_repeated


@LAST
def test_on_the_last_attempt_a_batch_that_is_too_large_is_split(options: dict[str, Any]) -> None:
    """As in Java: the broker has not written it, so its halves are no retry."""
    harness = SenderHarness(linger_ms=10, **options)
    deliveries = harness.together([b"a", b"b"])
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE", -1)
    for offset in range(2):
        harness.settle()
        harness.answer(harness.requests.pop(), offset=offset)
    assert [delivery.result(0).offset for delivery in deliveries] == [0, 1]


@PARTED
def test_without_retries_what_is_left_of_a_refused_batch_is_written_to_a_socket_once(
    error: str, named: dict[int, str | None] | None
) -> None:
    harness = SenderHarness(linger_ms=10, **ONCE)
    deliveries = harness.together([b"a", b"b"])
    harness.answer(harness.requests.pop(), error, -1, refused=named)
    sent = 0
    while harness.requests:
        sent += 1
        harness.lose(harness.requests.pop())
        harness.recovery.bring_back()
        harness.settle()
    assert sent == (1 if named else 2)
    assert failure(deliveries[1]).written is Written.MAYBE


@PARTED
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_that_may_be_written_fails_as_a_whole_on_its_last_attempt(
    error: str, named: dict[int, str | None] | None, idempotent: bool
) -> None:
    """What is left of it may be in the log from the attempt before: sending it once more would be another retry."""
    harness = SenderHarness(linger_ms=10, retries=1, enable_idempotence=idempotent)
    deliveries = harness.together([b"a", b"b"])
    harness.lose(harness.requests.pop())
    harness.recovery.bring_back()
    harness.settle()
    harness.answer(harness.requests.pop(), error, -1, refused=named)
    harness.settle()
    assert [failure(delivery).written for delivery in deliveries] == [Written.MAYBE] * 2
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
    assert len(harness.recovery.retried) == 2, "the client's log tells of them"


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
    assert not harness.requests, "its backoff is not over"
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
