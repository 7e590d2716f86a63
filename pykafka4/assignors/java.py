"""Reproduces the orders in which Java processes members and partitions. Invariant: each order equals Java's (`hash_order` names the
exception), because the order decides which member gets which partition.

Java ranks members by string comparison, or takes them in the order of a `HashMap`. A HashMap's order is the same in every Java process,
because it follows from the hash codes of the keys, the number of buckets, and, within a bucket, the order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from pykafka4.assignors.interface import GroupMember
from pykafka4.records import TopicPartition

__all__ = ["PartitionSet", "hash_order", "ranked", "utf16"]

T = TypeVar("T")

LEAST_BUCKETS: Final = 16  # buckets of a new HashMap
WORD: Final = 0xFFFF_FFFF


def utf16(text: str) -> bytes:
    """A sort key for the order of `String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def ranked(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Static members by instance id, then the others by member id (`AbstractPartitionAssignor.MemberInfo`)."""
    return sorted(members, key=_rank)


def _rank(member: GroupMember) -> tuple[bool, bytes]:
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf16(name)


def hash_order(members: Sequence[GroupMember]) -> list[GroupMember]:
    """The order of a `HashMap` by member id, after insertions in the given order.

    Java turns a bucket with more than eight entries into a tree. This is not reproduced: member ids end in random UUIDs, so the entries are
    spread over the buckets.
    """
    last = _bucket_count(len(members)) - 1
    return sorted(members, key=lambda member: _spread(_hash(member.member_id)) & last)


class PartitionSet:
    """A Java `HashSet` of partitions of one topic, for callers that need only its first element."""

    __slots__ = ("_most", "_tps")

    def __init__(self) -> None:
        self._tps: dict[TopicPartition, int] = {}  # in order of insertion, with their hashes
        self._most = 0  # the largest size so far: the table of a HashSet never shrinks

    def __len__(self) -> int:
        return len(self._tps)

    def add(self, tp: TopicPartition) -> None:
        """Add `tp`, which must not be in the set."""
        self._tps[tp] = _spread((31 * (31 + tp.partition) + _hash(tp.topic)) & WORD)
        self._most = max(self._most, len(self._tps))

    def remove(self, tp: TopicPartition) -> None:
        del self._tps[tp]

    def first(self) -> TopicPartition:
        """The first element of Java's iterator."""
        last = _bucket_count(self._most) - 1
        return min(self._tps, key=lambda tp: self._tps[tp] & last)


def _hash(text: str) -> int:
    """`String.hashCode` as an unsigned number."""
    found, units = 0, utf16(text)
    for high, low in zip(units[::2], units[1::2]):
        found = (31 * found + (high << 8) + low) & WORD
    return found


def _spread(code: int) -> int:
    return code ^ (code >> 16)


def _bucket_count(entries: int) -> int:
    """The number of buckets of a HashMap, which doubles when the entries exceed three quarters of it."""
    buckets = LEAST_BUCKETS
    while entries > buckets * 3 // 4:
        buckets *= 2
    return buckets
