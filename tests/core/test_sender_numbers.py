"""Sender: epochs and sequence numbers, which make the brokers write each batch once."""

from __future__ import annotations

from uuid import UUID

import pytest
from sender_talk import Bench, header

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition

# ---------------------------------------------------------------- epochs


def test_first_batch_of_an_epoch_goes_alone() -> None:
    bench = Bench()
    bench.batch(b"one")
    bench.batch(b"two")
    assert len(bench.requests) == 1
    bench.answer(bench.requests[0])
    bench.batch(b"three")
    assert len(bench.requests) == 3


def test_out_of_order_at_the_head_takes_a_new_epoch() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)
    bench.answer(bench.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3


def test_epoch_is_renewed_only_when_no_partition_is_in_doubt() -> None:
    bench = Bench().proven()
    bench.batch(b"doubtful", partition=1)
    doubtful = bench.requests.pop()
    bench.batch(b"unlucky", partition=0)
    unlucky = bench.requests.pop()
    bench.lose(doubtful)
    bench.answer(unlucky, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.settle()
    bench.recovery.changes += 1
    bench.settle()
    assert [header(r) for r in bench.requests] == [header(doubtful)], "the doubtful batch goes first, under its old number"
    bench.answer(bench.requests.pop())
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)


def test_a_maybe_written_head_out_of_order_is_failed_as_maybe() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.lose(bench.requests.pop())
    bench.recovery.changes += 1
    bench.settle()
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_duplicate_counts_as_acknowledged() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "DUPLICATE_SEQUENCE_NUMBER")
    assert delivery.result(0).offset == -1


# ---------------------------------------------------------------- sequences


def test_a_refused_batch_gives_its_number_back() -> None:
    bench = Bench().proven()
    bench.batch()
    number = header(bench.requests[-1])[1]
    bench.answer(bench.requests.pop(), "INVALID_RECORD")
    bench.batch(b"next")
    assert header(bench.requests[-1]) == (0, number, 0)


AFTER_APPEND = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "REPLICA_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
)


@pytest.mark.parametrize("error", AFTER_APPEND)
def test_a_number_that_may_be_in_the_log_is_not_given_to_another_batch(error: str) -> None:
    """The broker would take the other batch for a repetition and acknowledge it without writing it."""
    bench = Bench(delivery_timeout_ms=10_000).proven()
    delivery = bench.batch(b"first")
    number = header(bench.requests[-1])
    bench.network.up.clear()
    bench.answer(bench.requests.pop(), error)
    bench.poll(11)
    assert delivery.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    bench.network.up = {1, 2, 3}
    bench.batch(b"other")
    assert header(bench.requests[-1]) != number
    assert header(bench.requests[-1])[:2] == (1, 0)


@pytest.mark.parametrize("error", AFTER_APPEND)
def test_a_batch_that_may_be_in_the_log_keeps_its_number_whatever_happens_elsewhere(error: str) -> None:
    """Under another number it would stand in the log twice."""
    bench = Bench().proven()
    bench.batch(b"doubtful", partition=0)
    doubtful = bench.requests.pop()
    number = header(doubtful)
    bench.network.up.remove(1)
    bench.answer(doubtful, error)
    bench.batch(b"elsewhere", partition=1)
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.network.up.add(1)
    bench.poll(5)
    bench.settle()
    assert [header(request) for request in bench.requests if request.node == 1] == [number]


def test_sequences_wrap_at_two_to_the_31() -> None:
    bench = Bench().proven()
    bench.sender.queues[TopicPartition("t", 0)].next_sequence = 2**31 - 1
    bench.batch(b"one")
    bench.batch(b"two")
    assert [header(r)[1] for r in bench.requests] == [2**31 - 1, 0]


def test_a_topic_made_anew_starts_at_sequence_zero() -> None:
    bench = Bench().proven()
    bench.cluster.id = UUID(int=8)
    bench.cluster.version += 1
    bench.settle()
    bench.batch()
    assert header(bench.requests[-1])[1] == 0


@pytest.mark.parametrize("under_way", [True, False])
def test_a_number_that_the_log_of_a_topic_made_anew_may_hold_is_not_given_again(under_way: bool) -> None:
    """Brokers that know topics by name write what was under way into the new log; the number again would be a duplicate, and a loss."""
    bench = Bench().proven()
    bench.batch(b"first")
    request = bench.requests.pop()
    if not under_way:
        bench.lose(request)
    bench.cluster.id = UUID(int=8)
    bench.cluster.version += 1
    bench.settle()
    if under_way:
        bench.lose(request)
    bench.settle()
    again = bench.requests.pop()
    assert header(again) == header(request)
    bench.answer(again)
    bench.batch(b"next")
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)
