"""The producer for asyncio: a record that waits is prepared once, and many records are accepted as by the threaded producer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykafka4 import (
    AuthorizationError,
    Client,
    ClosedError,
    Delivery,
    DeliveryFailed,
    KafkaTimeoutError,
    OutgoingRecord,
    ProducerHooks,
    ProducerRecord,
    RecordTooLarge,
)
from pykafka4.aio import Producer
from pykafka4.testing import ModelServer
from tests.aio.tasking import ROOM, eventually, full, producer_of, run
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS
from tests.producer.producing import values


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
            with pytest.raises(ValueError, match="keys ended after 1"):
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
        turned, original = asyncio.Event(), inspect(producer).session.close
        loop = asyncio.get_running_loop()

        def slow(timeout: float) -> Any:
            """Its end needs a turn of the event loop."""
            asyncio.run_coroutine_threadsafe(turn(), loop).result(SECONDS)
            return original(timeout)

        async def turn() -> None:
            turned.set()

        monkeypatch.setattr(inspect(producer).session, "close", slow)
        assert await producer.close() == []
        assert turned.is_set()

    run(main())


def test_a_send_whose_event_loop_was_closed_gives_up_its_place(server: ModelServer) -> None:
    """Its task never goes on: at the front of the queue it would block the partition for good."""
    producer, waiting = producer_of(server, **ROOM), list[Any]()

    async def fill() -> None:
        await full(server, producer)
        waiting.append(asyncio.ensure_future(producer.send("t", b"v" * 500, partition=0)))
        await eventually(lambda: inspect(producer).blocked_sends == 1)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(fill())
    loop.close()
    assert inspect(producer).blocked_sends == 1

    async def go_on() -> None:
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await (await producer.send("t", b"after", partition=0))
        assert inspect(producer).blocked_sends == inspect(producer).session.acc.waiters == 0
        await producer.close()

    run(go_on())
    waiting[0]._log_destroy_pending = False


@pytest.mark.parametrize("kind", ["function", "callable", "lambda"])
def test_a_coroutine_function_as_a_callback_is_refused_or_reported(server: ModelServer, kind: str) -> None:
    async def told(delivery: Delivery) -> None: ...

    class Teller:
        async def __call__(self, delivery: Delivery) -> None: ...

    callbacks: dict[str, Any] = {"function": told, "callable": Teller(), "lambda": lambda delivery: told(delivery)}

    async def main() -> None:
        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context["exception"]))
        async with producer_of(server, linger_ms=0) as producer:
            if kind == "lambda":
                await (await producer.send("t", b"v", on_delivery=callbacks[kind]))
                await eventually(lambda: bool(problems))
                assert "on_delivery must be a plain function" in str(problems[0])
            else:
                with pytest.raises(TypeError, match="on_delivery must be a plain function"):
                    await producer.send("t", b"v", on_delivery=callbacks[kind])
                assert producer.stats().accepted == 0

    run(main())


def test_partitions_are_looked_up_without_blocking_the_event_loop(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            assert await producer.partitions_for("t") == [0, 1, 2]
            server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
            with pytest.raises(KafkaTimeoutError, match=r"looking up topic unknown: not done within 0\.1 s"):
                await producer.partitions_for("unknown", timeout=0.1)
            server.do(lambda cluster: [cluster.start_broker(node) for node in cluster.brokers])

    run(main())


def test_a_delivery_scope_tells_what_failed_in_it(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, linger_ms=0)
        async with producer.delivery_scope():
            await producer.send("t", b"v", partition=0)
        assert producer.stats().acked == 1
        server.fail("Produce", "INVALID_RECORD", times=1)
        with pytest.raises(DeliveryFailed, match="INVALID_RECORD"):
            async with producer.delivery_scope(timeout=SECONDS):
                await producer.send("t", b"v", partition=0)
        producer.raise_failures()  # the scope has told it
        await producer.close()

    run(main())


def test_nothing_runs_on_the_executor_of_asyncio(server: ModelServer) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        async with producer_of(server) as producer:
            await (await producer.send("t", b"v"))
            await producer.partitions_for("t")
        assert loop._default_executor is None

    run(main())


def test_headers_that_are_an_iterator_are_on_every_record(server: ModelServer) -> None:
    """A record that waits for room is offered more than once, and `send_many` has one argument for all."""

    async def main() -> None:
        producer = producer_of(server, **ROOM)
        await full(server, producer)
        tasks = [asyncio.ensure_future(producer.send("t", b"mine", headers=iter([("h", b"1")]), partition=0)) for _ in range(20)]
        await asyncio.sleep(0.01)
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await asyncio.gather(*tasks)
        await producer.send_many("t", [b"mine", b"mine"], headers=iter([("h", b"1")]), partition=0)
        await producer.close()

    run(main())
    found = [record for record in server.do(lambda cluster: cluster.records("t")) if record.value == b"mine"]
    assert [tuple(map(tuple, record.headers)) for record in found] == [(("h", b"1"),)] * 22


def last(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return partitions[-1]


def test_a_partitioner_waits_for_its_topic_and_the_brokers_refusal_ends_that(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server, partitioner=last) as producer:
            assert (await (await producer.send("t", b"v"))).partition == 2
            server.create_topic("denied", 1)
            server.do(lambda cluster: cluster.controls.deny("topic", "denied", ["DESCRIBE", "WRITE"]))
            with pytest.raises(AuthorizationError, match="denied"):
                await producer.send("denied", b"v")
        async with producer_of(server, partitioner=last, max_block_ms=200, allow_auto_create_topics=False) as producer:
            with pytest.raises(
                KafkaTimeoutError, match="'absent' have to be looked up; not done within max_block_ms=200; the brokers report"
            ):
                await producer.send("absent", b"v")

    run(main())


def test_close_ends_the_wait_of_a_partitioner_for_its_topic(server: ModelServer) -> None:
    async def main() -> None:
        with Client(bootstrap_servers=server.bootstrap_servers, allow_auto_create_topics=False) as client:
            producer = Producer(client, partitioner=last)
            sending = asyncio.ensure_future(producer.send("absent", b"v"))
            await asyncio.sleep(0)
            assert not sending.done()
            await producer.close()
            with pytest.raises(ClosedError):
                await sending

    run(main())
