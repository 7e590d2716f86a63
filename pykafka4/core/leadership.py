"""Leadership. Rule: the leader deals out what every member wants, over topics it looked up, and calls for a new deal when they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka4.core import INFINITY
from pykafka4.core.assignors import ASSIGNORS, GroupMember, assignment_bytes, group_member
from pykafka4.core.cluster import Cluster
from pykafka4.wire.messages_group import JoinGroupResponse

__all__ = ["Leadership"]


class Leadership:
    """What a group's leader does on top of being a member; `None` of it for the others."""

    __slots__ = ("_assignor", "_cluster", "_deals", "_dealt", "_members", "_picture", "due", "holds")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.holds = False
        self.due = INFINITY  # deal by then, with what is known
        self._assignor = ""
        self._members: tuple[GroupMember, ...] = ()
        self._dealt: dict[str, int] = {}  # partitions per topic as dealt out last
        self._deals = True  # a static leader that came back leaves the assignment as it is
        self._picture: Any = None

    def decide(self, answer: JoinGroupResponse, due: float) -> str | None:
        """Whether this member leads the generation of `answer`, and whom; returns the assignor agreed on if it is not known here."""
        self.holds, self.due = answer.leader == answer.member_id, INFINITY
        if not self.holds:
            self.resign()
            return None
        self._assignor = answer.protocol_name or ""
        if self._assignor not in ASSIGNORS:
            return self._assignor or "(none)"
        before = self._topics()
        self._members = tuple(group_member(m.member_id, m.group_instance_id, m.metadata) for m in answer.members)
        self._deals = not answer.skip_assignment
        for topic in self._topics():
            self._cluster.want(topic, self)
        for topic in before - self._topics():
            self._cluster.forget(topic, self)
        self.due = due
        return None

    def deal(self, now: float) -> Mapping[str, bytes] | None:
        """Everybody's share, once every topic was looked up; one that stays silent until `due` counts as empty. None: not yet."""
        topics = self._topics()
        unknown = [t for t in topics if not self._cluster.partitions(t) and self._cluster.topic_error(t) is None]
        if unknown and now < self.due:
            return None
        self.due = INFINITY
        self._dealt = {topic: self._cluster.partitions(topic) for topic in topics}
        self._picture = None
        shares = ASSIGNORS[self._assignor](self._members, self._dealt) if self._deals else {}
        return {member_id: assignment_bytes(tps) for member_id, tps in shares.items()}

    def abandon(self) -> None:
        """The generation is not to be."""
        self.due = INFINITY

    def resign(self) -> None:
        """Another leads, or this member left."""
        for topic in self._topics():
            self._cluster.forget(topic, self)
        self.holds, self._members = False, ()

    def outgrown(self) -> bool:
        """Whether topics of the group have other partitions now than were dealt out."""
        if not self.holds or self._cluster.version == self._picture:
            return False
        changed = any(self._cluster.partitions(topic) != size for topic, size in self._dealt.items())
        if not changed:
            self._picture = self._cluster.version  # looked at: nothing to see before the next change
        return changed

    def _topics(self) -> set[str]:
        return {topic for member in self._members for topic in member.topics}
