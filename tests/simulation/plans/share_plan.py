"""Schedules of share groups: members that accept, release, reject and renew, come and go, while brokers and network fail.

Promises: a record that a member was told is accepted is not given to anybody afterwards; a record comes again with a higher delivery count,
and at most as often as the group allows; a member is given no record that another one holds at that moment; and when everything heals,
every record is accepted, rejected or archived, and one that waits for the next poll of a slow member stays locked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.producer import Producer
from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import Fault
from pykafka4.testing.shares.records import ShareEvent
from pykafka4.wire.protocol.messages_share import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.producer_plan import FAULTS as PRODUCER_FAULTS
from tests.simulation.plans.producer_plan import QUICK
from tests.simulation.plans.schedule import Schedule
from tests.simulation.users.sharers import Given, Key, Sharer
from tests.simulation.world.weather import Climate, VirtualTransport, Weather

__all__ = ["SharePlan", "ShareReport", "ShareSimulation", "draw_shares"]

SLACK_S: Final = 0.3
FAST_S: Final = 0.001
SETTLED_S: Final = 2.0  # seconds after healing in which errors that were ordered before may still come
PATIENCE_S: Final = 30.0  # virtual seconds after healing in which every record must be final
SHARED: Final = (
    *("move leader", "no leader", "broker stops", "broker freezes", "network is dark", "connection is cut", "all connections are cut"),
    "metadata is stale",
)
APIS: Final = (ShareFetchRequest, ShareAcknowledgeRequest, ShareGroupHeartbeatRequest)
LOSSES: Final = (Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.SWALLOW, Fault.DELAY_REPLY, Fault.DELAY)


def _lost(sim: ShareSimulation) -> None:
    api, fault = sim.random.choice(APIS), sim.random.choice(LOSSES)
    sim.note(f"the next {api.__name__}: {fault.value}")
    sim.cluster.inject(api, fault, seconds=sim.random.uniform(0.1, 1.0), times=sim.random.choice((1, 1, 2)))


def _refused(sim: ShareSimulation) -> None:
    errors = {
        ShareGroupHeartbeatRequest: ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"),
        ShareFetchRequest: (
            "SHARE_SESSION_NOT_FOUND",
            "INVALID_SHARE_SESSION_EPOCH",
            "UNKNOWN_SERVER_ERROR",
            "SHARE_SESSION_LIMIT_REACHED",
        ),
        ShareAcknowledgeRequest: ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "UNKNOWN_SERVER_ERROR"),
    }
    api = sim.random.choice(APIS)
    error = sim.random.choice(errors[api])
    sim.note(f"the next {api.__name__}: {error}")
    sim.cluster.push_error(api, error, times=sim.random.choice((1, 3)))


def _move_coordinator(sim: ShareSimulation) -> None:
    sim.note("another coordinator")
    sim.cluster.coordinators.move("g", loading=sim.random.choice((0.0, 0.5, 2.0)))


FAULTS: Final[dict[str, Callable[[Any], None]]] = {
    **{name: PRODUCER_FAULTS[name] for name in SHARED},
    "a share request is lost": _lost,
    "a share request is refused": _refused,
    "share coordinator moves": _move_coordinator,
}


@attrs.frozen
class SharePlan:
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
    explicit: tuple[bool, ...]  # for each member, whether it acknowledges explicitly
    records: int
    lock: float  # seconds
    work: float  # mean seconds for the records of a poll
    slow: float  # the same after healing; if it is not `FAST_S`, half of the records come then, and polls are for one record
    most_deliveries: int


def draw_shares(seed: int) -> SharePlan:
    """The plan of `seed`."""
    r = Random(seed ^ 0x5A)
    plan = SharePlan(
        seed=seed,
        options={
            **QUICK,
            "request_timeout_ms": r.choice((300, 1_000)),
            "fetch_max_wait_ms": r.choice((50, 300)),
            "max_poll_records": r.choice((1, 10, 500)),
            "max_poll_interval_ms": r.choice((500, 300_000)),
            "share_acquire_mode": r.choice(("batch_optimized", "record_limit")),
        },
        release="4.4",
        topics={"t": r.choice((1, 2, 3))},
        trouble=r.choice((3.0, 6.0)),
        fault_interval=r.choice((0.1, 0.3, 1.0)),
        faults=tuple(name for name in FAULTS if r.random() < 0.5) or ("move leader",),
        climate=Climate(delay=r.choice(((0.0002, 0.002), (0.001, 0.02)))),
        preempt=r.choice((0.0, 0.05)),
        explicit=tuple(r.random() < 0.6 for _ in range(r.choice((1, 2, 3)))),
        records=r.choice((20, 100)),
        lock=r.choice((0.3, 1.0, 5.0)),
        work=r.choice((0.001, 0.05, 0.5)),
        slow=FAST_S,
        most_deliveries=r.choice((3, 5)),
    )
    return attrs.evolve(plan, slow=0.1) if plan.lock == 1.0 and r.random() < 0.5 else plan


@attrs.frozen(kw_only=True)
class ShareReport:
    """What a schedule came to."""

    seed: int
    features: Counter[str]  # what happened to records; "given" and "given again" to members
    seconds: float
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]


class ShareSimulation(Schedule[SharePlan, ShareReport]):
    """One schedule of a share group."""

    all_faults: ClassVar = FAULTS

    def __init__(self, seed: int, *, plan: SharePlan | None = None, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw_shares(seed), trace)
        self._weathers: list[Weather] = []
        self.shares = shares = self.cluster.shares
        shares.auto_offset_reset, shares.lock_seconds, shares.most_deliveries = "earliest", self.plan.lock, self.plan.most_deliveries
        shares.session_timeout, shares.heartbeat_interval = 3.0, 0.3
        shares.on_event.append(self._happened)
        self.sharers = [Sharer(self, number) for number in range(len(self.plan.explicit))]
        self.events: Counter[str] = Counter()
        self.final: dict[Key, str] = {}
        self._acquired: dict[tuple[Key, str], float] = {}  # when the broker has locked a record for a member
        self._lost: dict[tuple[Key, str], float] = {}  # when the broker has ended the lock, if it has
        self._timed_out: set[tuple[Key, str]] = set()  # those that ended because their time was over, which the member knows
        self._since: dict[tuple[Key, str], float] = {}  # the same without renewals
        self._counts: dict[Key, int] = {}  # deliveries, as given
        self._told: dict[Key, Given] = {}  # of whom a member was told that its acceptance is stored
        self._given: dict[Key, list[Given]] = defaultdict(list)
        self._sent = 0
        self._ended = False
        self.healed_at = INFINITY

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
            left = {sharer.id: sharer.state for sharer in self.sharers}
            raise Broken("every shared record becomes final", f"records are left: {self._left()[:5]}, {len(self.final)} are final; {left}")

    @property
    def slow(self) -> bool:
        """Whether members are slow after healing."""
        return self.plan.slow > FAST_S

    def _main(self) -> None:
        began = self.timeline.now
        threads = [self.world.spawn(sharer.run, sharer.id) for sharer in self.sharers]
        with Producer(bootstrap_servers=self.servers, **QUICK) as producer:
            for number in range(self.plan.records):
                if self.slow and number == self.plan.records // 2:
                    self.world.sleep(max(0.0, began + self.plan.trouble + 1.1 * SETTLED_S - self.timeline.now))
                producer.send("t", b"%d" % number)
                if self.random.random() < 0.1:
                    self.world.sleep(self.random.random() * 0.3)
        self._sent = self.plan.records
        for thread in threads:
            thread.join()
        self._ended = True

    def drained(self) -> bool:
        """Whether every record is final, and nothing goes wrong any more."""
        return self.healed and self._sent > 0 and not self._left()

    def _left(self) -> list[Key]:
        """Records in the logs that are not final."""
        tps = [TopicPartition(name, number) for name, count in self.plan.topics.items() for number in range(count)]
        return [(*tp, offset) for tp in tps for offset in range(self.cluster.log(*tp).end_offset) if (*tp, offset) not in self.final]

    def _heal(self) -> None:
        super()._heal()
        self.healed_at = self.timeline.now

    # ---- what must be true

    def _happened(self, event: ShareEvent) -> None:
        """The broker's side: what is true of a record."""
        self.events[event.what] += 1
        key = (*event.tp, event.offset)
        self.note(f"{event.what}: {event.tp} {event.offset}, delivery {event.count}, {event.member[:8]}")
        if event.what in ("acquired", "renewed"):
            self._acquired[key, event.member] = self.timeline.now
        if event.what == "acquired":
            self._since[key, event.member] = self.timeline.now
            self._lost.pop((key, event.member), None)
            self._timed_out.discard((key, event.member))
        if event.what in ("expired", "released"):
            self._lost[key, event.member] = self.timeline.now
        if event.what == "expired":
            self._timed_out.add((key, event.member))
            self._expired(key, event)
        if event.what in ("accepted", "rejected", "archived"):
            self.final[key] = event.what

    def _expired(self, key: Key, event: ShareEvent) -> None:
        """The time of a lock is over. It may be if the member has been given the record, polls too seldom, or something was wrong."""
        since = self._since[key, event.member]
        if since < self.healed_at + SETTLED_S or self._counts.get(key, 0) >= event.count:
            return
        for sharer in self.sharers:
            if sharer.member == event.member and sharer.longest_pause(since) < self.plan.lock / 3:
                raise Broken("a record that waits for a poll stays locked", f"its lock ended before a poll returned it: {event}")

    def _away(self, member: str, since: float) -> float:
        """For how long it did not poll since then. A member that has enough records for its application asks no broker meanwhile."""
        return max((sharer.longest_pause(since) for sharer in self.sharers if sharer.member == member), default=0.0)

    def given(self, one: Given) -> None:
        """A member was given a record."""
        before = self._counts.get(one.key, 0)
        options = self.plan.options
        late = (
            options["request_timeout_ms"] + options["fetch_max_wait_ms"]
        ) / 1000 + SLACK_S  # until a member knows what a broker has done
        lost = self._lost.get((one.key, one.member), -INFINITY)
        away = 0.0 if (one.key, one.member) in self._timed_out else self._away(one.member, lost)
        if one.at - lost - away < late:  # it cannot know that its lock has ended
            self.events["given late"] += 1
            return
        if one.key in self._told:
            raise Broken("an accepted record does not come again", f"given after its acceptance was told: {one}")
        if one.count > self.plan.most_deliveries:
            raise Broken("a shared record comes again only so often", f"more than {self.plan.most_deliveries} deliveries: {one}")
        if one.count <= before:
            raise Broken("a shared record comes again only so often", f"not a higher count than {before}: {one}")
        held = one.at - self._acquired.get((one.key, one.member), -INFINITY)
        if held > self.plan.lock + late:
            raise Broken("a record is given while it is locked", f"its lock began {held:.3f} s ago and lasts {self.plan.lock} s: {one}")
        value = self._value(one.key)
        if one.value != value:
            raise Broken("a shared record is what was sent", f"another value than {value!r}: {one}")
        self._counts[one.key] = one.count
        self._given[one.key].append(one)

    def _value(self, key: Key) -> bytes:
        return next(record.value or b"" for record in self.cluster.log(*key[:2]).records() if record.offset == key[2])

    def stored(self, one: Given) -> None:
        """A member was told that the acceptance of a record is stored."""
        if one.key not in self.final:  # by this member, or by a faster one after the end of its lock
            raise Broken("an acceptance that was told is stored", f"not final at the broker: {one}")
        self._told[one.key] = one

    def closed(self, name: str, took: float, limit: float) -> None:
        """A member was closed."""
        if took > limit + 0.5:
            raise Broken("share consumers close in time", f"{name} took {took:.3f} s of {limit:g}")

    def _report(self) -> ShareReport:
        given = sum(map(len, self._given.values()))
        return ShareReport(
            seed=self.plan.seed,
            features=self.events + Counter({"given": given, "given again": given - len(self._given)}),
            seconds=self.seconds,
            requests=self.cluster.requests,
            coverage=self.coverage,
        )

    def states(self) -> set[str]:
        """What the members are in the middle of."""
        return {sharer.state for sharer in self.sharers}

    def weathers(self) -> list[Weather]:
        """Of all clients so far."""
        return self._weathers

    def grown(self, tp: TopicPartition) -> None:
        """No partitions are added."""
