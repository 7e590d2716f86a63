"""Sender: what other threads do makes a turn of the loop when there is something to do for it, and none when every connection is full."""

from __future__ import annotations

import pytest

from tests.core.producer.sender_harness import SenderHarness

LINGER_MS = 10_000  # milliseconds: nothing else wakes the loop before
BATCH = 4_096


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_that_is_sealed_while_the_sender_looks_for_requests_is_taken_at_once(compression: str) -> None:
    """It was sealed after sealed batches were taken, and before the sender has said that it has room."""
    harness = SenderHarness(linger_ms=LINGER_MS, batch_size=BATCH, compression_type=compression, max_in_flight_requests_per_connection=1)
    harness.batch(b"in flight")
    harness.acc.send("t", bytes(BATCH // 2), partition=0)
    harness.poll()
    assert not harness.acc.can_send
    busy, all_full = [True], harness.sender._requests.all_full

    def another_thread_sends() -> bool:
        if busy[0]:
            busy[0] = False
            harness.acc.send("t", bytes(BATCH), partition=0)
        return all_full()

    harness.sender._requests.all_full = another_thread_sends  # type: ignore[method-assign]
    harness.wakes = 0
    harness.answer(harness.requests.pop())
    assert not busy[0]
    assert harness.acc.can_send
    assert harness.wakes, "the loop sleeps until the linger of another batch is over"
    harness.poll()
    assert len(harness.requests) == 1


def fill(harness: SenderHarness, partition: int = 0, batches: int = 4) -> None:
    """Another thread seals a few batches."""
    for _ in range(batches):
        harness.acc.send("t", bytes(BATCH), partition=partition)


def test_a_full_batch_is_taken_at_once_though_no_batch_was_sent_before() -> None:
    harness = SenderHarness(linger_ms=LINGER_MS, batch_size=BATCH)
    harness.acc.send("t", b"first", partition=0)
    for _ in range(5):
        harness.poll()
    harness.wakes = 0
    fill(harness)
    assert harness.wakes, "the loop sleeps until the linger of the first batch is over"
    for _ in range(2):  # a producer id comes first
        harness.poll()
    assert len(harness.requests) == 1


def test_a_full_batch_is_taken_at_once_though_the_idle_connection_to_its_broker_is_closed() -> None:
    harness = SenderHarness(linger_ms=LINGER_MS, batch_size=BATCH).proven()
    harness.network.up.clear()
    harness.poll()
    harness.acc.send("t", b"first", partition=0)
    harness.poll()
    harness.wakes = 0
    fill(harness)
    assert harness.wakes, "the loop sleeps until the linger of the first batch is over"
    harness.poll()
    assert harness.network.wanted == [1]


def full_connection() -> SenderHarness:
    """Broker 1 has as many requests as it may have, broker 2 was sent nothing yet, and the loop sleeps."""
    harness = SenderHarness(linger_ms=LINGER_MS, batch_size=BATCH, max_in_flight_requests_per_connection=1)
    harness.batch(b"in flight")
    harness.acc.send("t", b"opens a batch", partition=0)  # its linger is a wake of its own
    harness.poll()
    harness.wakes = 0
    return harness


def test_while_every_connection_is_full_batches_are_sealed_without_waking_the_loop() -> None:
    harness = full_connection()
    fill(harness)
    assert harness.wakes == 0


@pytest.mark.parametrize("connected", [True, False])
def test_a_full_batch_for_another_broker_is_taken_soon_while_one_is_stuck(connected: bool) -> None:
    """The sender has seen no batch for broker 2, so it cannot know of it."""
    harness = full_connection()
    if not connected:
        harness.network.up = {1}
    wake_at = harness.poll().wake_at
    fill(harness, partition=1)
    assert harness.wakes or wake_at <= harness.now + 0.1, "the loop sleeps until the linger of the first batch is over"
    harness.poll(0.1)
    assert [request.node for request in harness.requests] == ([1, 2] if connected else [1])
    assert harness.network.wanted == ([] if connected else [2])


def test_while_one_of_two_connections_has_room_a_full_batch_wakes_the_loop() -> None:
    harness = SenderHarness(linger_ms=LINGER_MS, batch_size=BATCH, max_in_flight_requests_per_connection=1).proven()
    harness.batch(b"known", partition=1)
    harness.answer(harness.requests.pop())
    harness.batch(b"in flight", partition=0)
    harness.acc.send("t", b"opens a batch", partition=1)
    harness.poll()
    assert len(harness.requests) == 1
    harness.wakes = 0
    fill(harness, partition=1)
    assert harness.wakes


def test_a_send_that_needs_memory_has_open_batches_sent_without_their_linger() -> None:
    harness = SenderHarness(linger_ms=LINGER_MS).proven()
    for partition in (0, 1):
        harness.acc.send("t", b"v", partition=partition)
    harness.acc.waiters, harness.starved = 1, True
    harness.poll()
    assert len(harness.requests) == 2


def test_a_send_that_needs_room_in_its_partition_alone_leaves_the_batches_of_others_open() -> None:
    harness = SenderHarness(linger_ms=LINGER_MS).proven()
    harness.acc.send("t", b"v", partition=0)
    harness.acc.waiters = 1
    harness.poll()
    assert not harness.requests
