"""A batch job from topic to topic on two executors: whatever is killed midway, no row is lost, and none is there twice if exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark
from integration.waiting import until
from tests.spark.cluster.jobs import ROWS, fill, read, sink, source, times, transformed, write
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
MINUTE = 60.0
WAIT = 180.0  # seconds


def python_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    assert standalone.kill_python(standalone.executors()[0]) >= 2, "the writer is not among them"


def executor_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    standalone.kill(standalone.executors()[0])


def broker_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    cluster.kill(cluster.leader(topic))


def brokers_gone_for_a_minute(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    for node in cluster.nodes:
        cluster.kill(node)
    time.sleep(MINUTE)
    cluster.start_all()


def brokers_frozen_for_a_minute(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    for node in cluster.nodes:
        cluster.freeze(node)
    time.sleep(MINUTE)
    for node in cluster.nodes:
        cluster.thaw(node)


FAULTS = [python_killed, executor_killed, broker_killed, brokers_gone_for_a_minute, brokers_frozen_for_a_minute]


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_row_is_lost(
    standalone: StandaloneSpark,
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    tmp_path: Path,
    fault: Callable[[StandaloneSpark, Cluster, str], None],
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
        job.result(timeout=300.0)
    cluster.heal()
    found = times(cluster, after, delivery)
    assert sorted(found) == list(range(ROWS))
    assert found.total() - ROWS <= {"at_least_once": ROWS, "exactly_once": 0}[delivery]


def meanwhile(job: Future[None], condition: Callable[[], bool], what: str) -> None:
    """Wait while the job runs; one that ends before is an error."""

    def holds() -> bool:
        if job.done():
            raise AssertionError(f"the job ended before {what}: {job.exception()}")
        return condition()

    until(holds, WAIT, what)


def in_log(cluster: Cluster, topic: str) -> int:
    """Records and markers in the topic."""
    return sum(end for _, end in cluster.offsets(topic).values())
