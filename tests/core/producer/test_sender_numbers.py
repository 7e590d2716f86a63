"""Sender: epochs and sequence numbers, which make the brokers write each batch once."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition, Written
from tests.core.producer.sender_harness import SenderHarness, header, producer_id, records

# ---------------------------------------------------------------- epochs


def test_first_batch_of_an_epoch_goes_alone() -> None:
    harness = SenderHarness()
    harness.batch(b"one")
    harness.batch(b"two")
    assert len(harness.requests) == 1
    harness.answer(harness.requests[0])
    harness.batch(b"three")
    assert len(harness.requests) == 3


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"])
def test_a_lost_sequence_at_the_head_takes_the_next_epoch_without_asking_a_broker(error: str) -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    harness.answer(harness.requests.pop(), error)
    harness.poll(1)
    assert header(harness.requests[-1]) == (1, 0, 0)
    assert producer_id(harness.requests[-1]) == 42
    harness.answer(harness.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3


@pytest.mark.parametrize("error", ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
def test_a_fenced_partition_takes_another_producer_id_and_the_others_keep_theirs(error: str) -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch(partition=0)
    harness.answer(harness.requests.pop(), error)
    harness.batch(partition=1)
    assert (producer_id(harness.requests[-1]), header(harness.requests.pop())) == (42, (0, 1, 1))
    harness.poll(1)
    harness.settle()
    assert (producer_id(harness.requests[-1]), header(harness.requests[-1])) == (43, (0, 0, 0))
    harness.answer(harness.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3
    assert not harness.refusals


@pytest.mark.parametrize("fenced", [0, 1, 2])
def test_a_fence_in_the_middle_of_a_pipeline_sends_what_is_left_in_order_under_another_id(fenced: int) -> None:
    harness = SenderHarness().proven()
    sent = [harness.batch(b"%d" % n) for n in range(3)]
    flights, harness.requests[:] = harness.requests[:], []
    for n, request in enumerate(flights):
        harness.answer(request, "INVALID_PRODUCER_EPOCH" if n >= fenced else "NONE", offset=n)
    harness.poll(1)
    harness.settle()
    for n in range(fenced, 3):
        request = harness.requests.pop(0)
        assert (producer_id(request), header(request), records(request)) == (43, (0, n - fenced, 0), [b"%d" % n])
        harness.answer(request, offset=n)
    assert [delivery.result(0).offset for delivery in sent] == [0, 1, 2]


@pytest.mark.parametrize("first", ["answer", "deadline"])
def test_an_answer_at_the_delivery_deadline_gives_one_outcome(first: str) -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    called: list[object] = []
    delivery = harness.acc.send("t", b"v", partition=0, on_delivery=called.append)
    harness.settle()
    request = harness.requests.pop()
    if first == "deadline":
        harness.poll(10)
    else:
        harness.now += 10
    harness.answer(request, offset=7)
    harness.poll()
    assert (delivery.exception(0) is None) == (first == "answer")
    assert len(called) == 1
    assert not harness.sender.queues[TopicPartition("t", 0)].strays
    harness.batch(b"next")
    assert len(harness.requests) == 1


def test_a_broker_that_always_answers_out_of_order_is_asked_at_a_bounded_rate() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    delivery = harness.batch()
    answered = 0
    while not delivery.done():
        while harness.requests:
            harness.answer(harness.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
            answered += 1
        harness.poll(0.01)
    assert answered <= 16, "the pauses double up to a second"


def test_a_healthy_partition_renews_its_epoch_alone_while_another_is_in_doubt() -> None:
    """A renewal of the whole producer would wait for the partition whose leader is away, and the healthy one with it."""
    harness = SenderHarness().proven()
    doubtful = harness.batch(b"doubtful", partition=1)
    request = harness.requests.pop()
    harness.network.up.remove(2)
    harness.lose(request)
    refused, good = harness.batch(b"refused"), harness.batch(b"good")
    first, second = harness.requests
    harness.requests.clear()
    harness.answer(first, "INVALID_RECORD")
    harness.answer(second, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.poll(1)
    assert refused.exception(0).written is Written.NO  # type: ignore[union-attr]
    assert [header(r) for r in harness.requests] == [(1, 0, 0)]
    harness.answer(harness.requests.pop(), offset=7)
    assert good.result(0).offset == 7
    for n in range(3):
        harness.batch(b"%d" % n)
    assert [header(r)[1] for r in harness.requests] == [1, 2, 3]
    assert not doubtful.done()


def test_a_partition_keeps_its_epoch_until_nothing_of_it_is_in_doubt() -> None:
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    lost = harness.batch(b"lost")
    harness.poll(5)
    doubtful = harness.batch(b"doubtful")
    first, second = harness.requests
    harness.requests.clear()
    harness.network.up.clear()
    harness.lose(first)
    harness.lose(second)
    harness.poll(6)
    assert lost.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    harness.network.up = {1, 2, 3}
    harness.batch(b"next")
    assert [header(r) for r in harness.requests] == [header(second)], "what may be in the log goes out as it was"
    harness.answer(harness.requests.pop(), offset=9)
    assert doubtful.result(0).offset == 9
    harness.settle()
    assert [header(r) for r in harness.requests] == [(1, 0, 0)]


@pytest.mark.parametrize("how", ["answered", "lost"])
def test_behind_a_refused_batch_nothing_is_in_the_log(how: str) -> None:
    """Brokers take batches in sequence: what was pipelined behind goes out again, also when no answer to it came."""
    harness = SenderHarness().proven()
    refused, behind = harness.batch(b"refused"), harness.batch(b"behind")
    first, second = harness.requests
    harness.requests.clear()
    harness.answer(first, "INVALID_RECORD")
    if how == "lost":
        harness.lose(second)
    else:
        harness.answer(second, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.poll(1)
    assert [header(r) for r in harness.requests] == [(1, 0, 0)]
    harness.answer(harness.requests.pop(), offset=5)
    assert behind.result(0).offset == 5
    assert refused.exception(0).written is Written.NO  # type: ignore[union-attr]


def test_the_first_batch_to_another_leader_goes_alone() -> None:
    harness = SenderHarness().proven()
    harness.recovery.leaders[TopicPartition("t", 0)] = 3
    harness.recovery.bring_back()
    harness.batch(b"one")
    harness.batch(b"two")
    assert [r.node for r in harness.requests] == [3]
    harness.answer(harness.requests.pop())
    harness.batch(b"three")
    assert [header(r)[1] for r in harness.requests] == [2, 3]


@pytest.mark.parametrize("what", ["connection", "leader epoch", "silence"])
def test_after_a_gap_in_which_the_leader_may_have_lost_the_log_the_first_batch_goes_alone(what: str) -> None:
    """A broker that restarted without its log, or that was a follower of one that lacked ours, takes any sequence as the first."""
    harness = SenderHarness().proven()
    if what == "connection":
        harness.network.reconnect(1)
    elif what == "leader epoch":
        harness.recovery.epoch += 1
    else:
        harness.poll(60)
    harness.batch(b"head")
    harness.batch(b"second")
    assert [records(r) for r in harness.requests] == [[b"head"]]
    harness.answer(harness.requests.pop())
    harness.batch(b"third")
    assert [records(r) for r in harness.requests] == [[b"second"], [b"third"]]


def test_a_lost_connection_to_a_leader_that_lost_the_log_swaps_no_batches() -> None:
    harness = SenderHarness().proven()
    harness.batch(b"head")
    harness.batch(b"second")
    lost, harness.requests[:] = harness.requests[:], []
    harness.network.reconnect(1)
    for request in lost:
        harness.lose(request)
    assert [records(r) for r in harness.requests] == [[b"head"]], "were the head refused, the second would be the first in the new log"


def test_slow_acknowledgements_do_not_end_the_pipeline() -> None:
    harness = SenderHarness().proven()
    harness.batch(b"slow")
    harness.poll(25)
    harness.batch(b"meanwhile")
    assert len(harness.requests) == 2


def test_an_idle_topic_is_dropped_and_its_partitions_begin_in_a_later_epoch() -> None:
    """In the same epoch a batch could be taken for one sent before, and be acknowledged without being written."""
    harness = SenderHarness(metadata_max_idle_ms=60_000).proven()
    harness.batch()
    harness.answer(harness.requests.pop())
    harness.poll(61)
    assert not harness.sender.queues
    assert "t" not in harness.cluster.wanted
    harness.batch(partition=1)
    assert (producer_id(harness.requests[-1]), header(harness.requests[-1])) == (42, (1, 0, 1))
    harness.answer(harness.requests.pop())
    harness.batch(partition=0)
    assert header(harness.requests[-1]) == (1, 0, 0)


def test_a_partition_with_a_batch_under_way_or_waiting_is_not_idle() -> None:
    harness = SenderHarness(metadata_max_idle_ms=20_000, delivery_timeout_ms=60_000).proven()
    harness.batch()
    harness.poll(21)
    harness.poll(21)
    assert TopicPartition("t", 0) in harness.sender.queues
    harness.poll(20)
    harness.poll(21)
    assert TopicPartition("t", 0) in harness.sender.queues, "a request of a batch that timed out is still under way"
    harness.answer(harness.requests.pop())
    harness.poll(21)
    assert not harness.sender.queues


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    harness = SenderHarness().proven()
    harness.sender.queues[TopicPartition("t", 0)].epoch = 32_767
    harness.batch()
    harness.answer(harness.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.poll(1)
    harness.settle()
    assert (producer_id(harness.requests[-1]), header(harness.requests[-1])) == (43, (0, 0, 0))


def test_a_maybe_written_head_out_of_order_is_failed_as_maybe() -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    harness.lose(harness.requests.pop())
    harness.recovery.bring_back()
    harness.settle()
    harness.answer(harness.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_duplicate_counts_as_acknowledged() -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    harness.answer(harness.requests.pop(), "DUPLICATE_SEQUENCE_NUMBER")
    assert delivery.result(0).offset == -1


# ---------------------------------------------------------------- sequences


def test_a_refused_batch_gives_its_sequence_back() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    number = header(harness.requests[-1])[1]
    harness.answer(harness.requests.pop(), "INVALID_RECORD")
    harness.batch(b"next")
    assert header(harness.requests[-1]) == (0, number, 0)


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
def test_a_sequence_that_may_be_in_the_log_is_not_given_to_another_batch(error: str) -> None:
    """The broker would take the other batch for a repetition and acknowledge it without writing it."""
    harness = SenderHarness(delivery_timeout_ms=10_000).proven()
    delivery = harness.batch(b"first")
    number = header(harness.requests[-1])
    harness.network.up.clear()
    harness.answer(harness.requests.pop(), error)
    harness.poll(11)
    assert delivery.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    harness.network.up = {1, 2, 3}
    harness.batch(b"other")
    assert header(harness.requests[-1]) != number
    assert header(harness.requests[-1])[:2] == (1, 0)


@pytest.mark.parametrize("error", AFTER_APPEND)
def test_a_batch_that_may_be_in_the_log_keeps_its_sequence_whatever_happens_elsewhere(error: str) -> None:
    """Under another number it would stand in the log twice."""
    harness = SenderHarness().proven()
    harness.batch(b"doubtful", partition=0)
    doubtful = harness.requests.pop()
    number = header(doubtful)
    harness.network.up.remove(1)
    harness.answer(doubtful, error)
    harness.batch(b"elsewhere", partition=1)
    harness.answer(harness.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.network.up.add(1)
    harness.poll(5)
    harness.settle()
    assert [header(request) for request in harness.requests if request.node == 1] == [number]


def test_sequences_wrap_at_two_to_the_31() -> None:
    harness = SenderHarness().proven()
    harness.sender.queues[TopicPartition("t", 0)].next_sequence = 2**31 - 1
    harness.batch(b"one")
    harness.batch(b"two")
    assert [header(r)[1] for r in harness.requests] == [2**31 - 1, 0]


@pytest.mark.parametrize("topic_id", [6, 8])
def test_a_recreated_topic_starts_at_sequence_zero(topic_id: int) -> None:
    harness = SenderHarness().proven()
    harness.cluster.id = UUID(int=topic_id)
    harness.cluster.change()
    harness.settle()
    harness.batch()
    assert header(harness.requests[-1])[1] == 0


@pytest.mark.parametrize("under_way", [True, False])
def test_a_sequence_that_the_log_of_a_recreated_topic_may_hold_is_not_reused(under_way: bool) -> None:
    """Brokers that know topics by name write what was under way into the new log; the number again would be a duplicate, and a loss."""
    harness = SenderHarness().proven()
    harness.batch(b"first")
    request = harness.requests.pop()
    if not under_way:
        harness.lose(request)
    harness.cluster.id = UUID(int=8)
    harness.cluster.change()
    harness.settle()
    if under_way:
        harness.lose(request)
    harness.settle()
    again = harness.requests.pop()
    assert header(again) == header(request)
    harness.answer(again)
    harness.batch(b"next")
    harness.settle()
    assert header(harness.requests[-1]) == (1, 0, 0)
