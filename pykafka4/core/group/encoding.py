"""Encodes and decodes subscriptions and assignments. Invariant: the encoders write the format of the Java client."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final

from pykafka4.assignors.interface import GroupMember
from pykafka4.core.group.notes import without_note
from pykafka4.errors import ConfigError, DecodeError
from pykafka4.errors.peer_text import visible
from pykafka4.logs import get_log
from pykafka4.misuse import check_topic
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerProtocolAssignment, ConsumerProtocolSubscription, JoinGroupResponse
from pykafka4.wire.protocol.schema import decode_data, encode_data

__all__ = [
    "assigned_partitions",
    "assignment_bytes",
    "group_member",
    "group_members",
    "subscription_bytes",
]

log = get_log("pykafka4.group")

VERSION_BYTES: Final = 2  # bytes of the version, before the names of topics
WITHOUT_OWNED, WITH_OWNED = b"\0\0", b"\0\1"  # the first two versions of a subscription: the second added the owned partitions
NO_NAMES: Final = bytes(4)  # an empty array of topic names
# version of subscription and assignment bytes, as in Java; older Java clients read the fields that they know
PROTOCOL_DATA_VERSION: Final = 3


def subscription_bytes(
    topics: Iterable[str],
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    """`generation` is the generation that assigned `owned`; -1 for none."""
    parts = [
        ConsumerProtocolSubscription.Topic(topic=topic, partitions=[tp.partition for tp in tps])
        for topic, tps in groupby(sorted(owned), attrgetter("topic"))
    ]
    message = ConsumerProtocolSubscription(
        topics=sorted(topics), user_data=user_data, owned_partitions=parts, generation_id=generation, rack_id=rack
    )
    return encode_data(message, PROTOCOL_DATA_VERSION)


def group_member(member_id: str, instance_id: str | None, metadata: bytes, where: str, topics: frozenset[str] | None = None) -> GroupMember:
    """`metadata` is the member's subscription. `where` begins log lines. `topics`, if given, replaces the topics in the subscription.

    A subscription that cannot be decoded counts as empty: its member gets no partitions. Invalid topic names are left out.
    """
    try:
        sent = _subscription(metadata)
    except DecodeError as error:
        log.warning("%s: group member %s: cannot decode its subscription, so it gets no partitions (%s)", where, visible(member_id), error)
        return GroupMember(member_id, frozenset(), instance_id)
    return GroupMember(
        member_id,
        frozenset(topic for topic in sent.topics if _is_valid(member_id, topic, where)) if topics is None else topics,
        instance_id,
        tuple(dict.fromkeys(TopicPartition(t.topic, p) for t in sent.owned_partitions for p in t.partitions)),
        max(sent.generation_id, -1),
        sent.rack_id or None,
        without_note(sent.user_data),
    )


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    try:
        return decode_data(ConsumerProtocolSubscription, metadata)
    except DecodeError:
        if not metadata.startswith(WITH_OWNED):
            raise
        # kafka-go writes version 1 before the fields of version 0
        return decode_data(ConsumerProtocolSubscription, WITHOUT_OWNED + metadata[VERSION_BYTES:])


def group_members(rows: Iterable[JoinGroupResponse.Member], where: str) -> tuple[GroupMember, ...]:
    """Avoids decoding topic names that are equal to the previous member's: most members of a group have equal subscriptions, which may list
    hundreds of topics."""
    found: list[GroupMember] = []
    names, topics = b"", frozenset[str]()
    for row in rows:
        if names and row.metadata.startswith(names, VERSION_BYTES):
            rest = row.metadata[:VERSION_BYTES] + NO_NAMES + row.metadata[VERSION_BYTES + len(names) :]
            found.append(group_member(row.member_id, row.group_instance_id, rest, where, topics))
            continue
        member = group_member(row.member_id, row.group_instance_id, row.metadata, where)
        found.append(member)
        names, topics = _names_in(row.metadata) if member.topics else b"", member.topics
    return tuple(found)


def _names_in(subscription: bytes) -> bytes:
    """The encoded topic names in a subscription that can be decoded."""
    end = VERSION_BYTES + len(NO_NAMES)
    for _ in range(int.from_bytes(subscription[VERSION_BYTES:end], "big")):
        end += 2 + int.from_bytes(subscription[end : end + 2], "big")
    return subscription[VERSION_BYTES:end]


def _is_valid(member_id: str, topic: str, where: str) -> bool:
    """Other clients let their users subscribe to anything."""
    try:
        check_topic(topic)
    except ConfigError as error:
        log.warning("%s: group member %s subscribes to an invalid topic name: %s", where, visible(member_id), error)
        return False
    return True


def assignment_bytes(tps: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    parts = [ConsumerProtocolAssignment.Topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    return encode_data(ConsumerProtocolAssignment(assigned_partitions=parts), PROTOCOL_DATA_VERSION)


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """Empty bytes mean no partitions. Raises DecodeError."""
    if not assignment:
        return []
    decoded = decode_data(ConsumerProtocolAssignment, assignment)
    return list(dict.fromkeys(TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions))
