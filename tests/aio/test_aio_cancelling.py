"""Every call of the consumer for asyncio is cancelled in each of its waits: when the wait begins, and when what it waits for has happened.

Afterwards the consumer works: no record is lost or returned twice, and what was cancelled can be called again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pykafka4.aio import Consumer, guard
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.aio.tasking import When, cancelled, consumer_of, every_wait, run
from tests.consumer.consuming import fill, numbers, topic
from tests.inspection import inspect
from tests.net.interrupts import interrupts, undisturbed
from tests.net.net_helpers import SECONDS

T0 = ("t", 0)


class Listener:
    """Coroutines that wait, and commit."""

    def __init__(self) -> None:
        self.consumer: Consumer
        self.told: list[str] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.told.append("assigned")

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self.consumer.commit()
        self.told.append("revoked")


async def member(server: ModelServer, listener: Listener | None = None) -> Consumer:
    consumer = consumer_of(server, group_id="g", session_timeout_ms=60_000)
    if listener is not None:
        listener.consumer = consumer
    consumer.subscribe(["t"], listener)
    return consumer


async def got(consumer: Consumer, count: int) -> list[int]:
    """The offsets of `count` records at least."""
    offsets: list[int] = []
    async with asyncio.timeout(SECONDS):
        while len(offsets) < count:
            offsets += [record.offset for record in await consumer.poll(0.2, 2)]
    return offsets


def test_a_poll_cancelled_in_any_wait_loses_nothing_and_returns_nothing_twice(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async with await member(server) as consumer:
            seen: list[int] = []
            filled = 0
            for at, when in every_wait():
                fill(server, "t", 0, numbers(filled, filled + 3))
                filled += 3
                await asyncio.sleep(0.002 * (at % 3))  # the records may arrive before the poll or while it waits
                reached, records = await cancelled(consumer.poll(SECONDS, 2), at, when)
                seen += [record.offset for record in records or ()]
                seen += await got(consumer, filled - len(seen))
                assert seen == list(range(filled)), (at, when)
                if not reached and at > 3:
                    break

    run(main())


def test_ctrl_c_where_a_poll_enters_or_leaves_the_consumer_loses_nothing(server: ModelServer) -> None:
    """The KeyboardInterrupt ends the event loop; the application may run another one. (`asyncio.run` cancels at the first Ctrl-C.)"""
    topic(server, 0)
    consumer = asyncio.run(member(server))
    seen: list[int] = []
    filled = 0

    def poll() -> None:
        nonlocal filled
        with undisturbed():
            fill(server, "t", 0, numbers(filled, filled + 3))
        filled += 3
        loop = asyncio.new_event_loop()
        try:
            seen.extend(record.offset for record in loop.run_until_complete(consumer.poll(SECONDS, 2)))
        finally:
            loop.close()

    places = []
    for place in interrupts(poll, within=(guard.__file__, contextlib.__file__)):
        seen += asyncio.run(got(consumer, filled - len(seen)))
        assert seen == list(range(filled)), place
        places.append(place)
    assert any("TaskGuard.exclusive" in place for place in places)
    asyncio.run(consumer.close())


def test_a_loop_cancelled_in_any_wait_loses_nothing(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async with await member(server) as consumer:
            seen: list[int] = []

            async def loop(count: int) -> None:
                async for record in consumer:
                    seen.append(record.offset)
                    if len(seen) == count:
                        return

            filled = 0
            for at, when in every_wait():
                fill(server, "t", 0, numbers(filled, filled + 3))
                filled += 3
                reached, _ = await cancelled(loop(filled), at, when)
                await loop(filled) if len(seen) < filled else None
                assert seen == list(range(filled)), (at, when)
                if not reached and at > 3:
                    break

    run(main())


def test_a_rebalance_whose_polls_are_cancelled_is_completed_and_the_listener_hears_all_of_it_once(server: ModelServer) -> None:
    """Partitions are given back and taken up again around each wait of two polls; the group has no other member."""
    topic(server, 0)

    async def main() -> None:
        listener = Listener()
        async with await member(server, listener) as consumer:
            seen: list[int] = []

            async def polls(rounds: int) -> None:
                for _ in range(20):
                    seen.extend(record.offset for record in await consumer.poll(0.01))
                    if listener.told.count("assigned") > rounds and listener.told[-1] == "assigned":
                        return

            await until(consumer, seen, lambda: "assigned" in listener.told)
            for number, (at, when) in enumerate(every_wait()):
                fill(server, "t", 0, numbers(2 * number, 2 * number + 2))
                await asyncio.to_thread(inspect(consumer).rejoin)
                reached, _ = await cancelled(polls(number + 1), at, when)
                await until(consumer, seen, lambda n=number: listener.told.count("assigned") == n + 2)  # type: ignore[misc]
                await until(consumer, seen, lambda n=number: len(seen) >= 2 * n + 2)  # type: ignore[misc]
                assert listener.told == ["assigned", *["revoked", "assigned"] * (number + 1)], (at, when)
                assert seen == list(range(2 * number + 2)), (at, when)
                if not reached and at > 5:
                    break

    run(main())


async def until(consumer: Consumer, seen: list[int], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            seen.extend(record.offset for record in await consumer.poll(0.02))


CALLS: dict[str, Callable[[Consumer], Coroutine[Any, Any, Any]]] = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(T0),
    "position": lambda consumer: consumer.position(T0),
    "seek_to_end": lambda consumer: consumer.seek_to_end([T0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_cancelled_in_any_wait_can_be_made_again(server: ModelServer, name: str) -> None:
    topic(server, 0)

    async def main() -> None:
        async with await member(server) as consumer:
            for filled, (at, when) in enumerate(every_wait(), 1):
                fill(server, "t", 0, numbers(filled - 1, filled))
                await got(consumer, 1)
                if name == "position":
                    consumer.seek_to_time(2**60, [T0])  # the end, looked up in the background
                reached, _ = await cancelled(CALLS[name](consumer), at, when)
                assert await consumer.position(T0) == filled
                await consumer.commit({T0: filled})
                place = await consumer.committed(T0)
                assert place is not None
                assert place.offset == filled
                if not reached:
                    break

    run(main())


def test_a_cancelled_commit_says_that_it_may_be_carried_out(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        async with await member(server) as consumer:
            await got(consumer, 1)
            with pytest.raises(asyncio.CancelledError) as raised:
                asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # type: ignore[union-attr]
                await consumer.commit()
            assert raised.value.__notes__ == ["pykafka4: the commit was under way; its outcome is unknown"]

    run(main())


@pytest.mark.parametrize("name", ["close", "unsubscribe"])
def test_an_end_cancelled_in_any_wait_leaves_the_group_and_can_be_repeated(server: ModelServer, name: str) -> None:
    topic(server, 4)

    async def once(at: int, when: When) -> bool:
        listener = Listener()
        consumer = await member(server, listener)
        await until(consumer, [], lambda: "assigned" in listener.told)
        reached, _ = await cancelled(getattr(consumer, name)(), at, when)
        if name == "close":
            await consumer.close()
            assert listener.told == ["assigned", "revoked"], (at, when)
        else:
            assert consumer.assignment() == set()
            assert consumer.subscription() == set()
            await consumer.unsubscribe()
            consumer.assign([T0])
            assert await consumer.position(T0) >= 0
            await consumer.close()
        server.wait_for(lambda cluster: not cluster.group("g").members)
        return reached

    async def main() -> None:
        for at, when in every_wait():
            if not await once(at, when):
                break

    run(main())


def test_the_end_of_asyncio_run_closes_a_consumer_whose_close_it_cancels(server: ModelServer) -> None:
    topic(server, 4)
    consumers = []

    async def main() -> None:
        consumers.append(await member(server, Listener()))
        consumers[0].subscribe(["t"])
        await got(consumers[0], 4)
        asyncio.ensure_future(consumers[0].poll(None))  # noqa: RUF006
        asyncio.ensure_future(consumers[0].close())  # noqa: RUF006
        await asyncio.sleep(0)

    run(main())
    assert inspect(consumers[0]).session.closed
    server.wait_for(lambda cluster: not cluster.group("g").members)
