"""`format("pykafka4")`: Spark imports every module `pyspark_*` when any Python data source is used, and registers its DefaultSource.

So an error in this module would end jobs that have nothing to do with Kafka: it imports nothing but Spark's own base class, and each method
imports what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Topics of Kafka as tables: batch and stream, reading and writing. docs/guide/spark-options.md has its options."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "pykafka4"

    def schema(self) -> StructType:
        """The columns of a read without a `schema` of the user's."""
        from pykafka4.spark import data_source

        return data_source.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of `spark.read`."""
        from pykafka4.spark import data_source

        return data_source.batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Of `spark.readStream`."""
        from pykafka4.spark import data_source

        return data_source.stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Of `df.write`."""
        from pykafka4.spark import data_source

        return data_source.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Of `df.writeStream`."""
        from pykafka4.spark import data_source

        return data_source.stream_writer(self.options, schema, overwrite)
