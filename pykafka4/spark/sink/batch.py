"""Writes the DataFrame of a batch job. Invariant: written records stay in the log, even after a failed job; `abort` logs the number
of rows that ended tasks have written."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pykafka4.errors import KafkaError
from pykafka4.spark.sink.delivery import deliver
from pykafka4.spark.sink.exactly_once import CommitToken
from pykafka4.spark.sink.options import SinkOptions
from pykafka4.spark.sink.repeats import Repeated, difference, note_end
from pykafka4.spark.sink.task import Written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaBatchWriter", "counted"]

log = logging.getLogger("pykafka4.spark")

REPEATED: Final = "idempotencyKey=%s: an earlier job with this key has ended; rows that it has written: %d, skipped rows of this job: %d"


@attrs.frozen(slots=False)
class KafkaBatchWriter(DataSourceArrowWriter):
    """The writer of a batch job. Spark pickles it, calls `write` in each task, and `commit` or `abort` on the driver."""

    options: SinkOptions
    done: CommitToken | None = None  # the token of an ended job with the same key; if there is one, this job writes nothing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self.done is not None:
            return Repeated(sum(batch.num_rows for batch in iterator))
        return deliver(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the number of rows, after `note_end`. The rows are in the log, because each task has waited for its own rows. If an earlier
        run has ended the job, only log that the rows are skipped.

        Raises KafkaError if `difference` finds a difference from an earlier run that did not end.
        """
        if self.done is not None:
            rows = sum(each.rows for each in messages if isinstance(each, Repeated))
            log.warning(REPEATED, self.options.idempotency_key, self.done.rows, rows)
            return
        if (why := difference(self.options, messages)) is not None:
            raise KafkaError(why)
        note_end(self.options, messages)
        log.info("rows written: %s", counted(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.warning("the job failed; rows of its ended tasks stay in the log: %s", counted(messages))


def counted(messages: Sequence[WriterCommitMessage | None]) -> str:
    counts: Counter[str] = Counter()
    for message in messages:
        counts.update(message.counts if isinstance(message, Written) else {})
    return ", ".join(f"{count} to {topic}" for topic, count in sorted(counts.items())) or "none"
