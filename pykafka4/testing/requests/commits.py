"""Serves OffsetCommit, OffsetFetch and OffsetDelete. Invariant: OffsetCommit stores only offsets that `Group.may_commit` allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.groups.group import Group
from pykafka4.testing.requests.groups import error_after, existing, refusal
from pykafka4.testing.requests.session import Call, code
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_admin import OffsetDeleteRequest, OffsetDeleteResponse
from pykafka4.wire.protocol.messages_group import (
    ConsumerProtocolSubscription,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykafka4.wire.protocol.schema import decode_data

__all__ = ["commit", "delete_offsets", "fetch_offsets", "keep"]

T = TypeVar("T")
METADATA_MAX: Final = 4096  # offset.metadata.max.bytes


def commit(call: Call) -> OffsetCommitResponse:
    message: OffsetCommitRequest = call.message
    refused = refusal(call, message.group_id, nameless=True)
    group = call.cluster.group(message.group_id)
    refused = refused or group.may_commit(message.generation_id_or_member_epoch, message.member_id, message.group_instance_id)
    if refused is None and message.member_id in group.members:
        group.keep_alive(group.members[message.member_id])
    after = "NONE" if refused else error_after(call, "NONE")
    one = partial(keep, call, OffsetCommitResponse.Topic.Partition, call.version >= 10, refused, after, partial(_store, call, group))
    kind = OffsetCommitResponse.Topic
    topics = [kind(name=t.name, topic_id=t.topic_id, partitions=[one(t, part) for part in t.partitions]) for t in message.topics]
    return OffsetCommitResponse(topics=topics)


def _store(call: Call, group: Group, tp: TopicPartition, position: OffsetAndMetadata) -> None:
    group.commit(tp, position)
    for watch in call.cluster.on_commit:
        watch(group.id, tp, position.offset, not call.session.abandoned)


def keep(
    call: Call,
    kind: Callable[..., T],
    by_id: bool,
    refused: str | None,
    after: str,
    store: Callable[[TopicPartition, OffsetAndMetadata], None],
    topic: Any,
    part: Any,
) -> T:
    """Store one offset unless an error prevents it; return the offset's row in the response, of class `kind`.

    `by_id`: whether the request has topic ids; `refused`: the error of the whole request; `after`: the error, or NONE, in the row of a
    stored offset for which no other error is ordered.
    """
    row = partial(kind, partition_index=part.partition_index)
    found = call.cluster.topics.by_id(topic.topic_id) if by_id else call.cluster.topics.get(topic.name)
    if found is None or part.partition_index >= len(found.partitions):  # brokers check this before they call the coordinator
        return row(error_code=code("UNKNOWN_TOPIC_ID" if by_id else "UNKNOWN_TOPIC_OR_PARTITION"))
    ordered = partial(call.cluster.controls.use_error_of_part, call.key, found.name, part.partition_index)
    refused = refused or call.denied("topic", found.name, "READ")
    if refused is None and len(part.committed_metadata or "") > METADATA_MAX:
        refused = "OFFSET_METADATA_TOO_LARGE"
    refused = refused or ordered(When.BEFORE)
    if refused is None:
        position = OffsetAndMetadata(part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
        store(TopicPartition(found.name, part.partition_index), position)
        after = ordered(When.AFTER) or after
    return row(error_code=code(refused or after))


def fetch_offsets(call: Call) -> OffsetFetchResponse:
    message: OffsetFetchRequest = call.message
    if call.version >= 8:
        return OffsetFetchResponse(groups=[_fetch_group(call, wanted, message.require_stable) for wanted in message.groups])
    refused = refusal(call, message.group_id, "DESCRIBE", nameless=True)
    group = call.cluster.group(message.group_id)
    wanted = _all_of(group) if message.topics is None else [(t.name, t.partition_indexes) for t in message.topics]
    one = OffsetFetchResponse.Topic
    stored = partial(_stored, call, one.Partition, group, refused, message.require_stable)
    return OffsetFetchResponse(
        error_code=code(refused),
        topics=[one(name=name, partitions=[stored(name, i) for i in indexes]) for name, indexes in wanted],
    )


def _fetch_group(call: Call, wanted: OffsetFetchRequest.Group, stable: bool) -> OffsetFetchResponse.Group:
    refused = refusal(call, wanted.group_id, "DESCRIBE", nameless=True)
    group = call.cluster.group(wanted.group_id)
    refused = refused or group.may_look_up(wanted.member_epoch, wanted.member_id or "")
    one = OffsetFetchResponse.Group.Topic
    answer = OffsetFetchResponse.Group(group_id=wanted.group_id, error_code=code(refused), topics=[])
    if refused:
        return answer
    if wanted.topics is None:
        known = {name: topic.id for name, topic in call.cluster.topics.items()}  # an offset of a transaction may outlive the topic
        names = [(name, indexes, known.get(name, NO_UUID)) for name, indexes in _all_of(group)]
    else:
        names = [(_name_of(call, t), t.partition_indexes, t.topic_id) for t in wanted.topics]
    stored = partial(_stored, call, one.Partition, group, None, stable)
    answer.topics = [one(name=name, topic_id=topic_id, partitions=[stored(name, i) for i in indexes]) for name, indexes, topic_id in names]
    return answer


def _name_of(call: Call, topic: OffsetFetchRequest.Group.Topic) -> str:
    found = call.cluster.topics.by_id(topic.topic_id) if call.version >= 10 else None
    return found.name if found else topic.name


def _all_of(group: Group) -> list[tuple[str, list[int]]]:
    names: dict[str, list[int]] = {}
    for tp in sorted(group.offsets):
        names.setdefault(tp.topic, []).append(tp.partition)
    return list(names.items())


def _stored(call: Call, kind: Callable[..., Any], group: Group, refused: str | None, stable: bool, topic: str, partition: int) -> Any:
    refused = refused or call.denied("topic", topic, "DESCRIBE")
    if refused is None and stable and group.unstable(TopicPartition(topic, partition)):
        refused = "UNSTABLE_OFFSET_COMMIT"
    found = None if refused else group.stored(TopicPartition(topic, partition), stable=stable)
    return kind(
        partition_index=partition,
        committed_offset=found.offset if found else -1,
        committed_leader_epoch=found.leader_epoch if found else -1,
        metadata=found.metadata if found else "",
        error_code=code(refused),
    )


def delete_offsets(call: Call) -> OffsetDeleteResponse:
    """Offsets of topics that a member's subscription names are not deleted."""
    message: OffsetDeleteRequest = call.message
    refused = refusal(call, message.group_id, "DELETE")
    group = existing(call, message.group_id)
    if refused or group is None:
        return OffsetDeleteResponse(error_code=code(refused or "GROUP_ID_NOT_FOUND"))
    subscribed, kind = _subscribed(group), OffsetDeleteResponse.Topic
    delete = partial(_delete_one, call, group, subscribed)
    return OffsetDeleteResponse(
        topics=[kind(name=t.name, partitions=[delete(t.name, part.partition_index) for part in t.partitions]) for t in message.topics]
    )


def _subscribed(group: Group) -> set[str]:
    decoded = [decode_data(ConsumerProtocolSubscription, member.request.protocols[0][1]) for member in group.members.values()]
    modern = {topic for member in group.modern.members.values() for topic in member.topics}
    return modern.union(topic for subscription in decoded for topic in subscription.topics)


def _delete_one(call: Call, group: Group, subscribed: set[str], topic: str, partition: int) -> OffsetDeleteResponse.Topic.Partition:
    found = call.cluster.topics.get(topic)
    refused = call.denied("topic", topic, "READ")
    if refused is None and (found is None or partition >= len(found.partitions)):
        refused = "UNKNOWN_TOPIC_OR_PARTITION"
    if refused is None and topic in subscribed:
        refused = "GROUP_SUBSCRIBED_TO_TOPIC"
    if refused is None:
        group.forget(TopicPartition(topic, partition))
    return OffsetDeleteResponse.Topic.Partition(partition_index=partition, error_code=code(refused))
