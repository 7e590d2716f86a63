"""Streaming queries for tests: their options, a sink that collects rows, and what a query said about itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Client, Producer
from pykafka4.client.targets import leader
from pykafka4.messages import DeleteRecordsRequest

PATIENCE_S = 60.0
NOW = {"availableNow": True}


@attrs.define(eq=False)
class Job:
    """A query that may be stopped and started again from its checkpoint. `batches` has the values of each batch that reached its end."""

    spark: SparkSession
    options: dict[str, str]
    checkpoint: Path
    batches: list[tuple[int, list[str]]] = attrs.Factory(list)
    before: Callable[[int], None] = lambda number: None  # called in the sink, with the number of the batch

    def start(self, trigger: dict[str, Any] | None = None, **options: Any) -> StreamingQuery:
        """Start it with further options."""
        reader = self.spark.readStream.format("pykafka4")
        for name, value in (self.options | {name: str(value) for name, value in options.items()}).items():
            reader = reader.option(name, value)
        return (
            reader.load()
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self.collect)
            .trigger(**(trigger or {"processingTime": "0 seconds"}))
            .start()
        )

    def collect(self, frame: DataFrame, number: int) -> None:
        """The sink."""
        self.before(number)
        self.batches.append((number, [bytes(row.value).decode() for row in frame.select("value").collect()]))

    def run(self, **options: Any) -> StreamingQuery:
        """Run it until it has read what there is now."""
        query = self.start(NOW, **options)
        query.awaitTermination(PATIENCE_S)
        assert not query.isActive
        return query

    @property
    def values(self) -> Counter[str]:
        """How often each value came."""
        return Counter(value for _, values in self.batches for value in values)

    @property
    def sizes(self) -> list[int]:
        """The records of each batch, empty ones left out."""
        return [len(values) for _, values in self.batches if values]

    def wait_for(self, count: int, query: StreamingQuery) -> None:
        """Wait until that many values have come."""

        def come() -> bool:
            if not query.isActive and (error := query.exception()) is not None:
                raise AssertionError(error)
            return sum(self.values.values()) >= count

        until(come, PATIENCE_S, lambda: f"{count} values instead of {sum(self.values.values())}")

    def wait_begun(self, query: StreamingQuery) -> None:
        """Wait until the first batch is done: what is written from now on is new to the query."""
        until(lambda: bool(self.batches) or not query.isActive, PATIENCE_S, "the first batch")
        assert query.isActive, query.exception()


def wait_failed(query: StreamingQuery) -> str:
    """Wait until the query has failed, and return why."""
    until(lambda: not query.isActive, PATIENCE_S, "the query to fail")
    error = query.exception()
    assert error is not None, "the query has ended without an error"
    return str(error)


def options(cluster: Cluster, **others: str) -> dict[str, str]:
    """The options of a job that reads from `cluster`."""
    return {"kafka.bootstrap.servers": cluster.bootstrap, **{f"kafka.{name}": value for name, value in cluster.java.items()}, **others}


def produce(cluster: Cluster, topic: str, values: Iterable[object], partition: int | None = None, **producer: Any) -> None:
    """Write these values, and wait for their acknowledgements."""
    with Producer(**cluster.client, **producer) as sender:
        for value in values:
            sender.send(topic, str(value), partition=partition)


def counted(values: Iterable[object]) -> Counter[str]:
    """Each of these values once."""
    return Counter(map(str, values))


def delete_before(cluster: Cluster, topic: str, partition: int, offset: int) -> None:
    """Delete the first records of a log, as retention does."""
    kind = DeleteRecordsRequest.Topic
    rows = [kind(name=topic, partitions=[kind.Partition(partition_index=partition, offset=offset)])]
    with Client(**cluster.client) as client:
        response = client.request(leader((topic, partition)), DeleteRecordsRequest(topics=rows, timeout_ms=10_000))
    assert [part.error_code for row in response.topics for part in row.partitions] == [0]


def offsets(query: StreamingQuery, which: str = "endOffset") -> dict[str, Any]:
    """Offsets in the last progress of a query."""
    progress = query.lastProgress
    assert progress is not None
    return dict(json.loads(progress["sources"][0][which]))
