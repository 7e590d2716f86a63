"""A producer whose buffer is full: what on_full says happens, and every record is accounted for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka4 import BufferFull, DeliveryFailed, KafkaTimeoutError, Producer
from pykafka4.producer import overflow
from pykafka4.producer.overflow import DroppedCalls
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import FEW, Maker, balanced, knowing, start_all, stop_all, values

VALUE = b"v" * 5_000


def full(server: ModelServer, producer: Producer, **how: Any) -> Producer:
    """`producer` with a full buffer, after its first record was refused or dropped; no broker runs."""
    knowing(producer)
    stop_all(server)
    for _ in range(1_000):
        try:
            if producer.send("t", VALUE, partition=0, **how).done():
                return producer
        except BufferFull:
            return producer
    pytest.fail("the buffer never became full")


def test_raise_refuses_at_once(server: ModelServer, make: Maker) -> None:
    producer = full(server, make(**FEW, on_full="raise", max_block_ms=SECONDS * 1_000_000))
    before = producer.stats().accepted
    started = time.monotonic()
    with pytest.raises(BufferFull, match=r"on_full=raise"):
        producer.send("t", VALUE)
    assert time.monotonic() - started < SECONDS
    assert producer.stats().accepted == before
    assert not producer.stats().dropped
    start_all(server)
    producer.flush(SECONDS)
    assert len(values(server)) == before


def test_drop_counts_reports_and_goes_on(server: ModelServer, make: Maker) -> None:
    heard: list[Any] = []
    producer = full(server, make(**FEW, on_full="drop"))
    delivery = producer.send("t", VALUE, on_delivery=heard.append)
    with pytest.raises(DeliveryFailed, match=r"t: BUFFER_FULL, not written \(buffer_memory=65536 or max_partition_bytes"):
        delivery.result(0)
    until(lambda: heard == [delivery])
    start_all(server)
    producer.flush(SECONDS)
    producer.send("t", b"after").result(SECONDS)
    stats = producer.stats()
    assert stats.dropped == {"BUFFER_FULL": 2}
    assert stats.lost == 0
    assert stats.acked == stats.accepted - 2 == len(values(server))


def test_dropped_records_are_no_failures_of_a_with_block(server: ModelServer, make: Maker) -> None:
    with full(server, make(**FEW, on_full="drop")) as producer:
        producer.send("t", VALUE).exception()
        start_all(server)
    assert producer.close() == []
    stats = producer.stats()
    assert stats.dropped == {"BUFFER_FULL": 2}
    assert stats.acked == stats.accepted - 2


def test_a_callback_that_sends_again_is_dropped_and_never_blocks(server: ModelServer, make: Maker) -> None:
    heard: list[Any] = []

    def again(delivery: Any) -> None:
        heard.append(delivery)
        if len(heard) < 100:
            producer.send("t", VALUE, on_delivery=again)

    producer = full(server, make(**FEW, on_full="drop"))
    producer.send("t", VALUE, on_delivery=again)
    until(lambda: len(heard) == 100)
    assert producer.stats().dropped == {"BUFFER_FULL": 101}


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_flush_waits_for_the_callbacks_of_dropped_records(server: ModelServer, make: Maker, threads: int) -> None:
    """`threads`: those of the application's executor; 0: there is none."""
    executor = ThreadPoolExecutor(threads) if threads else None
    go, heard = threading.Event(), []

    def slow(delivery: Any) -> None:
        go.wait(SECONDS)
        heard.append(delivery)

    producer = full(server, make(**FEW, on_full="drop", callback_executor=executor))
    producer.send("t", VALUE, on_delivery=slow)
    start_all(server)
    until(lambda: balanced(producer), "the outcome of every record")
    with pytest.raises(KafkaTimeoutError):
        producer.flush(0.05)
    go.set()
    producer.flush(SECONDS)
    assert len(heard) == 1
    assert balanced(producer)
    if executor is not None:
        executor.shutdown()


def test_a_mark_waits_for_the_callbacks_that_run_on_other_threads() -> None:
    jobs: list[Any] = []
    looks: list[bool] = []
    seen: list[bool] = []
    calls = DroppedCalls(jobs.append, lambda: looks.append(marks[0].settled), "me")
    handle: Any = Handle()
    marks: list[overflow.FlushMark] = []

    def slow(delivery: Any) -> None:
        marks.extend(calls.mark())
        jobs.pop()()  # as another thread of the executor does meanwhile
        assert not marks[0].settled
        looks.clear()
        calls(lambda _: seen.extend(looks), handle)  # this thread goes on with it

    calls(slow, handle)
    jobs.pop()()
    assert marks[0].settled
    assert seen == [True], "what waits for the mark looks again as soon as the callback has returned"
    assert calls.mark() == []


def test_callbacks_of_dropped_records_are_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(overflow, "MOST_WAITING", 3)
    jobs: list[Any] = []
    calls = DroppedCalls(jobs.append, lambda: None, "me")
    heard: list[Any] = []

    handle: Any = Handle()

    def fail(delivery: Any) -> None:
        raise RuntimeError("mine")

    calls(heard.append, handle)
    calls(fail, handle)
    calls(heard.append, handle)
    for _ in range(3):
        calls(heard.append, handle)
    assert [record.message for record in caplog.records] == [
        "me: t: callbacks of dropped records are left out while 3 wait: make `on_delivery` faster; stats() has all records"
    ]
    (mark,) = calls.mark()
    assert len(jobs) == 1
    assert not mark.settled
    jobs.pop()()
    assert heard == [handle, handle]
    assert mark.settled
    assert calls.mark() == []
    assert "the delivery callback" in caplog.text
    assert "mine" in caplog.text
    calls(heard.append, handle)
    assert len(jobs) == 1


class Handle:
    topic = "t"


def test_an_interrupt_while_a_callback_is_handed_over_stops_none_of_the_later_ones() -> None:
    jobs: list[Any] = []
    interrupts = [KeyboardInterrupt()]

    def submit(job: Any) -> None:
        if interrupts:
            raise interrupts.pop()
        jobs.append(job)

    calls, heard, handle = DroppedCalls(submit, lambda: None, "me"), list[str](), Handle()
    with pytest.raises(KeyboardInterrupt):
        calls(lambda _: heard.append("first"), handle)  # type: ignore[arg-type]
    calls(lambda _: heard.append("second"), handle)  # type: ignore[arg-type]
    (mark,) = calls.mark()
    for job in jobs:
        job()
    assert heard == ["first", "second"]
    assert mark.settled


def test_an_overload_with_callbacks_is_dropped_and_counted_like_one_without(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "MOST_WAITING", 10)
    go, heard = threading.Event(), []

    def slow(delivery: Any) -> None:
        go.wait(SECONDS)
        heard.append(delivery)

    producer = full(server, make(**FEW, on_full="drop"))
    deliveries = [producer.send("t", VALUE, on_delivery=slow) for _ in range(100)]
    assert all(delivery.exception(0).code == "BUFFER_FULL" for delivery in deliveries)  # type: ignore[union-attr]
    assert producer.stats().dropped == {"BUFFER_FULL": 101}
    go.set()
    until(lambda: len(heard) >= 10)
    start_all(server)
    producer.flush(SECONDS)
    assert len(heard) in (10, 11)
    assert balanced(producer)
