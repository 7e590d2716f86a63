"""Range assignor. Rule: of each topic, a member gets a contiguous range of partitions; the first members may get one more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pykafka4.assignors.interface import GroupMember, Topics
from pykafka4.assignors.java import ranked, utf16
from pykafka4.records import TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """Per topic, a contiguous range of partitions for each subscriber. Topics with as many partitions and the same subscribers are
    assigned alike, so that a member gets the same partition numbers of them."""

    name: Final = "range"
    cooperative: Final = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        """See `Assignor.assign`."""
        result: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        in_rank = ranked(members)
        for topic in sorted(topics, key=utf16):
            takers = [member for member in in_rank if topic in member.topics]
            for member, numbers in zip(takers, _ranges(len(topics[topic]), len(takers))):
                result[member.member_id] += [TopicPartition(topic, number) for number in numbers]
        return result


def _ranges(count: int, takers: int) -> Iterable[range]:
    each, extra = divmod(count, takers)
    for i in range(takers):
        first = i * each + min(i, extra)
        yield range(first, first + each + (i < extra))
