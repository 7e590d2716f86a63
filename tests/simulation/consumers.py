"""The consumers' schedules: what applications were given and what the group has stored are compared with the logs, all the time.

Members (`members.py`) are real consumers in virtual time. Records are put into the logs by somebody else, some of them with gaps before
them as compaction leaves them.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
from consumer_plan import CONSUMER_FAULTS, GROUP, ConsumerPlan, draw_consumers
from invariants import Broken
from members import Member
from schedule import Schedule
from weather import VirtualTransport, Weather

from pykafka4.core.assignors import assigned_partitions
from pykafka4.records import TopicPartition
from pykafka4.testing.model import ModelCluster
from pykafka4.wire.batch import WireRecord

__all__ = ["ConsumerReport", "ConsumerSimulation"]

PATIENCE: Final = 90.0  # virtual seconds after healing in which everything must be read and committed
REQUESTS_PER_SECOND: Final = {
    "Metadata": 25,
    "ApiVersions": 90,
    "FindCoordinator": 25,
    "JoinGroup": 40,
    "OffsetFetch": 40,
    "ListOffsets": 40,
}


class Ledger:
    """What was handed out and finished, and what the group may therefore store."""

    def __init__(self, cluster: ModelCluster, latest: bool) -> None:
        """`latest`: reading begins at the end of the log where nothing is committed."""
        self._cluster, self.latest = cluster, latest
        self.finished: dict[TopicPartition, set[int]] = defaultdict(set)
        self.committed: dict[TopicPartition, int] = {}
        self.last: dict[TopicPartition, int] = {}  # what the group has stored
        self.most: dict[TopicPartition, int] = {}  # the highest it ever stored
        self.floor: dict[TopicPartition, int] = {}  # the lowest offset that an application went back to
        self.handed = 0
        self._begun: dict[TopicPartition, int] = {}  # where reading began, with auto_offset_reset=latest
        self._done_below: dict[TopicPartition, int] = defaultdict(int)  # every record below is finished
        cluster.on_commit.append(self._committed)

    def done_below(self, tp: TopicPartition) -> int:
        """The offset of the first record that nobody has finished, the end of the log when there is none."""
        finished, log = self.finished[tp], self._cluster.log(*tp)
        at = max(self._done_below[tp], log.start_offset)
        for record in self._after(tp, at):
            if record.offset not in finished:
                self._done_below[tp] = record.offset
                return record.offset
        self._done_below[tp] = log.end_offset
        return log.end_offset

    def _after(self, tp: TopicPartition, offset: int) -> Iterator[WireRecord]:
        log = self._cluster.log(*tp)
        first = bisect.bisect_right(log.batches, offset, key=lambda batch: batch.next_offset)
        batches = itertools.islice(log.batches, first, None)
        return (r for b in batches for r in log.records_in(b) if r.offset >= offset)

    def begin(self, tp: TopicPartition, offset: int) -> bool:
        """Whether reading begins at `offset`: with auto_offset_reset=latest, where nothing that is still in the log was committed."""
        stored = self.last.get(tp, -1)
        if offset == self._begun.get(tp):
            return True
        if offset < self._begun.get(tp, 0) or (stored >= 0 and stored >= self._cluster.log(*tp).start_offset):
            return False
        self._begun[tp] = offset
        self.finished[tp].update(r.offset for r in self._after(tp, self._done_below[tp]) if r.offset < offset)
        return True

    def rewind(self, tp: TopicPartition, offset: int) -> None:
        """The application reads again from there, and commits may go back as far."""
        self.floor[tp] = min(self.floor.get(tp, offset), offset)

    def next_in_log(self, tp: TopicPartition, offset: int) -> int | None:
        """The offset of the first record at `offset` or later."""
        return next((r.offset for r in self._after(tp, offset)), None)

    def _committed(self, group: str, tp: TopicPartition, offset: int, awaited: bool) -> None:
        before = self.committed.get(tp, -1)
        if offset > self.done_below(tp) and not (self.latest and self.begin(tp, offset)):
            raise Broken("nothing unfinished is committed", f"{tp}: {offset} is committed, record {self.done_below(tp)} is not finished")
        self.last[tp], self.most[tp] = offset, max(offset, self.most.get(tp, -1))
        if not awaited:
            # Executed after the client had given the connection up: it may have committed more meanwhile, nobody can prevent that. Whoever
            # asks now begins at what is stored now.
            self.committed[tp] = min(before, offset)
            return
        if offset < min(before, self.floor.get(tp, before)):
            raise Broken("commits never go back", f"{tp}: {offset} after {before}")
        self.committed[tp] = offset


@attrs.frozen(kw_only=True)
class ConsumerReport:
    """What a schedule came to."""

    seed: int
    handed: int
    written: int
    generations: int
    seconds: float
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]


class ConsumerSimulation(Schedule[ConsumerPlan, ConsumerReport]):
    """One schedule of a consumer group."""

    all_faults = CONSUMER_FAULTS

    def __init__(self, seed: int, *, plan: ConsumerPlan | None = None, story: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw_consumers(seed), story)
        self.latest = self.plan.options["auto_offset_reset"] == "latest"
        self.ledger = Ledger(self.cluster, self.latest)
        self.values: dict[TopicPartition, dict[int, WireRecord]] = defaultdict(dict)
        self.members: list[Member] = []
        self._instances: list[str] = [f"s{n}" for n in range(4)] if self.plan.static else []
        self.written = 0
        self._left: dict[TopicPartition, int] = {}
        self._generation = 0

    def _report(self) -> ConsumerReport:
        return ConsumerReport(
            seed=self.plan.seed,
            handed=self.ledger.handed,
            written=self.written,
            generations=self._generation,
            seconds=self.seconds,
            requests=self.cluster.requests,
            coverage=self.coverage,
        )

    def _run(self) -> None:
        plan = self.plan
        for _ in range(plan.members):
            self.join()
        for name, count in plan.topics.items():
            for number in range(count):
                self._left[TopicPartition(name, number)] = plan.records
        for tp in list(self._left):
            self.timeline.after(self.random.random(), lambda tp=tp: self._write(tp))  # type: ignore[misc]
        self._next_fault(self.timeline.now + plan.trouble)
        self.timeline.after(plan.trouble, self._heal)
        end = self.timeline.now + plan.trouble + PATIENCE
        while not self._finished() and self.timeline.next_at < end:
            self.world.step()
            self._look()
        self._conclude()

    # ---- who reads

    def join(self) -> None:
        """Another member starts."""
        member = Member(self, len(self.members) + 1, self._instances.pop(0) if self._instances else None)
        self.members.append(member)
        member.begin()

    def living(self) -> list[Member]:
        """The members that run and are to go on."""
        return [m for m in self.members if m.alive and not m.ending]

    def freed(self, instance: str | None) -> None:
        """A static member's process ended: the next one takes its place."""
        if instance is not None:
            self._instances.insert(0, instance)

    def transport(self, max_frame: int, helper: Any, post: Any) -> VirtualTransport:
        """The sockets of a member's client."""
        member = next(m for m in self.members if m.process is self.world.me().process)
        member.transport = VirtualTransport(self.world, member.weather, max_frame, lambda transport: None)
        return member.transport

    # ---- who writes

    def _write(self, tp: TopicPartition) -> None:
        count = min(self._left[tp], self.random.choice((1, 3, 10)))
        records = [
            WireRecord(
                timestamp_ms=1_000 + n,
                key=self.random.choice((None, b"", b"k%d" % n)),
                value=b"%s|%d|" % (str(tp).encode(), self.written + n) + b"." * self.random.choice((0, 40, 300)),
                headers=self.random.choice(((), (), (("h", b"1"), ("i", None)))),
            )
            for n in range(count)
        ]
        base = self.cluster.append(*tp, records, codec=self.random.choice((0, 0, 1, 3)), gap=self.random.choice((0, 0, 0, 2)))
        for n, record in enumerate(records):
            self.values[tp][base + n] = record
        self.written += count
        self._left[tp] -= count
        if self._left[tp]:
            pace = self.plan.trouble / self.plan.records
            self.timeline.after(self.random.expovariate(1 / pace) * count, lambda: self._write(tp))

    # ---- faults

    def states(self) -> set[str]:
        """What its members are in the middle of."""
        return {m.state() for m in self.living()} or {"nobody"}

    def weathers(self) -> list[Weather]:
        """Each living member is a process."""
        return [m.weather for m in self.members if m.alive]

    def grown(self, tp: TopicPartition) -> None:
        """Somebody writes into the new partition."""
        self._left[tp] = 10
        self._write(tp)

    def _heal(self) -> None:
        super()._heal()
        for member in self.members:  # those that are closing, too
            member.weather.clear()
        if not self.living():
            self.join()

    # ---- looking

    def _look(self) -> None:
        group = self.cluster.groups.get(GROUP)
        while group is not None and self._generation < len(group.history):
            self._look_at_assignment(*group.history[self._generation])
            self._generation += 1

    def _look_at_assignment(self, generation: int, assignments: dict[str, bytes]) -> None:
        dealt = [tp for data in assignments.values() for tp in assigned_partitions(data)]
        if len(dealt) != len(set(dealt)):
            raise Broken("one owner per generation", f"generation {generation}: {sorted(dealt)}")

    def _partitions(self) -> list[TopicPartition]:
        return [p.tp for t in self.cluster.topics.values() for p in t.partitions]

    def _finished(self) -> bool:
        if not self.healed or any(self._left.values()):
            return False
        return all(self._all_read(tp) for tp in self._partitions()) and not any(m.alive and m.ending for m in self.members)

    def _all_read(self, tp: TopicPartition) -> bool:
        if self.latest and self.ledger.most.get(tp, -1) < 0:
            return True  # everything may have been written before anybody read there
        return self.ledger.last.get(tp, 0) >= self._end(tp)

    def _end(self, tp: TopicPartition) -> int:
        """What must be committed in the end: everything behind the last record."""
        log = self.cluster.log(*tp)
        return log.end_offset if log.end_offset > log.start_offset else 0

    def _conclude(self) -> None:
        if not self._finished():
            open_ones = {str(tp): (self.ledger.last.get(tp), self.ledger.done_below(tp), self._end(tp)) for tp in self._partitions()}
            status = [(m.number, m.ending, m.status()) for m in self.members if m.alive]
            raise Broken("progress", f"(committed, finished, end): {open_ones}; {status}")
        seconds = self.seconds
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > (20 + limit * seconds) * len(self.members):
                raise Broken("no hot loop", f"{self.cluster.requests[name]} {name} requests in {seconds:.3f} s")
