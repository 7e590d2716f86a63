"""Cooperative groups and static members on real brokers: what is read without a pause, the upgrade from eager, other clients."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import attrs
import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, GroupError, Producer, TopicPartition
from tests.integration.reading import GROUP, LONG_S, SECONDS, followers, poll_until, produce, send

pytestmark = pytest.mark.cluster

COOPERATIVE = ["cooperative-sticky"]
PAUSE_S = 1.0  # seconds for which a partition that does not move may stand still
EACH_S = 0.02  # seconds between two records of a partition


@attrs.define(eq=False)
class Worker:
    """A member that polls on a thread of its own, and notes what it is told and handed."""

    cluster: Cluster
    topic: str
    strategies: list[str]
    options: dict[str, Any] = attrs.Factory(dict)
    owned: dict[int, float] = attrs.Factory(dict)  # partition: since when
    calls: list[tuple[str, list[int]]] = attrs.Factory(list)
    got: list[tuple[int, int, int]] = attrs.Factory(list)  # partition, offset, value
    longest: float = 0.0  # the longest pause of a partition that stayed
    errors: list[BaseException] = attrs.Factory(list)
    _seen: dict[int, float] = attrs.Factory(dict)
    _stop: threading.Event = attrs.Factory(threading.Event)
    _thread: threading.Thread | None = None
    consumer: Consumer | None = None
    polls: int = 0

    def start(self) -> Worker:
        """Join."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave: what was handed out is finished."""
        self._stop.set()
        assert self._thread is not None
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        assert not self.errors

    def _run(self) -> None:
        try:
            options = {**GROUP, "group_id": self.topic, "auto_commit_interval_ms": 100, **self.options}
            with Consumer(**self.cluster.client, **options, partition_assignment_strategy=self.strategies) as consumer:
                self.consumer = consumer
                consumer.subscribe([self.topic], self)
                while not self._stop.is_set():
                    self._take(consumer.poll(0.05))
                    self.polls += 1
        except BaseException as error:
            self.errors.append(error)

    def _take(self, records: Iterable[Any]) -> None:
        now = time.monotonic()
        for record in records:
            self.got.append((record.partition, record.offset, int(record.value)))
            since = self._seen.get(record.partition)
            if since is not None:
                self.longest = max(self.longest, now - since)
            self._seen[record.partition] = now

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(tp.partition for tp in partitions)))
        for tp in partitions:
            self.owned[tp.partition] = time.monotonic()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(tp.partition for tp in partitions)))
        for tp in partitions:
            del self.owned[tp.partition]
            self._seen.pop(tp.partition, None)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(tp.partition for tp in partitions)))
        for tp in partitions:
            self.owned.pop(tp.partition, None)
            self._seen.pop(tp.partition, None)


@attrs.define(eq=False)
class Load:
    """Records for every partition, one each `EACH_S` seconds, until `stop`."""

    cluster: Cluster
    topic: str
    partitions: int
    sent: int = 0
    _stop: threading.Event = attrs.Factory(threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> Load:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(LONG_S)

    def _run(self) -> None:
        with Producer(**self.cluster.client, linger_ms=0) as producer:
            while not self._stop.wait(EACH_S):
                for partition in range(self.partitions):
                    send(producer, self.topic, [self.sent], partition)
                    self.sent += 1


def shared(workers: Iterable[Worker], partitions: int, least: int) -> Callable[[], bool]:
    """Whether each partition has one owner, and every member at least `least`."""

    def check() -> bool:
        owned = [list(worker.owned) for worker in workers]
        assert not any(worker.errors for worker in workers), [worker.errors for worker in workers]
        return sorted(chain(*owned)) == list(range(partitions)) and all(len(mine) >= least for mine in owned)

    return check


def assert_each_once(workers: Iterable[Worker], load: Load) -> None:
    """Members that end as they should have nothing read again, and nothing left out."""
    workers = list(workers)
    until(lambda: len(values_of(workers)) == load.sent, LONG_S, "every record to be read")
    counts = Counter(value for worker in workers for _, _, value in worker.got)
    assert sorted(counts) == list(range(load.sent))
    assert {value: n for value, n in counts.items() if n > 1} == {}


@pytest.mark.main_job
def test_partitions_that_stay_are_read_without_a_pause_while_members_come_and_go(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6)
    load = Load(cluster, topic, 6).start()
    alone = Worker(cluster, topic, COOPERATIVE, {"group_id": f"{topic}-alone"}).start()  # what it waits for is not a rebalance's fault
    stays = Worker(cluster, topic, COOPERATIVE).start()
    others: list[Worker] = []
    try:
        until(shared([stays], 6, 6), LONG_S, "the first member to have everything")
        for _ in range(3):
            others.append(Worker(cluster, topic, COOPERATIVE).start())
            until(shared([stays, others[-1]], 6, 3), LONG_S, "the newcomer to have its share")
            others[-1].stop()
            until(shared([stays], 6, 6), LONG_S, "the first member to have everything again")
        kept = set(range(6)) - {p for what, tps in stays.calls if what == "revoked" for p in tps}
        assert len(kept) == 3, stays.calls
        assert not [tps for what, tps in stays.calls if what == "lost"]
        assert all(len(tps) in (0, 3) for what, tps in stays.calls if what == "revoked")
        load.stop()
        assert_each_once([stays, *others], load)
        assert stays.longest < PAUSE_S + alone.longest, (
            f"a partition that stayed stood still for {stays.longest:.3f} s; alone {alone.longest:.3f}"
        )
    finally:
        load.stop()
        for worker in [alone, stays, *others]:
            if not worker._stop.is_set():
                worker.stop()


def test_a_group_is_upgraded_from_eager_to_cooperative_under_load(cluster: Cluster, topic: str) -> None:
    """First every member gets the new assignor beside the old one, then the old one is taken away; one member at a time."""
    cluster.create_topic(topic, 6)
    load = Load(cluster, topic, 6).start()
    workers = [Worker(cluster, topic, ["range"]).start() for _ in range(2)]
    everybody = list(workers)
    try:
        until(shared(workers, 6, 3), LONG_S, "both members to have their share")
        for strategies in (["cooperative-sticky", "range"], COOPERATIVE):
            for place in range(2):
                workers[place].stop()
                workers[place] = Worker(cluster, topic, strategies).start()
                everybody.append(workers[place])
                until(shared(workers, 6, 3), LONG_S, f"both members to have their share, the new one with {strategies}")
        before = len(workers[1].calls)
        workers[0].stop()
        until(shared(workers[1:], 6, 6), LONG_S, "the last member to have everything")
        assert all(what == "assigned" for what, tps in workers[1].calls[before:] if tps), "it kept what it had"
        load.stop()
        assert_each_once(everybody, load)
        assert not [call for worker in everybody for call in worker.calls if call[0] == "lost"]
    finally:
        load.stop()
        for worker in everybody:
            if not worker._stop.is_set():
                worker.stop()


def test_a_member_without_an_assignor_of_the_group_is_told_which_it_has_and_what_to_do(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    first = Worker(cluster, topic, ["range"]).start()
    try:
        until(shared([first], 2, 2), LONG_S, "the first member to have everything")
        with Consumer(**cluster.client, **GROUP, group_id=topic, partition_assignment_strategy=COOPERATIVE) as other:
            other.subscribe([topic])
            with pytest.raises(GroupError, match=r"INCONSISTENT_GROUP_PROTOCOL.*cooperative-sticky.*add the new one to all members"):
                poll_until(other, lambda: False)
    finally:
        first.stop()


# ---- static members


def generations(workers: Iterable[Worker]) -> list[int]:
    return [worker.consumer.status()["consumer"]["generation"] for worker in workers if worker.consumer is not None]


@pytest.mark.parametrize("strategies", [["range", "cooperative-sticky"], COOPERATIVE], ids=["eager", "cooperative"])
def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(
    cluster: Cluster, topic: str, strategies: list[str]
) -> None:
    cluster.create_topic(topic, 4)
    produce(cluster, topic, 0, 40)

    def worker(instance: str) -> Worker:
        options = {"group_instance_id": instance, "session_timeout_ms": 45_000}
        return Worker(cluster, topic, strategies, options).start()

    workers = [worker("a"), worker("b")]
    try:
        until(shared(workers, 4, 2), LONG_S, "both members to have their share")
        until(lambda: len(set(generations(workers))) == 1, LONG_S, "one generation")
        polls = [worker.polls for worker in workers]
        # The older member is told of the last generation, too, though it gets no partition.
        until(lambda: all(w.polls > at + 1 for w, at in zip(workers, polls, strict=True)), LONG_S, "listeners to be called")
        before = generations(workers)
        calls, mine = list(workers[1].calls), sorted(workers[0].owned)
        workers[0].stop()
        workers[0] = worker("a")
        until(lambda: sorted(workers[0].owned) == mine, LONG_S, "the same partitions")
        assert generations(workers) == before
        assert workers[1].calls == calls
    finally:
        for each in workers:
            each.stop()


def test_of_two_members_with_one_id_the_older_is_fenced_and_told_so(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    options = {**cluster.client, **GROUP, "group_id": topic, "group_instance_id": "worker-1"}
    with Consumer(**options) as older, Consumer(**options) as newer:
        older.subscribe([topic])
        poll_until(older, lambda: len(older.assignment()) == 2)
        newer.subscribe([topic])
        poll_until(newer, lambda: len(newer.assignment()) == 2)
        with pytest.raises(GroupError, match=r"FENCED_INSTANCE_ID.*group_instance_id='worker-1'.*an id of its own"):
            poll_until(older, lambda: False, SECONDS)
        newer.poll(0.5)
        assert len(newer.assignment()) == 2
        newer.commit({(topic, 0): 0})


# ---- members of other clients

CONFLUENT = """
import sys, threading
from confluent_kafka import Consumer
_, servers, topic = sys.argv
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
member = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 10000,
                   "partition.assignment.strategy": "cooperative-sticky"})
member.subscribe([topic])
while not stop.is_set():
    message = member.poll(0.1)
    if message is not None and message.error() is None:
        print(message.value().decode(), flush=True)
member.close()
"""
KAFKA_PYTHON = """
import sys, threading
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
_, servers, topic = sys.argv
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
member = KafkaConsumer(bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest", session_timeout_ms=10_000,
                       partition_assignment_strategy=[CooperativeStickyAssignor])
member.subscribe([topic])
while not stop.is_set():
    for records in member.poll(100).values():
        for record in records:
            print(record.value.decode(), flush=True)
member.close()
"""


@attrs.define(eq=False)
class Foreign:
    """A member of another client, in a process of its own. It leaves its group when its input ends."""

    process: subprocess.Popen[str]
    got: list[int] = attrs.Factory(list)

    def follow(self) -> None:
        """On a thread: note what it prints."""
        assert self.process.stdout is not None
        self.got.extend(int(line) for line in self.process.stdout)


@pytest.fixture
def foreign() -> Iterator[Callable[..., Foreign]]:
    """Starts members of other clients; none outlives the test."""
    with followers() as follow:

        def start(script: str, *arguments: str) -> Foreign:
            command = [sys.executable, "-c", script, *arguments]
            return follow(Foreign(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)))

        yield start


@pytest.mark.parametrize("script", [CONFLUENT, KAFKA_PYTHON], ids=["confluent-kafka", "kafka-python"])
def test_a_member_of_another_client_comes_and_goes_in_a_cooperative_group(
    cluster: Cluster, topic: str, foreign: Callable[..., Foreign], script: str
) -> None:
    cluster.create_topic(topic, 6)
    load = Load(cluster, topic, 6).start()
    alone = Worker(cluster, topic, COOPERATIVE, {"group_id": f"{topic}-alone"}).start()  # what it waits for is not a rebalance's fault
    ours = [Worker(cluster, topic, COOPERATIVE).start() for _ in range(2)]
    try:
        until(shared(ours, 6, 3), LONG_S, "our members to have their share")
        theirs = foreign(script, cluster.bootstrap, topic)
        until(lambda: len(theirs.got) > 50 and all(len(worker.owned) == 2 for worker in ours), LONG_S, "the other client to have its share")
        assert theirs.process.stdin is not None
        theirs.process.stdin.close()
        assert theirs.process.wait(LONG_S) == 0
        until(shared(ours, 6, 3), LONG_S, "our members to have everything again")
        load.stop()
        until(lambda: len(values_of(ours) | set(theirs.got)) == load.sent, LONG_S, "every record to be read")
        assert max(worker.longest for worker in ours) < PAUSE_S + alone.longest, [worker.longest for worker in [alone, *ours]]
        assert not [call for worker in ours for call in worker.calls if call[0] == "lost"]
    finally:
        load.stop()
        for worker in [alone, *ours]:
            worker.stop()


def values_of(workers: Iterable[Worker]) -> set[int]:
    return {value for worker in workers for _, _, value in worker.got}
