"""Registers `format("pykafka4")`. When a job uses any Python data source, Spark imports each module `pyspark_*` and registers its
DefaultSource.

Invariant: an import of this module never fails where Spark runs, because an error here would end jobs that do not use Kafka. So the
module imports only Spark's own base class, and each method imports the module that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source that reads and writes Kafka topics, in batches and streams. docs/guide/spark-options.md has its options."""

    @classmethod
    def name(cls) -> str:
        return "pykafka4"

    def schema(self) -> StructType:
        """The columns of a read for which the user gives no `schema`."""
        from pykafka4.spark import data_source

        return data_source.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pykafka4.spark import data_source

        return data_source.batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from pykafka4.spark import data_source

        return data_source.stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pykafka4.spark import data_source

        return data_source.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pykafka4.spark import data_source

        return data_source.stream_writer(self.options, schema, overwrite)
