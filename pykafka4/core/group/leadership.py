"""Leadership. Rule: the leader deals out what every member wants, over topics it looked up, and calls for a new deal when they change.

A static leader that comes back leaves the assignment as it is (from Kafka 3.2 on, which tells it so). What its predecessor dealt out it
does not know: it asks the coordinator, for partitions may have been added while nobody looked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.group.assignors import ASSIGNORS, GroupMember, assigned_partitions, assignment_bytes, group_member
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import DescribeGroupsRequest, DescribeGroupsResponse, JoinGroupResponse

__all__ = ["ASK_AGAIN", "Leadership"]

ASK_AGAIN: Final = 3.0  # seconds after a question for the assignment that was not answered
STABLE: Final = "Stable"  # the state in which DescribeGroups tells assignments


class Leadership:
    """What a group's leader does on top of being a member; `None` of it for the others."""

    __slots__ = (
        "_assignor",
        "_changes",
        "_cluster",
        "_deals",
        "_dealt",
        "_different",
        "_members",
        "_silent",
        "_topics",
        "ask_at",
        "due",
        "holds",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.holds = False
        self.due = INFINITY  # deal by then, with what is known
        self._assignor = ""
        self._members: tuple[GroupMember, ...] = ()
        self.ask_at = INFINITY  # send `question` then
        self._dealt: dict[str, int] | None = None  # partitions per topic as dealt out last; None: not known
        self._deals = True  # a static leader that came back leaves the assignment as it is
        self._topics: list[str] = []  # what the members want
        self._silent: set[str] = set()  # those of them that were not looked up yet
        self._different: set[str] = set()  # those of them that have other partitions now than were dealt out
        self._changes: TopicChanges | None = None  # while this member leads

    def decide(self, answer: JoinGroupResponse, due: float) -> str | None:
        """Whether this member leads the generation of `answer`, and whom; returns the assignor agreed on if it is not known here."""
        self.holds, self.due, self.ask_at = answer.leader == answer.member_id, INFINITY, INFINITY
        if not self.holds:
            self.resign()
            return None
        self._assignor = answer.protocol_name or ""
        if self._assignor not in ASSIGNORS:
            return self._assignor or "(none)"
        before = set(self._topics)
        self._members = tuple(group_member(m.member_id, m.group_instance_id, m.metadata) for m in answer.members)
        self._deals = not answer.skip_assignment
        self._topics = sorted({topic for member in self._members for topic in member.topics})
        self._changes = self._changes or TopicChanges(self._cluster)
        for topic in self._topics:
            self._cluster.want(topic, self)
        for topic in sorted(before - set(self._topics)):
            self._cluster.forget(topic, self)
        self._silent = {topic for topic in self._topics if not self._looked_up(topic)}
        self.due = due
        return None

    def deal(self, now: float) -> Mapping[str, bytes] | None:
        """Everybody's share, once every topic was looked up; one that stays silent until `due` counts as empty. None: not yet."""
        if not self._deals:
            self._dealt, self.due, self.ask_at = None, INFINITY, now
            return {}
        self._silent -= {topic for topic in self._take_changed() if self._looked_up(topic)}
        if self._silent and now < self.due:
            return None
        self.due = INFINITY
        sizes = self._sizes()
        self._note_dealt(sizes)
        shares = ASSIGNORS[self._assignor](self._members, sizes)
        return {member_id: assignment_bytes(tps) for member_id, tps in shares.items()}

    def question(self, now: float, group: str) -> DescribeGroupsRequest:
        """What to ask the coordinator for the present assignment; `learn` takes the answer."""
        self.ask_at = INFINITY
        return DescribeGroupsRequest(groups=[group])

    def learn(self, now: float, outcome: Outcome) -> None:
        """What the members have been dealt; asked for again if the answer does not tell."""
        groups: list[DescribeGroupsResponse.Group] = [] if isinstance(outcome, Failed) else outcome.message.groups
        if not groups or groups[0].error_code or groups[0].group_state != STABLE:
            self.ask_at = now + ASK_AGAIN
            return
        try:
            dealt: set[TopicPartition] = {tp for member in groups[0].members for tp in assigned_partitions(member.member_assignment)}
        except DecodeError:  # nothing to compare with: growth from now on is noticed
            self._note_dealt(self._sizes())
            return
        sizes = Counter(tp.topic for tp in dealt)
        self._note_dealt({topic: sizes[topic] for topic in self._topics})

    def abandon(self) -> None:
        """The generation is not to be."""
        self.due = self.ask_at = INFINITY

    def resign(self) -> None:
        """Another leads, or this member left."""
        for topic in self._topics:
            self._cluster.forget(topic, self)
        self.holds, self._members, self._topics, self.ask_at = False, (), [], INFINITY
        if self._changes is not None:
            self._changes.end()
            self._changes = None

    def outgrown(self) -> bool:
        """Whether topics of the group have other partitions now than were dealt out."""
        if not self.holds or self._dealt is None:
            return False
        self._compare(self._dealt, self._take_changed())
        return bool(self._different)

    def _note_dealt(self, dealt: dict[str, int]) -> None:
        """Everybody has these partitions, of the topics as they were or are."""
        self._dealt = dealt
        self._different.clear()
        self._compare(dealt, self._topics)

    def _compare(self, dealt: Mapping[str, int], topics: list[str]) -> None:
        for topic in topics:
            if topic in dealt and self._cluster.partitions(topic) != dealt[topic]:
                self._different.add(topic)
            else:
                self._different.discard(topic)

    def _take_changed(self) -> list[str]:
        return [] if self._changes is None else self._changes.take_topics()

    def _sizes(self) -> dict[str, int]:
        return {topic: self._cluster.partitions(topic) for topic in self._topics}

    def _looked_up(self, topic: str) -> bool:
        return bool(self._cluster.partitions(topic)) or self._cluster.topic_error(topic) is not None
