"""Tasks of the sink with a real producer, on model brokers: each row acknowledged, the first failure in time, memory bounded."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from pykafka4.errors import BufferFull, ConfigError, DeliveryFailed
from pykafka4.spark import arrow_writer, worker_stats, workers
from pykafka4.spark.options import Use
from pykafka4.spark.sink import task
from pykafka4.spark.sink.batch import KafkaBatchWriter
from pykafka4.spark.sink.options import SinkOptions
from pykafka4.spark.sink.stream import KafkaStreamWriter
from pykafka4.spark.sink.task import Written, write_batches
from pykafka4.spark.sink.topics import by_topic
from pykafka4.testing import ModelServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Three brokers, a topic of two partitions, and a worker that keeps nothing yet."""
    monkeypatch.setattr(workers, "_pools", {})
    with ModelServer() as brokers:
        brokers.create_topic("t", 2)
        yield brokers
        workers.close()


def sink(server: ModelServer, topic: str | None = "t", **options: Any) -> SinkOptions:
    return SinkOptions({"bootstrap_servers": server.bootstrap_servers, **options}, topic)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def values(server: ModelServer, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in server.records(topic)]


def alternating(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """Batches with a row for each partition; pauses leave the machine to others."""
    for number in numbers:
        time.sleep(0.001)
        yield batch(value=[f"{number} a", f"{number} b"], partition=[0, 1])


def test_when_a_task_ends_everything_is_in_the_log_and_counted(server: ModelServer) -> None:
    found = write_batches(sink(server, linger_ms=10_000), alternating(iter(range(250))))
    assert found == Written({"t": 500})
    assert sorted(values(server)) == sorted(f"{n} {p}".encode() for n in range(250) for p in "ab")


def test_tasks_share_a_producer_and_empty_batches_make_none(server: ModelServer) -> None:
    empty = batch(value=pa.array([], pa.string()))
    assert write_batches(sink(server), [empty]) == write_batches(sink(server), []) == Written({})
    assert worker_stats() == []
    for value in "ab":
        write_batches(sink(server), [empty, batch(value=[value]), empty])
    assert [stats.acked for stats in worker_stats()] == [2]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_the_column_topic_may_have_any_type_of_text_and_slices_keep_order(kind: pa.DataType) -> None:
    names = ["b", "a", "b", "c", "a", "b"] * 3
    whole = batch(topic=pa.array(names).cast(kind), value=pa.array(range(18)))
    for begin, length in ((0, 18), (5, 9), (2, 1)):
        found = [(topic, part.column("value").to_pylist()) for topic, part in by_topic(whole.slice(begin, length), {"value"})]
        rows = range(begin, begin + length)
        first = dict.fromkeys(names[n] for n in rows)
        assert dict(found) == {topic: [n for n in rows if names[n] == topic] for topic in first}
        assert len(found) == len(first)


def test_rows_are_counted_by_topic(server: ModelServer) -> None:
    server.create_topic("u", 1)
    rows = [batch(topic=["t", "u", "u"], value=["1", "2", "3"]), batch(topic=["u"], value=["4"])]
    assert write_batches(sink(server, None), rows) == Written({"t": 1, "u": 3})
    assert values(server, "u") == [b"2", b"3", b"4"]


def test_a_null_topic_is_an_error_with_its_row(server: ModelServer) -> None:
    with pytest.raises(ValueError, match="column 'topic' is null in row 1 of a batch of 2; filter such rows, or set the option topic"):
        write_batches(sink(server, None), [batch(topic=["t", None], value=["1", "2"])])
    with pytest.raises(ConfigError, match="there is no column 'topic' among value, and no option topic; set one of the two"):
        write_batches(sink(server, None), [batch(value=["1"])])
    two = pa.RecordBatch.from_arrays([pa.array(["t"]), pa.array(["t"]), pa.array(["1"])], names=["topic", "topic", "value"])
    with pytest.raises(ConfigError, match="there are 2 columns 'topic'; rename or drop the others, or set the option topic"):
        write_batches(sink(server, None), [two])
    assert worker_stats() == []


@pytest.mark.parametrize("size", [10, 1000])  # of a slice: less than a row has, too
def test_a_large_batch_is_sent_in_slices_without_losing_a_row(server: ModelServer, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(task, "SLICE_BYTES", size)
    assert write_batches(sink(server), [batch(value=[f"{n:0100}" for n in range(1000)])]).rows == 1000
    assert sorted(map(int, filter(None, values(server)))) == list(range(1000))


def test_one_partition_without_a_leader_fails_the_task_in_time_although_rows_keep_coming(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    begun = time.monotonic()
    with pytest.raises(DeliveryFailed) as caught:
        write_batches(sink(server, delivery_timeout_ms=1000), alternating(count()))
    assert time.monotonic() - begun < 4.0
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert caught.value.cause is not None
    assert worker_stats() == []


def test_the_next_task_knows_nothing_of_the_failed_one(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    options = sink(server, delivery_timeout_ms=1000)
    with pytest.raises(DeliveryFailed):
        write_batches(options, [batch(value=["lost"], partition=[0])])
    assert write_batches(options, [batch(value=["kept"], partition=[1])]).rows == 1
    assert values(server) == [b"kept"]
    assert [(stats.acked, stats.lost) for stats in worker_stats()] == [(1, 0)]


def test_a_full_buffer_says_which_partition_is_in_the_way_and_why(server: ModelServer) -> None:
    options = sink(server, buffer_memory=65_536, max_partition_bytes=32_768, max_block_ms=300, batch_size=4096)
    write_batches(options, [batch(value=["knows the topic"], partition=[0])])
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    with pytest.raises(BufferFull, match="t-0 needs") as caught:
        write_batches(options, [batch(value=["x" * 1000] * 1000, partition=[0] * 1000)])
    assert any("t-0 is offline: " in note for note in caught.value.__notes__), caught.value.__notes__


def test_an_error_of_the_rows_drops_what_is_not_yet_sent(server: ModelServer) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(value=["early"])
        raise ZeroDivisionError

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        write_batches(sink(server, linger_ms=60_000, delivery_timeout_ms=120_000), rows())
    assert time.monotonic() - begun < 10.0
    assert worker_stats() == []


def test_writers_travel_and_neither_shows_a_secret() -> None:
    options = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "SASL_SSL", "topic": "t"}
    options |= {"kafka.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'}
    for kind, use in ((KafkaBatchWriter, Use.BATCH_WRITE), (KafkaStreamWriter, Use.STREAM_WRITE)):
        writer = kind(SinkOptions.parse(options, use))
        assert "hush" not in repr(writer)
        assert pickle.loads(pickle.dumps(writer)) == writer
        assert writer.options.client["sasl_password"] == "hush"


def test_abort_and_commit_take_what_spark_hands_them(caplog: pytest.LogCaptureFixture) -> None:
    options = SinkOptions({"bootstrap_servers": "a:1"}, "t")
    KafkaBatchWriter(options).commit([])
    KafkaBatchWriter(options).abort([Written({"t": 2}), None])
    KafkaStreamWriter(options).commit([Written({})], batchId=1)
    KafkaStreamWriter(options).abort([None], batchId=2)
    assert [record.message for record in caplog.records] == [
        "the job failed; rows of its ended tasks stay in the log: 2 to t",
        "micro-batch 2 failed; rows of its ended tasks stay in the log: none",
    ]


# -- arrow_writer


def test_the_arrow_writer_yields_how_many_rows_were_sent(server: ModelServer) -> None:
    writer = arrow_writer({"bootstrap_servers": server.bootstrap_servers}, topic="t", value="payload", key=None)
    assert writer.schema == "sent bigint"
    found = list(writer(iter([batch(payload=["a", "b"]), batch(payload=["c"])])))
    assert [each.to_pylist() for each in found] == [[{"sent": 3}]]
    assert [each.to_pylist() for each in writer(iter([]))] == [[{"sent": 0}]]
    assert sorted(filter(None, values(server))) == [b"a", b"b", b"c"]


def test_the_arrow_writer_checks_its_options_at_once() -> None:
    config = {"bootstrap_servers": "a:1"}
    with pytest.raises(ConfigError, match="did you mean 'linger_ms'"):
        arrow_writer({**config, "linger": 1}, topic="t")
    with pytest.raises(ConfigError, match="topic 'a b'"):
        arrow_writer(config, topic="a b")
    with pytest.raises(ConfigError, match="delivery=exactly_once"):
        arrow_writer({**config, "transactional_id": "x"}, topic="t")
    with pytest.raises(ConfigError, match="value=''"):
        arrow_writer(config, topic="t", value="")
