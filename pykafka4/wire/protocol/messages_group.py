"""Declares the messages of consumer groups and their coordinators."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import MIN_INT32, array, boolean, bytestring, int16, int32, int64, string, uuid, wire
from pykafka4.wire.protocol.schema import Data, Request, Response, data, request, response, struct, value


@response(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Response):
    """The generation that the member has joined; only the leader gets `members`."""

    @struct
    class Member:
        member_id: str = wire(string)
        group_instance_id: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = wire(bytestring)

    throttle_time_ms: int = wire(int32, "2+", ignorable=True)
    error_code: int = wire(int16)
    generation_id: int = wire(int32, default=-1)
    protocol_type: str | None = wire(string, "7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = wire(string, nullable="7+")
    leader: str = wire(string)
    skip_assignment: bool = wire(boolean, "9+")
    member_id: str = wire(string)
    members: list[Member] = wire(array(Member))


@request(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request[JoinGroupResponse]):
    """Join or rejoin a classic group."""

    @struct
    class Protocol:
        name: str = wire(string)
        metadata: bytes = wire(bytestring)

    group_id: str = wire(string)
    session_timeout_ms: int = wire(int32)
    rebalance_timeout_ms: int = wire(int32, "1+", default=-1, ignorable=True)
    member_id: str = wire(string)
    group_instance_id: str | None = wire(string, "5+", nullable="5+", default=None)
    protocol_type: str = wire(string)
    protocols: list[Protocol] = wire(array(Protocol))
    reason: str | None = wire(string, "8+", nullable="8+", default=None, ignorable=True)


@response(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Response):
    """The assignment of the member that asked; empty bytes mean no partitions."""

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16)
    protocol_type: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = wire(bytestring)


@request(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request[SyncGroupResponse]):
    """Ask for the assignment of the member. The leader sends the assignments of all members; the other members send none."""

    @struct
    class Assignment:
        member_id: str = wire(string)
        assignment: bytes = wire(bytestring)

    group_id: str = wire(string)
    generation_id: int = wire(int32)
    member_id: str = wire(string)
    group_instance_id: str | None = wire(string, "3+", nullable="3+", default=None)
    protocol_type: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
    assignments: list[Assignment] = wire(array(Assignment))


@response(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Response):
    """The result: if `error_code` is REBALANCE_IN_PROGRESS, the member must join again."""

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16)


@request(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request[HeartbeatResponse]):
    """Tell the coordinator that the member is alive."""

    group_id: str = wire(string)
    generation_id: int = wire(int32)
    member_id: str = wire(string)
    group_instance_id: str | None = wire(string, "3+", nullable="3+", default=None)


@response(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Response):
    """The result for each member that leaves."""

    @struct
    class Member:
        member_id: str = wire(string, "3+")
        group_instance_id: str | None = wire(string, "3+", nullable="3+")
        error_code: int = wire(int16, "3+")

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16)
    members: list[Member] = wire(array(Member), "3+")


@request(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """Leave a classic group: up to v2 one member, from v3 on a list of members."""

    @struct
    class Member:
        member_id: str = wire(string, "3+")
        group_instance_id: str | None = wire(string, "3+", nullable="3+", default=None)
        reason: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)

    group_id: str = wire(string)
    member_id: str = wire(string, "0-2")
    members: list[Member] = wire(array(Member), "3+")


@response(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Response):
    """The result for each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)

        name: str = wire(string, "0-9", ignorable=True)
        topic_id: UUID = wire(uuid, "10+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32, "3+", ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Commit offsets. From v10 on, topics have ids instead of names."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            committed_offset: int = wire(int64)
            committed_leader_epoch: int = wire(int32, "6+", default=-1, ignorable=True)
            committed_metadata: str | None = wire(string, nullable="0+")

        name: str = wire(string, "0-9", ignorable=True)
        topic_id: UUID = wire(uuid, "10+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    group_id: str = wire(string)
    generation_id_or_member_epoch: int = wire(int32, "1+", default=-1, ignorable=True)
    member_id: str = wire(string, "1+", ignorable=True)
    group_instance_id: str | None = wire(string, "7+", nullable="7+", default=None)
    retention_time_ms: int = wire(int64, "2-4", default=-1, ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@response(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Response):
    """The committed offsets; -1 if none has been committed."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32, "0-7")
            committed_offset: int = wire(int64, "0-7")
            committed_leader_epoch: int = wire(int32, "5-7", default=-1, ignorable=True)
            metadata: str | None = wire(string, "0-7", nullable="0-7")
            error_code: int = wire(int16, "0-7")

        name: str = wire(string, "0-7")
        partitions: list[Partition] = wire(array(Partition), "0-7")

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = wire(int32, "8+")
                committed_offset: int = wire(int64, "8+")
                committed_leader_epoch: int = wire(int32, "8+", default=-1, ignorable=True)
                metadata: str | None = wire(string, "8+", nullable="8+")
                error_code: int = wire(int16, "8+")

            name: str = wire(string, "8-9", ignorable=True)
            topic_id: UUID = wire(uuid, "10+", ignorable=True)
            partitions: list[Partition] = wire(array(Partition), "8+")

        group_id: str = wire(string, "8+")
        topics: list[Topic] = wire(array(Topic), "8+")
        error_code: int = wire(int16, "8+")

    throttle_time_ms: int = wire(int32, "3+", ignorable=True)
    topics: list[Topic] = wire(array(Topic), "0-7")
    error_code: int = wire(int16, "2-7", ignorable=True)
    groups: list[Group] = wire(array(Group), "8+")


@request(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """Ask for the committed offsets of a group, from v8 on of several groups. `topics=None` means all topics (v2+)."""

    @struct
    class Topic:
        name: str = wire(string, "0-7")
        partition_indexes: list[int] = wire(array(int32), "0-7")

    @struct
    class Group:
        @struct
        class Topic:
            name: str = wire(string, "8-9", ignorable=True)
            topic_id: UUID = wire(uuid, "10+", ignorable=True)
            partition_indexes: list[int] = wire(array(int32), "8+")

        group_id: str = wire(string, "8+")
        member_id: str | None = wire(string, "9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = wire(int32, "9+", default=-1, ignorable=True)
        topics: list[Topic] | None = wire(array(Topic), "8+", nullable="8+")

    group_id: str = wire(string, "0-7")
    topics: list[Topic] | None = wire(array(Topic), "0-7", nullable="2-7")
    groups: list[Group] = wire(array(Group), "8+")
    require_stable: bool = wire(boolean, "7+")


@response(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Response):
    """The groups; up to v5 the state `Dead` means that the coordinator does not know the group."""

    @struct
    class Group:
        @struct
        class Member:
            member_id: str = wire(string)
            group_instance_id: str | None = wire(string, "4+", nullable="4+", default=None, ignorable=True)
            client_id: str = wire(string)
            client_host: str = wire(string)
            member_metadata: bytes = wire(bytestring)
            member_assignment: bytes = wire(bytestring)

        error_code: int = wire(int16)
        error_message: str | None = wire(string, "6+", nullable="6+", default=None, words=True)
        group_id: str = wire(string)
        group_state: str = wire(string)
        protocol_type: str = wire(string)
        protocol_data: str = wire(string)
        members: list[Member] = wire(array(Member))
        authorized_operations: int = wire(int32, "3+", default=MIN_INT32)

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    groups: list[Group] = wire(array(Group))


@request(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Ask for the state and members of classic groups."""

    groups: list[str] = wire(array(string))
    include_authorized_operations: bool = wire(boolean, "3+")


@response(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Response):
    """The member epoch, and the assignment if it has changed since the last response."""

    @value
    class Assignment:
        @struct
        class TopicPartitions:
            topic_id: UUID = wire(uuid)
            partitions: list[int] = wire(array(int32))

        topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    member_id: str | None = wire(string, nullable="0+", default=None)
    member_epoch: int = wire(int32)
    heartbeat_interval_ms: int = wire(int32)
    assignment: Assignment | None = wire(Assignment, nullable="0+", default=None)


@request(api_key=68, versions="0-1", flexible="0+", since="3.7")
class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """Join, stay in or leave a consumer group, or acknowledge an assignment (KIP-848). A field is None if it has not changed."""

    @struct
    class TopicPartitions:
        topic_id: UUID = wire(uuid)
        partitions: list[int] = wire(array(int32))

    group_id: str = wire(string)
    member_id: str = wire(string)
    member_epoch: int = wire(int32)
    instance_id: str | None = wire(string, nullable="0+", default=None)
    rack_id: str | None = wire(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(int32, default=-1)
    subscribed_topic_names: list[str] | None = wire(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire(string, "1+", nullable="1+", default=None)
    server_assignor: str | None = wire(string, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable="0+", default=None)


@data(versions="0-3")
class ConsumerProtocolSubscription(Data):
    """The topics that a member subscribes to, and the partitions that it owns; sent in `JoinGroupRequest.Protocol.metadata`."""

    @struct
    class Topic:
        topic: str = wire(string, "1+")
        partitions: list[int] = wire(array(int32), "1+")

    topics: list[str] = wire(array(string))
    user_data: bytes | None = wire(bytestring, nullable="0+", default=None)
    owned_partitions: list[Topic] = wire(array(Topic), "1+", ignorable=True)
    generation_id: int = wire(int32, "2+", default=-1, ignorable=True)
    rack_id: str | None = wire(string, "3+", nullable="3+", default=None, ignorable=True)


@data(versions="0-3")
class ConsumerProtocolAssignment(Data):
    """The assigned partitions of a member; sent in `SyncGroupRequest.Assignment.assignment`."""

    @struct
    class Topic:
        topic: str = wire(string)
        partitions: list[int] = wire(array(int32))

    assigned_partitions: list[Topic] = wire(array(Topic))
    user_data: bytes | None = wire(bytestring, nullable="0+", default=None)
