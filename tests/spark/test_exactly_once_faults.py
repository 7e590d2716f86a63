"""`delivery=exactly_once` on real Spark and real brokers: through every fault each row is committed once, as the markers in the log say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import DataStreamWriter

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4.spark import foreach_batch
from tests.spark.faulty import Faulty, shuffled

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]

ROWS = 2_000
ONCE = {"delivery": "exactly_once"}


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """Many Arrow batches for each task; the partitions of a micro-batch are those of the test."""
    return {"spark.sql.execution.arrow.maxRecordsPerBatch": "100", "spark.sql.adaptive.enabled": "false"}


@pytest.fixture
def faulty(spark: SparkSession, kafka: dict[str, str], topic: str, cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """Options of the format `faulty`, for a topic of two partitions."""
    spark.dataSource.register(Faulty)
    cluster.create_topic(topic, 2)
    return {**kafka, "topic": topic, "fault.folder": str(tmp_path), "fault.kind": "none"}


def numbered(spark: SparkSession, rows: int = ROWS, partitions: int = 2) -> DataFrame:
    """Rows 0 to `rows`; the rows of each partition of Spark go to the partition of the topic with its number (of 0 and 1)."""
    frame = spark.range(0, rows, 1, partitions)
    return frame.select(F.col("id").cast("string").alias("value"), (F.spark_partition_id() % 2).cast("int").alias("partition"))


def save(frame: DataFrame, options: dict[str, str], form: str = "faulty", **more: str) -> None:
    frame.write.format(form).options(**options | more).mode("append").save()


def times(cluster: Cluster, topic: str) -> Counter[int]:
    """How often each number is committed; no transaction is open, which would hold readers back."""
    found = cluster.committed(topic)
    assert [each.open for each in found.values()] == [0] * len(found)
    return Counter(int(record.value or b"") for each in found.values() for record in each.records)


def once(rows: int = ROWS, start: int = 0) -> Counter[int]:
    return Counter(range(start, rows))


def save_amid(frame: DataFrame, options: dict[str, str], outage: Callable[[], None]) -> None:
    """Write, with an outage when rows of the transaction are in the log and its task waits. Spark finds the format in this thread only."""
    folder = Path(options["fault.folder"])

    def happen() -> None:
        until(lambda: (folder / "happened").exists(), 150.0, "rows of a transaction in the log")
        outage()

    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(happen)
        save(frame, options, **ONCE, **{"fault.kind": "pause", "idempotencyKey": "k"})
        outcome.result(150.0)


class Query:
    """Text files, a micro-batch each, to the topic; a checkpoint that a test can set back."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.files, self.checkpoint = spark, folder / "files", folder / "checkpoint"
        self.files.mkdir()

    def add(self, numbers: range) -> None:
        hidden = self.files / f".{numbers.start}"
        hidden.write_text("".join(f"{number}\n" for number in numbers))
        hidden.rename(self.files / f"{numbers.start:06}.txt")

    def frame(self) -> DataFrame:
        """In two partitions, of which the rows come in another order each time."""
        lines = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.files))
        halves = lines.withColumn("partition", (F.col("value").cast("int") % 2)).repartitionById(2, "partition")
        return halves.mapInArrow(shuffled, halves.schema)

    def run(self, writer: DataStreamWriter) -> None:
        writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    def lose_commit(self, number: int) -> None:
        """As after a crash of the driver between the end of a micro-batch and the note of it."""
        for path in (self.checkpoint / "commits").glob(f"*{number}*"):
            path.unlink()


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


@pytest.mark.main_job
def test_a_python_worker_is_killed_amid_its_rows(spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]) -> None:
    save(numbered(spark), faulty, **ONCE, **{"fault.kind": "kill", "idempotencyKey": "k"})
    assert (Path(faulty["fault.folder"]) / "happened").exists()
    assert times(cluster, topic) == once()
    assert sum(each.aborted for each in cluster.committed(topic).values()) > 0


def test_the_same_at_least_once_writes_again_what_the_killed_worker_had_sent(
    spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    save(numbered(spark), faulty, **{"fault.kind": "kill"})
    found = Counter(int(record.value) for records in cluster.log(topic).values() for record in records)
    assert set(found) == set(range(ROWS))
    assert 0 < found.total() - ROWS <= ROWS // 2


@pytest.mark.main_job
def test_a_job_with_a_key_that_runs_twice_is_written_once(
    spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    for partitions in (2, 2, 3):
        save(numbered(spark, partitions=partitions), faulty, **ONCE, idempotencyKey="k")
    assert times(cluster, topic) == once()
    save(numbered(spark), faulty, **ONCE, idempotencyKey="another")
    assert times(cluster, topic) == once() + once()


def test_a_job_that_failed_half_way_is_completed_by_its_repetition(
    spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    with pytest.raises(PySparkException, match="the fault of the test"):
        save(numbered(spark), faulty, **ONCE, **{"fault.kind": "fail", "idempotencyKey": "k"})
    assert times(cluster, topic) == once(ROWS // 2)
    save(numbered(spark), faulty, **ONCE, idempotencyKey="k")
    assert times(cluster, topic) == once()


def test_its_repetition_with_other_partitions_is_an_error(spark: SparkSession, topic: str, faulty: dict[str, str]) -> None:
    with pytest.raises(PySparkException, match="the fault of the test"):
        save(numbered(spark), faulty, **ONCE, **{"fault.kind": "fail", "idempotencyKey": "k"})
    with pytest.raises(PySparkException, match="rows committed before: 1000, rows now: 500"):
        save(numbered(spark, partitions=4), faulty, **ONCE, idempotencyKey="k")


def test_a_batch_job_without_a_key_is_refused(spark: SparkSession, topic: str, faulty: dict[str, str]) -> None:
    with pytest.raises(PySparkException, match="needs the option idempotencyKey"):
        save(numbered(spark, 10), faulty, **ONCE)


@pytest.mark.main_job
def test_a_micro_batch_that_is_repeated_with_rows_in_another_order_is_skipped(
    query: Query, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    query.add(range(300))
    query.add(range(300, 600))
    query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE))
    query.lose_commit(1)
    query.add(range(600, 900))
    query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE))
    assert times(cluster, topic) == once(900)


def test_the_commit_of_a_micro_batch_fails_on_the_driver(query: Query, cluster: Cluster, topic: str, faulty: dict[str, str]) -> None:
    query.add(range(300))
    with pytest.raises(PySparkException, match="the fault of the test"):
        query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE | {"fault.kind": "commit"}))
    assert times(cluster, topic) == once(300)
    query.add(range(300, 600))
    query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE))
    assert times(cluster, topic) == once(600)


def test_a_query_that_failed_amid_a_micro_batch_goes_on_where_it_was(
    query: Query, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    query.add(range(ROWS))
    with pytest.raises(PySparkException, match="the fault of the test"):
        query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE | {"fault.kind": "fail"}))
    assert times(cluster, topic) == Counter(range(0, ROWS, 2))
    query.add(range(ROWS, ROWS + 100))
    query.run(query.frame().writeStream.format("faulty").options(**faulty | ONCE))
    assert times(cluster, topic) == once(ROWS + 100)


def test_foreach_batch_skips_a_micro_batch_that_is_repeated(query: Query, cluster: Cluster, topic: str, faulty: dict[str, str]) -> None:
    first = foreach_batch(dict(cluster.client), topic=topic, delivery="exactly_once")
    second = foreach_batch(dict(cluster.client), topic=topic, delivery="exactly_once", name="second")

    def both(batch: DataFrame, number: int) -> None:
        first(batch, number)
        second(batch, number)

    query.add(range(100))
    query.add(range(100, 200))
    query.run(query.frame().writeStream.foreachBatch(both))
    query.lose_commit(1)
    query.add(range(200, 300))
    query.run(query.frame().writeStream.foreachBatch(both))
    assert times(cluster, topic) == once(300) + once(300)


def test_the_format_within_foreach_batch(query: Query, cluster: Cluster, topic: str, faulty: dict[str, str]) -> None:
    def write(batch: DataFrame, number: int) -> None:
        save(batch, faulty, **ONCE)

    query.add(range(100))
    query.run(query.frame().writeStream.foreachBatch(write))
    query.lose_commit(0)
    query.add(range(100, 200))
    query.run(query.frame().writeStream.foreachBatch(write))
    assert times(cluster, topic) == once(200)


def test_a_broker_is_killed_amid_a_transaction(spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]) -> None:
    victim = cluster.leader(topic, 1)

    def outage() -> None:
        cluster.kill(victim)
        (Path(faulty["fault.folder"]) / "go").touch()

    save_amid(numbered(spark), faulty, outage)
    cluster.start(victim)
    assert times(cluster, topic) == once()


@pytest.mark.lengthy
@pytest.mark.timeout(600)
def test_all_brokers_are_down_for_a_minute_amid_a_transaction(
    spark: SparkSession, cluster: Cluster, topic: str, faulty: dict[str, str]
) -> None:
    def outage() -> None:
        for node in (1, 2, 3):
            cluster.kill(node)
        (Path(faulty["fault.folder"]) / "go").touch()
        time.sleep(60.0)
        cluster.start_all()

    save_amid(numbered(spark), faulty, outage)
    assert times(cluster, topic) == once()
