"""Reads rows of Arrow data as records, in plain Python; `_rows.h` and `_rows.pxi` are the compiled counterparts.

Invariant: the same rows, refusals and error messages as in the compiled core. The checks protect against damaged arrays as far as Arrow
states sizes. Of buffers, Arrow states only the sizes of the data buffers of views; for all other buffers, the exporter is trusted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, final

from pykafka4.errors import DeliveryFailed
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, exact_name
from pykafka4.wire.records._plain_batch import FAILED
from pykafka4.wire.records._plain_delivery import Delivery
from pykafka4.wire.records.common import checked_callback
from pykafka4.wire.records.layout import INT64_MAX
from pykafka4.wire.records.rows import (
    ARGUMENTS,
    Kind,
    RowsCallback,
    Shape,
    named_columns,
    rows_failed,
    rows_unfinished,
    shapes_of,
    wrong_row,
)

if TYPE_CHECKING:
    from pykafka4.wire.records._plain_arrow import Imported

__all__ = ["ArrowRows", "SentRows"]

BUFFERS: Final = {
    Kind.NULL: None,
    Kind.ENDS32: 3,
    Kind.ENDS64: 3,
    Kind.VIEWS: None,
    Kind.FIXED: 2,
    Kind.INTEGER: 2,
    Kind.DICTIONARY: 2,
    Kind.LIST32: 2,
    Kind.LIST64: 2,
    Kind.LIST_FIXED: 1,
    Kind.PAIR: 1,
}
MOST_PARTITION: Final = 2**32 - 1  # the highest partition number that any partitioner accepts
INLINE: Final = 12  # bytes up to which a value is stored in its view


def _bytes(address: int, size: int) -> bytes:
    from ctypes import string_at

    return string_at(address, size)


class _Wrong(Exception):
    """The reason why an array or a value cannot be read."""


class _Column:
    """A column of one batch. `shift` is the offset of the parent struct, which applies to its children."""

    def __init__(self, shape: Shape, array: Any, shift: int = 0, rows: int = 0) -> None:
        if array.length < 0 or array.offset < 0 or array.length < shift + rows:
            raise _Wrong("an array is shorter than its batch")
        count = BUFFERS[shape.kind]
        if array.n_buffers < 3 if shape.kind == Kind.VIEWS else count is not None and array.n_buffers != count:
            raise _Wrong("an array has an unexpected number of buffers")
        self.shape, self.start, self.length = shape, array.offset + shift, array.length - shift
        self.buffers = [array.buffers[i] for i in range(array.n_buffers)]
        self.valid = None if shape.kind == Kind.NULL or array.null_count == 0 else self.buffers[0]
        if array.null_count > 0 and self.valid is None and shape.kind != Kind.NULL:
            raise _Wrong("an array has nulls, but does not say which")
        first = count in (2, 3) or shape.kind == Kind.VIEWS
        if self.length > 0 and first and not self.buffers[1] and (shape.kind != Kind.FIXED or shape.width):
            raise _Wrong("an array has no buffer")
        if shape.kind == Kind.VIEWS and array.n_buffers > 3 and not self.buffers[-1]:
            raise _Wrong("an array of views has no sizes")
        self.children = self._bind_children(array)

    def _bind_children(self, array: Any) -> list[_Column]:
        kind, shapes = self.shape.kind, self.shape.children
        if kind == Kind.DICTIONARY:
            if not array.dictionary:
                raise _Wrong("an array has no dictionary")
            return [_Column(shapes[0], array.dictionary.contents)]
        if array.n_children != len(shapes):
            raise _Wrong("an array has an unexpected number of children")
        if kind != Kind.PAIR:
            return [_Column(shape, array.children[0].contents) for shape in shapes]
        places = (self.shape.width, 1 - self.shape.width)  # indexes of name and value
        return [
            _Column(shape, array.children[place].contents, self.start, self.length) for shape, place in zip(shapes, places, strict=True)
        ]

    def is_null(self, row: int) -> bool:
        place = self.start + row
        return self.shape.kind == Kind.NULL or (self.valid is not None and not _bytes(self.valid + place // 8, 1)[0] >> place % 8 & 1)

    def _number(self, buffer: int, place: int, width: int, signed: bool = True) -> int:
        return int.from_bytes(_bytes(self.buffers[buffer] + place * width, width), sys.byteorder, signed=signed)

    def _range(self, width: int, row: int) -> tuple[int, int]:
        begin, end = self._number(1, self.start + row, width), self._number(1, self.start + row + 1, width)
        if not 0 <= begin <= end:
            raise _Wrong("its offsets do not increase")
        return begin, end

    def bytes_at(self, row: int) -> bytes | None:
        if self.is_null(row):
            return None
        width = self.shape.width
        match self.shape.kind:
            case Kind.ENDS32 | Kind.ENDS64:
                begin, end = self._range(4 if self.shape.kind == Kind.ENDS32 else 8, row)
                if begin < end and not self.buffers[2]:
                    raise _Wrong("an array has no buffer")
                return _bytes(self.buffers[2] + begin, end - begin) if begin < end else b""
            case Kind.VIEWS:
                return self._view_at(self.start + row)
            case Kind.FIXED:
                return _bytes(self.buffers[1] + (self.start + row) * width, width) if width else b""
        index = self._number(1, self.start + row, width, self.shape.signed)
        if not 0 <= index < self.children[0].length:
            raise _Wrong("its index is not in the dictionary")
        return self.children[0].bytes_at(index)

    def _view_at(self, place: int) -> bytes:
        size, _, part, begin = (self._number(1, place * 4 + i, 4) for i in range(4))
        if size < 0:
            raise _Wrong("a view has a negative length")
        if size <= INLINE:
            return _bytes(self.buffers[1] + place * 16 + 4, size) if size else b""
        if not 0 <= part < len(self.buffers) - 3:
            raise _Wrong("a view is of a buffer that does not exist")
        if begin < 0 or begin + size > self._number(-1, part, 8) or not self.buffers[2 + part]:
            raise _Wrong("a view exceeds its buffer")
        return _bytes(self.buffers[2 + part] + begin, size)

    def integer_at(self, row: int) -> int | None:
        if self.is_null(row):
            return None
        number = self._number(1, self.start + row, self.shape.width, self.shape.signed) * self.shape.times
        if not -INT64_MAX - 1 <= number <= INT64_MAX:  # checked after the multiplication, which converts seconds or days to milliseconds
            raise _Wrong("it is out of range")
        return number // self.shape.per

    def headers_at(self, row: int) -> list[tuple[str, bytes | None]]:
        if self.is_null(row):
            return []
        if self.shape.kind == Kind.LIST_FIXED:
            begin, end = (self.start + row) * self.shape.width, (self.start + row + 1) * self.shape.width
        else:
            begin, end = self._range(4 if self.shape.kind == Kind.LIST32 else 8, row)
        pair = self.children[0]
        if end > pair.length:
            raise _Wrong("its list exceeds the array of headers")
        return [self._header_at(pair, i) for i in range(begin, end)]

    @staticmethod
    def _header_at(pair: _Column, row: int) -> tuple[str, bytes | None]:
        if pair.is_null(row):
            raise _Wrong("a header is null")
        name = pair.children[0].bytes_at(row)
        if name is None:
            raise _Wrong("the name of a header is null")
        try:
            return name.decode(), pair.children[1].bytes_at(row)
        except UnicodeDecodeError:
            raise _Wrong("the name of a header is not valid UTF-8") from None


def _imported(topic: str, data: Any) -> Imported:
    from pykafka4.wire.records._plain_arrow import Imported

    return Imported(topic, data)


class ArrowRows:
    """Rows of Arrow data for `Accumulator.send_rows`, from any object with `__arrow_c_stream__` or `__arrow_c_array__`.

    `names` has the names of the columns for `key`, `value`, `headers`, `timestamp` and `partition`; None: no column. By default each
    argument has the column with its name; this column may be missing, except for `value`. `position` is the number of rows taken.
    Raises TypeError for data without the Arrow C interface and for a type that cannot be sent, ConfigError for a column that does not exist
    or exists twice, ValueError for data that have been read already, RuntimeError for a stream that fails.
    """

    def __init__(self, topic: str, data: Any, **names: str | None) -> None:
        self.topic = exact_name(topic)
        self.position = 0
        self._busy = False
        self._row = self._length = 0
        self._batch: Any = None
        self._columns: list[_Column | None] = []
        self._source: Imported = _imported(self.topic, data)
        root = self._source.field
        self._whole = root.format != "+s"
        self._shapes = shapes_of(self.topic, root, named_columns(names))

    def _next_batch(self) -> bool:
        """Read the next batch that has rows; return False if there is none."""
        while True:
            self._batch, self._row, self._length = None, 0, 0
            batch = self._source.next()
            if batch is None:
                return False
            self._bind(batch)
            if self._length:
                return True

    def _bind(self, batch: Any) -> None:
        if batch.length < 0 or batch.offset < 0:
            raise self._wrong(None, "its batch has a negative length or offset")
        valid = None if self._whole or batch.null_count == 0 or batch.n_buffers < 1 else batch.buffers[0]
        self._valid = valid
        self._columns = [self._bind_column(batch, argument, found) for argument, found in zip(ARGUMENTS, self._shapes, strict=True)]
        self._batch, self._length = batch, batch.length

    def _bind_column(self, batch: Any, argument: str, found: tuple[int, Shape] | None) -> _Column | None:
        if found is None or batch.length == 0:
            return None
        place, shape = found
        try:
            if self._whole:
                return _Column(shape, batch, 0, batch.length)
            if place >= batch.n_children:
                raise _Wrong("its batch has fewer columns than the schema")
            return _Column(shape, batch.children[place].contents, batch.offset, batch.length)
        except _Wrong as error:
            raise self._wrong(argument, str(error)) from None

    def _wrong(self, argument: str | None, reason: str) -> ValueError:
        return wrong_row(self.topic, argument or "", self.position, reason)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Raises RuntimeError if another call, for example on another thread, uses the rows."""
        if self._busy:
            raise RuntimeError(f"{self.topic}: these rows are being sent already")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def has_row(self) -> bool:
        return self._row < self._length or self._next_batch()

    @property
    def left(self) -> int:
        """Rows left in the current batch."""
        return self._length - self._row

    def arguments(self) -> tuple[bytes | str | None, bytes | str | None, Any, int | None, int | None]:
        """(value, key, headers, partition, timestamp_ms) of the next row, as `send` accepts them."""
        item = self.item(MOST_PARTITION, lambda: -1)
        partition, timestamp = item.partition, item.timestamp
        return (
            self._cell(1, item.value),
            self._cell(0, item.key),
            item.headers or None,
            None if partition == UNDECIDED else partition,
            None if timestamp < 0 else timestamp,
        )

    def _cell(self, argument: int, data: Any) -> bytes | str | None:
        found = self._shapes[argument]
        if data is None or found is None or not found[1].text:
            return data  # type: ignore[no-any-return]
        try:
            return data.decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            raise self._wrong(ARGUMENTS[argument], "it is not valid UTF-8") from None

    def go_to(self, position: int) -> None:
        self._row += position - self.position
        self.position = position

    def item(self, most_partition: int, now: Callable[[], int]) -> Item:
        """The next row; `now` returns the timestamp of a row that has none."""
        if self._valid is not None:
            place = self._batch.offset + self._row
            if not _bytes(self._valid + place // 8, 1)[0] >> place % 8 & 1:
                raise self._wrong(None, "the row itself is null")
        read = self._value
        value, key = read(1, _Column.bytes_at), read(0, _Column.bytes_at)
        headers = tuple(read(2, _Column.headers_at) or ())
        timestamp, partition = read(3, _Column.integer_at), read(4, _Column.integer_at)
        if timestamp is not None and timestamp < 0:
            raise self._wrong("timestamp", "it is before 1970")
        if partition is not None and not 0 <= partition <= most_partition:
            raise self._wrong("partition", f"{partition} must be from 0 to {most_partition}")
        return Item(key, value, headers, now() if timestamp is None else timestamp, UNDECIDED if partition is None else partition)

    def _value(self, argument: int, read: Callable[[_Column, int], Any]) -> Any:
        column = self._columns[argument]
        try:
            return None if column is None else read(column, self._row)
        except _Wrong as error:
            raise self._wrong(ARGUMENTS[argument], str(error)) from None


@final
class SentRows:
    """The handle that `send_arrow` returns: a promise of the outcomes of all accepted rows. `len()` is their number.

    Rows are numbered from 0, in the order of the data.
    """

    def __init__(self, acc: Any, topic: str) -> None:
        self._acc, self.topic = acc, topic
        self._deliveries: list[tuple[int, Delivery]] = []
        self._open: list[Delivery] = []  # rows without an outcome at the last call of `done`, and later rows

    def took(self, rows: ArrowRows, delivery: Delivery) -> None:
        """Add `delivery`, the handle of the next row, which was accepted. A second call with the same handle does nothing."""
        if not self._deliveries or self._deliveries[-1][1] is not delivery:
            self._deliveries.append((rows.position, delivery))
            self._open.append(delivery)
            rows.go_to(rows.position + 1)

    def __len__(self) -> int:
        return len(self._deliveries)

    @property
    def acked(self) -> int:
        """The number of rows that were acknowledged at the last call of `done`."""
        still_open = set(map(id, self._open))
        return sum(id(d) not in still_open and d._home().state != FAILED for _, d in self._deliveries)

    def done(self) -> bool:
        """Whether every row has an outcome."""
        self._open = [d for d in self._open if not d.done()]
        return not self._open

    def open_delivery(self) -> Delivery | None:
        """The Delivery of the last row that has no outcome; None if every row has an outcome."""
        return next((d for d in reversed(self._open) if not d.done()), None)

    def _await_outcomes(self, timeout: float | None) -> None:
        if not self.done() and not self._acc._wait(self.done, timeout):
            raise rows_unfinished(self.topic, len(self._open), len(self), timeout or 0)

    def _failed(self) -> list[tuple[int, Delivery]]:
        return [(row, d) for row, d in self._deliveries if d._home().state == FAILED]

    def failures(self, timeout: float | None = None) -> dict[int, DeliveryFailed]:
        """The DeliveryFailed of each failed row, by the row's number; waits as `result` does."""
        self._await_outcomes(timeout)
        return {row: error for row, d in self._failed() if (error := d.exception()) is not None}

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        """The DeliveryFailed of the first failed row, None if no row has failed; waits as `result` does.

        A note on the exception has the row's number and the number of failed rows. All these failures count as seen, but
        drops do not.
        """
        failures = self.failures(timeout)
        row, error = next(iter(failures.items()), (0, None))
        rows_failed(error, row, len(failures), len(self))
        return error

    def result(self, timeout: float | None = None) -> int:
        """Wait until every row has its outcome; return the number of rows.

        `timeout` is in seconds, None for no limit. Raises KafkaTimeoutError after that time, the DeliveryFailed of the first failed row,
        or ForkedClientError in a forked child if a row had no outcome before the fork.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return len(self)

    def add_done_callback(self, fn: Callable[[SentRows], object]) -> None:
        """Call `fn(rows)` once, on the callback executor, when every row has its outcome (at once if every row has one)."""
        checked_callback(self.topic, "a callback", fn)
        callback = RowsCallback(self, fn, self._acc.client_id)
        if not callback.follow():
            self._acc._submit(callback.run)

    def __await__(self) -> Generator[Any, Any, int]:
        return self._acc._awaiting(self)  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle 'SentRows' object")

    def __repr__(self) -> str:
        return f"<SentRows of {len(self)} rows to {self.topic}>"
