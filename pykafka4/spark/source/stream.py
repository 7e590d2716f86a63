"""Reads topics as a stream. Rule: the checkpoint alone says where a query is; the driver keeps a client, and nothing that a restart misses.

Spark calls the methods of one instance on the driver, one after the other, and `read` of pickled copies in the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pykafka4.client.client import Client
from pykafka4.spark.source.lag_group import LagGroup
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.lookups import LogLookups
from pykafka4.spark.source.offsets import INITIAL, StreamOffset, by_topic
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.planning import plan
from pykafka4.spark.source.ranges import OffsetRange
from pykafka4.spark.source.schema import check_schema
from pykafka4.spark.source.tracker import Tracker

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
except ImportError:
    raise ImportError(f'streams of format("pykafka4") need pyspark 4.2 or later, this is {pyspark.__version__}; batches work') from None

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaStreamReader"]

TOPICS_AGE_S: Final = 10.0  # without kafka.metadata.max.age.ms
COMMIT_S: Final = 5.0  # the longest wait for a commit to a group
STOP_S: Final = 5.0
PLANNING: Final = ("minPartitions", "maxRecordsPerPartition")


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of `spark.readStream.format("pykafka4")`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options, self.names = options, schema.fieldNames()
        self._query: Query | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A constant: the first call of `latestOffset` looks up where the query starts, and its result keeps that."""
        return INITIAL.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark has no limit of both kinds: with both, `latestOffset` takes the minimum from the options."""
        if (most := self.options.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        least = self.options.min_offsets_per_trigger
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends at the present ends of the logs."""
        self.query.tracker.pin()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself if there is none. ReadAllAvailable overrides the limits of the options."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        least = None if isinstance(limit, ReadAllAvailable) else self.options.min_offsets_per_trigger
        end = self.query.next_end(StreamOffset.of_json(start), most, least)
        return start if end is None else end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs at the last trigger, and how many offsets were not in a batch then."""
        return None if self._query is None else self._query.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of the tasks: a function of both offsets, so that a batch that is run again is divided as before."""
        until = StreamOffset.of_json(end)
        return list(plan(until.ranges(StreamOffset.of_json(start)), *(until.planning.get(name) for name in PLANNING)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        if isinstance(partition, OffsetRange):
            from pykafka4.spark.source.records import read_range  # here: the driver needs no consumer

            yield from read_range(self.options, partition, self.names)

    def stop(self) -> None:
        """Close the client."""
        if self._query is not None:
            self._query.close()
            self._query = None

    @property
    def query(self) -> Query:
        """The driver's part, with the first call that needs it."""
        if self._query is None:
            self._query = Query.of(self.options)
        return self._query

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}


@attrs.define(eq=False)
class Query:
    """What the driver has of a running query."""

    client: Client
    tracker: Tracker
    group: LagGroup | None
    behind: int = 0  # offsets that no batch has yet

    @classmethod
    def of(cls, options: SourceOptions) -> Query:
        """With a client of its own: `close` ends its connections."""
        client = Client(**options.client)
        planning = dict(zip(PLANNING, (options.min_partitions, options.max_records_per_partition), strict=True))
        age_ms = options.client.get("metadata_max_age_ms")
        tracker = Tracker(
            LogLookups(Logs.of(client, options), options),
            fails_on_loss=options.fail_on_data_loss,
            max_delay_s=options.max_trigger_delay,
            planning={name: count for name, count in planning.items() if count is not None},
            topics_age_s=TOPICS_AGE_S if age_ms is None else age_ms / 1000,
        )
        return cls(client, tracker, LagGroup(client, options.commit_group) if options.commit_group else None)

    def next_end(self, start: StreamOffset, most: int | None, least: int | None) -> StreamOffset | None:
        """See Tracker. What lies before `start` was processed: Spark asks for a batch when the one before is done."""
        if self.group is not None:
            self.group.commit(start.positions)
        end = self.tracker.next_end(start, most, least)
        if self.group is not None:
            self.group.finish(COMMIT_S)
        positions = start.positions if end is None else end.positions
        self.behind = sum(last - positions[tp] for tp, last in self.tracker.latest.items())
        return end

    def report(self) -> dict[str, Any]:
        """The ends of the logs, in the form of the JVM connector, and `behind`."""
        return {**by_topic(self.tracker.latest), "@behind": self.behind}

    def close(self) -> None:
        """Close the client."""
        self.client.close(STOP_S)
