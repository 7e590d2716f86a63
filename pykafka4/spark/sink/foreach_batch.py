"""Writes micro-batches within `writeStream.foreachBatch`. Invariant: each task gets the number of its micro-batch, by which
`exactly_once` finds out whether the task's rows were written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.errors.frames import guarded
from pykafka4.spark.sink.arrow_writer import ArrowWriter
from pykafka4.spark.sink.options import Delivery, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BatchFunction", "foreach_batch"]

log = logging.getLogger("pykafka4.spark")


@attrs.frozen
class BatchFunction:
    """The function that `foreach_batch` returns. Spark calls it on the driver with each micro-batch and its number."""

    sink: SinkOptions

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write the rows of `batch`; return when all rows are in the log."""
        writer = ArrowWriter(attrs.evolve(self.sink, batch_id=batch_id))
        counts = batch.mapInArrow(writer, writer.schema).collect()
        log.info("micro-batch %d: rows in the log: %d", batch_id, sum(row.sent for row in counts))


@guarded
def foreach_batch(
    config: Mapping[str, Any],
    *,
    topic: str | None = None,
    delivery: Literal["at_least_once", "exactly_once"] = "at_least_once",
    name: str | None = None,
    transactional_id_prefix: str | None = None,
    value: str | None = "value",
    key: str | None = "key",
    headers: str | None = "headers",
    timestamp: str | None = "timestamp",
    partition: str | None = "partition",
) -> BatchFunction:
    """A function for `df.writeStream.foreachBatch` that sends each row of a micro-batch. Columns are as for `arrow_writer`.

    With `delivery="exactly_once"` a micro-batch that Spark runs again, after a crash or restart, with the same rows in the same partitions,
    is not written twice: its number and the id of the query identify it. If two such functions in one query have the same `topic`, or none,
    each needs its own `name`. Spark Connect does not pass the id of the query: there a `name` is required, and a new one for each new
    checkpoint. Transactional ids and groups begin with `transactional_id_prefix`. Your own function may call the returned function, and do
    more with the micro-batch.
    """
    columns = {"value": value, "key": key, "headers": headers, "timestamp": timestamp, "partition": partition}
    if delivery not in (ways := [way.value for way in Delivery]):
        raise ConfigError(f"delivery={shown(delivery)}: must be {' or '.join(ways)}")
    sink = SinkOptions(dict(config), topic, columns, Delivery(delivery), name, transactional_id_prefix)
    return BatchFunction(sink)
