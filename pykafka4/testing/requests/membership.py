"""Requests of groups. Rule: only a group's coordinator answers for it, and only once it has loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.groups.group import Group, Joined, JoinRequest, Synced
from pykafka4.testing.requests.session import LATER, Call, Handler, code
from pykafka4.wire.messages_group import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["HANDLERS"]

METADATA_MAX: Final = 4096  # offset.metadata.max.bytes


def refusal(call: Call, group_id: str) -> str | None:
    """Why this broker does not answer for the group."""
    pushed = call.cluster.controls.error_for(call.key)
    if pushed:
        return pushed
    if not group_id:
        return "INVALID_GROUP_ID"
    if call.cluster.coordinator(group_id) != call.broker.node:
        return "NOT_COORDINATOR"
    return "COORDINATOR_LOAD_IN_PROGRESS" if call.cluster.loading(group_id) else None


def afterwards(call: Call, error: str) -> str:
    """`error`, or the one that was ordered for a request which is carried out all the same."""
    return (call.cluster.controls.error_for(call.key, when=When.AFTER) if error == "NONE" else None) or error


# ---- membership


def join(call: Call) -> Any:
    """Answered when the generation is complete."""
    message: JoinGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return _join_answer(call, Joined(refused, member_id=message.member_id))
    session = message.session_timeout_ms / 1000
    request = JoinRequest(
        message.member_id,
        message.group_instance_id,
        call.client_id,
        message.protocol_type,
        tuple((p.name, bytes(p.metadata)) for p in message.protocols),
        session,
        message.rebalance_timeout_ms / 1000 if message.rebalance_timeout_ms > 0 else session,
        call.version >= 4,
        call.version >= 9,
    )
    call.cluster.group(message.group_id).join(request, lambda joined: call.answer(_join_answer(call, _joined(call, joined))))
    return LATER


def _joined(call: Call, joined: Joined) -> Joined:
    error = afterwards(call, joined.error)
    return joined if error == joined.error else Joined(error, member_id=joined.member_id)


def _join_answer(call: Call, joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code(joined.error),
        generation_id=joined.generation,
        protocol_type="consumer",
        protocol_name=joined.protocol if joined.protocol is not None or call.version >= 7 else "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.Member(member_id=member, group_instance_id=instance, metadata=metadata)
            for member, instance, metadata in joined.members
        ],
    )


def sync(call: Call) -> Any:
    """Answered when the leader's assignment is here."""
    message: SyncGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return _sync_answer(Synced(refused))
    call.cluster.group(message.group_id).sync(
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        {a.member_id: bytes(a.assignment) for a in message.assignments},
        lambda synced: call.answer(_sync_answer(_synced(call, synced))),
    )
    return LATER


def _synced(call: Call, synced: Synced) -> Synced:
    error = afterwards(call, synced.error)
    return synced if error == synced.error else Synced(error)


def _sync_answer(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=code(synced.error), protocol_type="consumer", protocol_name=synced.protocol, assignment=synced.assignment
    )


def heartbeat(call: Call) -> HeartbeatResponse:
    """The member lives."""
    message: HeartbeatRequest = call.message
    error = refusal(call, message.group_id) or call.cluster.group(message.group_id).heartbeat(
        message.generation_id, message.member_id, message.group_instance_id
    )
    return HeartbeatResponse(error_code=code(afterwards(call, error)))


def leave(call: Call) -> LeaveGroupResponse:
    """One member (up to v2) or several leave."""
    message: LeaveGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return LeaveGroupResponse(error_code=code(refused), members=[])
    group = call.cluster.group(message.group_id)
    if call.version < 3:
        return LeaveGroupResponse(error_code=code(afterwards(call, group.leave(message.member_id, None))), members=[])
    members = [
        LeaveGroupResponse.Member(
            member_id=m.member_id,
            group_instance_id=m.group_instance_id,
            error_code=code(group.leave(m.member_id, m.group_instance_id)),
        )
        for m in message.members
    ]
    return LeaveGroupResponse(error_code=code(afterwards(call, "NONE")), members=members)


# ---- positions


def commit(call: Call) -> OffsetCommitResponse:
    """Store positions of members of this generation."""
    message: OffsetCommitRequest = call.message
    refused = refusal(call, message.group_id)
    group = call.cluster.group(message.group_id)
    refused = refused or group.may_commit(message.generation_id_or_member_epoch, message.member_id, message.group_instance_id)
    if refused is None and message.member_id:
        group.heard(group.members[message.member_id])
    after = "NONE" if refused else afterwards(call, "NONE")
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_commit_one(call, group, topic, part, refused, after) for part in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _commit_one(
    call: Call, group: Group, topic: OffsetCommitRequest.Topic, part: OffsetCommitRequest.Topic.Partition, refused: str | None, after: str
) -> OffsetCommitResponse.Topic.Partition:
    """`refused`: why the whole request is; `after`: the error that is told although it is carried out."""
    found = call.cluster.topic_by_id(topic.topic_id) if call.version >= 10 else call.cluster.topics.get(topic.name)
    if found is None or part.partition_index >= len(found.partitions):  # brokers look at this before they ask the coordinator
        refused = "UNKNOWN_TOPIC_ID" if call.version >= 10 else "UNKNOWN_TOPIC_OR_PARTITION"
    elif refused is None and len(part.committed_metadata or "") > METADATA_MAX:
        refused = "OFFSET_METADATA_TOO_LARGE"
    ordered = call.cluster.controls.error_of_part
    if refused is None and found is not None:
        refused = ordered(call.key, found.name, part.partition_index, When.BEFORE)
    if refused is None and found is not None:
        position = OffsetAndMetadata(part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
        tp = TopicPartition(found.name, part.partition_index)
        group.commit(tp, position)
        for watch in call.cluster.on_commit:
            watch(group.id, tp, position.offset, not call.session.forsaken)
        after = ordered(call.key, found.name, part.partition_index, When.AFTER) or after
    return OffsetCommitResponse.Topic.Partition(partition_index=part.partition_index, error_code=code(refused or after))


def fetch_offsets(call: Call) -> OffsetFetchResponse:
    """Stored positions, -1 where there is none."""
    message: OffsetFetchRequest = call.message
    if call.version >= 8:
        return OffsetFetchResponse(groups=[_fetch_group(call, wanted, message.require_stable) for wanted in message.groups])
    refused = refusal(call, message.group_id)
    group = call.cluster.group(message.group_id)
    wanted = _all_of(group) if message.topics is None else [(t.name, t.partition_indexes) for t in message.topics]
    one = OffsetFetchResponse.Topic
    stored = partial(_stored, one.Partition, group, refused, message.require_stable)
    return OffsetFetchResponse(
        error_code=code(refused or "NONE"),
        topics=[one(name=name, partitions=[stored(name, i) for i in indexes]) for name, indexes in wanted],
    )


def _fetch_group(call: Call, wanted: OffsetFetchRequest.Group, stable: bool) -> OffsetFetchResponse.Group:
    refused = refusal(call, wanted.group_id)
    group = call.cluster.group(wanted.group_id)
    one = OffsetFetchResponse.Group.Topic
    answer = OffsetFetchResponse.Group(group_id=wanted.group_id, error_code=code(refused or "NONE"), topics=[])
    if refused:
        return answer
    if wanted.topics is None:
        names = [(name, indexes, call.cluster.topics[name].id) for name, indexes in _all_of(group)]
    else:
        names = [(_name_of(call, t), t.partition_indexes, t.topic_id) for t in wanted.topics]
    stored = partial(_stored, one.Partition, group, None, stable)
    answer.topics = [one(name=name, topic_id=topic_id, partitions=[stored(name, i) for i in indexes]) for name, indexes, topic_id in names]
    return answer


def _name_of(call: Call, topic: OffsetFetchRequest.Group.Topic) -> str:
    found = call.cluster.topic_by_id(topic.topic_id) if call.version >= 10 else None
    return found.name if found else topic.name


def _all_of(group: Group) -> list[tuple[str, list[int]]]:
    names: dict[str, list[int]] = {}
    for tp in sorted(group.offsets):
        names.setdefault(tp.topic, []).append(tp.partition)
    return list(names.items())


def _stored(kind: Callable[..., Any], group: Group, refused: str | None, stable: bool, topic: str, partition: int) -> Any:
    found = None if refused else group.stored(TopicPartition(topic, partition), stable=stable)
    return kind(
        partition_index=partition,
        committed_offset=found.offset if found else -1,
        committed_leader_epoch=found.leader_epoch if found else -1,
        metadata=found.metadata if found else "",
        error_code=code(refused or "NONE"),
    )


# ---- looking at groups


def describe(call: Call) -> DescribeGroupsResponse:
    """State and members."""
    return DescribeGroupsResponse(groups=[_describe_one(call, name) for name in call.message.groups])


def _describe_one(call: Call, name: str) -> DescribeGroupsResponse.Group:
    refused = refusal(call, name)
    group = call.cluster.groups.get(name)
    members = list(group.members.values()) if group and not refused else []
    return DescribeGroupsResponse.Group(
        error_code=code(refused or "NONE"),
        group_id=name,
        group_state=group.state.value if group else "Dead",
        protocol_type=group.protocol_type if group else "",
        protocol_data=(group.protocol or "") if group else "",
        members=[
            DescribeGroupsResponse.Group.Member(
                member_id=m.id,
                group_instance_id=m.request.instance_id,
                client_id=m.request.client_id,
                client_host="/127.0.0.1",
                member_metadata=m.metadata(group.protocol) if group and group.protocol else b"",
                member_assignment=m.assignment,
            )
            for m in members
        ],
    )


def list_groups(call: Call) -> ListGroupsResponse:
    """The groups this broker coordinates."""
    mine = [g for g in call.cluster.groups.values() if call.cluster.coordinator(g.id) == call.broker.node]
    return ListGroupsResponse(
        error_code=0,
        groups=[
            ListGroupsResponse.Group(group_id=g.id, protocol_type=g.protocol_type, group_state=g.state.value, group_type="classic")
            for g in mine
        ],
    )


def delete_groups(call: Call) -> DeleteGroupsResponse:
    """Empty groups go, with their positions."""
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponse.Result(group_id=name, error_code=code(_delete_one(call, name))) for name in call.message.groups_names]
    )


def _delete_one(call: Call, name: str) -> str:
    refused = refusal(call, name)
    if refused or name not in call.cluster.groups:
        return refused or "GROUP_ID_NOT_FOUND"
    if call.cluster.groups[name].members:
        return "NON_EMPTY_GROUP"
    del call.cluster.groups[name]
    return "NONE"


HANDLERS: Final[Mapping[int, Handler]] = {
    JoinGroupRequest.api_key: join,
    SyncGroupRequest.api_key: sync,
    HeartbeatRequest.api_key: heartbeat,
    LeaveGroupRequest.api_key: leave,
    OffsetCommitRequest.api_key: commit,
    OffsetFetchRequest.api_key: fetch_offsets,
    DescribeGroupsRequest.api_key: describe,
    ListGroupsRequest.api_key: list_groups,
    DeleteGroupsRequest.api_key: delete_groups,
}
