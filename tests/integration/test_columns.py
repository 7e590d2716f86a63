"""Columns: other clients write, ours reads the same rows as records and as columns."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka as foreign
import duckdb
import nanoarrow
import pyarrow as pa
import pytest

from integration.cluster import Cluster
from integration.java.client import JavaRecord, java_produce
from pykafka4 import Consumer, Record, RecordColumns, read_arrow
from pykafka4 import read as bounded
from pykafka4.wire.records.compression import CODECS
from tests.integration.reading import LONG_S
from tests.wire.records.columns.reading import rows_of

pytestmark = pytest.mark.cluster

FIELDS = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
ODD = [  # (key, value, headers)
    (None, None, ()),
    (b"", b"", ()),
    (b"\x00\xff\n", bytes(range(256)), (("a", None), ("a", b""), ("ü", b"\xff"), ("a", b"again"))),
    (b"tombstone", None, (("Ключ", "значение".encode()),)),
    (b"big", bytes(range(250)) * 400, ()),
]


def write_with_confluent(cluster: Cluster, topic: str, codec: str, partitions: int) -> None:
    """A committed transaction, an aborted one, and records outside transactions, all interleaved in each partition."""
    settings = {**cluster.librdkafka, "compression.type": codec}
    plain = foreign.Producer(settings)
    transactional = foreign.Producer({**settings, "transactional.id": f"{topic}-{codec}"})
    transactional.init_transactions(LONG_S)
    for ends in (transactional.commit_transaction, transactional.abort_transaction, transactional.commit_transaction):
        transactional.begin_transaction()
        for n in range(200):
            key, value, headers = ODD[n % len(ODD)] if n % 20 < len(ODD) else (b"%d" % n, b"value %d" % n * 10, (("n", b"%d" % n),))
            for producer in (transactional, plain):
                producer.produce(topic, value, key, partition=n % partitions, headers=[*headers], timestamp=1_700_000_000_000 + n)
        for producer in (transactional, plain):
            assert producer.flush(LONG_S) == 0
        ends(LONG_S)


def write_with_java(cluster: Cluster, topic: str, partitions: int) -> None:
    """A committed transaction in each codec, and an aborted one."""
    records = [JavaRecord(key, value, headers, n % partitions) for n, (key, value, headers) in enumerate(ODD * 10)]
    for number, (codec, ending) in enumerate([("zstd", "abort"), *((codec, "commit") for codec in sorted(CODECS))]):
        properties = {**cluster.java, "transactional.id": f"{topic}-java-{number}"}
        java_produce(cluster.bootstrap, topic, records, codec=codec, properties=properties, transaction=ending)


def read(cluster: Cluster, topic: str, columns: bool, **options: Any) -> list[Any]:
    """What polls return up to the present end of the log: records, or columns."""
    found: list[Any] = []
    with Consumer(**cluster.client, auto_offset_reset="earliest", **options) as consumer:
        ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
        consumer.assign([(topic, partition) for partition in ends])
        deadline = time.monotonic() + LONG_S
        while any(consumer.position((topic, partition)) < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, consumer.status()
            found += [consumer.poll_arrow(0.2)] if columns else consumer.poll(0.2)
    return found


def as_rows(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted((tuple(getattr(r, name) for name in FIELDS) for r in records), key=lambda row: row[:3])


def rows_of_all(found: list[RecordColumns]) -> list[tuple[Any, ...]]:
    """All rows by partition and offset, from arrays that nanoarrow has checked."""
    rows = []
    for columns in found:
        assert nanoarrow.c_array(columns).view().length == len(columns)
        rows += rows_of(columns)
    return sorted(rows, key=lambda row: row[:3])


@pytest.mark.main_job
def test_columns_have_the_rows_of_records_whoever_wrote_them(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    for codec in sorted(CODECS):
        write_with_confluent(cluster, topic, codec, 3)
    write_with_java(cluster, topic, 3)
    for isolation, count in (("read_committed", len(CODECS) * 1050), ("read_uncommitted", len(CODECS) * 1250 + 50)):
        rows = rows_of_all(read(cluster, topic, columns=True, isolation_level=isolation))
        assert len(rows) == count
        assert rows == as_rows(read(cluster, topic, columns=False, isolation_level=isolation))


@pytest.mark.main_job
def test_a_bounded_read_as_a_table_has_the_rows_of_records(cluster: Cluster, topic: str) -> None:
    other = f"{topic}-other"
    cluster.create_topic(topic, 3)
    cluster.create_topic(other, 1)
    write_with_confluent(cluster, topic, "lz4", 3)
    write_with_confluent(cluster, other, "zstd", 1)
    rows = as_rows(list(bounded([topic, other], **cluster.client)))
    assert len(rows) == 2000
    assert rows_of_all([*read_arrow([topic, other], **cluster.client)]) == rows
    table = pa.RecordBatchReader.from_stream(read_arrow([topic, other], max_rows=70, **cluster.client)).read_all()
    assert sorted(table["value"].to_pylist(), key=str) == sorted((row[6] for row in rows), key=str)
    o = read_arrow(topic, columns=["partition", "offset"], start=dict.fromkeys(range(3), 10), **cluster.client)  # noqa: F841  (DuckDB's)
    with duckdb.connect() as connection:
        found = connection.sql('select partition, count(*), sum("offset") from o group by 1 order by 1').fetchall()
    offsets = [[row[2] for row in rows if row[0] == topic and row[1] == p and row[2] >= 10] for p in range(3)]
    assert found == [(p, len(numbers), sum(numbers)) for p, numbers in enumerate(offsets)]
