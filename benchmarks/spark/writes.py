"""Writes the cached rows with each contender, to its own topic. Invariant: the topic then has as many records as there were rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.spark.place import FEW, SparkPlace, expect
from benchmarks.spark.rows import Confluent, nothing
from pykafka4.spark import arrow_writer, partition_writer

__all__ = ["CONFLUENT", "EMPTY", "FORMAT", "JVM", "ROWS", "SAVE", "WRITES", "write"]

FORMAT, JVM = 'format("pykafka4")', 'JVM format("kafka")'
ROWS, CONFLUENT, EMPTY = "partition_writer", "foreachPartition, confluent-kafka", "foreachPartition, nothing"
ARROW = "arrow_writer"


def save(source: str) -> Callable[[Any, str, str], object]:
    """Return a batch write with a data source: the jobs of the two sources differ in one word."""

    def job(frame: Any, bootstrap: str, topic: str) -> object:
        writer = frame.write.format(source).option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        return writer.mode("append").save()

    return job


def arrow(frame: Any, bootstrap: str, topic: str) -> object:
    writer = arrow_writer({"bootstrap_servers": bootstrap}, topic=topic)
    return frame.mapInArrow(writer, writer.schema).collect()


def ours(frame: Any, bootstrap: str, topic: str) -> object:
    return frame.foreachPartition(partition_writer({"bootstrap_servers": bootstrap}, topic=topic))


def confluent(frame: Any, bootstrap: str, topic: str) -> object:
    return frame.foreachPartition(Confluent(bootstrap, topic))


def empty(frame: Any, bootstrap: str, topic: str) -> object:
    return frame.foreachPartition(nothing)


SAVE = {source: save(source) for source in ("pykafka4", "kafka")}
WRITES: Mapping[str, Callable[[Any, str, str], object]] = {
    FORMAT: SAVE["pykafka4"],
    ARROW: arrow,
    JVM: SAVE["kafka"],
    ROWS: ours,
    CONFLUENT: confluent,
    EMPTY: empty,
}


def write(place: SparkPlace, label: str) -> dict[str, float]:
    job, bootstrap = WRITES[label], place.cluster.bootstrap
    with place.topic() as topic:
        job(place.few, bootstrap, topic)
        cost = place.measure(place.rows, lambda: job(place.frame, bootstrap, topic))
        expect(f"records written by {label}", place.filled(topic), 0 if label == EMPTY else FEW + place.rows)
    return cost
