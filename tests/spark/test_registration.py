"""Spark imports `pyspark_pykafka4` for every user of any Python data source: it costs nothing, and cannot fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = """
import sys
for name in ("pyarrow", "pykafka4", "attrs", "attr", "numpy", "pandas"):
    sys.modules[name] = None
import pyspark_pykafka4
from pyspark.sql.datasource import DataSource
print(issubclass(pyspark_pykafka4.DefaultSource, DataSource), pyspark_pykafka4.DefaultSource.name())
"""
COST = """
import sys, time
import pyspark.sql.datasource
before = set(sys.modules)
began = time.process_time()
import pyspark_pykafka4
print(time.process_time() - began, sorted(set(sys.modules) - before))
"""
OTHER = """
from pyspark.sql.datasource import DataSource, DataSourceReader

class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "other"
    def schema(self):
        return "n int"
    def reader(self, schema):
        return Reader()
"""
BOTH = """
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print("other", spark.read.format("other").load().collect())
try:
    spark.read.format("pykafka4").load()
except Exception as error:
    print("ours", error)
spark.stop()
"""


def python_run(code: str, *path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=path[0], env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_module_needs_nothing_but_spark() -> None:
    assert python_run(BLOCKED, ROOT).split() == ["True", "pykafka4"]


def test_the_module_costs_less_than_20_ms_and_imports_nothing_else() -> None:
    seconds, imported = python_run(COST, ROOT).split(maxsplit=1)
    assert float(seconds) < 0.020
    assert imported.strip() == "['pyspark_pykafka4']"


@pytest.mark.spark
def test_data_sources_of_others_work_although_ours_cannot(tmp_path: Path) -> None:
    """With a package that cannot be imported: a core for another Python, for example."""
    (tmp_path / "pykafka4").mkdir()
    (tmp_path / "pykafka4" / "__init__.py").write_text("raise ImportError('built for another Python')\n")
    (tmp_path / "pyspark_other.py").write_text(OTHER)
    found = python_run(BOTH, tmp_path, ROOT)
    assert "other [Row(n=7)]" in found
    assert "built for another Python" in found, "the error of ours comes when it is used"


LEAN = """
import sys
import pyspark_pykafka4
from pyspark.sql.types import BinaryType, StructField, StructType
given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
pyspark_pykafka4.DefaultSource(given).schema()
print([name for name in ("pyarrow", "pykafka4.client.client", "pykafka4.producer", "pykafka4.consumer") if name in sys.modules])
values = StructType([StructField("value", BinaryType())])
pyspark_pykafka4.DefaultSource(given).reader(values)
pyspark_pykafka4.DefaultSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}).streamWriter(values, False)
print([name for name in ("pykafka4.producer.session", "pykafka4.consumer.session") if name in sys.modules])
"""


def test_processes_of_the_driver_load_no_producer_and_no_consumer() -> None:
    """Spark starts one for each plan, and for each commit of a micro-batch: what it imports is paid every time."""
    assert python_run(LEAN, ROOT).splitlines() == ["[]", "[]"]
