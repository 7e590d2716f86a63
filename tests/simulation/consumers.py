"""Consumers under a schedule. Rule: what the application was given and what the group has stored are compared with the logs, all the time.

The real application side (`consumer.session`) runs on a virtual loop; each member is a process of its own that polls, is slow, commits,
closes, or dies. Records are put into the logs by somebody else, some of them with gaps before them as compaction leaves them.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

import attrs
from consumer_plan import CONSUMER_FAULTS, GROUP, ConsumerPlan, draw_consumers
from driver import Driver, VirtualClient
from invariants import Broken
from schedule import Schedule
from weather import Weather

from pykafka4.config import ClientConfig
from pykafka4.consumer.session import Session
from pykafka4.core.assignors import assigned_partitions
from pykafka4.errors import ConnectionLost, GroupError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.testing.model import ModelCluster
from pykafka4.wire.batch import WireRecord
from pykafka4.wire.hot import Record

__all__ = ["ConsumerReport", "ConsumerSimulation", "Process"]

COMMIT_AGAIN: Final = (
    5.0  # virtual seconds without records; nobody but the application repeats a commit that found no coordinator in its time
)
PATIENCE: Final = 180.0  # virtual seconds after healing in which everything must be read and committed
REQUESTS_PER_SECOND: Final = {
    "Metadata": 25,
    "ApiVersions": 90,
    "FindCoordinator": 25,
    "JoinGroup": 40,
    "OffsetFetch": 40,
    "ListOffsets": 40,
}


CLIENT_OPTIONS: Final = {
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_ms": 20,
    "metadata_max_age_ms": 3_000,
}


class Ledger:
    """What was handed out and finished, and what the group may therefore store."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self.finished: dict[TopicPartition, set[int]] = defaultdict(set)
        self.committed: dict[TopicPartition, int] = {}
        self.handed = 0
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

    def _after(self, tp: TopicPartition, offset: int) -> list[WireRecord]:
        log = self._cluster.log(*tp)
        batches = [b for b in log.batches if b.next_offset > offset]
        return [r for b in batches for r in log.records_in(b) if r.offset >= offset]

    def next_in_log(self, tp: TopicPartition, offset: int) -> int | None:
        """The offset of the first record at `offset` or later."""
        return next((r.offset for r in self._after(tp, offset)), None)

    def _committed(self, group: str, tp: TopicPartition, offset: int, awaited: bool) -> None:
        before = self.committed.get(tp, -1)
        if offset > self.done_below(tp):
            raise Broken("nothing unfinished is committed", f"{tp}: {offset} is committed, record {self.done_below(tp)} is not finished")
        if not awaited:
            # Executed after the client had given the connection up: it may have committed more meanwhile, nobody can prevent that. Whoever
            # asks now begins at what is stored now.
            self.committed[tp] = min(before, offset)
            return
        if offset < before:
            raise Broken("commits never go back", f"{tp}: {offset} after {before}")
        self.committed[tp] = offset


class Process:
    """One member: an application process with a consumer in it."""

    def __init__(self, sim: ConsumerSimulation, number: int) -> None:
        self.sim, self.number = sim, number
        config = ClientConfig.parse({"bootstrap_servers": sim.servers, "client_id": f"m{number}", **CLIENT_OPTIONS})
        self.driver = Driver(config, sim.cluster, sim.random, sim.plan.seed + number, sim.plan.climate, note=sim.note)
        self.session = Session(VirtualClient(config, self.driver), None, dict(sim.plan.options))
        self.owned: dict[TopicPartition, int | None] = {}  # partition: offset after the last record handed out
        self.in_hand: list[Record] = []
        self.alive = True
        self.busy = False
        self._commit_again_at = sim.timeline.now + COMMIT_AGAIN
        self.session.subscribe(sorted(sim.plan.topics), self)

    # ---- the listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They are ours."""
        self.sim.note(f"m{self.number} gets {[str(tp) for tp in partitions]}")
        for tp in partitions:
            if tp in self.owned:
                raise Broken("listeners are told the truth", f"{tp} is assigned twice")
            self.owned[tp] = None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """They are not ours any more, unless this one was never told."""
        self.sim.note(f"m{self.number} gives back {[str(tp) for tp in partitions]}")
        for tp in partitions:
            if tp not in self.owned:
                raise Broken("listeners are told the truth", f"{tp} is revoked and was not assigned")
            del self.owned[tp]

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Somebody else may have them."""
        self.sim.note(f"m{self.number} loses {[str(tp) for tp in partitions]}")
        for tp in partitions:
            self.owned.pop(tp, None)

    # ---- its main loop

    def begin(self) -> None:
        """Start to poll."""
        self.sim.timeline.after(self.sim.random.random() * 0.1, self._poll)

    def _poll(self) -> None:
        if not self.alive:
            return
        if self.busy:  # a close further down the stack moved time on to here
            self.sim.timeline.after(0.01, self._poll)
            return
        self.busy = True
        try:
            self._one_poll()
        finally:
            self.busy = False
        if self.alive:
            self.sim.timeline.after(self.sim.pause(len(self.in_hand)), self._poll)

    def _one_poll(self) -> None:
        self._finish()
        try:
            records = self.session.poll(0.0)
        except (GroupError, ConnectionLost) as error:
            # A broker that was not understood twice in a row is named once, and asked again.
            if isinstance(error, ConnectionLost) and "answer damaged" not in self.sim.plan.faults:
                raise
            self.sim.note(f"m{self.number} poll: {error}")
            return
        self._take(records)
        if not self.session.config.enable_auto_commit and (records or self.sim.timeline.now > self._commit_again_at):
            self._commit()

    def _finish(self) -> None:
        for record in self.in_hand:
            self.sim.ledger.finished[TopicPartition(record.topic, record.partition)].add(record.offset)
        self.in_hand = []

    def _take(self, records: list[Record]) -> None:
        self.in_hand = records
        self.sim.ledger.handed += len(records)
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            if tp not in self.owned:
                raise Broken(
                    "records of owned partitions only", f"m{self.number} gets {tp} offset {record.offset} and owns {sorted(self.owned)}"
                )
            self._follow(tp, record)

    def _follow(self, tp: TopicPartition, record: Record) -> None:
        """It must be the next in the log; the first of an assignment may lie before that, not behind a record that nobody finished."""
        log, ledger = self.sim.cluster.log(*tp), self.sim.ledger
        before = self.owned[tp]
        expected = ledger.next_in_log(tp, ledger.done_below(tp) if before is None else before)
        wrong = record.offset != expected if before is not None else expected is not None and record.offset > expected
        if wrong and record.offset > log.start_offset:
            raise Broken("positions never skip", f"m{self.number} {tp}: {record.offset} where {expected} is next (after {before})")
        if record.value != self.sim.values[tp].get(record.offset):
            raise Broken("records are what was written", f"{tp} offset {record.offset}: {record.value!r}")
        self.owned[tp] = record.offset + 1

    def _commit(self) -> None:
        self._finish()
        self._commit_again_at = self.sim.timeline.now + COMMIT_AGAIN
        with contextlib.suppress(GroupError, KafkaTimeoutError):
            self.session.commit_async(None, None)

    # ---- its ends

    def close(self) -> None:
        """The application closes the consumer."""
        if self.alive and not self.busy:
            self.sim.note(f"m{self.number} closes")
            self.alive = False
            failed = self.number % 2 == 1  # every other process is interrupted in its work: its list in hand is not finished
            if not failed:
                self._finish()
            self.session.close(5.0, failed=failed)
            self.driver.stop()

    def die(self) -> None:
        """SIGKILL."""
        if self.alive and not self.busy:
            self.sim.note(f"m{self.number} dies")
            self.alive = False
            self.driver.stop()


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
        self.ledger = Ledger(self.cluster)
        self.values: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.members: list[Process] = []
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
            self.timeline.step()
            self._look()
        self._conclude()

    # ---- who reads

    def join(self) -> None:
        """Another member starts."""
        process = Process(self, len(self.members) + 1)
        self.members.append(process)
        process.begin()

    def living(self) -> list[Process]:
        """The members that run."""
        return [m for m in self.members if m.alive]

    def pause(self, records: int) -> float:
        """How long an application works between two polls: now and then for longer than max_poll_interval_ms allows."""
        if not self._healed and self.random.random() > 0.995:
            return self.random.uniform(2.0, 6.0)
        return self.random.choice((0.001, 0.01, 0.05)) if records else self.random.uniform(0.02, 0.3)

    # ---- who writes

    def _write(self, tp: TopicPartition) -> None:
        count = min(self._left[tp], self.random.choice((1, 3, 10)))
        records = [
            WireRecord(
                timestamp_ms=1_000 + n, value=b"%s|%d|" % (str(tp).encode(), self.written + n) + b"." * self.random.choice((0, 40, 300))
            )
            for n in range(count)
        ]
        base = self.cluster.append(*tp, records, codec=self.random.choice((0, 0, 1, 3)), gap=self.random.choice((0, 0, 0, 2)))
        for n, record in enumerate(records):
            self.values[tp][base + n] = record.value or b""
        self.written += count
        self._left[tp] -= count
        if self._left[tp]:
            pace = self.plan.trouble / self.plan.records
            self.timeline.after(self.random.expovariate(1 / pace) * count, lambda: self._write(tp))

    # ---- faults

    def states(self) -> set[str]:
        """What its members are in the middle of."""
        return {m.session.member.group.state.name.lower() for m in self.living()} or {"nobody"}

    def weathers(self) -> list[Weather]:
        """Each living member is a process."""
        return [m.driver.weather for m in self.living()]

    def poke(self) -> None:
        """Members find out by themselves."""

    def grown(self, tp: TopicPartition) -> None:
        """Somebody writes into the new partition."""
        self._left[tp] = 10
        self._write(tp)

    def _heal(self) -> None:
        super()._heal()
        for member in self.members:  # those that are closing, too
            member.driver.weather.clear()
        if not self.living():
            self.join()

    # ---- looking

    def _look(self) -> None:
        for member in self.members:
            member.driver.check_heat(200 * len(self.members))
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
        if not self._healed or any(self._left.values()):
            return False
        return all(self.ledger.committed.get(tp, 0) >= self._end(tp) for tp in self._partitions())

    def _end(self, tp: TopicPartition) -> int:
        """What must be committed in the end: everything behind the last record."""
        log = self.cluster.log(*tp)
        return log.end_offset if log.end_offset > log.start_offset else 0

    def _conclude(self) -> None:
        if not self._finished():
            open_ones = {str(tp): (self.ledger.committed.get(tp), self.ledger.done_below(tp), self._end(tp)) for tp in self._partitions()}
            status = [(m.number, m.session.member.status(self.timeline.now)) for m in self.living()]
            raise Broken("progress", f"(committed, finished, end): {open_ones}; {status}")
        seconds = self.seconds
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > (20 + limit * seconds) * len(self.members):
                raise Broken("no hot loop", f"{self.cluster.requests[name]} {name} requests in {seconds:.3f} s")
