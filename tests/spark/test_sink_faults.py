"""The sink while brokers die, freeze and come back: nothing lost, failures in time with their cause, memory bounded, producers shared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4.spark import arrow_writer
from tests.spark.tasks import BatchesAround, FrozenObjects, NotedBatches

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """Batches of a hundred rows between JVM and Python: rows arrive in the writer while the source still waits."""
    return {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}


def write(frame: DataFrame, kafka: dict[str, str], **options: str) -> None:
    """Append the rows of `frame`."""
    frame.write.format("pykafka4").mode("append").options(**kafka, **options).save()


def around(spark: SparkSession, rows: BatchesAround) -> DataFrame:
    """The rows, of one partition."""
    return spark.range(0, 1, 1, 1).mapInArrow(rows, "key string, value string")


def begun(spark: SparkSession, work: Callable[[], object]) -> Future[object]:
    """The result of a job that runs beside the test. In a new thread Spark finds no Python data source until the thread has a session."""

    def run() -> object:
        spark.createDataFrame([], "number int")
        return work()

    thread = ThreadPoolExecutor(1)
    job = thread.submit(run)
    thread.shutdown(wait=False)
    return job


def numbers(cluster: Cluster, topic: str) -> Counter[int]:
    """How often each numbered row is in the topic."""
    return Counter(int(record.value[:10]) for records in cluster.log(topic).values() for record in records)


def written(cluster: Cluster, topic: str) -> int:
    return sum(end for _, end in cluster.offsets(topic).values())


@pytest.mark.main_job
def test_a_leader_killed_in_the_middle_of_a_task_costs_no_row_and_repeats_none(
    spark, cluster: Cluster, topic: str, kafka, tmp_path
) -> None:
    cluster.create_topic(topic, 3)
    rows = BatchesAround(tmp_path / "killed", before=20, after=20)
    job = begun(spark, lambda: write(around(spark, rows), kafka, topic=topic))
    until(lambda: job.done() or written(cluster, topic) > 0, 240.0, "rows before the kill")
    cluster.kill(cluster.leader(topic, 0))
    rows.event.touch()
    job.result(timeout=240.0)
    cluster.start_all()
    cluster.wait_full_isr()
    assert numbers(cluster, topic) == Counter(range(4000))


def test_all_brokers_gone_the_task_fails_in_time_with_topic_partition_and_cause(spark, cluster: Cluster, topic: str, tmp_path) -> None:
    cluster.create_topic(topic, 1)
    rows = BatchesAround(tmp_path / "gone", before=20, after=20)
    writer = NotedBatches(arrow_writer({**cluster.client, "delivery_timeout_ms": 2000}, topic=topic), rows.event)
    job = begun(spark, lambda: around(spark, rows).mapInArrow(writer, writer.writer.schema).collect())
    until(lambda: job.done() or written(cluster, topic) > 0, 240.0, "rows before the outage")
    for node in cluster.nodes:
        cluster.kill(node)
    rows.event.touch()
    with pytest.raises(PySparkException, match=rf"DeliveryFailed: {topic}"):
        job.result(timeout=240.0)
    cluster.start_all()
    cluster.wait_full_isr()
    attempts = [(tmp_path / f"attempt-{number}").read_text().splitlines() for number in range(4)]
    for seconds, _ in attempts:
        assert float(seconds) < 2.0 + 20.0, "delivery_timeout_ms, and time for a busy machine; the default would be 120 s"
    assert attempts[0][1].startswith(f"DeliveryFailed: {topic}-0: "), attempts[0][1]
    assert "(" in attempts[0][1], f"no cause: {attempts[0][1]}"


def test_frozen_brokers_stop_the_source_after_what_the_buffer_holds(spark, cluster: Cluster, topic: str, kafka, tmp_path: Path) -> None:
    cluster.create_topic(topic, 3)
    rows = BatchesAround(tmp_path / "frozen", before=20, after=480)
    job = begun(spark, lambda: write(around(spark, rows), {**kafka, "kafka.buffer.memory": str(4 * 1024 * 1024)}, topic=topic))
    until(lambda: job.done() or written(cluster, topic) > 0, 240.0, "rows before the freeze")
    for node in cluster.nodes:
        cluster.freeze(node)
    rows.event.touch()
    taken = [-1, 0]
    while taken[-1] != taken[-2]:
        time.sleep(3.0)
        taken.append(int(rows.taken.read_text()))
    for node in cluster.nodes:
        cluster.thaw(node)
    job.result(timeout=240.0)
    assert 2000 < taken[-1] < 20_000, f"a buffer of 4 MiB, and {taken} rows of a kilobyte were taken"
    assert numbers(cluster, topic) == Counter(range(50_000))


def test_forty_tasks_make_at_most_one_producer_per_worker(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 3)
    write(spark.range(0, 400, 1, 40).select(F.col("id").cast("string").alias("value")), kafka, topic=topic)
    found = [record for records in cluster.log(topic).values() for record in records]
    assert sorted(int(record.value) for record in found) == list(range(400))
    assert len({record.producer_id for record in found}) <= 4, "two tasks at a time, and workers that Spark started meanwhile"


def test_the_garbage_collections_between_tasks_pass_over_the_modules(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    rows = spark.range(10).select(F.col("id").cast("string").alias("value")).coalesce(1)
    (found,) = rows.mapInArrow(FrozenObjects(arrow_writer(cluster.client, topic=topic)), "objects bigint").collect()
    assert found.objects > 10_000


def test_a_failed_task_of_a_job_leaves_nothing_to_the_next_job(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 1)
    numbers = F.col("id").cast("string").alias("value")
    with pytest.raises(PySparkException, match="partition of row 0: -1 must be from 0"):
        write(spark.range(0, 10, 1, 2).select(numbers, F.lit(-1).alias("partition")), kafka, topic=topic)
    write(spark.range(0, 10, 1, 2).select(numbers), kafka, topic=topic)
    assert sorted(int(r.value) for r in cluster.log(topic)[0]) == list(range(10))


@pytest.mark.main_job
def test_arrow_writer_returns_how_many_rows_each_task_has_delivered(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    writer = arrow_writer(dict(cluster.client), topic=topic, value="payload", key="id")
    frame = (
        spark.range(0, 1000, 1, 4)
        .where("id < 250 or id >= 500")
        .select(F.col("id").cast("string"), F.col("id").cast("string").alias("payload"))
    )
    assert sorted(row.sent for row in frame.mapInArrow(writer, writer.schema).collect()) == [0, 250, 250, 250]
    found = sorted((int(r.key), int(r.value)) for records in cluster.log(topic).values() for r in records)
    assert found == [(n, n) for n in range(1000) if not 250 <= n < 500]


def test_arrow_writer_names_the_column_and_its_argument(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    config = dict(cluster.client)
    for columns, message in {
        ("id as value",): "the column 'value' .value=. is int64; it must be",
        ("'x' as key",): "there is no column 'value'",
    }.items():
        with pytest.raises(PySparkException, match=message):
            spark.range(1).selectExpr(*columns).mapInArrow(arrow_writer(config, topic=topic), "sent bigint").collect()
