"""Reads topics as a DataFrame. Rule: `partitions` fixes both ends of every log once, on the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pykafka4.client.client import Client
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.planning import plan
from pykafka4.spark.source.ranges import OffsetRange, read_range
from pykafka4.spark.source.schema import check_schema

__all__ = ["KafkaBatchReader", "batch_reader"]


class KafkaBatchReader(DataSourceReader):
    """Of `spark.read.format("pykafka4")`. It is pickled with its options, and reads in the workers."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options, self.names = options, schema.fieldNames()

    def partitions(self) -> list[InputPartition]:
        """The ranges to read: what the logs have now."""
        options = self.options
        with Client(**options.client) as client:
            logs = Logs.of(client, options)
            partitions = logs.partitions(options.subscription)
            starts = logs.resolve(options.starting, partitions, options.latest_if_no_such_time)
            ends = logs.resolve(options.ending, partitions, True)
        spans = {tp: (starts[tp], ends[tp]) for tp in partitions}
        return list(plan(spans, options.min_partitions, options.max_records_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range. Spark makes a range without a value of a read without ranges."""
        if isinstance(partition, OffsetRange):
            yield from read_range(self.options, partition, self.names)


def batch_reader(options: SourceOptions, schema: StructType) -> KafkaBatchReader:
    """The reader with or without filter pushdown."""
    return KafkaBatchReader(options, schema)
