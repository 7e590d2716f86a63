"""Helpers of the tests of the producer and the consumer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from enum import Enum
from typing import Any

from pykafka4.aio import Consumer, Producer
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS

ROOM = {"batch_size": 2_048, "buffer_memory": 1 << 20, "max_partition_bytes": 16_384, "linger_ms": 0}


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """In debug mode: asyncio complains of calls from the wrong thread, and of coroutines that nobody awaits."""
    return asyncio.run(asyncio.wait_for(main, SECONDS), debug=True)


def producer_of(server: ModelServer, **options: Any) -> Producer:
    return Producer(bootstrap_servers=server.bootstrap_servers, **options)


def consumer_of(server: ModelServer, **options: Any) -> Consumer:
    quick = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "heartbeat_interval_ms": 50}
    return Consumer(bootstrap_servers=server.bootstrap_servers, **{**quick, **options})


class When(Enum):
    """When a wait of a task is cancelled."""

    BEGINS = "begins"
    ENDS = "ends"  # what it waited for has happened, but the task has not run yet


class Cancelled:
    """`await Cancelled(coroutine, at, when)` cancels the running task in the `at`-th of the waits of `coroutine`."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, when: When) -> None:
        self._coroutine, self._at, self._when, self.seen = coroutine, at, when, 0

    @property
    def reached(self) -> bool:
        return self.seen >= self._at

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        try:
            waits_for = next(steps)
            while True:
                self._wait_begins(waits_for)
                try:
                    got = yield waits_for
                except BaseException as error:
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(got)
        except StopIteration as end:
            return end.value

    def _wait_begins(self, waits_for: asyncio.Future[Any] | None) -> None:
        self.seen += 1
        if self.seen != self._at:
            return
        task = asyncio.current_task()
        assert task is not None
        if self._when is When.BEGINS or waits_for is None:
            task.cancel()
        else:
            waits_for.add_done_callback(lambda _: task.cancel())  # before the callback that wakes the task


def every_wait(most: int = 300) -> Iterator[tuple[int, When]]:
    """The first wait, the second … The test ends the loop when a call has fewer waits."""
    for at in range(1, most):
        for when in When:
            yield at, when
    raise AssertionError("no end of waits")


async def cancelled(coroutine: Coroutine[Any, Any, Any], at: int, when: When) -> tuple[bool, Any]:
    """Run it in a task that is cancelled in its `at`-th wait: whether there was such a wait, and the result (None if it was cancelled)."""
    cancelling = Cancelled(coroutine, at, when)

    async def act() -> Any:
        return await cancelling

    task = asyncio.ensure_future(act())
    await asyncio.wait([task])
    return cancelling.reached, None if task.cancelled() else task.result()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def full(server: ModelServer, producer: Producer, partition: int = 0) -> list[Any]:
    """Partition 0 has no leader, and its queue is full; returns the deliveries of what it holds."""
    await (await producer.send("t", b"first", partition=1))
    server.do(lambda cluster: cluster.orphan("t", partition, 1_000.0))
    held = []
    while True:
        sending = asyncio.ensure_future(producer.send("t", b"v" * 500, partition=partition))
        await asyncio.sleep(0)
        if not sending.done():
            sending.cancel()
            await asyncio.wait([sending])
            return held
        held.append(sending.result())
