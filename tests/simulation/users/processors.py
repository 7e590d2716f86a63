"""Applications that have their records processed. Each is a process of its own, with `Consumer.process` or with `Consumer.streams`.

It tells the simulation when it begins with a record and when it has finished it, and nothing else.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Any, Final

from pykafka4 import Consumer, Producer
from pykafka4.consumer.processing.streams import Stream, Streams
from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Delivery, Record
from tests.simulation.world.virtual import Process, World
from tests.simulation.world.weather import VirtualTransport

__all__ = ["DEAD", "Processor"]

DEAD: Final = "dead"  # the topic of dead letters
CLOSE: Final = (0.0, 2.0)  # seconds that a close may take
DRAIN_S: Final = 2.0  # seconds for records in hand
COMMIT: Final = 10.0  # what a run that ends takes at most to commit, beside that


class WrongRecord(Exception):
    """What handlers raise."""


class Pool(Executor):
    """An executor in virtual time."""

    def __init__(self, world: World, workers: int, process: Process, name: str) -> None:
        self._tasks: deque[Callable[[], object]] = deque()
        self._changed, self.ended = system.Condition(), False
        for number in range(workers):
            world.spawn(self._work, f"{name} worker {number}", process)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **how: Any) -> Future[Any]:
        """Run it soon."""
        with self._changed:
            self._tasks.append(lambda: fn(*args, **how))
            self._changed.notify()
        return Future()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._tasks) or self.ended)
                if not self._tasks:
                    return
                task = self._tasks.popleft()
            task()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End its threads."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()


class Processor:
    """One process, from its start to its end."""

    def __init__(self, sim: Any, number: int, how: str) -> None:
        self.sim, self.how = sim, how
        self.id = f"p{number}"
        self.process = Process(self.id)
        self.transports: list[VirtualTransport] = []
        self.state = "starting"
        self.running: dict[Hashable, Record] = {}  # what is in hand, by lane
        self.polled: dict[TopicPartition, deque[int]] = {}  # from the first that is not finished on
        self.consumer: Consumer | None = None
        self.reached: dict[TopicPartition, int] = {}  # with an order by partition: the offset begun last since the assignment
        self.over = self._stop = False
        self.stopped_at = 0.0

    def begin(self) -> None:
        """Start."""
        self.sim.world.spawn(self._run, self.id, self.process)

    def is_set(self) -> bool:
        """Whether to stop: this is the event that `process` looks at."""
        if not self._stop and self.sim.drained():
            self.stop()
        return self._stop

    def stop(self) -> None:
        """Have it end what it is doing."""
        if not self._stop:
            self._stop, self.stopped_at = True, self.sim.timeline.now

    def die(self) -> None:
        """SIGKILL."""
        self.sim.note(f"{self.id} dies")
        for thread in self.sim.world.threads:
            if thread.name.endswith((f"-{self.id}", f" {self.id}")) or f"{self.id} " in thread.name:
                thread.process = self.process
        self.process.killed = self.over = True
        for transport in self.transports:
            transport.die()

    # ---- the listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They begin at what is committed."""
        self.sim.note(f"{self.id} gets {[str(tp) for tp in partitions]}")
        self._forget(partitions)
        self._commit_all()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """What was in hand is finished, or took too long."""
        self.sim.note(f"{self.id} gives back {[str(tp) for tp in partitions]}")
        self._forget(partitions)
        self._commit_all()

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Another one may have them."""
        self.sim.note(f"{self.id} loses {[str(tp) for tp in partitions]}")
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self.reached.pop(tp, None)
            self.polled.pop(tp, None)

    def _commit_all(self) -> None:
        """As a listener may that knows nothing of what is finished."""
        if self.sim.plan.listener_commits and self.consumer is not None and self.state == "processing":
            try:
                self.consumer.commit_async()
            except KafkaError as error:
                self.sim.note(f"{self.id}: commit of the listener: {error!r}")

    def _counted(self, poll: Callable[..., list[Record]]) -> Callable[..., list[Record]]:
        def polled(*how: Any) -> list[Record]:
            records = poll(*how)
            for record in records:
                self.polled.setdefault(TopicPartition(record.topic, record.partition), deque()).append(record.offset)
            self.sim.polled(self)
            return records

        return polled

    # ---- its threads

    def _run(self) -> None:
        sim = self.sim
        options = {"bootstrap_servers": sim.servers, "client_id": self.id}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            producer = Producer(**options, **sim.plan.producer)
            self.consumer = consumer = Consumer(**options, **sim.plan.options, group_id=sim.group)
            consumer.poll = self._counted(consumer.poll)  # type: ignore[method-assign]
            if not sim.healed:
                sim.timeline.after(sim.random.expovariate(1 / sim.plan.lifetime), self.stop)
            try:
                (self._process if self.how == "process" else self._stream)(consumer, producer)
            except (KafkaError, WrongRecord) as error:
                sim.note(f"{self.id}: {error!r}")
            self.state = "closing"
            began, limit = sim.timeline.now, sim.random.choice(CLOSE)
            consumer.close(limit)
            sim.closed(self.id, sim.timeline.now - began, limit)
            producer.close(limit)
        self.over = True

    def _process(self, consumer: Consumer, producer: Producer) -> None:
        sim, plan = self.sim, self.sim.plan
        consumer.subscribe(sorted(plan.topics), self)
        pool = Pool(sim.world, plan.workers, self.process, self.id)
        self.state = "processing"
        try:
            consumer.process(
                lambda record: self._handle(record, producer),
                plan.by,
                retries=plan.retries,
                retry_backoff=0.05,
                dead_letter=DEAD if plan.dead_letters else None,
                producer=producer if plan.dead_letters else None,
                max_in_hand=plan.most_in_hand,
                drain_timeout=DRAIN_S,
                stop=self,
                executor=pool,
            )
        finally:
            pool.shutdown()
            self.state = "processed"
            self._ended_in_time()

    def _lane(self, record: Record) -> Hashable:
        tp = TopicPartition(record.topic, record.partition)
        return tp if self.how == "streams" or self.sim.plan.by == "partition" else (tp, record.key)

    def _handle(self, record: Record, producer: Producer) -> Delivery | None:
        """The handler of `process`."""
        sim, random, lane = self.sim, self.sim.random, self._lane(record)
        sim.begun(self, record, lane)
        sim.world.sleep(sim.work())
        del self.running[lane]
        if not sim.healed and random.random() < sim.plan.wrong:
            raise WrongRecord(f"{record.topic}-{record.partition} at {record.offset}")
        if random.random() < sim.plan.sends:
            sent = producer.send("out", record.value, key=record.key)
            sent.add_done_callback(lambda done: sim.finished(record) if done.exception(0) is None else None)
            return sent
        sim.finished(record)
        return None

    def _stream(self, consumer: Consumer, _: Producer) -> None:
        sim, plan = self.sim, self.sim.plan
        streams = consumer.streams(
            dict.fromkeys(sorted(plan.topics), plan.workers), listener=self, max_in_hand=plan.most_in_hand, drain_timeout=DRAIN_S
        )
        self.state = "processing"
        threads = [sim.world.spawn(self._reader(stream), f"{self.id} {n}", self.process) for n, stream in enumerate(streams)]
        while not self.is_set() and any(thread.is_alive() for thread in threads):
            if sim.random.random() < 0.05:
                self._commit(streams)
            sim.world.sleep(0.1)
        self.stop()
        self.stopped_at = sim.timeline.now
        try:
            streams.close()
        finally:
            self.state = "processed"
            self._ended_in_time()
        for thread in threads:
            thread.join()

    def _commit(self, streams: Streams) -> None:
        try:
            streams.commit(1.0)
        except KafkaError as error:
            self.sim.note(f"{self.id}: commit: {error!r}")

    def _reader(self, stream: Stream) -> Callable[[], None]:
        def read() -> None:
            again = True
            while again:
                again = False
                try:
                    with stream:
                        for record in stream:
                            self._body(record, stream)
                except WrongRecord:
                    again = True
                except KafkaError as error:
                    self.sim.note(f"{self.id}: {error!r}")

        return read

    def _body(self, record: Record, stream: Stream) -> None:
        """The body of a loop over a stream."""
        sim, lane = self.sim, self._lane(record)
        sim.begun(self, record, lane)
        sim.world.sleep(sim.work())
        del self.running[lane]
        if not sim.healed and sim.random.random() < sim.plan.wrong:
            self.reached[lane] = record.offset - 1
            raise WrongRecord
        sim.finished(record)
        if sim.random.random() < 0.05:
            stream.finish()

    def _ended_in_time(self) -> None:
        """A run that was asked to end does, after the records in hand and a commit."""
        if self._stop:
            self.sim.ended(self.id, self.sim.timeline.now - self.stopped_at, DRAIN_S + COMMIT)
