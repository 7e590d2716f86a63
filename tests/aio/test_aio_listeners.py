"""Rebalance listeners of the consumer for asyncio: coroutines and plain functions, with members that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pykafka4 import ClosedError, KafkaError
from pykafka4.aio import Consumer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.aio.tasking import consumer_of, eventually, run
from tests.consumer.consuming import Listener, fill, numbers, topic
from tests.net.net_helpers import SECONDS

T0 = ("t", 0)
Act = Callable[[Consumer], Awaitable[Any]]


class Coroutines:
    """A listener whose methods are coroutines: they note their begin and end, and do `acts[method]` in between."""

    def __init__(self, **acts: Act) -> None:
        self.acts, self.told = acts, list[str]()
        self.consumer: Consumer

    async def _told(self, method: str) -> None:
        self.told.append(f"{method} begins")
        try:
            await asyncio.sleep(0.001)
            if method in self.acts:
                await self.acts[method](self.consumer)
        except asyncio.CancelledError:
            self.told.append(f"{method} is cancelled")
            raise
        self.told.append(f"{method} ends")

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await self._told("assigned")

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._told("revoked")

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        await self._told("lost")


WHOLE = ["assigned begins", "assigned ends", "revoked begins", "revoked ends"]


def subscribed(server: ModelServer, listener: Any, **options: Any) -> Consumer:
    consumer = consumer_of(server, **{"group_id": "g", **options})
    listener.consumer = consumer
    consumer.subscribe(["t"], listener)
    return consumer


async def poll_until(consumer: Consumer, condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await consumer.poll(0.05)


def test_members_come_and_go_and_every_record_is_processed_once(server: ModelServer) -> None:
    topic(server, *[200] * 6)

    async def main() -> None:
        done: list[tuple[int, int]] = []
        told: list[Listener | Coroutines] = []

        async def reads(count: int, listener: Any) -> None:
            told.append(listener)
            async with subscribed(server, listener, session_timeout_ms=60_000, max_poll_records=20) as consumer:
                async for records in consumer.batches(0.05):
                    done.extend((record.partition, record.offset) for record in records)
                    await asyncio.sleep(0)
                    if len(done) >= count:
                        break

        async with asyncio.TaskGroup() as group:
            group.create_task(reads(1_200, Listener()))
            for count in (100, 200, 300, 1_200):
                group.create_task(reads(count, Coroutines()))
        assert sorted(done) == [(partition, offset) for partition in range(6) for offset in range(200)]
        for listener in told:
            if isinstance(listener, Coroutines):
                assert listener.told[: len(listener.told) // 4 * 4] == WHOLE * (len(listener.told) // 4)

    run(main())
    assert server.committed("g") == {("t", partition): 200 for partition in range(6)}


@pytest.mark.parametrize("name", ["plain", "coroutine"])
def test_a_listener_commits_what_the_application_chooses_before_partitions_go(server: ModelServer, name: str) -> None:
    topic(server, 10)

    class Plain(Listener):
        consumer: Consumer

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            self.consumer.commit_async({T0: 3})

    async def main() -> None:
        listener = Plain() if name == "plain" else Coroutines(revoked=lambda consumer: consumer.commit({T0: 3}))
        consumer = subscribed(server, listener, enable_auto_commit=False)
        await poll_until(consumer, consumer.assignment)
        await consumer.close()

    run(main())
    server.wait_for(lambda cluster: not cluster.group("g").members)
    assert server.committed("g") == {T0: 3}


@pytest.mark.parametrize("method", ["assigned", "revoked"])
def test_cancelling_a_poll_does_not_cancel_the_listener_and_the_next_poll_waits_for_it(server: ModelServer, method: str) -> None:
    topic(server, 0)

    async def main() -> None:
        inside, release = asyncio.Event(), asyncio.Event()

        async def act(consumer: Consumer) -> None:
            inside.set()
            await release.wait()

        listener = Coroutines(**{method: act})
        consumer = subscribed(server, listener)
        if method == "revoked":
            await poll_until(consumer, consumer.assignment)
            other = consumer_of(server, group_id="g")
            other.subscribe(["t"])
            beside = asyncio.ensure_future(poll_until(other, other.assignment))
        polling = asyncio.ensure_future(poll_until(consumer, lambda: False))
        await inside.wait()
        polling.cancel()
        await asyncio.wait([polling])
        assert polling.cancelled()
        assert listener.told[-1] == f"{method} begins"
        assert consumer.assignment() == {T0}  # revoked partitions are held until the listener has ended
        again = asyncio.ensure_future(consumer.poll(0))
        await asyncio.sleep(0.01)
        assert not again.done()
        release.set()
        await again
        assert listener.told[-1] == f"{method} ends"
        if method == "revoked":
            assert consumer.assignment() == set()
            await consumer.close()
            await beside
            await other.close()
        await consumer.close()
        assert "is cancelled" not in " ".join(listener.told)

    run(main())


def test_what_a_listener_raises_is_raised_by_poll_and_the_partitions_are_released(server: ModelServer) -> None:
    topic(server, 0, 0)

    async def main() -> None:
        async def fail(consumer: Consumer) -> None:
            raise ZeroDivisionError

        consumer = subscribed(server, Coroutines(revoked=fail))
        await poll_until(consumer, consumer.assignment)
        other = consumer_of(server, group_id="g")
        other.subscribe(["t"])
        beside = asyncio.ensure_future(poll_until(other, other.assignment))
        with pytest.raises(ZeroDivisionError):
            await poll_until(consumer, lambda: False)
        assert consumer.assignment() == set()
        await poll_until(consumer, consumer.assignment)
        await beside
        await other.close()
        with pytest.raises(ZeroDivisionError):
            await consumer.close()
        await consumer.close()

    run(main())
    server.wait_for(lambda cluster: not cluster.group("g").members)


def test_what_a_listener_raises_after_its_poll_was_cancelled_is_raised_by_the_next(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        inside = asyncio.Event()

        async def fail(consumer: Consumer) -> None:
            inside.set()
            await asyncio.sleep(0.001)
            raise ZeroDivisionError

        consumer = subscribed(server, Coroutines(assigned=fail))
        polling = asyncio.ensure_future(poll_until(consumer, lambda: False))
        await inside.wait()
        polling.cancel()
        await asyncio.wait([polling])
        with pytest.raises(ZeroDivisionError):
            await consumer.poll()
        fill(server, "t", 0, numbers(0, 1))
        assert [record.offset for record in await consumer.poll(SECONDS)] == [0]
        await consumer.close()

    run(main())


def test_poll_inside_a_listener_is_refused(server: ModelServer) -> None:
    topic(server, 0)
    errors: list[str] = []

    async def polls(consumer: Consumer) -> None:
        for call in (consumer.poll, lambda: asyncio.ensure_future(consumer.poll())):  # also in a task that it starts
            try:
                await call()
            except KafkaError as error:
                errors.append(str(error))

    async def main() -> None:
        consumer = subscribed(server, Coroutines(assigned=polls))
        await poll_until(consumer, consumer.assignment)
        await consumer.close()

    run(main())
    assert errors == ["poll must not be called inside on_partitions_assigned: the running call continues when the listener returns"] * 2


@pytest.mark.parametrize("method", ["assigned", "revoked"])
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_listener_may_close_or_unsubscribe(server: ModelServer, method: str, call: str) -> None:
    topic(server, 0)

    async def main() -> None:
        async def act(consumer: Consumer) -> None:
            await getattr(consumer, call)()
            listener.acts.clear()

        listener = Coroutines(**{method: act})
        consumer = subscribed(server, listener, session_timeout_ms=60_000)
        polling = asyncio.ensure_future(poll_until(consumer, lambda: False))
        if method == "revoked":
            await eventually(lambda: bool(consumer.assignment()))
            other = consumer_of(server, group_id="g")
            other.subscribe(["t"])
            beside = asyncio.ensure_future(poll_until(other, other.assignment))
        await eventually(lambda: f"{method} ends" in listener.told)
        if call == "close":
            with pytest.raises(ClosedError):
                await polling
        else:
            polling.cancel() if not polling.done() else None
            await asyncio.wait([polling])
        assert consumer.assignment() == set()
        if method == "revoked":
            await beside
            await other.close()
        await consumer.close()
        assert listener.told.count("revoked begins") == 1

    run(main())
    server.wait_for(lambda cluster: not cluster.group("g").members)


def test_close_waits_for_a_listener_whose_poll_was_cancelled(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        inside, release = asyncio.Event(), asyncio.Event()

        async def act(consumer: Consumer) -> None:
            inside.set()
            await release.wait()
            await consumer.commit({T0: 7})

        listener = Coroutines(assigned=act)
        consumer = subscribed(server, listener, enable_auto_commit=False)
        polling = asyncio.ensure_future(poll_until(consumer, lambda: False))
        await inside.wait()
        polling.cancel()
        await asyncio.wait([polling])
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0.01)
        release.set()
        await closing
        assert listener.told == WHOLE

    run(main())
    assert server.committed("g") == {T0: 7}


def test_a_listener_that_waits_too_long_loses_its_partitions(server: ModelServer) -> None:
    topic(server, 0)

    async def main() -> None:
        async def act(consumer: Consumer) -> None:
            await asyncio.sleep(0.5)

        listener = Coroutines(assigned=act)
        consumer = subscribed(server, listener, max_poll_interval_ms=200, session_timeout_ms=200)
        await poll_until(consumer, lambda: "lost ends" in listener.told)
        await consumer.close()

    run(main())
