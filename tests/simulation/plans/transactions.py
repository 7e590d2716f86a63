"""Schedules of transactions: producers that commit and abort, and a reader of committed records, while brokers and network fail.

Promises: a reader of committed records gets each committed transaction whole, each record once, and those of a producer in order; of an
aborted transaction it gets nothing; and when everything heals, every transaction has an outcome and everything committed is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Final

import attrs

from pykafka4.consumer import Consumer
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import Fault
from pykafka4.wire.protocol.messages_txn import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.producer_plan import FAULTS as PRODUCER_FAULTS
from tests.simulation.plans.producer_plan import QUICK
from tests.simulation.plans.schedule import Schedule
from tests.simulation.users.transacted_copier import Copier
from tests.simulation.users.transactors import Outcome, Transactor
from tests.simulation.world import trouble
from tests.simulation.world.weather import Climate, VirtualTransport, Weather

__all__ = ["TransactionPlan", "TransactionReport", "TransactionSimulation", "draw_transactions"]

PATIENCE_S: Final = 120.0  # virtual seconds after healing in which every transaction must have its outcome, and be read
SHARED: Final = (
    *("move leader", "no leader", "broker stops", "broker freezes", "network is dark", "connection is cut", "all connections are cut"),
    *("metadata is stale", "lost before append", "lost after append", "answer swallowed", "answer delayed", "error before append"),
    *("identity error", "throttled", "leadership lost after append", "in-sync replicas shrink", "follower is slow"),
)


def _move_coordinator(sim: TransactionSimulation) -> None:
    name = sim.random.choice([t.id for t in sim.transactors])
    sim.note(f"another coordinator of {name}")
    sim.cluster.move_transaction_coordinator(name, loading=sim.random.choice((0.0, 0.5, 2.0)))


def _slow_markers(sim: TransactionSimulation) -> None:
    seconds = sim.random.choice((0.0, 0.1, 1.0))
    sim.note(f"markers come {seconds} s later")
    sim.cluster.slow_markers(seconds)


def _end_lost(sim: TransactionSimulation) -> None:
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.SWALLOW, Fault.DELAY_REPLY, Fault.DELAY))
    sim.note(f"the next EndTxn: {fault.value}")
    sim.cluster.inject(EndTxnRequest, fault, seconds=sim.random.uniform(0.1, 1.0), times=sim.random.choice((1, 1, 2)))


JOINING: Final = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest)


def _joining_lost(sim: TransactionSimulation) -> None:
    api = sim.random.choice(JOINING)
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.SWALLOW, Fault.DELAY_REPLY, Fault.DELAY))
    sim.note(f"the next {api.__name__}: {fault.value}")
    sim.cluster.inject(api, fault, seconds=sim.random.uniform(0.1, 1.0), times=sim.random.choice((1, 1, 2)))


def _joining_refused(sim: TransactionSimulation) -> None:
    api = sim.random.choice(JOINING)
    error = sim.random.choice((*PASSING, "TRANSACTION_ABORTABLE"))
    sim.note(f"the next {api.__name__}: {error}")
    sim.cluster.push_error(api, error, times=sim.random.choice((1, 3)))


PASSING: Final = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS")


def _refused(sim: TransactionSimulation) -> None:
    api = sim.random.choice((EndTxnRequest, InitProducerIdRequest))
    error = sim.random.choice(PASSING)
    sim.note(f"the next {api.__name__}: {error}")
    sim.cluster.push_error(api, error, times=sim.random.choice((1, 3)))


FAULTS: Final[dict[str, Callable[[Any], None]]] = {
    **{name: PRODUCER_FAULTS[name] for name in SHARED},
    "transaction coordinator moves": _move_coordinator,
    "markers are slow": _slow_markers,
    "end of a transaction is lost": _end_lost,
    "coordinator refuses": _refused,
}
JOINING_FAULTS: Final[dict[str, Callable[[Any], None]]] = {
    "joining a transaction is lost": _joining_lost,
    "joining a transaction is refused": _joining_refused,
}
assert trouble  # the faults of `producer_plan` are made of it


@attrs.frozen
class TransactionPlan:
    """What a schedule is of."""

    seed: int
    options: dict[str, Any]
    release: str
    topics: dict[str, int]
    trouble: float
    fault_interval: float
    faults: tuple[str, ...]
    climate: Climate
    preempt: float
    transactors: int
    transactions: int  # of each
    zombies: float  # how likely another producer takes the transactional id over during a transaction
    copied: int  # records that an application copies, with its offsets in the transactions
    grouped: bool  # it subscribes


def draw_transactions(seed: int) -> TransactionPlan:
    """The plan of `seed`."""
    r = Random(seed ^ 0x7A)
    more = Random(seed ^ 0x7B)
    copied = more.choice((0, 20, 60))
    return TransactionPlan(
        seed=seed,
        options={
            **QUICK,
            "acks": "all",
            "request_timeout_ms": r.choice((300, 1_000)),
            "linger_ms": r.choice((0, 5)),
            "batch_size": r.choice((1_024, 16_384)),
            "delivery_timeout_ms": more.choice((120_000, 120_000, 1_500)),
        },
        release=r.choice(("4.4", "4.4", "4.0", "3.9")),
        topics={"t": r.choice((1, 2, 3))},
        trouble=r.choice((3.0, 6.0)),
        fault_interval=r.choice((0.1, 0.3, 1.0)),
        faults=(tuple(name for name in FAULTS if r.random() < 0.5) or ("move leader",)) + (tuple(JOINING_FAULTS) if copied else ()),
        climate=Climate(delay=r.choice(((0.0002, 0.002), (0.001, 0.02)))),
        preempt=r.choice((0.0, 0.05)),
        transactors=r.choice((1, 2, 3)),
        transactions=r.choice((5, 15)),
        zombies=r.choice((0.0, 0.0, 0.15)),
        copied=copied,
        grouped=more.random() < 0.5,
    )


@attrs.frozen(kw_only=True)
class TransactionReport:
    """What a schedule came to."""

    seed: int
    outcomes: Counter[str]
    read: int
    seconds: float
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]


class TransactionSimulation(Schedule[TransactionPlan, TransactionReport]):
    """One schedule of transactions."""

    all_faults: ClassVar = {**FAULTS, **JOINING_FAULTS}

    def __init__(self, seed: int, *, plan: TransactionPlan | None = None, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw_transactions(seed), trace)
        self._weathers: list[Weather] = []  # each client has connections of its own
        self.transactors = [Transactor(self, number) for number in range(self.plan.transactors)]
        self.copier = Copier(self, self.plan.copied) if self.plan.copied else None
        self.read: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        self._ended = False

    # ---- what runs

    def transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        """The sockets of a client."""
        self._weathers.append(Weather(self.timeline, self.random, self.cluster, self.plan.climate, self.note))
        return VirtualTransport(self.world, self._weathers[-1], max_frame, lambda transport: None)

    def _run(self) -> None:
        self.world.spawn(self._main, "main")
        self._next_fault(self.timeline.now + self.plan.trouble)
        self.timeline.after(self.plan.trouble, self._heal)
        limit = self.timeline.now + self.plan.trouble + PATIENCE_S
        while not self._ended and self.timeline.next_at < limit:
            self.world.step()
        if not self._ended:
            left = {t.id: t.state for t in (*self.transactors, *self._copiers)}
            raise Broken("transactions end and are read", f"transactions are left: {left}; read up to {self._behind()}")
        self._judge()

    def _main(self) -> None:
        threads = [self.world.spawn(user.run, user.id) for user in (*self.transactors, *self._copiers)]
        with Consumer(
            bootstrap_servers=self.servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            **_client(self.plan),
        ) as consumer:
            tps = [TopicPartition(name, number) for name, count in self.plan.topics.items() for number in range(count)]
            self.read.update((tp, []) for tp in tps)
            consumer.assign(tps)
            while any(thread.is_alive() for thread in threads) or not self.healed or self._behind():
                self._poll(consumer)
        self._ended = True

    @property
    def _copiers(self) -> list[Copier]:
        return [] if self.copier is None else [self.copier]

    @property
    def client_options(self) -> dict[str, Any]:
        """The options of a client that is no producer."""
        return _client(self.plan)

    def _poll(self, consumer: Consumer) -> None:
        try:
            for record in consumer.poll(0.2):
                self.read[TopicPartition(record.topic, record.partition)].append((record.offset, record.value))
            self._positions = {tp: consumer.position(tp, 0.0) for tp in self.read if consumer.lag(tp) is not None}
        except KafkaError:
            self.world.sleep(0.05)

    def _behind(self) -> dict[TopicPartition, tuple[int, int]]:
        """The partitions that are not read to their end: their position and end."""
        known = getattr(self, "_positions", {})
        ends = {tp: self.cluster.log(*tp).end_offset for tp in self.read}
        return {tp: (known.get(tp, -1), end) for tp, end in ends.items() if end and known.get(tp, -1) < end}

    # ---- what must be true

    def _judge(self) -> None:
        values = [value for rows in self.read.values() for _, value in rows]
        for copier in self._copiers:
            copier.judge(values)
        for tp, rows in self.read.items():
            own = [[transactor.place(value) for _, value in rows if transactor.sent(value)] for transactor in self.transactors]
            if [offset for offset, _ in rows] != sorted({offset for offset, _ in rows}) or own != [sorted(numbers) for numbers in own]:
                raise Broken("each committed record is read once, in order", f"offsets in another order, {tp}: {rows}")
        if repeated := [value for value, count in Counter(values).items() if count > 1]:
            raise Broken("each committed record is read once, in order", f"repeated: {repeated[:5]}")
        found = set(values)
        for transactor in self.transactors:
            for done in transactor.done:
                self._judge_one(transactor.id, done.outcome, done.values, found)

    def _judge_one(self, name: str, outcome: Outcome, sent: list[bytes], found: set[bytes]) -> None:
        there = [value for value in sent if value in found]
        if outcome is Outcome.ABORTED and there:
            raise Broken("nothing of an aborted transaction is read", f"aborted, {name}: {there}")
        if len(there) < len(sent) and (there or outcome is Outcome.COMMITTED):
            raise Broken("a committed transaction is read whole", f"incomplete, {name}, {outcome.name}: {sent}, read {there}")

    def _report(self) -> TransactionReport:
        outcomes = Counter(done.outcome.name for transactor in self.transactors for done in transactor.done)
        return TransactionReport(
            seed=self.plan.seed,
            outcomes=outcomes,
            read=sum(map(len, self.read.values())),
            seconds=self.seconds,
            requests=self.cluster.requests,
            coverage=self.coverage,
        )

    def states(self) -> set[str]:
        """What the transactions are in the middle of."""
        return {t.state.value for t in self.cluster.transactions.transactions.values()} or {"no transaction"}

    def weathers(self) -> list[Weather]:
        """Of all clients so far."""
        return self._weathers

    def grown(self, tp: TopicPartition) -> None:
        """No partitions are added."""


def _client(plan: TransactionPlan) -> dict[str, Any]:
    return {name: value for name, value in plan.options.items() if name not in ("acks", "linger_ms", "batch_size", "delivery_timeout_ms")}
