"""Spark. Rule: each writer gets the same cached rows, the writers take turns, and the cluster has as many records as were written.

`python -m benchmarks.spark` writes a million rows of 100 bytes to the real cluster with foreachPartition on local[2]: with
`partition_writer`, with confluent-kafka, and to nowhere. Prints rows per second and exits with 1 when the bar is missed. The Python
workers are running and connected before anything is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import conditions
from benchmarks.places import ClusterPlace
from benchmarks.plan import in_turns
from benchmarks.spark_writers import WRITERS
from integration.local.cluster import LocalCluster

ROWS, SIZE, TASKS = 1_000_000, 100, 8
BAR = 1.2  # times the rows per second of confluent-kafka
OURS, PEER = "pykafka4", "confluent"


@contextlib.contextmanager
def session(scratch: str) -> Iterator[Any]:
    """Two threads, little memory, and Python workers that find what this process finds."""
    from pyspark.sql import SparkSession

    here = str(Path(__file__).resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def seconds(frame: Any, place: ClusterPlace, label: str, rows: int) -> float:
    """How long the writer takes, to a topic of its own."""
    with place.topic() as topic:
        writer = WRITERS[label](place.cluster.bootstrap, topic)
        began = time.perf_counter()
        frame.foreachPartition(writer)
        took = time.perf_counter() - began
        found, expected = sum(place.filled(topic).values()), rows if label in (OURS, PEER) else 0
        if found != expected:
            raise SystemExit(f"{label}: {expected:,} rows were written, the topic has {found:,}")
    return took


def measure(rounds: int, rows: int) -> dict[str, list[float]]:
    """Rows per second of each writer, by round."""
    from pyspark.sql import functions as F  # noqa: N812

    labels, rates = list(WRITERS), {label: list[float]() for label in WRITERS}
    with tempfile.TemporaryDirectory() as scratch, LocalCluster() as cluster, session(scratch) as spark:
        place = ClusterPlace(cluster, rows)
        frame = (
            spark.range(rows, numPartitions=TASKS)
            .select(F.lpad(F.col("id").cast("string"), SIZE, "x").cast("binary").alias("value"))
            .cache()
        )
        frame.count()
        for label in labels:
            seconds(frame, place, label, rows)
        for label in in_turns(labels, rounds):
            rates[label].append(rows / seconds(frame, place, label, rows))
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in conditions().items()))
    rates = measure(arguments.rounds, arguments.rows)
    medians = {label: statistics.median(of_label) for label, of_label in rates.items()}
    print(f"\nreal cluster: {arguments.rows:,} rows of {SIZE} bytes, local[2], {TASKS} tasks")
    for label, rate in medians.items():
        each = ", ".join(f"{one:,.0f}" for one in rates[label])
        print(f"  {label:26}{rate:12,.0f} rows/s   {rate / medians[PEER]:.2f} x confluent   ({each})")
    met = medians[OURS] >= BAR * medians[PEER]
    print(f"  the bar is {BAR} x: {'met' if met else 'MISSED'}; all counts verified")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
