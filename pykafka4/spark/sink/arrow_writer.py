"""Writes rows within `df.mapInArrow`. Invariant: a task that ends without an error returns one row, with the number of its
rows in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from pykafka4.errors import ConfigError
from pykafka4.errors.frames import guarded
from pykafka4.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowWriter", "arrow_writer"]


@attrs.frozen
class ArrowWriter:
    """The function that `arrow_writer` returns. Spark calls it with the Arrow batches of a partition, inside the task."""

    schema: ClassVar[str] = "sent bigint"  # the schema of the returned rows
    sink: SinkOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # here, for applications that import this package without pyarrow

        from pykafka4.spark.sink.delivery import deliver

        yield pa.record_batch({"sent": pa.array([deliver(self.sink, batches).rows], pa.int64())})


@guarded
def arrow_writer(
    config: Mapping[str, Any],
    *,
    topic: str | None = None,
    value: str | None = "value",
    key: str | None = "key",
    headers: str | None = "headers",
    timestamp: str | None = "timestamp",
    partition: str | None = "partition",
) -> ArrowWriter:
    """A function for `df.mapInArrow` that sends each row, and returns the number of rows: `df.mapInArrow(writer, writer.schema)`.

    `config` has the options of the producer. Without `topic`, the column `topic` has the topic of each row. The other arguments are names
    of columns, or None for no column, as in `Producer.send_arrow`. The job runs when an action needs the counts: `df.mapInArrow(writer,
    writer.schema).groupBy().sum("sent").first()`.

    Delivery and the errors of a task are as with `partition_writer`. An invalid option or topic raises ConfigError or TypeError here.
    """
    columns = {"value": value, "key": key, "headers": headers, "timestamp": timestamp, "partition": partition}
    for argument, name in columns.items():
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigError(f"{argument}={name!r}: must be the name of a column, or None for no column")
    return ArrowWriter(SinkOptions(dict(config), topic, columns))
