"""Reads topics as a DataFrame. Invariant: `partitions` fixes both ends of each partition's read, on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pykafka4.client.client import Client
from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition
from pykafka4.spark.source.logs import Logs, Topic
from pykafka4.spark.source.losses import lose
from pykafka4.spark.source.options import SourceOptions
from pykafka4.spark.source.planning import plan
from pykafka4.spark.source.pruning import ReadLimits
from pykafka4.spark.source.ranges import OffsetRange
from pykafka4.spark.source.schema import check_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaBatchReader"]

Spans = dict[TopicPartition, tuple[int, int]]
Offsets = Mapping[TopicPartition, int]


class KafkaBatchReader(DataSourceReader):
    """The reader of `spark.read.format("pykafka4")`. Spark pickles it with its options, and calls `read` in the workers."""

    limits = ReadLimits()

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options, self.names = options, schema.fieldNames()

    def partitions(self) -> list[InputPartition]:
        """The ranges of the tasks, at most up to the current ends of the logs. Raises ConfigError, DataLost, KafkaError."""
        options = self.options
        with Client(**options.client) as client:
            logs = Logs.of(client, options)
            # Topics are looked up before offsets. If a topic is created again in between, the id is the old one, and the task notices that.
            # In the other order, offsets of the old topic would go with the id of the new one.
            topics = logs.topics(options.subscription)
            spans = find_spans(logs, topics.values(), options, self.limits)
        ids = {topic.name: topic.id for topic in topics.values()}
        return list(plan(spans, options.min_partitions, options.max_records_per_partition, ids))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """For a read without ranges, Spark passes a partition that is not an OffsetRange."""
        if isinstance(partition, OffsetRange):
            from pykafka4.spark.source.records import read_range  # here: the driver needs no consumer

            yield from read_range(self.options, partition, self.names)


def find_spans(logs: Logs, topics: Iterable[Topic], options: SourceOptions, limits: ReadLimits) -> Spans:
    """Ends are looked up after starts: otherwise new records could put a start after its end."""
    partitions = sorted(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)
    starts = logs.resolve(options.starting, partitions, options.latest_if_no_such_time)
    ends = logs.resolve(options.ending, partitions, latest_if_no_such_time=True)
    check_order(options, starts, ends)
    wanted = [tp for tp in partitions if limits.has(tp)]
    spans = clip({tp: (starts[tp], ends[tp]) for tp in wanted}, logs.earliest(wanted), logs.latest(wanted), options)
    since = dict.fromkeys(wanted, 0) if limits.since_ms is None else logs.since(wanted, limits.since_ms)
    return {tp: limits.span(*span, since[tp]) for tp, span in spans.items()}


def check_order(options: SourceOptions, starts: Offsets, ends: Offsets) -> None:
    """Raise ConfigError for a partition whose end is before its start, if the start is chosen (see `ReadEnd.is_chosen`)."""
    for tp, start in starts.items():
        if start > ends[tp] and options.starting.is_chosen:
            raise ConfigError(
                f"options {options.starting.option} and {options.ending.option}: {tp} would be read from {start} to {ends[tp]}, "
                "and the end must not be before the start"
            )


def clip(spans: Spans, earliest: Offsets, latest: Offsets, options: SourceOptions) -> Spans:
    """Cut the ranges to the logs. Raises DataLost for missing offsets, or logs a warning, as failOnDataLoss says."""
    found: Spans = {}
    for tp, (start, until) in spans.items():
        wanted = f"{tp} is to be read from {start} to {until}"
        if start < min(earliest[tp], until):
            lose(options, f"{wanted}, and its log begins at {earliest[tp]}")
        if until > latest[tp]:
            lose(options, f"{wanted}, and its log ends at {latest[tp]}")
        end = min(until, latest[tp])
        found[tp] = min(max(start, earliest[tp]), end), end
    return found
