"""`df.write.format("pykafka4")` on real Spark and real brokers: every cell reaches the log, whatever Spark makes of a batch."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster
from pykafka4.spark import foreach_batch

BEGIN = time.time_ns() // 1_000_000 - 60_000  # brokers delete records of long ago
NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.delivery.timeout.ms": "2000"}  # no broker listens there
MIB = 1024 * 1024

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]


def write(frame: DataFrame, kafka: dict[str, str], **options: str) -> None:
    """Append the rows of `frame`."""
    frame.write.format("pykafka4").mode("append").options(**kafka, **options).save()


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Everything in the topic, partition by partition."""
    return [record.value for records in cluster.log(topic).values() for record in records]


def text(*parts: str | Column) -> Column:
    return F.concat(*(F.lit(part) if isinstance(part, str) else part for part in parts))


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[object]:
    """`setting(name, value)` sets a configuration of the session for one test."""
    names: list[str] = []

    def put(name: str, value: object) -> None:
        names.append(name)
        spark.conf.set(name, str(value))

    yield put
    for name in names:
        spark.conf.unset(name)


@pytest.mark.main_job
@pytest.mark.parametrize("large", [False, True], ids=["plain", "large"])
def test_every_column_reaches_the_log_as_it_was(spark: SparkSession, cluster: Cluster, topic: str, kafka, setting, large: bool) -> None:
    setting("spark.sql.execution.arrow.useLargeVarTypes", large)
    cluster.create_topic(topic, 3)
    frame = spark.range(0, 300, 1, 3).select(
        F.when(F.col("id") % 5 > 0, text("key ", F.col("id"))).alias("key"),
        F.when(F.col("id") % 7 > 0, F.encode(text("ü ", F.col("id")), "utf-8")).alias("value"),
        F.array(
            F.struct(F.lit("name").alias("key"), F.encode(F.lit("one"), "utf-8").alias("value")),
            F.struct(F.lit("name").alias("key"), F.lit(None).cast("binary").alias("value")),
        ).alias("headers"),
        F.timestamp_millis(F.col("id") + BEGIN).alias("timestamp"),
        (F.col("id") % 3).cast("int").alias("partition"),
        F.lit("ignored").alias("other"),
    )
    write(frame, kafka, topic=topic)
    found = {r.timestamp - BEGIN: (partition, r) for partition, records in cluster.log(topic).items() for r in records}
    assert sorted(found) == list(range(300))
    for number, (partition, record) in found.items():
        assert partition == number % 3
        assert record.key == (f"key {number}".encode() if number % 5 else None)
        assert record.value == (f"ü {number}".encode() if number % 7 else None)
        assert [tuple(header) for header in record.headers] == [("name", b"one"), ("name", None)]


def test_null_and_empty_are_different_in_keys_values_and_headers(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 1)
    rows = [
        (0, None, None, None),
        (1, b"", b"", []),
        (2, None, b"v", [("", b"")]),
        (3, b"k", None, [("n", None), ("n", b"2"), ("n", b"1")]),
        (4, "ü".encode(), b"\xff\x00", [("ü", b"\xff")]),
    ]
    schema = "number int, key binary, value binary, headers array<struct<key:string,value:binary>>"
    write(spark.createDataFrame(rows, schema).coalesce(1).sort("number"), kafka, topic=topic)
    found = [(r.offset, r.key, r.value, [tuple(h) for h in r.headers]) for r in cluster.log(topic)[0]]
    assert found == [(number, key, value, headers or []) for number, key, value, headers in rows]


def test_bigint_timestamps_are_milliseconds_maps_are_headers_and_null_partitions_leave_it_to_the_key(spark, cluster, topic, kafka) -> None:
    cluster.create_topic(topic, 3)
    frame = spark.range(30).select(
        F.lit("the same").alias("key"),
        F.col("id").cast("string").alias("value"),
        F.create_map(F.lit("n"), F.col("id").cast("string")).alias("headers"),
        F.when(F.col("id") > 9, F.col("id") + BEGIN).alias("timestamp"),
        F.when(F.col("id") < 10, F.lit(1)).cast("short").alias("partition"),
    )
    begun = time.time() * 1000
    write(frame, kafka, topic=topic)
    log = {int(r.value): (partition, r) for partition, records in cluster.log(topic).items() for r in records}
    assert sorted(log) == list(range(30))
    assert {partition for number, (partition, _) in log.items() if number < 10} == {1}
    assert len({partition for number, (partition, _) in log.items() if number >= 10}) == 1
    assert all(r.timestamp == number + BEGIN if number > 9 else begun <= r.timestamp for number, (_, r) in log.items())
    assert all([tuple(h) for h in r.headers] == [("n", b"%d" % number)] for number, (_, r) in log.items())


def test_the_column_topic_says_where_each_row_goes_and_rows_of_a_topic_keep_their_order(spark, cluster: Cluster, topic: str, kafka) -> None:
    names = [f"{topic}-{n}" for n in range(3)]
    for name in names:
        cluster.create_topic(name, 1)
    frame = spark.range(0, 30_000, 1, 1).select(  # three batches
        F.element_at(F.array(*map(F.lit, names)), F.when(F.col("id") < 10_000, 1).otherwise(F.col("id") % 3 + 1).cast("int")).alias(
            "topic"
        ),
        F.col("id").cast("string").alias("value"),
    )
    write(frame, kafka)
    expected = defaultdict(list)
    for number in range(30_000):
        expected[names[0 if number < 10_000 else number % 3]].append(number)
    assert {name: [int(value) for value in values(cluster, name)] for name in names} == expected


def test_the_option_topic_overrides_the_column(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 1)
    write(spark.range(3).select(F.lit(None).cast("string").alias("topic"), F.lit("x").alias("value")), kafka, topic=topic)
    assert values(cluster, topic) == [b"x"] * 3


def test_a_null_topic_fails_the_job_and_names_column_and_option(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    frame = spark.range(0, 9, 1, 1).select(F.when(F.col("id") != 5, F.lit(topic)).alias("topic"), F.lit("x").alias("value"))
    with pytest.raises(
        PySparkException, match=r"column 'topic' is null in row 5 of a batch of 9; filter such rows, or set the option topic"
    ):
        write(frame, kafka)


@pytest.mark.parametrize("partitions", [0, 1, 4])
def test_a_dataframe_without_rows_needs_no_broker(spark: SparkSession, topic: str, partitions: int) -> None:
    empty = spark.sparkContext.parallelize([], partitions) if partitions else spark.sparkContext.emptyRDD()
    write(spark.createDataFrame(empty, "value string"), NOBODY, topic=topic)
    with pytest.raises(PySparkException, match=f"{topic}.*127.0.0.1:1"):  # and one that has some does
        write(spark.createDataFrame([("x",)], "value string"), NOBODY, topic=topic)


def test_empty_partitions_between_full_ones(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 1)
    frame = spark.range(0, 8, 1, 8).where("id in (2, 5)").select(F.col("id").cast("string").alias("value"))
    write(frame, kafka, topic=topic)
    assert sorted(values(cluster, topic)) == [b"2", b"5"]


def test_rows_of_a_megabyte_which_spark_splits_into_batches_of_64_mib(spark: SparkSession, cluster: Cluster, topic: str, kafka) -> None:
    cluster.create_topic(topic, 2, configs={"max.message.bytes": str(4 * MIB)})
    sizes = {n: 2 * MIB if n % 10 == 0 else 900_000 for n in range(120)}
    frame = spark.range(0, 120, 1, 1).select(
        F.col("id").cast("string").alias("key"),
        F.expr(f"repeat('x', if(id % 10 = 0, {2 * MIB}, 900000))").alias("value"),
    )
    write(frame, {**kafka, "kafka.max.request.size": str(3 * MIB)}, topic=topic)
    found = Counter((int(r.key), len(r.value)) for records in cluster.log(topic).values() for r in records)
    assert found == Counter(sizes.items())


def test_a_row_over_the_producers_limit_fails_the_job_and_names_the_option(
    spark: SparkSession, cluster: Cluster, topic: str, kafka
) -> None:
    cluster.create_topic(topic, 1)
    frame = spark.range(0, 3, 1, 1).select(F.expr("if(id = 2, repeat('x', 2000000), 'small')").alias("value"))
    with pytest.raises(PySparkException, match=rf"RecordTooLarge: {topic}.*max_request_size"):
        write(frame, kafka, topic=topic)


def test_a_row_over_the_brokers_limit_fails_the_job_with_topic_partition_and_cause(spark, cluster: Cluster, topic: str, kafka) -> None:
    small, good = f"{topic}-small", f"{topic}-good"
    cluster.create_topic(small, 1, configs={"max.message.bytes": "1000"})
    cluster.create_topic(good, 1)
    frame = spark.range(0, 4, 1, 4).select(F.expr("repeat('x', 5000)").alias("value"))
    with pytest.raises(PySparkException, match=rf"DeliveryFailed: {small}-0: MESSAGE_TOO_LARGE"):
        write(frame, kafka, topic=small)
    write(frame, kafka, topic=good)  # by the same workers: nothing is left of the failure
    assert [len(value) for value in values(cluster, good)] == [5000] * 4
    assert values(cluster, small) == []


# -- output modes of streams


def counts(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of two micro-batches: how often each line has come so far."""
    folder.mkdir()
    for name, lines in (("1", "a\nb\n"), ("2", "a\n")):
        (folder / name).write_text(lines)
        os.utime(folder / name, (int(name), int(name)))  # the order of the micro-batches
    found = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder)).groupBy("value").count()
    return found.select(F.concat_ws(" ", "value", "count").alias("value")).coalesce(1)


def test_complete_mode_writes_the_whole_result_each_time(spark: SparkSession, cluster: Cluster, topic: str, kafka, tmp_path: Path) -> None:
    cluster.create_topic(topic, 1)
    stream = counts(spark, tmp_path / "files").writeStream.outputMode("complete").trigger(availableNow=True)
    stream.format("pykafka4").options(**kafka, topic=topic, checkpointLocation=str(tmp_path / "checkpoint")).start().awaitTermination()
    assert sorted(filter(None, values(cluster, topic))) == [b"a 1", b"a 2", b"b 1", b"b 1"]


def test_update_mode_is_refused_by_spark_and_works_with_foreach_batch(
    spark: SparkSession, cluster: Cluster, topic: str, kafka, tmp_path: Path
) -> None:
    cluster.create_topic(topic, 1)
    stream = counts(spark, tmp_path / "files").writeStream.outputMode("update").trigger(availableNow=True)
    with pytest.raises(PySparkException, match="does not support Update mode"):
        stream.format("pykafka4").options(**kafka, topic=topic, checkpointLocation=str(tmp_path / "1")).start().awaitTermination()
    write = foreach_batch(dict(cluster.client), topic=topic, delivery="exactly_once")
    stream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "2")).start().awaitTermination()
    found = [record.value for each in cluster.committed(topic).values() for record in each.records]
    assert sorted(filter(None, found)) == [b"a 1", b"a 2", b"b 1"]


# -- what is refused before the job starts


VALID = ["'k' as key", "'v' as value"]
WRONG_COLUMNS = {
    "no value": (["'k' as key"], r"there is no column 'value' among key; it holds the values"),
    "misspelt": (["'v' as Value"], r"there is no column 'value' among Value.*rename 'Value'"),
    "value of int": (["1 as value"], r"column 'value' is int; it must be string or binary; cast it"),
    "value of struct": (["struct(1 as a) as value"], r"column 'value' is struct<a:int>;.*to_json"),
    "key of int": (["id as key", "'v' as value"], r"column 'key' is bigint; it must be string or binary; cast it: cast\(key as string\)"),
    "headers of text": (
        ["'v' as value", "'h' as headers"],
        r"column 'headers' is string; it must be array<struct<key:string,value:binary>>",
    ),
    "headers in another order": (
        ["'v' as value", "array(named_struct('value', cast('v' as binary), 'key', 'k')) as headers"],
        r"column 'headers' is array<struct<value:binary,key:string>>; it must be array<struct<key:string,value:binary>>",
    ),
    "timestamp of text": (["'v' as value", "'2026' as timestamp"], r"column 'timestamp' is string; it must be timestamp.*cast"),
    "timestamp without zone": (
        ["'v' as value", "cast(now() as timestamp_ntz) as timestamp"],
        r"column 'timestamp' is timestamp_ntz; it must be timestamp.*cast\(timestamp as timestamp\)",
    ),
    "partition of text": (["'v' as value", "'0' as partition"], r"column 'partition' is string; it must be int"),
    "twice": (["'v' as value", "'w' as value"], r"2 columns have the name 'value'; rename all but one"),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_a_wrong_column_is_refused_before_the_job_starts(spark: SparkSession, topic: str, case: str) -> None:
    columns, message = WRONG_COLUMNS[case]
    with pytest.raises(PySparkException, match=message):
        write(spark.range(0).selectExpr(*columns), NOBODY, topic=topic)


WRONG_OPTIONS = {
    "no topic": ({}, r"there is no column 'topic' among key, value, and there is no option topic; set one of the two"),
    "topic": ({"topic": "a b"}, r"topic 'a b': a name has 1 to 249 of the characters"),
    "unknown": ({"topic": "t", "topics": "t"}, r"unknown option topics; did you mean topic\?"),
    "for reads": ({"topic": "t", "columns": "value"}, r"option columns is for .*reads"),
    "delivery": ({"topic": "t", "delivery": "once"}, r"option delivery='once': takes at_least_once or exactly_once"),
    "unknown property": ({"topic": "t", "kafka.linger.msec": "1"}, r"unknown producer property 'linger.msec'; did you mean 'linger.ms'\?"),
    "value of a property": ({"topic": "t", "kafka.acks": "2"}, r"acks"),
    "serializer": ({"topic": "t", "kafka.value.serializer": "x"}, r"option kafka.value.serializer is not supported.*to_json"),
    "transactional id": ({"topic": "t", "kafka.transactional.id": "x"}, r"option kafka.transactional.id is not.*delivery=exactly_once"),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_before_the_job_starts(spark: SparkSession, case: str) -> None:
    options, message = WRONG_OPTIONS[case]
    with pytest.raises(PySparkException, match=message):
        write(spark.range(0).selectExpr(*VALID), NOBODY, **options)


def test_missing_servers_and_other_save_modes_are_refused(spark: SparkSession, topic: str) -> None:
    frame = spark.range(0).selectExpr(*VALID)
    with pytest.raises(PySparkException, match=r"option kafka.bootstrap.servers is missing"):
        write(frame, {}, topic=topic)
    writer = frame.write.format("pykafka4").options(**NOBODY, topic=topic)
    with pytest.raises(PySparkException, match=r'use mode\("append"\)'):
        writer.mode("overwrite").save()
    for mode in ("ignore", "errorifexists"):  # Spark's own error: it does not ask the data source
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            writer.mode(mode).save()
