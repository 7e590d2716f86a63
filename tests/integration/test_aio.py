"""The producer for asyncio on real brokers: acknowledgements, back-pressure, transactions."""

from __future__ import annotations

import asyncio

import pytest
from reading import LONG

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import aio

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

    assert asyncio.run(asyncio.wait_for(main(), LONG)) > 0
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

    asyncio.run(asyncio.wait_for(main(), LONG))
    assert until(ended, LONG, "the markers of the transactions") == [b"%d.%d" % (number, n) for number in (0, 2) for n in range(10)]
