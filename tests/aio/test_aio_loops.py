"""Loops over the consumer for asyncio: a task that is in one has the consumer, also while it works on a record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import pytest

from pykafka4 import ConfigError, KafkaError, Record
from pykafka4.aio import Consumer
from pykafka4.core import INFINITY
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.aio.tasking import consumer_of, run
from tests.consumer.consuming import fill, topic
from tests.inspection import inspect

T0 = ("t", 0)


class Looping:
    """A task in a loop: `step` lets it go on with its loop body, `left` says that it has left the loop, and it ends with `end`."""

    def __init__(self, loop: AsyncIterable[Any]) -> None:
        self.inside, self.step, self.left, self.end = (asyncio.Event() for _ in range(4))
        self.task = asyncio.create_task(self._run(loop), name="first")

    async def _run(self, loop: AsyncIterable[Any]) -> None:
        async for _ in loop:
            self.inside.set()
            await self.step.wait()
            break
        self.left.set()
        await self.end.wait()


async def poll_anyhow(consumer: Consumer, how: str) -> Any:
    """As another task."""
    calls: dict[str, Callable[[], Any]] = {
        "poll": consumer.poll,
        "loop": lambda: anext(aiter(consumer)),
        "batches": lambda: anext(aiter(consumer.batches())),
    }
    task: asyncio.Task[Any] = asyncio.ensure_future(calls[how]())
    task.set_name("second")
    return await task


@pytest.mark.parametrize("how", ["poll", "loop", "batches"])
@pytest.mark.parametrize("loops", ["records", "lists"])
def test_a_task_that_polls_while_another_is_in_a_loop_gets_an_error_that_names_both(server: ModelServer, loops: str, how: str) -> None:
    """What the other one has in hand would count as finished."""
    topic(server, 9)

    async def main() -> None:
        async with consumer_of(server, group_id="g", auto_commit_interval_ms=10) as consumer:
            consumer.assign([T0])
            loop = consumer if loops == "records" else consumer.batches(1.0, 1)
            first = Looping(loop)
            await first.inside.wait()
            for _ in range(2):
                with pytest.raises(KafkaError, match="task 'second' called poll while task 'first' is in a loop"):
                    await poll_anyhow(consumer, how)
            consumer.pause([T0])  # what does not poll is allowed
            consumer.resume([T0])
            await asyncio.gather(consumer.commit())
            assert server.committed("g") == {TopicPartition(*T0): 0 if loops == "records" else 1}
            first.step.set()
            await first.left.wait()
            assert await poll_anyhow(consumer, how), "the first task has left its loop"
            first.end.set()
            await first.task

    run(main())


def test_a_loop_may_go_on_in_another_task(server: ModelServer) -> None:
    """`asyncio.wait_for(anext(records), 1)` makes a task for each record, up to Python 3.11."""
    topic(server, 9)

    async def main() -> None:
        async with consumer_of(server, group_id="g") as consumer:
            consumer.assign([T0])
            records = aiter(consumer)
            assert [(await asyncio.create_task(anext(records))).offset for _ in range(3)] == [0, 1, 2]  # type: ignore[arg-type]
            ended = asyncio.create_task(anext(records))  # type: ignore[arg-type]
            await ended
            assert await asyncio.create_task(consumer.poll(1.0, 2)), "the task of the loop has ended"
            await anext(records)
            with pytest.raises(KafkaError, match="is in a loop"):
                await asyncio.create_task(consumer.poll())
            await records.aclose()  # type: ignore[attr-defined]
            await asyncio.create_task(consumer.poll(0))

    run(main())


def test_a_generator_that_was_left_lets_the_next_task_poll_at_once(server: ModelServer) -> None:
    """asyncio closes it some turns later."""
    topic(server, 9)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])

            async def records() -> AsyncIterator[Record]:
                async for record in consumer:
                    yield record

            async def first() -> list[Record]:
                async for _ in records():
                    break
                inspect(consumer).session._turned = INFINITY  # other tasks have run just now
                return await asyncio.create_task(consumer.poll(1.0))

            assert await asyncio.create_task(first())

    run(main())


def test_an_iterator_of_lists_may_go_on_in_another_task(server: ModelServer) -> None:
    topic(server, 9)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([T0])
            lists = aiter(consumer.batches(1.0, 2))
            await anext(lists)
            assert aiter(lists) is lists

            async def go_on() -> list[Record]:
                async for records in lists:
                    return records
                return []

            assert [record.offset for record in await asyncio.create_task(go_on())] == [2, 3]

    run(main())


def test_an_iterator_of_records_goes_on_after_an_exception(server: ModelServer) -> None:
    """`wait_for(anext(records), 1)` in a loop would end with its first timeout."""
    topic(server, 3)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            records = aiter(consumer)
            for _ in range(2):
                with pytest.raises(ConfigError, match="no topics or partitions"):
                    await anext(records)
            consumer.assign([T0])
            assert [(await anext(records)).offset for _ in range(2)] == [0, 1]
            with pytest.raises(KafkaError, match="is in a loop"):
                await asyncio.create_task(consumer.poll(0))
            assert (await anext(records)).offset == 2
            for _ in range(2):
                waits = asyncio.ensure_future(anext(records))
                await asyncio.sleep(0)
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
            assert await asyncio.create_task(consumer.poll(0)) == [], "it has no record in hand"
            fill(server, "t", 0, [b"3", b"4"])
            assert [(await anext(records)).offset for _ in range(2)] == [3, 4]
            await records.aclose()  # type: ignore[attr-defined]
            with pytest.raises(StopAsyncIteration):
                await anext(records)

    run(main())
