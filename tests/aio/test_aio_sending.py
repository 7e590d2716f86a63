"""The producer for asyncio: a record that waits is prepared once, and many records are accepted as by the threaded producer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from net_helpers import SECONDS
from producing import values
from tasking import ROOM, eventually, full, producer_of, run

from pykafka4 import Delivery, OutgoingRecord, ProducerHooks, ProducerRecord, RecordTooLarge
from pykafka4.testing import ModelServer


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    """Three brokers, topic `t` with three partitions."""
    server.create_topic("t", 3)
    return server


class Counting(ProducerHooks):
    """Counts the calls within `send`."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.enqueued = 0

    def on_send(self, record: OutgoingRecord) -> None:
        self.sent.append(record.value)

    def on_enqueue(self, delivery: Delivery) -> None:
        self.enqueued += 1


def test_a_record_that_waits_is_serialized_once_and_seen_once_by_hooks(server: ModelServer) -> None:
    hook, serialized = Counting(), list[bytes]()

    def serializer(topic: str, value: bytes) -> bytes:
        serialized.append(value)
        return value

    async def main() -> None:
        producer = producer_of(server, **ROOM, hooks=hook, value_serializer=serializer)
        held = await full(server, producer)
        hook.sent.clear()
        serialized.clear()
        before = hook.enqueued
        assert before == len(held) + 1
        tasks = [asyncio.ensure_future(producer.send("t", b"%03d" % n + b"v" * 500, partition=0)) for n in range(40)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)
        assert hook.enqueued == before
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await asyncio.gather(*tasks)
        names = [b"%03d" % n + b"v" * 500 for n in range(40)]
        assert (serialized, hook.sent, hook.enqueued) == (names, names, before + 40)
        await producer.close()

    run(main())


def test_records_of_another_producer_are_sent_again_as_they_are(server: ModelServer) -> None:
    def fails(topic: str, value: bytes) -> bytes:
        raise AssertionError("of bytes")

    async def main() -> None:
        async with producer_of(server, value_serializer=fails) as producer:
            records = [ProducerRecord("t", b"%d" % n, b"k", [("h", b"1")], n, 1_000 + n) for n in range(3)]
            done = [await delivery for delivery in await producer.send_many(records)]
            assert [(meta.partition, meta.timestamp_ms) for meta in done] == [(0, 1_000), (1, 1_001), (2, 1_002)]
            with pytest.raises(TypeError, match="record 1 must be a ProducerRecord, not bytes") as caught:
                await producer.send_many([records[0], b"v"])  # type: ignore[list-item]
            assert len(caught.value.accepted) == 1  # type: ignore[attr-defined]
            with pytest.raises(TypeError, match="iterable of ProducerRecord, not int"):
                await producer.send_many(5)  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="only an iterable of ProducerRecord"):
                await producer.send_many("t")  # type: ignore[arg-type]

    run(main())


def test_the_records_before_one_that_is_refused_are_accepted(server: ModelServer) -> None:
    called: list[Delivery] = []

    async def main() -> None:
        async with producer_of(server, max_request_size=2_000) as producer:
            many = [b"a", b"b", b"v" * 3_000, b"c"]
            with pytest.raises(RecordTooLarge) as caught:
                await producer.send_many("t", many, keys=[b"1", b"2", b"3", b"4"], timestamp_ms=5, on_delivery=called.append)
            accepted: list[Delivery] = caught.value.accepted  # type: ignore[attr-defined]
            assert [(await delivery).timestamp_ms for delivery in accepted] == [5, 5]
            await eventually(lambda: len(called) == 2)
            with pytest.raises(ValueError, match="keys has 1 items, but values has 2") as error:
                await producer.send_many("t", [b"x", b"y"], keys=[b"1"])
            assert error.value.accepted == []  # type: ignore[attr-defined]
            with pytest.raises(ValueError, match="keys ended after 1 items"):
                await producer.send_many("t", iter([b"d", b"y"]), keys=iter([b"1"]))

    run(main())
    assert sorted(values(server)) == [b"a", b"b", b"d"]


def test_a_cancelled_send_many_tells_what_was_accepted(server: ModelServer) -> None:
    accepted: list[Delivery] = []

    async def main() -> None:
        producer = producer_of(server, **ROOM)
        held = await full(server, producer)

        async def many() -> None:
            try:
                await producer.send_many(ProducerRecord("t", b"%d" % n * 500, partition=p) for n, p in ((1, 1), (2, 2), (3, 0)))
            except asyncio.CancelledError as error:
                accepted.extend(error.accepted)  # type: ignore[attr-defined]
                raise

        task = asyncio.ensure_future(many())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert [(await delivery).partition for delivery in accepted] == [1, 2]
        assert len(await producer.close(0)) == len(held)

    run(main())


def test_the_end_of_close_does_not_block_the_event_loop(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        producer = producer_of(server)
        await (await producer.send("t", b"v"))
        turned, original = asyncio.Event(), producer._core.close
        loop = asyncio.get_running_loop()

        def slow(timeout: float) -> Any:
            """Its end needs a turn of the event loop."""
            asyncio.run_coroutine_threadsafe(turn(), loop).result(SECONDS)
            return original(timeout)

        async def turn() -> None:
            turned.set()

        monkeypatch.setattr(producer._core, "close", slow)
        assert await producer.close() == []
        assert turned.is_set()

    run(main())
