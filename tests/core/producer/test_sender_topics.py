"""Sender: records of a topic not known yet wait for it, in order, or fail with its error."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from pykafka4.core import Reply
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S
from pykafka4.errors import AuthorizationError, DeliveryFailed
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest, InitProducerIdResponse
from tests.core.producer.sender_harness import SenderHarness


def test_records_for_an_unknown_topic_fail_when_it_stays_unknown() -> None:
    harness = SenderHarness(unknown_topic_timeout_ms=20_000)
    harness.cluster.known = False
    harness.cluster.error = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"]
    delivery = harness.batch()
    assert not delivery.done()
    harness.poll(21)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "topic 't' did not exist" in str(error)


def test_a_forbidden_topic_fails_at_once() -> None:
    harness = SenderHarness()
    harness.cluster.known = False
    harness.cluster.error = BY_NAME["TOPIC_AUTHORIZATION_FAILED"]
    assert harness.batch().exception(0).code == "TOPIC_AUTHORIZATION_FAILED"


def test_records_wait_for_their_topic_in_order() -> None:
    harness = SenderHarness()
    harness.cluster.known = False
    handles = [harness.acc.send("t", b"%d" % n, partition=0) for n in range(3)]
    harness.settle()
    assert not harness.requests
    harness.cluster.known = True
    harness.cluster.change()
    harness.settle()
    harness.answer(harness.requests.pop(), offset=5)
    assert [h.result(0).offset for h in handles] == [5, 6, 7]


def test_a_flush_covers_records_that_are_still_parked() -> None:
    harness = SenderHarness(linger_ms=60_000)
    harness.cluster.known = False
    harness.acc.send("t", b"v", partition=0)
    harness.poll()
    harness.sender.expedite()
    harness.poll()
    harness.cluster.known = True
    harness.cluster.change()
    harness.poll()
    harness.poll()
    harness.poll()
    assert len(harness.requests) == 1


def test_nothing_is_kept_of_topics_that_never_became_known() -> None:
    harness = SenderHarness(unknown_topic_timeout_ms=1_000).proven()
    harness.batch()
    (batch,) = harness.sender.queues[TopicPartition("t", 0)].batches
    names = [f"typo-{n}" for n in range(100)]
    harness.cluster.hidden.update(names)
    for name in names:
        harness.acc.send(name, b"v")
    harness.poll()
    harness.poll(2)
    assert harness.sender.ledger.failures_seen == 100
    assert harness.cluster.wanted == ["t"]
    gc.collect()
    assert not [it for it in gc.get_objects() if type(it) is type(batch) and it.topic in names], (
        "each topic has a batch that stands for none"
    )
    kept = harness.acc.send("typo-1", b"v")
    harness.poll()
    assert harness.cluster.wanted == ["t", "typo-1"]
    assert not kept.done()


def test_an_unknown_topic_is_dropped_if_its_only_send_raised() -> None:
    harness = SenderHarness(unknown_topic_timeout_ms=1_000).proven()
    harness.cluster.hidden.add("typo")
    with pytest.raises(TypeError):
        harness.acc.send("typo", 1)  # type: ignore[arg-type]
    harness.poll()
    assert harness.cluster.wanted == ["t", "typo"]
    harness.poll(2)
    assert harness.cluster.wanted == ["t"]
    kept = harness.acc.send("typo", b"v")
    harness.poll()
    assert harness.cluster.wanted == ["t", "typo"]
    harness.poll(2)
    assert kept.done(), "parked, and failed by unknown_topic_timeout_ms"
    assert harness.cluster.wanted == ["t"]


def test_a_flush_of_parked_records_does_not_keep_the_loop_awake() -> None:
    harness = SenderHarness(linger_ms=60_000)
    harness.cluster.hidden.add("unknown")
    harness.acc.send("unknown", b"v")
    harness.poll()
    harness.sender.expedite()
    harness.poll()
    harness.wakes = 0
    for _ in range(20):
        effects = harness.poll()
        assert effects.wake_at > harness.now
    assert harness.wakes == 0, "each wake is another turn at once"


def test_topics_linger_again_after_a_flush_while_others_are_still_parked() -> None:
    harness = SenderHarness(linger_ms=1000).proven()
    harness.cluster.hidden.add("unknown")
    harness.acc.send("unknown", b"v")
    harness.poll()
    harness.sender.expedite()
    harness.poll()
    harness.acc.send("t", b"lingers", partition=0)
    for _ in range(5):
        harness.poll()
    assert not harness.requests
    harness.poll(1)
    harness.poll()
    assert len(harness.requests) == 1


def test_records_parked_after_a_flush_of_their_topic_ended_linger() -> None:
    harness = SenderHarness(linger_ms=60_000)
    harness.cluster.hidden.add("t")
    harness.acc.send("t", b"flushed", partition=0)
    harness.poll()
    harness.sender.expedite()
    harness.poll()
    harness.cluster.hidden.clear()
    harness.cluster.change()
    for _ in range(3):
        harness.poll()
    assert len(harness.requests) == 1
    harness.answer(harness.requests.pop())
    harness.acc.send("t", b"lingers", partition=0)
    for _ in range(3):
        harness.poll()
    assert not harness.requests


def test_a_parked_record_for_a_partition_that_is_not_there_is_counted_and_waiters_look_again() -> None:
    harness = SenderHarness()
    harness.cluster.known = False
    called: list[Any] = []
    plain = harness.acc.send("t", b"v", partition=99)
    followed = harness.acc.send("t", b"v", partition=98, on_delivery=called.append)
    harness.poll()
    harness.cluster.known = True
    harness.cluster.change()
    harness.poll()
    looks = harness.looks
    harness.poll(MISSING_PARTITION_S)
    stats = harness.stats()
    assert (stats.failed, stats.queued) == ({("UNKNOWN_TOPIC_OR_PARTITION", Written.NO): 2}, 0)
    assert plain.settled
    assert followed.settled
    assert len(called) == 1
    assert harness.looks == looks + 2, "for those that failed, and when the callback had run"
    assert "partition=99, but the highest partition of the topic is 1" in str(harness.sender.ledger.failures_since(0)[1])


# -- a producer id that is denied


def without_id(harness: SenderHarness, code: int = 31) -> None:
    """Brokers refuse a producer id until `harness.poll` is used."""
    harness.now += 1.3
    for _ in range(3):
        for request in harness.sender.poll(harness.now).requests:
            assert isinstance(request.message, InitProducerIdRequest)
            request.on_reply(harness.now, Reply(InitProducerIdResponse(error_code=code), 4, 1))


def test_records_fail_with_the_right_that_their_topic_needs_when_the_producer_id_is_denied() -> None:
    harness = SenderHarness()
    handles = [harness.acc.send("t", b"v", partition=number) for number in (0, 1, 0)]
    without_id(harness)
    errors = [handle.exception(0) for handle in handles]
    assert [(error.code, error.written) for error in errors] == [("CLUSTER_AUTHORIZATION_FAILED", Written.NO)] * 3
    assert [(error.cause.operation, error.cause.resource_name) for error in errors] == [("WRITE", "t")] * 3
    assert [str(error.cause).split(":")[0] for error in errors] == ["t-0", "t-1", "t-0"]
    assert harness.refusals == [], "the producer goes on"
    harness.check()


def test_a_producer_id_that_was_denied_is_asked_for_again_only_for_a_record() -> None:
    harness = SenderHarness()
    harness.acc.send("t", b"v", partition=0)
    without_id(harness)
    assert harness.sender.poll(harness.now + 60).requests == ()
    assert harness.sender.poll(harness.now + 60).wake_at > harness.now + 61
    harness.now += 60
    delivery = harness.batch(b"next")
    harness.answer(harness.requests.pop(), offset=0)
    assert delivery.result(0).offset == 0


def test_records_that_wait_for_another_producer_id_fail_when_it_is_denied_and_other_partitions_go_on() -> None:
    harness = SenderHarness().proven()
    harness.batch(b"a", partition=0)
    harness.answer(harness.requests.pop(), "INVALID_PRODUCER_EPOCH")
    harness.now += 1.3
    waiting = harness.acc.send("t", b"b", partition=0)
    without_id(harness)
    assert waiting.exception(0).code == "CLUSTER_AUTHORIZATION_FAILED"
    other = harness.batch(b"c", partition=1)
    harness.answer(harness.requests.pop(), offset=1)
    assert other.result(0).offset == 1


def test_a_denied_batch_names_the_right_and_the_next_one_continues_the_sequence() -> None:
    """Also behind batches that were in flight with it: what is not in the log leaves no gap."""
    harness = SenderHarness().proven()
    handles = [harness.batch(b"%d" % n) for n in range(3)]
    for request in [harness.requests.pop(0) for _ in range(3)]:
        harness.answer(request, "TOPIC_AUTHORIZATION_FAILED")
    for handle in handles:
        error = handle.exception(0)
        assert error.written is Written.NO
        assert isinstance(error.cause, AuthorizationError)
        assert (error.cause.operation, error.cause.resource_name) == ("WRITE", "t")
    delivery = harness.batch(b"allowed")
    harness.answer(harness.requests.pop(), offset=1)
    assert delivery.result(0).offset == 1
