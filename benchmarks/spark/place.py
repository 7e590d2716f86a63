"""Opens one Spark session and one cluster for all contenders. Invariant: the CPU time of a job counts its JVM and its Python workers.

The brokers' CPU time is a separate figure; the driver's Python process only waits and does not count.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil

from benchmarks.places import ClusterPlace
from integration.local.cluster import LocalCluster
from integration.spark.jars import connector_jars

__all__ = ["BROKERS", "CPU", "FEW", "MILLIS", "PYTHON", "RATE", "SIZE", "SparkPlace", "expect", "spark_place"]

RATE, MILLIS = "rows/s", "ms"
JVM = "JVM"
CPU, PYTHON, BROKERS = "CPU s/M rows", "of it Python", "brokers"  # of the client and of the brokers, for a million rows

SIZE, TASKS, PARTITIONS = 100, 8, 4  # bytes of a value, tasks of a write, partitions of a topic
FEW = 8000  # rows of a job that does not count
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}


@attrs.define
class SparkPlace:
    """The session and the brokers of all contenders. `frame` holds `rows` cached rows with one column, `value`; `few` holds FEW rows.

    Each job is measured right after a job of the same kind with few rows: Spark ends Python workers that idle for a minute, and after a
    contender that needs none, the next one would pay for their start.
    """

    spark: Any
    cluster: LocalCluster
    rows: int
    frame: Any
    few: Any
    _jvm: psutil.Process
    _brokers: list[psutil.Process]
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)

    @contextlib.contextmanager
    def topic(self) -> Iterator[str]:
        name = f"bench-{next(self._numbers)}"
        self.cluster.create_topic(name, PARTITIONS, 3, ClusterPlace.configs)
        try:
            yield name
        finally:
            self.cluster.delete_topic(name)

    def filled(self, topic: str) -> int:
        return sum(end for _, end in self.cluster.offsets(topic).values())

    def measure(self, rows: int, job: Callable[[], object]) -> dict[str, float]:
        """Return the cost of `job`, which handles `rows` rows."""
        before, began = self._used(), time.perf_counter()
        job()
        seconds = time.perf_counter() - began
        cpu = {PYTHON: 0.0, BROKERS: 0.0, JVM: 0.0}
        for process, (unit, used) in self._used().items():
            cpu[unit] += (used - before.get(process, (unit, 0.0))[1]) * 1e6 / rows
        return {RATE: rows / seconds, CPU: cpu[JVM] + cpu[PYTHON], PYTHON: cpu[PYTHON], BROKERS: cpu[BROKERS]}

    def _used(self) -> dict[int, tuple[str, float]]:
        """A Python worker that ends during a job was idle, so none of its time is missed."""
        kinds = dict.fromkeys(self._jvm.children(recursive=True), PYTHON) | dict.fromkeys(self._brokers, BROKERS) | {self._jvm: JVM}
        found = {}
        for process, kind in kinds.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[process.pid] = kind, sum(process.cpu_times()[:2])
        return found


@contextlib.contextmanager
def spark_place(scratch: str, rows: int) -> Iterator[SparkPlace]:
    """Start three brokers, and a session of two threads whose Python workers can import the modules of this process."""
    with LocalCluster() as cluster, session(scratch) as spark:
        jvm = the_jvm()
        brokers = [process for process in psutil.Process().children(recursive=True) if process.name() == "java" and process != jvm]
        yield SparkPlace(spark, cluster, rows, cached(spark, rows), cached(spark, FEW), jvm, brokers)


@contextlib.contextmanager
def session(scratch: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    here = str(Path(__file__).resolve().parents[2])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folders = {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    jars = {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in (SETTINGS | folders | jars).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def cached(spark: Any, rows: int) -> Any:
    """Return `rows` rows with a binary column `value` of SIZE bytes, in memory."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.lpad(F.col("id").cast("string"), SIZE, "x").cast("binary").alias("value")
    frame = spark.range(rows, numPartitions=TASKS).select(value).cache()
    expect("rows in memory", frame.count(), rows)
    return frame


def the_jvm() -> psutil.Process:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return psutil.Process(gateway.proc.pid)


def expect(label: str, found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"{label}: found {found}, expected {expected}")
