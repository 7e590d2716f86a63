"""Writes the rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

__all__ = ["KafkaBatchWriter"]


class KafkaBatchWriter(DataSourceArrowWriter):
    """Of `df.write.format("pykafka4")`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        raise NotImplementedError

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver the rows of one task."""
        raise NotImplementedError
