"""The reader without Spark, on the model cluster: partitions, ranges, losses, batches."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, InputPartition, LessThan
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from pykafka4.errors import ConfigError, KafkaTimeoutError
from pykafka4.spark import data_source, workers
from pykafka4.spark.source.batch import KafkaBatchReader
from pykafka4.spark.source.logs import Logs
from pykafka4.spark.source.losses import DataLost
from pykafka4.spark.source.pushdown import FilteringReader
from pykafka4.spark.source.ranges import OffsetRange
from pykafka4.spark.source.schema import FIELDS
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord

Readers = Callable[..., KafkaBatchReader]


@pytest.fixture
def readers(server: ModelServer) -> Iterator[Readers]:
    def make(schema: StructType | None = None, **options: Any) -> KafkaBatchReader:
        given = {"kafka.bootstrap.servers": server.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "20s", **options}
        if not {"subscribe", "assign", "subscribePattern"} & options.keys():
            given["subscribe"] = "t"
        return data_source.batch_reader(given, schema or data_source.schema(given))

    yield make
    workers.pool().close()


def rows(reader: KafkaBatchReader) -> list[dict[str, Any]]:
    """Read as Spark does: each range by a reader that was pickled."""
    found = []
    for part in reader.partitions():
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))):
            found += batch.to_pylist()
    return found


def ranges(reader: KafkaBatchReader) -> list[str]:
    return [str(part) for part in reader.partitions()]


def as_json(partition_offsets: dict[int, int], topic: str = "t") -> str:
    return json.dumps({topic: partition_offsets})


@pytest.mark.model(topics={"t": 2})
def test_batches_have_the_schema_that_spark_makes_of_ours(server: ModelServer, readers: Readers) -> None:
    server.produce("t", b"a", b"b", partition=1)
    reader = readers(includeHeaders="true")
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    wanted = to_arrow_schema(StructType(list(FIELDS.values())), timezone="UTC")
    assert wanted.equals(batch.schema)
    assert str(wanted.types) == str(
        [
            *(pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"), pa.int32()),
            pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )


@pytest.mark.model(topics={"t": 2})
@pytest.mark.parametrize("names", [["value"], ["offset", "key"], ["headers", "timestampType", "topic"]])
def test_a_schema_of_the_user_and_columns_choose_what_is_read(server: ModelServer, readers: Readers, names: list[str]) -> None:
    server.produce("t", b"a", partition=0)
    by_schema = readers(StructType([FIELDS[name] for name in names]))
    by_columns = readers(columns=",".join(names))
    assert [list(row) for row in rows(by_schema)] == [list(row) for row in rows(by_columns)] == [names]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("values binary", "schema: there is no column 'values' among key, value, topic"),
        ("value string", "schema: column 'value' is string; it must be binary: cast it after the read"),
        ("offset int", "schema: column 'offset' is int; it must be bigint"),
    ],
)
def test_a_wrong_schema_is_refused(readers: Readers, ddl: str, text: str) -> None:
    name, kind = ddl.split()
    types = {"binary": BinaryType(), "string": StringType(), "int": IntegerType()}
    with pytest.raises(ConfigError, match=text):
        readers(StructType([StructField(name, types[kind])]))


def test_a_column_that_is_unknown_is_refused(readers: Readers) -> None:
    with pytest.raises(ConfigError, match="option columns: there is no column 'valeu' among key, value"):
        readers(columns="key,valeu")


def test_options_that_only_a_stream_has_pass_the_schema(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    options = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t", "commitOffsetsToGroup": "g"}
    schema = data_source.schema(options)
    with pytest.raises(ConfigError, match="option commitOffsetsToGroup is for streams"):
        data_source.batch_reader(options, schema)
    del options["commitOffsetsToGroup"]
    options |= {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "7", "endingOffsets": "latest"}
    data_source.batch_reader(options, data_source.schema(options))
    assert "option maxOffsetsPerTrigger has no effect here: it is for streams (spark.readStream), not for batch reads" in caplog.text
    with pytest.raises(ConfigError, match="option minOffsetsPerTrigger=7 is more than maxOffsetsPerTrigger=5"):
        data_source.schema({name: value for name, value in options.items() if name != "endingOffsets"})
    with pytest.raises(ConfigError, match="unknown option nonsense"):
        data_source.schema({**options, "nonsense": "1"})


def test_options_of_a_stream_and_filter_pushdown_are_those_of_a_batch() -> None:
    """The first are only logged there, as in the JVM connector."""
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "maxOffsetsPerTrigger": "10", "filterPushdown": "true"}
    assert data_source.schema(options).names
    with pytest.raises(ConfigError, match="option filterPushdown is for batch reads"):
        data_source.stream_reader(options, data_source.schema(options)).initialOffset()


# -- partitions and offsets


@pytest.mark.model(topics={"orders-1": 2, "orders-2": 1, "returns": 1, "__consumer_offsets": 1})
def test_subscriptions_find_their_partitions(server: ModelServer, readers: Readers) -> None:
    for topic, partition in (("orders-1", 0), ("orders-1", 1), ("orders-2", 0), ("returns", 0)):
        server.produce(topic, b"x", partition=partition)
    assert ranges(readers(subscribe="orders-2,orders-1")) == ["orders-1-0 0 to 1", "orders-1-1 0 to 1", "orders-2-0 0 to 1"]
    assert ranges(readers(subscribePattern="ders-2|ret")) == ["orders-2-0 0 to 1", "returns-0 0 to 1"]
    assert ranges(readers(subscribePattern="nothing")) == []
    assert ranges(readers(assign='{"orders-1":[1],"returns":[0]}')) == ["orders-1-1 0 to 1", "returns-0 0 to 1"]


@pytest.mark.model(topics={"t": 2})
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "t,no,nope"}, "option subscribe: the cluster lacks these topics: no, nope"),
        ({"assign": '{"no":[0]}'}, "option assign: the cluster lacks these topics: no"),
        ({"assign": '{"t":[0,2]}'}, "option assign: t has no partition 2; its number of partitions is 2"),
        ({"startingOffsets": as_json({0: 0})}, "option startingOffsets lacks t-1"),
        ({"endingOffsets": as_json({0: 0, 1: 0, 2: 0})}, "option endingOffsets names t-2, and the read has only t-0, t-1"),
        ({"endingOffsets": as_json({0: 0}, "u")}, "option endingOffsets lacks t-0, t-1"),
        ({"endingOffsetsByTimestamp": as_json({0: 5})}, "option endingOffsetsByTimestamp lacks t-1"),
    ],
)
def test_what_does_not_exist_is_named(readers: Readers, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        readers(**options).partitions()


@pytest.mark.model(topics={"t": 2})
def test_offsets_by_name_and_number(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *[b"x"] * 10, partition=0)
    server.produce("t", *[b"x"] * 5, partition=1)
    assert ranges(readers()) == ["t-0 0 to 10", "t-1 0 to 5"]
    assert ranges(readers(startingOffsets=as_json({0: 4, 1: -2}), endingOffsets=as_json({0: 8, 1: -1}))) == ["t-0 4 to 8", "t-1 0 to 5"]
    assert ranges(readers(startingOffsets=as_json({0: 10, 1: 2}))) == ["t-1 2 to 5"]
    assert ranges(readers(startingOffsets="EARLIEST", endingOffsets="Latest")) == ["t-0 0 to 10", "t-1 0 to 5"]
    found = readers(minPartitions="6")
    assert ranges(found) == ["t-0 0 to 2", "t-0 2 to 5", "t-0 5 to 7", "t-0 7 to 10", "t-1 0 to 2", "t-1 2 to 5"]
    assert [(row["partition"], row["offset"]) for row in rows(found)] == [*((0, n) for n in range(10)), *((1, n) for n in range(5))]


@pytest.mark.model(topics={"t": 1})
def test_an_end_before_the_start_names_both_options(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *[b"x"] * 10, partition=0)
    with pytest.raises(ConfigError, match="options startingOffsets and endingOffsets: t-0 would be read from 8 to 5, and the end must not"):
        readers(startingOffsets=as_json({0: 8}), endingOffsets=as_json({0: 5})).partitions()
    with pytest.raises(ConfigError, match="options startingOffsets and endingOffsets: t-0 would be read from 11 to 10"):
        readers(startingOffsets=as_json({0: 11})).partitions()


@pytest.mark.model(topics={"t": 2})
def test_places_by_time(server: ModelServer, readers: Readers) -> None:
    for n in range(10):
        server.produce("t", b"x", partition=0, timestamp_ms=1_000_000 + n)
    server.produce("t", b"x", partition=1, timestamp_ms=1_000_005)
    at = {"startingTimestamp": "1000003", "endingTimestamp": "1000006"}
    assert ranges(readers(**at)) == ["t-0 3 to 6", "t-1 0 to 1"]
    times = as_json({0: 1_000_004, 1: 0})
    assert ranges(readers(startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=as_json({0: 1_000_007, 1: 1_000_005}))) == [
        "t-0 4 to 7"
    ]
    with pytest.raises(
        ConfigError, match="option startingTimestamp: t-1 has no record at 1000006 ms or later; startingOffsetsByTimestampS"
    ):
        readers(startingTimestamp="1000006").partitions()
    found = readers(startingTimestamp="1000006", startingOffsetsByTimestampStrategy="latest")
    assert ranges(found) == ["t-0 6 to 10"]
    with pytest.raises(ConfigError, match="options startingTimestamp and endingTimestamp: t-0 would be read from 5 to 3"):
        readers(startingTimestamp="1000005", endingTimestamp="1000003", assign='{"t":[0]}').partitions()


# -- filters


def test_filters_are_pushed_down_only_by_a_class_of_its_own(readers: Readers) -> None:
    """Spark refuses a reader that has `pushFilters` while its own setting is off."""
    assert type(readers()) is KafkaBatchReader
    assert type(readers(filterPushdown="false")) is KafkaBatchReader
    assert type(readers(filterPushdown="true")) is FilteringReader
    assert "pushFilters" not in vars(KafkaBatchReader)


@pytest.mark.model(topics={"t": 3})
def test_filters_take_partitions_and_offsets_out_of_the_read(server: ModelServer, readers: Readers) -> None:
    for partition in range(3):
        for n in range(10):
            server.produce("t", b"x", partition=partition, timestamp_ms=1_000_000 + n)
    reader = readers(filterPushdown="true")
    at = GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp(1000.004, UTC))
    assert list(reader.pushFilters([In(("partition",), (0, 2)), LessThan(("offset",), 7), at])) == [at]
    assert ranges(reader) == ["t-0 4 to 7", "t-2 4 to 7"]
    reader.pushFilters([GreaterThan(("timestamp",), datetime.fromtimestamp(2000, UTC))])
    assert reader.partitions() == []
    reader.pushFilters([EqualTo(("partition",), 7)])
    assert reader.partitions() == []


# -- records


@pytest.mark.model(topics={"t": 1})
def test_null_and_empty_are_different_and_headers_are_null_where_there_are_none(server: ModelServer, readers: Readers) -> None:
    records = [
        WireRecord(timestamp_ms=1, key=None, value=None),
        WireRecord(timestamp_ms=2, key=b"", value=b""),
        WireRecord(timestamp_ms=3, key=b"k", value=b"v", headers=[("a", b"1"), ("a", None), ("", b"")]),
        WireRecord(timestamp_ms=4, key=b"k", value=b"v", headers=[("b", b"2")]),
    ]
    server.do(lambda cluster: cluster.append("t", 0, records))
    found = rows(readers(includeHeaders="true"))
    assert [(row["key"], row["value"]) for row in found] == [(None, None), (b"", b""), (b"k", b"v"), (b"k", b"v")]
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}]
    assert [row["headers"] for row in found] == [None, None, headers, [{"key": "b", "value": b"2"}]]
    assert [row["timestamp"].timestamp() for row in found] == [0.001, 0.002, 0.003, 0.004]
    assert {row["timestampType"] for row in found} == {0}


@pytest.mark.model(topics={"t": 1})
def test_a_range_without_a_value_has_no_records(readers: Readers) -> None:
    """Spark makes one when a read has no ranges."""
    assert list(readers().read(InputPartition(None))) == []


@pytest.mark.model(topics={"t": 1})
def test_gaps_in_offsets_at_both_ends_of_a_range(server: ModelServer, readers: Readers) -> None:
    record = WireRecord(timestamp_ms=1, key=None, value=b"x")
    for gap in (5, 20, 3):
        server.do(lambda cluster, gap=gap: cluster.append("t", 0, [record], gap=gap))
    for until in (5, 6, 25, 26, 27, 29, 30):
        found = rows(readers(startingOffsets=as_json({0: 1}), endingOffsets=as_json({0: until})))
        assert [row["offset"] for row in found] == [offset for offset in (5, 26, 30) if offset < until]


# -- losses


@pytest.mark.model(topics={"t": 1})
def test_records_deleted_before_the_read(server: ModelServer, readers: Readers, caplog: pytest.LogCaptureFixture) -> None:
    server.produce("t", *[b"x"] * 10)
    server.do(lambda cluster: cluster.delete_records("t", 0, 6))
    assert ranges(readers()) == ["t-0 6 to 10"], "earliest is where the log begins"
    with pytest.raises(
        DataLost, match="t-0 is to be read from 2 to 10, and its log begins at 6; option failOnDataLoss=false reads the remaining"
    ):
        readers(startingOffsets=as_json({0: 2})).partitions()
    assert ranges(readers(startingOffsets=as_json({0: 2}), failOnDataLoss="false")) == ["t-0 6 to 10"]
    assert ranges(readers(startingOffsets=as_json({0: 2}), endingOffsets=as_json({0: 5}), failOnDataLoss="false")) == []
    assert ranges(readers(endingOffsets=as_json({0: 5}))) == [], "nothing is lost that was to be read"
    assert "t-0 is to be read from 2 to 10, and its log begins at 6; the read continues with the remaining records" in caplog.text


@pytest.mark.model(topics={"t": 1})
def test_an_end_beyond_the_log(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *[b"x"] * 10)
    with pytest.raises(DataLost, match="t-0 is to be read from 0 to 12, and its log ends at 10"):
        readers(endingOffsets=as_json({0: 12})).partitions()
    assert ranges(readers(endingOffsets=as_json({0: 12}), failOnDataLoss="false")) == ["t-0 0 to 10"]
    assert ranges(readers(startingOffsets=as_json({0: 11}), endingOffsets=as_json({0: 12}), failOnDataLoss="false")) == []


@pytest.mark.model(topics={"t": 1})
def test_records_deleted_after_planning(server: ModelServer, readers: Readers, caplog: pytest.LogCaptureFixture) -> None:
    server.produce("t", *[b"x"] * 10)
    part = OffsetRange("t", 0, 2, 9)
    server.do(lambda cluster: cluster.delete_records("t", 0, 6))
    text = "t-0 is to be read from 2 to 9: .*offsets 2 to 5 were deleted .*begins at 6.*; option failOnDataLoss=false reads the remaining"
    with pytest.raises(DataLost, match=text):
        list(readers().read(part))
    (batch,) = readers(failOnDataLoss="false").read(part)
    assert batch["offset"].to_pylist() == [6, 7, 8]
    assert "offsets 2 to 5 are lost" in caplog.text
    server.do(lambda cluster: cluster.delete_records("t", 0, 9))
    assert list(readers(failOnDataLoss="false").read(part)) == []


@pytest.mark.model(topics={"t": 1})
def test_a_topic_that_was_made_again_after_planning(server: ModelServer, readers: Readers, caplog: pytest.LogCaptureFixture) -> None:
    server.produce("t", *[b"old"] * 10)
    (part,) = readers(startingOffsets=as_json({0: 5})).partitions()
    server.do(lambda cluster: cluster.delete_topic("t"))
    server.create_topic("t", 1)
    server.produce("t", *[b"new"] * 10)
    with pytest.raises(DataLost, match="t-0 is to be read from 5 to 10: the topic has been deleted and created again; option failOn"):
        list(readers().read(part))
    assert list(readers(failOnDataLoss="false").read(part)) == []
    assert "t-0 is to be read from 5 to 10: the topic has been deleted and created again; the read continues" in caplog.text
    assert [row["value"] for row in rows(readers())] == [b"new"] * 10


@pytest.mark.model(topics={"t": 1})
def test_what_is_written_during_planning_does_not_put_a_start_behind_its_end(
    server: ModelServer, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.produce("t", *[b"x"] * 10, timestamp_ms=1_000)
    resolve = Logs.resolve

    def resolve_and_write(*arguments: Any, **options: Any) -> Any:
        found = resolve(*arguments, **options)
        server.produce("t", *[b"x"] * 5, timestamp_ms=1_000)
        return found

    monkeypatch.setattr(Logs, "resolve", resolve_and_write)
    reader = readers(startingTimestamp="2000", startingOffsetsByTimestampStrategy="latest")
    assert ranges(reader) == ["t-0 10 to 15"]


@pytest.mark.model(topics={"t": 1})
def test_a_log_that_became_shorter(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *[b"x"] * 10)
    part = OffsetRange("t", 0, 5, 20)
    with pytest.raises((DataLost, KafkaTimeoutError), match=r"t-0 .*20"):
        list(readers(**{"kafkaConsumer.pollTimeoutMs": "1s"}).read(part))


@pytest.mark.model(topics={"t": 1})
def test_a_task_without_progress_ends_in_time(server: ModelServer, readers: Readers) -> None:
    server.produce("t", b"x")
    reader = readers(**{"kafkaConsumer.pollTimeoutMs": "1s"})
    (part,) = reader.partitions()
    for node in range(1, 4):
        server.do(lambda cluster, node=node: cluster.stop_broker(node))
    with pytest.raises(KafkaTimeoutError, match="t-0 is read up to offset 0 of 1, and no further for 1 s"):
        list(reader.read(part))
    with pytest.raises(KafkaTimeoutError):
        reader.partitions()
