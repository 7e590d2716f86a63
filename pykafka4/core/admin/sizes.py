"""Measures the sizes of logs. Invariant: sizes in a log directory that the broker cannot read are missing, without an error."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import by_topic
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_admin import DescribeLogDirsRequest

__all__ = ["DescribeSizes"]


class DescribeSizes(Question[int, "dict[TopicPartition, int]"]):
    api = "DescribeLogDirs"
    about = "sizes of logs at broker {}"
    most = 1

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self._partitions = partitions

    def message(self, keys: Sequence[int]) -> DescribeLogDirsRequest:
        """The request names all partitions, although the broker might not have replicas of all of them."""
        kind = DescribeLogDirsRequest.Topic
        rows = [kind(topic=name, partitions=[tp.partition for tp in tps]) for name, tps in by_topic(self._partitions).items()]
        return DescribeLogDirsRequest(topics=rows)

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, dict[TopicPartition, int] | Refusal]:
        """Leave out the incomplete copy of a replica that moves to another directory."""
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code))
        rows = ((topic.name, row) for result in reply.message.results for topic in result.topics for row in topic.partitions)
        return {keys[0]: {TopicPartition(name, row.partition_index): row.partition_size for name, row in rows if not row.is_future_key}}
