"""Assigns the partitions of each topic to its subscribers, in ranges. Invariant: within a topic, the subscribers' numbers of
partitions differ by at most one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from pykafka4.assignors.interface import GroupMember, PartitionInfo, Topics
from pykafka4.assignors.java import ranked, utf16
from pykafka4.assignors.racks import racks_matter
from pykafka4.records import TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """Assigns to each subscriber a contiguous range of the partitions of a topic.

    Topics with the same subscribers and the same number of partitions are assigned alike, so that a member gets the same partition numbers
    of each. If members and brokers have racks (KIP-881), members may first get partitions with a replica in their own rack, so their
    partitions need not be contiguous.
    """

    name: Final = "range"
    cooperative: Final = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        in_rank = ranked(members)
        result: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        takers = {topic: [member for member in in_rank if topic in member.topics] for topic in sorted(topics, key=utf16)}
        states = [TopicState(topics[topic], subscribers) for topic, subscribers in takers.items()] if _have_racks(members) else []
        if any(state.by_racks for state in states):
            _assign_by_racks(states)
            for state in states:
                for name, numbers in state.assigned.items():
                    result[name] += [state.partitions[number].tp for number in sorted(numbers)]
            return result
        for topic, subscribers in takers.items():
            tps = [partition.tp for partition in topics[topic]]
            for member, share in zip(subscribers, _ranges(len(tps), len(subscribers))):
                result[member.member_id] += tps[share]
        return result


def _have_racks(members: Sequence[GroupMember]) -> bool:
    return any(member.rack for member in members)


def _ranges(count: int, takers: int) -> Iterable[slice]:
    """The ranges of `count` partitions for `takers` members, without empty ranges."""
    each, extra = divmod(count, takers) if takers else (0, 0)
    for i in range(takers if each else extra):
        first = i * each + min(i, extra)
        yield slice(first, first + each + (i < extra))


@attrs.define(eq=False)
class TopicState:
    """One topic during an assignment by racks."""

    partitions: Sequence[PartitionInfo]
    members: list[GroupMember]  # the subscribers, by rank
    each: int = attrs.field(init=False)  # least number of partitions of a member
    extra: int = attrs.field(init=False)  # number of members that can still get one partition more than `each`
    left: list[int] = attrs.field(init=False)  # partitions that are not assigned yet, in order
    assigned: dict[str, list[int]] = attrs.field(init=False)
    by_racks: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        count = len(self.partitions)
        self.each, self.extra = divmod(count, len(self.members)) if self.members else (0, 0)
        self.left = list(range(count))
        self.assigned = {member.member_id: [] for member in self.members}
        self.by_racks = racks_matter({member.rack for member in self.members if member.rack}, self.partitions)

    def room(self, member: GroupMember) -> int:
        return max(0, self.each + (self.extra > 0) - len(self.assigned[member.member_id]))

    def in_rack(self, member: GroupMember, partition: int) -> bool:
        """Whether the member has no rack, or the partition has a replica in the member's rack."""
        return member.rack is None or member.rack in self.partitions[partition].racks

    def give(self, member: GroupMember, partitions: Sequence[int]) -> None:
        mine = self.assigned[member.member_id]
        mine += partitions
        if len(mine) > self.each:
            self.extra -= 1
        given = set(partitions)
        self.left = [number for number in self.left if number not in given]

    def assign_ranges(self, fits: Callable[[GroupMember, int], bool]) -> None:
        """Assign to each member the first partitions that fit, as many as the member can get."""
        for member in self.members:
            if not self.left:
                break
            room = self.room(member)
            if fitting := _first(room, (number for number in self.left if fits(member, number))):
                self.give(member, fitting)


def _first(count: int, numbers: Iterable[int]) -> list[int]:
    return [number for _, number in zip(range(count), numbers)]


def _assign_by_racks(states: Sequence[TopicState]) -> None:
    """Assign partitions with a replica in the rack of a member first, then the others.

    Topics with the same subscribers and number of partitions are assigned together.
    """
    alike: dict[tuple[frozenset[str], int], list[TopicState]] = {}
    for state in states:
        alike.setdefault((frozenset(state.assigned), len(state.partitions)), []).append(state)
    for group in alike.values():
        if len(group) > 1:
            _assign_alike(group)
        elif group[0].by_racks:
            group[0].assign_ranges(group[0].in_rack)
    for state in states:
        state.assign_ranges(lambda member, partition: True)


def _assign_alike(states: Sequence[TopicState]) -> None:
    """Assign each partition number, in all topics, to the first member with room and replicas of all these partitions in its rack.

    A member without a rack fits every partition. A number without such a member stays unassigned, as do all numbers if no member has a
    rack.
    """
    if not any(member.rack for member in states[0].members):
        return
    remaining = list(states[0].members)
    for number in range(len(states[0].partitions)):
        member = next((m for m in remaining if all(state.in_rack(m, number) and state.room(m) for state in states)), None)
        if member is None:
            continue
        for state in states:
            state.give(member, [number])
        if not any(state.room(member) for state in states):
            remaining.remove(member)
