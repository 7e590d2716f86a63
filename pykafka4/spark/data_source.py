"""Makes the readers and writers of `format("pykafka4")`. Invariant: a write imports no reader, and a read imports no writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka4.errors import ConfigError
from pykafka4.spark.options import Use
from pykafka4.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["batch_reader", "batch_writer", "schema", "stream_reader", "stream_writer"]


def schema(options: Mapping[str, str]) -> StructType:
    """Spark calls this for batches and for streams, and does not say which it needs."""
    from pykafka4.spark.source.schema import schema_of

    return schema_of(options)


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    from pykafka4.spark.source.batch import KafkaBatchReader
    from pykafka4.spark.source.options import SourceOptions

    parsed = SourceOptions.parse(options, Use.BATCH_READ)
    if not parsed.filter_pushdown:
        return KafkaBatchReader(parsed, schema)
    from pykafka4.spark.source.pushdown import FilteringReader  # here: PySpark 4.0 has no filter classes

    return FilteringReader(parsed, schema)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """For refused options, or a PySpark that is too old, the returned reader raises the error when the query starts."""
    from pykafka4.spark.source.options import SourceOptions

    try:
        from pykafka4.spark.source.stream import KafkaStreamReader  # raises ImportError if PySpark is too old

        return KafkaStreamReader(SourceOptions.parse(options, Use.STREAM_READ), schema)
    except (ConfigError, ImportError) as error:
        from pykafka4.spark.source.refused import RefusedStreamReader

        return RefusedStreamReader(error)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Raises ConfigError for mode("overwrite"), which sets `overwrite`."""
    from pykafka4.spark.sink.batch import KafkaBatchWriter
    from pykafka4.spark.sink.repeats import find_end
    from pykafka4.spark.sink.schema import check_columns

    if overwrite:
        raise ConfigError('mode("overwrite") would delete the records of a topic, which no writer can do; use mode("append")')
    sink = SinkOptions.parse(options, Use.BATCH_WRITE)
    check_columns(schema, sink.topic)
    return KafkaBatchWriter(sink, find_end(sink))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """`overwrite`: the output mode is "complete". Then each micro-batch has all rows of the result, and all are appended to the topic."""
    from pykafka4.spark.sink.schema import check_columns
    from pykafka4.spark.sink.stream import KafkaStreamWriter

    sink = SinkOptions.parse(options, Use.STREAM_WRITE)
    check_columns(schema, sink.topic)
    return KafkaStreamWriter(sink)
