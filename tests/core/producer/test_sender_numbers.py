"""Sender: epochs and sequence numbers, which make the brokers write each batch once."""

from __future__ import annotations

from uuid import UUID

import pytest
from sender_talk import Bench, header, producer_id, records

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


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"])
def test_a_lost_sequence_at_the_head_takes_the_next_epoch_without_asking_a_broker(error: str) -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), error)
    bench.poll(1)
    assert header(bench.requests[-1]) == (1, 0, 0)
    assert producer_id(bench.requests[-1]) == 42
    bench.answer(bench.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3


@pytest.mark.parametrize("error", ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
def test_a_fenced_partition_takes_another_producer_id_and_the_others_keep_theirs(error: str) -> None:
    bench = Bench().proven()
    delivery = bench.batch(partition=0)
    bench.answer(bench.requests.pop(), error)
    bench.batch(partition=1)
    assert (producer_id(bench.requests[-1]), header(bench.requests.pop())) == (42, (0, 1, 1))
    bench.poll(1)
    bench.settle()
    assert (producer_id(bench.requests[-1]), header(bench.requests[-1])) == (43, (0, 0, 0))
    bench.answer(bench.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3
    assert not bench.refusals


@pytest.mark.parametrize("fenced", [0, 1, 2])
def test_a_fence_in_the_middle_of_a_pipeline_sends_what_is_left_in_order_under_another_id(fenced: int) -> None:
    bench = Bench().proven()
    sent = [bench.batch(b"%d" % n) for n in range(3)]
    flights, bench.requests[:] = bench.requests[:], []
    for n, request in enumerate(flights):
        bench.answer(request, "INVALID_PRODUCER_EPOCH" if n >= fenced else "NONE", offset=n)
    bench.poll(1)
    bench.settle()
    for n in range(fenced, 3):
        request = bench.requests.pop(0)
        assert (producer_id(request), header(request), records(request)) == (43, (0, n - fenced, 0), [b"%d" % n])
        bench.answer(request, offset=n)
    assert [delivery.result(0).offset for delivery in sent] == [0, 1, 2]


@pytest.mark.parametrize("first", ["answer", "deadline"])
def test_an_answer_in_the_turn_of_the_delivery_deadline_gives_one_outcome(first: str) -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    called: list[object] = []
    delivery = bench.acc.send("t", b"v", partition=0, on_delivery=called.append)
    bench.settle()
    request = bench.requests.pop()
    if first == "deadline":
        bench.poll(10)
    else:
        bench.now += 10
    bench.answer(request, offset=7)
    bench.poll()
    assert (delivery.exception(0) is None) == (first == "answer")
    assert len(called) == 1
    assert not bench.sender.queues[TopicPartition("t", 0)].strays
    bench.batch(b"next")
    assert len(bench.requests) == 1


def test_a_broker_that_always_answers_out_of_order_is_asked_at_a_bounded_rate() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    delivery = bench.batch()
    answered = 0
    while not delivery.done():
        while bench.requests:
            bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
            answered += 1
        bench.poll(0.01)
    assert answered <= 16, "the pauses double up to a second"


def test_a_healthy_partition_renews_its_epoch_alone_while_another_is_in_doubt() -> None:
    """A renewal of the whole producer would wait for the partition whose leader is away, and the healthy one with it."""
    bench = Bench().proven()
    doubtful = bench.batch(b"doubtful", partition=1)
    request = bench.requests.pop()
    bench.network.up.remove(2)
    bench.lose(request)
    refused, good = bench.batch(b"refused"), bench.batch(b"good")
    first, second = bench.requests
    bench.requests.clear()
    bench.answer(first, "INVALID_RECORD")
    bench.answer(second, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.poll(1)
    assert refused.exception(0).written is Written.NO  # type: ignore[union-attr]
    assert [header(r) for r in bench.requests] == [(1, 0, 0)]
    bench.answer(bench.requests.pop(), offset=7)
    assert good.result(0).offset == 7
    for n in range(3):
        bench.batch(b"%d" % n)
    assert [header(r)[1] for r in bench.requests] == [1, 2, 3]
    assert not doubtful.done()


def test_a_partition_keeps_its_epoch_until_nothing_of_it_is_in_doubt() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    lost = bench.batch(b"lost")
    bench.poll(5)
    doubtful = bench.batch(b"doubtful")
    first, second = bench.requests
    bench.requests.clear()
    bench.network.up.clear()
    bench.lose(first)
    bench.lose(second)
    bench.poll(6)
    assert lost.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    bench.network.up = {1, 2, 3}
    bench.batch(b"next")
    assert [header(r) for r in bench.requests] == [header(second)], "what may be in the log goes out as it was"
    bench.answer(bench.requests.pop(), offset=9)
    assert doubtful.result(0).offset == 9
    bench.settle()
    assert [header(r) for r in bench.requests] == [(1, 0, 0)]


@pytest.mark.parametrize("how", ["answered", "lost"])
def test_behind_a_refused_batch_nothing_is_in_the_log(how: str) -> None:
    """Brokers take batches in sequence: what was pipelined behind goes out again, also when no answer to it came."""
    bench = Bench().proven()
    refused, behind = bench.batch(b"refused"), bench.batch(b"behind")
    first, second = bench.requests
    bench.requests.clear()
    bench.answer(first, "INVALID_RECORD")
    if how == "lost":
        bench.lose(second)
    else:
        bench.answer(second, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.poll(1)
    assert [header(r) for r in bench.requests] == [(1, 0, 0)]
    bench.answer(bench.requests.pop(), offset=5)
    assert behind.result(0).offset == 5
    assert refused.exception(0).written is Written.NO  # type: ignore[union-attr]


def test_the_first_batch_to_another_leader_goes_alone() -> None:
    bench = Bench().proven()
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.recovery.bring_back()
    bench.batch(b"one")
    bench.batch(b"two")
    assert [r.node for r in bench.requests] == [3]
    bench.answer(bench.requests.pop())
    bench.batch(b"three")
    assert [header(r)[1] for r in bench.requests] == [2, 3]


@pytest.mark.parametrize("what", ["connection", "leader epoch", "silence"])
def test_after_a_gap_in_which_the_leader_may_have_lost_the_log_the_first_batch_goes_alone(what: str) -> None:
    """A broker that restarted without its log, or that was a follower of one that lacked ours, takes any sequence as the first."""
    bench = Bench().proven()
    if what == "connection":
        bench.network.reconnect(1)
    elif what == "leader epoch":
        bench.recovery.epoch += 1
    else:
        bench.poll(60)
    bench.batch(b"head")
    bench.batch(b"second")
    assert [records(r) for r in bench.requests] == [[b"head"]]
    bench.answer(bench.requests.pop())
    bench.batch(b"third")
    assert [records(r) for r in bench.requests] == [[b"second"], [b"third"]]


def test_a_lost_connection_to_a_leader_that_lost_the_log_swaps_no_batches() -> None:
    bench = Bench().proven()
    bench.batch(b"head")
    bench.batch(b"second")
    lost, bench.requests[:] = bench.requests[:], []
    bench.network.reconnect(1)
    for request in lost:
        bench.lose(request)
    assert [records(r) for r in bench.requests] == [[b"head"]], "were the head refused, the second would be the first in the new log"


def test_slow_acknowledgements_do_not_end_the_pipeline() -> None:
    bench = Bench().proven()
    bench.batch(b"slow")
    bench.poll(25)
    bench.batch(b"meanwhile")
    assert len(bench.requests) == 2


def test_an_idle_topic_is_dropped_and_its_partitions_begin_in_a_later_epoch() -> None:
    """In the same epoch a batch could be taken for one sent before, and be acknowledged without being written."""
    bench = Bench(metadata_max_idle_ms=60_000).proven()
    bench.batch()
    bench.answer(bench.requests.pop())
    bench.poll(61)
    assert not bench.sender.queues
    assert "t" not in bench.cluster.wanted
    bench.batch(partition=1)
    assert (producer_id(bench.requests[-1]), header(bench.requests[-1])) == (42, (1, 0, 1))
    bench.answer(bench.requests.pop())
    bench.batch(partition=0)
    assert header(bench.requests[-1]) == (1, 0, 0)


def test_a_partition_with_a_batch_under_way_or_waiting_is_not_idle() -> None:
    bench = Bench(metadata_max_idle_ms=20_000, delivery_timeout_ms=60_000).proven()
    bench.batch()
    bench.poll(21)
    bench.poll(21)
    assert TopicPartition("t", 0) in bench.sender.queues
    bench.poll(20)
    bench.poll(21)
    assert TopicPartition("t", 0) in bench.sender.queues, "a request of a batch that timed out is still under way"
    bench.answer(bench.requests.pop())
    bench.poll(21)
    assert not bench.sender.queues


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    bench = Bench().proven()
    bench.sender.queues[TopicPartition("t", 0)].epoch = 32_767
    bench.batch()
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.poll(1)
    bench.settle()
    assert (producer_id(bench.requests[-1]), header(bench.requests[-1])) == (43, (0, 0, 0))


def test_a_maybe_written_head_out_of_order_is_failed_as_maybe() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.lose(bench.requests.pop())
    bench.recovery.bring_back()
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


@pytest.mark.parametrize("topic_id", [6, 8])
def test_a_topic_made_anew_starts_at_sequence_zero(topic_id: int) -> None:
    bench = Bench().proven()
    bench.cluster.id = UUID(int=topic_id)
    bench.cluster.change()
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
    bench.cluster.change()
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
