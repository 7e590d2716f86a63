"""`spark.read.format("pykafka4")` on real Spark and real brokers: the rows of the log, each once, and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from integration.cluster import Cluster
from integration.waiting import Deadline, until
from pykafka4 import Producer, read
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]

LONG_S = 120.0


class GivenUpError(Exception):
    """Aborts a transaction."""


def frame(spark: SparkSession, cluster: Cluster, name: str, schema: str | None = None, /, **options: Any) -> DataFrame:
    properties = {"bootstrap.servers": cluster.bootstrap, **cluster.java}
    reader = spark.read.format("pykafka4").options(**{f"kafka.{name}": value for name, value in properties.items()})
    if not {"assign", "subscribePattern"} & options.keys():
        reader = reader.option("subscribe", name)
    for option, value in options.items():
        reader = reader.option(option, json.dumps(value) if isinstance(value, dict) else value)
    return (reader if schema is None else reader.schema(schema)).load()


def places(found: DataFrame) -> list[tuple[int, int, bytes | None]]:
    rows = found.select("partition", "offset", "value").collect()
    return sorted((row.partition, row.offset, None if row.value is None else bytes(row.value)) for row in rows)


def log(cluster: Cluster, topic: str) -> list[tuple[int, int, bytes | None]]:
    """What the judge finds: every record, those of aborted transactions among them."""
    return sorted((partition, record.offset, record.value) for partition, records in cluster.log(topic).items() for record in records)


def send(cluster: Cluster, topic: str, first: int, last: int, size: int = 0, **options: Any) -> None:
    with Producer(**{**cluster.client, **options}) as producer:
        for n in range(first, last):
            producer.send(topic, (b"%d" % n).ljust(size), key=b"key %d" % n)


def delete_records(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    row = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)
    answer = cluster.admin.ask(cluster.leader(topic, partition), request).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, before)


@pytest.mark.main_job
@pytest.mark.secured
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_every_row_of_the_log_once_with_all_columns(spark: SparkSession, cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, 3)
    send(cluster, topic, 0, 20_000, compression_type=codec)
    found = frame(spark, cluster, topic, minPartitions="7")
    assert found.dtypes == [
        *(("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint")),
        *(("timestamp", "timestamp"), ("timestampType", "int")),
    ]
    assert found.rdd.getNumPartitions() >= 6
    assert places(found) == log(cluster, topic)
    one = found.where("cast(value as string) = '17'").collect()
    assert [(bytes(row.key), row.topic, row.timestampType) for row in one] == [(b"key 17", topic, 0)]
    total = found.agg(F.count("*"), F.sum(F.col("value").cast("string").cast("int"))).first()
    assert tuple(total or ()) == (20_000, 199_990_000)


def test_null_empty_and_headers_are_as_they_were_written(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    headers = [None, [], [("a", b"1"), ("a", None), ("ü", b"")], [("b", b"\xff")]]
    with Producer(**cluster.client) as producer:
        for n, (key, value) in enumerate([(None, None), (b"", b""), (b"k", b"v"), ("k", b"\x00" * 900_000)]):
            producer.send(topic, value, key=key, headers=headers[n], timestamp_ms=1_767_323_045_678 + n)
    rows = frame(spark, cluster, topic, includeHeaders="true").orderBy("offset").collect()
    sizes = [(row.key and bytes(row.key), None if row.value is None else len(row.value)) for row in rows]
    assert sizes == [(None, None), (b"", 0), (b"k", 1), (b"k", 900_000)]
    assert [row.headers for row in rows] == [
        *(None, None),
        [Row(key="a", value=bytearray(b"1")), Row(key="a", value=None), Row(key="ü", value=bytearray(b""))],
        [Row(key="b", value=bytearray(b"\xff"))],
    ]
    exact = frame(spark, cluster, topic).select(F.expr("unix_millis(timestamp)").alias("ms")).orderBy("ms").collect()
    assert [row.ms for row in exact] == [1_767_323_045_678 + n for n in range(4)]


def test_a_schema_or_columns_choose_what_is_read(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    send(cluster, topic, 0, 10)
    for found in (frame(spark, cluster, topic, "value binary"), frame(spark, cluster, topic, columns="value")):
        assert found.columns == ["value"]
        assert sorted(bytes(row.value) for row in found.collect()) == sorted(b"%d" % n for n in range(10))
    found = frame(spark, cluster, topic, columns="offset,headers")
    assert sorted(map(tuple, found.collect())) == [(n, None) for n in range(10)]


def test_an_empty_topic_and_a_pattern_without_topics_have_no_rows(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    assert frame(spark, cluster, topic).collect() == []
    assert frame(spark, cluster, topic, subscribePattern=f"^{topic}-none$").count() == 0


def test_subscriptions_and_offsets(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    names = [f"{topic}-{n}" for n in range(2)]
    for name in names:
        cluster.create_topic(name, 2)
        send(cluster, name, 0, 100)
    everything = [(name, *place) for name in names for place in log(cluster, name)]

    def rows(**options: Any) -> list[tuple[Any, ...]]:
        found = frame(spark, cluster, "", **options).select("topic", "partition", "offset", "value").collect()
        return sorted((row.topic, row.partition, row.offset, bytes(row.value)) for row in found)

    assert rows(subscribePattern=f"{topic}-[01]") == everything
    assert rows(assign={names[1]: [0]}) == [row for row in everything if row[:2] == (names[1], 0)]
    starts, ends = {name: {"0": 3, "1": -2} for name in names}, {name: {"0": -1, "1": 7} for name in names}
    wanted = [row for row in everything if (row[2] >= 3 if row[1] == 0 else row[2] < 7)]
    assert rows(subscribePattern=topic, startingOffsets=starts, endingOffsets=ends) == wanted


def test_places_by_time(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with Producer(**cluster.client) as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, timestamp_ms=1_767_323_000_000 + n)
    found = frame(spark, cluster, topic, startingTimestamp="1767323000005", endingTimestamp="1767323000009")
    assert [place[1] for place in places(found)] == [5, 6, 7, 8]
    found = frame(spark, cluster, topic, startingOffsetsByTimestamp={topic: {"0": 1_767_323_000_018}})
    assert [place[1] for place in places(found)] == [18, 19]
    late = {"startingTimestamp": "1767323000020"}
    with pytest.raises(PySparkException, match="has no record at 1767323000020 ms or later; startingOffsetsByTimestampStrategy=latest"):
        frame(spark, cluster, topic, **late).count()
    assert frame(spark, cluster, topic, **late, startingOffsetsByTimestampStrategy="latest").count() == 0


@pytest.mark.main_job
def test_transactions_at_the_end_of_ranges_are_read_as_the_isolation_level_says(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """Aborted records and control batches leave offsets without rows, at the end of the range, too: no task stands still there."""
    cluster.create_topic(topic, 2)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        for number, keep in enumerate((True, False, True, False)):
            with contextlib.suppress(GivenUpError), producer.transaction():
                for n in range(50):
                    producer.send(topic, b"%d %d" % (number, n), partition=n % 2)
                producer.flush()
                if not keep:
                    raise GivenUpError
    ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
    every = log(cluster, topic)
    kept = [place for place in every if place[2] and place[2][:1] in b"02"]
    assert (len(every), len(kept)) == (200, 100)
    assert places(frame(spark, cluster, topic)) == every
    assert places(frame(spark, cluster, topic, isolationLevel="read_committed")) == kept
    committed = {"kafka.isolation.level": "read_committed", "minPartitions": "20"}
    assert places(frame(spark, cluster, topic, **committed)) == kept
    for end in range(ends[0] - 3, ends[0] + 1):
        part = frame(spark, cluster, topic, assign={topic: [0]}, endingOffsets={topic: {"0": end}}, isolationLevel="read_committed")
        assert places(part) == [place for place in kept if place[0] == 0 and place[1] < end]


def test_an_open_transaction_is_behind_the_end_of_a_committed_read(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    send(cluster, topic, 0, 10)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"open")
            producer.flush()
            assert frame(spark, cluster, topic, isolationLevel="read_committed").count() == 10
            assert frame(spark, cluster, topic).count() == 11
            ended = frame(spark, cluster, topic, isolationLevel="read_committed", endingOffsets={topic: {"0": 11}})
            with pytest.raises(PySparkException, match="is to be read from 0 to 11, and its log ends at 10"):
                ended.count()


def test_a_compacted_topic_has_the_rows_that_are_left(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    cluster.create_topic(topic, 1, configs=configs)
    with Producer(**cluster.client, batch_size=5_000) as producer:
        for n in range(2_000):
            producer.send(topic, (b"%d" % n).ljust(2_000), key=b"%d" % (n % 7), partition=0)
            if n % 50 == 0:
                producer.flush()
    until(lambda: len(list(read(topic, **cluster.client))) < 1_000, LONG_S, "the cleaner to have compacted the log")
    deadline = Deadline(LONG_S)
    while (before := log(cluster, topic)) != (found := places(frame(spark, cluster, topic, minPartitions="5"))):
        assert not deadline.passed(), (len(before), len(found))  # the cleaner was at work in between
    assert {place[2].split()[0] for place in found if place[2]} >= {b"%d" % n for n in range(1_993, 2_000)}
    for end in (1_999, 1_500, 1_001):
        some = places(frame(spark, cluster, topic, endingOffsets={topic: {"0": end}}))
        assert all(offset < end for _, offset, _ in some)


@pytest.mark.main_job
def test_records_deleted_before_the_read(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    send(cluster, topic, 0, 100)
    delete_records(cluster, topic, 0, 60)
    starts = {topic: {"0": 10}}
    with pytest.raises(
        PySparkException, match=rf"DataLost: {topic}-0 is to be read from 10 to 100, and its log begins at 60; option failOnD"
    ):
        frame(spark, cluster, topic, startingOffsets=starts).count()
    found = frame(spark, cluster, topic, startingOffsets=starts, failOnDataLoss="false")
    assert [place[1] for place in places(found)] == [*range(60, 100)]
    assert frame(spark, cluster, topic).count() == 40, "earliest is where the log begins now"


def test_records_deleted_between_planning_and_reading(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    send(cluster, topic, 0, 100)
    strict, lenient = (frame(spark, cluster, topic, failOnDataLoss=flag).rdd for flag in ("true", "false"))
    assert strict.getNumPartitions() == lenient.getNumPartitions() == 1, "planned"
    delete_records(cluster, topic, 0, 60)
    with pytest.raises(
        Exception, match=rf"{topic}-0 is to be read from 0 to 100: .*offsets 0 to 59 were deleted.*begins at 60.*failOnDataLoss=false"
    ):
        strict.count()
    assert sorted(row.offset for row in lenient.collect()) == [*range(60, 100)]


def test_a_read_goes_on_while_leaders_are_killed(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    send(cluster, topic, 0, 30_000, size=100)
    found = frame(spark, cluster, topic, minPartitions="12")
    rows = found.rdd
    assert rows.getNumPartitions() == 12
    cluster.kill(cluster.leader(topic, 0))
    try:
        assert rows.map(lambda row: row.offset).count() == 30_000
        assert found.agg(F.sum(F.col("value").cast("string").cast("int"))).first() == Row(449_985_000)
    finally:
        cluster.start_all()
        cluster.wait_full_isr()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOfsets": "earliest"}, "unknown option startingofsets; did you mean startingOffsets?"),
        ({"kafka.fetch.max.byts": "5"}, "unknown consumer property 'fetch.max.byts'; did you mean 'fetch.max.bytes'"),
        ({"kafka.auto.offset.reset": "earliest"}, "option kafka.auto.offset.reset is not supported: startingOffsets says"),
        ({"endingOffsets": "{"}, "option endingOffsets='{': is not JSON"),
        ({"columns": "valeu"}, "option columns: there is no column 'valeu'"),
    ],
)
def test_a_wrong_option_fails_in_load(spark: SparkSession, cluster: Cluster, options: dict[str, str], text: str) -> None:
    with pytest.raises(PySparkException) as caught:
        frame(spark, cluster, "t", **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (None, {}, "option subscribe: the cluster lacks these topics: {}"),
        (None, {"commitOffsetsToGroup": "g"}, "option commitOffsetsToGroup is for streams (spark.readStream), not for batch reads"),
        (None, {"startingOffsets": "latest"}, "option startingOffsets=latest: a batch that starts there has no records"),
        (None, {"delivery": "exactly_once"}, "option delivery is for batch writes"),
        ("value string", {}, "schema: column 'value' is string; it must be binary: cast it after the read"),
        ("values binary", {}, "schema: there is no column 'values' among key, value"),
    ],
)  # fmt: skip
def test_other_mistakes_fail_in_planning(
    spark, cluster: Cluster, topic: str, schema: str | None, options: dict[str, str], text: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        frame(spark, cluster, topic, schema, **options).count()
    assert text.format(topic) in str(caught.value)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.usefixtures("pushdown")
def test_filters_are_pushed_down_where_spark_and_the_option_allow_it(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with Producer(**cluster.client) as producer:
        for n in range(300):
            producer.send(topic, b"%d" % n, partition=n % 3, timestamp_ms=1_767_323_000_000 + n)
    every = log(cluster, topic)
    for option in ("true", "false"):
        found = frame(spark, cluster, topic, filterPushdown=option)
        some = found.where("partition in (0, 2) and offset >= 10 and offset < 40")
        assert places(some) == [place for place in every if place[0] != 1 and 10 <= place[1] < 40]
        assert some.rdd.getNumPartitions() == (2 if option == "true" else 3)
        late = found.where("timestamp >= timestamp_millis(1767323000290)")
        assert places(late) == [place for place in every if int(place[2] or 0) >= 290]
        assert found.where("value = cast('7' as binary)").count() == 1


def test_filter_pushdown_without_the_setting_of_spark_is_an_error_that_names_it(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with pytest.raises(PySparkException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        frame(spark, cluster, topic, filterPushdown="true").count()


def test_rows_go_on_into_python_as_arrow_batches(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    send(cluster, topic, 0, 30_000)

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    found = frame(spark, cluster, topic).mapInArrow(sizes, "rows long").agg(F.sum("rows")).first()
    assert found == Row(30_000)


@pytest.mark.parametrize("large", ["true", "false"])
def test_large_var_types_of_spark_make_no_difference(spark: SparkSession, cluster: Cluster, topic: str, large: str) -> None:
    cluster.create_topic(topic, 1)
    send(cluster, topic, 0, 5)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        assert places(frame(spark, cluster, topic)) == log(cluster, topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
