"""Writes the rows of each micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

__all__ = ["KafkaStreamWriter"]


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Of `df.writeStream.format("pykafka4")`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        raise NotImplementedError

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of one task."""
        raise NotImplementedError
