"""A batch job from topic to topic on two executors: whatever is killed midway, no row is lost, and none is there twice if exactly once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark
from tests.spark.cluster.faults import FAULTS, Fault
from tests.spark.cluster.jobs import ROWS, fill, in_log, meanwhile, read, sink, source, times, transformed, write
from tests.spark.cluster.tasks import Gate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.lengthy,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
]

DELIVERIES = ("at_least_once", "exactly_once")
MIDWAY = 50  # Arrow batches of a hundred rows: half of a task


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_row_is_lost(
    standalone: StandaloneSpark,
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    tmp_path: Path,
    fault: Fault,
    delivery: str,
) -> None:
    before, after = f"{topic}-in", f"{topic}-out"
    cluster.create_topic(before, 2)
    cluster.create_topic(after, 3)
    fill(cluster, before)
    standalone.wait_executors()
    gate = Gate(tmp_path, MIDWAY)
    frame = transformed(read(spark, source(cluster, before)), gate)
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(write, frame, sink(cluster, after, delivery, topic))
        try:
            meanwhile(job, lambda: len(gate.waiting()) == 2, "both tasks to come to the gate")
            meanwhile(job, lambda: in_log(cluster, after) > 0, "rows before the gate in the topic")
            fault(standalone, cluster, after)
        finally:
            gate.open()
        job.result(timeout=500.0)
    cluster.heal()
    found = times(cluster, after, delivery)
    assert sorted(found) == list(range(ROWS))
    assert found.total() - ROWS <= {"at_least_once": ROWS, "exactly_once": 0}[delivery]
