"""Sender: a batch too large for its broker is halved, and its halves keep its place and its numbers."""

from __future__ import annotations

from typing import Any

import pytest
from sender_talk import Bench, header, values

from pykafka4.error_table import Written


def test_too_large_a_batch_is_split_in_order() -> None:
    bench = Bench(linger_ms=10).proven()
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(4)]
    bench.poll()
    bench.poll(1)
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    assert len(bench.requests) == 2
    base = header(bench.requests[0])[1]
    assert [header(r)[1] for r in bench.requests] == [base, base + 2]
    bench.answer(bench.requests[0], offset=10)
    bench.answer(bench.requests[1], offset=12)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


def test_halves_of_a_large_compressed_batch_are_compressed_off_the_loop() -> None:
    bench = Bench(linger_ms=10, compression_type="gzip").proven()
    handles = [bench.acc.send("t", b"%d" % n * 20_000, partition=0) for n in range(4)]
    for _ in range(3):
        for job in bench.poll(0.01).jobs:
            job.run()
            job.then(bench.now, None)
    bench.settle()
    request, jobs, poll = bench.requests.pop(), list[Any](), bench.poll

    def keep(seconds: float = 0.0) -> Any:
        effects = poll(seconds)
        jobs.extend(effects.jobs)
        return effects

    bench.poll = keep  # type: ignore[method-assign]
    bench.answer(request, "MESSAGE_TOO_LARGE")
    bench.settle()
    assert len(jobs) == 2
    assert not bench.requests
    for job in reversed(jobs):  # in whatever order the helper ends
        job.run()
        job.then(bench.now, None)
    bench.settle()
    for number, request in enumerate(bench.requests):
        bench.answer(request, offset=10 + 2 * number)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


def test_halves_have_headers_of_their_own_without_idempotence_too() -> None:
    bench = Bench(linger_ms=10, enable_idempotence=False)
    for n in range(4):
        bench.acc.send("t", b"%d" % n, partition=0)
    bench.settle()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    (first,) = bench.requests
    assert int.from_bytes(values(first)[57:61], "big") == 2, "the number of records in the header"
    bench.answer(bench.requests.pop())
    bench.settle()
    assert int.from_bytes(values(bench.requests.pop())[57:61], "big") == 2


def test_a_batch_is_halved_after_an_earlier_try_that_may_have_written_it() -> None:
    bench = Bench(linger_ms=10).proven()
    handles = bench.together(b"%d" % n for n in range(4))
    base = header(bench.requests[0])[1]
    bench.answer(bench.requests.pop(), "NOT_LEADER_OR_FOLLOWER")
    bench.poll(1)
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    assert [header(request)[:2] for request in bench.requests] == [(0, base), (0, base + 2)], "in the place of the batch"
    for number, request in enumerate(bench.requests):
        bench.answer(request, offset=10 + 2 * number)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


@pytest.mark.parametrize("log_has_it", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER"])
def test_halves_of_a_batch_that_is_in_the_log_are_not_written_again(log_has_it: str) -> None:
    """The limit was lowered after the batch was written: its log refuses the halves, which nobody may send in another epoch."""
    bench = Bench(linger_ms=10).proven()
    handles = bench.together(b"%d" % n for n in range(4))
    bench.lose(bench.requests.pop())
    bench.settle()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    for _ in range(6):
        bench.poll(1)
        for request in bench.requests:
            assert header(request)[0] == 0, "in the epoch of the batch"
            bench.answer(request, log_has_it)
        bench.requests.clear()
    if log_has_it.startswith("DUPLICATE"):
        assert [handle.result(0).offset for handle in handles] == [-1] * 4
    else:
        assert [handle.exception(0).written for handle in handles] == [Written.MAYBE] * 4  # type: ignore[union-attr]
        bench.batch(b"next")
        assert header(bench.requests.pop())[:2] == (1, 0)


def test_one_record_too_large_fails() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    assert delivery.exception(0).code == "MESSAGE_TOO_LARGE"  # type: ignore[union-attr]
