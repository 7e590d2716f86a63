"""Sender: a batch too large for its broker is halved, unless it may be written already."""

from __future__ import annotations

from typing import Any

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


def test_a_batch_that_may_be_written_is_not_halved() -> None:
    bench = Bench(linger_ms=10).proven()
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(4)]
    bench.settle()
    bench.lose(bench.requests.pop())
    bench.recovery.changes += 1
    bench.settle()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    assert [handle.exception(0).written for handle in handles] == [Written.MAYBE] * 4  # type: ignore[union-attr]
    assert not bench.requests


def test_one_record_too_large_fails() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    assert delivery.exception(0).code == "MESSAGE_TOO_LARGE"  # type: ignore[union-attr]
