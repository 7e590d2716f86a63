"""Collects fetched records as columns, in plain Python; `_columns.pxi` and `_live.pxi` are the compiled counterparts.

Invariant: `add` finds the same records and errors as `Chunk.decode`, in the same order, but a record too large for a column is an error.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterable
from typing import Final

from pykafka4.errors import ConfigError, CorruptRecord, RecordTooLarge
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records._plain_decode import TIMESTAMP_TYPES, Chunk, Record
from pykafka4.wire.records.columns import (
    COLUMN_NAMES,
    HEADER_COST,
    MOST_COLUMN_BYTES,
    ROW_COSTS,
    Array,
    Field,
    checked_columns,
    other_columns,
    stream_given,
)
from pykafka4.wire.records.layout import INT64_MAX

__all__ = ["ColumnsBuilder", "ColumnsStream", "RecordColumns"]

FORMATS: Final = {"topic": "u", "partition": "i", "offset": "l", "timestamp": "tsu:UTC", "timestamp_type": "i", "key": "z", "value": "z"}
KINDS: Final = {name: number for number, name in TIMESTAMP_TYPES.items()}
LARGEST_MS: Final = INT64_MAX // 1000


class _Account:
    """Bytes of a builder's finished columns that are still in use."""

    def __init__(self) -> None:
        self.bytes = 0


class _Memory:
    """Counts the bytes of columns in an account, as long as one of their buffers lives."""

    def __init__(self, account: _Account, size: int) -> None:
        self.account, self.size = account, size
        account.bytes += size

    def __del__(self) -> None:
        self.account.bytes -= self.size


class ColumnsBuilder:
    """Collects records of chunks as columns, for `RecordColumns`.

    `columns` has the names of the columns, in order. `full` is true if the last `add` ended because the next record would bring the
    data of a column over `most_bytes`; then call `finish`. `added` is (first offset, last offset, leader epoch of the last
    record) of the last `add`, or None.
    """

    def __init__(self, columns: Iterable[str] = COLUMN_NAMES, *, most_bytes: int = MOST_COLUMN_BYTES) -> None:
        self.names = checked_columns(columns)
        self.full = False
        self.added: tuple[int, int, int] | None = None
        self._most_bytes = most_bytes
        self._row_cost = sum(ROW_COSTS[name] for name in self.names)
        self._account = _Account()
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Record] = []
        self._sizes = dict.fromkeys(("topic", "key", "value", "headers"), 0)
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return _size(_columns_of(self.names, self._rows))

    @property
    def held_bytes(self) -> int:
        return self._account.bytes

    def add(self, chunk: Chunk, limit: int, max_bytes: int = INT64_MAX) -> int:
        """Add up to `limit` records of `chunk`, until their size as columns (`chunk.decoded`) reaches `max_bytes`; return their number.

        If this call has added nothing, it may raise the errors of `Chunk.decode`, and RecordTooLarge for a record too large for a column.
        """
        self.full, self.added = False, None
        before = len(self._rows)
        left = max_bytes
        try:
            while len(self._rows) - before < limit and left > 0 and not self.full:
                try:
                    if not chunk.decode(self._rows, 1):
                        break
                except (CorruptRecord, RecordTooLarge, ConfigError):
                    if len(self._rows) == before:
                        raise
                    break
                left -= self._weigh(chunk)
        finally:
            chunk.decoded = max_bytes - left
            self._note(chunk, self._rows[before:])
        return len(self._rows) - before

    def _weigh(self, chunk: Chunk) -> int:
        """Count the last row; return its size. If a column has no room for it, put the row back into `chunk`, and set `full`.

        Raises RecordTooLarge if there is no room even in empty columns.
        """
        record = self._rows[-1]
        sizes = {
            "topic": len(record.topic.encode()),
            "key": len(record.key or b""),
            "value": len(record.value or b""),
            "headers": sum(len(name.encode()) + len(value or b"") for name, value in record.headers),
        }
        grown = {name: self._sizes[name] + size for name, size in sizes.items()}
        if any(name in self.names and size > self._most_bytes for name, size in grown.items()):
            self._rows.pop()
            chunk.put_back(record)
            self.full = True
            if not self._rows:  # without the error the application would call `finish` and `add` forever
                raise chunk.too_large(f"a record does not fit into a column of {self._most_bytes} bytes")
            return 0
        self._sizes = grown
        sizes["headers"] += HEADER_COST * len(record.headers)
        return self._row_cost + sum(size for name, size in sizes.items() if name in self.names)

    def _note(self, chunk: Chunk, rows: list[Record]) -> None:
        tp = TopicPartition(chunk.topic, chunk.partition)
        epoch = self._positions[tp].leader_epoch if tp in self._positions else -1
        if rows:
            epoch = rows[-1].leader_epoch
            self.added = rows[0].offset, rows[-1].offset, epoch
        if chunk.exhausted and chunk.last_leader_epoch >= 0:
            epoch = chunk.last_leader_epoch  # for example, the epoch of a marker after the last record
        if rows or tp in self._positions or chunk.exhausted:
            self._positions[tp] = OffsetAndMetadata(chunk.position, leader_epoch=epoch)

    def finish(self) -> RecordColumns:
        columns = RecordColumns._of(self.names, self._rows, self._positions, self._account)
        self._begin()
        self.full, self.added = False, None
        return columns


class RecordColumns:
    """Records as columns, for readers of Arrow data: `polars.DataFrame(columns)`, `pyarrow.table(columns)`, DuckDB, pandas.

    `names` has the names of the columns, `positions` the offsets after the records, as `commit` accepts them. `len()` is the number of
    records, `nbytes` the size of all columns in bytes.
    """

    names: tuple[str, ...]
    positions: dict[TopicPartition, OffsetAndMetadata]
    nbytes: int
    _array: Array

    def __init__(self) -> None:
        raise TypeError("cannot create 'RecordColumns' instances; the client makes them")

    @classmethod
    def _of(
        cls, names: tuple[str, ...], rows: list[Record], positions: dict[TopicPartition, OffsetAndMetadata], account: _Account
    ) -> RecordColumns:
        self = cls.__new__(cls)
        columns = _columns_of(names, rows)
        self.names, self.positions, self.nbytes = names, positions, _size(columns)
        memory = _Memory(account, self.nbytes)
        self._array = Array(len(rows), 0, (None,), tuple(_owned(column, memory) for column in columns))
        return self

    def __len__(self) -> int:
        return self._array.length

    def __arrow_c_schema__(self) -> object:
        """The schema, in a capsule."""
        from pykafka4.wire.records._plain_arrow import schema_capsule

        return schema_capsule(_schema(self.names))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export the columns as an Arrow record batch: capsules of its schema and array. Repeated calls are allowed; nothing is copied."""
        from pykafka4.wire.records._plain_arrow import exported

        self._check_request(requested_schema)
        return exported(_schema(self.names), self._array)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the columns as a stream of one Arrow record batch, in a capsule."""
        from pykafka4.wire.records._plain_arrow import exported_stream

        self._check_request(requested_schema)
        return exported_stream(_schema(self.names), iter((self._array, None)).__next__)

    def _check_request(self, requested_schema: object) -> None:
        """Refuse a requested schema with a different number of columns. Different types are accepted: the reader converts the data."""
        from pykafka4.wire.records._plain_arrow import fields_requested

        if requested_schema is not None and (count := fields_requested(requested_schema)) != len(self.names):
            raise other_columns(count, self.names)

    def __repr__(self) -> str:
        return f"<RecordColumns of {len(self)} records: {', '.join(self.names)}>"


class ColumnsStream:
    """A stream of the `RecordColumns` that `source()` returns until it returns None; all of them must have the columns `names`.

    The stream can be read once, on any thread. An exception of `source` ends the stream: the reader gets the exception's text.
    """

    def __init__(self, names: Iterable[str], source: Callable[[], RecordColumns | None]) -> None:
        self.names = checked_columns(names)
        self._source: Callable[[], RecordColumns | None] | None = source
        self._given = False

    def __arrow_c_schema__(self) -> object:
        from pykafka4.wire.records._plain_arrow import schema_capsule

        return schema_capsule(_schema(self.names))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Raises RuntimeError on a second call, because records are read only once.

        Raises ValueError for a requested schema with a different number of columns.
        """
        from pykafka4.wire.records._plain_arrow import exported_stream, fields_requested

        if requested_schema is not None and (count := fields_requested(requested_schema)) != len(self.names):
            raise other_columns(count, self.names)
        if self._given:
            raise stream_given()
        self._given = True
        return exported_stream(_schema(self.names), self._make)

    def _make(self) -> Array | None:
        if self._source is None:
            return None
        try:
            made = self._source()
            if made is not None and (type(made) is not RecordColumns or made.names != self.names):
                raise TypeError(f"the source of a stream of {', '.join(self.names)} returned {made!r}")
        except BaseException:  # the exception is not kept: its traceback refers to frames of the stream's readers, which own the stream
            self._source = None
            raise
        if made is None:
            self._source = None
            return None
        return made._array


def _schema(names: tuple[str, ...]) -> Field:
    """All columns are nullable, as in schemas written by hand."""
    item = Field("item", "+s", (Field("key", "u"), Field("value", "z")))
    fields = tuple(Field(name, FORMATS[name]) if name in FORMATS else Field(name, "+l", (item,)) for name in names)
    return Field("", "+s", fields, nullable=False)


class _Held(bytes):
    """A buffer that keeps the `_Memory` of its columns."""

    memory: _Memory


def _held(data: bytes | None, memory: _Memory) -> bytes | None:
    if data is None:
        return None
    held = _Held(data)
    held.memory = memory
    return held


def _owned(column: Array, memory: _Memory) -> Array:
    """`column` with `memory` in each buffer: a reader may keep a child, or a buffer, without its parent."""
    buffers = tuple(_held(data, memory) for data in column.buffers)
    return column._replace(buffers=buffers, children=tuple(_owned(child, memory) for child in column.children))


def _size(columns: Iterable[Array]) -> int:
    return sum(sum(len(data) for data in column.buffers if data is not None) + _size(column.children) for column in columns)


def _columns_of(names: tuple[str, ...], rows: list[Record]) -> list[Array]:
    return [_column(name, rows) for name in names]


def _column(name: str, rows: list[Record]) -> Array:
    match name:
        case "topic":
            return _bytes_array([r.topic.encode() for r in rows])
        case "partition":
            return Array(len(rows), 0, (None, _ints("i", (r.partition for r in rows))))
        case "offset":
            return Array(len(rows), 0, (None, _ints("q", (r.offset for r in rows))))
        case "timestamp":
            return _timestamps([r.timestamp_ms for r in rows])
        case "timestamp_type":
            return Array(len(rows), 0, (None, _ints("i", (KINDS[r.timestamp_type] for r in rows))))
        case "key":
            return _bytes_array([r.key for r in rows])
        case "value":
            return _bytes_array([r.value for r in rows])
        case _:
            return _headers(rows)


def _ints(code: str, numbers: Iterable[int]) -> bytes:
    return array(code, numbers).tobytes()


def _bits(present: Iterable[bool]) -> bytes:
    """A bit per value; the first value has the lowest bit of the first byte."""
    flags = list(present)
    return sum(flag << i for i, flag in enumerate(flags)).to_bytes((len(flags) + 7) // 8, "little")


def _ends(sizes: Iterable[int]) -> bytes:
    return _ints("i", itertools.accumulate(sizes, initial=0))


def _bytes_array(values: list[bytes | None]) -> Array:
    nulls = values.count(None)
    valid = _bits(value is not None for value in values) if nulls else None
    return Array(len(values), nulls, (valid, _ends(len(value or b"") for value in values), b"".join(value or b"" for value in values)))


def _timestamps(times_ms: list[int]) -> Array:
    """Convert milliseconds to microseconds. The timestamp -1 (none), and timestamps more than 292,277 years from 1970, become null."""
    present = [ms != -1 and -LARGEST_MS <= ms <= LARGEST_MS for ms in times_ms]
    nulls = present.count(False)
    data = _ints("q", (ms * 1000 if there else 0 for ms, there in zip(times_ms, present, strict=True)))
    return Array(len(times_ms), nulls, (_bits(present) if nulls else None, data))


def _headers(rows: list[Record]) -> Array:
    pairs = [pair for r in rows for pair in r.headers]
    names, values = _bytes_array([name.encode() for name, _ in pairs]), _bytes_array([value for _, value in pairs])
    item = Array(len(pairs), 0, (None,), (names, values))
    return Array(len(rows), 0, (None, _ends(len(r.headers) for r in rows)), (item,))
