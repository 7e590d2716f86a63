"""A query that is stopped in the middle again and again: Kafka to Kafka with delivery=exactly_once, each row once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Producer, read_arrow
from tests.spark.source.jobs import offsets, options

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.lengthy]

ROWS = int(os.environ.get("PYKAFKA4_RESTART_ROWS", "40000"))  # a million takes some minutes
RESTARTS = 10
STEP = ROWS // 40  # rows of one send_arrow


def write(cluster: Cluster, topic: str, rows: int, stop: threading.Event) -> None:
    """Write the numbers from 0 on."""
    with Producer(**cluster.client, partitioner="murmur2") as producer:
        for first in range(0, rows, STEP):
            numbers = pa.array(range(first, first + STEP)).cast(pa.string())
            producer.send_arrow(topic, pa.table({"key": numbers, "value": numbers}))
            producer.flush()
            if stop.wait(0.01):
                return


def position(query: StreamingQuery, topic: str) -> int:
    """The sum of the offsets at the end of the last batch."""
    return 0 if query.lastProgress is None else sum(offsets(query)[topic].values())


def at_least(query: StreamingQuery, topic: str, rows: int) -> Callable[[], bool]:
    """Whether the query has come that far."""

    def far() -> bool:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        return position(query, topic) >= rows

    return far


@pytest.mark.timeout(1800)
def test_a_query_that_is_stopped_ten_times_writes_each_row_once(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    output = f"{topic}-out"
    cluster.create_topic(topic, 3)
    cluster.create_topic(output, 2)

    def start(**trigger: Any) -> StreamingQuery:
        reader = spark.readStream.format("pykafka4").options(**options(cluster, subscribe=topic, startingOffsets="earliest"))
        reader = reader.option("maxOffsetsPerTrigger", ROWS // 40).option("kafka.metadata.max.age.ms", 500)
        writer = reader.load().select("key", "value").writeStream.format("pykafka4").options(**options(cluster, topic=output))
        writer = writer.option("delivery", "exactly_once").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**trigger).start()

    stop = threading.Event()
    writing = threading.Thread(target=write, args=(cluster, topic, ROWS, stop))
    writing.start()
    try:
        for number in range(RESTARTS):
            query = start(processingTime="0 seconds")
            until(at_least(query, topic, ROWS * (number + 1) // (RESTARTS + 1)), 300, f"the query to go on after {number} restarts")
            query.stop()  # in the middle of the batch after
            if number == RESTARTS // 2:
                cluster.add_partitions(topic, 4)
        writing.join()
    finally:
        stop.set()
        writing.join()
    query = start(availableNow=True)
    query.awaitTermination(600)
    assert query.exception() is None
    values = pa.table(read_arrow(output, isolation_level="read_committed", **cluster.client))["value"].cast(pa.string()).cast(pa.int64())
    assert len(values) == ROWS
    assert values.take(pc.sort_indices(values)).to_pylist() == list(range(ROWS))
