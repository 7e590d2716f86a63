"""`poll_raw`: whole batches, with positions, commits and errors as with `poll`."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pykafka4 import ConfigError, Consumer, CorruptRecord, RawBatch, TopicPartition
from pykafka4.testing import ModelCluster, ModelServer
from pykafka4.wire.records.batch import WireRecord, build_batch, records_of
from pykafka4.wire.records.decoder import read_header
from tests.consumer.consuming import LONG, Maker
from tests.net.net_helpers import until
from tests.testing.transaction_client import Writer

pytestmark = pytest.mark.model(topics={"t": 1})
TP = TopicPartition("t", 0)


def values(batches: list[RawBatch]) -> list[bytes]:
    """The values in these batches, in order."""
    return [record.value or b"" for batch in batches for record in records_of(read_header(memoryview(batch.data)))]


def append(server: ModelServer, *values: bytes, codec: int = 0, gap: int = 0) -> None:
    server.do(lambda cluster: cluster.append("t", 0, [WireRecord(value=value, timestamp_ms=5) for value in values], codec=codec, gap=gap))


def store(server: ModelServer, data: bytes) -> None:
    """Put a batch into the log as it is, at the end of it."""

    def put(cluster: Any) -> None:
        target = cluster.topics["t"].partitions[0]
        base = target.log.end_offset
        target.log.store(struct.pack(">q", base) + data[8:])
        cluster.appended(target, base)

    server.do(put)


def transact(cluster: ModelCluster, value: bytes, *, commit: bool) -> None:
    """A transaction with one record."""
    writer = Writer(cluster, name=value.decode())
    assert [writer.begin(), writer.write(value, partition=0), writer.end(commit)] == ["NONE"] * 3


def read(consumer: Consumer, count: int, **bounds: Any) -> list[RawBatch]:
    """At least `count` batches."""
    found: list[RawBatch] = []

    def enough() -> bool:
        found.extend(consumer.poll_raw(0.1, **bounds))
        return len(found) >= count

    until(enough)
    return found


def test_batches_come_as_they_are_stored(server: ModelServer, make: Maker) -> None:
    for codec in range(5):
        append(server, b"%d" % codec, b"x" * 50, codec=codec)
    consumer = make.assigned(0)
    batches = read(consumer, 5)
    stored = server.do(lambda cluster: [batch.data for batch in cluster.log("t", 0).batches])
    assert [batch.data for batch in batches] == stored
    assert [(batch.topic, batch.partition, batch.base_offset, batch.codec) for batch in batches] == [
        ("t", 0, 2 * n, name) for n, name in enumerate(["none", "gzip", "snappy", "lz4", "zstd"])
    ]
    assert consumer.position(TP) == 10


def test_a_poll_ends_with_max_batches_or_max_bytes(server: ModelServer, make: Maker) -> None:
    for n in range(6):
        append(server, b"%d" % n)
    consumer = make.assigned(0)
    until(lambda: consumer.lag(TP) is not None or consumer.poll_raw(0, 1))
    consumer.seek(TP, 0)
    first = consumer.poll_raw(LONG, max_batches=2)
    second = consumer.poll_raw(LONG, max_bytes=1)
    assert values(first + second) == [b"0", b"1", b"2"]
    assert consumer.position(TP) == 3


@pytest.mark.parametrize(("bounds", "text"), [({"max_batches": 0}, "max_batches=0"), ({"max_bytes": "1"}, "max_bytes='1'")])
def test_bounds_that_are_no_numbers_are_refused(make: Maker, bounds: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make.assigned(0).poll_raw(0, **bounds)


def test_reading_goes_on_in_the_middle_of_a_batch(server: ModelServer, make: Maker) -> None:
    append(server, *[b"%d" % n for n in range(10)], codec=1)
    consumer = make.assigned(0)
    assert [record.value for record in consumer.poll(LONG, 3)] == [b"0", b"1", b"2"]
    (batch,) = read(consumer, 1)
    assert (batch.base_offset, batch.last_offset, batch.count, batch.codec) == (3, 9, 7, "gzip")
    assert values([batch]) == [b"%d" % n for n in range(3, 10)]
    consumer.seek(TP, 8)
    assert values(read(consumer, 1)) == [b"8", b"9"]
    append(server, b"10", b"11")
    assert [record.value for record in consumer.poll(LONG)] == [b"10", b"11"]


def test_records_that_a_loop_has_left_come_in_batches(server: ModelServer, make: Maker) -> None:
    append(server, *[b"%d" % n for n in range(10)])
    consumer = make.assigned(0)
    for record in consumer:
        if record.value == b"4":
            break
    assert values(read(consumer, 1)) == [b"%d" % n for n in range(5, 10)]


def test_markers_and_aborted_batches_are_passed_over(server: ModelServer, make: Maker) -> None:
    append(server, b"before")
    server.do(lambda cluster: transact(cluster, b"aborted", commit=False))
    server.do(lambda cluster: transact(cluster, b"committed", commit=True))
    append(server, b"after")
    consumer = make.assigned(0, isolation_level="read_committed")
    assert values(read(consumer, 3)) == [b"before", b"committed", b"after"]
    until(lambda: consumer.poll_raw(0.1) == [] and consumer.position(TP) == 6)
    assert values(read(make.assigned(0), 4)) == [b"before", b"aborted", b"committed", b"after"]


def test_gaps_are_kept_and_positions_behind_them(server: ModelServer, make: Maker) -> None:
    store(server, build_batch([WireRecord(offset=1, value=b"1"), WireRecord(offset=4, value=b"4")], last_offset_delta=9))
    consumer = make.assigned(0)
    (batch,) = read(consumer, 1)
    assert (batch.base_offset, batch.last_offset, batch.count) == (0, 9, 2)
    assert consumer.position(TP) == 10


def test_a_damaged_batch_raises_and_is_skipped_by_a_seek(server: ModelServer, make: Maker) -> None:
    append(server, b"fine")
    damaged = bytearray(build_batch([WireRecord(value=b"damaged")]))
    damaged[-3] ^= 1
    store(server, bytes(damaged))
    append(server, b"behind")
    consumer = make.assigned(0)
    assert values(read(consumer, 1)) == [b"fine"]
    with pytest.raises(CorruptRecord, match="at offset 1") as caught:
        read(consumer, 1)
    assert caught.value.next_offset == 2
    consumer.seek(TP, 2)
    assert values(read(consumer, 1)) == [b"behind"]


def test_batches_in_hand_are_committed_like_records(server: ModelServer, make: Maker) -> None:
    for n in range(3):
        append(server, b"%d" % n, b"more")
    consumer = make.member(enable_auto_commit=False, group_id="raw")
    until(lambda: consumer.poll_raw(0.1, max_batches=1))
    consumer.commit()
    assert consumer.committed([TP])[TP].offset == 2
    consumer.close()
    again = make.member(enable_auto_commit=False, group_id="raw")
    assert values(read(again, 2)) == [b"1", b"more", b"2", b"more"]


def test_a_batch_of_which_poll_arrow_has_returned_a_part_comes_without_this_part(server: ModelServer, make: Maker) -> None:
    store(server, build_batch([WireRecord(value=value, timestamp_ms=5) for value in (b"a", b"b", b"c")]))
    consumer = make.assigned(0)
    assert len(consumer.poll_arrow(LONG, max_rows=2)) == 2
    assert values(consumer.poll_raw(LONG)) == [b"c"]
