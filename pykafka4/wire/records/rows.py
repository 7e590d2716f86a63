"""Maps columns of Arrow data to arguments of `send`. Invariant: a type that cannot be sent is refused before the first row.

The results are `Shape`s, by which both cores read arrays.
"""

from __future__ import annotations

import contextlib
import difflib
import enum
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pykafka4.errors import ConfigError, KafkaTimeoutError
from pykafka4.gil.flag import step_aside
from pykafka4.logs import get_log
from pykafka4.wire.records.columns import Field
from pykafka4.wire.records.common import add_note_once

__all__ = [
    "ARGUMENTS",
    "Kind",
    "RowsCallback",
    "Shape",
    "named_columns",
    "no_arrow",
    "read_already",
    "rows_ended",
    "rows_failed",
    "rows_unfinished",
    "shapes_of",
    "stream_failed",
    "wrong_row",
]

log = get_log("pykafka4")

ARGUMENTS: Final = ("key", "value", "headers", "timestamp", "partition")


class Kind(enum.IntEnum):
    """The layout of a column in memory; `_rows.h` has the same numbers."""

    NULL = 0
    ENDS32 = 1  # bytes, and the end offset of each value
    ENDS64 = 2
    VIEWS = 3
    FIXED = 4  # `width` bytes each
    INTEGER = 5
    DICTIONARY = 6  # an index of `width` bytes into its child
    LIST32 = 7
    LIST64 = 8
    LIST_FIXED = 9  # `width` items each
    PAIR = 10


class Shape(NamedTuple):
    """The layout of a column or of its children. An integer is multiplied by `times` and divided by `per`."""

    kind: Kind
    width: int = 0  # bytes of FIXED, INTEGER and DICTIONARY; items of LIST_FIXED; the index of the name in PAIR
    signed: bool = True
    children: tuple[Shape, ...] = ()
    times: int = 1
    per: int = 1
    text: bool = False  # its bytes are UTF-8: a serializer gets them as str


BYTES: Final = {
    "n": Shape(Kind.NULL),
    "z": Shape(Kind.ENDS32),
    "u": Shape(Kind.ENDS32, text=True),
    "Z": Shape(Kind.ENDS64),
    "U": Shape(Kind.ENDS64, text=True),
    "vz": Shape(Kind.VIEWS),
    "vu": Shape(Kind.VIEWS, text=True),
}
TEXT: Final = frozenset(("u", "U", "vu"))
INTEGERS: Final = {
    letter: Shape(Kind.INTEGER, width, signed=letter.islower())
    for width, letters in ((1, "cC"), (2, "sS"), (4, "iI"), (8, "lL"))
    for letter in letters
}
TIMES: Final = {
    "tss": Shape(Kind.INTEGER, 8, times=1000),
    "tsm": Shape(Kind.INTEGER, 8),
    "tsu": Shape(Kind.INTEGER, 8, per=1000),
    "tsn": Shape(Kind.INTEGER, 8, per=1_000_000),
    "tdD": Shape(Kind.INTEGER, 4, times=86_400_000),
    "tdm": Shape(Kind.INTEGER, 8),
}
LISTS: Final = {"+l": Kind.LIST32, "+m": Kind.LIST32, "+L": Kind.LIST64}
NAMES: Final = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32", "l": "int64",
    "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary", "u": "string", "U": "large_string",
    "vz": "binary_view", "vu": "string_view", "tdD": "date32", "tdm": "date64", "tiM": "interval", "tiD": "interval", "tin": "interval",
    "+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view", "+s": "struct", "+m": "map", "+r": "run_end_encoded",
}  # fmt: skip
FAMILIES: Final = (
    ("d:", "decimal"),
    ("w:", "fixed_size_binary"),
    ("ts", "timestamp"),
    ("tt", "time"),
    ("tD", "duration"),
    ("+w", "fixed_size_list"),
    ("+u", "union"),
)
WANTED: Final = {
    "key": ("string or binary", "string"),
    "value": ("string or binary", "string"),
    "headers": ("list<struct<key: string, value: binary>> or map<string, binary>", ""),
    "timestamp": ("timestamp, date, or an integer of milliseconds since 1970", "timestamp"),
    "partition": ("an integer", "int32"),
}
CASTS: Final = {  # the casts of the libraries that make the data
    "string": "pyarrow cast(pa.string()), polars cast(pl.String), SQL CAST(… AS VARCHAR)",
    "nested": "polars struct.json_encode(), DuckDB to_json(…), Spark to_json(…)",
    "timestamp": 'pyarrow cast(pa.timestamp("ms")), polars cast(pl.Datetime("ms")), SQL CAST(… AS TIMESTAMP)',
    "int32": "pyarrow cast(pa.int32()), polars cast(pl.Int32), SQL CAST(… AS INTEGER)",
}

WAYS_OUT: Final = {  # for data without the Arrow C interface, by the name of the type
    "LazyFrame": "; call collect() first",
    "list": "; polars.DataFrame(data) makes columns of a list of dicts, and send_many takes a list of values",
    "dict": "; polars.DataFrame(data) makes columns of a dict of lists",
    "DuckDBPyConnection": "; fetch_record_batch() returns the result of its last query",
    "RDD": "; toDF() makes a DataFrame of it",
}


def named_columns(names: dict[str, Any]) -> dict[str, Any]:
    """Raises TypeError for a name that is not an argument."""
    for name in names:
        if name not in ARGUMENTS:
            raise TypeError(f"ArrowRows() got an unexpected keyword argument {name!r}")
    return {argument: names.get(argument, argument) for argument in ARGUMENTS}


def type_name(field: Field) -> str:
    if field.dictionary is not None:
        return f"dictionary<{type_name(field.dictionary)}>"
    found = NAMES.get(field.format)
    if found is None:
        found = next((name for start, name in FAMILIES if field.format.startswith(start)), f"of format {field.format!r}")
    return f"{found}<{', '.join(type_name(child) for child in field.children)}>" if field.children else found


def shapes_of(topic: str, root: Field, names: dict[str, str | None]) -> tuple[tuple[int, Shape] | None, ...]:
    """For each of ARGUMENTS, the number and shape of its column; None for an argument without a column.

    `names` has the column's name for each argument, or None. A column with the name of its argument may be missing, except the column of
    values. Data without columns are the values. Raises ConfigError for a name that is not a str, and for a column that does not exist or
    exists twice, TypeError for a type that cannot be sent.
    """
    if root.format != "+s":
        return tuple((0, _shape(topic, argument, root)) if argument == "value" else None for argument in ARGUMENTS)
    return tuple(_chosen(topic, argument, names.get(argument), root.children) for argument in ARGUMENTS)


def _chosen(topic: str, argument: str, name: str | None, fields: tuple[Field, ...]) -> tuple[int, Shape] | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise ConfigError(f"{topic}: {argument}={name!r}: must be the name of a column, or None")
    places = [i for i, field in enumerate(fields) if field.name == name]
    if len(places) > 1:
        raise ConfigError(f"{topic}: {len(places)} columns have the name {name!r} ({argument}=); rename all but one")
    if places:
        return places[0], _shape(topic, argument, fields[places[0]])
    if name == argument and argument != "value":
        return None
    near = difflib.get_close_matches(name, [field.name for field in fields], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "; value=None sends null values" if argument == "value" else ""
    there = ", ".join(field.name for field in fields) or "no columns"
    raise ConfigError(f"{topic}: there is no column {name!r} ({argument}=) among {there}{hint}")


def _shape(topic: str, argument: str, field: Field) -> Shape:
    shape = SHAPES[argument](field)
    if shape is None:
        wanted, cast = WANTED[argument]
        if cast == "string" and field.format.startswith("+"):
            cast = "nested"
        hint = f"; cast it: {CASTS[cast]}" if cast else ""
        raise TypeError(f"{topic}: the column {field.name!r} ({argument}=) is {type_name(field)}; it must be {wanted}{hint}")
    return shape


def _bytes(field: Field) -> Shape | None:
    if field.dictionary is not None:
        index, values = INTEGERS.get(field.format), _bytes(field.dictionary)
        if index is None or values is None or values.kind == Kind.DICTIONARY:
            return None
        return Shape(Kind.DICTIONARY, index.width, index.signed, (values,), text=values.text)
    if field.format.startswith("w:"):
        return Shape(Kind.FIXED, int(field.format[2:]))
    return BYTES.get(field.format)


def _integer(field: Field) -> Shape | None:
    if field.dictionary is not None:
        return None
    return Shape(Kind.NULL) if field.format == "n" else INTEGERS.get(field.format)


def _timestamp(field: Field) -> Shape | None:
    # Arrow's zone is not read: with a zone the numbers are UTC, and a timestamp without a zone is taken as UTC.
    if field.dictionary is not None:
        return None
    return TIMES.get(field.format.partition(":")[0]) or _integer(field)


def _headers(field: Field) -> Shape | None:
    if field.format == "n":
        return Shape(Kind.NULL)
    kind = Kind.LIST_FIXED if field.format.startswith("+w:") else LISTS.get(field.format)
    if kind is None or field.dictionary is not None or len(field.children) != 1:
        return None
    pair = _pair(field.children[0])
    return None if pair is None else Shape(kind, int(field.format[3:]) if kind == Kind.LIST_FIXED else 0, children=(pair,))


def _pair(field: Field) -> Shape | None:
    """The shape of a struct of a header's name and value: in this order, unless its fields are named `value` and `key`, in that order."""
    if field.format != "+s" or len(field.children) != 2:
        return None
    order = (1, 0) if [child.name for child in field.children] == ["value", "key"] else (0, 1)
    name, value = (field.children[i] for i in order)
    shapes = _bytes(name), _bytes(value)
    if shapes[0] is None or shapes[1] is None or (name.dictionary or name).format not in TEXT:
        return None
    return Shape(Kind.PAIR, order[0], children=(shapes[0], shapes[1]))


SHAPES: Final = {"key": _bytes, "value": _bytes, "headers": _headers, "timestamp": _timestamp, "partition": _integer}


def no_arrow(topic: str, data: object) -> TypeError:
    kind = type(data).__name__
    if type(data).__module__.startswith("pyspark.") and kind == "DataFrame":
        return TypeError(f"{topic}: this DataFrame has no __arrow_c_stream__; PySpark 4.2 is the first release with it")
    return TypeError(
        f"{topic}: {kind} has neither __arrow_c_stream__ nor __arrow_c_array__; data of pyarrow, polars, pandas and DuckDB have one of them"
        f"{WAYS_OUT.get(kind, '')}"
    )


def read_already(topic: str) -> ValueError:
    return ValueError(f"{topic}: the Arrow data has been read already: it was released")


def stream_failed(topic: str, number: int, text: str) -> RuntimeError:
    return RuntimeError(f"{topic}: the Arrow stream failed with error {number}: {text or 'it gave no reason'}")


def wrong_row(topic: str, argument: str, row: int, reason: str) -> ValueError:
    where = f"{argument} of row {row}" if argument else f"row {row}"
    return ValueError(f"{topic}: {where}: {reason}")


def rows_unfinished(topic: str, count: int, rows: int, timeout: float) -> KafkaTimeoutError:
    return KafkaTimeoutError(
        f"{topic}: {count} of {rows} rows not acknowledged within {timeout:g} s; they are still being sent, and Producer.status() says why"
    )


def rows_failed(error: BaseException | None, row: int, failed: int, rows: int) -> None:
    if error is not None:
        error.add_note(
            f"pykafka4: send_arrow: row {row}, counted from 0, is the first failed row; {failed} of {rows} rows failed; see failures()"
        )


class RowsCallback:
    """Calls a function once, when every row of a `SentRows` has its outcome.

    An instance is the callback of one open row at a time, so nothing is kept per row.
    """

    __slots__ = ("_client_id", "_fn", "_sent")

    def __init__(self, sent: Any, fn: Callable[[Any], object], client_id: str) -> None:
        self._sent, self._fn, self._client_id = sent, fn, client_id

    def __call__(self, _: object) -> None:
        if not self.follow():
            self._fn(self._sent)

    def follow(self) -> bool:
        """Become the callback of an open row; return whether there is one."""
        delivery = self._sent.open_delivery()
        if delivery is not None:
            delivery.add_done_callback(self)
        return delivery is not None

    def run(self) -> None:
        """Call the function, because every row had its outcome before the callback was added."""
        try:
            step_aside()
            self._fn(self._sent)
        except BaseException:  # the error is only logged, as for a callback of a Delivery
            log.exception("%s: the callback %r for rows of topic %s raised an exception", self._client_id, self._fn, self._sent.topic)

    def __repr__(self) -> str:
        return repr(self._fn)


def rows_ended(error: BaseException, topic: str, row: int, sent: Any) -> None:
    """Note on `error` the row at which the call ended; store the handle `sent` of the rows before that row as `error.accepted`."""
    add_note_once(
        error,
        "pykafka4: send_arrow ",
        f"to {topic!r} ended at row {row}, counted from 0; the rows before it were accepted, "
        "and `accepted` of this exception has their outcomes",
    )
    with contextlib.suppress(AttributeError):  # the class of `error` refuses new attributes
        error.accepted = sent  # type: ignore[attr-defined]
