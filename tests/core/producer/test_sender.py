"""Sender: what leaves, in which order, what it does after a failure, and how it ends, against hand-made answers and a fake clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sender_talk import LOST, Bench, header, values

from pykafka4.core import INFINITY, Reply
from pykafka4.core.producer.ledger import Ledger
from pykafka4.core.producer.outcomes import Outcomes
from pykafka4.core.producer.parking import Parking
from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.error_table import Written
from pykafka4.errors import ClosedError, KafkaError, KafkaTimeoutError, broker_error
from pykafka4.records import TopicPartition

# ---------------------------------------------------------------- acknowledged


def test_a_record_is_acknowledged_with_its_offset() -> None:
    bench = Bench()
    delivery = bench.batch()
    bench.answer(bench.requests[0], offset=17)
    assert delivery.result(0).offset == 17
    assert bench.sender.ledger.stats(bench.acc.accepted, 0).acked == 1


def test_with_acks_0_written_is_finished() -> None:
    bench = Bench(acks=0)
    delivery = bench.batch()
    (request,) = bench.requests
    assert not request.expects_reply
    request.on_reply(bench.now, Reply(None, 7, 1))
    assert delivery.result(0).offset == -1


def test_waiters_look_again_when_the_callbacks_have_run() -> None:
    bench = Bench().proven()
    bench.acc.send("t", b"v", partition=0, on_delivery=lambda delivery: None)
    bench.settle()
    bench.answer(bench.requests.pop())
    assert bench.seen_settled, "close and flush would wait for a look that nobody asks for"


def test_an_idle_sender_asks_for_no_wake_up() -> None:
    bench = Bench().proven()
    bench.poll(200)
    assert bench.poll().wake_at == INFINITY
    assert not bench.requests


# ---------------------------------------------------------------- leaders and order


def test_batch_survives_a_lost_connection_and_keeps_its_number() -> None:
    bench = Bench().proven()
    bench.batch()
    first = bench.requests.pop()
    bytes_before, numbers = values(first), header(first)
    bench.lose(first)
    assert bench.recovery.reports == [(TopicPartition("t", 0), LOST)]
    bench.recovery.bring_back()
    bench.settle()
    assert header(bench.requests[-1]) == numbers
    assert values(bench.requests[-1]) == bytes_before


def test_a_partition_without_a_leader_waits_and_the_other_goes_on() -> None:
    bench = Bench().proven()
    bench.recovery.leaders[TopicPartition("t", 0)] = None  # type: ignore[assignment]
    bench.batch(partition=0)
    bench.batch(partition=1)
    assert [header(r)[2] for r in bench.requests] == [1]
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.recovery.bring_back()
    bench.settle()
    assert bench.requests[-1].node == 3


def test_a_failed_batch_is_sent_again_before_those_behind_it() -> None:
    bench = Bench().proven()
    for n in range(5):
        bench.batch(b"%d" % n)
    flight = [bench.requests.pop(0) for _ in range(5)]
    sent = [header(r)[1] for r in flight]
    bench.answer(flight[0], "NOT_ENOUGH_REPLICAS")
    bench.poll(5)
    assert not bench.requests, "nothing may pass while later batches are in flight"
    for request in flight[1:]:
        bench.answer(request, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.poll(5)
    bench.settle()
    assert [header(r)[1] for r in bench.requests] == sent


def test_leader_change_waits_for_what_is_in_flight_to_the_old_leader() -> None:
    bench = Bench().proven()
    bench.batch(b"one")
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.cluster.change()
    bench.batch(b"two")
    assert [r.node for r in bench.requests] == [1]
    bench.answer(bench.requests[0])
    bench.settle()
    assert [r.node for r in bench.requests] == [1, 3]


def test_leader_change_waits_for_all_that_is_in_flight_to_the_old_leader_though_some_of_it_is_acknowledged() -> None:
    bench = Bench().proven()
    bench.batch(b"one")
    bench.batch(b"two")
    assert [r.node for r in bench.requests] == [1, 1]
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.cluster.change()
    bench.batch(b"three")
    bench.answer(bench.requests[0])
    bench.settle()
    assert [r.node for r in bench.requests] == [1, 1]
    bench.answer(bench.requests[1], offset=1)
    bench.settle()
    assert [r.node for r in bench.requests] == [1, 1, 3]


def test_a_request_has_one_batch_per_partition_while_other_threads_send_more() -> None:
    bench = Bench().proven()
    bench.recovery.leaders[TopicPartition("t", 1)] = 1
    bench.cluster.change()
    bench.batch(partition=1)  # the first one to another leader goes alone
    bench.answer(bench.requests.pop())

    class Busy:
        """An accumulator to which another thread sends, and seals the batch of partition 1 just before the sender does."""

        def seal(self, batch: Any, taken: bool) -> bool:
            if batch.partition == 1:
                sent.append(bench.acc.send("t", b"from another thread", partition=0))
                assert bench.acc.seal(batch)
            return bench.acc.seal(batch, taken)

        def __getattr__(self, name: str) -> Any:
            return getattr(bench.acc, name)

    sent = [bench.acc.send("t", b"v", partition=partition) for partition in (0, 1)]
    bench.sender.acc = Busy()  # type: ignore[assignment]
    bench.settle()
    assert len(sent) == 3
    for request in bench.requests:
        indexes = [p.index for topic in request.message.topic_data for p in topic.partition_data]
        assert len(indexes) == len(set(indexes)), "brokers keep one batch per partition of a request"


def test_a_due_batch_that_another_thread_seals_first_is_sent_in_the_same_turn() -> None:
    bench = Bench().proven()

    class Busy:
        """An accumulator in which another thread seals each batch just before the sender does."""

        def seal(self, batch: Any, taken: bool) -> bool:
            assert bench.acc.seal(batch)
            return bench.acc.seal(batch, taken)

        def __getattr__(self, name: str) -> Any:
            return getattr(bench.acc, name)

    bench.sender.acc = Busy()  # type: ignore[assignment]
    bench.acc.send("t", b"v", partition=0)
    bench.poll()
    assert len(bench.requests) == 1


def test_without_idempotence_one_batch_per_partition_is_in_flight() -> None:
    bench = Bench(enable_idempotence=False)
    bench.batch(b"one")
    bench.batch(b"two")
    bench.batch(b"other", partition=1)
    assert [header(r) for r in bench.requests] == [(-1, -1, 0), (-1, -1, 1)]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE"])
def test_errors_that_ask_for_metadata_put_only_this_partition_offline(error: str) -> None:
    bench = Bench().proven()
    bench.batch(partition=0)
    bench.answer(bench.requests.pop(), error)
    assert [tp for tp, _ in bench.recovery.reports] == [TopicPartition("t", 0)]


# ---------------------------------------------------------------- the end


def test_a_producer_that_gets_no_id_is_finished_and_refuses_further_records() -> None:
    bench = Bench()
    waiting = bench.acc.send("t", b"v", partition=1)
    bench.sender.identity.fail(broker_error(31, "InitProducerId"))
    bench.settle()
    assert waiting.exception(0).code == "CLUSTER_AUTHORIZATION_FAILED"
    assert [error.code.name for error in bench.refusals] == ["CLUSTER_AUTHORIZATION_FAILED"], "once is enough"


def test_an_end_is_made_of_everything_once() -> None:
    bench = Bench()
    bench.sender.identity.fail(ClosedError("the end"))
    ended: list[KafkaError] = []
    bench.sender.abandon = ended.append  # type: ignore[method-assign]
    for _ in range(3):
        bench.poll()
    assert len(ended) == 1


def test_abandon_tells_written_from_not_written() -> None:
    bench = Bench().proven()
    flying = bench.batch(b"flying", 0)
    bench.network.up.clear()
    waiting = bench.batch(b"waiting", 1)
    bench.sender.abandon(KafkaTimeoutError("closed"))
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
        ("sender", "_refuse"),
        ("outcomes", "fail"),
        ("parking", "fail"),
        ("queue", "withdraw"),
        ("queue", "remove"),
        ("queue", "abandon"),
        ("ledger", "lost"),
        ("ledger", "requeued"),
    ],
)
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_a_crash_gives_every_record_one_outcome_whatever_step_raises(
    owner: str, name: str, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(linger_ms=10).proven()
    bench.cluster.hidden.add("unknown")
    outcomes: Counter[int] = Counter()
    topics = ["t", "t", "t", "t", "unknown", "unknown"]
    for n, topic in enumerate(topics):
        bench.acc.send(topic, b"%d" % n, partition=n % 2, on_delivery=lambda d, n=n: outcomes.update([n]))
        if n == 1:
            bench.settle()  # in flight; the next two are open, the last two parked
    places = {"acc": bench.acc, "sender": bench.sender, "parking": Parking, "outcomes": Outcomes, "ledger": Ledger, "queue": PartitionQueue}
    place: Any = places[owner]
    raised: list[str] = []
    original = getattr(place, name)

    def fail(*args: Any, **named: Any) -> Any:
        if raised and not always:
            return original(*args, **named)
        raised.append(name)
        raise Bug(name)

    if owner == "acc":
        place = bench.sender.acc = bench.sender._parking._acc = Raising(bench.acc, name, fail)
    else:
        monkeypatch.setattr(place, name, fail)
    for callbacks in bench.sender.crash(KafkaError("a bug")):
        callbacks()
    for callbacks in bench.sender.crash(KafkaError("again")):
        callbacks()
    assert raised
    if not always or owner in ("sender", "outcomes", "queue", "ledger"):  # what always raises in the accumulator is the outcome itself
        assert outcomes == dict.fromkeys(range(6), 1)


class Raising:
    """An accumulator with one method that raises."""

    def __init__(self, acc: Any, name: str, fail: Any) -> None:
        self._acc, self._name, self._fail = acc, name, fail

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._name else getattr(self._acc, name)
