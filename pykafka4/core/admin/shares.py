"""Describes, sets and deletes start offsets of share groups (KIP-932). Coordinators refuse changes while a group has members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import PartitionQuestion, by_topic
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import BrokerError, KafkaError, broker_error
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)

__all__ = ["AlterShareOffsets", "DeleteShareOffsets", "DescribeShareOffsets", "ShareGroupOffset"]


@attrs.frozen
class ShareGroupOffset:
    """The progress of a share group in a partition.

    The group gets no records before `offset`, which is None if the group has no start offset yet. `lag` is the number of records from
    `offset` on that are neither acknowledged nor archived; None before Kafka 4.2. With an `error`, `offset` and `lag` are None.
    """

    partition: TopicPartition
    offset: int | None = None
    leader_epoch: int | None = None
    lag: int | None = None
    error: KafkaError | None = None


class DescribeShareOffsets(Question[str, "dict[TopicPartition, ShareGroupOffset]"]):
    api = "DescribeShareGroupOffsets"
    about = "share group {}"
    resource = "group"

    def message(self, keys: Sequence[str]) -> DescribeShareGroupOffsetsRequest:
        kind = DescribeShareGroupOffsetsRequest.Group
        return DescribeShareGroupOffsetsRequest(groups=[kind(group_id=key, topics=None) for key in keys])

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, dict[TopicPartition, ShareGroupOffset] | Refusal]:
        return {
            group.group_id: Refusal(group.error_code, group.error_message)
            if group.error_code
            else {one.partition: one for one in sorted(_starts(group), key=lambda one: one.partition)}
            for group in reply.message.groups
        }


def _starts(group: Any) -> Iterable[ShareGroupOffset]:
    for topic in group.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.topic_name, row.partition_index)
            if row.error_code:
                what = f"share group {group.group_id}, {tp}"
                wrong = broker_error(row.error_code, what, row.error_message, DescribeShareOffsets.api, topic=tp.topic)
                yield ShareGroupOffset(tp, error=wrong)
            else:
                start, epoch, lag = (None if value < 0 else value for value in (row.start_offset, row.leader_epoch, row.lag))
                yield ShareGroupOffset(tp, start, epoch, lag)


class AlterShareOffsets(PartitionQuestion):
    api = "AlterShareGroupOffsets"
    changes = True

    def __init__(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        super().__init__(group)
        self._offsets = offsets

    def message(self, keys: Sequence[TopicPartition]) -> AlterShareGroupOffsetsRequest:
        kind = AlterShareGroupOffsetsRequest.Topic
        topics = [
            kind(topic_name=name, partitions=[kind.Partition(partition_index=tp.partition, start_offset=self._offsets[tp]) for tp in tps])
            for name, tps in by_topic(keys).items()
        ]
        return AlterShareGroupOffsetsRequest(group_id=self._group, topics=topics)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, bool | Refusal]:
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code, reply.message.error_message))
        return {
            TopicPartition(topic.topic_name, row.partition_index): Refusal(row.error_code, row.error_message) if row.error_code else True
            for topic in reply.message.responses
            for row in topic.partitions
        }


class DeleteShareOffsets(Question[str, bool]):
    """Deletes the start offsets of a group in topics; the keys are topics."""

    api = "DeleteShareGroupOffsets"
    changes = True

    def __init__(self, group: str) -> None:
        self._group = group

    def message(self, keys: Sequence[str]) -> DeleteShareGroupOffsetsRequest:
        kind = DeleteShareGroupOffsetsRequest.Topic
        return DeleteShareGroupOffsetsRequest(group_id=self._group, topics=[kind(topic_name=key) for key in keys])

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, bool | Refusal]:
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code, reply.message.error_message))
        return {row.topic_name: Refusal(row.error_code, row.error_message) if row.error_code else True for row in reply.message.responses}

    def what(self, key: str) -> str:
        return f"share group {self._group}, topic {key}"

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, topic=key, group=self._group)
