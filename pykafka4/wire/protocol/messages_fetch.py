"""Declares the messages that read records and find offsets.

`records` fields are passed on unchanged.
"""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.fields import MAX_INT32, MAX_INT64, array, int8, int16, int32, int64, records, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct, value


@response(api_key=1, versions="3-18", flexible="12+")
class FetchResponse(Response):
    """Record batches, undecoded. `partition_max_bytes` may cut the last batch of a partition short."""

    @struct
    class Topic:
        @struct
        class Partition:
            @value
            class EpochEndOffset:
                epoch: int = wire(int32, "12+", default=-1)
                end_offset: int = wire(int64, "12+", default=-1)

            @value
            class Leader:
                leader_id: int = wire(int32, "12+", default=-1)
                leader_epoch: int = wire(int32, "12+", default=-1)

            @value
            class SnapshotId:
                end_offset: int = wire(int64, default=-1)
                epoch: int = wire(int32, default=-1)

            @struct
            class AbortedTransaction:
                producer_id: int = wire(int64, "4+")
                first_offset: int = wire(int64, "4+")

            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            high_watermark: int = wire(int64)
            last_stable_offset: int = wire(int64, "4+", default=-1, ignorable=True)
            log_start_offset: int = wire(int64, "5+", default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset = wire(EpochEndOffset, "12+", tag=0)
            current_leader: Leader = wire(Leader, "12+", tag=1)
            snapshot_id: SnapshotId = wire(SnapshotId, "12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = wire(array(AbortedTransaction), "4+", nullable="4+", ignorable=True)
            preferred_read_replica: int = wire(int32, "11+", default=-1)
            records: Buffer | None = wire(records, nullable="0+")

        topic: str = wire(string, "0-12", ignorable=True)
        topic_id: UUID = wire(uuid, "13+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    @struct
    class Endpoint:
        node_id: int = wire(int32, "16+")
        host: str = wire(string, "16+")
        port: int = wire(int32, "16+")
        rack: str | None = wire(string, "16+", nullable="16+", default=None)

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16, "7+", ignorable=True)
    session_id: int = wire(int32, "7+")
    responses: list[Topic] = wire(array(Topic))
    node_endpoints: list[Endpoint] = wire(array(Endpoint), "16+", tag=0)


@request(api_key=1, versions="3-18", flexible="12+", since="0.10.1")
class FetchRequest(Request[FetchResponse]):
    """Ask for records; in a session (v7+) a request names only partitions that have changed. v3 is for brokers before 0.11."""

    @value
    class ReplicaState:
        replica_id: int = wire(int32, "15+", default=-1)
        replica_epoch: int = wire(int64, "15+", default=-1)

    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = wire(int32)
            current_leader_epoch: int = wire(int32, "9+", default=-1, ignorable=True)
            fetch_offset: int = wire(int64)
            last_fetched_epoch: int = wire(int32, "12+", default=-1)
            log_start_offset: int = wire(int64, "5+", default=-1, ignorable=True)
            partition_max_bytes: int = wire(int32)
            replica_directory_id: UUID = wire(uuid, "17+", tag=0, ignorable=True)
            high_watermark: int = wire(int64, "18+", default=MAX_INT64, tag=1, ignorable=True)

        topic: str = wire(string, "0-12", ignorable=True)
        topic_id: UUID = wire(uuid, "13+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    @struct
    class ForgottenTopic:
        topic: str = wire(string, "7-12", ignorable=True)
        topic_id: UUID = wire(uuid, "13+", ignorable=True)
        partitions: list[int] = wire(array(int32), "7+")

    cluster_id: str | None = wire(string, "12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = wire(int32, "0-14", default=-1)
    replica_state: ReplicaState = wire(ReplicaState, "15+", tag=1)
    max_wait_ms: int = wire(int32)
    min_bytes: int = wire(int32)
    max_bytes: int = wire(int32, "3+", default=MAX_INT32, ignorable=True)
    isolation_level: int = wire(int8, "4+", ignorable=True)
    session_id: int = wire(int32, "7+", ignorable=True)
    session_epoch: int = wire(int32, "7+", default=-1, ignorable=True)
    topics: list[Topic] = wire(array(Topic))
    forgotten_topics_data: list[ForgottenTopic] = wire(array(ForgottenTopic), "7+")
    rack_id: str = wire(string, "11+", ignorable=True)


@response(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Response):
    """The offset of the first record with the requested timestamp or a later timestamp; -1 if there is no such record."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            timestamp: int = wire(int64, "1+", default=-1)
            offset: int = wire(int64, "1+", default=-1)
            leader_epoch: int = wire(int32, "4+", default=-1)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32, "2+", ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=2, versions="1-11", flexible="6+", since="0.10.1")
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Ask for offsets by time: -1 latest, -2 earliest, -3 largest timestamp (v7+), -4 earliest local (v8+), -5 latest tiered (v9+)."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            current_leader_epoch: int = wire(int32, "4+", default=-1, ignorable=True)
            timestamp: int = wire(int64)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    replica_id: int = wire(int32)
    isolation_level: int = wire(int8, "2+")
    topics: list[Topic] = wire(array(Topic))
    timeout_ms: int = wire(int32, "10+", ignorable=True)


@response(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Response):
    """The end offset of the requested leader epoch, or of the highest epoch below it."""

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = wire(int16)
            partition: int = wire(int32)
            leader_epoch: int = wire(int32, "1+", default=-1, ignorable=True)
            end_offset: int = wire(int64, default=-1)

        topic: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32, "2+", ignorable=True)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=23, versions="0-4", flexible="4+", since="0.11")
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """Ask for the end offset of a leader epoch. v0 and v1 have no fencing; brokers from 4.0 on accept only v2 and later."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = wire(int32)
            current_leader_epoch: int = wire(int32, "2+", default=-1, ignorable=True)
            leader_epoch: int = wire(int32)

        topic: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    replica_id: int = wire(int32, "3+", default=-2, ignorable=True)
    topics: list[Topic] = wire(array(Topic))
