"""The standalone cluster of the tests: each host runs tasks, an executor that was killed comes back, no process outlives the owner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.spark.cluster import ROOT, StandaloneSpark, alive
from integration.waiting import until
from pykafka4.spark import partition_writer
from tests.spark.cluster.tasks import Gate, host, keyed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.lengthy,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
]

ROWS = 20_000
OWNER = """
import time
from integration.spark.cluster import StandaloneSpark
with StandaloneSpark(hosts=("127.0.0.1",)) as spark:
    print(*[child.pid for child in spark.guarded().status().values()], flush=True)
    time.sleep(600)
"""


def test_each_host_runs_tasks(standalone: StandaloneSpark, spark: SparkSession) -> None:
    standalone.wait_executors()
    found = spark.sparkContext.parallelize(range(40), 40).map(host).collect()
    assert set(found) == set(standalone.hosts)


def test_partition_writer_loses_nothing_when_an_executor_is_killed(
    standalone: StandaloneSpark, spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(topic, 3)
    executors = standalone.wait_executors()
    gate = Gate(tmp_path, after=ROWS // 4)
    rows = spark.sparkContext.parallelize(range(ROWS), 2).mapPartitions(gate).map(keyed)
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(rows.foreachPartition, partition_writer(dict(cluster.client), topic=topic, key="key"))
        until(lambda: len(gate.waiting()) == 2, 300.0, "both tasks to come to the gate")
        until(lambda: sum(end for _, end in cluster.offsets(topic).values()) > 0, 60.0, "rows before the gate in the topic")
        standalone.kill(executors[0])
        gate.open()
        job.result(timeout=180.0)
    times = Counter(int(record.value) for records in cluster.log(topic).values() for record in records)
    assert sorted(times) == list(range(ROWS))
    assert 0 < times.total() - ROWS <= ROWS // 4
    assert len(standalone.wait_executors(2, (executors[0],))) == 2


def test_no_process_outlives_an_owner_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2
        owner.kill()
        until(lambda: not any(map(alive, pids)), 30.0, f"Spark's processes {pids} to end")
