"""Simulation. Rule: everything derives from the seed; a schedule that fails once fails every time.

The client's own machines (engine, sender, accumulator) run against a model cluster under a virtual clock:

    Simulation(seed).run()          # raises Broken, which names the promise and the seed
    Simulation.replay(seed)         # the same, told line by line
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

import attrs
from driver import Driver
from invariants import Broken, Sent, Truth, Watch, value_of
from plan import FAULTS, Plan, draw
from schedule import Schedule
from weather import Weather

from pykafka4.config import ProducerConfig
from pykafka4.core import Effects, Outcome, Request
from pykafka4.core.sender import Sender
from pykafka4.errors import BufferFull, ClosedError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.testing.log import Appended, parse_header
from pykafka4.wire.compression import CODECS, compress
from pykafka4.wire.hot import Accumulator, Batch, Delivery
from pykafka4.wire.messages_data import ProduceRequest

__all__ = ["Report", "Simulation"]

PATIENCE: Final = 200.0  # virtual seconds after healing in which everything must have its outcome
QUIET: Final = 3.0  # what comes so long after the end is still looked at
REQUESTS_PER_SECOND: Final = {"Metadata": 25, "ApiVersions": 90, "InitProducerId": 25}


@attrs.frozen(kw_only=True)
class Report:
    """What a schedule came to."""

    seed: int
    plan: Plan
    accepted: int
    acked: int
    failed: int
    maybe: int
    seconds: float
    turns: int
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]
    codes: dict[str, int]


class Observed:
    """The sender, with its produce requests watched on their way."""

    def __init__(self, sender: Sender, watch: Watch) -> None:
        self.sender, self._watch = sender, watch

    def poll(self, now: float) -> Effects:
        """What the sender wants, its requests seen."""
        effects = self.sender.poll(now)
        return attrs.evolve(effects, requests=tuple(self._watched(request) for request in effects.requests))

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """As the sender."""
        return self.sender.crash(reason)

    def _watched(self, request: Request) -> Request:
        if not isinstance(request.message, ProduceRequest):
            return request
        tps = [TopicPartition(batch.topic, batch.partition) for batch in _batches(request.message)]
        self._watch.departed(tps, request.node)

        def answered(now: float, outcome: Outcome) -> None:
            self._watch.returned(tps, request.node)
            request.on_reply(now, outcome)

        return attrs.evolve(request, on_reply=answered)


def _batches(message: ProduceRequest) -> Iterable[Batch]:
    return [part.records for topic in message.topic_data for part in topic.partition_data]  # type: ignore[misc]


class Simulation(Schedule[Plan, Report]):
    """One schedule of a producer. `sender` takes the place of the real one where a test wants to see a bug found."""

    all_faults = FAULTS

    def __init__(
        self, seed: int, *, plan: Plan | None = None, sender: type[Sender] = Sender, story: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, plan or draw(seed), story)
        self._closing = False
        self._sending = self.plan.actors
        self.cluster.zombies = self.plan.zombies
        if story is not None:
            self.cluster.on_batch = self._saw_batch
        self._build_client(sender)

    # ---- building

    def _build_client(self, sender: type[Sender]) -> None:
        self.config = config = ProducerConfig.parse({"bootstrap_servers": self.servers, **self.plan.options})
        self.driver = driver = Driver(
            config, self.cluster, self.random, self.plan.seed ^ 0xC0, self.plan.climate, note=self.note, after_turn=self._look
        )
        self.engine, self.weather = driver.engine, driver.weather
        driver.before_sleep = self._before_sleep
        self.acc = Accumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            buffer_memory=config.buffer_memory,
            max_partition_bytes=config.partition_bytes,
            max_request_size=config.max_request_size,
            codec=CODECS[config.compression_type],
            compress=compress,
            clock=lambda: self.timeline.now,
            wake=self.poke,
            new_topic=self._new_topic,
            make_room=self._make_room,
            wait=lambda predicate, timeout: predicate(),
            submit=driver.executor.submit,
            lock=contextlib.nullcontext(),
            seed=self.plan.seed,
            wall=self.cluster.wall_ms,
        )
        engine = self.engine
        self.sender = sender(
            config, self.acc, engine.network, engine.cluster, engine.recovery, Random(self.plan.seed ^ 0xD0), lambda: None, self._refuse
        )
        self.truth = Truth(self.cluster)
        self.watch = Watch(self.truth, idempotent=self.plan.idempotent, acks=config.acks, buffer_memory=config.buffer_memory)
        engine.add(Observed(self.sender, self.watch))

    def _look(self) -> None:
        self.watch.look(self.sender, self.acc)

    def _before_sleep(self, wake_at: float) -> None:
        self.acc.wake_at = wake_at

    def _make_room(self, topic: str, partition: int, size: int) -> None:
        """A thread would block here; an actor comes again."""
        if not self.acc.room(topic, partition, size):
            raise BufferFull(f"{topic}-{partition} needs {size} bytes")

    def _new_topic(self, topic: str) -> None:
        self.timeline.after(0.0, lambda: self._tell_sender(topic))

    def _tell_sender(self, topic: str) -> None:
        self.sender.want(topic)
        self.poke()

    def _refuse(self, error: KafkaError) -> None:
        raise Broken("the producer goes on", f"it is finished for good, and no fault here is a reason: {error}")

    # ---- running

    def _run(self) -> None:
        start = self.timeline.now
        for actor in range(self.plan.actors):
            Actor(self, actor).begin()
        self._next_fault(start + self.plan.trouble)
        self.timeline.at(start + self.plan.trouble, self._heal)
        if self.plan.give_up:
            self.timeline.after(self.random.uniform(0.2, self.plan.trouble), self._give_up)
        self._step_until(start + self.plan.trouble + PATIENCE)
        self.watch.conclude()
        quiet = self.timeline.now + QUIET
        while self.timeline.next_at < quiet:
            self.timeline.step()
            self.driver.check_heat(self.watch.accepted)
        self.watch.conclude()
        self._check_requests(start)

    def _step_until(self, end: float) -> None:
        while not self._finished() and self.timeline.next_at < end:
            self.timeline.step()
            self.driver.check_heat(self.watch.accepted)

    def _finished(self) -> bool:
        return self._healed and not self._sending and not self.watch.open_records()

    def _give_up(self) -> None:
        """`close(timeout=0)`: everything that is left fails at once."""
        self.note("the producer gives up")
        self._closing = True
        reason = ClosedError("closed")
        self.acc.refusal = reason
        self.sender.abandon(reason)
        self.poke()

    @property
    def closing(self) -> bool:
        """Whether the producer was closed."""
        return self._closing

    # ---- faults

    def poke(self) -> None:
        """The client looks what happened."""
        self.driver.poke()

    def grown(self, tp: TopicPartition) -> None:
        """Metadata will tell."""

    def weathers(self) -> list[Weather]:
        """There is one process."""
        return [self.weather]

    def states(self) -> set[str]:
        """What the client is in the middle of: the other side of the coverage table."""
        found = {f"identity {self.sender.identity.state.value}"}
        for queue in self.sender.queues.values():
            if queue.stale and self.plan.idempotent:
                found.add("epoch ends")
            if queue.in_flight:
                found.add("batch in flight" if queue.in_flight == 1 else "batches pipelined")
            if any(b.written and not b.in_flight for b in queue.batches):
                found.add("batch maybe written, waiting")
            if queue.due is not None or any(not b.in_flight and not b.written for b in queue.batches):
                found.add("batch queued")
        if self.acc.parked_records:
            found.add("records parked")
        if self.engine.recovery.offline:
            found.add("partition offline")
        links = len(self.weather.paths)
        found.add("no connection" if not links else "connected" if self.weather.open_paths() else "connecting")
        return found

    def _saw_batch(self, where: str, data: Any, result: Appended) -> None:
        header = parse_header(bytes(data))
        if header is not None:
            first = header.base_sequence
            identity = f"{header.producer_id}/{header.producer_epoch} {first}…{header.last_sequence}" if first >= 0 else "no identity"
            again = " again" if result.duplicate else ""
            self.note(f"    {where} ({identity}): {result.error} {result.base_offset}{again}")

    # ---- actors

    def actor_done(self) -> None:
        """An actor has sent everything."""
        self._sending -= 1

    # ---- heat

    def _check_requests(self, start: float) -> None:
        seconds = self.timeline.now - start
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > 20 + limit * seconds:
                raise Broken("no hot loop", f"{self.cluster.requests[name]} {name} requests in {seconds:.3f} s")

    def _report(self) -> Report:
        return Report(
            seed=self.plan.seed,
            plan=self.plan,
            accepted=self.watch.accepted,
            acked=self.watch.acked,
            failed=self.watch.failed,
            maybe=self.watch.maybe,
            seconds=self.seconds,
            turns=self.driver.turns,
            requests=self.cluster.requests,
            coverage=self.coverage,
            codes=dict(self.watch.codes),
        )


class Actor:
    """An application thread that sends records."""

    __slots__ = ("_left", "_next", "_number", "_pace", "_sim", "_topics", "_waiting")

    def __init__(self, sim: Simulation, number: int) -> None:
        self._sim, self._number = sim, number
        self._left = sim.plan.records
        self._next = 0
        self._pace = sim.random.choice((0.001, 0.02, sim.plan.trouble / sim.plan.records))
        self._topics = [*sim.plan.topics, *sim.plan.unknown_topics]
        self._waiting = False

    def begin(self) -> None:
        """Some time soon."""
        self._sim.timeline.after(self._sim.random.random() * 0.05, self._act)

    def _act(self) -> None:
        for _ in range(min(self._left, self._sim.random.choice((1, 1, 1, 5, 20)))):
            if not self._send():
                break
        if not self._left or self._sim.closing:
            self._sim.actor_done()
            return
        if self._sim.random.random() < 0.05:
            self._sim.acc.expedite()
            self._sim.poke()
        pause = 0.05 if self._waiting else self._sim.random.expovariate(1 / self._pace)
        self._sim.timeline.after(pause, self._act)

    def _send(self) -> bool:
        """Send the next record; False when there is no room (a thread would block, this one comes again) or the producer is closed."""
        sim, random = self._sim, self._sim.random
        topic = random.choice(self._topics)
        value = value_of(topic, self._number, self._next, random.choice((30, 100, 100, 700)))
        count = sim.plan.topics.get(topic, 0)
        where: dict[str, Any] = random.choice(
            ({}, {"key": b"k%d" % random.randrange(10)}, {"partition": random.randrange(count)} if count else {})
        )
        box: list[Sent] = []
        called = random.random() < 0.7
        heard: Callable[[Delivery], None] | None = (lambda delivery: sim.watch.answered(box[0])) if called else None
        try:
            delivery = sim.acc.send(topic, value, on_delivery=heard, **where)
        except BufferFull:
            self._wait()
            return False
        except KafkaError:
            self._left = 0
            return False
        self._stop_waiting()
        box.append(Sent(self._number, self._next, topic, value, sim.timeline.now, delivery, called=called))
        sim.watch.accept(box[0])
        self._next += 1
        self._left -= 1
        return True

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._sim.acc.waiters += 1

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            self._sim.acc.waiters -= 1
