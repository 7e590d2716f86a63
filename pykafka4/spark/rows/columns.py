"""Turns the columns of rows into arguments of `send`. Invariant: an error about a column or its type also names the column's option."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from pykafka4.errors import ConfigError

__all__ = ["Column", "columns", "send_rows"]

Arguments: TypeAlias = dict[str, Any]

BYTES = (bytes, str, bytearray, memoryview)
PLAIN = {bytes, bytearray, str, type(None)}  # types of values that need no check


@attrs.frozen
class Column:
    option: str
    name: str

    def __str__(self) -> str:
        return f"column {self.name!r} (option {self.option})"

    @property
    def argument(self) -> str:
        return "timestamp_ms" if self.option == "timestamp" else self.option


def columns(**names: str | None) -> tuple[Column, ...]:
    """Raises ConfigError if a name is empty or not a string."""
    for option, name in names.items():
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigError(f"{option}={name!r}: must be the name of a column, or None for no column")
    return tuple(Column(option, name) for option, name in names.items() if name is not None)


@attrs.frozen
class ColumnPlaces:
    """The places of the wanted columns in rows that have the same fields."""

    columns: tuple[tuple[str, Callable[[Column, Any], Any], Column, Any], ...]  # (argument, converter, column, index in a row)
    value: tuple[Column, int] | None  # the place of the value, if rows are `Row`s and only a value, or a value and a key, are wanted
    key: tuple[Column, int] | None  # the place of the key in that case

    @classmethod
    def find(cls, wanted: tuple[Column, ...], row: Any, fields: list[str]) -> ColumnPlaces:
        found = tuple((column.argument, CONVERTERS[column.option], column, index_of(column, row, fields)) for column in wanted)
        by_option = {column.option: (column, where) for _, _, column, where in found}
        simple = isinstance(row, tuple) and "value" in by_option and by_option.keys() <= {"key", "value"}
        return cls(found, by_option["value"] if simple else None, by_option.get("key") if simple else None)

    def arguments(self, row: Any) -> Arguments:
        return {argument: convert(column, row[where]) for argument, convert, column, where in self.columns}


def send_rows(
    send: Callable[..., object],
    topic: str,
    wanted: tuple[Column, ...],
    rows: Iterable[Any],
    clock: Callable[[], float],
    check_failures: Callable[[], float],
) -> None:
    """Send each row, and call `check_failures()` when its time has come: it returns the time of its next call, or raises.

    The places of the columns are looked up only when the fields or the type of the rows change. Nearly every row is a `Row` from which
    only a value, or a value and a key, are sent; for such a row, the loop usually calls only `send`, `clock` and built-in functions.
    """
    fields: Any = None
    kind: Any = None
    check_at = check_failures()
    cell, plain = tuple.__getitem__, PLAIN  # Row's own indexing is a Python function
    value_column = key_column = None
    value_at: Any = None
    key_at: Any = None
    for row in rows:
        try:
            found = row.__fields__
        except AttributeError:
            found = names(row)
        if found is not fields:  # Spark shares the list of names among about a hundred rows
            if found != fields or type(row) is not kind:
                places = ColumnPlaces.find(wanted, row, found)
                value_column, value_at = places.value or (None, None)
                key_column, key_at = places.key or (None, None)
            fields, kind = found, type(row)
        if value_column is None:
            send(topic, **places.arguments(row))
        else:
            value = cell(row, value_at)
            if type(value) not in plain:
                value = as_bytes(value_column, value)
            if key_column is None:
                send(topic, value)
            else:
                key = cell(row, key_at)
                if type(key) not in plain:
                    key = as_bytes(key_column, key)
                send(topic, value, key=key)
        if clock() >= check_at:
            check_at = check_failures()


def names(row: Any) -> list[str]:
    """Raises TypeError for a row without names."""
    if isinstance(row, Mapping):
        return list(row)
    raise TypeError(f"rows are {type(row).__name__}, which has no column names; use a DataFrame, or an RDD of Row(key=…, value=…) or dict")


def index_of(column: Column, row: Any, fields: list[str]) -> Any:
    """The index of the column in `row`: a number for a Row, the name for a dict. Raises ConfigError unless exactly one column fits."""
    if fields.count(column.name) == 1:
        return column.name if isinstance(row, Mapping) else fields.index(column.name)
    if column.name in fields:
        raise ConfigError(f"{column} appears {fields.count(column.name)} times; rename all but one")
    near = difflib.get_close_matches(column.name, fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"there is no {column} among {', '.join(fields) or 'no columns'}{hint}")


def as_bytes(column: Column, value: Any) -> Any:
    if value is None or isinstance(value, BYTES):
        return value
    raise TypeError(f"{column} is {type(value).__name__}; it must be string or binary; cast it: F.col({column.name!r}).cast('string')")


def as_headers(column: Column, value: Any) -> list[tuple[str, Any]] | None:
    if value is None:
        return None
    pairs = value.items() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else (value,)
    return [header(column, pair) for pair in pairs]


def header(column: Column, pair: Any) -> tuple[str, Any]:
    """One header, from a struct<key, value> with its fields in either order, or from a pair."""
    if set(getattr(pair, "__fields__", ())) == {"key", "value"}:
        pair = pair["key"], pair["value"]
    if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and (pair[1] is None or isinstance(pair[1], BYTES)):
        return pair
    raise TypeError(f"{column} holds {pair!r}; it must be array<struct<key:string,value:binary>> or map<string,binary>, without null keys")


def as_millis(column: Column, value: Any) -> int | None:
    """Milliseconds since 1970. A naive datetime is local time: Spark passes timestamps in the worker's time zone."""
    if isinstance(value, datetime):
        # Seconds and milliseconds are computed separately: a float of seconds times 1000 can be one millisecond too low.
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
