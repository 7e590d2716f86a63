"""The producer and the consumer for asyncio on real brokers: back-pressure, a group whose members come and go, transactions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import TopicPartition, aio
from tests.integration.reading import GROUP, LONG_S, SURVIVES

pytestmark = pytest.mark.cluster

COUNT = 2_000


def test_back_pressure_loses_nothing_and_other_tasks_go_on(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)

    async def main() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        async with aio.Producer(**cluster.client, buffer_memory=65_536, batch_size=16_384) as producer:
            waited = 0
            for n in range(COUNT):
                sending = asyncio.ensure_future(producer.send(topic, b"%d" % n + b" " * 500))
                before = turns
                last = await sending
                waited += turns > before + 2
            assert (await last).offset >= 0
        beside.cancel()
        return waited

    assert asyncio.run(asyncio.wait_for(main(), LONG_S)) > 0
    assert [int(record.value or b"") for record in cluster.log(topic)[0]] == list(range(COUNT))


def test_transactions_commit_and_abort(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)

    async def main() -> None:
        async with aio.Producer(**cluster.client, transactional_id=topic, linger_ms=0) as producer:
            await producer.init_transactions()
            for number in range(4):
                task = asyncio.ensure_future(transact(producer, number))
                await asyncio.wait([task])
                assert task.cancelled() == bool(number % 2)

    async def transact(producer: aio.Producer, number: int) -> None:
        async with producer.transaction():
            for delivery in await producer.send_many(topic, [b"%d.%d" % (number, n) for n in range(10)]):
                await delivery
            if number % 2:
                raise asyncio.CancelledError

    def ended() -> list[bytes | None] | None:
        seen = cluster.committed(topic)[0]
        return None if seen.open else [record.value for record in seen.records]

    asyncio.run(asyncio.wait_for(main(), LONG_S))
    assert until(ended, LONG_S, "the markers of the transactions") == [b"%d.%d" % (number, n) for number in (0, 2) for n in range(10)]


class Listener:
    """Commits by itself before partitions go."""

    def __init__(self) -> None:
        self.consumer: aio.Consumer
        self.told: list[str] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append("assigned")

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self.consumer.commit()
        self.told.append("revoked")


def test_members_come_and_go_a_leader_dies_and_every_record_is_processed_once(cluster: Cluster, topic: str) -> None:
    """Each member commits what it has processed in the listener, so nothing is read twice; polls are cancelled all the time."""
    cluster.create_topic(topic, 6)
    done: list[tuple[int, int]] = []

    async def member(count: int) -> None:
        """Reads until so many records were processed by all."""
        listener = Listener()
        async with aio.Consumer(**cluster.client, **SURVIVES, group_id=topic, enable_auto_commit=False, max_poll_records=50) as consumer:
            listener.consumer = consumer
            consumer.subscribe([topic], listener)
            while len(done) < count:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        done.extend((record.partition, record.offset) for record in await consumer.poll(None))
        assert listener.told == ["assigned", "revoked"] * (len(listener.told) // 2)

    async def main() -> None:
        async with aio.Producer(**cluster.client) as producer:
            for n in range(6 * COUNT):
                await producer.send(topic, b"%d" % n, partition=n % 6)
        async with asyncio.TaskGroup() as members:
            members.create_task(member(6 * COUNT))
            members.create_task(member(COUNT))
            members.create_task(member(2 * COUNT))
            dead = cluster.leader(topic, 0)
            await asyncio.to_thread(cluster.kill, dead)
            members.create_task(member(6 * COUNT))
        await asyncio.to_thread(cluster.start, dead)

    asyncio.run(asyncio.wait_for(main(), 2 * LONG_S))
    assert sorted(done) == [(partition, offset) for partition in range(6) for offset in range(COUNT)]


def test_records_are_copied_exactly_once_although_every_third_transaction_is_cancelled(cluster: Cluster, topic: str) -> None:
    out = f"{topic}-out"
    cluster.create_topic(topic, 1)
    cluster.create_topic(out, 1)

    async def transact(producer: aio.Producer, consumer: aio.Consumer, number: int) -> None:
        records = await consumer.poll(1.0, 50)
        async with producer.transaction(consumer):
            for delivery in await producer.send_many(out, [record.value for record in records]):
                await delivery
            if number % 3 == 2:
                raise asyncio.CancelledError

    async def main() -> None:
        async with aio.Producer(**cluster.client) as producer:
            await producer.send_many(topic, [b"%d" % n for n in range(COUNT)])
        reading = {"group_id": topic, "isolation_level": "read_committed", "enable_auto_commit": False}
        producer = aio.Producer(**cluster.client, transactional_id=topic, linger_ms=0)
        await producer.init_transactions()
        async with aio.Consumer(**cluster.client, **GROUP, **reading) as consumer:
            consumer.subscribe([topic])
            for number in itertools.count():
                task = asyncio.ensure_future(transact(producer, consumer, number))
                await asyncio.wait([task])
                assert task.cancelled() == (number % 3 == 2)
                place = await consumer.committed((topic, 0))
                if place is not None and place.offset == COUNT:
                    break
        await producer.close()

    asyncio.run(asyncio.wait_for(main(), LONG_S))

    def ended() -> list[bytes | None] | None:
        seen = cluster.committed(out)[0]
        return None if seen.open else [record.value for record in seen.records]

    assert until(ended, LONG_S, "the markers of the transactions") == [b"%d" % n for n in range(COUNT)]
