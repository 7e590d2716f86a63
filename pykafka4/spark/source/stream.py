"""Reads topics as a stream. Invariant: the checkpoint has the position of a query; the driver keeps nothing that a restart needs.

Spark calls `read` of pickled readers in the workers. It calls the other methods of one instance on the driver, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pykafka4.spark.source.offsets import INITIAL, PLANNING, StreamOffset
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.planning import plan
from pykafka4.spark.source.ranges import OffsetRange
from pykafka4.spark.source.schema import check_schema

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
except ImportError:
    raise ImportError(f'streams of format("pykafka4") need pyspark 4.2 or later, this is {pyspark.__version__}; batches work') from None

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka4.spark.source.query import DriverQuery

__all__ = ["KafkaStreamReader"]


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream.format("pykafka4")`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options, self.names = options, schema.fieldNames()
        self._query: DriverQuery | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A constant, because Spark calls this again to repeat the first batch. `latestOffset` returns the starts with the first end."""
        return INITIAL.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a trigger. PySpark has no limit with a maximum and a minimum: `latestOffset` gets the minimum from the options."""
        if (most := self.options.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        least = self.options.min_offsets_per_trigger
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Have the query end at the current ends of the logs."""
        self.query.tracker.pin()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself if there is no batch. ReadAllAvailable overrides the limits of the options."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        least = None if isinstance(limit, ReadAllAvailable) else self.options.min_offsets_per_trigger
        end = self.query.next_end(StreamOffset.of_json(start), most, least)
        return start if end is None else end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs at the last trigger, and the number of offsets that were in no batch then."""
        return None if self._query is None else self._query.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of the tasks: a function of both offsets, so that a repeated batch is divided as before."""
        until = StreamOffset.of_json(end)
        wanted, most = (until.planning.get(name) for name in PLANNING)
        return list(plan(until.ranges(StreamOffset.of_json(start)), wanted, most, until.topic_ids))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OffsetRange):
            from pykafka4.spark.source.records import read_range  # here: the driver needs no consumer

            yield from read_range(self.options, partition, self.names)

    def stop(self) -> None:
        if self._query is not None:
            self._query.close()
            self._query = None

    @property
    def query(self) -> DriverQuery:
        """The driver's part of the query. The first access creates it, because most processes with a reader need none."""
        if self._query is None:
            from pykafka4.spark.source.query import DriverQuery

            self._query = DriverQuery.of(self.options)
        return self._query

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}  # only configuration travels to workers: the query has a client
