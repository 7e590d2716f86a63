"""Assigns all partitions to members in turn. Invariant: a member that is not subscribed to the topic is passed over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from pykafka4.assignors.interface import GroupMember, Topics
from pykafka4.assignors.java import ranked, utf16
from pykafka4.records import TopicPartition

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor:
    """Assigns the partitions, one at a time, to the members in turn.

    With equal subscriptions the members' numbers of partitions differ by at most one.
    """

    name: Final = "roundrobin"
    cooperative: Final = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        result: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        circle, turn = ranked(members), 0
        for topic in sorted({topic for member in members for topic in member.topics} & topics.keys(), key=utf16):
            takers = [place for place, member in enumerate(circle) if topic in member.topics]
            for partition in topics[topic]:
                at = bisect_left(takers, turn) % len(takers)
                result[circle[takers[at]].member_id].append(partition.tp)
                turn = takers[at] + 1
        return result
