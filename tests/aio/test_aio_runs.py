"""A run of `aio.Consumer.process` has its consumer alone: no other one may begin beside it, and what its event loop left is read again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka4 import Client, KafkaError
from pykafka4.aio import Consumer
from pykafka4.errors import ClosedError, ConfigError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Record
from tests.aio.tasking import consumer_of, eventually, run
from tests.consumer.consuming import LONG, topic
from tests.inspection import inspect

T0 = TopicPartition("t", 0)


def member(server: ModelServer, **options: Any) -> Consumer:
    consumer = consumer_of(server, group_id="g", enable_auto_commit=False, **options)
    consumer.subscribe(["t"])
    return consumer


class Slow:
    """A handler that finishes the first three records, and no other."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    async def __call__(self, record: Record) -> None:
        self.begun.append(record.offset)
        if record.offset >= 3:
            await asyncio.Event().wait()


def test_a_second_process_is_refused_and_commits_nothing(server: ModelServer) -> None:
    """It would take what the first one has in hand for finished."""
    topic(server, 20)

    async def main() -> None:
        handler = Slow()
        async with member(server) as consumer:
            first = asyncio.create_task(consumer.process(handler, workers=50), name="first")
            await eventually(lambda: len(handler.begun) == 20)
            with pytest.raises(KafkaError, match="called process while task 'first' is in poll"):
                await consumer.process(print)
            assert server.committed("g") == {}
            first.cancel()
            await asyncio.wait([first])
            await eventually(lambda: server.committed("g") == {T0: 3})

    run(main())


def test_a_second_process_is_refused_also_while_the_first_waits_for_its_handlers(server: ModelServer) -> None:
    topic(server, 20)

    async def main() -> None:
        handler, stop = Slow(), asyncio.Event()
        async with member(server) as consumer:
            first = asyncio.create_task(consumer.process(handler, workers=50, stop=stop))
            await eventually(lambda: len(handler.begun) == 20)
            stop.set()
            await eventually(lambda: inspect(consumer).session.guard.unused())
            with pytest.raises(ConfigError, match="while another process of this consumer runs"):
                await consumer.process(print)
            first.cancel()
            await asyncio.wait([first])
            await eventually(lambda: server.committed("g") == {T0: 3})

    run(main())


@pytest.mark.parametrize("how", ["records", "lists"])
def test_process_beside_a_loop_of_another_task_is_refused_and_commits_nothing(server: ModelServer, how: str) -> None:
    """What the other task has in hand is not finished."""
    topic(server, 3)

    async def main() -> None:
        async with member(server) as consumer:
            inside = asyncio.Event()

            async def loop() -> None:
                async for _ in consumer if how == "records" else consumer.batches():
                    inside.set()
                    await asyncio.Event().wait()

            first = asyncio.create_task(loop(), name="first")
            async with asyncio.timeout(LONG):
                await inside.wait()
            with pytest.raises(KafkaError, match="called process while task 'first' is in a loop"):
                await consumer.process(print)
            assert server.committed("g") == {}
            first.cancel()

    run(main())


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "collected"])
@pytest.mark.parametrize("how", ["poll", "process", "close"])
def test_what_the_event_loop_of_a_run_has_left_is_not_finished(server: ModelServer, how: str, kept: bool) -> None:
    """It was closed during `process`, whose task never goes on."""
    topic(server, 20)
    consumer, handler, tasks = member(server), Slow(), list[Any]()

    async def begin() -> None:
        tasks.append(asyncio.create_task(consumer.process(handler, workers=50)))
        await eventually(lambda: len(handler.begun) == 20)

    async def go_on() -> None:
        got: list[int] = []
        if how == "poll":
            while len(got) < 17:
                got += [record.offset for record in await consumer.poll(0.2)]
        elif how == "process":
            stop = asyncio.Event()

            def note(record: Record) -> None:
                got.append(record.offset)
                if len(got) == 17:
                    stop.set()

            await consumer.process(note, stop=stop)
        assert sorted(got) == ([] if how == "close" else list(range(3, 20)))
        await consumer.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    if not kept:
        tasks[0].get_coro().close()  # as when it is collected
    run(go_on())
    assert server.committed("g") == {T0: 20 if how == "process" else 3}


def test_a_handler_may_close_the_consumer(server: ModelServer) -> None:
    """The close does not wait for the record of that handler, which is not finished."""
    topic(server, 20)

    async def main() -> None:
        consumer, took = member(server), list[float]()
        clock = asyncio.get_running_loop().time

        async def handle(record: Record) -> None:
            if record.offset == 5:
                began = clock()
                await consumer.close(LONG)
                took.append(clock() - began)

        with pytest.raises(ClosedError):
            await consumer.process(handle, "partition")
        assert max(took) < LONG / 2

    run(main())
    assert server.committed("g") == {T0: 5}


def test_when_the_client_of_a_run_is_closed_what_is_finished_is_committed(server: ModelServer) -> None:
    """Without the event loop: no listener is called, not that of the run either."""
    topic(server, 20)

    async def main() -> None:
        client, handler = Client(bootstrap_servers=server.bootstrap_servers), Slow()
        consumer = Consumer(client, group_id="g", enable_auto_commit=False, auto_offset_reset="earliest")
        consumer.subscribe(["t"])
        running = asyncio.create_task(consumer.process(handler, workers=50, drain_timeout=0.0))
        await eventually(lambda: len(handler.begun) == 20)
        await asyncio.to_thread(client.close)
        with pytest.raises(ClosedError):
            await running
        assert server.committed("g") == {T0: 3}

    run(main())
