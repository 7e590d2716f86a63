"""Declares the messages about replicas, leaders, brokers, features and the metadata quorum."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import array, boolean, int8, int16, int32, int64, string, uint16, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct, value


@response(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Response):
    """The result for each partition."""

    @struct
    class Result:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)

        topic_name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=34, versions="1-2", flexible="2+", since="2.0")
class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    """Move replicas of a broker to other log directories."""

    @struct
    class Directory:
        @struct
        class Topic:
            name: str = wire(string)
            partitions: list[int] = wire(array(int32))

        path: str = wire(string)
        topics: list[Topic] = wire(array(Topic))

    dirs: list[Directory] = wire(array(Directory))


@response(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Response):
    """The result for each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_id: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", words=True)

        topic: str = wire(string)
        partition_result: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16, "1+")
    replica_election_results: list[Topic] = wire(array(Topic))


@request(api_key=43, versions="0-2", flexible="2+", since="2.2")
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Elect leaders: the preferred replicas (`election_type` 0), or any replica (1), at the risk that records are lost."""

    @struct
    class Topic:
        topic: str = wire(string)
        partitions: list[int] = wire(array(int32))

    election_type: int = wire(int8, "1+")
    topic_partitions: list[Topic] | None = wire(array(Topic), nullable="0+")
    timeout_ms: int = wire(int32, default=60000)


@response(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Response):
    """The result for each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", words=True)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    allow_replication_factor_change: bool = wire(boolean, "1+", default=True, ignorable=True)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    responses: list[Topic] = wire(array(Topic))


@request(api_key=45, versions="0-1", flexible="0+", since="2.4")
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Move replicas to other brokers; `replicas=None` cancels a move."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            replicas: list[int] | None = wire(array(int32), nullable="0+", default=None)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    timeout_ms: int = wire(int32, default=60000)
    allow_replication_factor_change: bool = wire(boolean, "1+", default=True)
    topics: list[Topic] = wire(array(Topic))


@response(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Response):
    """The replicas of each partition that is being reassigned, and which of them are being added and removed."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            replicas: list[int] = wire(array(int32))
            adding_replicas: list[int] = wire(array(int32))
            removing_replicas: list[int] = wire(array(int32))

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=46, versions="0", flexible="0+", since="2.4")
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """Ask which partitions are being reassigned; `topics=None` means all topics."""

    @struct
    class Topic:
        name: str = wire(string)
        partition_indexes: list[int] = wire(array(int32))

    timeout_ms: int = wire(int32, default=60000)
    topics: list[Topic] | None = wire(array(Topic), nullable="0+", default=None)


@response(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Response):
    """The state of each replica of the quorum."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Voter:
                replica_id: int = wire(int32)
                replica_directory_id: UUID = wire(uuid, "2+")
                log_end_offset: int = wire(int64)
                last_fetch_timestamp: int = wire(int64, "1+", default=-1, ignorable=True)
                last_caught_up_timestamp: int = wire(int64, "1+", default=-1, ignorable=True)

            @struct
            class Observer:
                replica_id: int = wire(int32)
                replica_directory_id: UUID = wire(uuid, "2+")
                log_end_offset: int = wire(int64)
                last_fetch_timestamp: int = wire(int64, "1+", default=-1, ignorable=True)
                last_caught_up_timestamp: int = wire(int64, "1+", default=-1, ignorable=True)

            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, "2+", nullable="2+", ignorable=True, words=True)
            leader_id: int = wire(int32)
            leader_epoch: int = wire(int32)
            high_watermark: int = wire(int64)
            current_voters: list[Voter] = wire(array(Voter))
            observers: list[Observer] = wire(array(Observer))

        topic_name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    @struct
    class Node:
        @struct
        class Listener:
            name: str = wire(string, "2+")
            host: str = wire(string, "2+")
            port: int = wire(uint16, "2+")

        node_id: int = wire(int32, "2+")
        listeners: list[Listener] = wire(array(Listener), "2+")

    error_code: int = wire(int16)
    error_message: str | None = wire(string, "2+", nullable="2+", ignorable=True, words=True)
    topics: list[Topic] = wire(array(Topic))
    nodes: list[Node] = wire(array(Node), "2+")


@request(api_key=55, versions="0-2", flexible="0+", since="3.3 with KRaft")
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Ask the leader of the metadata quorum for the state of the quorum."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)

        topic_name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    topics: list[Topic] = wire(array(Topic))


@response(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Response):
    """The result for each feature."""

    @struct
    class Result:
        feature: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    results: list[Result] = wire(array(Result), "0-1", ignorable=True)


@request(api_key=57, versions="0-2", flexible="0+", since="2.7")
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Set the versions of cluster features."""

    @struct
    class Update:
        feature: str = wire(string)
        max_version_level: int = wire(int16)
        allow_downgrade: bool = wire(boolean, "0")
        upgrade_type: int = wire(int8, "1+", default=1)

    timeout_ms: int = wire(int32, default=60000)
    feature_updates: list[Update] = wire(array(Update))
    validate_only: bool = wire(boolean, "1+")


@response(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Response):
    """The result of the removal."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)


@request(api_key=64, versions="0", flexible="0+", since="2.8 with KRaft")
class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    """Remove a broker that will not come back."""

    broker_id: int = wire(int32)


@response(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Response):
    """A page of partitions; `next_cursor` is the start of the next page, None on the last page."""

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = wire(int16)
            partition_index: int = wire(int32)
            leader_id: int = wire(int32)
            leader_epoch: int = wire(int32, default=-1, ignorable=True)
            replica_nodes: list[int] = wire(array(int32))
            isr_nodes: list[int] = wire(array(int32))
            eligible_leader_replicas: list[int] | None = wire(array(int32), nullable="0+", default=None)
            last_known_elr: list[int] | None = wire(array(int32), nullable="0+", default=None)
            offline_replicas: list[int] = wire(array(int32), ignorable=True)

        error_code: int = wire(int16)
        name: str | None = wire(string, nullable="0+")
        topic_id: UUID = wire(uuid, ignorable=True)
        is_internal: bool = wire(boolean, ignorable=True)
        partitions: list[Partition] = wire(array(Partition))
        topic_authorized_operations: int = wire(int32, default=-2147483648)

    @value
    class NextCursor:
        topic_name: str = wire(string)
        partition_index: int = wire(int32)

    throttle_time_ms: int = wire(int32, ignorable=True)
    topics: list[Topic] = wire(array(Topic))
    next_cursor: NextCursor | None = wire(NextCursor, nullable="0+", default=None)


@request(api_key=75, versions="0", flexible="0+", since="3.8 with KRaft")
class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """Ask for the partitions of topics, in pages."""

    @struct
    class Topic:
        name: str = wire(string)

    @value
    class Cursor:
        topic_name: str = wire(string)
        partition_index: int = wire(int32)

    topics: list[Topic] = wire(array(Topic))
    response_partition_limit: int = wire(int32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable="0+", default=None)
