"""Sender: what other threads do makes a turn of the loop when there is something to do for it, and none when every connection is full."""

from __future__ import annotations

import pytest
from sender_talk import Bench

LINGER = 10_000  # milliseconds: nothing else wakes the loop before
BATCH = 4_096


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_that_is_sealed_while_the_sender_looks_for_requests_is_taken_at_once(compression: str) -> None:
    """It was sealed after sealed batches were taken, and before the sender has said that it has room."""
    bench = Bench(linger_ms=LINGER, batch_size=BATCH, compression_type=compression, max_in_flight_requests_per_connection=1)
    bench.batch(b"in flight")
    bench.acc.send("t", bytes(BATCH // 2), partition=0)
    bench.poll()
    assert not bench.acc.can_send
    busy, all_full = [True], bench.sender._requests.all_full

    def another_thread_sends() -> bool:
        if busy[0]:
            busy[0] = False
            bench.acc.send("t", bytes(BATCH), partition=0)
        return all_full()

    bench.sender._requests.all_full = another_thread_sends  # type: ignore[method-assign]
    bench.wakes = 0
    bench.answer(bench.requests.pop())
    assert not busy[0]
    assert bench.acc.can_send
    assert bench.wakes, "the loop sleeps until the linger of another batch is over"
    bench.poll()
    assert len(bench.requests) == 1


def fill(bench: Bench, partition: int = 0, batches: int = 4) -> None:
    """Another thread seals a few batches."""
    for _ in range(batches):
        bench.acc.send("t", bytes(BATCH), partition=partition)


def test_a_full_batch_is_taken_at_once_though_no_batch_was_sent_before() -> None:
    bench = Bench(linger_ms=LINGER, batch_size=BATCH)
    bench.acc.send("t", b"first", partition=0)
    for _ in range(5):
        bench.poll()
    bench.wakes = 0
    fill(bench)
    assert bench.wakes, "the loop sleeps until the linger of the first batch is over"
    for _ in range(2):  # a producer id comes first
        bench.poll()
    assert len(bench.requests) == 1


def test_a_full_batch_is_taken_at_once_though_the_idle_connection_to_its_broker_is_closed() -> None:
    bench = Bench(linger_ms=LINGER, batch_size=BATCH).proven()
    bench.network.up.clear()
    bench.poll()
    bench.acc.send("t", b"first", partition=0)
    bench.poll()
    bench.wakes = 0
    fill(bench)
    assert bench.wakes, "the loop sleeps until the linger of the first batch is over"
    bench.poll()
    assert bench.network.wanted == [1]


def full_connection() -> Bench:
    """Broker 1 has as many requests as it may have, broker 2 was sent nothing yet, and the loop sleeps."""
    bench = Bench(linger_ms=LINGER, batch_size=BATCH, max_in_flight_requests_per_connection=1)
    bench.batch(b"in flight")
    bench.acc.send("t", b"opens a batch", partition=0)  # its linger is a wake of its own
    bench.poll()
    bench.wakes = 0
    return bench


def test_while_every_connection_is_full_batches_are_sealed_without_waking_the_loop() -> None:
    bench = full_connection()
    fill(bench)
    assert bench.wakes == 0


@pytest.mark.parametrize("connected", [True, False])
def test_a_full_batch_for_another_broker_is_taken_soon_while_one_is_stuck(connected: bool) -> None:
    """The sender has seen no batch for broker 2, so it cannot know of it."""
    bench = full_connection()
    if not connected:
        bench.network.up = {1}
    wake_at = bench.poll().wake_at
    fill(bench, partition=1)
    assert bench.wakes or wake_at <= bench.now + 0.1, "the loop sleeps until the linger of the first batch is over"
    bench.poll(0.1)
    assert [request.node for request in bench.requests] == ([1, 2] if connected else [1])
    assert bench.network.wanted == ([] if connected else [2])


def test_while_one_of_two_connections_has_room_a_full_batch_wakes_the_loop() -> None:
    bench = Bench(linger_ms=LINGER, batch_size=BATCH, max_in_flight_requests_per_connection=1).proven()
    bench.batch(b"known", partition=1)
    bench.answer(bench.requests.pop())
    bench.batch(b"in flight", partition=0)
    bench.acc.send("t", b"opens a batch", partition=1)
    bench.poll()
    assert len(bench.requests) == 1
    bench.wakes = 0
    fill(bench, partition=1)
    assert bench.wakes


def test_a_send_that_needs_memory_has_open_batches_sent_without_their_linger() -> None:
    bench = Bench(linger_ms=LINGER).proven()
    for partition in (0, 1):
        bench.acc.send("t", b"v", partition=partition)
    bench.acc.waiters, bench.starved = 1, True
    bench.poll()
    assert len(bench.requests) == 2


def test_a_send_that_needs_room_in_its_partition_alone_leaves_the_batches_of_others_open() -> None:
    bench = Bench(linger_ms=LINGER).proven()
    bench.acc.send("t", b"v", partition=0)
    bench.acc.waiters = 1
    bench.poll()
    assert not bench.requests
