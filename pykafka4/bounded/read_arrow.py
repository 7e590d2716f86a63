"""Reads topics between two offsets of each partition, as Arrow columns. Invariant: without an error, the stream ends only when the
read is done.

The exported stream refers to `ArrowBatches` alone, can be read on any thread, and can outlive the handle `ReadArrow`:
`RecordBatchReader.from_stream(read_arrow(…))` keeps only the stream. So `ArrowBatches`, not the handle, closes the connections.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Literal, Self, Unpack

from pykafka4.bounded.extent import as_extent
from pykafka4.bounded.progress import counted, progress_for
from pykafka4.bounded.read import close_read, forgotten
from pykafka4.bounded.reading import BoundedRead, LostRange, read_options
from pykafka4.bounds import BoundSpec, Span
from pykafka4.client.client import Client
from pykafka4.client.steps import at_once
from pykafka4.consumer.reading.column_forms import ColumnsForm
from pykafka4.consumer.session import ConsumerSession
from pykafka4.errors import ClosedError
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout
from pykafka4.options.typed import ConsumerOptions
from pykafka4.records import TopicPartition
from pykafka4.splits import Split
from pykafka4.wire.records.hot import ColumnsStream, RecordColumns

__all__ = ["ReadArrow", "read_arrow"]


@guarded
def read_arrow(
    topics: str | Iterable[str] | None = None,
    *,
    start: BoundSpec = "earliest",
    until: BoundSpec = "now",
    partitions: Iterable[TopicPartition | tuple[str, int] | int] | None = None,
    split: Split | None = None,
    columns: Iterable[str] | None = None,
    max_rows: int | None = None,
    progress: bool = False,
    on_lost: Literal["raise", "warn"] = "raise",
    timeout: float | None = 60.0,
    client: Client | None = None,
    **options: Unpack[ConsumerOptions],
) -> ReadArrow:
    """All records of `topics` between two offsets of each partition, as a stream of Arrow columns.

    `polars.DataFrame(read_arrow("orders", **options))` reads a topic; pyarrow, pandas, DuckDB and other libraries also read Arrow streams.
    Arguments and errors are as in `read`; `columns` is as in `Consumer.poll_arrow`. A batch has up to `max_rows` rows, or by default up to
    about 8 MiB.

    Records become columns when the stream is read. The stream can be read once. An error ends an Arrow stream: the library that reads it
    raises its own exception with the text of the error, while iteration raises the error itself. Keys and values are bytes, so an option
    for a deserializer raises ConfigError.
    """
    extent = as_extent("read_arrow", topics, start, until, partitions, split)
    session = ConsumerSession(client, None, read_options(options, "read_arrow"))
    try:
        form = session.reader.columns.form(columns)
        form.limit(max_rows)  # raises ConfigError in this call, not when the stream is read
        reading = BoundedRead(session, extent, on_lost, progress_for(progress), check_timeout(timeout))
        at_once(reading.opening())
    except BaseException:
        session.close(0, failed=True)
        raise
    return ReadArrow(ArrowBatches(reading, form, max_rows))


class ArrowBatches:
    """The batches of a read. The connections are closed at the end, by `close`, or when this object is freed."""

    def __init__(self, reading: BoundedRead, form: ColumnsForm, max_rows: int | None) -> None:
        self.reading, self.names = reading, form.names
        self._form, self._max_rows = form, max_rows
        self._finalizer = weakref.finalize(self, forgotten, reading)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs
        self.ended = False

    def next(self) -> RecordColumns | None:
        """The next batch, of at least one row; None at the end. Raises the errors of `BoundedRead.poll`."""
        if self.ended:
            return None
        if self._finalizer.alive and (columns := self.reading.poll(self._form, self._max_rows)):
            return columns
        if not self._finalizer.alive:
            raise ClosedError("this read was closed before its end; call read_arrow again")
        self.ended = True
        self.close()
        return None

    def close(self) -> None:
        if self._finalizer.detach() is not None:
            close_read(self.reading)


class ReadArrow:
    """The result of `read_arrow`: a stream for libraries that read Arrow data, an iterator over `RecordColumns`, and a context manager.

    A read that is left early is closed when neither this object nor a stream of it is in use. One thread at a time may read.
    """

    def __init__(self, batches: ArrowBatches) -> None:
        self._batches = batches
        self._stream = ColumnsStream(batches.names, batches.next)

    def __arrow_c_schema__(self) -> object:
        """The schema, in a capsule."""
        return self._stream.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of all batches that have not been returned yet, in a capsule. Can be called once."""
        return self._stream.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[RecordColumns]:
        return self

    def __next__(self) -> RecordColumns:
        columns = self._batches.next()
        if columns is None:
            raise StopIteration
        return columns

    @property
    def spans(self) -> dict[TopicPartition, Span]:
        """The offset range of each partition, as it was fixed when the read began."""
        return dict(self._batches.reading.spans)

    @property
    def lost(self) -> list[LostRange]:
        """The ranges that have been lost so far, with on_lost="warn"."""
        return list(self._batches.reading.lost)

    def close(self) -> None:
        """Release the connections. May be called twice, and by another thread. A stream that has not ended then fails with ClosedError."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        reading = self._batches.reading
        return f"<ReadArrow of {', '.join(map(str, reading.spans))}: {counted(reading.records)} so far>"
