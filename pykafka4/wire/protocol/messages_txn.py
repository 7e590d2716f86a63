"""Declares the messages of producer ids and transactions."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import array, boolean, int16, int32, int64, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse(Response):
    """The producer id and epoch with which the producer writes."""

    throttle_time_ms: int = wire(int32, ignorable=True)
    error_code: int = wire(int16)
    producer_id: int = wire(int64, default=-1)
    producer_epoch: int = wire(int16)


@request(api_key=22, versions="0-5", flexible="2+", since="0.11")
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Ask for a producer id, or (v3+) for the next epoch of the given id. v6 is unstable in Kafka and is left out."""

    transactional_id: str | None = wire(string, nullable="0+")
    transaction_timeout_ms: int = wire(int32)
    producer_id: int = wire(int64, "3+", default=-1)
    producer_epoch: int = wire(int16, "3+", default=-1)


@struct
class _PartitionsToAdd:
    name: str = wire(string)
    partitions: list[int] = wire(array(int32))


@struct
class _AddedPartition:
    partition_index: int = wire(int32)
    partition_error_code: int = wire(int16)


@struct
class _AddedTopic:
    name: str = wire(string)
    results_by_partition: list[_AddedPartition] = wire(array(_AddedPartition))


@response(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Response):
    """Whether each partition is part of the transaction now."""

    Topic = _AddedTopic
    Partition = _AddedPartition

    @struct
    class Result:
        transactional_id: str = wire(string, "4+")
        topic_results: list[_AddedTopic] = wire(array(_AddedTopic), "4+")

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16, "4+", ignorable=True)
    results_by_transaction: list[Result] = wire(array(Result), "4+")
    results_by_topic_v3_and_below: list[_AddedTopic] = wire(array(_AddedTopic), "0-3")


@request(api_key=24, versions="0-5", flexible="3+", since="0.11")
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Add partitions to the transaction before records are written there. Clients use v0 to v3 only; later versions are for brokers."""

    Topic = _PartitionsToAdd

    @struct
    class Transaction:
        transactional_id: str = wire(string, "4+")
        producer_id: int = wire(int64, "4+")
        producer_epoch: int = wire(int16, "4+")
        verify_only: bool = wire(boolean, "4+")
        topics: list[_PartitionsToAdd] = wire(array(_PartitionsToAdd), "4+")

    transactions: list[Transaction] = wire(array(Transaction), "4+")
    v3_and_below_transactional_id: str = wire(string, "0-3")
    v3_and_below_producer_id: int = wire(int64, "0-3")
    v3_and_below_producer_epoch: int = wire(int16, "0-3")
    v3_and_below_topics: list[_PartitionsToAdd] = wire(array(_PartitionsToAdd), "0-3")


@response(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Response):
    """Whether offsets of the group may be committed in the transaction now."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)


@request(api_key=25, versions="0-4", flexible="3+", since="0.11")
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Add the partition of a group's offsets to the transaction. Producers do not send this from transaction.version 2 on (KIP-890)."""

    transactional_id: str = wire(string)
    producer_id: int = wire(int64)
    producer_epoch: int = wire(int16)
    group_id: str = wire(string)


@response(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Response):
    """The result: the transaction has ended, or will end. v5 adds the producer id and epoch for the next transaction (KIP-890)."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    producer_id: int = wire(int64, "5+", default=-1, ignorable=True)
    producer_epoch: int = wire(int16, "5+", default=-1, ignorable=True)


@request(api_key=26, versions="0-5", flexible="3+", since="0.11")
class EndTxnRequest(Request[EndTxnResponse]):
    """Commit or abort the transaction. v5 and later, which raise the epoch, require transaction.version 2 (KIP-890)."""

    transactional_id: str = wire(string)
    producer_id: int = wire(int64)
    producer_epoch: int = wire(int16)
    committed: bool = wire(boolean)


@response(api_key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Response):
    """The result for each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)

        name: str = wire(string, "0-5", ignorable=True)
        topic_id: UUID = wire(uuid, "6+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=28, versions="0-6", flexible="3+", since="0.11")
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Commit offsets of a group with the transaction. v5 and later require transaction.version 2; v6 has topic ids, not names."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            committed_offset: int = wire(int64)
            committed_leader_epoch: int = wire(int32, "2+", default=-1, ignorable=True)
            committed_metadata: str | None = wire(string, nullable="0+")

        name: str = wire(string, "0-5", ignorable=True)
        topic_id: UUID = wire(uuid, "6+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))

    transactional_id: str = wire(string)
    group_id: str = wire(string)
    producer_id: int = wire(int64)
    producer_epoch: int = wire(int16)
    generation_id_or_member_epoch: int = wire(int32, "3+", default=-1)
    member_id: str = wire(string, "3+")
    group_instance_id: str | None = wire(string, "3+", nullable="3+", default=None)
    topics: list[Topic] = wire(array(Topic))
