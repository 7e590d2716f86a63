"""What options and answers do to the requests that leave: acks, bounds on size, number and time, backoff, leaders, append times."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import Reply
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from tests.core.producer.sender_harness import ID, SenderHarness, header

TP = TopicPartition("t", 0)


def answer(harness: SenderHarness, request: Any, **fields: Any) -> None:
    """An answer for partition 0 with these fields, and no error."""
    partition = ProduceResponse.Topic.Partition(index=0, error_code=0, base_offset=5, **fields)
    topic = ProduceResponse.Topic(name="t", topic_id=ID, partition_responses=[partition])
    request.on_reply(harness.now, Reply(ProduceResponse(responses=[topic]), 12, request.node))
    harness.poll()


def partitions(request: Any) -> list[int]:
    return [part.index for topic in request.message.topic_data for part in topic.partition_data]


@pytest.mark.parametrize(("acks", "sent"), [("all", -1), (1, 1), (0, 0)])
def test_acks_are_sent_as_configured(acks: object, sent: int) -> None:
    harness = SenderHarness(acks=acks)
    harness.batch()
    assert harness.requests[0].message.acks == sent


@pytest.mark.parametrize(("ours", "theirs"), [(30_000, 24_000), (7_000, 5_600), (1, 1)])
def test_brokers_stop_waiting_for_replicas_before_we_stop_waiting_for_them(ours: int, theirs: int) -> None:
    harness = SenderHarness(request_timeout_ms=ours)
    harness.batch()
    (request,) = harness.requests
    assert request.message.timeout_ms == theirs
    assert request.deadline == pytest.approx(harness.now + ours / 1000)


def test_what_the_broker_appended_at_its_own_time_says_so() -> None:
    harness = SenderHarness()
    delivery = harness.batch()
    answer(harness, harness.requests[0], log_append_time_ms=1234)
    assert delivery.result(0).timestamp_ms == 1234


def test_a_partition_that_an_answer_leaves_out_may_have_been_written() -> None:
    harness = SenderHarness(delivery_timeout_ms=60_000)
    delivery = harness.batch()
    harness.requests[0].on_reply(harness.now, Reply(ProduceResponse(responses=[]), 12, 1))
    harness.poll(61)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_a_request_takes_no_more_than_max_request_size() -> None:
    harness = SenderHarness(max_request_size=10_000, batch_size=8_000)
    leaders = harness.recovery.leaders
    leaders[TopicPartition("t", 1)] = leaders[TP]
    harness.network.up.clear()
    for partition in (0, 1):
        harness.batch(bytes(6_000), partition)
    harness.network.up.add(1)
    harness.cluster.change()
    harness.settle()
    assert [partitions(request) for request in harness.requests] in ([[0], [1]], [[1], [0]])


def test_small_batches_of_one_leader_share_a_request() -> None:
    harness = SenderHarness()
    leaders = harness.recovery.leaders
    leaders[TopicPartition("t", 1)] = leaders[TP]
    harness.network.up.clear()
    for partition in (0, 1):
        harness.batch(b"v", partition)
    harness.network.up.add(1)
    harness.cluster.change()
    harness.settle()
    assert [sorted(partitions(request)) for request in harness.requests] == [[0, 1]]


def test_no_more_requests_are_in_flight_than_the_option_allows() -> None:
    harness = SenderHarness(max_in_flight_requests_per_connection=2).proven()
    for n in range(4):
        harness.batch(b"%d" % n)
    assert len(harness.requests) == 2
    harness.answer(harness.requests[0])
    harness.settle()
    assert len(harness.requests) == 3


def test_without_idempotence_one_batch_is_in_flight_also_after_an_acknowledgement() -> None:
    harness = SenderHarness(enable_idempotence=False).proven()
    harness.batch(b"one")
    harness.batch(b"two")
    assert len(harness.requests) == 1


def refuse(harness: SenderHarness) -> float:
    """The only request is refused in passing; how many seconds later the batch goes out again, in steps of 5 ms."""
    harness.answer(harness.requests.pop(), "NOT_ENOUGH_REPLICAS")
    began = harness.now
    while not harness.requests:
        wake_at = harness.poll(0.005).wake_at
        assert harness.requests or wake_at <= began + 5, "nothing would wake the loop for it"
        assert harness.now < began + 5
    return harness.now - began


def test_a_refused_batch_goes_out_again_after_a_pause_that_grows_and_that_an_acknowledgement_resets() -> None:
    harness = SenderHarness(retry_backoff_ms=100, retry_backoff_max_ms=1_000).proven()
    harness.batch()
    first = refuse(harness)
    assert 0.07 <= first <= 0.14
    assert [refuse(harness) for _ in range(4)][-1] > 0.5
    harness.answer(harness.requests.pop())
    harness.batch()
    assert refuse(harness) <= 0.14


def test_an_acknowledgement_makes_its_partition_healthy() -> None:
    harness = SenderHarness()
    healthy: list[TopicPartition] = []
    harness.recovery.healthy = healthy.append  # type: ignore[method-assign]
    harness.batch()
    harness.answer(harness.requests.pop())
    assert healthy == [TP]


@pytest.mark.parametrize("node", [0, 3])
def test_the_leader_that_a_refusal_names_is_passed_on(node: int) -> None:
    harness = SenderHarness()
    hints: list[tuple[Any, ...]] = []
    harness.cluster.hint = lambda *hint: hints.append(hint)  # type: ignore[method-assign]
    harness.batch()
    leader = ProduceResponse.Topic.Partition.Leader(leader_id=node, leader_epoch=9)
    answer(harness, harness.requests.pop(), current_leader=leader)
    assert hints == [(TP, node, 9, None)]


def test_the_leader_of_a_topic_that_was_deleted_meanwhile_is_not_passed_on() -> None:
    """Its epoch may be higher than all those of the new topic, whose leaders would then be taken for outdated."""
    harness = SenderHarness()
    hints: list[tuple[Any, ...]] = []
    harness.cluster.hint = lambda *hint: hints.append(hint)  # type: ignore[method-assign]
    harness.batch()
    harness.cluster.id = UUID(int=8)
    answer(harness, harness.requests.pop(), current_leader=ProduceResponse.Topic.Partition.Leader(leader_id=3, leader_epoch=9))
    assert not hints


def test_halves_of_a_batch_that_may_be_in_the_log_fail_as_maybe_written() -> None:
    harness = SenderHarness(enable_idempotence=False, linger_ms=10, delivery_timeout_ms=60_000)
    sent = [harness.acc.send("t", b"%d" % n, partition=0) for n in range(2)]
    harness.poll(1)
    harness.settle()
    harness.answer(harness.requests.pop(), "REQUEST_TIMED_OUT")
    harness.poll(1)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.poll(61)
    failed = [delivery.exception(0) for delivery in sent]
    assert [getattr(error, "written", None) for error in failed] == [Written.MAYBE] * 2


def test_sequences_count_records_and_wrap() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    queue = harness.sender.queues[TP]
    queue.next_sequence = 2**31 - 2
    for n in range(3):
        harness.acc.send("t", b"%d" % n, partition=0)
    harness.poll(1)
    harness.settle()
    harness.acc.send("t", b"next", partition=0)
    harness.poll(1)
    harness.settle()
    assert [header(request)[1] for request in harness.requests] == [2**31 - 2, 1]


@pytest.mark.parametrize(
    "error",
    [
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "CORRUPT_MESSAGE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "NETWORK_EXCEPTION",
    ],
)
def test_a_batch_refused_in_passing_goes_out_again_as_it_was(error: str) -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    first = harness.requests.pop()
    harness.answer(first, error)
    harness.recovery.bring_back()
    harness.poll(5)
    harness.settle()
    assert [header(request) for request in harness.requests] == [header(first)]
    harness.answer(harness.requests.pop(), offset=9)
    assert delivery.result(0).offset == 9


def test_the_pause_before_another_try_grows_to_its_maximum() -> None:
    harness = SenderHarness(retry_backoff_ms=100, retry_backoff_max_ms=400).proven()
    harness.batch()
    pauses = [refuse(harness) for _ in range(6)]
    assert pauses[0] <= 0.13
    assert all(0.3 <= pause <= 0.5 for pause in pauses[3:])
