"""Coordinates a group with members of both protocols (KIP-848), as brokers do with group.consumer.migration.policy=bidirectional.

* The first member of the consumer protocol converts a classic group: the classic members stay, with their partitions and their generation
  as the epoch, and the coordinator assigns partitions to all members. Joins and syncs that wait get REBALANCE_IN_PROGRESS.
* A classic member never leads. It has the partitions and the epoch that it got in its last join. Heartbeats tell the member to join
  again when there is a newer epoch, when it has to give back partitions, or when partitions for which it waits have become free.
* When the last member of the consumer protocol is gone, the group becomes a classic group again, and rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final, Protocol

import attrs

from pykafka4.errors import DecodeError
from pykafka4.testing.groups.joining import Joined, JoinRequest, Synced
from pykafka4.testing.groups.modern import ConsumerProtocolGroup, ModernMember
from pykafka4.wire.protocol.messages_group import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka4.wire.protocol.schema import decode_data, encode_data

__all__ = ["Mixed"]

CONSUMER: Final = "consumer"  # the protocol type of groups that can be converted
VERSION: Final = 3  # version in which assignments are encoded


class ClassicMember(Protocol):
    id: str
    request: JoinRequest
    held: bytes  # its last assignment


class ClassicGroup(Protocol):
    modern: ConsumerProtocolGroup
    generation: int
    protocol_type: str
    new_id: Callable[[str], str]

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        """The members of a classic group; empty while any member uses the consumer protocol."""

    def hand_over(self) -> None:
        """Give all members to the consumer protocol; their waiting joins and syncs get REBALANCE_IN_PROGRESS."""

    def take_over(self, generation: int, members: list[tuple[str, JoinRequest, bytes]]) -> None:
        """Become a classic group again, with these members and assignments."""


@attrs.define(eq=False)
class Mixed:
    """The conversions of one group, and the requests of its classic members while it uses the consumer protocol."""

    group: ClassicGroup

    def __attrs_post_init__(self) -> None:
        self._modern.on_removed = self._downgrade

    @property
    def _modern(self) -> ConsumerProtocolGroup:
        return self.group.modern

    # ---- conversions

    def upgrade(self) -> bool:
        """Convert the classic members; return False if they are not consumers, or have sent data that cannot be decoded."""
        group, modern = self.group, self._modern
        if group.protocol_type != CONSUMER:
            return False
        try:
            converted = [self._converted(member) for member in group.members.values()]
        except DecodeError:
            return False
        modern.epoch = max(modern.epoch, group.generation)
        for member in converted:
            modern.adopt(member)
        group.hand_over()
        return True

    def _converted(self, member: ClassicMember) -> ModernMember:
        request = member.request
        parts = decode_data(ConsumerProtocolAssignment, member.held).assigned_partitions if member.held else []
        topics = self._modern.cluster_topics
        known = {part.topic: topics[part.topic] for part in parts if part.topic in topics}
        return ModernMember(
            member.id,
            request.instance_id,
            request.client_id,
            epoch=self.group.generation,
            previous=self.group.generation,
            rebalance_timeout=request.rebalance_timeout,
            topics=tuple(_subscription(request).topics),
            assigned={(known[p.topic].id, number) for p in parts if p.topic in known for number in p.partitions},
            classic=request,
        )

    def _downgrade(self) -> None:
        modern = self._modern
        members = list(modern.members.values())
        if not members or not all(member.classic for member in members):
            return
        taken = [(member.id, member.classic, self._assignment(member)) for member in members if member.classic is not None]
        for member in members:
            modern.release(member)
        self.group.take_over(modern.epoch, taken)

    # ---- JoinGroup

    def join(self, request: JoinRequest, answer: Callable[[Joined], None]) -> None:
        """`answer` is called at once, because the coordinator assigns the partitions."""
        group, modern = self.group, self._modern
        try:
            sent = _subscription(request)
        except DecodeError:
            return answer(Joined("INCONSISTENT_GROUP_PROTOCOL", member_id=request.member_id))
        refused = self._refusal_of_join(request)
        if refused:
            return answer(Joined(refused, member_id=request.member_id))
        member_id = request.member_id or group.new_id(request.instance_id or request.client_id)
        if not request.member_id and request.needs_id_first and request.instance_id is None:
            return answer(Joined("MEMBER_ID_REQUIRED", member_id=member_id))
        member = modern.join_classic(member_id, request)
        topics = modern.cluster_topics
        owned = {(topics[t.topic].id, number) for t in sent.owned_partitions if t.topic in topics for number in t.partitions}
        modern.assign_classic(member, tuple(sent.topics), frozenset(owned))
        answer(Joined("NONE", member.epoch, request.protocols[0][0], "", member_id))
        # The member may have replaced the last member of the consumer protocol, which had the same instance id.
        if not any(other.classic is None for other in modern.members.values()):
            self._downgrade()
        return None

    def _refusal_of_join(self, request: JoinRequest) -> str | None:
        if request.protocol_type != CONSUMER or not request.protocols:
            return "INCONSISTENT_GROUP_PROTOCOL"
        named = [
            {name for name, _ in m.classic.protocols} for m in self._modern.members.values() if m.classic and m.id != request.member_id
        ]
        if named and not any(all(name in names for names in named) for name, _ in request.protocols):
            return "INCONSISTENT_GROUP_PROTOCOL"
        static = self._modern.static(request.instance_id)
        if request.instance_id is not None and request.member_id:
            return "UNKNOWN_MEMBER_ID" if static is None else "FENCED_INSTANCE_ID" if static.id != request.member_id else None
        return None

    # ---- SyncGroup, Heartbeat, LeaveGroup

    def refusal(self, generation: int, member_id: str, instance_id: str | None) -> str | None:
        if error := self._modern.refusal(member_id, instance_id):
            return error
        member = self._modern.members[member_id]
        if member.classic is None:
            return "UNKNOWN_MEMBER_ID"
        return None if generation == member.epoch else "ILLEGAL_GENERATION"

    def sync(self, generation: int, member_id: str, instance_id: str | None, answer: Callable[[Synced], None]) -> None:
        """Respond with the partitions that the member got in its last join."""
        error = self.refusal(generation, member_id, instance_id)
        if error:
            return answer(Synced(error))
        member, modern = self._modern.members[member_id], self._modern
        modern.compute_target()
        if modern.epoch > member.epoch and not member.pending:
            modern.expect(member)
            return answer(Synced("REBALANCE_IN_PROGRESS"))
        modern.keep_alive(member)
        member.awaited.cancel()
        assert member.classic is not None
        return answer(Synced("NONE", self._assignment(member), member.classic.protocols[0][0]))

    def heartbeat(self, generation: int, member_id: str, instance_id: str | None) -> str:
        """NONE, REBALANCE_IN_PROGRESS if the member has to join again, or the error of `refusal`."""
        error = self.refusal(generation, member_id, instance_id)
        if error:
            return error
        member, modern = self._modern.members[member_id], self._modern
        modern.keep_alive(member)
        modern.compute_target()
        if member.epoch < modern.epoch or member.pending or (member.waits and modern.free(member)):
            modern.expect(member)
            return "REBALANCE_IN_PROGRESS"
        return "NONE"

    def leave(self, member_id: str, instance_id: str | None) -> str:
        """A static member may leave by its instance id alone. Returns NONE or the error."""
        static = self._modern.static(instance_id)
        if static is not None and not member_id:
            member_id = static.id
        if error := self._modern.refusal(member_id, instance_id):
            return error
        self._modern.remove(self._modern.members[member_id])
        return "NONE"

    def _assignment(self, member: ModernMember) -> bytes:
        topics, kind = self._modern.cluster_topics, ConsumerProtocolAssignment
        named = sorted((topic.name, part[1]) for part in member.assigned if (topic := topics.by_id(part[0])) is not None)
        rows = [kind.Topic(topic=name, partitions=[number for _, number in those]) for name, those in groupby(named, lambda one: one[0])]
        return encode_data(kind(assigned_partitions=rows, user_data=None), VERSION)


def _subscription(request: JoinRequest) -> ConsumerProtocolSubscription:
    """Decode the first protocol only, because consumers name the same topics in each."""
    return decode_data(ConsumerProtocolSubscription, request.protocols[0][1])
