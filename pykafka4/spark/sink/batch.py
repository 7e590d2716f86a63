"""Writes the DataFrame of a batch job. Invariant: what the driver cannot undo, the records, it does not try to undo."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pykafka4.spark.sink.options import Delivery, SinkOptions
from pykafka4.spark.sink.task import Written, write_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["WRITE", "KafkaBatchWriter", "counted"]

log = logging.getLogger("pykafka4.spark")

WRITE: Final[dict[Delivery, Callable[[SinkOptions, Iterator[pa.RecordBatch]], WriterCommitMessage]]] = {
    Delivery.AT_LEAST_ONCE: write_batches,
}


@attrs.frozen(slots=False)
class KafkaBatchWriter(DataSourceArrowWriter):
    """Spark pickles it, calls `write` in every task, and `commit` or `abort` on the driver."""

    options: SinkOptions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of a task."""
        return WRITE[self.options.delivery](self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All rows are in the log: each task has waited for its own."""
        log.info("wrote %s", counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Records stay in the log: delivery is at least once, and the job is to be run again."""
        log.warning("the job failed after its tasks had written %s, which stay in the log", counted(messages))


def counted(messages: Sequence[WriterCommitMessage | None]) -> str:
    """The rows of all tasks by topic, as text."""
    counts: Counter[str] = Counter()
    for message in messages:
        counts.update(message.counts if isinstance(message, Written) else {})
    return ", ".join(f"{count} rows to {topic}" for topic, count in sorted(counts.items())) or "no rows"
