"""Balances the members' numbers of partitions, and moves few partitions.

The assignors find out which member owned which partition, then use one of two algorithms: `sticky_constrained` if all members have equal
subscriptions, otherwise `sticky_general`, which moves partitions one by one.

Assignments equal Java's (but see `java.hash_order`), except where Java's are invalid: here, a member without topics gets nothing; a
partition that does not exist (any more) does not count as owned; and a partition does not go back to a former owner that is no longer
subscribed to its topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import attrs

from pykafka4.assignors.interface import GroupMember, Topics
from pykafka4.assignors.java import hash_order
from pykafka4.assignors.racks import Racks
from pykafka4.assignors.sticky_constrained import ConstrainedAssignment
from pykafka4.assignors.sticky_general import GeneralAssignment
from pykafka4.records import TopicPartition

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]

Assignment = dict[str, list[TopicPartition]]
NO_GENERATION: Final = -1


@attrs.frozen
class Owned:
    """The partitions that a member owned, and the generation that assigned them; None if the member does not send the generation."""

    partitions: Sequence[TopicPartition]
    generation: int | None


class StickyAssignor:
    """Balances the members' numbers of partitions, and moves few partitions.

    Members release all partitions before they join. Each member sends its last partitions as its user data, so that the leader can assign
    them to the member again.
    """

    name: Final = "sticky"
    cooperative: Final = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> Assignment:
        return _assign(members, topics, _sent_as_user_data)[0]

    def user_data(self, topics: frozenset[str], previous: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Version 1 of the user data of Java's StickyAssignor: version 0, followed by the generation. None without a generation."""
        if generation == NO_GENERATION:
            return None
        parts = [(topic.encode(), [tp.partition for tp in tps]) for topic, tps in groupby(sorted(previous), attrgetter("topic"))]
        packed = b"".join(
            struct.pack(f">h{len(topic)}si{len(numbers)}i", len(topic), topic, len(numbers), *numbers) for topic, numbers in parts
        )
        return struct.pack(">i", len(parts)) + packed + struct.pack(">i", generation)


class CooperativeStickyAssignor:
    """Balances the members' numbers of partitions, and moves few partitions.

    Members keep reading the partitions that do not move (KIP-429). A partition that moves is left out of the assignment until its owner has
    released it.
    """

    name: Final = "cooperative-sticky"
    cooperative: Final = True

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> Assignment:
        result, moving = _assign(members, topics, _sent_as_owned)
        for tp, taker in (_moving(members, result) if moving is None else moving).items():
            result[taker].remove(tp)  # otherwise two members would read the partition until its owner has released it
        return result

    def user_data(self, topics: frozenset[str], previous: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The bytes are the generation, for leaders that do not read it from the subscription."""
        return struct.pack(">i", generation)


def _assign(
    members: Sequence[GroupMember], topics: Topics, owned_by: Callable[[GroupMember], Owned]
) -> tuple[Assignment, Mapping[TopicPartition, str] | None]:
    """Return the assignment, and the new owners of partitions that other members owned (None from `GeneralAssignment`)."""
    result: Assignment = {member.member_id: [] for member in members}
    takers = hash_order([member for member in members if member.topics])
    if not takers:
        return result, {}
    topics = {topic: partitions for topic, partitions in topics.items() if any(topic in member.topics for member in takers)}
    claims = OwnershipClaims(takers, topics, owned_by)
    racks = Racks(takers, topics)
    if len({member.topics for member in takers}) == 1:
        constrained = ConstrainedAssignment(topics, racks, claims.owned, claims.contested)
        return result | constrained.build(), constrained.moving
    return result | GeneralAssignment(takers, topics, racks, claims.owned, claims.former()).build(), None


def _moving(members: Sequence[GroupMember], result: Assignment) -> dict[TopicPartition, str]:
    """The partitions that a member gets while another member owns them, with their takers."""
    revoked = {tp for member in members for tp in set(member.owned).difference(result[member.member_id])}
    added = {tp: member.member_id for member in members for tp in set(result[member.member_id]).difference(member.owned)}
    return {tp: taker for tp, taker in added.items() if tp in revoked}


class OwnershipClaims:
    """The owner of each partition, from the members' claims.

    Of two claims, the claim of the later generation wins (see `_claim`); if both have the same generation, neither wins.
    """

    def __init__(self, members: Sequence[GroupMember], topics: Topics, owned_by: Callable[[GroupMember], Owned]) -> None:
        self._said = {member.member_id: owned_by(member) for member in members}
        self._generations = {member.member_id: member.generation for member in members}
        self.owned: dict[str, dict[TopicPartition, None]] = {member.member_id: {} for member in members}
        self.contested: set[TopicPartition] = set()  # claimed by several members of the same generation
        self._owners: dict[TopicPartition, str] = {}
        for name, said in self._said.items():
            for tp in said.partitions:
                if 0 <= tp.partition < len(topics.get(tp.topic, ())):
                    self._claim(name, NO_GENERATION if said.generation is None else said.generation, tp)

    def _claim(self, name: str, generation: int, tp: TopicPartition) -> None:
        other = self._owners.get(tp)
        if other is None:
            self.owned[name][tp] = None
            self._owners[tp] = name
            return
        others = self._generations[other]  # the field of the subscription, even if the user data has another generation: as in Java
        if generation < others:
            return
        self.owned[other].pop(tp, None)
        self._owners[tp] = name
        if generation == others:
            self.contested.add(tp)
        else:
            self.owned[name][tp] = None

    def former(self) -> dict[TopicPartition, str]:
        """The last owner of each partition before the latest generation."""
        known = {name: NO_GENERATION if said.generation is None else said.generation for name, said in self._said.items()}
        latest = max(NO_GENERATION, *known.values())
        found: dict[TopicPartition, str] = {}
        for name, said in self._said.items():
            if known[name] < latest:
                for tp in said.partitions:
                    if tp not in found or known[name] > known[found[tp]]:
                        found[tp] = name
        return found


# ---- what members send


def _sent_as_owned(member: GroupMember) -> Owned:
    if member.generation >= 0 or member.user_data is None:
        return Owned(member.owned, member.generation if member.generation >= 0 else None)
    try:
        return Owned(member.owned, struct.unpack_from(">i", member.user_data)[0])
    except struct.error:
        return Owned(member.owned, NO_GENERATION)


def _sent_as_user_data(member: GroupMember) -> Owned:
    """With StickyAssignor, members own no partitions while they join; their user data has their last partitions."""
    if not member.user_data:
        return Owned((), None)
    try:
        return _read_user_data(member.user_data)
    except (struct.error, UnicodeDecodeError):
        return Owned((), NO_GENERATION)


def _read_user_data(data: bytes) -> Owned:
    """Read version 1, or version 0, which lacks the generation."""
    at, found = 4, dict[TopicPartition, None]()
    (topics,) = struct.unpack_from(">i", data)
    if topics < 0:
        raise struct.error("a negative number of topics")
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", data, at)
        name, count = struct.unpack_from(f">{max(size, 0)}si", data, at + 2)
        at += 6 + len(name)
        if size < 0 or not 0 <= count <= len(data) // 4:
            raise struct.error("a negative size, or one beyond the data")
        found |= dict.fromkeys(TopicPartition(name.decode(), number) for number in struct.unpack_from(f">{count}i", data, at))
        at += 4 * count
    return Owned(tuple(found), struct.unpack_from(">i", data, at)[0] if at + 4 <= len(data) else None)
