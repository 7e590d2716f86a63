"""Defines the offset range of a task."""

from __future__ import annotations

import attrs
from pyspark.sql.datasource import InputPartition

from pykafka4.records import TopicPartition

__all__ = ["OffsetRange"]


@attrs.frozen(slots=False)
class OffsetRange(InputPartition):
    """Offsets of one partition, from `start` up to `until` (not included): the work of one task. `topic_id` is empty if unknown."""

    topic: str
    partition: int
    start: int
    until: int
    topic_id: str = ""

    def __str__(self) -> str:
        return f"{self.tp} {self.start} to {self.until}"

    def __len__(self) -> int:
        return self.until - self.start

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
