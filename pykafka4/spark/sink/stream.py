"""Writes the micro-batches of a streaming query. Invariant: Spark makes a new writer for each step, so none keeps anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pykafka4.spark.sink.batch import counted
from pykafka4.spark.sink.delivery import deliver
from pykafka4.spark.sink.options import SinkOptions
from pykafka4.spark.sink.repeats import difference

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaStreamWriter"]

log = logging.getLogger("pykafka4.spark")


@attrs.frozen(slots=False)
class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Spark pickles it, calls `write` in every task of a micro-batch, and `commit` or `abort` of another instance on the driver."""

    options: SinkOptions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of a task."""
        return deliver(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, Spark's name
        """All rows are in the log: each task has waited for its own."""
        if (why := difference(self.options, messages)) is not None:
            log.error("micro-batch %d: %s", batchId, why)  # not raised: the query would never go on
        log.debug("micro-batch %d wrote %s", batchId, counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Records stay in the log: Spark runs the micro-batch again."""
        log.warning("micro-batch %d failed after its tasks had written %s, which stay in the log", batchId, counted(messages))
