"""Sender: what leaves, in which order, what it does after a failure, and how it ends, with scripted answers and a fake clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pykafka4.core import INFINITY, Reply
from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.topics.parking import Parking
from pykafka4.errors import ClosedError, KafkaError, KafkaTimeoutError, broker_error
from pykafka4.records import TopicPartition, Written
from tests.core.producer.sender_harness import LOST, SenderHarness, header, values

# ---------------------------------------------------------------- acknowledged


def test_a_record_is_acknowledged_with_its_offset() -> None:
    harness = SenderHarness()
    delivery = harness.batch()
    harness.answer(harness.requests[0], offset=17)
    assert delivery.result(0).offset == 17
    assert harness.stats().acked == 1


def test_with_acks_0_written_is_finished() -> None:
    harness = SenderHarness(acks=0)
    delivery = harness.batch()
    (request,) = harness.requests
    assert not request.expects_reply
    request.on_reply(harness.now, Reply(None, 7, 1))
    assert delivery.result(0).offset == -1


def test_waiters_look_again_when_the_callbacks_have_run() -> None:
    harness = SenderHarness().proven()
    harness.acc.send("t", b"v", partition=0, on_delivery=lambda delivery: None)
    harness.settle()
    harness.answer(harness.requests.pop())
    assert harness.seen_settled, "close and flush would wait for a look that nobody asks for"


def test_an_idle_sender_asks_for_no_wake_up() -> None:
    harness = SenderHarness().proven()
    harness.poll(200)
    assert harness.poll().wake_at == INFINITY
    assert not harness.requests


# ---------------------------------------------------------------- leaders and order


def test_a_batch_survives_a_lost_connection_and_keeps_its_sequence() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    first = harness.requests.pop()
    bytes_before, numbers = values(first), header(first)
    harness.lose(first)
    assert harness.recovery.reports == [(TopicPartition("t", 0), LOST)]
    harness.recovery.bring_back()
    harness.settle()
    assert header(harness.requests[-1]) == numbers
    assert values(harness.requests[-1]) == bytes_before


def test_a_partition_without_a_leader_waits_and_the_other_goes_on() -> None:
    harness = SenderHarness().proven()
    harness.recovery.leaders[TopicPartition("t", 0)] = None  # type: ignore[assignment]
    harness.batch(partition=0)
    harness.batch(partition=1)
    assert [header(r)[2] for r in harness.requests] == [1]
    harness.recovery.leaders[TopicPartition("t", 0)] = 3
    harness.recovery.bring_back()
    harness.settle()
    assert harness.requests[-1].node == 3


def test_a_failed_batch_is_sent_again_before_those_behind_it() -> None:
    harness = SenderHarness().proven()
    for n in range(5):
        harness.batch(b"%d" % n)
    flight = [harness.requests.pop(0) for _ in range(5)]
    sent = [header(r)[1] for r in flight]
    harness.answer(flight[0], "NOT_ENOUGH_REPLICAS")
    harness.poll(5)
    assert not harness.requests, "nothing may pass while later batches are in flight"
    for request in flight[1:]:
        harness.answer(request, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    harness.poll(5)
    harness.settle()
    assert [header(r)[1] for r in harness.requests] == sent


def test_leader_change_waits_for_what_is_in_flight_to_the_old_leader() -> None:
    harness = SenderHarness().proven()
    harness.batch(b"one")
    harness.recovery.leaders[TopicPartition("t", 0)] = 3
    harness.cluster.change()
    harness.batch(b"two")
    assert [r.node for r in harness.requests] == [1]
    harness.answer(harness.requests[0])
    harness.settle()
    assert [r.node for r in harness.requests] == [1, 3]


def test_leader_change_waits_for_all_that_is_in_flight_to_the_old_leader_though_some_of_it_is_acknowledged() -> None:
    harness = SenderHarness().proven()
    harness.batch(b"one")
    harness.batch(b"two")
    assert [r.node for r in harness.requests] == [1, 1]
    harness.recovery.leaders[TopicPartition("t", 0)] = 3
    harness.cluster.change()
    harness.batch(b"three")
    harness.answer(harness.requests[0])
    harness.settle()
    assert [r.node for r in harness.requests] == [1, 1]
    harness.answer(harness.requests[1], offset=1)
    harness.settle()
    assert [r.node for r in harness.requests] == [1, 1, 3]


def test_a_request_has_one_batch_per_partition_while_other_threads_send_more() -> None:
    harness = SenderHarness().proven()
    harness.recovery.leaders[TopicPartition("t", 1)] = 1
    harness.cluster.change()
    harness.batch(partition=1)  # the first one to another leader goes alone
    harness.answer(harness.requests.pop())

    class Busy:
        """An accumulator to which another thread sends, and seals the batch of partition 1 just before the sender does."""

        def seal(self, batch: Any, taken: bool) -> bool:
            if batch.partition == 1:
                sent.append(harness.acc.send("t", b"from another thread", partition=0))
                assert harness.acc.seal(batch)
            return harness.acc.seal(batch, taken)

        def __getattr__(self, name: str) -> Any:
            return getattr(harness.acc, name)

    sent = [harness.acc.send("t", b"v", partition=partition) for partition in (0, 1)]
    harness.sender.acc = Busy()  # type: ignore[assignment]
    harness.settle()
    assert len(sent) == 3
    for request in harness.requests:
        indexes = [p.index for topic in request.message.topic_data for p in topic.partition_data]
        assert len(indexes) == len(set(indexes)), "brokers keep one batch per partition of a request"


def test_a_due_batch_that_another_thread_seals_first_is_sent_in_the_same_turn() -> None:
    harness = SenderHarness().proven()

    class Busy:
        """An accumulator in which another thread seals each batch just before the sender does."""

        def seal(self, batch: Any, taken: bool) -> bool:
            assert harness.acc.seal(batch)
            return harness.acc.seal(batch, taken)

        def __getattr__(self, name: str) -> Any:
            return getattr(harness.acc, name)

    harness.sender.acc = Busy()  # type: ignore[assignment]
    harness.acc.send("t", b"v", partition=0)
    harness.poll()
    assert len(harness.requests) == 1


def test_without_idempotence_one_batch_per_partition_is_in_flight() -> None:
    harness = SenderHarness(enable_idempotence=False)
    harness.batch(b"one")
    harness.batch(b"two")
    harness.batch(b"other", partition=1)
    assert [header(r) for r in harness.requests] == [(-1, -1, 0), (-1, -1, 1)]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE"])
def test_errors_that_ask_for_metadata_put_only_this_partition_offline(error: str) -> None:
    harness = SenderHarness().proven()
    harness.batch(partition=0)
    harness.answer(harness.requests.pop(), error)
    assert [tp for tp, _ in harness.recovery.reports] == [TopicPartition("t", 0)]


# ---------------------------------------------------------------- the end


def test_a_producer_that_gets_no_id_is_finished_and_refuses_further_records() -> None:
    harness = SenderHarness()
    waiting = harness.acc.send("t", b"v", partition=1)
    harness.sender.identity.fail(broker_error(31, "InitProducerId"))
    harness.settle()
    assert waiting.exception(0).code == "CLUSTER_AUTHORIZATION_FAILED"
    assert [error.code.name for error in harness.refusals] == ["CLUSTER_AUTHORIZATION_FAILED"], "once is enough"


def test_a_fatal_producer_id_error_ends_the_sender_once() -> None:
    harness = SenderHarness()
    harness.sender.identity.fail(ClosedError("the end"))
    ended: list[KafkaError] = []
    harness.sender.fail_all = ended.append  # type: ignore[method-assign]
    for _ in range(3):
        harness.poll()
    assert len(ended) == 1


def test_abandon_tells_written_from_not_written() -> None:
    harness = SenderHarness().proven()
    flying = harness.batch(b"flying", 0)
    harness.network.up.clear()
    waiting = harness.batch(b"waiting", 1)
    harness.sender.fail_all(KafkaTimeoutError("closed"))
    assert flying.exception(0).written is Written.MAYBE
    assert waiting.exception(0).written is Written.NO


class Bug(Exception):
    """What a mistake in the sender raises."""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("acc", "seal"),
        ("acc", "take"),
        ("acc", "fail_parked"),
        ("sender", "_collect"),
        ("application", "refuse"),
        ("outcomes", "fail"),
        ("parking", "fail"),
        ("queue", "withdraw"),
        ("queue", "remove"),
        ("queue", "hold_behind"),
        ("ledger", "lost"),
        ("ledger", "requeued"),
    ],
)
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_a_crash_gives_every_record_one_outcome_whatever_step_raises(
    owner: str, name: str, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = SenderHarness(linger_ms=10).proven()
    harness.cluster.hidden.add("unknown")
    outcomes: Counter[int] = Counter()
    topics = ["t", "t", "t", "t", "unknown", "unknown"]
    for n, topic in enumerate(topics):
        harness.acc.send(topic, b"%d" % n, partition=n % 2, on_delivery=lambda d, n=n: outcomes.update([n]))
        if n == 1:
            harness.settle()  # in flight; the next two are open, the last two parked
    places = {
        "acc": harness.acc,
        "sender": harness.sender,
        "application": harness,
        "parking": Parking,
        "outcomes": Outcomes,
        "ledger": Ledger,
        "queue": PartitionQueue,
    }
    place: Any = places[owner]
    raised: list[str] = []
    original = getattr(place, name)

    def fail(*args: Any, **named: Any) -> Any:
        if raised and not always:
            return original(*args, **named)
        raised.append(name)
        raise Bug(name)

    if owner == "acc":
        place = harness.sender.acc = harness.sender._parking._acc = Raising(harness.acc, name, fail)
    else:
        monkeypatch.setattr(place, name, fail)
    for callbacks in harness.sender.crash(KafkaError("a bug")):
        callbacks()
    for callbacks in harness.sender.crash(KafkaError("again")):
        callbacks()
    assert raised
    # What always raises in the accumulator is the outcome itself.
    if not always or owner in ("sender", "application", "outcomes", "queue", "ledger"):
        assert outcomes == dict.fromkeys(range(6), 1)


class Raising:
    """An accumulator with one method that raises."""

    def __init__(self, acc: Any, name: str, fail: Any) -> None:
        self._acc, self._name, self._fail = acc, name, fail

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._name else getattr(self._acc, name)
