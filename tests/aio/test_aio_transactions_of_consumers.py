"""Transactions with a consumer, for asyncio: what was read is committed with what was written, or it is read again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import ConfigError, Consumer, KafkaError, KafkaTimeoutError, Producer, TransactionAborted
from pykafka4 import aio as package
from pykafka4.testing import ModelServer
from tests.aio.tasking import cancelled, consumer_of, every_wait, producer_of, run
from tests.net.net_helpers import SECONDS
from tests.producer.producing import written

IN = ("in", 0)


@pytest.fixture(params=["4.4", "3.9"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """One broker of a release with transaction.version 2, or 1; topic `in` with ten records in one partition, and topic `out`."""
    with ModelServer(brokers=1, release=request.param) as server:
        server.create_topic("in", 1)
        server.create_topic("out", 1)
        server.produce("in", *(b"%d" % n for n in range(10)), partition=0)
        yield server


def reading(server: ModelServer, **options: Any) -> package.Consumer:
    consumer = consumer_of(server, **{"group_id": "g", "isolation_level": "read_committed", "enable_auto_commit": False, **options})
    consumer.subscribe(["in"])
    return consumer


async def writing(server: ModelServer, **options: Any) -> package.Producer:
    producer = producer_of(server, **{"transactional_id": "copy", "linger_ms": 0, "retry_backoff_ms": 10, **options})
    await producer.init_transactions()
    return producer


async def take(consumer: package.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += [record.value or b"" for record in await consumer.poll(0.05, count - len(found))]
    return found


async def copy(producer: package.Producer, consumer: package.Consumer, count: int, timeout: float = SECONDS, least: int = 1) -> None:
    """The next records, in a transaction: `count`, or none if `least` is 0. All others were copied before."""
    values = [record.value for record in await consumer.poll(timeout, count)]  # one poll: what it returns is part of the transaction
    assert len(values) == count or len(values) == least == 0
    async with producer.transaction(consumer):
        await producer.send_many("out", values)


def test_records_are_copied_exactly_once_and_read_again_after_an_abort(server: ModelServer) -> None:
    async def main() -> None:
        async with await writing(server) as producer, reading(server) as consumer:
            await copy(producer, consumer, 4)
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(consumer):
                    await producer.send_many("out", await take(consumer, 3))
                    raise ZeroDivisionError
            await copy(producer, consumer, 6)

    run(main())
    assert written(server) == [b"%d" % n for n in range(10)]
    assert server.committed("g") == {IN: 10}


def test_records_are_copied_exactly_once_wherever_a_transaction_is_cancelled(server: ModelServer) -> None:
    async def main() -> None:
        producer = await writing(server)
        async with reading(server) as consumer:
            copied = 0
            for at, when in every_wait():
                values = [b"%d" % n for n in range(copied, copied + 2)]
                if copied >= 10:
                    server.produce("in", *values, partition=0)
                reached, _ = await cancelled(copy(producer, consumer, 2), at, when)
                for call in (producer.commit_transaction, producer.abort_transaction):  # the one whose outcome is not known
                    with contextlib.suppress(KafkaError):
                        await call()
                copied += 2
                while written(server) != [b"%d" % n for n in range(copied)]:
                    # Nothing is polled while a marker is on its way, or if a beginning was cancelled: the next one goes back.
                    with contextlib.suppress(TransactionAborted):  # poll first: the consumer has gone back
                        await copy(producer, consumer, 2, 0.2, least=0)
                assert (await consumer.committed(IN)).offset == copied, (at, when)  # type: ignore[union-attr]
                if not reached and at > 5:
                    break
        assert await producer.close() == []

    run(main())


def test_records_of_a_commit_that_timed_out_after_a_seek_and_succeeds_are_not_read_again(server: ModelServer) -> None:
    async def main() -> None:
        async with await writing(server, retry_backoff_ms=150) as producer, reading(server) as consumer:
            await copy(producer, consumer, 5)
            consumer.seek(IN, 5)
            values = await take(consumer, 3)
            server.fail("Produce", "REQUEST_TIMED_OUT", topic="out", times=4)
            with pytest.raises(KafkaTimeoutError):
                async with producer.transaction(consumer, timeout=0.3):
                    await producer.send_many("out", values)
            await producer.commit_transaction()
            await copy(producer, consumer, 2)

    run(main())
    assert written(server) == [b"%d" % n for n in range(10)]


def test_offsets_can_be_stored_by_hand(server: ModelServer) -> None:
    async def main() -> None:
        async with await writing(server) as producer, reading(server) as consumer:
            await take(consumer, 4)
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({IN: 4}, consumer.group_metadata())
            await producer.commit_transaction()

    run(main())
    assert server.committed("g") == {IN: 4}


def test_the_wrong_kind_of_consumer_or_producer_is_refused(server: ModelServer) -> None:
    async def main() -> None:
        async with await writing(server) as producer:
            plain = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", enable_auto_commit=False)
            with pytest.raises(ConfigError, match=r"a pykafka4\.Consumer would block the event loop; use a pykafka4\.aio\.Consumer"):
                producer.transaction(plain)  # type: ignore[arg-type]
            plain.close()
            with pytest.raises(TypeError, match=r"consumer must be an aio\.Consumer, not 5"):
                producer.transaction(5)  # type: ignore[arg-type]
            async with reading(server, enable_auto_commit=True) as consumer:
                with pytest.raises(ConfigError, match="the consumer commits by itself"):
                    producer.transaction(consumer)
                plain_producer = Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="plain")
                with pytest.raises(ConfigError, match=r"use it with pykafka4\.aio\.Producer, or pykafka4\.Consumer here"):
                    plain_producer.transaction(consumer)  # type: ignore[arg-type]
                plain_producer.close()

    run(main())


def test_a_transaction_is_refused_while_another_task_polls(server: ModelServer) -> None:
    async def main() -> None:
        async with await writing(server) as producer, reading(server) as consumer:
            await take(consumer, 10)
            polling = asyncio.create_task(consumer.poll(None), name="other")
            await asyncio.sleep(0.01)
            with pytest.raises(KafkaError, match="called transaction while task 'other' is in poll"):
                async with producer.transaction(consumer):
                    pass
            consumer.wakeup()
            assert await polling == []
            with pytest.raises(TransactionAborted, match="poll reads them again"):  # what was read for the one that could not begin
                async with producer.transaction(consumer):
                    pass
            await copy(producer, consumer, 10)

    run(main())
    assert (written(server), server.committed("g")) == ([b"%d" % n for n in range(10)], {IN: 10})


def test_process_is_refused_inside_a_transaction(server: ModelServer) -> None:
    """It commits by itself, also what the transaction aborts."""

    async def main() -> None:
        async with await writing(server) as producer, reading(server) as consumer:
            with pytest.raises(ConfigError, match="process: a transaction with this consumer is open"):
                async with producer.transaction(consumer):
                    await consumer.process(print)

    run(main())
    assert server.committed("g") == {}
