"""A job written for Spark's JVM connector changes one word: each test runs it with `format("kafka")` and with `format("pykafka4")`."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from integration.cluster import Cluster
from integration.spark.jars import connector_jars
from pykafka4 import Producer
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.lengthy,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
]

FORMATS = ["kafka", "pykafka4"]
BEGIN_MS = 1_700_000_000_000  # the timestamp of the first record, in milliseconds
REFUSED = (PySparkException, Py4JJavaError)  # PySpark translates some exceptions of the JVM
ENOUGH_S = 300  # seconds for a query
HEADERS = [("a", b"1"), ("a", None), ("ü", b""), ("b", b"\xff\x00")]


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> SparkSession:
    """The session, with the jars of the JVM connector."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> tuple[str, str]:
    """Two topics of three and two partitions. Records of the first have all that a record can have."""
    first, second = (f"jvm-{kind}-{uuid.uuid4().hex[:8]}" for kind in ("first", "second"))
    cluster.create_topic(first, 3)
    cluster.create_topic(second, 2, configs={"message.timestamp.type": "LogAppendTime"})
    with Producer(**cluster.client) as producer:
        for number in range(300):
            key = None if number % 5 == 0 else f"key {number}"
            value = None if number % 7 == 0 else b"" if number % 11 == 0 else f"value {number}"
            headers = HEADERS[: number % 5]
            producer.send(first, value, key=key, headers=headers, timestamp_ms=BEGIN_MS + number, partition=number % 3)
        for number in range(40):
            producer.send(second, f"other {number}", partition=number % 2)
    return first, second


def frame(spark: SparkSession, cluster: Cluster, name: str, **options: Any) -> DataFrame:
    """A batch query as the connector's documentation begins it."""
    return spark.read.format(name).option("kafka.bootstrap.servers", cluster.bootstrap).options(**options).load()


def rows(found: DataFrame) -> list[Any]:
    """All rows, in an order of their own; binaries as bytes."""
    return sorted((tuple(row) for row in found.collect()), key=lambda row: (row[2], row[3], row[4]))


def same(spark: SparkSession, cluster: Cluster, count: int, **options: Any) -> list[Any]:
    """The rows that both formats read with these options, equal, and so many."""
    theirs, ours = (rows(frame(spark, cluster, name, **options)) for name in FORMATS)
    assert ours == theirs
    assert len(ours) == count
    return ours


@pytest.mark.parametrize("headers", ["true", "false"])
def test_the_schema_is_the_same(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str], headers: str) -> None:
    theirs, ours = (frame(jvm, cluster, name, subscribe=topics[0], includeHeaders=headers).schema for name in FORMATS)
    assert ours == theirs
    assert ours.names[-1] == ("headers" if headers == "true" else "timestampType")


def test_every_column_of_every_record_is_the_same(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str]) -> None:
    found = same(jvm, cluster, 300, subscribe=topics[0], includeHeaders="true")
    for key, value, topic, partition, offset, timestamp, kind, headers in found:
        number = 3 * offset + partition
        assert (topic, kind) == (topics[0], 0)
        assert key == (None if number % 5 == 0 else f"key {number}".encode())
        assert value == (None if number % 7 == 0 else b"" if number % 11 == 0 else f"value {number}".encode())
        assert int(timestamp.timestamp() * 1000 + 0.5) == BEGIN_MS + number
        assert headers == (None if number % 5 == 0 else [tuple(pair) for pair in HEADERS[: number % 5]])


def test_the_time_of_the_log_is_the_same(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str]) -> None:
    assert {row[6] for row in same(jvm, cluster, 40, subscribe=topics[1])} == {1}


# ---------------------------------------------------------------- which records


def each(topics: tuple[str, str], *numbers: int) -> str:
    """One number for each of the three partitions of the first topic, as JSON."""
    return json.dumps({topics[0]: {str(partition): number for partition, number in enumerate(numbers)}})


PLACES: dict[str, tuple[Callable[[tuple[str, str]], dict[str, Any]], int]] = {
    "two topics": (lambda t: {"subscribe": ",".join(t)}, 340),
    "two topics with a blank": (lambda t: {"subscribe": " , ".join(t)}, 340),
    "pattern": (lambda t: {"subscribePattern": f"{t[0][:-2]}.*"}, 300),
    "pattern in the middle of a name": (lambda t: {"subscribePattern": t[0][1:-1]}, 300),
    "options that belong elsewhere": (
        lambda t: {"subscribe": t[0], "maxOffsetsPerTrigger": "7", "minOffsetsPerTrigger": "3", "topic": "t"},
        300,
    ),
    "assign": (lambda t: {"assign": json.dumps({t[0]: [0, 2], t[1]: [1]})}, 220),
    "start and end": (lambda t: {"subscribe": t[0], "startingOffsets": each(t, 10, -2, 99), "endingOffsets": each(t, 20, -1, 99)}, 110),
    "earliest to latest": (lambda t: {"subscribe": t[0], "startingOffsets": "earliest", "endingOffsets": "latest"}, 300),
    "from a time": (lambda t: {"subscribe": t[0], "startingTimestamp": str(BEGIN_MS + 150)}, 150),
    "from a time, before all others": (
        lambda t: {"subscribe": t[0], "startingTimestamp": str(BEGIN_MS + 150), "startingOffsets": each(t, 1, 1, 1)},
        150,
    ),
    "from a time for each partition": (
        lambda t: {"subscribe": t[0], "startingOffsetsByTimestamp": each(t, BEGIN_MS, BEGIN_MS + 150, BEGIN_MS + 299)},
        151,
    ),
    "to a time": (lambda t: {"subscribe": t[0], "endingTimestamp": str(BEGIN_MS + 150)}, 150),
    "to a time that nothing has": (lambda t: {"subscribe": t[0], "endingTimestamp": str(BEGIN_MS + 1000)}, 300),
    "to a time for each partition": (
        lambda t: {"subscribe": t[0], "endingOffsetsByTimestamp": each(t, BEGIN_MS, BEGIN_MS + 150, BEGIN_MS + 299)},
        149,
    ),
    "from a time that nothing has": (
        lambda t: {"subscribe": t[0], "startingTimestamp": str(BEGIN_MS + 1000), "startingOffsetsByTimestampStrategy": "latest"},
        0,
    ),
    "more tasks": (lambda t: {"subscribe": t[0], "minPartitions": "7"}, 300),
    "small tasks": (lambda t: {"subscribe": t[0], "maxRecordsPerPartition": "13"}, 300),
    "names in other case": (lambda t: {"SUBSCRIBE": t[0], "STARTINGOFFSETS": each(t, 50, 50, 50)}, 150),
    "options without effect here": (
        lambda t: {
            "subscribe": t[0],
            "groupIdPrefix": "mine",
            "kafka.group.id": "ours",
            "kafkaConsumer.pollTimeoutMs": "60000",
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "20",
            "kafka.max.poll.records": "7",
            "kafka.fetch.min.bytes": "1",
        },
        300,
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_same_options_read_the_same_records(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str], place: str) -> None:
    options, count = PLACES[place]
    same(jvm, cluster, count, **options(topics))


@pytest.mark.parametrize(("isolation", "count"), [("read_committed", 30), ("read_uncommitted", 60), (None, 60)])
def test_transactions_are_read_alike(jvm: SparkSession, cluster: Cluster, topic: str, isolation: str | None, count: int) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        for begin, ended in ((0, True), (10, False), (20, True), (30, False), (40, True), (50, False)):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                for number in range(begin, begin + 10):
                    producer.send(topic, str(number))
                producer.flush()
                assert ended or 1 / 0
    same(jvm, cluster, count, subscribe=topic, **{"kafka.isolation.level": isolation} if isolation else {})


def test_tasks_are_as_many(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str]) -> None:
    for options in ({}, {"minPartitions": "10"}):
        theirs, ours = (frame(jvm, cluster, name, subscribe=topics[0], **options).rdd.getNumPartitions() for name in FORMATS)
        assert ours == theirs, options


# ---------------------------------------------------------------- lost records


def delete_before(cluster: Cluster, topic: str, partition: int, offset: int) -> None:
    row = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)
    answer = cluster.admin.ask(cluster.leader(topic, partition), request).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, offset)


@pytest.fixture
def shortened(cluster: Cluster, topic: str) -> str:
    """A topic of 100 records whose first 40 are deleted."""
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client) as producer:
        for number in range(100):
            producer.send(topic, str(number))
    delete_before(cluster, topic, 0, 40)
    return topic


@pytest.mark.parametrize("name", FORMATS)
def test_a_batch_that_begins_before_the_log_fails_or_skips(jvm: SparkSession, cluster: Cluster, shortened: str, name: str) -> None:
    where = {"subscribe": shortened, "startingOffsets": json.dumps({shortened: {"0": 10}})}
    with pytest.raises(REFUSED):
        frame(jvm, cluster, name, **where).collect()
    found = rows(frame(jvm, cluster, name, **where, failOnDataLoss="false"))
    assert [row[4] for row in found] == list(range(40, 100))


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reader", FORMATS)
def test_what_one_writes_the_other_reads(jvm: SparkSession, cluster: Cluster, topic: str, topics, name: str, reader: str) -> None:
    cluster.create_topic(topic, 3)
    source = frame(jvm, cluster, reader, subscribe=topics[0], includeHeaders="true").select("key", "value", "headers", "partition")
    sink = source.write.format(name).option("kafka.bootstrap.servers", cluster.bootstrap)
    sink.options(topic=topic, includeHeaders="true").mode("append").save()

    def rows_of(topic: str) -> list[str]:
        return sorted(repr((row[0], row[1], row[3], row[7])) for row in same(jvm, cluster, 300, subscribe=topic, includeHeaders="true"))

    assert rows_of(topic) == rows_of(topics[0])


@pytest.mark.parametrize("name", FORMATS)
def test_the_topic_column_decides_unless_the_option_does(jvm: SparkSession, cluster: Cluster, topic: str, name: str) -> None:
    for number in (1, 2, 3):
        cluster.create_topic(f"{topic}{number}", 1)
    data = jvm.createDataFrame(
        [(f"{topic}{1 + n % 2}", f"key {n}", f"value {n}") for n in range(20)], "topic string, key string, value string"
    )
    sink = data.write.format(name).option("kafka.bootstrap.servers", cluster.bootstrap).mode("append")
    sink.save()
    sink.option("topic", f"{topic}3").save()
    counts = {number: sum(map(len, cluster.log(f"{topic}{number}").values())) for number in (1, 2, 3)}
    assert counts == {1: 10, 2: 10, 3: 20}


@pytest.mark.parametrize("name", FORMATS)
def test_records_of_a_key_are_in_the_partition_that_java_chooses(jvm: SparkSession, cluster: Cluster, topic: str, name: str) -> None:
    cluster.create_topic(topic, 5)
    data = jvm.createDataFrame([(f"key {n}", "v") for n in range(50)], "key string, value string")
    data.write.format(name).option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic).mode("append").save()
    found = {record.key.decode(): partition for partition, records in cluster.log(topic).items() for record in records}
    with Producer(**cluster.client) as producer:
        expected = {f"key {n}": producer.send(topic, None, key=f"key {n}").result(30.0).partition for n in range(50)}
    assert found == expected


# ---------------------------------------------------------------- streams


def stream(spark: SparkSession, cluster: Cluster, name: str, **options: Any) -> DataFrame:
    return spark.readStream.format(name).option("kafka.bootstrap.servers", cluster.bootstrap).options(**options).load()


@contextlib.contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def written(spark: SparkSession, cluster: Cluster, name: str, to: str, checkpoint: Path, **options: Any) -> list[int]:
    """Copy what is there with a streaming query as the documentation has it; the input rows of each micro-batch."""
    source = stream(spark, cluster, name, **options)
    copy = source.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").writeStream.format(name)
    copy = copy.option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", to).option("checkpointLocation", str(checkpoint))
    with running(copy.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(ENOUGH_S)
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_copies_what_is_there_and_goes_on(jvm, cluster: Cluster, topic: str, topics, tmp_path: Path, name: str) -> None:
    cluster.create_topic(topic, 2)
    options = {"subscribe": topics[1], "startingOffsets": "earliest"}
    assert sum(written(jvm, cluster, name, topic, tmp_path, **options)) == 40
    assert written(jvm, cluster, name, topic, tmp_path, **options) == []
    log = [record.value for records in cluster.log(topic).values() for record in records]
    assert sorted(log) == sorted(f"other {number}".encode() for number in range(40))


def send(cluster: Cluster, topic: str, first: int, count: int = 50) -> None:
    with Producer(**cluster.client) as producer:
        for number in range(first, first + count):
            producer.send(topic, str(number), partition=number % 2)


def test_a_stream_goes_on_from_the_checkpoint_of_the_jvm_connector(jvm, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create_topic(topic, 2)
    cluster.create_topic(f"{topic}-to", 2)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    for first, name in ((0, "kafka"), (50, "pykafka4"), (100, "pykafka4")):
        send(cluster, topic, first)
        assert sum(written(jvm, cluster, name, f"{topic}-to", tmp_path, **options)) == 50
    log = [int(record.value) for records in cluster.log(f"{topic}-to").values() for record in records]
    assert sorted(log) == list(range(150))


def test_micro_batches_are_as_large(jvm: SparkSession, cluster: Cluster, topic: str, topics, tmp_path: Path) -> None:
    cluster.create_topic(topic, 1)
    options = {"subscribe": topics[0], "startingOffsets": each(topics, 0, 50, 90), "maxOffsetsPerTrigger": "50"}
    theirs, ours = (written(jvm, cluster, name, topic, tmp_path / name, **options) for name in FORMATS)
    assert ours == theirs
    assert sum(ours) == 160


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_begins_at_the_end_unless_told(jvm, cluster: Cluster, topic: str, topics, tmp_path: Path, name: str) -> None:
    cluster.create_topic(topic, 1)
    assert written(jvm, cluster, name, topic, tmp_path, subscribe=topics[1]) == []


def test_the_schema_of_a_stream_is_the_same(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str]) -> None:
    schemas: list[StructType] = [stream(jvm, cluster, name, subscribe=topics[0], includeHeaders="true").schema for name in FORMATS]
    assert schemas[0] == schemas[1]


# ---------------------------------------------------------------- what both refuse

READ = {
    "no servers": {"kafka.bootstrap.servers": None},
    "no topic": {"subscribe": None},
    "two kinds of topics": {"subscribePattern": "x.*"},
    "latest as the start of a batch": {"startingOffsets": "latest"},
    "earliest as the end": {"endingOffsets": "earliest"},
    "bad JSON": {"startingOffsets": "{"},
    "JSON without a partition": {"startingOffsets": '{"TOPIC": {"0": 1}}'},
    "latest in the start of a batch": {"startingOffsets": '{"TOPIC": {"0": -1, "1": 0, "2": 0}}'},
    "earliest in the end": {"endingOffsets": '{"TOPIC": {"0": -2, "1": 0, "2": 0}}'},
    "a time that nothing has": {"startingTimestamp": str(BEGIN_MS + 1000)},
    "no strategy": {"startingTimestamp": str(BEGIN_MS), "startingOffsetsByTimestampStrategy": "best"},
    "minPartitions": {"minPartitions": "0"},
    "maxRecordsPerPartition": {"maxRecordsPerPartition": "-1"},
    "auto.offset.reset": {"kafka.auto.offset.reset": "earliest"},
    "key.deserializer": {"kafka.key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"},
    "value.deserializer": {"kafka.value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"},
    "enable.auto.commit": {"kafka.enable.auto.commit": "true"},
    "interceptor.classes": {"kafka.interceptor.classes": "a.B"},
    "a topic that does not exist": {
        "subscribe": "no-such-topic-at-all",
        "kafka.default.api.timeout.ms": "5000",
        "kafka.request.timeout.ms": "5000",
    },
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wrong", READ)
def test_both_refuse_a_wrong_read(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str], name: str, wrong: str) -> None:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topics[0], **READ[wrong]}
    reader = jvm.read.format(name)
    for option, value in options.items():
        if value is not None:
            reader = reader.option(option, value.replace("TOPIC", topics[0]))
    with pytest.raises(REFUSED):
        reader.load().collect()


STREAM = {
    "endingOffsets": "latest",
    "endingOffsetsByTimestamp": "{}",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wrong", STREAM)
def test_both_refuse_a_wrong_stream(jvm, cluster: Cluster, topics, tmp_path: Path, name: str, wrong: str) -> None:
    with pytest.raises(REFUSED):
        query = stream(jvm, cluster, name, subscribe=topics[0], **{wrong: STREAM[wrong]}).writeStream.format("noop")
        with running(query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()) as started:
            started.awaitTermination(ENOUGH_S)


WRITE = {
    "no value": ("key", {}),
    "a value of int": ("1 AS value", {}),
    "a key of int": ("1 AS key", {}),
    "headers of strings": ("array('a') AS headers", {}),
    "a partition of string": ("'1' AS partition", {}),
    "no topic": ("value", {"topic": None}),
    "a topic that is null": ("CAST(null AS STRING) AS topic", {"topic": None}),
    "key.serializer": ("value", {"kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"}),
    "value.serializer": ("value", {"kafka.value.serializer": "org.apache.kafka.common.serialization.StringSerializer"}),
    "no servers": ("value", {"kafka.bootstrap.servers": None}),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wrong", WRITE)
def test_both_refuse_a_wrong_write(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str], name: str, wrong: str) -> None:
    column, changed = WRITE[wrong]
    data = jvm.createDataFrame([("k", "v")], "key string, value string")
    rest = [] if wrong == "no value" else [it for it in ("value",) if f"AS {it}" not in column and column != it]
    sink = data.selectExpr(column, *rest).write.format(name).mode("append")
    for option, value in {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topics[1], **changed}.items():
        if value is not None:
            sink = sink.option(option, value)
    before = cluster.offsets(topics[1])
    with pytest.raises(REFUSED):
        sink.save()
    assert cluster.offsets(topics[1]) == before


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_both_only_append(jvm: SparkSession, cluster: Cluster, topics: tuple[str, str], name: str, mode: str) -> None:
    sink = jvm.createDataFrame([("v",)], "value string").write.format(name).option("kafka.bootstrap.servers", cluster.bootstrap)
    with pytest.raises(REFUSED):
        sink.option("topic", topics[1]).mode(mode).save()
