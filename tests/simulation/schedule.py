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

from weather import Weather

from pykafka4.records import TopicPartition
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.timeline import Timeline

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


PlanT = TypeVar("PlanT", bound=Planned)
ReportT = TypeVar("ReportT")


class Schedule(ABC, Generic[PlanT, ReportT]):
    """One schedule: its cluster, its clock, and what goes wrong."""

    all_faults: ClassVar[Mapping[str, Callable[[Any], None]]]

    def __init__(self, seed: int, plan: PlanT, story: Callable[[str], None] | None) -> None:
        self.plan = plan
        self.random = Random(seed ^ 0x5EED)
        self.timeline = Timeline(1000.0)
        self.coverage: Counter[tuple[str, str]] = Counter()
        self._story = story
        self._healed = False
        self.cluster = ModelCluster(3, random=Random(seed ^ 0xB0), timeline=self.timeline, release=plan.release, default_partitions=2)
        self.cluster.on_request = self.note
        for name, count in plan.topics.items():
            self.cluster.create_topic(name, count)
        self.servers = ",".join(f"{b.host}:{b.port}" for b in self.cluster.brokers.values())

    def run(self) -> ReportT:
        """Until everything has its outcome. Broken names the promise that was not kept."""
        try:
            self._run()
        except Exception as error:
            error.add_note(f"seed {self.plan.seed}: {type(self).__name__}.replay({self.plan.seed}) tells the whole story")
            raise
        return self._report()

    @classmethod
    def replay(cls, seed: int, *, out: TextIO = sys.stdout, **options: Any) -> ReportT:
        """Run the schedule of `seed` and tell what happens."""
        told: Any = cls
        schedule: Schedule[PlanT, ReportT] = told(seed, story=lambda line: print(line, file=out), **options)
        print(schedule.plan, file=out)
        return schedule.run()

    # ---- what schedules are of

    @abstractmethod
    def _run(self) -> None: ...

    @abstractmethod
    def _report(self) -> ReportT: ...

    @abstractmethod
    def states(self) -> set[str]:
        """What the client is in the middle of: the other side of the coverage table."""

    @abstractmethod
    def weathers(self) -> list[Weather]:
        """The networks of all processes."""

    @abstractmethod
    def poke(self) -> None:
        """Something went wrong: whoever may want to know looks."""

    @abstractmethod
    def grown(self, tp: TopicPartition) -> None:
        """A partition was added."""

    # ---- what goes wrong

    @property
    def seconds(self) -> float:
        """Virtual seconds since it began."""
        return self.timeline.now - 1000.0

    def _next_fault(self, until: float) -> None:
        at = self.timeline.now + self.random.expovariate(1 / self.plan.fault_interval)
        if at < until:
            self.timeline.at(at, lambda: self._fault(until))

    def _fault(self, until: float) -> None:
        name = self.random.choice(self.plan.faults)
        for state in sorted(self.states()):
            self.coverage[name, state] += 1
        self.all_faults[name](self)
        self.poke()
        self._next_fault(until)

    def _heal(self) -> None:
        self.note("everything heals")
        self._healed = True
        self.cluster.heal()
        for weather in self.weathers():
            weather.clear()

    def some_partition(self) -> TopicPartition:
        """A partition to trouble."""
        name = self.random.choice(sorted(self.cluster.topics))
        return TopicPartition(name, self.random.randrange(len(self.cluster.topics[name].partitions)))

    def some_node(self) -> int:
        """A broker to trouble."""
        return self.random.choice(sorted(self.cluster.brokers))

    def note(self, line: str) -> None:
        """Tell the story, if anybody listens."""
        if self._story is not None:
            self._story(f"{self.seconds:10.5f}  {line}")
