"""Leads a classic group. Invariant: when a subscribed topic has another number of partitions than the leader knows from the last
assignment, the leader begins a rebalance.

A leader with a `client_rack` also begins a rebalance when replicas move to other racks (as in Java).

A static leader that rejoins may have to keep the assignment (`skip_assignment`, from Kafka 3.2 on), which it does not know. Partitions may
have been added since the assignment, so the leader requests the assignment from the coordinator (DescribeGroups). The racks at the time of
that assignment stay unknown, so the leader does not notice moved replicas.

A group can have thousands of topics, and each member a different list. A helper reads long lists, and the loop goes through the topics in
steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pykafka4.assignors.interface import Assignor, GroupMember
from pykafka4.core import INFINITY, Failed, Job, Outcome
from pykafka4.core.group.encoding import assigned_partitions, group_members
from pykafka4.core.group.leading.assigning import AssignorRun, Placement
from pykafka4.core.group.leading.rewinds import MemberRewind, wish_of, with_rewind
from pykafka4.core.group.leading.strategies import AssignorCalls, Strategies, is_builtin
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.outbox import Outbox
from pykafka4.errors import DecodeError, KafkaError, listed
from pykafka4.errors.peer_text import visible
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest, DescribeGroupsResponse, JoinGroupResponse

__all__ = ["ASK_AGAIN_S", "Leadership"]

log = get_log("pykafka4.group")

ASK_AGAIN_S: Final = 3.0  # seconds from a failed request for the assignment to the next
MOST_BYTES_ON_LOOP: Final = 16_384  # most bytes of all subscriptions together that the loop itself reads: a millisecond or two
MOST_NAMED: Final = 5  # most topics in a log line
STEP_TOPICS: Final = 200  # topics in one step
STABLE: Final = "Stable"  # the group state in which DescribeGroups returns assignments


class Leadership:
    """The leader's part of a member, which does nothing while another member leads."""

    __slots__ = (
        "_assign_by",
        "_assigned_counts",
        "_assignor",
        "_assigns",
        "_calls",
        "_changes",
        "_cluster",
        "_different",
        "_look_up_by",
        "_members",
        "_outbox",
        "_placements",
        "_placements_known",
        "_racks",
        "_reading",
        "_run",
        "_shares",
        "_silent",
        "_steps",
        "_strategies",
        "_topics",
        "_wanted",
        "_where",
        "_wish",
        "ask_at",
        "due",
        "holds",
    )

    def __init__(self, cluster: Cluster, where: str, strategies: Strategies, outbox: Outbox) -> None:
        """`where` begins log lines: the client id and the group."""
        self._cluster, self._where = cluster, where
        self._strategies, self._outbox = strategies, outbox
        self.holds = False  # this member leads the group
        self.due = INFINITY  # when to call `assign` at the latest; INFINITY: `assign` has nothing to do now
        self._look_up_by = self._assign_by = INFINITY  # deadlines of the lookups (an unknown topic then counts as empty) and the assignor
        self._assignor: Assignor | None = None
        self._reading: object = None  # the token of the job that reads the subscriptions
        self._steps: Iterator[None] | None = None  # preparation of the assignment, topic by topic
        self._placements: dict[str, Placement] = {}
        self._placements_known = False  # `_placements` is complete, or `_steps` completes it
        self._wanted: set[str] = set()  # topics whose metadata is kept up to date for this leader
        self._run: AssignorRun | None = None  # the run of the assignor, maybe on a helper
        self._shares: Mapping[str, bytes] | KafkaError | None = None  # the result of `_run`
        self._calls = AssignorCalls(outbox)
        self._members: tuple[GroupMember, ...] = ()
        self.ask_at = INFINITY  # when to send `question`
        self._assigned_counts: dict[str, int] | None = None  # partitions per topic in the last assignment; None: unknown
        self._racks: dict[str, list[frozenset[str]]] = {}  # racks by topic in the last assignment; empty unless this member has a rack
        self._wish: MemberRewind | None = None  # a member's wish to rewind the group
        self._assigns = True  # False: a static leader that rejoined keeps the assignment
        self._topics: list[str] = []  # all topics that members are subscribed to
        self._silent: set[str] = set()  # topics that have not been looked up yet
        self._different: set[str] = set()  # topics whose number of partitions, or whose racks, differ from the assignment
        self._changes: TopicChanges | None = None  # None unless this member leads

    def decide(self, response: JoinGroupResponse, due: float, assign_by: float) -> str | None:
        """If this member leads, begin the assignment, or return the name of the group's assignor if this client lacks that assignor."""
        self.abandon()
        self.holds = response.leader == response.member_id
        if not self.holds:
            self.resign()
            return None
        self._assignor = self._strategies.by_name.get(response.protocol_name or "")
        if self._assignor is None:
            return visible(response.protocol_name or "(none)")
        self._assigns = not response.skip_assignment
        rows, where = response.members, self._where
        self._wish = wish_of(rows, response.generation_id, where)
        if self._changes is None:
            self._changes = TopicChanges(self._cluster)
        self.due, self._look_up_by, self._assign_by = due, due, assign_by
        self._read(response.members)
        return None

    def _read(self, rows: list[JoinGroupResponse.Member]) -> None:
        where = self._where
        if sum(len(row.metadata) for row in rows) <= MOST_BYTES_ON_LOOP:
            self._steps = self._prepare(*_read(rows, where))
            self._advance()
            return
        reading = self._reading = object()

        def then(now: float, found: Any) -> None:
            if reading is self._reading:
                self._reading = None
                if isinstance(found, BaseException):
                    raise found
                self._steps, self.due = self._prepare(*found), now

        self.due = INFINITY
        self._outbox.start(Job(lambda: _read(rows, where), then))

    def _prepare(self, members: tuple[GroupMember, ...], topics: list[str]) -> Iterator[None]:
        self._members, self._topics, self._silent = members, topics, set()
        for topic in topics:
            self._cluster.want(topic, self)
            self._wanted.add(topic)
            if not self._looked_up(topic):
                self._silent.add(topic)
            yield
        for topic in sorted(self._wanted.difference(topics)):
            self._cluster.forget(topic, self)
            self._wanted.discard(topic)
            yield

    def assign(self, now: float) -> Mapping[str, bytes] | None:
        """The assignment by member id; None until all topics are looked up or overdue, and the assignor has returned (see `due`).

        Empty if the coordinator keeps the assignment. Raises a KafkaError if the assignor has failed or is overdue.
        """
        if self._reading is not None:
            return None
        if not self._placements_known:
            if not self._advance():
                self.due = now
                return None
            self.due = self._look_up_by
            if not self._assigns:  # the coordinator keeps the assignment: SyncGroup has none, and `question` requests it
                self._assigned_counts, self.due, self.ask_at = None, INFINITY, now
                self._racks = {}
                return {}
            self._silent -= {topic for topic in self._take_changed() if self._looked_up(topic)}
            if self._silent and now < self.due:
                return None
            self._steps, self._placements_known = self._place(), True
        if self._run is None:
            if not self._advance():
                self.due = now
                return None
            self._begin()
        return self._finish(now)

    def _advance(self) -> bool:
        if self._steps is not None and sum(1 for _ in islice(self._steps, STEP_TOPICS)) == STEP_TOPICS:
            return False
        self._steps = None
        return True

    def _place(self) -> Iterator[None]:
        """Collect leaders and racks, one topic in each step. `outgrown` notices later changes of a topic."""
        self._placements, self._racks, self._assigned_counts = {}, {}, {}
        self._different.clear()
        denied = []
        for topic in self._topics:
            leaders, racks = self._cluster.leaders(topic), self._cluster.racks(topic)
            self._assigned_counts[topic] = len(leaders)
            if self._strategies.rack is not None:
                self._racks[topic] = racks
            if leaders:
                self._placements[topic] = Placement(leaders, racks)
            elif (error := self._cluster.topic_error(topic)) is not None and error.denied:
                denied.append(topic)
            yield
        if denied:  # other members may have the right, so nothing else explains why nobody gets these topics
            names, what = listed(denied, most=MOST_NAMED), "leads the group without the right to describe these topics, so nobody gets them"
            log.warning("%s: this member %s: %s", self._where, what, names)

    def _begin(self) -> None:
        assert self._assignor is not None
        placements, self._placements = self._placements, {}
        run = self._run = AssignorRun(self._assignor, self._members, placements, self._where)
        if run.may_run_here:
            self._shares = run.attempt()
            return
        self.due = self._assign_by

        def then(now: float, shares: Mapping[str, bytes] | KafkaError) -> None:
            if run is self._run:
                self._shares = shares

        if is_builtin(self._assignor):
            self._outbox.start(Job(run.attempt, then))
        else:
            self._calls.start(run.attempt, then)

    def _finish(self, now: float) -> Mapping[str, bytes] | None:
        run, shares = self._run, self._shares
        assert run is not None
        if shares is None and now < self.due:
            return None
        self._run, self._shares, self.due, self._placements_known = None, None, INFINITY, False
        if shares is None:
            raise run.refusal("did not return in time (session_timeout_ms limits it)")
        if isinstance(shares, KafkaError):
            raise shares
        if self._wish is not None:
            shares = with_rewind(self._wish, shares, self._members)
        return shares

    def question(self, now: float, group: str) -> DescribeGroupsRequest:
        self.ask_at = INFINITY
        return DescribeGroupsRequest(groups=[group])

    def learn(self, now: float, outcome: Outcome) -> None:
        groups: list[DescribeGroupsResponse.Group] = [] if isinstance(outcome, Failed) else outcome.message.groups
        if not groups or groups[0].error_code or groups[0].group_state != STABLE:
            self.ask_at = now + ASK_AGAIN_S
            return
        try:
            assigned: set[TopicPartition] = {tp for member in groups[0].members for tp in assigned_partitions(member.member_assignment)}
        except DecodeError:  # assume the current numbers of partitions, so only later changes are noticed
            self._note_assigned_counts(self._sizes())
            return
        sizes = Counter(tp.topic for tp in assigned)
        self._note_assigned_counts({topic: sizes[topic] for topic in self._topics})

    def abandon(self) -> None:
        """Drop the assignment under way."""
        self.due = self.ask_at = INFINITY
        self._run = self._shares = self._reading = self._steps = None
        self._calls.abandon()
        self._placements, self._placements_known = {}, False

    def resign(self) -> None:
        for topic in sorted(self._wanted):
            self._cluster.forget(topic, self)
        self._wanted.clear()
        self.holds, self._members, self._topics, self.ask_at = False, (), [], INFINITY
        if self._changes is not None:
            self._changes.end()
            self._changes = None

    def outgrown(self) -> bool:
        if not self.holds or self._assigned_counts is None:
            return False
        self._compare(self._assigned_counts, self._take_changed())
        return bool(self._different)

    def _note_assigned_counts(self, counts: dict[str, int]) -> None:
        """Store the numbers of partitions. A topic that has not been looked up yet is compared later."""
        self._assigned_counts = counts
        self._different.clear()
        self._compare(counts, [topic for topic in self._topics if self._looked_up(topic)])

    def _compare(self, counts: Mapping[str, int], topics: list[str]) -> None:
        for topic in topics:
            moved = topic in self._racks and self._cluster.racks(topic) != self._racks[topic]
            if topic in counts and (moved or self._cluster.partitions(topic) != counts[topic]):
                self._different.add(topic)
            else:
                self._different.discard(topic)

    def _take_changed(self) -> list[str]:
        return [] if self._changes is None else self._changes.take_topics()

    def _sizes(self) -> dict[str, int]:
        return {topic: self._cluster.partitions(topic) for topic in self._topics}

    def _looked_up(self, topic: str) -> bool:
        return bool(self._cluster.partitions(topic)) or self._cluster.topic_error(topic) is not None


def _read(rows: list[JoinGroupResponse.Member], where: str) -> tuple[tuple[GroupMember, ...], list[str]]:
    members = group_members(rows, where)
    equal = {member.topics for member in members}  # in most groups, all members have the same topics
    return members, sorted(frozenset[str]().union(*equal))
