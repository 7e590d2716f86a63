"""The producer for asyncio, with model brokers: back-pressure, cancelling, its loop, its end."""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
import warnings
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pykafka4 import BufferFull, ClosedError, DeliveryFailed, KafkaTimeoutError, aio
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S
from pykafka4.testing import ModelServer
from tests.aio.tasking import ROOM, eventually, full, producer_of, run
from tests.inspection import inspect
from tests.net.net_helpers import until
from tests.producer.producing import values


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    """Three brokers, topic `t` with three partitions."""
    server.create_topic("t", 3)
    return server


def test_a_record_is_accepted_then_acknowledged(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            delivery = await producer.send("t", b"v", key=b"k", headers=[("h", b"1")], partition=2)
            metadata = await delivery
            assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 2, 0)
            deliveries = await producer.send_many("t", [b"a", b"b"], keys=[b"1", b"2"])
            assert len(await asyncio.gather(*deliveries)) == 2
            assert producer.stats().acked == 3
            assert producer.status()["partitions"]["t-2"]["state"] == "online"

    run(main())
    assert sorted(values(server)) == [b"a", b"b", b"v"]


def test_leaving_the_block_delivers_everything_and_raises_failures(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server, linger_ms=10_000) as producer:
            for number in range(100):
                await producer.send("t", b"%d" % number)
        with pytest.raises(ClosedError):
            await producer.send("t", b"late")
        assert await producer.close() == []
        with pytest.raises(DeliveryFailed):
            async with producer_of(server, unknown_topic_timeout_ms=200, allow_auto_create_topics=False) as producer:
                await producer.send("missing", b"v")

    run(main())
    assert len(values(server)) == 100


def test_flush_sends_without_linger_and_waits_for_callbacks_on_the_event_loop(server: ModelServer) -> None:
    async def main() -> None:
        here, called = asyncio.get_running_loop(), list[Any]()
        async with producer_of(server, linger_ms=10_000) as producer:
            delivery = await producer.send("t", b"v", on_delivery=lambda done: called.append((done.done(), asyncio.get_running_loop())))
            await producer.flush()
            assert delivery.done()
            await eventually(lambda: bool(called))
            assert called == [(True, here)]
            server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
            await producer.send("t", b"v", partition=0)
            with pytest.raises(KafkaTimeoutError, match="flush: records not delivered within"):
                await producer.flush(0.05)
            assert len(await producer.close(0)) == 1

    with pytest.raises(DeliveryFailed):
        run(main())


@pytest.mark.parametrize("end", ["flush", "scope", "close"])
def test_callbacks_have_run_although_the_outcome_came_while_the_event_loop_was_busy(server: ModelServer, end: str) -> None:
    async def main() -> None:
        called = list[Any]()
        async with producer_of(server) as producer:

            async def send() -> None:
                await producer.send("t", b"v", on_delivery=called.append)
                session = inspect(producer).session
                until(session.settled(session.begin_flush()))  # blocks the event loop

            if end == "scope":
                async with producer.delivery_scope():
                    await send()
            else:
                await send()
                await (producer.flush() if end == "flush" else producer.close())
            assert len(called) == 1

    run(main())


def test_a_callback_that_raises_is_reported_to_the_event_loop_and_stops_nothing(server: ModelServer) -> None:
    async def main() -> None:
        told, called = list[str](), list[int]()

        def fails(_: Any) -> None:
            raise ValueError("of the application")

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
        async with producer_of(server) as producer:
            await producer.send("t", b"v", partition=0, on_delivery=fails)
            await producer.send("t", b"v", partition=0, on_delivery=lambda _: called.append(1))
            await eventually(lambda: bool(called))
        assert told == ["of the application"]

    run(main())


def test_a_send_waits_for_room_while_other_tasks_and_partitions_go_on(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, **ROOM)
        await full(server, producer)
        waiting = asyncio.ensure_future(producer.send("t", b"v" * 500, partition=0))
        await (await producer.send("t", b"other", partition=1))
        assert not waiting.done()
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await (await waiting)
        await producer.close()
        assert inspect(producer).blocked_sends == 0

    run(main())


def test_who_waits_is_served_first_come_first_served(server: ModelServer) -> None:
    async def main() -> None:
        producer, order = producer_of(server, **ROOM), list[int]()
        await full(server, producer)

        async def send(number: int) -> None:
            await producer.send("t", b"%03d" % number + b"v" * 500, partition=0)
            order.append(number)

        tasks = [asyncio.ensure_future(send(number)) for number in range(60)]
        await asyncio.sleep(0)
        assert order == []
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await asyncio.gather(*tasks)
        assert order == list(range(60))
        await producer.close()

    run(main())
    numbered = [int(value[:3]) for value in values(server) if len(value) == 503]
    assert numbered == list(range(60))


def test_without_room_in_time_it_raises(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, **ROOM, max_block_ms=50)
        held = await full(server, producer)
        with pytest.raises(BufferFull, match=r"t-0 needs .* no room within max_block_ms=50"):
            await producer.send("t", b"v" * 500, partition=0)
        assert producer.stats().accepted == len(held) + 1
        assert len(await producer.close(0)) == len(held)

    run(main())


def test_a_cancelled_send_was_not_accepted_and_a_cancelled_wait_takes_nothing_back(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, **ROOM)
        held = await full(server, producer)
        before = producer.stats().accepted
        tasks = [asyncio.ensure_future(producer.send("t", b"cancelled" + b"v" * 500, partition=0)) for _ in range(5)]
        await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(awaited(held[0]))
        await asyncio.sleep(0)
        for task in (*tasks, waiting):
            task.cancel()
        await asyncio.wait([*tasks, waiting])
        assert all(task.cancelled() for task in (*tasks, waiting))
        assert producer.stats().accepted == before
        notes = [await noted(task) for task in (tasks[0], waiting)]
        assert notes[0].startswith("pykafka4: the record or batch was not accepted yet: ")
        assert notes[1].startswith("pykafka4: t-0: not acknowledged yet: t-0: no leader")
        assert inspect(producer).blocked_sends == 0
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await asyncio.gather(*held)
        await producer.close()

    run(main())
    assert not any(value.startswith(b"cancelled") for value in values(server))


async def noted(task: asyncio.Future[Any]) -> str:
    """The note of the CancelledError of `task`."""
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    return "".join(cancelled.value.__notes__)


def test_a_send_that_is_cancelled_when_room_comes_is_accepted_or_not_but_never_both(server: ModelServer) -> None:
    async def main() -> set[bytes]:
        producer = producer_of(server, **ROOM)
        await full(server, producer)
        names = [b"%03d" % number + b"v" * 500 for number in range(40)]
        tasks = [asyncio.ensure_future(producer.send("t", name, partition=0)) for name in names]
        await asyncio.sleep(0)
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks)
        await producer.close()
        return {name for name, task in zip(names, tasks, strict=True) if not task.cancelled()}

    accepted = run(main())
    assert {value for value in values(server) if len(value) == 503} == accepted


def test_a_partition_that_is_not_known_yet_is_looked_up_without_blocking(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            await (await producer.send("t", b"v", partition=0))
            server.do(lambda cluster: cluster.add_partitions("t", 5))
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            beside = asyncio.ensure_future(others())
            assert (await (await producer.send("t", b"v", partition=4))).partition == 4
            assert turns > 1
            with pytest.raises(ValueError, match="partition=99, but the highest partition of the topic is 4"):
                await producer.send("t", b"v", partition=99)
            beside.cancel()

    run(main())


def test_each_run_may_have_its_own_event_loop_but_two_at_once_are_refused(server: ModelServer) -> None:
    producer = producer_of(server)

    async def once() -> None:
        await (await producer.send("t", b"v"))

    async def elsewhere() -> None:
        await once()
        loop = asyncio.new_event_loop()
        foreign = producer.send("t", b"v")
        try:
            with pytest.raises(RuntimeError, match="used on another event loop"):
                await asyncio.to_thread(loop.run_until_complete, foreign)
        finally:
            loop.close()
        await producer.close()

    run(once())
    run(elsewhere())
    assert len(values(server)) == 2


def test_a_loop_that_closes_with_records_outstanding_warns_and_they_are_delivered(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server, linger_ms=200)
        for number in range(10):
            await producer.send("t", b"%d" % number)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(main())
        gc.collect()
        until(lambda: len(values(server)) == 10)
        until(lambda: any(issubclass(warning.category, ResourceWarning) and "not closed" in str(warning.message) for warning in caught))


def test_a_cancelled_close_is_finished_by_the_next(server: ModelServer) -> None:
    async def main() -> None:
        producer = producer_of(server)
        await (await producer.send("t", b"v", partition=1))
        server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
        await producer.send("t", b"stuck", partition=0)
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(ClosedError):
            await producer.send("t", b"late")
        server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
        assert await producer.close() == []

    run(main())
    assert sorted(values(server)) == [b"stuck", b"v"]


def test_the_tasks_of_a_batch_are_woken_with_one_call(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        loop, calls = asyncio.get_running_loop(), 0
        original = loop.call_soon_threadsafe

        def counted(*args: Any, **how: Any) -> Any:
            nonlocal calls
            calls += 1
            return original(*args, **how)

        async with producer_of(server, linger_ms=50) as producer:
            await (await producer.send("t", b"v", partition=0))
            deliveries = [await producer.send("t", b"v", partition=0) for _ in range(500)]
            monkeypatch.setattr(type(loop), "call_soon_threadsafe", lambda self, *args, **how: counted(*args, **how))
            await asyncio.gather(*(awaited(delivery) for delivery in deliveries))
            monkeypatch.undo()
        return calls

    monkeypatch.setattr("pykafka4.producer.deliveries._never_blocks", lambda loop: True)
    assert run(main()) < 50


async def awaited(delivery: Awaitable[Any]) -> Any:
    return await delivery


def test_it_is_an_asynchronous_context_manager_that_names_what_is_missing(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server) as producer:
            assert isinstance(producer, AbstractAsyncContextManager)
            with pytest.raises(AttributeError, match="send"):
                producer.produce  # type: ignore[attr-defined]  # noqa: B018

    run(main())


def test_a_partition_that_brokers_deny_for_a_while_is_refused_and_then_at_once(server: ModelServer) -> None:
    async def main() -> None:
        async with producer_of(server, linger_ms=0, retry_backoff_ms=1, max_block_ms=4_000) as producer:
            await (await producer.send("t", b"v", partition=0))
            took = []
            for partition in (7, 7, 8):
                began = time.monotonic()
                with pytest.raises(ValueError, match="but the highest partition of the topic is 2"):
                    await producer.send("t", b"v", partition=partition)
                took.append(time.monotonic() - began)
            assert took[0] >= MISSING_PARTITION_S
            assert max(took[1:]) < MISSING_PARTITION_S

    run(main())


def test_close_timeout_ms_limits_the_end_of_a_block(server: ModelServer) -> None:
    async def main() -> None:
        consumer = aio.Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", close_timeout_ms=100)
        async with consumer:
            consumer.subscribe(["t"])
            await eventually_assigned(consumer)
            with pytest.raises(DeliveryFailed):
                async with producer_of(server, close_timeout_ms=100) as producer:
                    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
                    await producer.send("t", b"v")

    async def eventually_assigned(consumer: aio.Consumer) -> None:
        while not consumer.assignment():
            await consumer.poll(0.05)

    began = time.monotonic()
    run(main())
    assert time.monotonic() - began < 5, "it takes 120 s and 10 s by default"


def test_a_time_out_around_a_block_names_the_number_of_open_records(server: ModelServer) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.3), producer_of(server) as producer:
                server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
                for _ in range(3):
                    await producer.send("t", b"v")
        assert "records not delivered yet: 3" in "".join(traceback.format_exception(raised.value))
        await producer.close(0)

    run(main())
