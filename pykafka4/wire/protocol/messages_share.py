"""Declares the messages of share groups (KIP-932): membership, fetching and acknowledging records.

Brokers after Kafka 4.0 do not support version 0, which was early access. Version 2 (Kafka 4.2) has the acquire mode and renewals.
"""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.fields import MAX_INT32, array, boolean, int8, int16, int32, int64, records, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct, value


@response(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Response):
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


@request(api_key=76, versions="1", flexible="0+", since="4.1")
class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    """Join a share group (epoch 0), stay in it, or leave it (epoch -1). A field is None if it has not changed."""

    group_id: str = wire(string)
    member_id: str = wire(string)
    member_epoch: int = wire(int32)
    rack_id: str | None = wire(string, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = wire(array(string), nullable="0+", default=None)


@struct
class AcknowledgementBatch:
    """Offsets to acknowledge, with a type for each offset or one type for all. 0: gap, 1: accept, 2: release, 3: reject, 4: renew (v2+)."""

    first_offset: int = wire(int64)
    last_offset: int = wire(int64)
    acknowledge_types: list[int] = wire(array(int8))


@value
class LeaderIdAndEpoch:
    """A partition's leader; -1 if it is not known."""

    leader_id: int = wire(int32)
    leader_epoch: int = wire(int32)


@struct
class NodeEndpoint:
    """The address of a leader."""

    node_id: int = wire(int32)
    host: str = wire(string)
    port: int = wire(int32)
    rack: str | None = wire(string, nullable="0+", default=None)


@response(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Response):
    """Record batches, and the offsets in them that this member has acquired. The batches may also have other records."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class AcquiredRecords:
                first_offset: int = wire(int64)
                last_offset: int = wire(int64)
                delivery_count: int = wire(int16)

            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", default=None, words=True)
            acknowledge_error_code: int = wire(int16)
            acknowledge_error_message: str | None = wire(string, nullable="0+", default=None, words=True)
            current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)
            records: Buffer | None = wire(records, nullable="0")
            acquired_records: list[AcquiredRecords] = wire(array(AcquiredRecords))

        topic_id: UUID = wire(uuid)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    acquisition_lock_timeout_ms: int = wire(int32, "1+")
    responses: list[Topic] = wire(array(Topic))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))


@request(api_key=78, versions="1-2", flexible="0+", since="4.1")
class ShareFetchRequest(Request[ShareFetchResponse]):
    """Acknowledge records, then acquire more. In an open session the request names only changed partitions and acknowledged records."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            partition_max_bytes: int = wire(int32, "0")  # only in the early access version
            acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))

        topic_id: UUID = wire(uuid)
        partitions: list[Partition] = wire(array(Partition))

    @struct
    class ForgottenTopic:
        topic_id: UUID = wire(uuid)
        partitions: list[int] = wire(array(int32))

    group_id: str | None = wire(string, nullable="0+", default=None)
    member_id: str | None = wire(string, nullable="0+")
    share_session_epoch: int = wire(int32)
    max_wait_ms: int = wire(int32)
    min_bytes: int = wire(int32)
    max_bytes: int = wire(int32, default=MAX_INT32)
    max_records: int = wire(int32, "1+")
    batch_size: int = wire(int32, "1+")
    share_acquire_mode: int = wire(int8, "2+", ignorable=True)
    is_renew_ack: bool = wire(boolean, "2+")
    topics: list[Topic] = wire(array(Topic))
    forgotten_topics_data: list[ForgottenTopic] = wire(array(ForgottenTopic))


@response(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Response):
    """For each partition, whether its acknowledgements were stored."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", default=None, words=True)
            current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)

        topic_id: UUID = wire(uuid)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    acquisition_lock_timeout_ms: int = wire(int32, "2+", ignorable=True)
    responses: list[Topic] = wire(array(Topic))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))


@request(api_key=79, versions="1-2", flexible="0+", since="4.1")
class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    """Acknowledge records in an open session; epoch -1 closes the session, which releases the other acquired records."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))

        topic_id: UUID = wire(uuid)
        partitions: list[Partition] = wire(array(Partition))

    group_id: str | None = wire(string, nullable="0+", default=None)
    member_id: str | None = wire(string, nullable="0+")
    share_session_epoch: int = wire(int32)
    is_renew_ack: bool = wire(boolean, "2+")
    topics: list[Topic] = wire(array(Topic))


@response(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Response):
    """The state and members of each group."""

    @struct
    class Group:
        @struct
        class Member:
            @value
            class Assignment:
                @struct
                class Topic:
                    topic_id: UUID = wire(uuid)
                    topic_name: str = wire(string)
                    partitions: list[int] = wire(array(int32))

                topic_partitions: list[Topic] = wire(array(Topic))

            member_id: str = wire(string)
            rack_id: str | None = wire(string, nullable="0+", default=None)
            member_epoch: int = wire(int32)
            client_id: str = wire(string)
            client_host: str = wire(string)
            subscribed_topic_names: list[str] = wire(array(string))
            assignment: Assignment = wire(Assignment)

        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", default=None, words=True)
        group_id: str = wire(string)
        group_state: str = wire(string)
        group_epoch: int = wire(int32)
        assignment_epoch: int = wire(int32)
        assignor_name: str = wire(string)
        members: list[Member] = wire(array(Member))
        authorized_operations: int = wire(int32, default=-2147483648)

    throttle_time_ms: int = wire(int32)
    groups: list[Group] = wire(array(Group))


@request(api_key=77, versions="1", flexible="0+", since="4.1")
class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    """Ask a coordinator for the state and members of share groups."""

    group_ids: list[str] = wire(array(string))
    include_authorized_operations: bool = wire(boolean)


@response(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Response):
    """The start offset of each partition."""

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = wire(int32)
                start_offset: int = wire(int64)
                leader_epoch: int = wire(int32)
                lag: int = wire(int64, "1+", default=-1, ignorable=True)
                error_code: int = wire(int16)
                error_message: str | None = wire(string, nullable="0+", default=None, words=True)

            topic_name: str = wire(string)
            topic_id: UUID = wire(uuid)
            partitions: list[Partition] = wire(array(Partition))

        group_id: str = wire(string)
        topics: list[Topic] = wire(array(Topic))
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", default=None, words=True)

    throttle_time_ms: int = wire(int32)
    groups: list[Group] = wire(array(Group))


@request(api_key=90, versions="0-1", flexible="0+", since="4.1")
class DescribeShareGroupOffsetsRequest(Request[DescribeShareGroupOffsetsResponse]):
    """Ask for the start offsets of share groups."""

    @struct
    class Group:
        @struct
        class Topic:
            topic_name: str = wire(string)
            partitions: list[int] = wire(array(int32))

        group_id: str = wire(string)
        topics: list[Topic] | None = wire(array(Topic), nullable="0+")

    groups: list[Group] = wire(array(Group))


@response(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Response):
    """The result for each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", default=None, words=True)

        topic_name: str = wire(string)
        topic_id: UUID = wire(uuid)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    responses: list[Topic] = wire(array(Topic))


@request(api_key=91, versions="0", flexible="0+", since="4.1")
class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse]):
    """Set the start offsets of a share group."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            start_offset: int = wire(int64)

        topic_name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    group_id: str = wire(string)
    topics: list[Topic] = wire(array(Topic))


@response(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Response):
    """The result for each topic."""

    @struct
    class Topic:
        topic_name: str = wire(string)
        topic_id: UUID = wire(uuid)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", default=None, words=True)

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    responses: list[Topic] = wire(array(Topic))


@request(api_key=92, versions="0", flexible="0+", since="4.1")
class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse]):
    """Delete the start offsets of topics of a share group."""

    @struct
    class Topic:
        topic_name: str = wire(string)

    group_id: str = wire(string)
    topics: list[Topic] = wire(array(Topic))
