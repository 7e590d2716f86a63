"""Jobs from one topic to another, and what tests count afterwards."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster, LogRecord
from integration.waiting import until
from pykafka4 import Producer

ROWS = 20_000
WAIT_S = 300.0  # seconds
FILLER = "x" * 80


def fill(cluster: Cluster, topic: str, rows: Iterable[int] = range(ROWS), partitions: int = 2) -> None:
    """Numbers as keys of rows of about a hundred bytes, every other one in the same partition."""
    with Producer(**cluster.client) as producer:
        for number in rows:
            producer.send(topic, f"{number} {FILLER}".encode(), key=str(number).encode(), partition=number % partitions)


def client(cluster: Cluster) -> dict[str, str]:
    """Options of both: where the brokers are, and what they demand."""
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": cluster.bootstrap, **cluster.java}.items()}


def source(cluster: Cluster, topic: str) -> dict[str, str]:
    """Options of a read."""
    return {**client(cluster), "subscribe": topic}


def sink(cluster: Cluster, topic: str, delivery: str, job: str) -> dict[str, str]:
    """Options of a write; `job` names it where the delivery needs a name."""
    named = {"idempotencyKey": job, "transactionalIdPrefix": job} if delivery == "exactly_once" else {}
    return {**client(cluster), "topic": topic, "delivery": delivery, **named}


def read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("pykafka4").options(**options).load()


def transformed(frame: DataFrame, then: Callable[[Iterator[Any]], Iterator[Any]]) -> DataFrame:
    """Keys and values, the values in capitals; `then` sees the Arrow batches on their way."""
    return frame.select("key", F.upper(F.col("value").cast("string")).alias("value")).mapInArrow(then, "key binary, value string")


def write(frame: DataFrame, options: Mapping[str, str]) -> None:
    """In any thread. Spark looks for Python data sources in the active session of its thread, which `createDataFrame` sets."""
    frame.sparkSession.createDataFrame([], "nothing int")
    frame.write.format("pykafka4").options(**options).mode("append").save()


def meanwhile(job: Future[None], condition: Callable[[], bool], what: str) -> None:
    """Wait while the job runs; one that ends before is an error."""

    def holds() -> bool:
        if job.done():
            raise AssertionError(f"the job ended before {what}: {job.exception()}")
        return condition()

    until(holds, WAIT_S, what)


def in_log(cluster: Cluster, topic: str) -> int:
    """Records and markers in the topic."""
    return sum(end for _, end in cluster.offsets(topic).values())


def times(cluster: Cluster, topic: str, delivery: str) -> Counter[int]:
    """How often each number is in the topic; for exactly_once as a reader with isolation_level="read_committed" finds them."""
    if delivery == "exactly_once":
        partitions = list(cluster.committed(topic).values())
        assert [partition.open for partition in partitions] == [0] * len(partitions), "transactions without an end hold up readers"
        return Counter(map(number, itertools.chain.from_iterable(partition.records for partition in partitions)))
    return Counter(map(number, itertools.chain.from_iterable(cluster.log(topic).values())))


def number(record: LogRecord) -> int:
    """The number in a record that a job wrote, whose key and value must belong together."""
    assert record.key is not None
    assert record.value == record.key + f" {FILLER}".upper().encode()
    return int(record.key)
