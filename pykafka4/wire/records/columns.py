"""Lists the columns of fetched records with their sizes, checks a choice of columns, and describes Arrow data, for both cores."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pykafka4.errors import ConfigError, shown

__all__ = [
    "Array",
    "COLUMN_NAMES",
    "Field",
    "HEADER_COST",
    "MOST_COLUMN_BYTES",
    "ROW_COSTS",
    "checked_columns",
    "other_columns",
    "stream_given",
]

# Bytes that a row takes in a column, without the data of strings, keys, values and headers: a number, or the end offset of the data.
ROW_COSTS: Final = {"topic": 4, "partition": 4, "offset": 8, "timestamp": 8, "timestamp_type": 4, "key": 4, "value": 4, "headers": 4}
COLUMN_NAMES: Final = tuple(ROW_COSTS)
HEADER_COST: Final = 8  # bytes of a header without its data: the end offsets of its name and value
MOST_COLUMN_BYTES: Final = 2**31 - 1  # maximum bytes of the data of one column: its offsets have 32 bits


class Field(NamedTuple):
    """A field of an Arrow schema."""

    name: str
    format: str
    children: tuple[Field, ...] = ()
    nullable: bool = True
    dictionary: Field | None = None  # the type of the values, if `format` is the type of their indexes


class Array(NamedTuple):
    """An Arrow array in plain Python. The first of `buffers` has a bit per row, clear if the row is null; it is None if no row is null."""

    length: int
    nulls: int
    buffers: tuple[bytes | None, ...]
    children: tuple[Array, ...] = ()


def checked_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """`columns` as a tuple. Raises ConfigError if it is empty or not a list of names, or a column does not exist or is listed twice."""
    if isinstance(columns, str):
        raise ConfigError(f"columns={columns!r}: must be a list of names, [{columns!r}] for one column")
    if not isinstance(columns, Iterable):
        raise ConfigError(f"columns={shown(columns)}: must be a list of names, each one of {', '.join(COLUMN_NAMES)}")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str) or name not in ROW_COSTS:
            near = difflib.get_close_matches(str(name), COLUMN_NAMES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"columns: there is no column {name!r} among {', '.join(COLUMN_NAMES)}{hint}")
        if names.count(name) > 1:
            raise ConfigError(f"columns: {name!r} is listed {names.count(name)} times")
    if not names:
        raise ConfigError(f"columns=[]: name at least one of {', '.join(COLUMN_NAMES)}")
    return names


def other_columns(count: int, names: Sequence[str]) -> ValueError:
    return ValueError(f"columns in the requested schema: {count}, but in these records: {len(names)} ({', '.join(names)})")


def stream_given() -> RuntimeError:
    return RuntimeError("this stream has been handed out already; it cannot be read twice: make another one")
