"""`send_arrow` on real brokers: confluent-kafka reads the rows as they were in the table, whichever library made the table."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from integration.cluster import Cluster
from integration.waiting import Deadline, until
from pykafka4 import Producer, SentRows, TransactionError
from pykafka4.wire.records.compression import CODECS
from tests.integration.reading import LONG_S

pytestmark = pytest.mark.cluster

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]  # partition, timestamp, key, value, headers
BEGIN = time.time_ns() // 1_000_000 - 60_000  # brokers delete records of long ago
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS: list[Row] = [
    (0, BEGIN, None, None, []),
    (0, BEGIN + 1, b"", b"", [("a", None), ("a", b""), ("ü", "ß".encode())]),
    (0, BEGIN + 2, "schlüssel".encode(), b"a value of more than twelve bytes", []),
    *[(n % 3, BEGIN + 3 + n, b"%d" % n, b"value %d " % n * (n % 9), [("n", b"%d" % n)] * (n % 3)) for n in range(300)],
]


def foreign(cluster: Cluster, topic: str, count: int) -> list[Row]:
    """What confluent-kafka reads: `count` committed records, partition by partition."""
    options = {
        **cluster.librdkafka,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 1_000,  # it may have asked a broker that did not know all leaders yet
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(options)
    rows: list[Row] = []
    deadline = Deadline(LONG_S)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(3)])
        while len(rows) < count:
            assert not deadline.passed(), f"{len(rows)} of {count} rows"
            for message in consumer.consume(1_000, 0.2):
                assert message.error() is None
                rows.append(
                    (message.partition(), message.timestamp()[1], message.key(), message.value(), list(message.headers() or []))
                )  # fmt: skip
        assert not consumer.consume(1, 0.5), "there are more records than rows"
    finally:
        consumer.close()
    return sorted(rows, key=lambda row: row[0])


def by_partition(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[0])


def text(rows: list[Row]) -> dict[str, list[Any]]:
    """The columns of `rows`, with str for keys and values."""
    partitions, timestamps, keys, cells, headers = zip(*rows, strict=True)
    decoded = [[None if cell is None else cell.decode() for cell in column] for column in (keys, cells)]
    pairs = [[{"key": name, "value": value} for name, value in each] for each in headers]
    return {"partition": list(partitions), "timestamp": list(timestamps), "key": decoded[0], "value": decoded[1], "headers": pairs}


def arrow(rows: list[Row] = ROWS, kind: Any = None) -> Any:
    """`rows` as a pyarrow table, with `kind` (default: binary) for keys and values."""
    columns = text(rows)
    return pa.table(
        {
            "partition": pa.array(columns["partition"], pa.int32()),
            "timestamp": pa.array(columns["timestamp"], pa.timestamp("ms", "UTC")),
            "key": pa.array(columns["key"], pa.string()).cast(kind or pa.binary()),
            "value": pa.array(columns["value"], pa.string()).cast(kind or pa.binary()),
            "headers": pa.array(columns["headers"], HEADERS),
        }
    )


def sliced() -> Any:
    extra = [(2, 0, b"not this", b"one", [])] * 5
    return arrow([*extra, *ROWS, *extra]).slice(5, len(ROWS))


def dictionaries() -> Any:
    table = arrow(kind=pa.string())
    for name in ("key", "value"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].dictionary_encode())
    return table


def frame() -> pl.DataFrame:
    """Strings as views, keys as categories, times without a zone."""
    columns = text(ROWS)
    return pl.DataFrame(columns).with_columns(
        pl.from_epoch("timestamp", "ms"), pl.col("key").cast(pl.Categorical), pl.col("partition").cast(pl.Int8)
    )


def pandas_frame() -> pd.DataFrame:
    columns = text(ROWS)
    return pd.DataFrame(
        {
            "partition": columns["partition"],
            "timestamp": pd.to_datetime(columns["timestamp"], unit="ms", utc=True),
            "key": pd.Series(columns["key"], dtype="str"),
            "value": [None if cell is None else cell.encode() for cell in columns["value"]],
            "headers": columns["headers"],
        }
    )


def relation() -> Any:
    rows = arrow(kind=pa.string())  # noqa: F841  # the query names it
    return duckdb.sql("select partition, timestamp, key, value, headers from rows")


SHAPES: dict[str, Callable[[], Any]] = {
    "pyarrow table": arrow,
    "chunked": lambda: pa.concat_tables([arrow(ROWS[:2]), arrow(ROWS[2:150]), arrow(ROWS[150:])]),
    "sliced": sliced,
    "record batch": lambda: sliced().combine_chunks().to_batches()[0],
    "reader": lambda: arrow().to_reader(max_chunksize=7),
    "large": lambda: arrow(kind=pa.large_string()),
    "views": lambda: arrow(kind=pa.binary_view()),
    "dictionaries": dictionaries,
    "polars": frame,
    "pandas": pandas_frame,
    "duckdb": relation,
}


@pytest.mark.main_job
def test_confluent_kafka_reads_the_rows_of_every_library(cluster: Cluster, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(len(SHAPES))]
    with Producer(**cluster.client) as producer:
        for name, shape in zip(names, SHAPES.values(), strict=True):
            cluster.create_topic(name, 3)
            producer.send_arrow(name, shape())
        producer.flush(LONG_S)
        stats = producer.stats()
        assert (stats.accepted, stats.acked, stats.lost) == (len(ROWS) * len(SHAPES),) * 2 + (0,)
    for name, shape in zip(names, SHAPES, strict=True):
        assert foreign(cluster, name, len(ROWS)) == by_partition(ROWS), shape


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_codecs(cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, 3)
    with Producer(**cluster.client, compression_type=codec) as producer:
        assert producer.send_arrow(topic, frame()).result(LONG_S) == len(ROWS)
    assert foreign(cluster, topic, len(ROWS)) == by_partition(ROWS)


def test_keys_choose_the_partition_that_send_chooses(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    keys = [f"key {n}" for n in range(200)]
    with Producer(**cluster.client) as producer:
        one_by_one = [producer.send(topic, b"one", key=key) for key in keys]
        producer.send_arrow(topic, pl.DataFrame({"key": keys, "value": ["row"] * 200}))
        producer.flush(LONG_S)
        chosen = {key: delivery.result(0).partition for key, delivery in zip(keys, one_by_one, strict=True)}
    found = {key.decode(): partition for partition, _, key, value, _ in foreign(cluster, topic, 400) if value == b"row" and key}
    assert found == chosen


@pytest.mark.main_job
def test_a_transaction_is_committed_and_one_aborted(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions(LONG_S)
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            producer.send_arrow(topic, arrow([(n % 3, BEGIN + n, None, b"aborted", []) for n in range(100)])).result(LONG_S)
            raise ZeroDivisionError
        with producer.transaction():
            rows = producer.send_arrow(topic, frame())
        assert rows.result(0) == len(ROWS)
        with pytest.raises(TransactionError):
            producer.send_arrow(topic, frame())
    assert foreign(cluster, topic, len(ROWS)) == by_partition(ROWS)


@pytest.mark.main_job
def test_a_broker_is_killed_in_the_middle(cluster: Cluster, topic: str) -> None:
    """Each row is in the log once, in order, also those that were in flight to the broker."""
    cluster.create_topic(topic, 3)
    victim = cluster.leader(topic, 0)
    follower = next(node for node in cluster.nodes if node != victim)
    rows = [(n % 3, BEGIN + n, b"%d" % n, b"%d" % n * 20, []) for n in range(30_000)]
    schema = arrow(rows[:1]).schema

    def kill() -> None:
        try:
            until(lambda: producer.stats().in_flight > 0, LONG_S, "rows in flight")
            cluster.kill(victim)
        finally:
            cluster.thaw(follower)

    def batches() -> Iterator[Any]:
        for start in range(0, len(rows), 500):
            if start == 10_000:
                cluster.freeze(follower)  # a leader writes what comes now, and cannot acknowledge it
            if start == 10_500:
                kill()
            yield from arrow(rows[start : start + 500]).to_batches()

    with Producer(**cluster.client, buffer_memory=400_000, max_partition_bytes=400_000) as producer:
        sent: SentRows = producer.send_arrow(topic, pa.RecordBatchReader.from_batches(schema, batches()))
        assert sent.result(LONG_S) == len(rows)
        assert producer.stats().retries > 0
    cluster.start(victim)
    cluster.wait_full_isr([topic])
    found = {partition: [record.value for record in records] for partition, records in cluster.log(topic).items()}
    assert found == {partition: [row[3] for row in rows if row[0] == partition] for partition in range(3)}
