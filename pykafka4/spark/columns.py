"""Columns. Rule: each option names the column for one argument of `send`; an error about a column or its type also names the option."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from pykafka4.errors import ConfigError

__all__ = ["Column", "columns", "records"]

Arguments: TypeAlias = dict[str, Any]

BYTES = (bytes, str, bytearray, memoryview)


@attrs.frozen
class Column:
    """A column and the option that names it."""

    option: str
    name: str

    def __str__(self) -> str:
        return f"column {self.name!r} (option {self.option})"

    @property
    def argument(self) -> str:
        """The argument of `send` that the column becomes."""
        return "timestamp_ms" if self.option == "timestamp" else self.option

    def converter(self) -> Callable[[Column, Any], Any]:
        return CONVERTERS[self.option]


def columns(**names: str | None) -> tuple[Column, ...]:
    """The configured columns; ConfigError if a name is empty or not a string."""
    for option, name in names.items():
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigError(f"{option}={name!r}: must be the name of a column, or None to leave it out")
    return tuple(Column(option, name) for option, name in names.items() if name is not None)


def records(wanted: tuple[Column, ...], rows: Iterable[Any]) -> Iterator[Arguments]:
    """The arguments of `send` for each row. The positions of the columns are looked up when the fields of the rows change."""
    fields: Any = None
    places: list[tuple[str, Callable[[Column, Any], Any], Column, Any]] = []
    for row in rows:
        found = names(row)
        if found is not fields and found != fields:
            fields, places = found, [(c.argument, c.converter(), c, place(c, row, found)) for c in wanted]
        yield {argument: convert(column, row[where]) for argument, convert, column, where in places}


def names(row: Any) -> list[str]:
    """The field names of a Row or a dict."""
    fields = getattr(row, "__fields__", None)
    if fields is not None:
        return fields  # type: ignore[no-any-return]
    if isinstance(row, Mapping):
        return list(row)
    raise TypeError(f"rows are {type(row).__name__}, which has no column names; use a DataFrame, or an RDD of Row(key=…, value=…) or dict")


def place(column: Column, row: Any, fields: list[str]) -> Any:
    """What to index `row` with: a number for a Row, the name for a dict."""
    if fields.count(column.name) == 1:
        return column.name if isinstance(row, Mapping) else fields.index(column.name)
    if column.name in fields:
        raise ConfigError(f"{column} appears {fields.count(column.name)} times; rename all but one")
    near = difflib.get_close_matches(column.name, fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{column} is not in the rows, which have {', '.join(fields) or 'no columns'}{hint}")


def as_bytes(column: Column, value: Any) -> Any:
    if value is None or isinstance(value, BYTES):
        return value
    raise TypeError(f"{column} is {type(value).__name__}; it must be string or binary, cast it: F.col({column.name!r}).cast('string')")


def as_headers(column: Column, value: Any) -> list[tuple[str, Any]] | None:
    if value is None:
        return None
    pairs = value.items() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else (value,)
    return [header(column, pair) for pair in pairs]


def header(column: Column, pair: Any) -> tuple[str, Any]:
    """One header from a struct<key, value> in either order, or from a pair."""
    if set(getattr(pair, "__fields__", ())) == {"key", "value"}:
        pair = pair["key"], pair["value"]
    if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and (pair[1] is None or isinstance(pair[1], BYTES)):
        return pair
    raise TypeError(f"{column} holds {pair!r}; it must be array<struct<key:string,value:binary>> or map<string,binary>, without null keys")


def as_millis(column: Column, value: Any) -> int | None:
    """Milliseconds since 1970. A naive datetime is local time: Spark passes timestamps in the worker's time zone."""
    if isinstance(value, datetime):
        # Seconds and milliseconds separately: a float of 1.7e9 seconds times 1000 can be one millisecond too low.
        return int(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000
    return whole(column, value, "timestamp, or bigint milliseconds since 1970")


def as_partition(column: Column, value: Any) -> int | None:
    return whole(column, value, "int, or null to let the key decide")


def whole(column: Column, value: Any, wanted: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{column} is {type(value).__name__}; it must be {wanted}")


CONVERTERS: Mapping[str, Callable[[Column, Any], Any]] = {
    "key": as_bytes,
    "value": as_bytes,
    "headers": as_headers,
    "timestamp": as_millis,
    "partition": as_partition,
}
