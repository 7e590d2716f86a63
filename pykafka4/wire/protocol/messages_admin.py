"""Declares messages of administration: topics, groups, offsets, the cluster, log directories."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import MIN_INT32, array, boolean, int8, int16, int32, int64, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct, value


@response(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse(Response):
    """The result for each topic."""

    @struct
    class Topic:
        @struct
        class Config:
            name: str = wire(string, "5+")
            value: str | None = wire(string, "5+", nullable="5+")
            read_only: bool = wire(boolean, "5+")
            config_source: int = wire(int8, "5+", default=-1, ignorable=True)
            is_sensitive: bool = wire(boolean, "5+")

        name: str = wire(string)
        topic_id: UUID = wire(uuid, "7+", ignorable=True)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, "1+", nullable="0+", ignorable=True, words=True)
        topic_config_error_code: int = wire(int16, "5+", tag=0, ignorable=True)
        num_partitions: int = wire(int32, "5+", default=-1, ignorable=True)
        replication_factor: int = wire(int16, "5+", default=-1, ignorable=True)
        configs: list[Config] | None = wire(array(Config), "5+", nullable="5+", ignorable=True)

    throttle_time_ms: int = wire(int32, "2+", ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=19, versions="0-7", flexible="5+", since="0.10.1")
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Create topics. -1 partitions or replicas means the broker's default (v4+); with `assignments`, both numbers must be -1."""

    @struct
    class Topic:
        @struct
        class Assignment:
            partition_index: int = wire(int32)
            broker_ids: list[int] = wire(array(int32))

        @struct
        class Config:
            name: str = wire(string)
            value: str | None = wire(string, nullable="0+")

        name: str = wire(string)
        num_partitions: int = wire(int32)
        replication_factor: int = wire(int16)
        assignments: list[Assignment] = wire(array(Assignment))
        configs: list[Config] = wire(array(Config))

    topics: list[Topic] = wire(array(Topic))
    timeout_ms: int = wire(int32, default=60000)
    validate_only: bool = wire(boolean, "1+")


@response(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Response):
    """The result of each deletion."""

    @struct
    class Topic:
        name: str | None = wire(string, nullable="6+")
        topic_id: UUID = wire(uuid, "6+", ignorable=True)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True, words=True)

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    responses: list[Topic] = wire(array(Topic))


@request(api_key=20, versions="0-6", flexible="4+", since="0.10.1")
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Delete topics, by name up to v5, by name or id from v6."""

    @struct
    class Topic:
        name: str | None = wire(string, "6+", nullable="6+", default=None)
        topic_id: UUID = wire(uuid, "6+")

    topics: list[Topic] = wire(array(Topic), "6+")
    topic_names: list[str] = wire(array(string), "0-5", ignorable=True)
    timeout_ms: int = wire(int32)


@response(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Response):
    """The result for each topic."""

    @struct
    class Result:
        name: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", default=None, words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=37, versions="0-3", flexible="2+", since="1.0")
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Raise partition counts; `count` is the new total."""

    @struct
    class Topic:
        @struct
        class Assignment:
            broker_ids: list[int] = wire(array(int32))

        name: str = wire(string)
        count: int = wire(int32)
        assignments: list[Assignment] | None = wire(array(Assignment), nullable="0+")

    topics: list[Topic] = wire(array(Topic))
    timeout_ms: int = wire(int32)
    validate_only: bool = wire(boolean)


@response(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Response):
    """The new low watermark of each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            low_watermark: int = wire(int64)
            error_code: int = wire(int16)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=21, versions="0-2", flexible="2+", since="0.11")
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Delete records below an offset; -1 means the high watermark."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            offset: int = wire(int64)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    topics: list[Topic] = wire(array(Topic))
    timeout_ms: int = wire(int32)


@response(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Response):
    """The cluster's id, controller and nodes."""

    @struct
    class Broker:
        broker_id: int = wire(int32)
        host: str = wire(string)
        port: int = wire(int32)
        rack: str | None = wire(string, nullable="0+", default=None)
        is_fenced: bool = wire(boolean, "2+")

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", default=None, words=True)
    endpoint_type: int = wire(int8, "1+", default=1)
    cluster_id: str = wire(string)
    controller_id: int = wire(int32, default=-1)
    brokers: list[Broker] = wire(array(Broker))
    cluster_authorized_operations: int = wire(int32, default=MIN_INT32)


@request(api_key=60, versions="0-2", flexible="0+", since="2.8")
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Ask for the brokers (`endpoint_type` 1) or controllers (2)."""

    include_cluster_authorized_operations: bool = wire(boolean)
    endpoint_type: int = wire(int8, "1+", default=1)
    include_fenced_brokers: bool = wire(boolean, "2+")


@response(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Response):
    """The groups that the broker coordinates."""

    @struct
    class Group:
        group_id: str = wire(string)
        protocol_type: str = wire(string)
        group_state: str = wire(string, "4+", ignorable=True)
        group_type: str = wire(string, "5+", ignorable=True)

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16)
    groups: list[Group] = wire(array(Group))


@request(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Ask a broker for the groups that it coordinates."""

    states_filter: list[str] = wire(array(string), "4+")
    types_filter: list[str] = wire(array(string), "5+")


@response(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Response):
    """The result of each deletion."""

    @struct
    class Result:
        group_id: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, "3+", nullable="3+", default=None, ignorable=True, words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=42, versions="0-3", flexible="2+", since="1.1")
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Delete empty groups."""

    groups_names: list[str] = wire(array(string))


@response(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Response):
    """The state and members of groups of the consumer protocol (KIP-848); GROUP_ID_NOT_FOUND for a group of any other protocol."""

    @struct
    class Group:
        @struct
        class Member:
            @value
            class Assignment:
                @struct
                class TopicPartitions:
                    topic_id: UUID = wire(uuid)
                    topic_name: str = wire(string)
                    partitions: list[int] = wire(array(int32))

                topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))

            member_id: str = wire(string)
            instance_id: str | None = wire(string, nullable="0+", default=None)
            rack_id: str | None = wire(string, nullable="0+", default=None)
            member_epoch: int = wire(int32)
            client_id: str = wire(string)
            client_host: str = wire(string)
            subscribed_topic_names: list[str] = wire(array(string))
            subscribed_topic_regex: str | None = wire(string, nullable="0+", default=None)
            assignment: Assignment = wire(Assignment)
            target_assignment: Assignment = wire(Assignment)
            member_type: int = wire(int8, "1+", default=-1, ignorable=True)

        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", default=None, words=True)
        group_id: str = wire(string)
        group_state: str = wire(string)
        group_epoch: int = wire(int32)
        assignment_epoch: int = wire(int32)
        assignor_name: str = wire(string)
        members: list[Member] = wire(array(Member))
        authorized_operations: int = wire(int32, default=MIN_INT32)

    throttle_time_ms: int = wire(int32)
    groups: list[Group] = wire(array(Group))


@request(api_key=69, versions="0-1", flexible="0+", since="3.8")
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Ask for the state and members of groups of the consumer protocol."""

    group_ids: list[str] = wire(array(string))
    include_authorized_operations: bool = wire(boolean)


@response(api_key=47, versions="0")
class OffsetDeleteResponse(Response):
    """The result for each partition; the outer `error_code` is the result of the whole request."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    error_code: int = wire(int16)
    throttle_time_ms: int = wire(int32, ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=47, versions="0", since="2.4")
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Delete committed offsets of a group."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    group_id: str = wire(string)
    topics: list[Topic] = wire(array(Topic))


@response(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Response):
    """The log directories of a broker, and the size of each replica in them."""

    @struct
    class Result:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = wire(int32)
                partition_size: int = wire(int64)
                offset_lag: int = wire(int64)
                is_future_key: bool = wire(boolean)

            name: str = wire(string)
            partitions: list[Partition] = wire(array(Partition))

        error_code: int = wire(int16)
        log_dir: str = wire(string)
        topics: list[Topic] = wire(array(Topic))
        total_bytes: int = wire(int64, "4+", default=-1, ignorable=True)
        usable_bytes: int = wire(int64, "4+", default=-1, ignorable=True)
        is_cordoned: bool = wire(boolean, "5+", default=False, ignorable=True)

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16, "3+", ignorable=True)
    results: list[Result] = wire(array(Result))


@request(api_key=35, versions="1-5", flexible="2+", since="2.0")
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """Ask a broker for the sizes of its replicas; `topics=None` means all topics."""

    @struct
    class Topic:
        topic: str = wire(string)
        partitions: list[int] = wire(array(int32))

    topics: list[Topic] | None = wire(array(Topic), nullable="0+")
