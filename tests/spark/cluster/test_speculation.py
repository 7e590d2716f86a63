"""A speculative twin: two attempts of one task write at the same time, on two hosts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark
from tests.spark.cluster.jobs import ROWS, fill, meanwhile, read, sink, source, times, transformed, write
from tests.spark.cluster.tasks import Gate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.lengthy,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
]

MIDWAY = 50  # Arrow batches of a hundred rows: half of a task


@pytest.fixture(scope="module")
def spark_settings(standalone: StandaloneSpark) -> dict[str, str]:
    """Spark starts a twin of a task that runs twice as long as the other one."""
    speculation = {"": "true", ".interval": "100ms", ".multiplier": "2", ".quantile": "0.5"}
    return {
        **standalone.settings(),
        **{f"spark.speculation{name}": value for name, value in speculation.items()},
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    }


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_twins_that_both_write(
    standalone: StandaloneSpark, spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path, delivery: str
) -> None:
    before, after = f"{topic}-in", f"{topic}-out"
    cluster.create_topic(before, 2)
    cluster.create_topic(after, 3)
    fill(cluster, before)
    standalone.wait_executors()
    gate = Gate(tmp_path, MIDWAY, partitions=(0,))
    frame = transformed(read(spark, source(cluster, before)), gate)
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(write, frame, sink(cluster, after, delivery, topic))
        try:
            meanwhile(job, lambda: gate.waiting() == {(0, 0), (0, 1)}, "both attempts of the task to come to the gate")
        finally:
            gate.open()
        job.result(timeout=500.0)
    found = times(cluster, after, delivery)
    assert sorted(found) == list(range(ROWS))
    assert found.total() - ROWS <= {"at_least_once": ROWS // 2, "exactly_once": 0}[delivery]
