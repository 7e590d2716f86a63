"""Builds the requests of transactions, and gives each error its meaning for a transaction (`ErrorMeaning`).

Sources: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890, KIP-1050, and Java's TransactionManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from pykafka4.errors import BrokerError, KafkaError, TransactionAborted
from pykafka4.errors.codes import Refresh
from pykafka4.options.config import ProducerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_txn import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

__all__ = [
    "BEFORE_VERSION_2",
    "ENDS_ADDING",
    "OFFSETS_BY_NAME",
    "ErrorMeaning",
    "add_partitions_request",
    "end_request",
    "init_request",
    "meaning_of",
    "offsets_request",
]

# The highest versions of requests up to transaction.version 1: with higher ones brokers would apply the rules of KIP-890.
BEFORE_VERSION_2: Final = {"Produce": 11, "EndTxn": 4, "TxnOffsetCommit": 4, "AddPartitionsToTxn": 3}
OFFSETS_BY_NAME: Final = 5  # the last version of TxnOffsetCommit that identifies topics by name


class ErrorMeaning(Enum):
    RETRY = "send the request again"
    REFIND = "find the coordinator, then send the request again"
    ABORT = "abort the transaction; the next one may succeed"
    FATAL = "this producer can do nothing more"


ABORTABLE: Final = {
    "TRANSACTION_ABORTABLE",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "OPERATION_NOT_ATTEMPTED",
    "UNKNOWN_PRODUCER_ID",
    # errors of TxnOffsetCommit: another member may have the partitions (KIP-447), or the request is invalid
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "FENCED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
    "GROUP_ID_NOT_FOUND",
    "INVALID_GROUP_ID",
    "OFFSET_METADATA_TOO_LARGE",
    "INVALID_COMMIT_OFFSET_SIZE",
    "REBALANCE_IN_PROGRESS",
}
REPEATED: Final = {"UNKNOWN_SERVER_ERROR"}  # not retriable by Kafka's table, but a repeated request may succeed


# The fatal errors of AddPartitionsToTxn that end the producer. Other fatal errors of this request fail only the transaction, as in Java.
ENDS_ADDING: Final = {
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
}


def meaning_of(error: KafkaError) -> ErrorMeaning:
    """An unknown code is fatal, as is every error of another class than BrokerError and TransactionAborted."""
    if isinstance(error, TransactionAborted):
        return ErrorMeaning.ABORT
    if not isinstance(error, BrokerError):
        return ErrorMeaning.FATAL
    row = error.code
    if row.name in ABORTABLE:
        return ErrorMeaning.ABORT
    if row.retriable or row.name in REPEATED:
        return ErrorMeaning.REFIND if row.refresh is Refresh.COORDINATOR else ErrorMeaning.RETRY
    return ErrorMeaning.FATAL


def init_request(config: ProducerConfig, producer_id: int, epoch: int) -> InitProducerIdRequest:
    """Build the request for the producer id; or, with the current id and epoch, for the next epoch."""
    timeout = int(config.transaction_timeout_ms)
    return InitProducerIdRequest(
        transactional_id=config.transactional_id, transaction_timeout_ms=timeout, producer_id=producer_id, producer_epoch=epoch
    )


def add_partitions_request(name: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name=topic, partitions=those) for topic, those in topics.items()],
    )


def end_request(name: str, producer_id: int, epoch: int, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed)


def offsets_request(
    name: str,
    producer_id: int,
    epoch: int,
    group: tuple[str, int, str, str | None],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    """`group` is (group id, generation, member id, instance id)."""
    topics: dict[str, TxnOffsetCommitRequest.Topic] = {}
    for tp, at in offsets.items():
        topic = topics.setdefault(tp.topic, TxnOffsetCommitRequest.Topic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequest.Topic.Partition(
                partition_index=tp.partition,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )
        )
    group_id, generation, member_id, instance_id = group
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )
