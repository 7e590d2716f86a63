"""The consumer for asyncio on real brokers, in cooperative groups and in those of KIP-848: members come and go, calls are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Any

import pytest

from integration.cluster import Cluster
from pykafka4 import Consumer, Record, TopicPartition, aio
from tests.integration.reading import GROUP, LONG_S

pytestmark = pytest.mark.cluster
PARTITIONS, COUNT = 6, 500  # records of each partition

PROTOCOLS = pytest.mark.parametrize(
    "options",
    [{**GROUP, "partition_assignment_strategy": ["cooperative-sticky"]}, {"group_protocol": "consumer", "auto_offset_reset": "earliest"}],
    ids=["cooperative", "consumer"],
)


async def fill(cluster: Cluster, topic: str) -> None:
    async with aio.Producer(**cluster.client) as producer:
        for n in range(PARTITIONS * COUNT):
            await producer.send(topic, b"%d" % n, key=b"%d" % (n % 60), partition=n % PARTITIONS)


def committed(cluster: Cluster, topic: str) -> dict[int, int]:
    with Consumer(**cluster.client, group_id=topic) as consumer:
        found = consumer.committed([(topic, p) for p in range(PARTITIONS)], LONG_S)
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


class Commits:
    """A listener of coroutines: it commits what was read of partitions that go."""

    def __init__(self, consumer: aio.Consumer) -> None:
        self.consumer = consumer
        self.reached: dict[TopicPartition, int] = {}
        self.owned: set[TopicPartition] = set()
        self.lost = 0

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.001)
        assert not self.owned & set(partitions), "only what is new is told"
        self.owned |= set(partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.001)
        self.owned -= set(partitions)
        await self.consumer.commit({tp: self.reached[tp] for tp in partitions if tp in self.reached})

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.owned -= set(partitions)
        self.lost += 1


@PROTOCOLS
def test_cancelled_polls_and_members_that_come_and_go_skip_and_repeat_nothing(
    cluster: Cluster, topic: str, options: dict[str, Any]
) -> None:
    cluster.create_topic(topic, PARTITIONS)
    done: list[tuple[int, int]] = []
    lost = 0

    async def member(count: int) -> None:
        """Until all members together have read so many; most of its polls are cancelled."""
        nonlocal lost
        drawn = random.Random(count)
        async with aio.Consumer(**cluster.client, **options, group_id=topic, enable_auto_commit=False, max_poll_records=20) as consumer:
            listener = Commits(consumer)
            consumer.subscribe([topic], listener)
            while len(done) < count:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(drawn.choice((0.0, 0.005, 0.05))):
                        for record in await consumer.poll(None):
                            done.append((record.partition, record.offset))
                            listener.reached[TopicPartition(record.topic, record.partition)] = record.offset + 1
                await asyncio.sleep(0.005)
            lost += listener.lost

    async def main() -> None:
        await fill(cluster, topic)
        async with asyncio.TaskGroup() as members:
            members.create_task(member(PARTITIONS * COUNT))
            members.create_task(member(COUNT))
            await asyncio.sleep(0)
            members.create_task(member(2 * COUNT))
            members.create_task(member(PARTITIONS * COUNT))

    asyncio.run(asyncio.wait_for(main(), 2 * LONG_S))
    assert lost == 0
    assert sorted(done) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(COUNT)]
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), COUNT)


@PROTOCOLS
def test_process_that_is_cancelled_and_started_again_skips_nothing(cluster: Cluster, topic: str, options: dict[str, Any]) -> None:
    cluster.create_topic(topic, PARTITIONS)
    finished: list[tuple[int, int, bytes | None]] = []
    in_hand: dict[bytes | None, int] = {}
    worst, cut_short = 0, set[tuple[int, int]]()

    async def main() -> None:
        stop = asyncio.Event()

        async def handle(record: Record, mine: list[Record]) -> None:
            nonlocal worst
            in_hand[record.key] = in_hand.get(record.key, 0) + 1
            worst = max(worst, in_hand[record.key])
            mine.append(record)
            try:
                # Until one was cancelled, a member alone has work for longer than the others need to join.
                await asyncio.sleep(0.002 if cut_short else 0.03)
                finished.append((record.partition, record.offset, record.key))
            except asyncio.CancelledError:
                cut_short.add((record.partition, record.offset))
                raise
            finally:
                in_hand[record.key] -= 1
                mine.remove(record)
            if len({place[:2] for place in finished}) == PARTITIONS * COUNT:
                stop.set()

        async def member(drawn: random.Random, cancels: int) -> None:
            mine: list[Record] = []
            async with aio.Consumer(**cluster.client, **options, group_id=topic, enable_auto_commit=False, max_poll_records=50) as consumer:
                consumer.subscribe([topic])
                for _ in range(cancels):
                    run = asyncio.ensure_future(consumer.process(lambda record: handle(record, mine), workers=20, stop=stop))
                    later = time.monotonic() + drawn.uniform(0.0, 0.5)
                    while not run.done() and (not mine or time.monotonic() < later):  # until it has records in hand
                        await asyncio.sleep(0.001)
                    run.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await run
                await consumer.process(lambda record: handle(record, mine), workers=20, stop=stop)

        await fill(cluster, topic)
        async with asyncio.TaskGroup() as members:
            for number in range(3):
                members.create_task(member(random.Random(number), number * 2))

    asyncio.run(asyncio.wait_for(main(), 2 * LONG_S))
    seen = [(partition, offset) for partition, offset, _ in finished]
    assert set(seen) == {(partition, offset) for partition in range(PARTITIONS) for offset in range(COUNT)}
    assert worst == 1, "records of one key were handled at the same time"
    assert cut_short, "no handler was cancelled"
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), COUNT)
