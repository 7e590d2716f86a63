"""Schedule. Rule: everything derives from the seed; a schedule that fails once fails every time.

What schedules of producers and of consumers have in common: a model cluster on a virtual clock, and faults that come at random until
everything heals.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TextIO, TypeVar

from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import Controls, Fault, Injected, PushedError, When
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.timeline import Timeline
from tests.simulation.judge.invariants import Broken
from tests.simulation.world.disturbance import Disturbances
from tests.simulation.world.virtual import World
from tests.simulation.world.weather import VirtualTransport, Weather

__all__ = ["Planned", "Schedule"]


class Planned(Protocol):
    """What any plan says."""

    @property
    def seed(self) -> int:
        """Where everything follows from."""

    @property
    def release(self) -> str:
        """The brokers' version."""

    @property
    def topics(self) -> dict[str, int]:
        """Partitions of each topic."""

    @property
    def trouble(self) -> float:
        """Seconds until everything heals."""

    @property
    def fault_interval(self) -> float:
        """Mean seconds between faults."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What goes wrong."""

    @property
    def preempt(self) -> float:
        """How likely a thread that asks for a lock lets another go first."""

    @property
    def options(self) -> dict[str, Any]:
        """The client's options."""


PlanT = TypeVar("PlanT", bound=Planned)
ReportT = TypeVar("ReportT")


class Schedule(ABC, Generic[PlanT, ReportT]):
    """One schedule: its cluster, its clock, and what goes wrong."""

    all_faults: ClassVar[Mapping[str, Callable[[Any], None]]]
    sharp = False  # whether a fault that misleads is distinguished from one that stops everything

    def __init__(self, seed: int, plan: PlanT, trace: Callable[[str], None] | None) -> None:
        self.plan = plan
        self.random = Random(seed ^ 0x5EED)
        self.timeline = Timeline(1000.0)
        self.sick: tuple[TopicPartition, int] | None = None  # the partition and the broker where everything goes wrong
        self.coverage: Counter[tuple[str, str]] = Counter()
        self._trace = trace
        self.healed = False
        self.cluster = ModelCluster(3, random=Random(seed ^ 0xB0), timeline=self.timeline, release=plan.release, default_partitions=2)
        if trace is not None:
            self.cluster.on_request = self.note
        for name, count in plan.topics.items():
            self.cluster.create_topic(name, count)
        self.world = World(self.timeline, Random(seed ^ 0xACE), plan.preempt)
        self.disturbances = Disturbances(*self.patience(), lambda tp: self._leader(tp))
        self.cluster.controls = Watched(self)
        self.servers = ",".join(f"{b.host}:{b.port}" for b in self.cluster.brokers.values())

    def run(self) -> ReportT:
        """Until everything has its outcome. Broken names the promise that was not kept."""
        try:
            with self.world.installed(self.transport, self.plan.seed ^ 0xC0, lambda: self.cluster.wall_ms()):
                self._run()
        except Exception as error:
            broken = error if isinstance(error, Broken) else Broken("no internal errors", f"unexpected {type(error).__name__}: {error}")
            broken.add_note(f"seed {self.plan.seed}: {type(self).__name__}.replay({self.plan.seed}) prints its trace")
            raise broken from error.__cause__ if broken is error else error
        return self._report()

    @classmethod
    def replay(cls, seed: int, *, out: TextIO = sys.stdout, **options: Any) -> ReportT:
        """Run the schedule of `seed` and tell what happens."""
        kind: Any = cls
        schedule: Schedule[PlanT, ReportT] = kind(seed, trace=lambda line: print(line, file=out), **options)
        print(schedule.plan, file=out)
        return schedule.run()

    # ---- what schedules are of

    @abstractmethod
    def _run(self) -> None: ...

    @abstractmethod
    def _report(self) -> ReportT: ...

    @abstractmethod
    def transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        """The sockets of a new client."""

    @abstractmethod
    def states(self) -> set[str]:
        """What the client is in the middle of: the other side of the coverage table."""

    @abstractmethod
    def weathers(self) -> list[Weather]:
        """The networks of all processes."""

    @abstractmethod
    def grown(self, tp: TopicPartition) -> None:
        """A partition was added."""

    # ---- what goes wrong

    @property
    def seconds(self) -> float:
        """Virtual seconds since it began."""
        return self.timeline.now - 1000.0

    def pause(self) -> float:
        """Seconds until the next fault."""
        return self.random.expovariate(1 / self.plan.fault_interval)

    def _next_fault(self, until: float) -> None:
        at = self.timeline.now + self.pause()
        if at < until:
            self.timeline.at(at, lambda: self._fault(until))

    def _fault(self, until: float) -> None:
        name = self.random.choice(self.plan.faults)
        for state in sorted(self.states()):
            self.coverage[name, state] += 1
        self.all_faults[name](self)
        self._next_fault(until)

    def _heal(self) -> None:
        self.note("everything heals")
        self.healed = True
        self.cluster.heal()
        for weather in self.weathers():
            weather.clear()

    def patience(self) -> tuple[float, float]:
        """Seconds without progress that are normal, and seconds that a fault has effects after its end."""
        options = self.plan.options
        request = options.get("request_timeout_ms", 30_000) / 1000
        setup = options.get("socket_connection_setup_timeout_max_ms", 30_000) / 1000
        return 4.0, 2 * request + 2 * setup + 4.0

    def disturb(self, seconds: float, *tps: TopicPartition, node: int | None = None, misleads: bool = False) -> None:
        """A fault that lasts so long: for these partitions, for all that `node` leads, or without either for all.

        One that only misleads stops nothing that works: it keeps from recovering what another fault has stopped.
        """
        somewhere = tps or node is not None or (misleads and self.sharp)
        where = frozenset(tps) | self._led(node) if somewhere else None
        self.disturbances.add(self.timeline.now, self.timeline.now + seconds, where, node)

    def _led(self, node: int | None) -> frozenset[TopicPartition]:
        return frozenset(p.tp for t in self.cluster.topics.values() for p in t.partitions if p.leader == node)

    def _leader(self, tp: TopicPartition) -> int:
        partition = self.cluster.partition(*tp)
        return -1 if partition is None else partition.leader

    def damaged(self, found: Injected) -> None:
        """A fault that was ordered came upon its request."""

    def met(self, error: str, topic: str | None, partition: int | None) -> None:
        """A broker gave an error that was ordered."""

    def some_partition(self) -> TopicPartition:
        """A partition for a fault."""
        if self.sick is not None:
            return self.sick[0]
        name = self.random.choice(sorted(self.cluster.topics))
        return TopicPartition(name, self.random.randrange(len(self.cluster.topics[name].partitions)))

    def some_node(self) -> int:
        """A broker for a fault."""
        return self.random.choice(sorted(self.cluster.brokers)) if self.sick is None else self.sick[1]

    def note(self, line: str) -> None:
        """Add a line to the trace, if one is wanted."""
        if self._trace is not None:
            self._trace(f"{self.seconds:10.5f}  {line}")


class Watched(Controls):
    """The model's controls: what was ordered to go wrong is a disturbance from when it does."""

    def __init__(self, schedule: Schedule[Any, Any]) -> None:
        super().__init__()
        self._schedule = schedule

    def use_fault(self, key: int, node: int) -> Injected | None:
        """As `Controls.use_fault`."""
        found = super().use_fault(key, node)
        if found is not None:
            self._schedule.damaged(found)
            lasting = found.seconds if found.fault in (Fault.DELAY, Fault.DELAY_REPLY) else 0.0
            self._schedule.disturb(lasting, node=node)  # most of them end the connection
            if key not in (0, 1):  # Produce and Fetch concern what the broker leads, all others may concern anything
                self._schedule.disturb(lasting, misleads=True)
        return found

    def use_pushed(self, key: int, topic: str | None, partition: int | None, when: When) -> PushedError | None:
        """As `Controls.use_pushed`."""
        found = super().use_pushed(key, topic, partition, when)
        if found is not None:
            self._schedule.met(found.error, topic, partition)
            if topic is not None and partition is not None:
                self._schedule.disturb(0.0, TopicPartition(topic, partition))
            else:
                self._schedule.disturb(0.0, misleads=True)
        return found
