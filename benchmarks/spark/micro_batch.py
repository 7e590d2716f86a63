"""Runs a query from Kafka to Kafka, a thousand rows a micro-batch. Invariant: the target has as many records as the source had."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import attrs

from benchmarks.spark.place import CPU, MILLIS, PYTHON, SparkPlace, expect

__all__ = ["MICRO_BATCH", "MICRO_BATCHES", "MICRO_BATCH_JVM", "MicroBatches"]

MICRO_BATCH, MICRO_BATCH_JVM = "micro-batch, pykafka4", "micro-batch, JVM connector"
MICRO_BATCHES = {MICRO_BATCH: "pykafka4", MICRO_BATCH_JVM: "kafka"}
ROWS, COUNT, WARM = 1000, 15, 3  # rows of a micro-batch; micro-batches of a query; those at its beginning that do not count


@attrs.define
class MicroBatches:
    """The topic that all queries read; checkpoints are made in `scratch`."""

    place: SparkPlace
    topic: str
    scratch: str
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count)

    def fill(self) -> None:
        frame = self.place.spark.range(ROWS * COUNT).selectExpr("cast(cast(id as string) as binary) AS key", "cast('x' as binary) AS value")
        frame.write.format("kafka").option("kafka.bootstrap.servers", self.place.cluster.bootstrap).option("topic", self.topic).save()
        expect("records for the micro-batches", self.place.filled(self.topic), ROWS * COUNT)

    def run(self, label: str) -> dict[str, float]:
        place, took = self.place, list[float]()
        with place.topic() as target:
            cost = place.measure(ROWS * COUNT, lambda: took.extend(durations(self.query(MICRO_BATCHES[label], target))))
            expect(f"records of {label}", place.filled(target), ROWS * COUNT)
        return {
            MILLIS: statistics.median(took[WARM:]),
            "CPU ms": cost[CPU] / 1e6 * ROWS * 1e3,
            "of it Python": cost[PYTHON] / 1e6 * ROWS * 1e3,
        }

    def query(self, source: str, target: str) -> Any:
        """The query ends with the last row."""
        bootstrap = self.place.cluster.bootstrap
        rows = self.place.spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", self.topic)
        rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS).load().select("key", "value")
        writer = rows.writeStream.format(source).option("kafka.bootstrap.servers", bootstrap).option("topic", target)
        writer = writer.option("checkpointLocation", f"{self.scratch}/checkpoint-{next(self._numbers)}")
        return writer.trigger(availableNow=True).start()


def durations(query: Any) -> list[float]:
    query.awaitTermination()
    found = [progress for progress in query.recentProgress if progress.numInputRows]
    expect("the largest micro-batch is of about 1,000 rows", max(progress.numInputRows for progress in found) <= ROWS + 4, True)
    return [float(progress.batchDuration) for progress in found]
