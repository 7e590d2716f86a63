"""Sender: records of a topic not known yet wait for it, in order, or fail with its error."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from sender_talk import Bench

from pykafka4.core.producer.parking import DENIED_SECONDS
from pykafka4.error_table import BY_NAME, Written
from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition


def test_records_for_an_unknown_topic_fail_when_it_stays_unknown() -> None:
    bench = Bench(unknown_topic_timeout_ms=20_000)
    bench.cluster.known = False
    bench.cluster.error = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"]
    delivery = bench.batch()
    assert not delivery.done()
    bench.poll(21)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "topic 't' did not exist" in str(error)


def test_a_forbidden_topic_fails_at_once() -> None:
    bench = Bench()
    bench.cluster.known = False
    bench.cluster.error = BY_NAME["TOPIC_AUTHORIZATION_FAILED"]
    assert bench.batch().exception(0).code == "TOPIC_AUTHORIZATION_FAILED"


def test_records_wait_for_their_topic_in_order() -> None:
    bench = Bench()
    bench.cluster.known = False
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(3)]
    bench.settle()
    assert not bench.requests
    bench.cluster.known = True
    bench.cluster.change()
    bench.settle()
    bench.answer(bench.requests.pop(), offset=5)
    assert [h.result(0).offset for h in handles] == [5, 6, 7]


def test_a_flush_covers_records_that_are_still_parked() -> None:
    bench = Bench(linger_ms=60_000)
    bench.cluster.known = False
    bench.acc.send("t", b"v", partition=0)
    bench.poll()
    bench.sender.expedite()
    bench.poll()
    bench.cluster.known = True
    bench.cluster.change()
    bench.poll()
    bench.poll()
    bench.poll()
    assert len(bench.requests) == 1


def test_nothing_is_kept_of_topics_that_never_became_known() -> None:
    bench = Bench(unknown_topic_timeout_ms=1_000).proven()
    bench.batch()
    (batch,) = bench.sender.queues[TopicPartition("t", 0)].batches
    names = [f"typo-{n}" for n in range(100)]
    bench.cluster.hidden.update(names)
    for name in names:
        bench.acc.send(name, b"v")
    bench.poll()
    bench.poll(2)
    assert bench.sender.ledger.failures_seen == 100
    assert bench.cluster.wanted == ["t"]
    gc.collect()
    assert not [it for it in gc.get_objects() if type(it) is type(batch) and it.topic in names], (
        "each topic has a batch that stands for none"
    )
    kept = bench.acc.send("typo-1", b"v")
    bench.poll()
    assert bench.cluster.wanted == ["t", "typo-1"]
    assert not kept.done()


def test_an_unknown_topic_is_let_go_if_its_only_send_raised() -> None:
    bench = Bench(unknown_topic_timeout_ms=1_000).proven()
    bench.cluster.hidden.add("typo")
    with pytest.raises(TypeError):
        bench.acc.send("typo", 1)  # type: ignore[arg-type]
    bench.poll()
    assert bench.cluster.wanted == ["t", "typo"]
    bench.poll(2)
    assert bench.cluster.wanted == ["t"]
    kept = bench.acc.send("typo", b"v")
    bench.poll()
    assert bench.cluster.wanted == ["t", "typo"]
    bench.poll(2)
    assert kept.done(), "parked, and failed by unknown_topic_timeout_ms"
    assert bench.cluster.wanted == ["t"]


def test_a_flush_of_parked_records_does_not_keep_the_loop_awake() -> None:
    bench = Bench(linger_ms=60_000)
    bench.cluster.hidden.add("unknown")
    bench.acc.send("unknown", b"v")
    bench.poll()
    bench.sender.expedite()
    bench.poll()
    bench.wakes = 0
    for _ in range(20):
        effects = bench.poll()
        assert effects.wake_at > bench.now
    assert bench.wakes == 0, "each wake is another turn at once"


def test_topics_linger_again_after_a_flush_while_others_are_still_parked() -> None:
    bench = Bench(linger_ms=1000).proven()
    bench.cluster.hidden.add("unknown")
    bench.acc.send("unknown", b"v")
    bench.poll()
    bench.sender.expedite()
    bench.poll()
    bench.acc.send("t", b"lingers", partition=0)
    for _ in range(5):
        bench.poll()
    assert not bench.requests
    bench.poll(1)
    bench.poll()
    assert len(bench.requests) == 1


def test_records_parked_after_a_flush_of_their_topic_ended_linger() -> None:
    bench = Bench(linger_ms=60_000)
    bench.cluster.hidden.add("t")
    bench.acc.send("t", b"flushed", partition=0)
    bench.poll()
    bench.sender.expedite()
    bench.poll()
    bench.cluster.hidden.clear()
    bench.cluster.change()
    for _ in range(3):
        bench.poll()
    assert len(bench.requests) == 1
    bench.answer(bench.requests.pop())
    bench.acc.send("t", b"lingers", partition=0)
    for _ in range(3):
        bench.poll()
    assert not bench.requests


def test_a_parked_record_for_a_partition_that_is_not_there_is_counted_and_waiters_look_again() -> None:
    bench = Bench()
    bench.cluster.known = False
    called: list[Any] = []
    plain = bench.acc.send("t", b"v", partition=99)
    followed = bench.acc.send("t", b"v", partition=98, on_delivery=called.append)
    bench.poll()
    bench.cluster.known = True
    bench.cluster.change()
    bench.poll()
    looks = bench.looks
    bench.poll(DENIED_SECONDS)
    stats = bench.sender.ledger.stats(bench.acc.accepted, bench.acc.reserved)
    assert (stats.failed, stats.queued) == ({("UNKNOWN_TOPIC_OR_PARTITION", Written.NO): 2}, 0)
    assert plain.settled
    assert followed.settled
    assert len(called) == 1
    assert bench.looks == looks + 2, "for those that failed, and when the callback had run"
    assert "partition=99 but the topic has 2 partitions" in str(bench.sender.ledger.failures_since(0)[1])
