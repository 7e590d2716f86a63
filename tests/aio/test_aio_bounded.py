"""`aio.read` and `aio.Consumer.until_end`, with model brokers: the same records and the same ends as in threads."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from pykafka4 import ClosedError, ConfigError, CorruptRecord, KafkaError, OffsetOutOfRange, aio
from pykafka4.errors import BrokerError
from pykafka4.testing import ModelServer
from tests.aio.tasking import consumer_of, eventually, run
from tests.consumer.consuming import damage, fill, numbers, topic
from tests.inspection import inspect


def read(server: ModelServer, topics: Any = "t", **options: Any) -> Any:
    return aio.read(topics, bootstrap_servers=server.bootstrap_servers, **{"timeout": 20, **options})


def test_all_records_of_all_partitions_and_none_that_is_written_later(server: ModelServer) -> None:
    topic(server, 1_500, 0, 7)

    async def main() -> list[tuple[int, int]]:
        async with read(server) as records:
            fill(server, "t", 1, numbers(0, 5))
            found = [(record.partition, record.offset) async for record in records]
        assert [record async for record in records] == []
        return sorted(found)

    assert run(main()) == [(0, n) for n in range(1_500)] + [(2, n) for n in range(7)]


def test_its_repr_counts_the_records(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> str:
        records = read(server)
        assert [record.offset async for record in records] == [0]
        return repr(records)

    assert run(main()) == "<aio.Read: 1 record so far>"


def test_a_loop_that_is_left_can_be_continued(server: ModelServer) -> None:
    topic(server, 100)

    async def main() -> None:
        records = read(server)
        async for record in records:
            if record.offset == 10:
                break
        assert (await anext(records)).offset == 11
        assert [record.offset async for record in records] == list(range(12, 100))

    run(main())


def test_an_exception_does_not_look_like_the_end(server: ModelServer) -> None:
    topic(server, 2)
    fill(server, "t", 0, numbers(2, 4))
    damage(server, 1)

    async def main() -> None:
        async with read(server) as records:
            assert [(await anext(records)).offset for _ in range(2)] == [0, 1]
            for _ in range(2):
                with pytest.raises(CorruptRecord):
                    await anext(records)

    run(main())


def test_errors_of_arguments_of_topics_and_of_lost_records(server: ModelServer) -> None:
    topic(server, 10)
    server.do(lambda cluster: cluster.delete_records("t", 0, 4))

    async def main() -> None:
        with pytest.raises(ConfigError):
            read(server, start="yesterday")
        with pytest.raises(BrokerError, match="topic nope: UNKNOWN_TOPIC_OR_PARTITION"):
            await anext(read(server, "nope"))
        with pytest.raises(OffsetOutOfRange, match="offsets 2 to 3 were deleted"):
            await anext(read(server, start={0: 2}))
        async with read(server, start={0: 2}, on_lost="warn") as records:
            assert [record.offset async for record in records] == list(range(4, 10))
            assert [(lost.first, lost.last) for lost in records.lost] == [(2, 3)]

    run(main())


def test_a_cancelled_step_loses_no_record(server: ModelServer) -> None:
    topic(server, 1_000)

    async def main() -> list[int]:
        found: list[int] = []

        async def take(records: Any) -> None:
            async for record in records:
                found.append(record.offset)
                await asyncio.sleep(0)

        async with read(server) as records:
            for _ in range(5):
                task = asyncio.create_task(take(records))
                await asyncio.sleep(0.01)
                task.cancel()
                await asyncio.wait([task])
            await take(records)
        return found

    assert run(main()) == list(range(1_000))


def test_a_read_that_is_closed_or_forgotten_releases_its_client(server: ModelServer) -> None:
    topic(server, 100)

    async def main() -> None:
        records = read(server)
        async for _ in records:
            break
        await records.close()
        with pytest.raises(ClosedError, match="this read was closed before its end"):
            await anext(records)
        records = read(server)
        runtime = inspect(records).runtime
        async for _ in records:
            break
        del records
        gc.collect()
        await eventually(lambda: not runtime.loop.alive)

    run(main())


def test_a_read_whose_ends_cannot_be_looked_up_is_closed(server: ModelServer) -> None:
    async def main() -> None:
        for step in (anext, lambda records: records.__aenter__()):
            records = read(server, "nope")
            runtime = inspect(records).runtime
            with pytest.raises(BrokerError, match="topic nope: UNKNOWN_TOPIC_OR_PARTITION"):
                await step(records)
            assert not runtime.loop.alive
            with pytest.raises(ClosedError):
                await anext(records)

    run(main())


def test_a_read_that_is_cancelled_before_its_block_is_closed(server: ModelServer) -> None:
    topic(server, 1)
    server.delay("Metadata", 60, times=100)

    async def main() -> None:
        records = read(server)
        runtime = inspect(records).runtime
        task = asyncio.create_task(records.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not runtime.loop.alive

    run(main())


def test_a_loop_of_a_consumer_that_ends(server: ModelServer) -> None:
    topic(server, 10, 3)

    async def main() -> None:
        async with consumer_of(server, group_id="g", enable_auto_commit=False) as consumer:
            consumer.subscribe(["t"])
            found = [(record.partition, record.offset) async for record in consumer.until_end()]
            assert sorted(found) == [*((0, n) for n in range(10)), *((1, n) for n in range(3))]
            await consumer.commit()
            assert server.committed("g") == {("t", 0): 10, ("t", 1): 3}
            fill(server, "t", 0, numbers(10, 14))
            loop = consumer.until_end()
            assert (await anext(loop)).offset == 10
            fill(server, "t", 0, numbers(14, 15))
            assert [record.offset async for record in loop] == [11, 12, 13]
            assert [record.offset for record in await consumer.poll(5)] == [14]
            with pytest.raises(StopAsyncIteration):
                await anext(consumer.until_end())

    run(main())


def test_a_poll_in_between_ends_the_loop_with_an_error(server: ModelServer) -> None:
    topic(server, 10)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            consumer.assign([("t", 0)])
            loop = consumer.until_end()
            assert (await anext(loop)).offset == 0
            await consumer.poll(1, max_records=1)
            with pytest.raises(KafkaError, match="call until_end again"):
                [record async for record in loop]

    run(main())
