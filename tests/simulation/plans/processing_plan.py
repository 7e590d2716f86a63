"""Schedules of processing: members of a group that run `Consumer.process` or `Consumer.streams`, end, are killed and start again, while
handlers are slow and raise, and brokers and network fail.

Promises: a committed offset never passes a record that is not finished, whoever commits; what is in hand is bounded; what has an order is
handled one after the other, in that order; a run that is asked to end does; and when everything heals, every record is finished and
committed. With auto_offset_reset="latest" that holds from the first offset on that was committed of a partition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, ClassVar, Final

import attrs

from pykafka4.producer import Producer
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.consumer_plan import CONSUMER_FAULTS, GROUP, RECOVERING
from tests.simulation.plans.producer_plan import QUICK
from tests.simulation.plans.schedule import Schedule
from tests.simulation.users.processors import DEAD, Processor
from tests.simulation.world.weather import Climate, VirtualTransport, Weather

__all__ = ["PROCESSING_FAULTS", "ProcessingPlan", "ProcessingReport", "ProcessingSimulation", "draw_processing"]

SLACK_S: Final = 1.0
PATIENCE_S: Final = 60.0  # virtual seconds after healing in which every record must be finished and committed
LOOK_S: Final = 0.3  # seconds between looks at processes that have ended
SHARED: Final = (
    *("move leader", "no leader", "broker stops", "broker freezes", "network is dark", "connection is cut", "all connections are cut"),
    *("metadata is stale", "fetch fault", "fetch error", "group fault", "group error", "coordinator moves", "offsets error"),
)


def _kill(sim: ProcessingSimulation) -> None:
    if living := sim.living():
        sim.random.choice(living).die()


def _stop(sim: ProcessingSimulation) -> None:
    if living := sim.living():
        sim.random.choice(living).stop()


PROCESSING_FAULTS: Final[dict[str, Callable[[Any], None]]] = {
    **{name: CONSUMER_FAULTS[name] for name in SHARED},
    "a process is killed": _kill,
    "a process ends": _stop,
}


@attrs.frozen
class ProcessingPlan:
    """What a schedule is of."""

    seed: int
    options: dict[str, Any]
    producer: dict[str, Any]
    release: str
    protocol: str  # "classic" or "consumer"
    topics: dict[str, int]
    trouble: float
    fault_interval: float
    faults: tuple[str, ...]
    climate: Climate
    preempt: float
    how: tuple[str, ...]  # of each member: "process" or "streams"
    by: str
    workers: int  # or streams of each topic
    retries: int
    dead_letters: bool
    most_in_hand: int
    records: int
    keys: int
    work: float  # mean seconds for a record
    wrong: float  # how likely a handler raises
    sends: float  # how likely a record is finished only when something is acknowledged
    lifetime: float  # mean seconds until a process ends by itself
    listener_commits: bool


def draw_processing(seed: int) -> ProcessingPlan:
    """The plan of `seed`."""
    r = Random(seed ^ 0x9C)
    protocol = r.choice(("classic", "consumer"))
    classic = {"partition_assignment_strategy": r.choice((["range"], ["cooperative-sticky"], ["range", "cooperative-sticky"]))}
    plan = ProcessingPlan(
        seed=seed,
        options={
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            **(classic if protocol == "classic" else {"group_protocol": "consumer"}),
            **({"session_timeout_ms": 3_000, "heartbeat_interval_ms": r.choice((200, 1_000))} if protocol == "classic" else {}),
            "max_poll_interval_ms": r.choice((4_000, 300_000)),
            "max_poll_records": r.choice((1, 10, 500)),
            "fetch_max_wait_ms": r.choice((50, 300)),
            **RECOVERING,
        },
        producer={**QUICK, "linger_ms": 0, "delivery_timeout_ms": r.choice((1_000, 60_000))},
        release="4.4",
        protocol=protocol,
        topics={"t": r.choice((1, 3, 6)), **({"u": r.choice((1, 2))} if r.random() < 0.4 else {})},
        trouble=r.choice((3.0, 8.0, 15.0)),
        fault_interval=r.choice((0.2, 0.6, 2.0)),
        faults=tuple(name for name in PROCESSING_FAULTS if r.random() < 0.4) or ("a process is killed",),
        climate=Climate(delay=r.choice(((0.0002, 0.002), (0.001, 0.02)))),
        preempt=r.choice((0.0, 0.05, 0.2)),
        how=tuple(r.choice(("process", "streams")) for _ in range(r.choice((1, 2, 3)))),
        by=r.choice(("key", "partition")),
        workers=r.choice((1, 2, 4)),
        retries=r.choice((0, 2)),
        dead_letters=r.random() < 0.5,
        most_in_hand=r.choice((1, 10, 10_000)),
        records=r.choice((30, 100, 200)),
        keys=r.choice((1, 5, 1_000)),
        work=r.choice((0.001, 0.01, 0.1)),
        wrong=r.choice((0.0, 0.01, 0.1)),
        sends=r.choice((0.0, 0.3)),
        lifetime=r.choice((2.0, 6.0, 1_000.0)),
        listener_commits=r.random() < 0.5,
    )
    return attrs.evolve(plan, options={**plan.options, "auto_offset_reset": r.choice(("earliest", "earliest", "latest"))})


@attrs.frozen(kw_only=True)
class ProcessingReport:
    """What a schedule came to."""

    seed: int
    seconds: float
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]
    features: Counter[str]  # how often records were begun, finished, begun again, committed, and dead letters


class ProcessingSimulation(Schedule[ProcessingPlan, ProcessingReport]):
    """One schedule of processing."""

    all_faults: ClassVar = PROCESSING_FAULTS
    group: ClassVar = GROUP

    def __init__(self, seed: int, *, plan: ProcessingPlan | None = None, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw_processing(seed), trace)
        self._weathers: list[Weather] = []
        coordinators = self.cluster.coordinators
        coordinators.session_timeout, coordinators.heartbeat_interval = 3.0, 0.3
        self.cluster.create_topic("out", 1)
        self.cluster.create_topic(DEAD, 1)
        self.cluster.on_commit.append(self._committed)
        self.processors: list[Processor] = []
        self._slots: list[Processor | None] = [None] * len(self.plan.how)
        self._finished: dict[TopicPartition, set[int]] = defaultdict(set)
        self._checked: dict[TopicPartition, int] = {}  # everything before is finished
        self._letters = 0  # dead letters that were counted
        self._counts: Counter[str] = Counter()
        self._sent = self._over = False
        self._latest = self.plan.options["auto_offset_reset"] == "latest"

    # ---- what runs

    def transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        """The sockets of a client."""
        self._weathers.append(Weather(self.timeline, self.random, self.cluster, self.plan.climate, self.note))
        made = VirtualTransport(self.world, self._weathers[-1], max_frame, lambda transport: None)
        for processor in self.processors:
            if processor.process is self.world.me().process:
                processor.transports.append(made)
        return made

    def _run(self) -> None:
        self.world.spawn(self._send, "sender")
        self._look_at_processes()
        self._next_fault(self.timeline.now + self.plan.trouble)
        self.timeline.after(self.plan.trouble, self._heal)
        limit = self.timeline.now + self.plan.trouble + PATIENCE_S
        while not self._over and self.timeline.next_at < limit:
            self.world.step()
        if not self._over:
            states = {processor.id: processor.state for processor in self.processors if not processor.over}
            raise Broken("every record is finished and committed", f"records are left: {self._left()}; {states}")

    def _send(self) -> None:
        with Producer(bootstrap_servers=self.servers, **QUICK) as producer:
            for number in range(self.plan.records):
                topic = self.random.choice(sorted(self.plan.topics))
                producer.send(topic, b"%d" % number, key=b"%d" % self.random.randrange(self.plan.keys))
                if self.random.random() < 0.1:
                    self.world.sleep(self.random.random() * (1.0 if self._latest else 0.3))
        self._sent = True

    def _look_at_processes(self) -> None:
        """Start those that have ended again."""
        for at, processor in enumerate(self._slots):
            if (processor is None or processor.over) and not self.drained():
                started = self._slots[at] = Processor(self, len(self.processors) + 1, self.plan.how[at])
                self.processors.append(started)
                started.begin()
        self._over = self.drained() and all(processor is None or processor.over for processor in self._slots)
        self.timeline.after(LOOK_S, self._look_at_processes)

    def living(self) -> list[Processor]:
        """The processes that run."""
        return [processor for processor in self.processors if not processor.over]

    def work(self) -> float:
        """Seconds for a record."""
        return self.random.expovariate(1 / (0.001 if self.healed else self.plan.work))

    def drained(self) -> bool:
        """Whether every record is finished and committed, and nothing goes wrong any more."""
        return self.healed and self._sent and not self._left()

    def _left(self) -> dict[str, str]:
        """For each partition that is not committed to its end: how far it is."""
        stored = self.cluster.group(GROUP).offsets
        ends = {tp: self.cluster.log(*tp).end_offset for tp in self._partitions()}
        offsets = {tp: stored[tp].offset if tp in stored else -1 for tp in ends}
        return {str(tp): f"{offsets[tp]} of {end}" for tp, end in ends.items() if offsets[tp] < end}

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(name, number) for name, count in self.plan.topics.items() for number in range(count)]

    # ---- what must be true

    def begun(self, processor: Processor, record: Record, lane: Hashable) -> None:
        """A process begins with a record."""
        tp, offset = TopicPartition(record.topic, record.partition), record.offset
        self._counts["begun"] += 1
        self._counts["begun again"] += offset in self._finished[tp]
        self.note(f"{processor.id} begins with {tp} at {offset}")
        if (other := processor.running.get(lane)) is not None:
            raise Broken(
                "one record of a key or partition at a time", f"{processor.id} begins with {tp} at {offset}, beside {other.offset}"
            )
        processor.running[lane] = record
        if lane == tp:
            before = processor.reached.get(tp)
            if before is not None and offset not in (before, before + 1):
                raise Broken("records are handled in order", f"{processor.id} begins with {tp} at {offset}, after {before}")
            processor.reached[tp] = offset

    def finished(self, record: Record) -> None:
        """A record is finished, whoever has finished it."""
        self._counts["finished"] += 1
        self._finished[TopicPartition(record.topic, record.partition)].add(record.offset)

    def polled(self, processor: Processor) -> None:
        """A process has got records."""
        self._count_letters()
        most = 3 * self.plan.most_in_hand + len(self._partitions()) + self.plan.workers * len(self.plan.topics)
        held = 0
        for tp, offsets in processor.polled.items():
            while offsets and offsets[0] in self._finished[tp]:
                offsets.popleft()
            held += len(offsets)
        self._counts["most in hand"] = max(self._counts["most in hand"], held)
        if held > most:
            raise Broken("records in hand are bounded", f"{processor.id} has {held} in hand, of {self.plan.most_in_hand}")

    def _committed(self, group: str, tp: TopicPartition, offset: int, told: bool) -> None:
        """The coordinator has stored an offset."""
        self.note(f"committed: {tp} {offset}")
        self._counts["committed"] += 1
        self._count_letters()
        before = self._checked.get(tp, offset if self._latest else 0)
        if missing := [number for number in range(before, offset) if number not in self._finished[tp]]:
            raise Broken("a commit passes no unfinished record", f"{tp}: {offset} is committed, but {missing[:5]} are not finished")
        if offset < before:
            raise Broken("committed offsets do not go back", f"{tp}: {offset} is committed after {before}")
        self._checked[tp] = offset

    def _count_letters(self) -> None:
        """Records that are dead letters are finished."""
        letters = self.cluster.records(DEAD)
        for letter in letters[self._letters :]:
            about = dict(letter.headers)
            tp = TopicPartition((about["dead_letter.topic"] or b"").decode(), int(about["dead_letter.partition"] or b""))
            self._finished[tp].add(int(about["dead_letter.offset"] or b""))
        self._counts["dead letters"] += len(letters) - self._letters
        self._letters = len(letters)

    def ended(self, name: str, took: float, limit: float) -> None:
        """A run of `process`, or streams, that was asked to end has."""
        self._counts["ended"] += 1
        if took > limit + SLACK_S:
            raise Broken("runs end when they are asked to", f"the run of {name} went on for {took:.3f} s, of {limit:g}")

    def closed(self, name: str, took: float, limit: float) -> None:
        """A consumer was closed."""
        if took > limit + SLACK_S:
            raise Broken("runs end when they are asked to", f"the close of {name} took {took:.3f} s, of {limit:g}")

    def _report(self) -> ProcessingReport:
        return ProcessingReport(
            seed=self.plan.seed, seconds=self.seconds, requests=self.cluster.requests, coverage=self.coverage, features=self._counts
        )

    def states(self) -> set[str]:
        """What the processes are in the middle of."""
        return {f"{processor.how}: {processor.state}" for processor in self.living()}

    def weathers(self) -> list[Weather]:
        """Of all clients so far."""
        return self._weathers

    def grown(self, tp: TopicPartition) -> None:
        """No partitions are added."""
