"""Defines the columns of a read, with the names, order and types of the JVM connector.

Invariant: the Arrow schema of the first batch equals the schema that Spark makes of these columns; otherwise Spark refuses the batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pykafka4.errors import ConfigError
from pykafka4.spark.options import Use, has_stream_options
from pykafka4.spark.source.options import SourceOptions

__all__ = ["FIELDS", "check_schema", "schema_of"]

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
FIELDS: Final = {name: StructField(name, kind) for name, kind in TYPES.items()}


def schema_of(options: Mapping[str, str]) -> StructType:
    """Raises ConfigError for refused options, and for an unknown column."""
    found = _parse(options)
    names = found.columns or [name for name in FIELDS if name != "headers" or found.include_headers]
    for name in names:
        if name not in FIELDS:
            raise ConfigError(f"option columns: there is no column {name!r} among {', '.join(FIELDS)}")
    return StructType([FIELDS[name] for name in names])


def _parse(options: Mapping[str, str]) -> SourceOptions:
    """The options, parsed for a stream if `has_stream_options`; otherwise for a batch, or if that fails, for a stream.

    Spark does not say here which of the two it needs. The reader checks the options again.
    """
    if has_stream_options(options):
        return SourceOptions.parse(options, Use.STREAM_READ)
    try:
        return SourceOptions.parse(options, Use.BATCH_READ)
    except ConfigError as error:
        with contextlib.suppress(ConfigError):
            return SourceOptions.parse(options, Use.STREAM_READ)
        raise error from None


def check_schema(schema: StructType) -> None:
    """Raise ConfigError unless each column of `schema`, which the user may have given, is a column of a read and has its type."""
    for field in schema.fields:
        ours = FIELDS.get(field.name)
        if ours is None:
            raise ConfigError(f"schema: there is no column {field.name!r} among {', '.join(FIELDS)}")
        if field.dataType != ours.dataType:
            is_, wanted = field.dataType.simpleString(), ours.dataType.simpleString()
            raise ConfigError(f"schema: column {field.name!r} is {is_}; it must be {wanted}: cast it after the read")
