"""The offset range of a task, and its records as Arrow batches. Invariant: each record of the range is in one batch, or the task fails.

A range ends when the position of the read has reached its end, not at a last record: compaction, aborted transactions and control batches
leave offsets without records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from pykafka4.bounded.read_arrow import read_arrow
from pykafka4.bounded.reading import GO_ON
from pykafka4.bounds import Span
from pykafka4.errors import InvalidOffset
from pykafka4.records import TopicPartition
from pykafka4.spark.source.losses import WAY_OUT, DataLost
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.schema import arrow_schema, record_columns
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
    """The records of the range, with these columns of Spark's.

    Raises DataLost, and KafkaTimeoutError if the read stands still for kafkaConsumer.pollTimeoutMs.
    """
    split = Split(0, {part.tp: Span(part.start, part.until, part.start)})
    how: dict[str, Any] = {
        **options.consumer,
        "on_lost": "raise" if options.fail_on_data_loss else "warn",
        "timeout": options.poll_timeout,
        "columns": record_columns(names),
        "max_rows": MAX_ROWS,
    }
    schema = arrow_schema(names)
    try:
        with read_arrow(split=split, client=client_for(options.client), **how) as found:
            for columns in found:
                yield in_schema(pa.record_batch(columns), schema)
    except InvalidOffset as error:
        raise DataLost(f"{part.tp} is to be read from {part.start} to {part.until}: {reason(error)}; {WAY_OUT}") from error


def reason(error: InvalidOffset) -> str:
    """The text of an error without the way out of `read_arrow`, which has another one."""
    return str(error).replace(f"; {GO_ON}", "")


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns under the names of Spark, and headers as the JVM connector has them: null, if there are none."""
    columns = [without_empty(column) if pa.types.is_list(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def without_empty(lists: pa.ListArray) -> pa.ListArray:
    """Null instead of each empty list. The offsets of the lists and their items are shared, not copied."""
    empty = pc.equal(pc.list_value_length(lists), 0)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=lists.type, mask=empty)
