"""Assignors. Rule: for the same members and topics, an assignor computes exactly the assignment of the Java client's.

In a group with different clients any of them can be the leader, so an assignor is an agreement between implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import attrs

from pykafka4.errors import ConfigError, DecodeError
from pykafka4.logs import get_log
from pykafka4.misuse import check_topic
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka4.wire.protocol.schema import decode_data, encode_data

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "GroupAssignment",
    "GroupMember",
    "assigned_partitions",
    "assignment_bytes",
    "group_member",
    "range_assignor",
    "subscription_bytes",
]

log = get_log("pykafka4.group")

PROTOCOL_DATA: Final = 1  # version of subscription and assignment bytes; enough for eager rebalancing

GroupAssignment = dict[str, list[TopicPartition]]


@attrs.frozen
class GroupMember:
    """A member as the group's leader sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


Assignor = Callable[[Collection[GroupMember], Mapping[str, int]], GroupAssignment]


def _rank(member: GroupMember) -> tuple[bool, bytes]:
    """Static members first, by instance id, then the others by member id (`AbstractPartitionAssignor.MemberInfo`).

    Java compares UTF-16 units, not code points.
    """
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def range_assignor(members: Collection[GroupMember], partitions: Mapping[str, int]) -> GroupAssignment:
    """Per topic, a contiguous range for each subscriber; the first ones get one more if the number is not divisible.

    `partitions` has the number of partitions of each topic; topics without partitions are not assigned.
    """
    result: GroupAssignment = {member.member_id: [] for member in members}
    ranked = sorted(members, key=_rank)
    for topic in sorted({topic for member in members for topic in member.topics}):
        takers = [member for member in ranked if topic in member.topics]
        for member, numbers in zip(takers, _ranges(partitions.get(topic, 0), len(takers))):
            result[member.member_id] += [TopicPartition(topic, number) for number in numbers]
    return result


def _ranges(count: int, takers: int) -> Iterable[range]:
    each, extra = divmod(count, takers)
    for i in range(takers):
        first = i * each + min(i, extra)
        yield range(first, first + each + (i < extra))


# Names also in `ConsumerConfig.partition_assignment_strategy`; a test compares them. A cooperative one needs partial revocation in
# `membership` as well.
ASSIGNORS: Mapping[str, Assignor] = {"range": range_assignor}


# ---- subscriptions and assignments as bytes


def subscription_bytes(topics: Iterable[str]) -> bytes:
    """The subscription that this member sends in JoinGroup."""
    return encode_data(ConsumerProtocolSubscription(topics=sorted(topics)), PROTOCOL_DATA)


def group_member(member_id: str, instance_id: str | None, metadata: bytes, where: str) -> GroupMember:
    """A member from its subscription in JoinGroup. `where` precedes log lines: the client id and the group."""
    try:
        topics = frozenset(decode_data(ConsumerProtocolSubscription, metadata).topics)
    except DecodeError as error:
        log.warning("%s: group member %s: cannot decode its subscription, so it is assigned no partitions (%s)", where, member_id, error)
        topics = frozenset()
    return GroupMember(member_id, frozenset(topic for topic in topics if _is_valid(member_id, topic, where)), instance_id)


def _is_valid(member_id: str, topic: str, where: str) -> bool:
    """Whether `topic` is a valid name; other clients let their users subscribe to anything."""
    try:
        check_topic(topic)
    except ConfigError as error:
        log.warning("%s: group member %s subscribes to an invalid topic name: %s", where, member_id, error)
        return False
    return True


def assignment_bytes(tps: Iterable[TopicPartition]) -> bytes:
    """The assignment of one member in a SyncGroup request."""
    topics: dict[str, list[int]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    parts = [ConsumerProtocolAssignment.Topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    return encode_data(ConsumerProtocolAssignment(assigned_partitions=parts), PROTOCOL_DATA)


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """The partitions in a SyncGroup response; empty bytes mean none."""
    if not assignment:
        return []
    decoded = decode_data(ConsumerProtocolAssignment, assignment)
    return list(dict.fromkeys(TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions))
