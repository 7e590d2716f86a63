"""One Spark session per module, whose Python workers find what the tests find."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = """
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
LOG_FILE = """
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %c %m%n%throwable
"""
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """Settings of a module's own session beside those below; a module that needs some has a fixture by this name."""
    return {}


@pytest.fixture
def kafka(cluster: Cluster) -> dict[str, str]:
    """The options of `format("pykafka4")` that say where the brokers are, and what they demand."""
    properties = {"bootstrap.servers": cluster.bootstrap, **cluster.java}
    return {f"kafka.{name}": value for name, value in properties.items()}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    """Two threads, four attempts for each task."""
    from pyspark.sql import SparkSession  # only here: without pyspark this folder's tests are left out, and pytest must still start

    scratch = tmp_path_factory.mktemp("spark")
    quiet, log = scratch / "log4j2.properties", scratch / "spark.log"
    quiet.write_text(LOGGING + LOG_FILE.format(log))
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet} -Dtests.log={log} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
    }
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for name, value in (settings | spark_settings).items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
