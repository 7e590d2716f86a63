"""Writes the micro-batches of a streaming query. Invariant: a writer keeps no state, because each micro-batch has new writers."""

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
    """The writer of a query. Spark pickles it, calls `write` in each task, and `commit` or `abort` of another instance on the driver."""

    options: SinkOptions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return deliver(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, Spark's name
        """Log an error if `difference` finds one. There is no flush here, because each task has waited for its own rows."""
        if (why := difference(self.options, messages)) is not None:
            log.error("micro-batch %d: %s", batchId, why)  # not raised: the query would fail here again after each restart
        log.debug("micro-batch %d: rows written: %s", batchId, counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log how many rows of ended tasks stay in the topics after a failed micro-batch, which a restarted query repeats."""
        log.warning("micro-batch %d failed; rows of its ended tasks stay in the log: %s", batchId, counted(messages))
