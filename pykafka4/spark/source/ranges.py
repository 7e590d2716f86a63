"""The offset range of a task, and its records as Arrow batches. Invariant: each record of the range is in one batch, or the task fails.

A range ends when the position of the read has reached its end, not at a last record: compaction, aborted transactions and control batches
leave offsets without records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pykafka4.bounded.read_arrow import read_arrow
from pykafka4.bounds import Span
from pykafka4.records import TopicPartition
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.schema import record_columns
from pykafka4.spark.workers import client_for
from pykafka4.splits import Split

__all__ = ["OffsetRange", "read_range"]

MAX_ROWS: Final = 10_000  # of a batch


@attrs.frozen(slots=False)
class OffsetRange(InputPartition):
    """Offsets of one partition, from `start` up to but without `until`: the work of one task."""

    topic: str
    partition: int
    start: int
    until: int

    def __str__(self) -> str:
        return f"{self.tp} {self.start} to {self.until}"

    def __len__(self) -> int:
        return self.until - self.start

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def read_range(options: SourceOptions, part: OffsetRange, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of the range, with these columns of Spark's. Raises KafkaError."""
    split = Split(0, {part.tp: Span(part.start, part.until, part.start)})
    how: dict[str, Any] = {"columns": record_columns(names), "max_rows": MAX_ROWS, "timeout": options.poll_timeout, **options.consumer}
    with read_arrow(split=split, client=client_for(options.client), **how) as found:
        for columns in found:
            yield pa.record_batch(columns).rename_columns(list(names))
