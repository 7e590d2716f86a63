"""Describes producers; lists, describes and aborts transactions. Invariant: an abort whose response is lost is not sent again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import MOST_PARTITIONS, by_topic
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import BrokerError, ConfigError, UnsupportedVersion, broker_error
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_producers import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)

__all__ = [
    "AbortTransaction",
    "ActiveProducer",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "TransactionDescription",
    "TransactionFilter",
    "TransactionListing",
]

DURATION_FROM: Final = 1  # the first version of ListTransactions with `running_longer_than`
PATTERN_FROM: Final = 2  # the first version of ListTransactions with a pattern


@attrs.frozen
class ActiveProducer:
    """The state that the leader of a partition keeps about one producer. Times are milliseconds since 1970.

    `transaction_start` is the offset of the first record of the producer's open transaction, None without an open transaction.
    `coordinator_epoch` is None if the state has no ended transaction of the producer. `last_sequence` is None if the state has no batch of
    the producer.
    """

    producer_id: int
    epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start: int | None


@attrs.frozen
class TransactionListing:
    """A transactional id in a list. `state` is Kafka's name: Empty, Ongoing, PrepareCommit, CompleteAbort, …

    `coordinator` is the number of a broker.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@attrs.frozen
class TransactionDescription:
    """The state of a transactional id. `partitions` are the partitions that were added to the open transaction.

    `started_ms` is the start of the open or an earlier transaction; None if the coordinator reports no start.
    """

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@attrs.frozen
class TransactionFilter:
    """A filter for lists of transactions. `longer_ms` is the least age of a transaction in milliseconds, -1 for any age.

    `pattern` is a regular expression (RE2/J) for ids, None for all ids.
    """

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_ms: int = -1
    pattern: str | None = None


class DescribeProducers(Question[TopicPartition, "tuple[ActiveProducer, ...]"]):
    """The question to the leaders of partitions about the state of the partitions' producers."""

    api = "DescribeProducers"
    about = "producers of {}"
    most = MOST_PARTITIONS

    def message(self, keys: Sequence[TopicPartition]) -> DescribeProducersRequest:
        kind = DescribeProducersRequest.Topic
        rows = [kind(name=name, partition_indexes=[tp.partition for tp in tps]) for name, tps in by_topic(keys).items()]
        return DescribeProducersRequest(topics=rows)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, tuple[ActiveProducer, ...] | Refusal]:
        return {
            TopicPartition(topic.name, row.partition_index): Refusal(row.error_code, row.error_message)
            if row.error_code
            else tuple(map(_producer, row.active_producers))
            for topic in reply.message.topics
            for row in topic.partitions
        }

    def error(self, key: TopicPartition, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, topic=key.topic)


def _producer(row: Any) -> ActiveProducer:
    values = (row.last_sequence, row.last_timestamp, row.coordinator_epoch, row.current_txn_start_offset)
    return ActiveProducer(row.producer_id, row.producer_epoch, *map(_known, values))


def _known(value: int) -> int | None:
    return None if value < 0 else value


class ListTransactions(Question[int, "tuple[TransactionListing, ...]"]):
    api = "ListTransactions"
    about = "transactions of broker {}"
    most = 1

    def __init__(self, wanted: TransactionFilter) -> None:
        self._wanted = wanted

    def message(self, keys: Sequence[int]) -> ListTransactionsRequest:
        """The broker filters, because it can have very many transactions."""
        wanted = self._wanted
        return ListTransactionsRequest(
            state_filters=list(wanted.states),
            producer_id_filters=list(wanted.producer_ids),
            duration_filter=wanted.longer_ms,
            transactional_id_pattern=wanted.pattern,
        )

    def fit(self, message: ListTransactionsRequest, version: int) -> None:
        if version < DURATION_FROM and message.duration_filter >= 0:
            raise UnsupportedVersion("running_longer_than needs ListTransactions v1, of Kafka 3.8; use describe_transactions")
        if version < PATTERN_FROM and message.transactional_id_pattern is not None:
            raise UnsupportedVersion("pattern needs ListTransactions v2, of Kafka 4.1; leave it out and compare the ids")

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, Any]:
        message, node = reply.message, keys[0]
        if message.error_code:
            return {node: Refusal(message.error_code)}
        if message.unknown_state_filters:
            unknown = ", ".join(map(repr, message.unknown_state_filters))
            return {node: ConfigError(f"states: broker {node} knows no state {unknown}; states are Empty, Ongoing, CompleteCommit, …")}
        rows = (
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node) for one in message.transaction_states
        )
        return {node: tuple(rows)}


class DescribeTransactions(Question[str, TransactionDescription]):
    """The question about transactional ids. Brokers leave out topics that the caller may not describe."""

    api = "DescribeTransactions"
    about = "transactional id {}"
    resource = "transactional_id"

    def message(self, keys: Sequence[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=list(keys))

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, TransactionDescription | Refusal]:
        return {
            row.transactional_id: Refusal(row.error_code) if row.error_code else _transaction(row, reply.node)
            for row in reply.message.transaction_states
        }


def _transaction(row: Any, node: int) -> TransactionDescription:
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        node,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        _known(row.transaction_start_time_ms),
        tuple(sorted(TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions)),
    )


class AbortTransaction(Question[TopicPartition, bool]):
    """Writes the end of a producer's transaction into one partition, without the transaction coordinator."""

    api = "WriteTxnMarkers"
    about = "aborting a transaction in {}"
    changes = True
    repeatable = False  # a second marker could end the next transaction of the same producer

    def __init__(self, producer: ActiveProducer) -> None:
        self._producer = producer

    def message(self, keys: Sequence[TopicPartition]) -> WriteTxnMarkersRequest:
        """As in Kafka's tool, the coordinator epoch is 0 if the state of the producer has none."""
        kind, producer = WriteTxnMarkersRequest.Marker, self._producer
        marker = kind(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[kind.Topic(name=name, partition_indexes=[tp.partition for tp in tps]) for name, tps in by_topic(keys).items()],
            coordinator_epoch=producer.coordinator_epoch or 0,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, bool | Refusal]:
        return {
            TopicPartition(topic.name, row.partition_index): Refusal(row.error_code) if row.error_code else True
            for marker in reply.message.markers
            for topic in marker.topics
            for row in topic.partitions
        }

    def error(self, key: TopicPartition, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, topic=key.topic)
