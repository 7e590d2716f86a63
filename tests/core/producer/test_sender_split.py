"""Sender: a batch too large for its broker is split, and the halves keep its place and its sequences."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.records import Written
from tests.core.producer.sender_harness import SenderHarness, header, values


def test_too_large_a_batch_is_split_in_order() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = [harness.acc.send("t", b"%d" % n, partition=0) for n in range(4)]
    harness.poll()
    harness.poll(1)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    assert len(harness.requests) == 2
    base = header(harness.requests[0])[1]
    assert [header(r)[1] for r in harness.requests] == [base, base + 2]
    harness.answer(harness.requests[0], offset=10)
    harness.answer(harness.requests[1], offset=12)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


def test_halves_of_a_large_compressed_batch_are_compressed_off_the_loop() -> None:
    harness = SenderHarness(linger_ms=10, compression_type="gzip").proven()
    handles = [harness.acc.send("t", b"%d" % n * 20_000, partition=0) for n in range(4)]
    for _ in range(3):
        for job in harness.poll(0.01).jobs:
            job.run()
            job.then(harness.now, None)
    harness.settle()
    request, jobs, poll = harness.requests.pop(), list[Any](), harness.poll

    def keep(seconds: float = 0.0) -> Any:
        effects = poll(seconds)
        jobs.extend(effects.jobs)
        return effects

    harness.poll = keep  # type: ignore[method-assign]
    harness.answer(request, "MESSAGE_TOO_LARGE")
    harness.settle()
    assert len(jobs) == 2
    assert not harness.requests
    for job in reversed(jobs):  # in whatever order the helper ends
        job.run()
        job.then(harness.now, None)
    harness.settle()
    for number, request in enumerate(harness.requests):
        harness.answer(request, offset=10 + 2 * number)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


def test_halves_have_headers_of_their_own_without_idempotence_too() -> None:
    harness = SenderHarness(linger_ms=10, enable_idempotence=False)
    for n in range(4):
        harness.acc.send("t", b"%d" % n, partition=0)
    harness.settle()
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    (first,) = harness.requests
    assert int.from_bytes(values(first)[57:61], "big") == 2, "the number of records in the header"
    harness.answer(harness.requests.pop())
    harness.settle()
    assert int.from_bytes(values(harness.requests.pop())[57:61], "big") == 2


def test_a_batch_is_split_after_an_earlier_try_that_may_have_written_it() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(b"%d" % n for n in range(4))
    base = header(harness.requests[0])[1]
    harness.answer(harness.requests.pop(), "NOT_LEADER_OR_FOLLOWER")
    harness.poll(1)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    assert [header(request)[:2] for request in harness.requests] == [(0, base), (0, base + 2)], "in the place of the batch"
    for number, request in enumerate(harness.requests):
        harness.answer(request, offset=10 + 2 * number)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


@pytest.mark.parametrize("log_has_it", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"])
def test_halves_of_a_batch_that_is_in_the_log_are_not_written_again(log_has_it: str) -> None:
    """The limit was lowered after the batch was written: its log refuses the halves, which may not be sent in another epoch."""
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(b"%d" % n for n in range(4))
    harness.lose(harness.requests.pop())
    harness.settle()
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    for _ in range(6):
        harness.poll(1)
        for request in harness.requests:
            assert header(request)[0] == 0, "in the epoch of the batch"
            harness.answer(request, log_has_it)
        harness.requests.clear()
    if log_has_it.startswith("DUPLICATE"):
        assert [handle.result(0).offset for handle in handles] == [-1] * 4
    else:
        assert [handle.exception(0).written for handle in handles] == [Written.MAYBE] * 4  # type: ignore[union-attr]
        harness.batch(b"next")
        assert header(harness.requests.pop())[:2] == (1, 0)


def test_later_batches_are_no_larger_than_the_halves_of_a_refused_one() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    for n in range(4):
        harness.acc.send("t", b"%d" % n * 1000, partition=0)
    harness.poll()
    harness.poll(1)
    (request,) = harness.requests
    size = len(values(request))
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    assert len(harness.requests) == 2
    while harness.requests:
        harness.answer(harness.requests.pop(0))
    for n in range(4):
        harness.acc.send("t", b"%d" % n * 1000, partition=0)
    harness.poll()
    harness.poll(1)
    harness.settle()
    assert len(harness.requests) == 4, "two would have a few bytes more than half"
    assert all(len(values(request)) <= size // 2 for request in harness.requests)


def test_one_record_too_large_fails() -> None:
    harness = SenderHarness().proven()
    delivery = harness.batch()
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    assert delivery.exception(0).code == "MESSAGE_TOO_LARGE"  # type: ignore[union-attr]
