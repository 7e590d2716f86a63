"""Delivers the Arrow batches of a task, at least once. Invariant: `write_batches` returns only if each row is acknowledged, and otherwise
raises an error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from pykafka4.errors import BufferFull
from pykafka4.options.config import ProducerConfig
from pykafka4.spark.outcomes import CHECK_S, check, trouble, wait
from pykafka4.spark.sink.options import SinkOptions
from pykafka4.spark.workers import pool

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka4.producer import Producer

__all__ = ["Written", "send_batches", "write_batches"]

SLICE_BYTES: Final = 4 * 1024 * 1024  # for one send: failures are noticed only between sends, and a batch of Spark can have 64 MiB


@attrs.frozen
class Written(WriterCommitMessage):
    """The result of a task: the number of its delivered rows by topic."""

    counts: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def write_batches(sink: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Written:
    """Deliver each row, or raise an error, after which some rows may be in the log."""
    rows = (batch for batch in batches if batch.num_rows)
    for first in rows:  # runs at most once: the body takes all batches; a task without rows needs no producer
        patience = ProducerConfig.parse(sink.client).delivery_timeout_ms / 1000
        with pool().lease(sink.client) as producer, producer.delivery_scope():
            counts = send_batches(producer, sink, chain((first,), rows))
            wait(producer, patience)
        return Written(counts)
    return Written({})


def send_batches(producer: Producer, sink: SinkOptions, batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Send all rows; return their number by topic. Raises a failure that a check finds, without sending the remaining rows."""
    counts: Counter[str] = Counter()
    check_at = time.monotonic() + CHECK_S
    try:
        for topic, part in parts(sink, batches):
            counts[topic] += len(producer.send_arrow(topic, part, **sink.columns))
            if time.monotonic() >= check_at:
                check(producer)
                check_at = time.monotonic() + CHECK_S
    except BufferFull as error:
        error.add_note(trouble(producer))
        raise
    return dict(counts)


def parts(sink: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Slices of up to about `SLICE_BYTES` (more if rows are large, or differ in size), each with its topic."""
    from pykafka4.spark.sink.topics import by_topic  # here: it needs pyarrow, but the driver reads only `Written`

    for batch in batches:
        rows = max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1))
        for begin in range(0, batch.num_rows, rows):
            part = batch.slice(begin, rows)
            if sink.topic is None:
                yield from by_topic(part, sink.columns.values())
            else:
                yield sink.topic, part
