"""The consumers' schedules: what applications were given and what the group has stored are compared with the logs, all the time.

Members (`members.py`) are real consumers in virtual time. Records are put into the logs by somebody else, some of them with gaps before
them as compaction leaves them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import attrs

from integration.faults.catalog import CONSUMERS as LASTS
from pykafka4.core import INFINITY
from pykafka4.core.group.encoding import assigned_partitions, group_member
from pykafka4.errors import ConnectionLost, GroupError, KafkaError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import Fault, Injected
from pykafka4.testing.groups.group import GroupState
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from pykafka4.wire.records.batch import WireRecord
from tests.simulation.judge.handed import GROUP_ITSELF
from tests.simulation.judge.invariants import Broken
from tests.simulation.judge.ledger import Ledger
from tests.simulation.plans.consumer_features import is_excluded
from tests.simulation.plans.consumer_plan import CONSUMER_FAULTS, GROUP, ConsumerPlan, draw_consumers
from tests.simulation.plans.schedule import Schedule
from tests.simulation.users.members import Member
from tests.simulation.world.weather import VirtualTransport, Weather

__all__ = ["ConsumerReport", "ConsumerSimulation"]

PATIENCE_S: Final = 90.0  # virtual seconds after healing in which everything must be read and committed
POLL_SECONDS: Final = 0.1  # besides, for each poll: the application works, commits and makes calls that wait, one after the other
QUIET: Final = 1.0  # what comes so long after the end is still looked at
LAST_CALLBACKS: Final = 15.0  # until what was committed before the end is called back: an application may be in its longest sleep
LONGEST_PAUSE_S: Final = 5.0  # seconds between two batches of a partition
EPOCHS_SINCE: Final = 12  # the version of Fetch whose answers say where a log was cut
FENCED_AFTER: Final = 5.0  # until a member that was fenced has asked for anything
DELETED_SECONDS: Final = 15.0  # in which a deleted topic leaves the subscription; commits of it fail meanwhile
CALL_SECONDS: Final = 2.0  # what a call needs at most where nothing is wrong
OWNER_SECONDS: Final = 12.0  # until every partition has an owner, beside the session's timeout: slow members sleep for half of it
WITNESSES: Final = {"topic is hidden", "metadata is stale", "broker is deaf", "metadata fault", "answer damaged", "network is dark"}
REQUESTS_PER_SECOND: Final = {
    "Metadata": 25,
    "ApiVersions": 90,
    "FindCoordinator": 25,
    "JoinGroup": 40,
    "ConsumerGroupHeartbeat": 40,
    "OffsetFetch": 40,
    "ListOffsets": 40,
}


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
    features: Counter[str]  # those of the plan, and how often each was used or its promise looked at


class ConsumerSimulation(Schedule[ConsumerPlan, ConsumerReport]):
    """One schedule of a consumer group."""

    all_faults = CONSUMER_FAULTS

    def __init__(self, seed: int, *, plan: ConsumerPlan | None = None, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw_consumers(seed), trace)
        self.policy: str = self.plan.options["auto_offset_reset"]
        self.cluster.replication.delay = self.plan.replication
        if "client_rack" in self.plan.options:
            self.cluster.set_racks({node: f"rack-{node}" for node in self.cluster.brokers})
        for sessions in self.cluster.fetch_sessions.values():
            sessions.slots = self.plan.fetch_sessions
        self.knows_epochs = self.cluster.versions[1][1] >= EPOCHS_SINCE
        self.ledger = Ledger(self.cluster, latest=self.policy == "latest", knows_epochs=self.knows_epochs)
        self.members: list[Member] = []
        self.unstable_at = self.timeline.now  # when the group was last not stable, as its coordinator sees it
        self._shaken: dict[str, float] = {}  # when a group with this member was last not stable
        self._upset_at = self.timeline.now  # when members or partitions last came or went
        self._garbled: list[float] = []  # when answers were damaged
        self._unowned: dict[TopicPartition, float] = {}
        self._least: dict[TopicPartition, list[int]] = {}
        self._grown: dict[TopicPartition, float] = {}  # when partitions came that were not there at the beginning
        self.used: Counter[str] = Counter()  # features, see `consumer_features.LEAST`
        self._new_topics = 0
        self._dropped_at = -INFINITY  # when a topic was last deleted
        self._kept: dict[TopicPartition, float] = {}  # partitions of deleted topics that a member reads, since when
        self._instances: list[str] = [f"s{n}" for n in range(4)] if self.plan.static else []
        self._left: dict[TopicPartition, int] = {}
        self.killed: dict[str | None, float] = {}  # when a process with this group.instance.id was last killed
        self._delayed_join = -INFINITY  # when a JoinGroup last reached a coordinator that executed it later
        self._aim_from = INFINITY  # the next fault comes when a member is in the state that the plan aims at, not before this
        self._generation = 0
        self._assignments = 0  # of the classic protocol that were looked at
        if self.plan.protocol != "classic":
            self._coordinate()
        if self.plan.sick:
            partition = self.cluster.topics["t"].partitions[0]
            self.sick = partition.tp, partition.leader
            self.cluster.move_coordinator(GROUP, partition.leader % len(self.cluster.brokers) + 1)

    def _coordinate(self) -> None:
        """The coordinator has what a classic member's options say."""
        coordinators, options = self.cluster.coordinators, self.plan.options
        coordinators.session_timeout = options["session_timeout_ms"] / 1000
        coordinators.heartbeat_interval = options["heartbeat_interval_ms"] / 1000
        self.cluster.group(GROUP).modern.on_assigned = self._gained

    def _gained(self, member: str, parts: set[tuple[UUID, int]]) -> None:
        """The coordinator gives these to a member: nobody else in the group may read them any more.

        A member that has left may do so until its application polls, a static one, too. One that was adopted with a classic group may do so
        until it has joined again, and has the answer: brokers know what the last generation assigned to it, not what it is giving back
        since. Its last commit may then be below one of the new owner.
        """
        members = self.cluster.group(GROUP).modern.members
        joining = {m.group_id for m in self.members if self._may_be_unheard(m)}
        adopted = {id for id, other in members.items() if other.adopted or id in joining}
        in_group = {id for id, other in members.items() if other.epoch >= 0 and id not in adopted and id != member}
        for topic_id, number in sorted(parts):
            topic = self.cluster.topics.by_id(topic_id)
            assert topic is not None
            tp = TopicPartition(topic.name, number)
            others = [m for m in self.members if m.alive and m.group_id in in_group and tp in m.reading.owned]
            if others:
                raise Broken("one owner at a time", f"{tp} goes to {member}, and is read by {[m.name for m in others]}")
            early = any(m.alive and m.group_id in adopted and tp in m.reading.owned for m in self.members)
            if early:
                self.ledger.rewind(tp, self.ledger.log(tp).start_offset)
            self.ledger.given(tp, early=early)
            self._least.setdefault(tp, []).append(self.ledger.log(tp).high_watermark)

    def _may_be_unheard(self, member: Member) -> bool:
        """Whether it may have lost partitions, in a group that is converted, and not have the answer, or is giving them back."""
        return (
            self.plan.protocol == "both"
            and member.protocol == "classic"
            and member.state() in ("joining", "syncing", "revoking", "rejoining")
        )

    def _report(self) -> ConsumerReport:
        group = self.cluster.group(GROUP)
        self.used.update({"to the consumer protocol": group.upgrades, "to the classic protocol": group.downgrades})
        return ConsumerReport(
            seed=self.plan.seed,
            handed=self.ledger.handed,
            written=self.ledger.written,
            generations=self._generation,
            seconds=self.seconds,
            requests=self.cluster.requests,
            coverage=self.coverage,
            features=self.used + Counter(self.plan.features),
        )

    def _run(self) -> None:
        plan = self.plan
        for _ in range(plan.members):
            self.join()
        if "pattern" in plan.features:
            self.new_topic(excluded=True)
        for name, count in plan.topics.items():
            for number in range(count):
                self._left[TopicPartition(name, number)] = plan.records
        for tp in list(self._left):
            self.timeline.after(self.random.random(), lambda tp=tp: self._write(tp))  # type: ignore[misc]
        self._next_fault(self.timeline.now + plan.trouble)
        self.timeline.after(plan.trouble, self._heal)
        self.timeline.after(1.0, self._check_owners)
        if plan.crash:
            self.timeline.after(self.random.uniform(0.1, plan.trouble), self._crash)
        polls = sum(self._left.values()) / plan.options["max_poll_records"]
        end = self.timeline.now + plan.trouble + PATIENCE_S + polls * POLL_SECONDS
        while not self._finished() and self.timeline.next_at < end:
            self.world.step()
            self._look()
        self._conclude()

    # ---- who reads

    def join(self) -> None:
        """Another member starts."""
        self.upset()
        member = Member(self, len(self.members) + 1, self._instances.pop(0) if self._instances else None)
        self.members.append(member)
        member.begin()

    def living(self) -> list[Member]:
        """The members that run and are to go on."""
        return [m for m in self.members if m.alive and not m.ending and m.crash.at is None]

    def freed(self, instance: str | None) -> None:
        """A static member's process ended: the next one takes its place."""
        if instance is not None:
            self._instances.insert(0, instance)

    def transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        """The sockets of a member's client."""
        member = next(m for m in self.members if m.process is self.world.me().process)
        member.transport = VirtualTransport(self.world, member.weather, max_frame, lambda transport: member.crash.turn())
        return member.transport

    def upset(self) -> None:
        """Members or partitions come or go: the group has to find its new order."""
        self._upset_at = self.timeline.now

    def _crash(self) -> None:
        living = [m for m in self.living() if m.crash.session is not None]
        if living:
            first = [m for m in living if m.companion is not None]
            self.random.choice(first or living).crash.order(self.plan.crash)

    # ---- who writes

    def left(self) -> bool:
        """Whether anything is still to be written."""
        return any(self._left.values())

    def new_topic(self, *, excluded: bool) -> None:
        """A topic is created, with records."""
        self._new_topics += 1
        name, count = f"{'tx' if excluded else 'tn'}{self._new_topics}", self.random.choice((1, 2))
        self.note(f"{name} is created with {count} partitions")
        self.cluster.create_topic(name, count)
        for number in range(count):
            self.grown(TopicPartition(name, number))

    def drop_topic(self, name: str) -> None:
        """A topic is deleted, and does not come back."""
        self.note(f"{name} is deleted")
        tps = [p.tp for p in self.cluster.topics[name].partitions]
        self.disturb(0.0, *tps)
        self.upset()
        self._dropped_at = self.timeline.now
        self.used["topics deleted"] += 1
        for tp in tps:
            self.ledger.delete(tp)
            self._left[tp] = 0
        self.cluster.delete_topic(name)

    def is_new(self, topic: str) -> bool:
        """Whether it was created by a fault."""
        return topic not in self.plan.topics

    def leaves_out(self, topic: str) -> bool:
        """Whether no member is subscribed to it."""
        return "pattern" in self.plan.features and is_excluded(topic)

    def is_fresh(self, tp: TopicPartition, subscribed: float) -> bool:
        """Whether a member that knows its topics since `subscribed` has to know that it is new."""
        return self.policy == "latest" and self._grown.get(tp, -INFINITY) > subscribed and not WITNESSES & set(self.plan.faults)

    def in_group(self, member_id: str) -> bool:
        """Whether the coordinator has this member."""
        group = self.cluster.group(GROUP)
        return member_id in group.members or member_id in group.modern.members

    def changed_since(self, began: float, member_id: str) -> bool:
        """Whether members or partitions came or went, or the group was not stable while it had this member, since then."""
        return max(self._shaken.get(member_id, -INFINITY), self._upset_at) >= began

    def _write(self, tp: TopicPartition) -> None:
        if not self._left[tp]:
            return
        count = min(self._left[tp], self.random.choice((1, 3, 10)))
        records = [
            WireRecord(
                timestamp_ms=1_000 + n,
                key=self.random.choice((None, b"", b"k%d" % n)),
                value=b"%s|%d|" % (str(tp).encode(), self.ledger.written + n) + b"." * self.random.choice((0, 40, 300)),
                headers=self.random.choice(((), (), (("h", b"1"), ("i", None)))),
            )
            for n in range(count)
        ]
        self.ledger.write(tp, records, codec=self.random.choice((0, 0, 1, 3)), gap=self.random.choice((0, 0, 0, 2)))
        self._left[tp] -= count
        if self._left[tp]:
            pace = self.plan.trouble / self.plan.records
            self.timeline.after(min(self.random.expovariate(1 / pace) * count, LONGEST_PAUSE_S), lambda: self._write(tp))

    # ---- faults

    def states(self) -> set[str]:
        """What its members are in the middle of."""
        return {m.state() for m in self.members if m.alive and m.crash.at is None} or {"nobody"}

    def _next_fault(self, until: float) -> None:
        """At a random time, or when a member is next in the state that the plan aims at."""
        if self.plan.aim:
            self._aim_from = self.timeline.now + self.random.expovariate(1 / self.plan.fault_interval)
        else:
            super()._next_fault(until)

    def _aim(self) -> None:
        now = self.timeline.now
        if now < self._aim_from or self.healed:
            return
        if self.plan.aim in self.states():
            self._aim_from = INFINITY
            self.timeline.after(0.0, lambda: self._fault(now))
        elif self.plan.aim == "nobody":  # members do not end by themselves
            self._aim_from = now + self.plan.fault_interval
            self.timeline.after(0.0, lambda: self.all_faults["member closes"](self))

    def weathers(self) -> list[Weather]:
        """Each living member is a process."""
        return [m.weather for m in self.members if m.running]

    def grown(self, tp: TopicPartition) -> None:
        """Write into the new partition."""
        self.upset()
        self._grown[tp] = self.timeline.now
        self._left[tp] = 10
        self._write(tp)

    def damaged(self, found: Injected) -> None:
        """An answer was damaged, or a request delayed."""
        if found.fault is Fault.GARBAGE:
            self._garbled.append(self.timeline.now)
        if found.fault is Fault.DELAY and found.key in (JoinGroupRequest.api_key, ConsumerGroupHeartbeatRequest.api_key):
            self._delayed_join = self.timeline.now

    def _led(self, node: int | None) -> frozenset[TopicPartition]:
        led = super()._led(node)
        return led | {GROUP_ITSELF} if node is not None and node == self.cluster.coordinator(GROUP) else led

    def _leader(self, tp: TopicPartition) -> int:
        if tp == GROUP_ITSELF:
            node = self.cluster.coordinator(GROUP)
            return -1 if node is None else node
        return super()._leader(tp)

    def _heal(self) -> None:
        super()._heal()
        for member in self.members:  # those that are closing, too
            member.weather.clear()
        if not self.living():
            self.join()

    # ---- what faults explain

    def calm_time(self, tp: TopicPartition | None, since: float, now: float, *, grouped: bool) -> float:
        """Seconds, at the least, in which nothing kept `tp` (None: any) and, if `grouped`, the group from going on."""
        calm = self.disturbances.calm(tp, since, now)
        return calm + self.disturbances.calm(GROUP_ITSELF, since, now) - (now - since) if grouped and calm > 0 else calm

    def explains(self, error: Exception) -> bool:
        """Whether a fault makes `poll` raise this. A broker that was not understood twice in a row is named once, and asked again."""
        recent = [at for at in self._garbled if at > self.timeline.now - 15.0]
        return isinstance(error, ConnectionLost) and len(recent) >= 2

    def fenced(self, error: Exception, instance: str | None) -> bool:
        """Whether a JoinGroup that was executed late has fenced a member with its group.instance.id.

        Of a killed process the next one; or the member that sent it, and sent another one when the connection was lost.
        """
        began = max(self.killed.get(instance, -INFINITY), self._delayed_join)
        late = self.timeline.now - began <= LASTS["group fault"][1] + FENCED_AFTER
        return late and isinstance(error, GroupError) and error.code.name == "FENCED_INSTANCE_ID" and instance is not None

    def explains_call(self, error: KafkaError, began: float) -> bool:
        """Whether a call that began then had to fail: no broker was reachable, or the group was changing."""
        now, slow = self.timeline.now, isinstance(error, KafkaTimeoutError)
        since = began if slow else began - self.disturbances.aftermath
        if max(self.unstable_at, self._upset_at) >= since - CALL_SECONDS:
            return True
        calm = self.disturbances.calm(None, since, now)
        if self._dropped_at >= since - DELETED_SECONDS:
            return True
        return calm < CALL_SECONDS if slow else calm < now - since - 1e-6

    def least(self, tp: TopicPartition) -> int:
        """With auto_offset_reset=latest: the lowest offset where reading of a partition dealt out by now may begin."""
        if tp in self._grown or tp in self.ledger.cuts or WITNESSES & set(self.plan.faults):
            return 0
        return min(self._least.get(tp, [0])[-2:])

    # ---- looking

    def _look(self) -> None:
        if self.plan.aim:
            self._aim()
        group = self.cluster.groups.get(GROUP)
        if group is None:
            self.unstable_at = self.timeline.now
            return
        modern = bool(group.modern.members) or self.plan.protocol == "consumer"
        if (group.modern.state != "Stable") if modern else (group.state is not GroupState.STABLE):
            self.unstable_at = self.timeline.now
            self._shaken.update(dict.fromkeys([*group.members, *group.modern.members], self.timeline.now))
        while self._assignments < len(group.history):
            self._look_at_assignment(*group.history[self._assignments])
            self._assignments += 1
        self._generation = max(self._generation, group.modern.epoch, self._assignments)

    def _look_at_assignment(self, generation: int, assignments: dict[str, bytes]) -> None:
        dealt = [tp for data in assignments.values() for tp in assigned_partitions(data)]
        if len(dealt) != len(set(dealt)):
            raise Broken("one owner per generation", f"generation {generation}: {sorted(dealt)}")
        self._check_claims(generation, assignments)
        for tp in dealt:
            self._least.setdefault(tp, []).append(self.ledger.log(tp).high_watermark)

    def _check_claims(self, generation: int, assignments: dict[str, bytes]) -> None:
        """A partition that a member said it owned when it joined goes to no other member, unless that one said so, too."""
        group = self.cluster.group(GROUP)
        owners: dict[TopicPartition, set[str]] = {}
        for member in group.members.values():
            claims = group_member(member.id, None, member.metadata(group.protocol or ""), "")
            for tp in claims.owned:
                owners.setdefault(tp, set()).add(member.id)
        for member_id, data in assignments.items():
            for tp in assigned_partitions(data):
                if member_id not in owners.get(tp, {member_id}):
                    raise Broken("one owner per generation", f"{tp} goes to {member_id} in {generation}, owned by {owners[tp]}")

    def check_alone(self, member: Member, tps: list[TopicPartition]) -> None:
        """`member` begins to read these: no other member of its generation has them. A group that is converted may count them anew."""
        generation = member.generation()
        for other in self.members:
            both = set(tps).intersection(other.reading.owned) if other is not member and other.alive else set()
            same = generation == other.generation() != -1 and member.protocol == other.protocol
            if both and same and not self._may_be_unheard(other):
                raise Broken("one owner per generation", f"{member.name} begins {sorted(both)} while {other.name} reads them")

    def _check_owners(self) -> None:
        """Every partition has an owner, some time after members came or went, or a fault was over."""
        now = self.timeline.now
        owned = {tp for m in self.members if m.alive for tp in m.reading.owned}
        bound = self.disturbances.base + OWNER_SECONDS + self.plan.options["session_timeout_ms"] / 1000
        for tp in self._partitions():
            if tp in owned or all(member.working_long for member in self.living()):
                self._unowned[tp] = now
                continue
            since = max(self._unowned.setdefault(tp, now), self._upset_at)
            if now - since > bound and self.disturbances.calm(None, since, now) > bound:
                status = [(m.number, m.ending, m.status()) for m in self.members if m.alive]
                self.world.fail(Broken("every partition has an owner", f"{tp}: nobody since {since:.3f}, now {now:.3f}; {status}"))
        self._check_deleted(owned & self.ledger.gone.keys(), bound)
        self.timeline.after(1.0, self._check_owners)

    def _check_deleted(self, kept: set[TopicPartition], bound: float) -> None:
        """A topic that is gone leaves the subscription."""
        now = self.timeline.now
        self._kept = {tp: self._kept.get(tp, now) for tp in kept}
        for tp, first in self._kept.items():
            since = max(first, self._upset_at)
            if now - since > bound and self.disturbances.calm(None, since, now) > bound:
                self.world.fail(
                    Broken("subscriptions select topics", f"{tp}: deleted, and still assigned since {since:.3f}, now {now:.3f}")
                )

    def _partitions(self) -> list[TopicPartition]:
        topics = self.cluster.topics.values()
        return [p.tp for t in topics if not self.leaves_out(t.name) for p in t.partitions]

    def _finished(self) -> bool:
        if not self.healed or self.left():
            return False
        if any(m.running if m.companion is not None and m.companion.reads else m.alive and m.ending for m in self.members):
            return False
        return all(self._all_read(tp) for tp in self._partitions())

    def _all_read(self, tp: TopicPartition) -> bool:
        if self.policy == "latest" and self.ledger.most.get(tp, -1) < 0:
            return True  # everything may have been written before anybody read there
        return self.ledger.last.get(tp, 0) >= self._end(tp)

    def _end(self, tp: TopicPartition) -> int:
        """What must be committed in the end: everything behind the last record."""
        log = self.ledger.log(tp)
        return log.end_offset if log.end_offset > log.start_offset else 0

    def _conclude(self) -> None:
        if not self._finished():
            open_ones = {str(tp): (self.ledger.last.get(tp), self.ledger.done_below(tp), self._end(tp)) for tp in self._partitions()}
            status = [(m.number, m.ending, m.status()) for m in self.members if m.alive]
            raise Broken("progress", f"(committed, finished, end): {open_ones}; {status}")
        seconds = self.seconds
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > (20 + limit * seconds) * len(self.members):
                raise Broken(
                    "no hot loop", f"{self.cluster.requests[name]} {name} requests of {len(self.members)} members in {seconds:.3f} s"
                )
        quiet, last = self.timeline.now + QUIET, self.timeline.now + LAST_CALLBACKS
        due = [(member, member.uncalled()) for member in self.members]
        while self.timeline.next_at < quiet or (self.timeline.next_at < last and any(numbers & m.uncalled() for m, numbers in due)):
            self.world.step()
        for member, numbers in due:
            member.check_callbacks(numbers)
