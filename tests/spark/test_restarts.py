"""A query from topic to topic whose driver is killed ten times: a million rows, each once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Producer, read_arrow

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[2]
ROWS, KILLS = 1_000_000, 10
SUBMIT = "--driver-memory 1g --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false pyspark-shell"


def fill(cluster: Cluster, topic: str) -> None:
    with Producer(compression_type="lz4", **cluster.client) as producer:
        for begin in range(0, ROWS, 100_000):
            values = pa.array(np.arange(begin, begin + 100_000)).cast(pa.string())
            producer.send_arrow(topic, pa.table({"key": values, "value": values}))


def size(cluster: Cluster, topic: str) -> int:
    """Records and markers in the topic."""
    return sum(end for _, end in cluster.offsets(topic).values())


def test_a_million_rows_through_ten_kills_of_the_driver(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    source, chance = f"{topic}-source", random.Random(33)
    cluster.create_topic(source, 4)
    cluster.create_topic(topic, 4)
    fill(cluster, source)
    variables = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": SUBMIT, "SPARK_LOCAL_IP": "127.0.0.1"}
    job = [sys.executable, "-m", "tests.spark.copy_job", cluster.bootstrap, source, topic, str(tmp_path / "checkpoint")]
    log = tmp_path / "log"

    def start() -> subprocess.Popen[bytes]:
        environment = {**os.environ, **variables, "SPARK_LOCAL_DIRS": str(tmp_path)}
        with log.open("w") as out:
            return subprocess.Popen(job, env=environment, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)

    def start_and_kill(before: int) -> None:
        with start() as query:
            try:
                until(lambda: query.poll() is not None or size(cluster, topic) > before, 300.0, lambda: f"rows; {log.read_text()[-3000:]}")
                time.sleep(chance.uniform(0.0, 1.5))  # amid a micro-batch, between two, or while its end is noted
            finally:
                os.killpg(query.pid, signal.SIGKILL)
        assert query.wait() == -signal.SIGKILL, f"the query ended before it was killed; {log.read_text()[-3000:]}"

    for _ in range(KILLS):
        start_and_kill(size(cluster, topic))
    with start() as query:
        assert query.wait(600.0) == 0, log.read_text()[-3000:]
    with read_arrow(topic, columns=["value"], isolation_level="read_committed", **cluster.client) as batches:
        values = pa.table(batches)["value"].cast(pa.string()).cast(pa.int64())
    assert (len(values), pc.count_distinct(values).as_py(), pc.min(values).as_py(), pc.max(values).as_py()) == (ROWS, ROWS, 0, ROWS - 1)
    assert all(each.open == 0 for each in cluster.committed(topic).values())
