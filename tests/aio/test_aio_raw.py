"""Raw batches in tasks: they wait for room and for outcomes without a wait of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from pykafka4 import BufferFull, DeliveryFailed, RawBatch
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.aio.tasking import consumer_of, producer_of, run
from tests.producer.producing import start_all, stop_all
from tests.wire.records.chunk_bytes import batch_of, record_of

pytestmark = pytest.mark.model(topics={"t": 1, "copy": 1})


def raw(*values: bytes) -> RawBatch:
    return RawBatch.from_bytes(build_batch([WireRecord(value=value, timestamp_ms=5) for value in values]), "t", 0)


def test_batches_are_copied_in_tasks(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer, consumer_of(server) as consumer:
            await (await producer.send_raw("t", raw(b"a", b"b")))
            consumer.assign([("t", 0)])
            while not (batches := await consumer.poll_raw(0.1, max_batches=5)):
                pass
            metadata = await (await producer.send_raw("copy", batches[0]))
            assert (metadata.base_offset, metadata.count) == (0, 2)

    run(main())
    assert [record.value for record in server.records("copy")] == [b"a", b"b"]


def test_a_batch_waits_for_room_in_its_task(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, buffer_memory=65_536, max_partition_bytes=65_536)
        await (await producer.send_raw("t", raw(b"known")))
        stop_all(server)
        for _ in range(3):
            await producer.send_raw("t", raw(bytes(20_000)))
        waiting = asyncio.create_task(producer.send_raw("t", raw(bytes(20_000))))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        start_all(server)
        await (await waiting)
        await producer.close()

    run(main())
    assert len(server.records("t")) == 5


def test_no_room_within_max_block_ms_is_an_error(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, buffer_memory=65_536, max_block_ms=1_000)
        await (await producer.send_raw("t", raw(b"known")))
        stop_all(server)
        await producer.send_raw("t", raw(bytes(40_000)))
        with pytest.raises(BufferFull, match="no room within max_block_ms=1000"):
            await producer.send_raw("t", raw(bytes(40_000)))
        await producer.close(0)

    run(main())


def test_await_of_a_split_batch_waits_for_all_parts(server: ModelServer) -> None:
    server.create_topic("small", 1, max_message_bytes=150)

    async def main() -> None:
        async with producer_of(server) as producer:
            values = [b"%d" % n * 30 for n in range(8)]
            delivery = await producer.send_raw("small", raw(*values))
            assert (await delivery).count == 8
            assert [record.value for record in server.records("small")] == values

    run(main())


def test_await_raises_the_failure(server: ModelServer) -> None:
    server.create_topic("small", 1, max_message_bytes=100)
    broken = RawBatch.from_bytes(batch_of(record_of(b"\0" * 99) + b"\x7f" * 50, count=2, last=1), "t", 0)

    async def main() -> None:
        producer = producer_of(server)
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
            await (await producer.send_raw("small", broken))
        await producer.close()

    run(main())
