"""Reads a topic with each contender. Invariant: each contender has seen every row once, by the number of rows and the sum of their bytes.

Every job reads the same topic, which the JVM connector wrote: no contender reads records that only it understands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.spark.place import SIZE, SparkPlace, expect

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "IN_JVM", "IN_JVM_JVM", "IN_PYTHON", "IN_PYTHON_JVM", "READS", "SCHEMA", "Reads"]

Job = Callable[[Any], tuple[int, int]]


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each task, for mapInArrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
    yield pa.record_batch({"rows": pa.array([rows], pa.int64()), "size": pa.array([size], pa.int64())})


def in_python(frame: Any) -> tuple[int, int]:
    """Return rows and bytes, added up by Python workers."""
    parts = frame.mapInArrow(counted, "rows long, size long").collect()
    return sum(part.rows for part in parts), sum(part.size for part in parts)


def in_jvm(frame: Any) -> tuple[int, int]:
    """Return rows and bytes, added up by Spark itself."""
    row = frame.selectExpr("count(*) AS rows", "sum(length(value)) AS size").first()
    return row.rows, row.size


@attrs.frozen
class Read:
    source: str
    job: Job
    schema: str | None = None
    options: Mapping[str, str] = attrs.field(factory=dict)
    select: tuple[str, ...] = ("*",)

    def run(self, spark: Any, bootstrap: str, topic: str) -> tuple[int, int]:
        reader = spark.read.format(self.source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return self.job(reader.options(**self.options).load().select(*self.select))


OURS, JVM = "pykafka4", "kafka"
IN_PYTHON, IN_PYTHON_JVM = "into Python, pykafka4", "into Python, JVM connector"
SCHEMA, COLUMNS = 'into Python, pykafka4 .schema("value binary")', "into Python, pykafka4 columns=value"
IN_JVM, IN_JVM_JVM = "in the JVM, pykafka4", "in the JVM, JVM connector"
READS: Mapping[str, Read] = {
    IN_PYTHON: Read(OURS, in_python),
    IN_PYTHON_JVM: Read(JVM, in_python),
    SCHEMA: Read(OURS, in_python, schema="value binary"),
    COLUMNS: Read(OURS, in_python, options={"columns": "value"}),
    "into Python, pykafka4 .select(value)": Read(OURS, in_python, select=("value",)),
    "into Python, JVM connector .select(value)": Read(JVM, in_python, select=("value",)),
    IN_JVM: Read(OURS, in_jvm),
    "in the JVM, pykafka4 columns=value": Read(OURS, in_jvm, options={"columns": "value"}),
    IN_JVM_JVM: Read(JVM, in_jvm),
}


@attrs.define
class Reads:
    place: SparkPlace
    topic: str
    few: str

    def read(self, label: str) -> dict[str, float]:
        place, found = self.place, list[tuple[int, int]]()
        spark, bootstrap, job = place.spark, place.cluster.bootstrap, READS[label]
        job.run(spark, bootstrap, self.few)
        cost = place.measure(place.rows, lambda: found.append(job.run(spark, bootstrap, self.topic)))
        expect(f"rows and bytes, {label}", found, [(place.rows, place.rows * SIZE)])
        return cost
