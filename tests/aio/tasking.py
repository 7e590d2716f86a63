"""Helpers of the tests of the producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from net_helpers import SECONDS

from pykafka4.aio import Producer
from pykafka4.testing import ModelServer

ROOM = {"batch_size": 2_048, "buffer_memory": 1 << 20, "max_partition_bytes": 16_384, "linger_ms": 0}


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """In debug mode: asyncio complains of calls from the wrong thread, and of coroutines that nobody awaits."""
    return asyncio.run(asyncio.wait_for(main, SECONDS), debug=True)


def producer_of(server: ModelServer, **options: Any) -> Producer:
    return Producer(bootstrap_servers=server.bootstrap_servers, **options)


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
