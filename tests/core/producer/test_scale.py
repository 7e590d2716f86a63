"""Work counted in bytecodes, not in time: it grows with what happens, not with the topics and partitions that there are."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
from collections.abc import Callable
from random import Random
from time import thread_time
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from pykafka4.client.status import SLICE_ROWS
from pykafka4.core.metadata.recovery import Offline
from pykafka4.core.producer.outcomes import ledger as ledger_module
from pykafka4.core.producer.outcomes.ledger import WaitingBatches, take_census
from pykafka4.core.producer.partition_status import show
from pykafka4.core.producer.sender import Sender
from pykafka4.errors import KafkaError
from pykafka4.options.config import ProducerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_produce import ProduceRequest, ProduceResponse
from pykafka4.wire.protocol.messages_txn import InitProducerIdResponse
from pykafka4.wire.records.hot import Accumulator
from tests.core.counting import bytecodes
from tests.core.producer.sender_harness import SenderHarness
from tests.core.scripted_brokers import World, metadata

FEW, MANY = 10, 100  # topics
PARTITIONS = 3  # of each, led by brokers 1 to 3


class Answering(World):
    """Brokers that acknowledge whatever they are sent."""

    def _take(self, link: int, header: Any, message: Any) -> None:
        super()._take(link, header, message)
        others, self.others = self.others, []
        for _, _, other in others:
            self.answer(link, header, acknowledged(other))


class Plant:
    """An engine with a producer, and so many topics."""

    def __init__(self, topics: int, partitions: int = PARTITIONS) -> None:
        self.world = Answering.make(retry_backoff_ms=100)
        self.engine = self.world.engine
        self.names = [f"topic-{n:04}" for n in range(topics)]
        self.partitions = partitions
        self.world.metadata = metadata(
            {name: (UUID(int=n + 1), [(p % 3 + 1, 5) for p in range(partitions)]) for n, name in enumerate(self.names)}
        )
        config = ProducerConfig.parse({"bootstrap_servers": "b1:9092", "linger_ms": 0})
        self.acc = Accumulator(
            batch_size=config.batch_size,
            linger=0.0,
            buffer_memory=config.buffer_memory,
            max_partition_bytes=config.partition_bytes,
            max_request_size=config.max_request_size,
            clock=lambda: self.world.now,
            wake=lambda: None,
            new_topic=lambda topic: self.sender.want(topic),
            make_room=lambda topic, partition, size, deadline: deadline,
            wait=lambda predicate, timeout: predicate(),
            submit=lambda fn: fn(),
            lock=contextlib.nullcontext(),
        )
        engine = self.engine
        self.sender = Sender(
            config,
            self.acc,
            engine.network,
            engine.cluster,
            engine.recovery,
            Random(1),
            cast("Any", SimpleNamespace(progress=lambda: None, refuse=lambda error: None, starved=False, set_refusal=lambda refusal: None)),
        )
        engine.add(self.sender, "producer")

    def send_to(self, topics: list[str]) -> None:
        """A record to each of their partitions, until all are acknowledged."""
        for topic in topics:
            for partition in range(self.partitions):
                self.acc.send(topic, b"v", partition=partition)
        self.settle()

    def settle(self) -> None:
        """Until everything that was sent is acknowledged."""
        for _ in range(100):
            self.world.run(0.01)
            if not self.sender._parking and not any(queue.batches for queue in self.sender.queues.values()):
                return
        raise AssertionError("not everything was acknowledged")

    def turn(self) -> None:
        self.engine.turn(self.world.now)

    # what can happen

    def nothing(self) -> None:
        """One more turn, in which there is nothing to do."""

    def hint(self) -> None:
        self.engine.cluster.hint(TopicPartition(self.names[1], 0), 2, 6)

    def answer(self) -> None:
        """Metadata of one topic, which has changed, is asked for and comes."""
        self.world.metadata = metadata({self.names[1]: (UUID(int=2), [(2, 6)] * PARTITIONS)})
        self.engine.cluster.refresh(self.world.now, [self.names[1]])
        self.world.run()

    def another_broker(self) -> None:
        """The answer about one topic names a broker that was not there before."""
        brokers = {node: (f"h{node}", node) for node in (1, 2, 3, 4)}
        self.world.metadata = metadata({self.names[1]: (UUID(int=2), [(2, 6)] * PARTITIONS)}, brokers)
        self.engine.cluster.refresh(self.world.now, [self.names[1]])
        self.world.run()

    def failure(self) -> None:
        """A partition goes offline and comes back."""
        self.engine.recovery.report(self.world.now, TopicPartition(self.names[1], 0), KafkaError("x"))
        self.world.run(0.5)


def acknowledged(message: Any) -> Any:
    if not isinstance(message, ProduceRequest):
        return InitProducerIdResponse(producer_id=42, producer_epoch=0)
    return ProduceResponse(
        responses=[
            ProduceResponse.Topic(
                name=topic.name or "",
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponse.Topic.Partition(index=p.index, error_code=0, base_offset=0, log_append_time_ms=-1)
                    for p in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


@pytest.fixture(scope="module")
def plants() -> tuple[Plant, Plant]:
    """One with few topics, one with ten times as many; all of them were sent to."""
    plants = Plant(FEW), Plant(MANY)
    for plant in plants:
        plant.send_to(plant.names)
    return plants


@pytest.mark.parametrize(
    "happens", [Plant.nothing, Plant.hint, Plant.answer, Plant.failure, Plant.another_broker], ids=lambda happens: happens.__name__
)
def test_what_happens_to_one_topic_costs_no_more_among_many(plants: tuple[Plant, Plant], happens: Callable[[Plant], None]) -> None:
    costs = []
    for plant in plants:
        plant.world.run(5.0)

        def act(plant: Plant = plant) -> None:
            happens(plant)
            plant.turn()

        costs.append(bytecodes(act))
    assert costs[1] <= costs[0] + 2 * MANY, "bytecodes among few topics, and among many"


def test_idle_partitions_add_no_cost_to_a_turn(plants: tuple[Plant, Plant]) -> None:
    for plant in plants:
        plant.world.run(5.0)
    few, many = (bytecodes(plant.turn) for plant in plants)
    assert many == few


def test_a_partition_takes_little_memory_and_gives_it_back_when_nothing_is_sent_to_it() -> None:
    plant = Plant(20, partitions=10)
    tracemalloc.start(1)
    try:
        for _ in range(2):  # the first time tables grow, and messages are compiled
            before = allocated(plant)
            plant.send_to(plant.names)
            plant.world.run(150.0)  # delivery_timeout_ms is over
            used = allocated(plant) - before
            plant.world.run(700.0)  # so is metadata_max_idle_ms
            left = allocated(plant) - before
    finally:
        tracemalloc.stop()
    assert 200 < used / (20 * 10) < 2_048
    assert not plant.sender.queues
    assert left < used / 20


def allocated(plant: Plant) -> int:
    """Bytes of Python objects, but for what the test's brokers remember."""
    plant.world.asked.clear()
    plant.world.events.clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def waiting(topics: int) -> tuple[SenderHarness, list[TopicPartition]]:
    """A record waits in both partitions of each topic, as no broker is connected; and the partitions whose leader is asked for."""
    harness, asked = SenderHarness(), list[TopicPartition]()
    harness.network.up.clear()
    harness.network.down_at = harness.now  # too recently to be reported
    names = [f"topic-{n:02}" for n in range(topics)]
    harness.recovery.leaders = {TopicPartition(name, partition): partition + 1 for name in names for partition in (0, 1)}
    for tp in harness.recovery.leaders:
        harness.acc.send(tp.topic, b"v", partition=tp.partition)
    harness.settle()
    leader = harness.recovery.leader

    def noted(tp: TopicPartition) -> Any:
        asked.append(tp)
        return leader(tp)

    harness.recovery.leader = noted  # type: ignore[method-assign]
    return harness, asked


def test_when_a_topic_changes_only_its_own_queues_are_looked_at() -> None:
    harness, asked = waiting(20)
    harness.cluster.change("topic-07")
    harness.poll()
    assert asked == [TopicPartition("topic-07", 0), TopicPartition("topic-07", 1)]
    harness.poll()
    assert len(asked) == 2


def test_when_a_partition_comes_back_only_its_own_queue_is_looked_at() -> None:
    harness, asked = waiting(20)
    back = TopicPartition("topic-07", 1)
    harness.recovery.on_online[0](back)
    harness.recovery.on_online[0](TopicPartition("somebody else's", 1))
    harness.poll()
    assert asked == [back]


def test_topics_that_wait_for_their_metadata_are_looked_at_when_their_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SenderHarness(unknown_topic_timeout_ms=5_000)
    names = [f"unknown-{n:02}" for n in range(20)]
    harness.cluster.hidden.update(names)
    for name in names:
        harness.acc.send(name, b"v")
    harness.poll()
    looked: list[str] = []
    parking: Any = harness.sender._parking
    look = type(parking)._look
    monkeypatch.setattr(type(parking), "_look", lambda self, topic, now: looked.append(topic) or look(self, topic, now))
    harness.poll(1.0)
    assert looked == []
    harness.cluster.hidden.discard("unknown-07")
    harness.cluster.change("unknown-07")
    harness.poll()
    assert looked == ["unknown-07"]
    harness.poll(4.0)
    assert looked[1:] == [name for name in names if name != "unknown-07"]
    assert not harness.sender._parking


def test_what_is_collected_for_a_producer_ends_with_it() -> None:
    harness = SenderHarness().proven()
    harness.sender.dispose()
    harness.sender.dispose()
    assert not harness.cluster.on_change
    assert not harness.recovery.on_online


BUSY = 10_000  # partitions, each with a record that waits


@pytest.fixture(scope="module")
def busy() -> Plant:
    """A producer that has sent to thousands of partitions, and has a record waiting in each."""
    plant = Plant(10, partitions=BUSY // 10)
    plant.send_to(plant.names)
    for topic in plant.names:
        for partition in range(plant.partitions):
            plant.acc.send(topic, b"v", partition=partition)
    return plant


def cost(act: Callable[[], object]) -> float:
    """CPU milliseconds, the least of several times: other processes disturb."""

    def once() -> float:
        began = thread_time()
        act()
        return (thread_time() - began) * 1000

    return min(once() for _ in range(7))


def test_stats_of_many_partitions_hold_the_loop_for_a_moment_only(busy: Plant) -> None:
    ledger = busy.sender.ledger
    assert cost(lambda: ledger.snapshot(take_census(busy.acc), 0)) < (5.0 if is_compiled() else 15.0)
    snapshot = ledger.snapshot(take_census(busy.acc), 0)
    assert len(snapshot.stats().partitions) == BUSY

    def look() -> None:
        stats = snapshot.stats()
        assert (sum(counts.queued for counts in stats.partitions.values()), len(stats.topics)) == (BUSY, 10)

    assert cost(look) < (50.0 if is_compiled() else 100.0)
    assert bytecodes(snapshot.stats) < 20 * BUSY, "the totals alone"


def test_a_look_at_many_partitions_leaves_the_loop_nothing_for_the_garbage_collector(busy: Plant) -> None:
    """A full collection of a large heap holds the loop longer than the look itself."""
    queues, partition_status, ledger = list(busy.sender.queues.values()), busy.sender.partition_status, busy.sender.ledger
    for queue in queues:
        busy.engine.recovery.offline[queue.tp] = Offline(0.0, KafkaError("why"), 1, None, 0.0)
    try:
        for look in (lambda: partition_status.look(queues, 0.0), lambda: ledger.snapshot(take_census(busy.acc), 0)):
            gc.collect()
            gc.disable()
            try:
                before = len(gc.get_objects(0))
                kept = look()
                made = len(gc.get_objects(0)) - before
            finally:
                gc.enable()
            assert kept
            assert made < 100
    finally:
        busy.engine.recovery.offline.clear()


def test_status_of_many_partitions_takes_little_time_in_all_and_less_at_once(busy: Plant) -> None:
    queues, partition_status = list(busy.sender.queues.values()), busy.sender.partition_status
    now, census = busy.world.now, take_census(busy.acc)
    assert cost(lambda: partition_status.look(queues[:SLICE_ROWS], now)) < 5.0
    found = partition_status.look(queues, now)
    assert len(show(now, found, census)) == BUSY
    assert cost(lambda: show(now, found, census)) < 50.0


def test_a_census_is_that_of_the_accumulator(busy: Plant) -> None:
    accepted, batches, parked = take_census(busy.acc)
    exact = busy.acc.census()
    assert (accepted, sorted_rows(batches), parked) == (exact[0], sorted_rows(exact[1]), exact[2])


def test_a_record_that_is_sent_during_the_census_is_in_it_or_not_at_all(busy: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look finds another number of accepted records than before, and is made again."""
    acc, sent = busy.acc, []

    class Disturbed(WaitingBatches):
        def __init__(self, batches: list[Any]) -> None:
            if not sent:
                sent.append(acc.send(busy.names[0], b"v", partition=0))
            super().__init__(batches)

    monkeypatch.setattr(ledger_module, "WaitingBatches", Disturbed)
    accepted, batches, _ = take_census(acc)
    assert accepted - acc.acked == sum(records for _, records, _ in batches)


def sorted_rows(batches: Any) -> list[tuple[str, int, int, bool]]:
    return sorted((batch.topic, batch.partition, records, flying) for batch, records, flying in batches)


def is_compiled() -> bool:
    return Accumulator.__module__.endswith("_hot")
