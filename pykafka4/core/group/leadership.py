"""Leadership. Rule: the leader assigns the partitions of all subscribed topics, and starts a rebalance when their number changes.

A leader with a `client_rack` does so as well when replicas move to other racks (as in Java).

A static leader that rejoins keeps the assignment (`skip_assignment`, from Kafka 3.2 on). It does not know the assignment that was made
before: it requests it from the coordinator, because partitions may have been added in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from pykafka4.assignors.interface import Assignor, GroupMember
from pykafka4.core import INFINITY, Failed, Job, Outcome
from pykafka4.core.group.assignors import assigned_partitions, group_members
from pykafka4.core.group.dealing import Deal, Placement
from pykafka4.core.group.strategies import Strategies, is_builtin
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.errors import DecodeError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest, DescribeGroupsResponse, JoinGroupResponse

__all__ = ["ASK_AGAIN", "Leadership"]

ASK_AGAIN: Final = 3.0  # seconds after a request for the assignment that failed
STABLE: Final = "Stable"  # the group state in which DescribeGroups returns assignments


class Leadership:
    """What only the leader of a group does. Idle on other members."""

    __slots__ = (
        "_assign_by",
        "_assignor",
        "_changes",
        "_cluster",
        "_deal",
        "_deals",
        "_dealt",
        "_different",
        "_members",
        "_racks",
        "_shares",
        "_silent",
        "_strategies",
        "_stuck",
        "_topics",
        "_where",
        "_work",
        "ask_at",
        "due",
        "holds",
    )

    def __init__(self, cluster: Cluster, where: str, strategies: Strategies, work: Callable[[Job], None]) -> None:
        """`where` precedes log lines: the client id and the group. `work` starts a job."""
        self._cluster, self._where = cluster, where
        self._strategies, self._work = strategies, work
        self.holds = False
        self.due = INFINITY  # assign by then, even if topics are still unknown; or have assigned by then
        self._assign_by = INFINITY
        self._assignor: Assignor | None = None
        self._deal: Deal | None = None  # under way on a helper
        self._shares: Mapping[str, bytes] | KafkaError | None = None  # its result
        self._stuck = False  # an application's assignor has not returned yet
        self._members: tuple[GroupMember, ...] = ()
        self.ask_at = INFINITY  # when to send `question`
        self._dealt: dict[str, int] | None = None  # partitions per topic in the last assignment; None: unknown
        self._racks: dict[str, list[frozenset[str]]] = {}  # of the partitions in the last assignment; empty unless this member has a rack
        self._deals = True  # False: a static leader that rejoined keeps the assignment
        self._topics: list[str] = []  # all topics that members are subscribed to
        self._silent: set[str] = set()  # those of them that were not looked up yet
        self._different: set[str] = set()  # those of them whose number of partitions, or whose racks, differ from the assignment
        self._changes: TopicChanges | None = None  # while this member is the leader

    def decide(self, response: JoinGroupResponse, due: float, assign_by: float) -> str | None:
        """Take the role and the members from the response to a join. Returns the group's assignor if this client does not support it."""
        self.abandon()
        self.holds = response.leader == response.member_id
        if not self.holds:
            self.resign()
            return None
        self._assignor = self._strategies.by_name.get(response.protocol_name or "")
        if self._assignor is None:
            return response.protocol_name or "(none)"
        before = set(self._topics)
        self._members = group_members(response.members, self._where)
        self._deals = not response.skip_assignment
        self._topics = sorted({topic for member in self._members for topic in member.topics})
        if self._changes is None:
            self._changes = TopicChanges(self._cluster)
        for topic in self._topics:
            self._cluster.want(topic, self)
        for topic in sorted(before - set(self._topics)):
            self._cluster.forget(topic, self)
        self._silent = {topic for topic in self._topics if not self._looked_up(topic)}
        self.due, self._assign_by = due, assign_by
        return None

    def deal(self, now: float) -> Mapping[str, bytes] | None:
        """The assignment of each member, once all topics are looked up; at `due`, unknown topics count as empty. None: not yet.

        Raises a KafkaError if the assignor failed.
        """
        if not self._deals:
            self._dealt, self.due, self.ask_at = None, INFINITY, now
            self._racks = {}
            return {}
        if self._deal is None:
            self._silent -= {topic for topic in self._take_changed() if self._looked_up(topic)}
            if self._silent and now < self.due:
                return None
            self._begin()
        return self._finish(now)

    def _begin(self) -> None:
        """Assign: at once, or on a helper."""
        self._racks = {topic: self._cluster.racks(topic) for topic in self._topics} if self._strategies.rack is not None else {}
        self._note_dealt(self._sizes())
        assert self._assignor is not None
        placements = {topic: self._placement(topic) for topic in self._topics if self._cluster.partitions(topic)}
        deal = self._deal = Deal(self._assignor, self._members, placements, self._where)
        if deal.may_run_here:
            self._shares = deal.attempt()
            return
        self.due = self._assign_by
        foreign = not is_builtin(self._assignor)
        if self._stuck:  # one thread at most waits for an application's assignor that hangs
            self._shares = deal.refusal("has not returned from the last rebalance yet")
            return

        def then(now: float, shares: Mapping[str, bytes] | KafkaError) -> None:
            self._stuck = False
            if deal is self._deal:
                self._shares = shares

        self._stuck = foreign
        self._work(Job(deal.attempt, then, slow=foreign))

    def _finish(self, now: float) -> Mapping[str, bytes] | None:
        deal, shares = self._deal, self._shares
        assert deal is not None
        if shares is None and now < self.due:
            return None
        self._deal, self._shares, self.due = None, None, INFINITY
        if shares is None:
            raise deal.refusal("did not return in time (session_timeout_ms limits it)")
        if isinstance(shares, KafkaError):
            raise shares
        return shares

    def _placement(self, topic: str) -> Placement:
        return Placement(self._cluster.leaders(topic), self._cluster.racks(topic))

    def question(self, now: float, group: str) -> DescribeGroupsRequest:
        """The request for the current assignment; `learn` takes the response."""
        self.ask_at = INFINITY
        return DescribeGroupsRequest(groups=[group])

    def learn(self, now: float, outcome: Outcome) -> None:
        """Take the current assignment from the response to `question`; request it again if the response lacks it."""
        groups: list[DescribeGroupsResponse.Group] = [] if isinstance(outcome, Failed) else outcome.message.groups
        if not groups or groups[0].error_code or groups[0].group_state != STABLE:
            self.ask_at = now + ASK_AGAIN
            return
        try:
            dealt: set[TopicPartition] = {tp for member in groups[0].members for tp in assigned_partitions(member.member_assignment)}
        except DecodeError:  # assume the current numbers of partitions: only later changes are noticed
            self._note_dealt(self._sizes())
            return
        sizes = Counter(tp.topic for tp in dealt)
        self._note_dealt({topic: sizes[topic] for topic in self._topics})

    def abandon(self) -> None:
        """The join or sync failed, or another one begins."""
        self.due = self.ask_at = INFINITY
        self._deal = self._shares = None

    def resign(self) -> None:
        """Another member is the leader, or this one left."""
        for topic in self._topics:
            self._cluster.forget(topic, self)
        self.holds, self._members, self._topics, self.ask_at = False, (), [], INFINITY
        if self._changes is not None:
            self._changes.end()
            self._changes = None

    def outgrown(self) -> bool:
        """Whether topics of the group have other numbers of partitions than in the assignment."""
        if not self.holds or self._dealt is None:
            return False
        self._compare(self._dealt, self._take_changed())
        return bool(self._different)

    def _note_dealt(self, dealt: dict[str, int]) -> None:
        """Store the numbers of partitions in the assignment."""
        self._dealt = dealt
        self._different.clear()
        self._compare(dealt, self._topics)

    def _compare(self, dealt: Mapping[str, int], topics: list[str]) -> None:
        for topic in topics:
            moved = topic in self._racks and self._cluster.racks(topic) != self._racks[topic]
            if topic in dealt and (moved or self._cluster.partitions(topic) != dealt[topic]):
                self._different.add(topic)
            else:
                self._different.discard(topic)

    def _take_changed(self) -> list[str]:
        return [] if self._changes is None else self._changes.take_topics()

    def _sizes(self) -> dict[str, int]:
        return {topic: self._cluster.partitions(topic) for topic in self._topics}

    def _looked_up(self, topic: str) -> bool:
        return bool(self._cluster.partitions(topic)) or self._cluster.topic_error(topic) is not None
