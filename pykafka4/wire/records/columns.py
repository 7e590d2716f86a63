"""The columns that records become, in both cores: their names, their sizes, and the parts of an Arrow schema and array."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pykafka4.errors import ConfigError, shown

__all__ = ["Array", "COLUMN_NAMES", "Field", "HEADER_COST", "MOST_BYTES", "ROW_COSTS", "checked_columns", "other_columns", "stream_given"]

# Bytes of each row beside its own: numbers, and the end of what has no fixed length.
ROW_COSTS: Final = {"topic": 4, "partition": 4, "offset": 8, "timestamp": 8, "timestamp_type": 4, "key": 4, "value": 4, "headers": 4}
COLUMN_NAMES: Final = tuple(ROW_COSTS)
HEADER_COST: Final = 8  # the ends of its name and value
MOST_BYTES: Final = 2**31 - 1  # of the data of one column, whose offsets have 32 bits


class Field(NamedTuple):
    """A field of an Arrow schema."""

    name: str
    format: str
    children: tuple[Field, ...] = ()
    nullable: bool = True
    dictionary: Field | None = None  # of the values, if `format` is of their indexes


class Array(NamedTuple):
    """An Arrow array in plain Python: its buffers, the first one None if nothing is null."""

    length: int
    nulls: int
    buffers: tuple[bytes | None, ...]
    children: tuple[Array, ...] = ()


def checked_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """`columns` as a tuple; ConfigError for one that does not exist or is there twice, and if there is none."""
    if isinstance(columns, str):
        raise ConfigError(f"columns={columns!r}: must be a list of names, [{columns!r}] for one column")
    if not isinstance(columns, Iterable):
        raise ConfigError(f"columns={shown(columns)}: must be a list of names, of {', '.join(COLUMN_NAMES)}")
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
    """The error for a requested schema of `count` columns."""
    return ValueError(f"the requested schema has {count} columns, but these records have {len(names)}: {', '.join(names)}")


def stream_given() -> RuntimeError:
    """The error for a stream that is asked for a second time."""
    return RuntimeError("this stream has been handed out already; it cannot be read twice: make another one")
