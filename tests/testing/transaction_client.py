"""A transactional producer of the model cluster, one raw request at a time."""

from __future__ import annotations

from typing import Any

from pykafka4.errors.codes import CODES
from pykafka4.testing import ModelCluster
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.testing.model_client import ModelClient

__all__ = ["GROUP", "NAME", "TOPIC", "V1", "V2", "Writer"]

TOPIC, GROUP, NAME = "t", "billing", "invoices-1"
V1, V2 = {"produce": 11, "end": 4, "offsets": 4}, {"produce": 12, "end": 5, "offsets": 5}


class Writer:
    """A transactional producer, one request at a time."""

    def __init__(self, cluster: ModelCluster, versions: dict[str, int] = V2, name: str = NAME) -> None:
        self.cluster, self.versions, self.name = cluster, versions, name
        self.producer_id, self.epoch, self.sequence = -1, -1, 0

    def at(self, node: int | None) -> ModelClient:
        return ModelClient(self.cluster, node or 1)

    def ask(self, message: Any, version: int) -> Any:
        return self.at(self.cluster.transactions.coordinator_of(self.name)).call(message, version)

    def begin(self, *, keep: bool = False, timeout_ms: int = 60_000, version: int = 5) -> str:
        given = (self.producer_id, self.epoch) if keep else (-1, -1)
        message = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms, producer_id=given[0], producer_epoch=given[1]
        )
        answer = self.ask(message, version)
        if not answer.error_code:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return CODES[answer.error_code].name

    def add(self, *partitions: int, version: int = 3) -> str:
        topics = [AddPartitionsToTxnRequest.Topic(name=TOPIC, partitions=list(partitions))]
        message = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        answer = self.ask(message, version)
        return CODES[answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code].name

    def write(self, *values: bytes, partition: int = 0, sequence: int | None = None) -> str:
        data = build_batch(
            [WireRecord(timestamp_ms=1, value=value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence if sequence is None else sequence,
            transactional=True,
        )
        topic = self.cluster.topics[TOPIC]
        part = ProduceRequest.Topic.Partition(index=partition, records=data)
        entry = ProduceRequest.Topic(name=TOPIC, topic_id=topic.id, partition_data=[part])
        message = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=[entry])
        answer = self.at(topic.partitions[partition].leader).call(message, self.versions["produce"])
        told = CODES[answer.responses[0].partition_responses[0].error_code].name
        if told == "NONE":
            self.sequence += len(values)
        return told

    def end(self, committed: bool = True, *, epoch: int | None = None) -> str:
        message = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=committed,
        )
        answer = self.ask(message, self.versions["end"])
        if not answer.error_code and self.versions["end"] >= 5:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequence = 0
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return CODES[answer.error_code].name

    def add_offsets(self) -> str:
        message = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=GROUP
        )
        return CODES[self.ask(message, 4).error_code].name

    def commit_offset(self, offset: int, partition: int = 0) -> str:
        part = TxnOffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset, committed_metadata="")
        message = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.Topic(name=TOPIC, partitions=[part])],
        )
        answer = self.at(self.cluster.coordinator(GROUP)).call(message, self.versions["offsets"])
        return CODES[answer.topics[0].partitions[0].error_code].name
