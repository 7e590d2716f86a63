"""Reads the offset range of a task as Arrow batches. Invariant: each record of the range is in one batch, or the task fails, or a warning
names the lost offsets (failOnDataLoss=false).

A read ends when its position has reached the end of the range, not at a last record: compaction, aborted transactions and control batches
leave offsets without records. Only workers import this module: the driver plans without a consumer and without pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pykafka4.bounded.read_arrow import read_arrow
from pykafka4.bounds import Span
from pykafka4.client.client import Client
from pykafka4.errors import GO_ON, InvalidOffset
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.losses import WAY_OUT, DataLost, lose
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.ranges import OffsetRange
from pykafka4.spark.workers import client_for
from pykafka4.splits import Split

__all__ = ["arrow_schema", "read_range"]

MAX_ROWS: Final = 10_000  # rows of an Arrow batch
ARROW: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
OURS: Final = {"timestampType": "timestamp_type"}  # columns that have another name in `read_arrow`


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, ARROW[name]) for name in names])


def record_columns(names: Sequence[str]) -> list[str]:
    return [OURS.get(name, name) for name in names]


def read_range(options: SourceOptions, part: OffsetRange, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of the range, with the columns `names` of Spark.

    Raises DataLost, and KafkaTimeoutError after kafkaConsumer.pollTimeoutMs without progress.
    """
    split = Split(0, {part.tp: Span(part.start, part.until, part.start)})
    client = client_for(options.client)
    how: dict[str, Any] = {
        **options.consumer,
        "on_lost": "raise" if options.fail_on_data_loss else "warn",
        "timeout": options.poll_timeout,
        "columns": record_columns(names),
        "max_rows": MAX_ROWS,
    }
    schema = arrow_schema(names)
    wanted = f"{part.tp} is to be read from {part.start} to {part.until}"
    try:
        with read_arrow(split=split, client=client, **how) as found:
            first = next(found, None)
            if is_recreated(client, options, part):
                lose(options, f"{wanted}: the topic has been deleted and created again")
                return
            for columns in found if first is None else chain((first,), found):
                yield in_schema(pa.record_batch(columns), schema)
    except InvalidOffset as error:
        raise DataLost(f"{wanted}: {reason(error)}; {WAY_OUT}") from error


def is_recreated(client: Client, options: SourceOptions, part: OffsetRange) -> bool:
    """Whether the topic was deleted and created again after the range was planned. The name does not show that.

    Call this after the first fetch. A check before the fetch would lose this race: the id is the same, the topic is recreated, records of
    the new topic are fetched. A later recreation is left to `read_arrow`.
    """
    return bool(part.topic_id) and Logs.of(client, options).topic_id(part.topic) not in ("", part.topic_id)


def reason(error: InvalidOffset) -> str:
    """The text of an error of `read_arrow` without its way out: users of Spark have another way out."""
    return str(error).replace(f"; {GO_ON}", "")


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns under the names of Spark, with headers as in the JVM connector: null for a record without headers."""
    columns = [without_empty(column) if pa.types.is_list(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def without_empty(lists: pa.ListArray) -> pa.ListArray:
    """`lists` with a null in place of each empty list. The offsets and the items of the lists are shared, not copied."""
    empty = pc.equal(pc.list_value_length(lists), 0)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=lists.type, mask=empty)
