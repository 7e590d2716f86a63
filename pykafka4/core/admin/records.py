"""Deletes records before an offset. The leader of a partition moves the start of the log forward, never back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import PartitionQuestion, by_topic
from pykafka4.core.admin.question_run import Lane, Refusal
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest

__all__ = ["DeleteRecords"]


class DeleteRecords(PartitionQuestion):
    """Deletes records. The outcome of a partition is its new low watermark."""

    api = "DeleteRecords"
    changes = True
    lane = Lane.FOREIGN  # the response waits for the followers

    def __init__(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """The offset -1 stands for the high watermark."""
        super().__init__()
        self._offsets, self._timeout_ms = offsets, timeout_ms

    def message(self, keys: Sequence[TopicPartition]) -> DeleteRecordsRequest:
        kind = DeleteRecordsRequest.Topic
        topics = [
            kind(name=name, partitions=[kind.Partition(partition_index=tp.partition, offset=self._offsets[tp]) for tp in tps])
            for name, tps in by_topic(keys).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=self._timeout_ms)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, int | Refusal]:
        return {
            TopicPartition(topic.name, row.partition_index): Refusal(row.error_code) if row.error_code else row.low_watermark
            for topic in reply.message.topics
            for row in topic.partitions
        }
