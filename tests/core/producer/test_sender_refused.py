"""Sender: a record that the broker refuses by name fails alone; the rest of its batch, and what is behind it, is written in order."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors import DeliveryFailed
from pykafka4.records import Written
from tests.core.producer.sender_harness import SenderHarness, header, records

REFUSALS = pytest.mark.parametrize("error", ["INVALID_TIMESTAMP", "INVALID_RECORD"])


def delivered(harness: SenderHarness) -> list[bytes | None]:
    """Acknowledge what is sent until nothing more comes; the values of the new log."""
    log: list[bytes | None] = []
    while harness.requests:
        request = harness.requests.pop(0)
        values = records(request)
        harness.answer(request, offset=len(log))
        log += values
        harness.settle()
    return log


@pytest.mark.parametrize("compression", ["none", "lz4"])
@REFUSALS
def test_only_the_refused_record_fails_and_the_rest_of_its_batch_goes_out_again(error: str, compression: str) -> None:
    harness = SenderHarness(linger_ms=10, compression_type=compression).proven()
    handles = harness.together(b"%d" % n * 100 for n in range(5))
    sequence = header(harness.requests[-1])[1]
    harness.answer(harness.requests.pop(), error, -1, refused={3: "Timestamp 1 is out of range"})
    failure = handles[3].exception(0)
    assert isinstance(failure, DeliveryFailed)
    assert (failure.code, failure.written, failure.topic, failure.partition) == (error, Written.NO, "t", 0)
    assert failure.record is not None
    assert failure.record.value == b"3" * 100
    assert str(failure) == f"t-0: {error}, not written (t-0: {error} (Timestamp 1 is out of range))"
    assert header(harness.requests[-1]) == (0, sequence, 0), "nothing was numbered behind: the sequence is free"
    assert delivered(harness) == [b"%d" % n * 100 for n in (0, 1, 2, 4)]
    assert [handles[n].result(0).offset for n in (0, 1, 2, 4)] == [0, 1, 2, 3]
    stats = harness.stats()
    assert stats.failed == {(error, Written.NO): 1}
    assert (stats.queued, stats.in_flight, harness.acc.reserved) == (0, 0, 0)


def test_batches_pipelined_behind_a_refused_record_follow_in_order_under_the_next_epoch() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = [handle for group in ("abc", "de", "f", "g") for handle in harness.together(c.encode() for c in group)]
    flight = harness.requests[:]
    harness.requests.clear()
    harness.answer(flight[0], "INVALID_TIMESTAMP", -1, refused={1: "b"})
    harness.settle()
    assert not harness.requests, "those under way come back first"
    for request in flight[1:]:
        harness.answer(request, "OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    harness.poll(1)
    assert [header(request) for request in harness.requests] == [(1, 0, 0)], "the first of an epoch goes alone"
    assert delivered(harness) == [b"a", b"c", b"d", b"e", b"f", b"g"]
    assert [handle.exception(0) is None for handle in handles] == [True, False, True, True, True, True, True]


def test_pipelined_batches_survive_a_lost_connection() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = [*harness.together([b"a", b"b"]), *harness.together([b"c"])]
    first, second = harness.requests
    harness.requests.clear()
    harness.answer(first, "INVALID_RECORD", -1, refused={0: "a"})
    harness.lose(second)
    harness.poll(1)
    assert delivered(harness) == [b"b", b"c"]
    assert [handle.exception(0) is None for handle in handles] == [False, True, True]


def test_a_batch_in_doubt_ahead_keeps_its_sequence() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    harness.together([b"ahead"])
    harness.together([b"a", b"b"])
    first, second = harness.requests
    harness.requests.clear()
    harness.network.up.clear()
    harness.answer(first, "REQUEST_TIMED_OUT", -1)
    harness.answer(second, "INVALID_RECORD", -1, refused={0: "a"})
    harness.network.up = {1, 2, 3}
    harness.poll(1)
    assert [(header(request), records(request)) for request in harness.requests] == [
        (header(first), [b"ahead"]),
        ((0, header(first)[1] + 1, 0), [b"b"]),
    ]


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ({0: "x"}, "bcde"),
        ({4: "x"}, "abcd"),
        ({0: "x", 2: None, 4: "y"}, "bd"),
        ({3: "x", 2: "y"}, "abe"),
        ({1: "x", 5: "beyond", -1: "before", 2**31 - 1: "far", -(2**31): "far"}, "acde"),
    ],
)
def test_several_refused_records_and_hostile_indexes(named: dict[int, str | None], left: str) -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(c.encode() for c in "abcde")
    harness.answer(harness.requests.pop(), "INVALID_RECORD", -1, refused=named)
    assert delivered(harness) == [c.encode() for c in left]
    assert "".join(c for c, handle in zip("abcde", handles, strict=True) if handle.exception(0) is None) == left


def test_an_index_named_twice_fails_one_record() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    harness.together(c.encode() for c in "abc")
    request = harness.requests.pop()
    given = harness.sender._answers._read_answers

    def twice(*args: Any) -> None:
        args[-1].responses[0].partition_responses[0].record_errors *= 2
        given(*args)

    harness.sender._answers._read_answers = twice  # type: ignore[method-assign]
    harness.answer(request, "INVALID_RECORD", -1, refused={1: "b"})
    harness.sender._answers._read_answers = given  # type: ignore[method-assign]
    assert delivered(harness) == [b"a", b"c"]


@REFUSALS
@pytest.mark.parametrize("named", [{}, {3: "beyond"}, {-1: "before"}])
def test_a_batch_of_which_no_record_is_named_fails_whole(error: str, named: dict[int, str | None]) -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(c.encode() for c in "abc")
    harness.answer(harness.requests.pop(), error, -1, refused=named)
    harness.settle()
    assert [handle.exception(0).code for handle in handles] == [error] * 3
    assert not harness.requests


def test_all_records_refused_leave_nothing_to_send() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(c.encode() for c in "abc")
    sequence = header(harness.requests[-1])[1]
    harness.answer(harness.requests.pop(), "INVALID_RECORD", -1, refused={0: "0", 1: "1", 2: "2"})
    assert [handle.exception(0).cause.detail for handle in handles] == ["0", "1", "2"]
    harness.settle()
    assert not harness.requests
    harness.batch(b"next")
    assert header(harness.requests[-1]) == (0, sequence, 0)
    assert delivered(harness) == [b"next"]


def test_refusals_one_after_the_other_end() -> None:
    """An old broker may name only the first culprit each time."""
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(c.encode() for c in "abcd")
    for left in ("abcd", "bcd", "cd", "d"):
        assert records(harness.requests[-1]) == [c.encode() for c in left]
        harness.answer(harness.requests.pop(), "INVALID_RECORD", -1, refused={0: left[0]})
        harness.settle()
    assert all(handle.exception(0).code == "INVALID_RECORD" for handle in handles)
    assert not harness.requests


def test_a_batch_that_may_be_written_is_not_sent_again_in_part() -> None:
    """Brokers look at timestamps before they look for duplicates: the first copy may be in the log."""
    harness = SenderHarness(linger_ms=10).proven()
    handles = harness.together(c.encode() for c in "abc")
    harness.lose(harness.requests.pop())
    harness.poll(1)
    harness.answer(harness.requests.pop(), "INVALID_TIMESTAMP", -1, refused={1: "b"})
    harness.settle()
    assert [handle.exception(0).written for handle in handles] == [Written.MAYBE] * 3
    assert not harness.requests
    harness.batch(b"next")
    assert header(harness.requests[-1])[:2] == (1, 0)


def test_without_idempotence_the_rest_goes_out_again_too() -> None:
    harness = SenderHarness(linger_ms=10, enable_idempotence=False)
    handles = harness.together(c.encode() for c in "abc")
    harness.lose(harness.requests.pop())
    harness.poll(1)
    harness.answer(harness.requests.pop(), "INVALID_TIMESTAMP", -1, refused={1: "b"})
    assert handles[1].exception(0).written is Written.MAYBE
    assert delivered(harness) == [b"a", b"c"]


def test_callbacks_of_refused_and_delivered_records_run_once() -> None:
    harness = SenderHarness(linger_ms=10).proven()
    seen: list[tuple[bytes, bool]] = []
    for c in (b"a", b"b", b"c"):
        harness.acc.send("t", c, partition=0, on_delivery=lambda d, c=c: seen.append((c, d.exception(0) is None)))
    harness.settle()
    harness.answer(harness.requests.pop(), "INVALID_RECORD", -1, refused={0: "a"})
    assert delivered(harness) == [b"b", b"c"]
    assert seen == [(b"a", False), (b"b", True), (b"c", True)]


def test_the_rest_of_a_large_compressed_batch_is_compressed_off_the_loop() -> None:
    harness = SenderHarness(linger_ms=10, compression_type="gzip").proven()
    for n in range(3):
        harness.acc.send("t", b"%d" % n * 20_000, partition=0)
    for _ in range(3):
        for job in harness.poll(0.01).jobs:
            job.run()
            job.then(harness.now, None)
    harness.settle()
    request = harness.requests.pop()
    request_jobs: list[Any] = []
    poll = harness.poll

    def keep(seconds: float = 0.0) -> Any:
        effects = poll(seconds)
        request_jobs.extend(effects.jobs)
        return effects

    harness.poll = keep  # type: ignore[method-assign]
    harness.answer(request, "INVALID_RECORD", -1, refused={1: "1"})
    assert len(request_jobs) == 1
    assert not harness.requests
    request_jobs[0].run()
    request_jobs[0].then(harness.now, None)
    harness.settle()
    assert delivered(harness) == [b"0" * 20_000, b"2" * 20_000]
