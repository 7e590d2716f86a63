"""Reads topics as a stream."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pykafka4.spark.source.options import SourceOptions

__all__ = ["KafkaStreamReader"]


class KafkaStreamReader(DataSourceStreamReader):
    """Of `spark.readStream.format("pykafka4")`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        raise NotImplementedError
