"""Compares the racks of members and partitions (KIP-881).

Racks matter only if a replica is in the rack of a member, and not all partitions have replicas in the same racks. As in Java,
`Racks.by_takers` uses racks even if they do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from pykafka4.assignors.interface import GroupMember, PartitionInfo, Topics
from pykafka4.records import TopicPartition

__all__ = ["Racks", "racks_matter"]


def racks_matter(member_racks: Collection[str], partitions: Iterable[PartitionInfo]) -> bool:
    """Whether partitions must be assigned by racks (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
    if not member_racks:
        return False
    different = {partition.racks for partition in partitions}
    everywhere = frozenset[str]().union(*different)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in different)


class Racks:
    __slots__ = ("_takers", "members", "partitions")

    def __init__(self, members: Collection[GroupMember], topics: Topics) -> None:
        found = {member.member_id: member.rack for member in members if member.rack}
        counts = Counter(found.values())
        every = [partition for partitions in topics.values() for partition in partitions] if found else []
        self._takers = {each.tp: sum(counts[rack] for rack in each.racks) for each in every}  # even if racks do not matter, as in Java
        matter = racks_matter(counts, every)
        self.members: Mapping[str, str] = found if matter else {}  # empty: racks do not matter
        self.partitions: Mapping[TopicPartition, frozenset[str]] = {each.tp: each.racks for each in every} if matter else {}

    def differ(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether racks matter, the member has a rack, and `tp` has no replica in that rack."""
        rack = self.members.get(member_id)
        return rack is not None and rack not in self.partitions[tp]

    def by_takers(self, tps: list[TopicPartition]) -> list[TopicPartition]:
        """Sort `tps` by the number of members in the racks of each, lowest first."""
        takers = self._takers
        return sorted(tps, key=lambda tp: takers[tp]) if takers else tps

    def next_member(self, tp: TopicPartition, members: Sequence[str], start: int) -> int:
        """The index of the first member in a rack of `tp`, from `start` on and then from the beginning; -1 if there is none."""
        racks = self.partitions[tp]
        if racks:
            for place in chain(range(start, len(members)), range(min(start, len(members)))):
                if self.members.get(members[place]) in racks:
                    return place
        return -1
