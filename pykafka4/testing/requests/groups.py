"""Serves FindCoordinator, and requests about groups and their members. Invariant: only a group's coordinator serves the group."""

from __future__ import annotations

from functools import partial
from typing import Any

from pykafka4.testing.faults.controls import When
from pykafka4.testing.groups.assigning import Part, by_topic
from pykafka4.testing.groups.group import Group, Joined, JoinRequest, Member, Synced
from pykafka4.testing.groups.modern import GroupHeartbeat, GroupHeartbeatResponse, ModernMember
from pykafka4.testing.requests.session import LATER, Call, code
from pykafka4.wire.protocol.messages_admin import ConsumerGroupDescribeResponse, DeleteGroupsResponse, ListGroupsResponse
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = [
    "beaten",
    "delete_groups",
    "describe",
    "describe_consumer_groups",
    "error_after",
    "existing",
    "find_coordinator",
    "group_heartbeat",
    "heartbeat",
    "join",
    "leave",
    "list_groups",
    "member_refusal",
    "refusal",
    "sync",
]

NOT_FOUND_FROM = 6  # the first version of DescribeGroups with an error for a group that does not exist
KINDS = GROUP_KEY, TRANSACTION_KEY = 0, 1


def refusal(call: Call, group_id: str, operation: str = "READ", *, nameless: bool = False) -> str | None:
    """The ordered error, or the error if this broker does not serve the group or denies the operation; otherwise None.

    `nameless`: whether the id may be empty.
    """
    refused = call.ordered_error() or call.denied("group", group_id, operation)
    if refused:
        return refused
    if not group_id and not nameless:
        return "INVALID_GROUP_ID"
    if call.cluster.coordinator(group_id) != call.broker.node:
        return "NOT_COORDINATOR"
    return "COORDINATOR_LOAD_IN_PROGRESS" if call.cluster.coordinators.loading(group_id) else None


def error_after(call: Call, error: str) -> str:
    """`error`, or, if it is NONE, the error that was ordered with `When.AFTER`, if any."""
    return (call.ordered_error(when=When.AFTER) if error == "NONE" else None) or error


# ---- membership


def join(call: Call) -> Any:
    message: JoinGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return _joined(call, Joined(refused, member_id=message.member_id))
    request = JoinRequest(
        message.member_id,
        message.group_instance_id,
        call.client_id,
        message.protocol_type,
        tuple((p.name, bytes(p.metadata)) for p in message.protocols),
        message.session_timeout_ms / 1000,
        (message.rebalance_timeout_ms if message.rebalance_timeout_ms > 0 else message.session_timeout_ms) / 1000,
        needs_id_first=call.version >= 4,
        skips_assignment=call.version >= 9,
    )

    def answer(joined: Joined) -> None:
        error = error_after(call, joined.error)
        call.answer(_joined(call, joined if error == joined.error else Joined(error, member_id=joined.member_id)))

    call.cluster.group(message.group_id).join(request, answer)
    return LATER


def _joined(call: Call, joined: Joined) -> JoinGroupResponse:
    members = [JoinGroupResponse.Member(member_id=id, group_instance_id=instance, metadata=data) for id, instance, data in joined.members]
    return JoinGroupResponse(
        error_code=code(joined.error),
        generation_id=joined.generation,
        protocol_type="consumer",
        protocol_name=joined.protocol if joined.protocol is not None or call.version >= 7 else "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=members,
    )


def sync(call: Call) -> Any:
    message: SyncGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return _synced(Synced(refused))

    def answer(synced: Synced) -> None:
        error = error_after(call, synced.error)
        call.answer(_synced(synced if error == synced.error else Synced(error)))

    assignments = {a.member_id: bytes(a.assignment) for a in message.assignments}
    group = call.cluster.group(message.group_id)
    group.sync(message.generation_id, message.member_id, message.group_instance_id, assignments, answer)
    return LATER


def _synced(synced: Synced) -> SyncGroupResponse:
    error, name = code(synced.error), synced.protocol
    return SyncGroupResponse(error_code=error, protocol_type="consumer", protocol_name=name, assignment=synced.assignment)


def heartbeat(call: Call) -> HeartbeatResponse:
    message: HeartbeatRequest = call.message
    error = refusal(call, message.group_id) or call.cluster.group(message.group_id).heartbeat(
        message.generation_id, message.member_id, message.group_instance_id
    )
    return HeartbeatResponse(error_code=code(error_after(call, error)))


def leave(call: Call) -> LeaveGroupResponse:
    message: LeaveGroupRequest = call.message
    refused = refusal(call, message.group_id)
    if refused:
        return LeaveGroupResponse(error_code=code(refused), members=[])
    group = call.cluster.group(message.group_id)
    if call.version < 3:
        return LeaveGroupResponse(error_code=code(error_after(call, group.leave(message.member_id, None))), members=[])
    kind = LeaveGroupResponse.Member
    left = [(m.member_id, m.group_instance_id, group.leave(m.member_id, m.group_instance_id)) for m in message.members]
    members = [kind(member_id=member, group_instance_id=instance, error_code=code(error)) for member, instance, error in left]
    return LeaveGroupResponse(error_code=code(error_after(call, "NONE")), members=members)


def group_heartbeat(call: Call) -> ConsumerGroupHeartbeatResponse:
    message: ConsumerGroupHeartbeatRequest = call.message
    topics, owned = message.subscribed_topic_names, message.topic_partitions
    if refused := member_refusal(call, topics):
        return _beaten(call, GroupHeartbeatResponse(refused))
    beat = call.cluster.group(message.group_id).group_heartbeat(
        GroupHeartbeat(
            message.member_id,
            message.member_epoch,
            message.instance_id,
            call.client_id,
            None if message.rebalance_timeout_ms < 0 else message.rebalance_timeout_ms / 1000,
            None if topics is None else tuple(topics),
            message.server_assignor,
            None if owned is None else frozenset((part.topic_id, number) for part in owned for number in part.partitions),
            message.subscribed_topic_regex,
        )
    )
    error = error_after(call, beat.error)
    return _beaten(call, beat if error == beat.error else GroupHeartbeatResponse(error))


def _beaten(call: Call, beat: GroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
    response: ConsumerGroupHeartbeatResponse = beaten(
        ConsumerGroupHeartbeatResponse, beat, beat.member_id, call.cluster.coordinators.heartbeat_interval
    )
    return response


def member_refusal(call: Call, topics: list[str] | None) -> str | None:
    """The error of `refusal`, or the error if one of `topics` is denied."""
    refused = refusal(call, call.message.group_id)
    for topic in topics or ():
        refused = refused or call.denied("topic", topic, "DESCRIBE")
    return refused


def beaten(kind: Any, beat: Any, member_id: str, interval: float) -> Any:
    assignment = None
    if beat.assignment is not None:
        row = kind.Assignment.TopicPartitions
        rows = [row(topic_id=topic, partitions=those) for topic, those in by_topic(beat.assignment).items()]
        assignment = kind.Assignment(topic_partitions=rows)
    return kind(
        error_code=code(beat.error),
        error_message=beat.message,
        member_id=member_id,
        member_epoch=beat.epoch,
        heartbeat_interval_ms=int(1000 * interval),
        assignment=assignment,
    )


# ---- groups as a whole


def find_coordinator(call: Call) -> FindCoordinatorResponse:
    message: FindCoordinatorRequest = call.message
    if call.version >= 4:
        found = [_coordinator(call, key, message.key_type) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(call, message.key, message.key_type)
    return FindCoordinatorResponse(error_code=one.error_code, error_message=None, node_id=one.node_id, host=one.host, port=one.port)


def _coordinator(call: Call, key: str, kind: int) -> FindCoordinatorResponse.Coordinator:
    found, node = FindCoordinatorResponse.Coordinator, None
    resource = "transactional_id" if kind == TRANSACTION_KEY else "group"
    refused = call.ordered_error() or call.denied(resource, key, "DESCRIBE") or (None if kind in KINDS else "INVALID_REQUEST")
    if kind == GROUP_KEY:
        node = call.cluster.metadata.snapshot(call.broker.node).coordinators.get(key) or call.cluster.coordinator(key)
    elif kind == TRANSACTION_KEY:
        node = call.cluster.transactions.coordinator_of(key)
    if refused or node is None:
        return found(key=key, node_id=-1, host="", port=-1, error_code=code(refused or "COORDINATOR_NOT_AVAILABLE"), error_message=None)
    broker = call.cluster.brokers[node]
    return found(key=key, node_id=node, host=broker.host, port=broker.port, error_code=0, error_message=None)


def describe(call: Call) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_describe_one(call, name) for name in call.message.groups])


def _describe_one(call: Call, name: str) -> DescribeGroupsResponse.Group:
    refused, detail = refusal(call, name, "DESCRIBE", nameless=True), None
    group = existing(call, name)
    if group is not None and group.modern.members:
        group = None
    if group is None and refused is None and call.version >= NOT_FOUND_FROM:
        refused, detail = "GROUP_ID_NOT_FOUND", f"Group {name} not found."
    return DescribeGroupsResponse.Group(
        error_code=code(refused),
        error_message=detail,
        group_id=name,
        group_state=group.state.value if group else "Dead",
        protocol_type=group.protocol_type if group else "",
        protocol_data=(group.protocol or "") if group else "",
        members=[_described(member, group.protocol) for member in group.members.values()] if group and not refused else [],
    )


def existing(call: Call, name: str) -> Group | None:
    """The group; None if brokers would not know it."""
    group = call.cluster.groups.get(name)
    return group if group is not None and group.exists else None


def _described(member: Member, protocol: str | None) -> DescribeGroupsResponse.Group.Member:
    return DescribeGroupsResponse.Group.Member(
        member_id=member.id,
        group_instance_id=member.request.instance_id,
        client_id=member.request.client_id,
        client_host="/127.0.0.1",
        member_metadata=member.metadata(protocol) if protocol else b"",
        member_assignment=member.assignment,
    )


def list_groups(call: Call) -> ListGroupsResponse:
    """Groups for which DESCRIBE is denied are left out."""
    refused = call.ordered_error()
    if refused:
        return ListGroupsResponse(error_code=code(refused))
    mine = [g for g in call.cluster.groups.values() if g.exists and call.cluster.coordinator(g.id) == call.broker.node]
    return ListGroupsResponse(groups=[_listed(group) for group in mine if not call.denied("group", group.id, "DESCRIBE")])


def _listed(group: Group) -> ListGroupsResponse.Group:
    kind = partial(ListGroupsResponse.Group, group_id=group.id)
    if group.modern.members:
        return kind(protocol_type="consumer", group_state=group.modern.state, group_type="consumer")
    return kind(protocol_type=group.protocol_type, group_state=group.state.value, group_type="classic")


def describe_consumer_groups(call: Call) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_describe_modern(call, name) for name in call.message.group_ids])


def _describe_modern(call: Call, name: str) -> ConsumerGroupDescribeResponse.Group:
    kind, group = ConsumerGroupDescribeResponse.Group, existing(call, name)
    refused = refusal(call, name, "DESCRIBE")
    if refused or group is None or not group.modern.members:
        detail = f"Group {name} is not a consumer group." if group else f"Group {name} not found."
        return kind(group_id=name, error_code=code(refused or "GROUP_ID_NOT_FOUND"), error_message=None if refused else detail)
    modern = group.modern
    return kind(
        group_id=name,
        group_state=modern.state,
        group_epoch=modern.epoch,
        assignment_epoch=modern.epoch,
        assignor_name=modern.assignor,
        members=[_described_modern(call, member, modern.target.get(member.id, set())) for member in modern.members.values()],
    )


def _described_modern(call: Call, member: ModernMember, target: set[Part]) -> ConsumerGroupDescribeResponse.Group.Member:
    kind = ConsumerGroupDescribeResponse.Group.Member

    def share(parts: set[Part]) -> ConsumerGroupDescribeResponse.Group.Member.Assignment:
        topics = by_topic(parts)
        found = {topic_id: call.cluster.topics.by_id(topic_id) for topic_id in topics}
        one = kind.Assignment.TopicPartitions
        rows = [one(topic_id=t, topic_name=topic.name, partitions=topics[t]) for t, topic in found.items() if topic is not None]
        return kind.Assignment(topic_partitions=rows)

    return kind(
        member_id=member.id,
        instance_id=member.instance_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host="/127.0.0.1",
        subscribed_topic_names=list(member.topics),
        assignment=share(member.assigned),
        target_assignment=share(target),
    )


def delete_groups(call: Call) -> DeleteGroupsResponse:
    kind, names = DeleteGroupsResponse.Result, call.message.groups_names
    return DeleteGroupsResponse(results=[kind(group_id=name, error_code=code(_delete_one(call, name))) for name in names])


def _delete_one(call: Call, name: str) -> str | None:
    refused = refusal(call, name, "DELETE", nameless=True)
    if refused or existing(call, name) is None:
        return refused or "GROUP_ID_NOT_FOUND"
    if call.cluster.groups[name].members or call.cluster.groups[name].modern.members:
        return "NON_EMPTY_GROUP"
    del call.cluster.groups[name]
    return None
