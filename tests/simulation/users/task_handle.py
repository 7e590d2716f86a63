"""A consumer for asyncio, used by one task after the other, through the calls that members make.

Now and then a poll is cancelled. What it had decoded comes with the next one: nothing is skipped, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pykafka4 import aio
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.inspection import inspect
from tests.simulation.world.virtual_tasks import VirtualEventLoop

if TYPE_CHECKING:
    from tests.simulation.users.members import Member

__all__ = ["TaskHandle"]

CANCELLED: Final = 0.1  # how many polls are cancelled
CALLED_BACK_S: Final = 0.1  # seconds for callbacks that the close has caused


class Awaited:
    """A listener whose methods are coroutines."""

    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """See Member."""
        await asyncio.sleep(0)
        self._member.on_partitions_assigned(partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """See Member."""
        await asyncio.sleep(0)
        self._member.on_partitions_revoked(partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """See Member."""
        self._member.on_partitions_lost(partitions)


class TaskHandle:
    """`aio.Consumer` with the calls of `Consumer`: each runs the event loop until it is over."""

    def __init__(self, member: Member, **options: Any) -> None:
        self._member, self._random = member, member.sim.random
        self._loop = VirtualEventLoop(member.sim.world)
        self._consumer = aio.Consumer(**options)
        self._session = inspect(self._consumer).session
        self.cancelled = False  # the last poll

    def __getattr__(self, name: str) -> Any:
        """The calls that wait are run, the others made."""
        call = getattr(self._consumer, name)

        def run(*args: Any, **options: Any) -> Any:
            async def called() -> Any:
                result = call(*args, **options)
                return await result if asyncio.iscoroutine(result) else result

            return self._loop.run(called())

        return run

    def wakeup(self) -> None:
        """See Consumer; another thread calls it."""
        self._consumer.wakeup()

    def subscribe(self, topics: Any, listener: Any, exclude: Any = None) -> None:
        """With a listener of coroutines."""
        self._consumer.subscribe(topics, Awaited(listener), exclude)

    def poll(self, timeout: float) -> list[Record]:
        """See Consumer; it may be cancelled."""
        limit = self._random.uniform(0.0, timeout) if self._random.random() < CANCELLED else None
        return self._loop.run(self._polled(timeout, limit))

    async def _polled(self, timeout: float, limit: float | None) -> list[Record]:
        self.cancelled = False
        task = asyncio.ensure_future(self._consumer.poll(timeout))
        await asyncio.wait([task], timeout=limit)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            self.cancelled = task.cancelled()
        return [] if self.cancelled else task.result()

    def batches(self, timeout: float) -> Iterator[list[Record]]:
        """See Consumer."""
        while True:
            yield self.poll(timeout)

    def commit_async(self, offsets: Any, on_done: Callable[[Any, Any], None]) -> None:
        """See Consumer; the callback comes while the loop runs."""

        async def called() -> None:
            self._consumer.commit_async(offsets, on_done)

        self._loop.run(called())

    def close(self, timeout: float, *, failed: bool) -> None:
        """Close the consumer, then the event loop."""
        try:
            self._loop.run(self._consumer._close(timeout, failed=failed))
        finally:
            self._loop.run(asyncio.sleep(CALLED_BACK_S))
            self._loop.close()
