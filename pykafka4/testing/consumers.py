"""Consumers under a schedule. Rule: what the application was given and what the group has stored are compared with the logs, all the time.

The real application side (`consumer.session`) runs on a virtual loop; each member is a process of its own that polls, is slow, commits,
closes, or dies. Records are put into the logs by somebody else, some of them with gaps before them as compaction leaves them.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any, Final, TextIO

import attrs

from pykafka4.config import ClientConfig
from pykafka4.consumer.session import Session
from pykafka4.core.assignors import assigned_partitions
from pykafka4.errors import GroupError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.testing.driver import Driver, VirtualClient
from pykafka4.testing.faults import Fault
from pykafka4.testing.invariants import Broken
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.timeline import Timeline
from pykafka4.testing.weather import Climate
from pykafka4.wire.batch import WireRecord
from pykafka4.wire.hot import Record
from pykafka4.wire.messages_cluster import FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.messages_data import FetchRequest, ListOffsetsRequest
from pykafka4.wire.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

__all__ = ["CONSUMER_FAULTS", "ConsumerPlan", "ConsumerReport", "ConsumerSimulation", "draw_consumers"]

GROUP: Final = "g"
PATIENCE: Final = 180.0  # virtual seconds after healing in which everything must be read and committed
REQUESTS_PER_SECOND: Final = {
    "Metadata": 25,
    "ApiVersions": 90,
    "FindCoordinator": 25,
    "JoinGroup": 40,
    "OffsetFetch": 40,
    "ListOffsets": 40,
}


@attrs.frozen(kw_only=True)
class ConsumerPlan:
    """One schedule of consumers."""

    seed: int
    options: dict[str, Any]
    release: str
    topics: dict[str, int]
    members: int
    records: int  # per partition
    trouble: float
    fault_interval: float
    faults: tuple[str, ...]
    climate: Climate
    restarts: float  # how likely a member that ends comes again


def draw_consumers(seed: int) -> ConsumerPlan:
    """The plan of `seed`."""
    r = Random(seed)
    names = [name for name in CONSUMER_FAULTS if r.random() < 0.4] or [r.choice(sorted(CONSUMER_FAULTS))]
    return ConsumerPlan(
        seed=seed,
        options=_options(r),
        release=r.choice(("4.4", "4.4", "4.0", "3.9", "2.8", "2.1", "0.11")),
        topics={"t": r.choice((1, 2, 4)), **({"u": r.choice((1, 3))} if r.random() < 0.5 else {})},
        members=r.choice((1, 1, 2, 3)),
        records=r.choice((20, 60, 150)),
        trouble=r.choice((3.0, 8.0, 20.0)),
        fault_interval=r.choice((0.2, 0.6, 2.0)),
        faults=tuple(sorted(names)),
        climate=Climate(
            delay=r.choice(((0.0002, 0.002), (0.001, 0.02), (0.0, 0.1))),
            refused=r.choice((0.0, 0.0, 0.2)),
            unanswered=r.choice((0.0, 0.0, 0.05)),
            leak=r.choice((0.0, 0.9)),
        ),
        restarts=r.choice((0.0, 1.0)),
    )


def _options(r: Random) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": r.random() < 0.6,
        "auto_commit_interval_ms": r.choice((100, 1_000)),
        "session_timeout_ms": r.choice((3_000, 10_000)),
        "heartbeat_interval_ms": r.choice((200, 1_000)),
        "max_poll_interval_ms": r.choice((4_000, 300_000)),
        "fetch_max_wait_ms": r.choice((50, 500)),
        "max_partition_fetch_bytes": r.choice((300, 2_000, 1_000_000)),
        "fetch_max_bytes": r.choice((1_000, 1_000_000)),
        "prefetch_bytes": r.choice((1_000, 1_000_000)),
        "max_poll_records": r.choice((1, 7, 500)),
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
            return  # executed after the client had given the connection up: it may have committed more meanwhile, nobody can prevent that
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
        except GroupError as error:
            self.sim.note(f"m{self.number} poll: {error}")
            return
        self._take(records)
        if records and not self.session.config.enable_auto_commit:
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
        with contextlib.suppress(GroupError, KafkaTimeoutError):
            self.session.commit_async(None, None)

    # ---- its ends

    def close(self) -> None:
        """The application closes the consumer."""
        if self.alive and not self.busy:
            self.sim.note(f"m{self.number} closes")
            self.alive = False
            self.session.close(5.0)
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


class ConsumerSimulation:
    """One schedule of a consumer group."""

    def __init__(self, seed: int, *, plan: ConsumerPlan | None = None, story: Callable[[str], None] | None = None) -> None:
        self.plan = plan = plan or draw_consumers(seed)
        self.random = Random(seed ^ 0x5EED)
        self.timeline = Timeline(1000.0)
        self._story = story
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.cluster = ModelCluster(3, random=Random(seed ^ 0xB0), timeline=self.timeline, release=plan.release)
        self.cluster.on_request = self.note
        for name, count in plan.topics.items():
            self.cluster.create_topic(name, count)
        self.servers = ",".join(f"{b.host}:{b.port}" for b in self.cluster.brokers.values())
        self.ledger = Ledger(self.cluster)
        self.values: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self.members: list[Process] = []
        self.written = 0
        self._left: dict[TopicPartition, int] = {}
        self._healed = False
        self._generation = 0

    def run(self) -> ConsumerReport:
        """Until everything is read and committed. Broken names the promise that was not kept."""
        try:
            self._run()
        except Exception as error:
            error.add_note(f"seed {self.plan.seed}: ConsumerSimulation.replay({self.plan.seed}) tells the whole story")
            raise
        return ConsumerReport(
            seed=self.plan.seed,
            handed=self.ledger.handed,
            written=self.written,
            generations=self._generation,
            seconds=self.timeline.now - 1000.0,
            requests=self.cluster.requests,
            coverage=self.coverage,
        )

    @classmethod
    def replay(cls, seed: int, *, out: TextIO = sys.stdout, **options: Any) -> ConsumerReport:
        """Run the schedule of `seed` and tell what happens."""
        told = cls(seed, story=lambda line: print(line, file=out), **options)
        print(told.plan, file=out)
        return told.run()

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

    def _next_fault(self, until: float) -> None:
        at = self.timeline.now + self.random.expovariate(1 / self.plan.fault_interval)
        if at < until:
            self.timeline.at(at, lambda: self._fault(until))

    def _fault(self, until: float) -> None:
        name = self.random.choice(self.plan.faults)
        for state in {m.session.member.group.state.name.lower() for m in self.living()} or {"nobody"}:
            self.coverage[name, state] += 1
        CONSUMER_FAULTS[name](self)
        self._next_fault(until)

    def _heal(self) -> None:
        self.note("everything heals")
        self._healed = True
        self.cluster.heal()
        for member in self.members:
            member.driver.weather.clear()
        if not self.living():
            self.join()

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
            self._story(f"{self.timeline.now - 1000:10.5f}  {line}")

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
        seconds = self.timeline.now - 1000.0
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > (20 + limit * seconds) * len(self.members):
                raise Broken("no hot loop", f"{self.cluster.requests[name]} {name} requests in {seconds:.3f} s")


# ---- what goes wrong


def _move_leader(sim: ConsumerSimulation) -> None:
    tp = sim.some_partition()
    sim.note(f"leader of {tp} moves to {sim.cluster.move_leader(*tp)}")


def _orphan(sim: ConsumerSimulation) -> None:
    tp = sim.some_partition()
    sim.note(f"{tp} has no leader")
    sim.cluster.orphan(*tp, sim.random.uniform(0.05, 2.0))


def _stop_broker(sim: ConsumerSimulation) -> None:
    node = sim.some_node()
    sim.note(f"broker {node} stops")
    sim.cluster.stop_broker(node, failover=sim.random.uniform(0.0, 1.5))
    sim.timeline.after(sim.random.uniform(0.2, 4.0), lambda: sim.cluster.start_broker(node))


def _freeze_broker(sim: ConsumerSimulation) -> None:
    node = sim.some_node()
    sim.note(f"broker {node} freezes")
    sim.cluster.freeze(node, sim.random.uniform(0.05, 5.0))


def _slow_broker(sim: ConsumerSimulation) -> None:
    node = sim.some_node()
    sim.note(f"broker {node} is slow")
    sim.cluster.slow(node, sim.random.uniform(0.01, 0.3))
    sim.timeline.after(sim.random.uniform(0.1, 3.0), lambda: sim.cluster.slow(node, 0.0))


def _cut(sim: ConsumerSimulation) -> None:
    paths = [p for m in sim.living() for p in m.driver.weather.open_paths()]
    if paths:
        path = sim.random.choice(paths)
        path.weather.cut(path)


def _cut_all(sim: ConsumerSimulation) -> None:
    for path in [p for m in sim.living() for p in m.driver.weather.open_paths()]:
        path.weather.cut(path)


def _dark(sim: ConsumerSimulation) -> None:
    node = sim.some_node()
    sim.note(f"nothing gets through to broker {node}")
    for member in sim.living():
        member.driver.weather.darken(node, sim.random.uniform(0.1, 4.0))


def _stale_metadata(sim: ConsumerSimulation) -> None:
    sim.note("metadata is stale")
    sim.cluster.stale_metadata(sim.random.uniform(0.1, 3.0))


def _hide_topic(sim: ConsumerSimulation) -> None:
    topic = sim.some_partition().topic
    sim.note(f"metadata hides {topic}")
    sim.cluster.hide_topic(topic, sim.random.uniform(0.1, 3.0))


def _fetch_fault(sim: ConsumerSimulation) -> None:
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.DROP_MIDWAY, Fault.SWALLOW, Fault.DELAY_REPLY))
    sim.note(f"the next Fetch: {fault.value}")
    sim.cluster.inject(FetchRequest, fault, seconds=sim.random.uniform(0.1, 3.0))


FETCH_ERRORS: Final = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "REPLICA_NOT_AVAILABLE",
    "UNKNOWN_SERVER_ERROR",
)
COORDINATOR_ERRORS: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
MEMBER_ERRORS: Final = (*COORDINATOR_ERRORS, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
GROUP_ERRORS: Final[dict[Any, tuple[str, ...]]] = {
    FindCoordinatorRequest: ("COORDINATOR_NOT_AVAILABLE",),
    JoinGroupRequest: (*COORDINATOR_ERRORS, "UNKNOWN_MEMBER_ID"),
    SyncGroupRequest: MEMBER_ERRORS,
    HeartbeatRequest: MEMBER_ERRORS,
    OffsetCommitRequest: (*MEMBER_ERRORS, "REQUEST_TIMED_OUT"),
    OffsetFetchRequest: COORDINATOR_ERRORS,
    LeaveGroupRequest: COORDINATOR_ERRORS,
}


def _fetch_error(sim: ConsumerSimulation) -> None:
    tp, error = sim.some_partition(), sim.random.choice(FETCH_ERRORS)
    sim.note(f"{tp} answers {error}")
    sim.cluster.push_error(FetchRequest, error, topic=tp.topic, partition=tp.partition, times=sim.random.choice((1, 3)))


def _offsets_error(sim: ConsumerSimulation) -> None:
    tp, error = sim.some_partition(), sim.random.choice(("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"))
    sim.note(f"ListOffsets of {tp} answers {error}")
    sim.cluster.push_error(ListOffsetsRequest, error, topic=tp.topic, partition=tp.partition)


def _group_error(sim: ConsumerSimulation) -> None:
    api = sim.random.choice(list(GROUP_ERRORS))
    error = sim.random.choice(GROUP_ERRORS[api])
    sim.note(f"the next {api.__name__} is answered {error}")
    sim.cluster.push_error(api, error)


def _group_fault(sim: ConsumerSimulation) -> None:
    api = sim.random.choice(list(GROUP_ERRORS))
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.SWALLOW, Fault.DELAY, Fault.DELAY_REPLY))
    sim.note(f"the next {api.__name__}: {fault.value}")
    sim.cluster.inject(api, fault, seconds=sim.random.uniform(0.1, 3.0))


def _metadata_fault(sim: ConsumerSimulation) -> None:
    sim.note("the next Metadata goes wrong")
    sim.cluster.inject(MetadataRequest, sim.random.choice((Fault.DROP_BEFORE, Fault.SWALLOW)))


def _move_coordinator(sim: ConsumerSimulation) -> None:
    sim.note(f"the coordinator moves to {sim.cluster.move_coordinator(GROUP, loading=sim.random.choice((0.0, 0.5)))}")


def _more_partitions(sim: ConsumerSimulation) -> None:
    topic = sim.some_partition().topic
    count = len(sim.cluster.topics[topic].partitions)
    if count < 6:
        sim.note(f"{topic} grows to {count + 1} partitions")
        sim.cluster.add_partitions(topic, count + 1)
        sim._left[TopicPartition(topic, count)] = 10
        sim._write(TopicPartition(topic, count))


def _retention(sim: ConsumerSimulation) -> None:
    tp = sim.some_partition()
    log = sim.cluster.log(*tp)
    to = (log.start_offset + log.end_offset) // 2
    sim.note(f"{tp} is cut: it begins at {to}")
    log.delete_before(to)


def _join(sim: ConsumerSimulation) -> None:
    if len(sim.living()) < 4 and len(sim.members) < 10:
        sim.join()


def _close(sim: ConsumerSimulation) -> None:
    _end(sim, Process.close)


def _die(sim: ConsumerSimulation) -> None:
    _end(sim, Process.die)


def _end(sim: ConsumerSimulation, how: Callable[[Process], None]) -> None:
    living = sim.living()
    if living:
        how(sim.random.choice(living))
        if sim.random.random() < sim.plan.restarts and len(sim.members) < 10:
            sim.timeline.after(sim.random.uniform(0.0, 2.0), sim.join)


CONSUMER_FAULTS: Final[dict[str, Callable[[ConsumerSimulation], None]]] = {
    "move leader": _move_leader,
    "no leader": _orphan,
    "broker stops": _stop_broker,
    "broker freezes": _freeze_broker,
    "broker is slow": _slow_broker,
    "connection is cut": _cut,
    "all connections are cut": _cut_all,
    "network is dark": _dark,
    "metadata is stale": _stale_metadata,
    "topic is hidden": _hide_topic,
    "fetch fault": _fetch_fault,
    "fetch error": _fetch_error,
    "offsets error": _offsets_error,
    "group error": _group_error,
    "group fault": _group_fault,
    "metadata fault": _metadata_fault,
    "coordinator moves": _move_coordinator,
    "more partitions": _more_partitions,
    "retention": _retention,
    "member joins": _join,
    "member closes": _close,
    "member dies": _die,
}
