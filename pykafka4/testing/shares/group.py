"""Assigns partitions to the members of one share group. Invariant: every member is assigned all partitions of its topics."""

from __future__ import annotations

from uuid import UUID

import attrs

from pykafka4.testing.storage.partition import Topics
from pykafka4.testing.timeline import NEVER, Moment, Timeline

__all__ = ["ShareBeat", "ShareGroup", "ShareMember"]

JOIN, LEAVE = 0, -1  # epochs


@attrs.frozen
class ShareBeat:
    """`assignment` is None with an error, for a member that leaves, or if the response need not repeat it."""

    error: str = "NONE"
    epoch: int = 0
    assignment: frozenset[tuple[UUID, int]] | None = None
    message: str | None = None


@attrs.define(eq=False)
class ShareMember:
    epoch: int = 0
    previous: int = 0
    topics: tuple[str, ...] = ()
    told: frozenset[tuple[UUID, int]] | None = None  # the last assignment in a response to the member
    session: Moment = NEVER


@attrs.define(eq=False)
class ShareGroup:
    timeline: Timeline
    topics: Topics
    session_timeout: float
    epoch: int = 0
    members: dict[str, ShareMember] = attrs.Factory(dict)
    _basis: object = None  # the assignments of the current epoch

    def heartbeat(self, member_id: str, epoch: int, topics: tuple[str, ...] | None) -> ShareBeat:
        if epoch == LEAVE:
            return self._leave(member_id)
        member = self.members.get(member_id)
        if epoch == JOIN:
            if not topics:
                return ShareBeat("INVALID_REQUEST", message="SubscribedTopicNames must be set in first request.")
            member = self.members.setdefault(member_id, ShareMember())
        elif member is None:
            return ShareBeat("UNKNOWN_MEMBER_ID")
        elif epoch not in (member.epoch, member.previous):
            return ShareBeat("FENCED_MEMBER_EPOCH", message=f"the member has epoch {member.epoch}, not {epoch}")
        if topics is not None:
            member.topics = topics
        self._bump()
        if member.epoch != self.epoch:
            member.previous, member.epoch = member.epoch, self.epoch
        member.session.cancel()
        member.session = self.timeline.after(self.session_timeout, lambda: self._expired(member_id, member))
        assignment = self._assignment(member)
        told, member.told = member.told, assignment
        return ShareBeat("NONE", member.epoch, assignment if assignment != told or topics is not None else None)

    def _assignment(self, member: ShareMember) -> frozenset[tuple[UUID, int]]:
        found = (self.topics[name] for name in member.topics if name in self.topics)
        return frozenset((topic.id, number) for topic in found for number in range(len(topic.partitions)))

    def _bump(self) -> None:
        basis = {name: self._assignment(member) for name, member in self.members.items()}
        if basis != self._basis:
            self._basis = basis
            self.epoch += 1

    def _leave(self, member_id: str) -> ShareBeat:
        member = self.members.pop(member_id, None)
        if member is None:
            return ShareBeat("UNKNOWN_MEMBER_ID")
        member.session.cancel()
        self._bump()
        return ShareBeat("NONE", LEAVE)

    def _expired(self, member_id: str, member: ShareMember) -> None:
        if self.members.get(member_id) is member:
            del self.members[member_id]
            self._bump()
