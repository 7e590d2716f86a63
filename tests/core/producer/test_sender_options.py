"""What options and answers do to the requests that leave: acks, bounds on size, number and time, back-off, leaders, append times."""

from __future__ import annotations

from typing import Any

import pytest
from sender_talk import ID, Bench, header

from pykafka4.core import Reply
from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_produce import ProduceResponse

TP = TopicPartition("t", 0)


def answer(bench: Bench, request: Any, **fields: Any) -> None:
    """An answer for partition 0 with these fields, and no error."""
    partition = ProduceResponse.Topic.Partition(index=0, error_code=0, base_offset=5, **fields)
    topic = ProduceResponse.Topic(name="t", topic_id=ID, partition_responses=[partition])
    request.on_reply(bench.now, Reply(ProduceResponse(responses=[topic]), 12, request.node))
    bench.poll()


def partitions(request: Any) -> list[int]:
    return [part.index for topic in request.message.topic_data for part in topic.partition_data]


@pytest.mark.parametrize(("acks", "sent"), [("all", -1), (1, 1), (0, 0)])
def test_acks_are_sent_as_configured(acks: object, sent: int) -> None:
    bench = Bench(acks=acks)
    bench.batch()
    assert bench.requests[0].message.acks == sent


@pytest.mark.parametrize(("ours", "theirs"), [(30_000, 24_000), (7_000, 5_600), (1, 1)])
def test_brokers_stop_waiting_for_replicas_before_we_stop_waiting_for_them(ours: int, theirs: int) -> None:
    bench = Bench(request_timeout_ms=ours)
    bench.batch()
    (request,) = bench.requests
    assert request.message.timeout_ms == theirs
    assert request.deadline == pytest.approx(bench.now + ours / 1000)


def test_what_the_broker_appended_at_its_own_time_says_so() -> None:
    bench = Bench()
    delivery = bench.batch()
    answer(bench, bench.requests[0], log_append_time_ms=1234)
    assert delivery.result(0).timestamp_ms == 1234


def test_a_partition_that_an_answer_leaves_out_may_have_been_written() -> None:
    bench = Bench(delivery_timeout_ms=60_000)
    delivery = bench.batch()
    bench.requests[0].on_reply(bench.now, Reply(ProduceResponse(responses=[]), 12, 1))
    bench.poll(61)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_a_request_takes_no_more_than_max_request_size() -> None:
    bench = Bench(max_request_size=10_000, batch_size=8_000)
    leaders = bench.recovery.leaders
    leaders[TopicPartition("t", 1)] = leaders[TP]
    bench.network.up.clear()
    for partition in (0, 1):
        bench.batch(bytes(6_000), partition)
    bench.network.up.add(1)
    bench.cluster.change()
    bench.settle()
    assert [partitions(request) for request in bench.requests] in ([[0], [1]], [[1], [0]])


def test_small_batches_of_one_leader_share_a_request() -> None:
    bench = Bench()
    leaders = bench.recovery.leaders
    leaders[TopicPartition("t", 1)] = leaders[TP]
    bench.network.up.clear()
    for partition in (0, 1):
        bench.batch(b"v", partition)
    bench.network.up.add(1)
    bench.cluster.change()
    bench.settle()
    assert [sorted(partitions(request)) for request in bench.requests] == [[0, 1]]


def test_no_more_requests_are_in_flight_than_the_option_allows() -> None:
    bench = Bench(max_in_flight_requests_per_connection=2).proven()
    for n in range(4):
        bench.batch(b"%d" % n)
    assert len(bench.requests) == 2
    bench.answer(bench.requests[0])
    bench.settle()
    assert len(bench.requests) == 3


def test_without_idempotence_one_batch_is_in_flight_also_after_an_acknowledgement() -> None:
    bench = Bench(enable_idempotence=False).proven()
    bench.batch(b"one")
    bench.batch(b"two")
    assert len(bench.requests) == 1


def refuse(bench: Bench) -> float:
    """The only request is refused in passing; how many seconds later the batch goes out again, in steps of 5 ms."""
    bench.answer(bench.requests.pop(), "NOT_ENOUGH_REPLICAS")
    began = bench.now
    while not bench.requests:
        wake_at = bench.poll(0.005).wake_at
        assert bench.requests or wake_at <= began + 5, "nothing would wake the loop for it"
        assert bench.now < began + 5
    return bench.now - began


def test_a_refused_batch_goes_out_again_after_a_pause_that_grows_and_that_an_acknowledgement_resets() -> None:
    bench = Bench(retry_backoff_ms=100, retry_backoff_max_ms=1_000).proven()
    bench.batch()
    first = refuse(bench)
    assert 0.07 <= first <= 0.14
    assert [refuse(bench) for _ in range(4)][-1] > 0.5
    bench.answer(bench.requests.pop())
    bench.batch()
    assert refuse(bench) <= 0.14


def test_an_acknowledgement_makes_its_partition_healthy() -> None:
    bench = Bench()
    healthy: list[TopicPartition] = []
    bench.recovery.healthy = healthy.append  # type: ignore[method-assign]
    bench.batch()
    bench.answer(bench.requests.pop())
    assert healthy == [TP]


@pytest.mark.parametrize("node", [0, 3])
def test_the_leader_that_a_refusal_names_is_passed_on(node: int) -> None:
    bench = Bench()
    hints: list[tuple[Any, ...]] = []
    bench.cluster.hint = lambda *hint: hints.append(hint)  # type: ignore[method-assign]
    bench.batch()
    leader = ProduceResponse.Topic.Partition.Leader(leader_id=node, leader_epoch=9)
    answer(bench, bench.requests.pop(), current_leader=leader)
    assert hints == [(TP, node, 9, None)]


def test_halves_of_a_batch_that_may_be_in_the_log_fail_as_maybe_written() -> None:
    bench = Bench(enable_idempotence=False, linger_ms=10, delivery_timeout_ms=60_000)
    sent = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(2)]
    bench.poll(1)
    bench.settle()
    bench.answer(bench.requests.pop(), "REQUEST_TIMED_OUT")
    bench.poll(1)
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.poll(61)
    failed = [delivery.exception(0) for delivery in sent]
    assert [getattr(error, "written", None) for error in failed] == [Written.MAYBE] * 2


def test_sequences_count_records_and_wrap() -> None:
    bench = Bench(linger_ms=10).proven()
    queue = bench.sender.queues[TP]
    queue.next_sequence = 2**31 - 2
    for n in range(3):
        bench.acc.send("t", b"%d" % n, partition=0)
    bench.poll(1)
    bench.settle()
    bench.acc.send("t", b"next", partition=0)
    bench.poll(1)
    bench.settle()
    assert [header(request)[1] for request in bench.requests] == [2**31 - 2, 1]


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
    bench = Bench().proven()
    delivery = bench.batch()
    first = bench.requests.pop()
    bench.answer(first, error)
    bench.recovery.bring_back()
    bench.poll(5)
    bench.settle()
    assert [header(request) for request in bench.requests] == [header(first)]
    bench.answer(bench.requests.pop(), offset=9)
    assert delivery.result(0).offset == 9


def test_the_pause_before_another_try_grows_to_its_maximum() -> None:
    bench = Bench(retry_backoff_ms=100, retry_backoff_max_ms=400).proven()
    bench.batch()
    pauses = [refuse(bench) for _ in range(6)]
    assert pauses[0] <= 0.13
    assert all(0.3 <= pause <= 0.5 for pause in pauses[3:])
