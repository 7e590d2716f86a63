"""Checks the columns of a DataFrame on the driver. Invariant: a job with a wrong column fails before its first task.

As in Spark's JVM connector, a column is found by its exact name, and columns with other names are not written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pykafka4.errors import ConfigError

__all__ = ["check_columns"]


def _text(found: DataType) -> bool:
    return isinstance(found, StringType)


def _bytes(found: DataType) -> bool:
    return isinstance(found, (StringType, BinaryType))


def _headers(found: DataType) -> bool:
    if isinstance(found, MapType):
        return _text(found.keyType) and _bytes(found.valueType)
    pair = found.elementType if isinstance(found, ArrayType) else None
    return isinstance(pair, StructType) and pair.names == ["key", "value"] and _text(pair[0].dataType) and _bytes(pair[1].dataType)


def _timestamp(found: DataType) -> bool:
    return isinstance(found, (TimestampType, LongType))


def _partition(found: DataType) -> bool:
    return isinstance(found, (ByteType, ShortType, IntegerType, LongType))


# By name of the column: (a check of its type, types that pass it, the way to get one of them).
TYPES: Final[dict[str, tuple[Callable[[DataType], bool], str, str]]] = {
    "value": (_bytes, "string or binary", "cast it: cast(value as string), or make JSON of it: to_json(struct(…)) as value"),
    "key": (_bytes, "string or binary", "cast it: cast(key as string) as key"),
    "topic": (_text, "string", "cast it: cast(topic as string) as topic"),
    "headers": (
        _headers,
        "array<struct<key:string,value:binary>> or map<string,binary>",
        "make it of pairs: array(named_struct('key', 'name', 'value', cast('text' as binary))) as headers",
    ),
    "timestamp": (
        _timestamp,
        "timestamp, or bigint milliseconds since 1970",
        "cast it: cast(timestamp as timestamp), or leave it out for the time of sending",
    ),
    "partition": (_partition, "int", "cast it: cast(partition as int), or leave it out to let the key decide"),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ConfigError for a missing, ambiguous or wrongly typed column. `topic` is the option, which overrides the column."""
    _find(schema, "value", "; it holds the values, string or binary")
    if topic is None:
        _find(schema, "topic", ", and there is no option topic; set one of the two")
    for name in TYPES:
        if name in schema.names and not (name == "topic" and topic is not None):
            _check_type(_find(schema, name, ""))


def _find(schema: StructType, name: str, why: str) -> StructField:
    """Raises ConfigError if there is no such column, or several. `why` is part of the text about a missing column."""
    found = [field for field in schema.fields if field.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{len(found)} columns have the name {name!r}; rename all but one")
    near = difflib.get_close_matches(name, [each.lower() for each in schema.names], n=1)
    like = next((each for each in schema.names if near and each.lower() == near[0]), None)
    hint = f"; rename {like!r}, if it is meant" if like else ""
    raise ConfigError(f"there is no column {name!r} among {', '.join(schema.names) or 'no columns'}{why}{hint}")


def _check_type(field: StructField) -> None:
    fits, wanted, way_out = TYPES[field.name]
    if not fits(field.dataType):
        raise ConfigError(f"column {field.name!r} is {field.dataType.simpleString()}; it must be {wanted}; {way_out}")
