"""Handlers that are awaited, without a consumer: how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pykafka4.aio.processing import TaskWork
from pykafka4.consumer.dead_letters import DeadLetters
from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.plan import Plan, Retries, _order
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.consumer.processing.working import record

LIMITS = Limits("test: group g", most_in_hand=10, most_polled=10, drain=30.0, max_poll=300.0, commits=True)


def work(handle: Callable[[Record], Coroutine[Any, Any, object]], dead: DeadLetters | None = None) -> TaskWork:
    """Three records of different keys for two workers."""
    made = TaskWork(Plan(handle, _order("key"), Retries(0, 1.0), dead, LIMITS, workers=2), lambda: None)
    made.add([record(0, b"a"), record(1, b"b"), record(2, b"c")], lambda: None)
    return made


def test_a_drain_starts_no_other_handler() -> None:
    async def main() -> None:
        begun, free = list[int](), [asyncio.Event() for _ in range(3)]

        async def handle(one: Record) -> None:
            begun.append(one.offset)
            await free[one.offset].wait()

        made = work(handle)
        draining = asyncio.ensure_future(made.drain(None))
        await asyncio.sleep(0)
        free[0].set()
        for _ in range(9):  # turns, in which the free worker would begin the third record
            await asyncio.sleep(0)
        assert (begun, draining.done()) == ([0, 1], False)
        free[1].set()
        assert await draining > 0, "the last commit is waited for"

    asyncio.run(main())


def test_a_handler_that_ends_its_partition_goes_on_when_the_other_handlers_have_returned() -> None:
    """A handler that closes the consumer awaits `end`, while a handler of another key runs."""

    async def main() -> None:
        async def handle(one: Record) -> None:
            if one.offset == 0:
                await begun.wait()
                waited.set_result(await made.end([TopicPartition("t", 0)], 3600.0))
            elif one.offset == 1:
                begun.set()
                for _ in range(9):
                    await asyncio.sleep(0)

        begun, waited = asyncio.Event(), asyncio.get_running_loop().create_future()
        made = work(handle)
        for _ in range(50):
            await asyncio.sleep(0)
        assert waited.result()

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before the drain", "during the drain"])
def test_a_cancelled_run_waits_for_the_end_of_its_handlers(when: str) -> None:
    async def main() -> None:
        ended = 0

        async def handle(one: Record) -> None:
            nonlocal ended
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended += 1

        made = work(handle)
        await asyncio.sleep(0)
        if when == "before the drain":
            assert await made.drain(asyncio.CancelledError()) == 0.0, "the last commit is not waited for"
        else:
            draining = asyncio.ensure_future(made.drain(None))
            await asyncio.sleep(0)
            draining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await draining
        assert ended == 2

    asyncio.run(main())


def test_a_cancelled_send_of_a_dead_letter_delays_no_revocation() -> None:
    """The last commit may find a rebalance: then the listener waits for the records in hand, of which there are none any more."""

    class Full:
        async def send(self, *arguments: Any, **options: Any) -> object:
            sending.set()
            return await asyncio.Event().wait()

    async def main() -> None:
        async def handle(one: Record) -> None:
            if one.offset == 0:
                raise ValueError

        made = work(handle, DeadLetters("dead", Full(), "g"))  # type: ignore[arg-type]
        await sending.wait()
        made.cancel_handlers()
        assert await made.end([TopicPartition("t", 0)], timeout=5.0)

    sending = asyncio.Event()
    asyncio.run(main())
