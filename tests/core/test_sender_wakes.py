"""Sender: what happens on other threads while it is polled is seen by the next poll, which comes at once."""

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
    assert not bench.acc.hungry
    busy, ready = [True], bench.network.ready

    def another_thread_sends(node: int) -> bool:
        if busy[0] and node == 1:
            busy[0] = False
            bench.acc.send("t", bytes(BATCH), partition=0)
        return ready(node)

    bench.network.ready = another_thread_sends  # type: ignore[method-assign]
    bench.wakes = 0
    bench.answer(bench.requests.pop())
    assert not busy[0]
    assert bench.acc.hungry
    assert bench.wakes, "the loop sleeps until the linger of another batch is over"
    bench.poll()
    assert len(bench.requests) == 1
