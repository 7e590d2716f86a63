"""`send_arrow` of the producer for asyncio: a task waits where a thread would, others run meanwhile, and no row is lost or repeated."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pykafka4 import BufferFull, ConfigError, Delivery, DeliveryFailed, ProducerHooks, SentRows
from pykafka4.aio import Producer
from pykafka4.testing import ModelServer
from tests.aio.tasking import ROOM, cancelled, eventually, every_wait, full, producer_of, run
from tests.net.net_helpers import SECONDS
from tests.producer.producing import values


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    """Three brokers, topic `t` with three partitions."""
    server.create_topic("t", 3)
    return server


def table(*cells: Any, **columns: Any) -> Any:
    return pa.table({"value": list(cells)} | columns)


def test_rows_are_sent_and_awaited(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            rows = await producer.send_arrow("t", table("a", "b", key=["k", None]))
            assert (await rows, len(rows), rows.acked) == (2, 2, 2)
            assert await rows == 2, "it may be awaited again"

    run(main())
    assert values(server) == [b"a", b"b"]


def test_awaiting_raises_the_first_failure(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, linger_ms=0)
        await (await producer.send("t", b"first", partition=1))
        server.do(lambda cluster: cluster.orphan("t", 1, 1_000.0))
        rows = await producer.send_arrow("t", table("a", "b", "c", partition=[0, 1, 1]))
        waiting = asyncio.ensure_future(_outcome(rows))
        await eventually(lambda: rows.done() or rows.acked == 1)
        producer.purge(in_flight=True)
        with pytest.raises(DeliveryFailed) as caught:
            await waiting
        assert "row 1, counted from 0, is the first failed row; 2 of 3 rows failed" in caught.value.__notes__[0]
        await producer.close(0)

    run(main())


async def _outcome(rows: SentRows) -> int:
    return await rows


def test_a_task_that_waits_for_room_lets_others_run(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, **ROOM)
        held = await full(server, producer)
        sending = asyncio.ensure_future(producer.send_arrow("t", table(*[f"{i:04}" * 100 for i in range(200)], partition=[0] * 200)))
        await asyncio.sleep(0.05)
        assert not sending.done()
        server.do(lambda cluster: cluster.heal())
        rows = await sending
        assert await rows == 200
        assert all([await delivery for delivery in held])
        await producer.close()

    run(main())
    assert values(server)[:200] == [b"%04d" % i * 100 for i in range(200)]


def test_waiting_for_room_ends_with_max_block_ms(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, **ROOM, max_block_ms=50)
        await full(server, producer)
        with pytest.raises(BufferFull, match="max_block_ms=50") as caught:
            await producer.send_arrow("t", table("a", *["x" * 500] * 20, partition=[1] + [0] * 20))
        assert await caught.value.accepted == 1  # type: ignore[attr-defined]
        await producer.close(0)

    run(main())


def test_data_that_cannot_be_sent_is_refused(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            with pytest.raises(TypeError, match="the column 'value'"):
                await producer.send_arrow("t", table(1.5))
            with pytest.raises(ConfigError, match="no column 'usr'"):
                await producer.send_arrow("t", table("a"), key="usr")

    run(main())


def test_a_batch_is_read_on_a_thread_of_its_own(server: ModelServer) -> None:
    schema, threads, gate = pa.schema([("value", pa.string())]), list[str](), threading.Event()

    def read() -> Iterator[Any]:
        for cell in "ab":
            assert gate.wait(SECONDS)
            threads.append(threading.current_thread().name)
            yield pa.record_batch([[cell]], schema=schema)

    async def main() -> None:
        async with producer_of(server) as producer:
            sending = asyncio.ensure_future(producer.send_arrow("t", pa.RecordBatchReader.from_batches(schema, read())))
            await asyncio.sleep(0.01)  # the event loop runs although the reader blocks
            gate.set()
            assert await (await sending) == 2

    run(main())
    assert set(threads) == {"pykafka4-arrow"}


def test_other_tasks_run_while_many_rows_are_sent(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            sending = asyncio.ensure_future(producer.send_arrow("t", table(*["x"] * 50_000)))
            turns = 0
            while not sending.done():
                await asyncio.sleep(0)
                turns += 1
            assert turns > 10
            assert await sending.result() == 50_000

    run(main())


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "hooks"])
def test_a_call_cancelled_anywhere_tells_which_rows_were_accepted(server: ModelServer, hooked: bool) -> None:
    class Hook(ProducerHooks):
        def on_enqueue(self, delivery: Delivery) -> None:
            """Rows pass one by one."""

    async def main() -> None:
        producer = producer_of(server, **ROOM, hooks=Hook() if hooked else None)
        sent = 0
        for at, when in every_wait():
            error: list[BaseException] = []
            reached, rows = await cancelled(_noting(producer, sent, error), at, when)
            done = rows if rows is not None else error[0].accepted if hasattr(error[0], "accepted") else ()  # type: ignore[attr-defined]
            assert len(done) == (await done if done else 0)
            sent += len(done)
            assert producer.stats().accepted == sent
            if not reached:
                break
        await producer.close()
        assert len(values(server)) == sent

    run(main())


async def _noting(producer: Producer, start: int, errors: list[BaseException]) -> SentRows:
    try:
        return await producer.send_arrow("t", table(*[f"{start + i}" for i in range(3)]))
    except asyncio.CancelledError as error:
        errors.append(error)
        raise


def test_hooks_and_serializers_get_each_row(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server, value_serializer=lambda topic, value: value.upper()) as producer:
            assert await (await producer.send_arrow("t", table("a", "b"))) == 2

    run(main())
    assert values(server) == [b"A", b"B"]


def test_transactions(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server, transactional_id="x") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                rows = await producer.send_arrow("t", table("a"))
            assert rows.result(0) == 1

    run(main())
    assert values(server) == [b"a"]
