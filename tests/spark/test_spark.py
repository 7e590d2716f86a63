"""On real Spark and real brokers: one producer per worker, nothing lost, failures with their cause, nothing left for the next task."""

from __future__ import annotations

import os
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Client, Consumer, Producer
from pykafka4.spark import partition_writer
from tests.spark.tasks import DieMidway, FirstOneThenTheOther, Noted, RowsAroundAnOutage, with_pid

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]


@pytest.fixture
def config(cluster: Cluster) -> dict[str, object]:
    return {**cluster.client}


@pytest.fixture(scope="module")
def nobody() -> dict[str, object]:
    """A configuration whose only broker does not exist."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return {"bootstrap_servers": f"127.0.0.1:{free.getsockname()[1]}", "delivery_timeout_ms": 2000}


def values(cluster: Cluster, topic: str) -> list[str]:
    """Everything in the topic, partition by partition."""
    return [record.value.decode() for records in cluster.log(topic).values() for record in records]


def test_forty_tasks_make_at_most_one_producer_per_worker(spark: SparkSession, cluster: Cluster, topic: str, config) -> None:
    cluster.create_topic(topic, 3)
    rows = spark.sparkContext.parallelize(range(400), 40).map(with_pid)
    rows.foreachPartition(partition_writer(config, topic=topic))
    found = [record for records in cluster.log(topic).values() for record in records]
    producers = {(record.value, record.producer_id) for record in found}
    workers = {record.value for record in found}
    assert len(found) == 400
    assert len(workers) < 40, "no worker served two tasks: nothing was tested"
    assert len(producers) == len(workers)


@pytest.mark.main_job
def test_every_column_reaches_the_log_as_it_was(spark: SparkSession, cluster: Cluster, topic: str, config) -> None:
    cluster.create_topic(topic, 3)
    frame = spark.createDataFrame([Row(number=n) for n in range(30)]).select(
        F.when(F.col("number") % 5 > 0, F.concat(F.lit("key "), F.col("number"))).alias("id"),
        F.when(F.col("number") % 7 > 0, F.encode(F.concat(F.lit("ü "), F.col("number")), "utf-8")).alias("payload"),
        F.array(
            F.struct(F.lit("name").alias("key"), F.encode(F.lit("one"), "utf-8").alias("value")),
            F.struct(F.lit("name").alias("key"), F.lit(None).cast("binary").alias("value")),
        ).alias("extra"),
        (F.col("number") + 1_356_998_400_000).alias("at"),
        (F.col("number") % 3).cast("int").alias("where"),
    )
    writer = partition_writer(config, topic=topic, key="id", value="payload", headers="extra", timestamp="at", partition="where")
    frame.foreachPartition(writer)
    found = {r.timestamp - 1_356_998_400_000: (partition, r) for partition, records in cluster.log(topic).items() for r in records}
    assert sorted(found) == list(range(30))
    for number, (partition, record) in found.items():
        assert partition == number % 3
        assert record.key == (f"key {number}".encode() if number % 5 else None)
        assert record.value == (f"ü {number}".encode() if number % 7 else None)
        assert [tuple(header) for header in record.headers] == [("name", b"one"), ("name", None)]


@pytest.mark.main_job
def test_a_worker_killed_midway_loses_nothing_and_repeats_at_most_what_it_had_taken(spark, cluster: Cluster, topic: str, config) -> None:
    cluster.create_topic(topic, 3)
    rows = spark.sparkContext.parallelize(range(6000), 3).mapPartitionsWithIndex(DieMidway(partition=1, after=1500))
    rows.foreachPartition(partition_writer(config, topic=topic, key="key"))
    times = Counter(values(cluster, topic))
    assert sorted(map(int, times)) == list(range(6000))
    assert 0 < times.total() - 6000 <= 1500


def test_brokers_gone_the_task_fails_in_time_and_names_topic_partition_and_cause(
    spark, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(topic, 1)
    gone = tmp_path / "gone"
    config = {**cluster.client, "delivery_timeout_ms": 2000}
    rows = spark.sparkContext.parallelize([0], 1).mapPartitions(RowsAroundAnOutage(gone))
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(rows.foreachPartition, Noted(partition_writer(config, topic=topic), gone))
        until(lambda: cluster.offsets(topic)[0][1] == 100, 60.0, "the rows before the outage")
        for node in cluster.nodes:
            cluster.kill(node)
        gone.touch()
        with pytest.raises(PySparkException, match=rf"DeliveryFailed: {topic}: "):
            job.result(timeout=60.0)
    cluster.start_all()
    cluster.wait_full_isr()
    attempts = [(tmp_path / f"attempt-{number}").read_text().splitlines() for number in range(4)]
    for seconds, _ in attempts:
        assert float(seconds) < 2.0 + 2.0, "delivery_timeout_ms, and two seconds for a busy machine"
    assert attempts[0][1].startswith(f"DeliveryFailed: {topic}-0: "), attempts[0][1]
    assert "written" in attempts[0][1]
    assert "(" in attempts[0][1], f"no cause: {attempts[0][1]}"


def test_an_empty_partition_needs_no_broker(spark: SparkSession, topic: str, nobody) -> None:
    empty = spark.range(0).select(F.col("id").cast("string").alias("value")).repartition(4)
    empty.foreachPartition(partition_writer(nobody, topic=topic))
    with pytest.raises(PySparkException, match="DeliveryFailed"):  # and one that is not empty does
        spark.sparkContext.parallelize([Row(value="x")], 1).foreachPartition(partition_writer(nobody, topic=topic))


def test_a_failed_task_leaves_no_error_to_the_next_in_its_worker(spark: SparkSession, cluster: Cluster, topic: str, config) -> None:
    small, good = f"{topic}-small", f"{topic}-good"
    cluster.create_topic(small, 1, configs={"max.message.bytes": "1000"})
    cluster.create_topic(good, 1)
    one_then_other = FirstOneThenTheOther(partition_writer(config, topic=small), partition_writer(config, topic=good))
    rows = spark.sparkContext.parallelize([Row(value="x" * 5000)] * 4, 4)
    rows.foreachPartition(one_then_other)
    found = values(cluster, good)
    assert len(found) == 4
    assert all(f"DeliveryFailed: {small}-0: MESSAGE_TOO_LARGE" in value for value in found), found


def test_a_failed_job_leaves_no_error_to_the_next_job(spark: SparkSession, cluster: Cluster, topic: str, config) -> None:
    cluster.create_topic(topic, 1)
    frame = spark.createDataFrame([Row(id=1, value="v")])
    with pytest.raises(PySparkException, match=r"column 'id' \(option key\) is int"):
        frame.foreachPartition(partition_writer(config, topic=topic, key="id"))
    with pytest.raises(PySparkException, match=r"there is no column 'valeu' \(option value\) among .*did you mean 'value'"):
        frame.foreachPartition(partition_writer(config, topic=topic, value="valeu"))
    frame.foreachPartition(partition_writer(config, topic=topic))
    assert values(cluster, topic) == ["v"]


@pytest.mark.parametrize("kind", [Producer, Consumer, Client])
def test_a_client_captured_in_a_closure_is_an_error_that_says_what_to_do(spark: SparkSession, kind, nobody) -> None:
    options = {name: value for name, value in nobody.items() if name == "bootstrap_servers"}
    client = kind(**options)
    try:
        with pytest.raises(
            Exception, match=rf"a {kind.__name__} cannot be pickled.*create the {kind.__name__} where it is used.*partition_writer"
        ):
            spark.range(1).foreachPartition(lambda rows: client.send("t", b"x"))
    finally:
        client.close()


def test_a_worker_whose_connections_idled_writes_again(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    first, second = f"{topic}-1", f"{topic}-2"
    cluster.create_topic(first, 3)
    cluster.create_topic(second, 3)
    rows = spark.sparkContext.parallelize(range(20), 20).map(with_pid)  # enough tasks to go round all idle workers
    config = {**cluster.client, "connections_max_idle_ms": 500}
    others = {port for child in psutil.Process().children(recursive=True) for port in connections(child.pid, cluster)}
    rows.foreachPartition(partition_writer(config, topic=first))
    before = producers(cluster, first)
    with Producer(**cluster.client) as ours:
        ours.partitions_for(first)
        assert connections(os.getpid(), cluster), "connections are there and not seen"
    until(lambda: not any(connections(pid, cluster) - others for pid, _ in before), 60.0, "the workers to close connections that idle")
    rows.foreachPartition(partition_writer(config, topic=second))
    assert len(values(cluster, first)) == len(values(cluster, second)) == 20
    assert before & producers(cluster, second), "no worker used its producer again: nothing was tested"


def producers(cluster: Cluster, topic: str) -> set[tuple[int, int]]:
    """(process, producer id) of every producer of the topic, where values are process ids."""
    return {(int(record.value), record.producer_id) for records in cluster.log(topic).values() for record in records}


def connections(pid: int, cluster: Cluster) -> set[int]:
    """The local ports of a process's connections to brokers; a worker keeps a producer for each configuration it ever had."""
    brokers = {(socket.gethostbyname(host), port) for host, port in map(cluster.address, cluster.nodes)}
    try:
        rows = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return set()
    return {row.laddr.port for row in rows if row.status == psutil.CONN_ESTABLISHED and tuple(row.raddr) in brokers}


@pytest.mark.lengthy
def test_tasks_write_from_new_workers_after_spark_has_reaped_the_idle_ones(spark, cluster: Cluster, topic: str, config) -> None:
    cluster.create_topic(topic, 3)
    rows = spark.sparkContext.parallelize(range(20), 2).map(with_pid)
    rows.foreachPartition(partition_writer(config, topic=topic))
    first = set(values(cluster, topic))
    assert first
    until(lambda: not any(psutil.pid_exists(int(pid)) for pid in first), 150.0, "Spark to reap the workers, which takes about 68 s")
    rows.foreachPartition(partition_writer(config, topic=topic))
    found = values(cluster, topic)
    assert len(found) == 40
    assert set(found) - first, "the records of the second job come from the workers of the first one"
