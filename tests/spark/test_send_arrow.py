"""`send_arrow` of a DataFrame on the driver: every cell reaches the log, and the rows are read batch after batch."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster
from pykafka4 import Producer

BEGIN = time.time_ns() // 1_000_000 - 60_000  # brokers delete records of long ago
pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]


@pytest.mark.main_job
def test_a_dataframe_is_sent_on_the_driver(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    frame = spark.createDataFrame([Row(number=n) for n in range(300)]).select(
        F.when(F.col("number") % 5 > 0, F.concat(F.lit("key "), F.col("number"))).alias("id"),
        F.when(F.col("number") % 7 > 0, F.col("number").cast("string").cast("binary")).alias("value"),
        F.array(F.struct(F.lit("n").alias("key"), F.col("number").cast("string").cast("binary").alias("value"))).alias("headers"),
        (F.col("number") + BEGIN).alias("timestamp"),
        (F.col("number") % 3).cast("int").alias("partition"),
    )
    with Producer(**cluster.client) as producer:
        rows = producer.send_arrow(topic, frame, key="id")
        assert rows.result(60) == 300
    found = {p: [(r.key, r.value, list(r.headers), r.timestamp) for r in records] for p, records in cluster.log(topic).items()}
    assert found == {
        p: [
            (
                b"key %d" % n if n % 5 else None,
                b"%d" % n if n % 7 else None,
                [("n", b"%d" % n)],
                BEGIN + n,
            )
            for n in range(p, 300, 3)
        ]
        for p in range(3)
    }
