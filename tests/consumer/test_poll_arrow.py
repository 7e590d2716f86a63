"""Columns out of `poll_arrow`, beside records, and in groups."""

from __future__ import annotations

import gc
import time
from typing import Any

import polars
import pyarrow as pa
import pytest

from pykafka4 import ConfigError, Consumer, CorruptRecord, RecordColumns
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from tests.consumer.consuming import LONG, Maker, damage, fill, numbers, read, topic
from tests.inspection import inspect
from tests.wire.records.columns.reading import lists_of, rows_of

T0 = TopicPartition("t", 0)


def read_columns(consumer: Consumer, count: int, **options: Any) -> list[RecordColumns]:
    """Exactly `count` rows, with polls; without the empty columns."""
    found: list[RecordColumns] = []
    deadline = time.monotonic() + LONG
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, consumer.status()
        if columns := consumer.poll_arrow(0.2, **options):
            found.append(columns)
    assert sum(map(len, found)) == count
    return found


def values_of(found: list[RecordColumns]) -> list[bytes]:
    return [value for columns in found for value in lists_of(columns)["value"]]


def test_columns_have_the_records_of_poll(server: ModelServer, make: Maker) -> None:
    server.create_topic("t", 1)
    records = [
        WireRecord(timestamp_ms=1_700_000_000_000, key=b"k", value=b"v", headers=(("ä", b"1"), ("ä", None), ("", b""))),
        WireRecord(timestamp_ms=-1, key=None, value=None),
        WireRecord(timestamp_ms=0, key=b"", value=b""),
    ]
    server.do(lambda cluster: cluster.append("t", 0, records))
    (columns,) = read_columns(make.assigned(0), 3)
    fields = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
    assert rows_of(columns) == [tuple(getattr(r, name) for name in fields) for r in read(make.assigned(0), 3)]


def test_only_the_chosen_columns_are_returned_in_their_order(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    (columns,) = read_columns(make.assigned(0), 3, columns=["value", "offset"])
    frame = polars.DataFrame(columns)
    assert frame.columns == ["value", "offset"]
    assert frame.rows() == [(b"0", 0), (b"1", 1), (b"2", 2)]


def test_max_rows_limits_a_poll_and_without_it_everything_there_is_returned(server: ModelServer, make: Maker) -> None:
    topic(server, 2000)
    consumer = make.assigned(0)
    assert len(consumer.poll_arrow(LONG, max_rows=4)) == 4
    assert len(consumer.poll_arrow(LONG)) == 1996, "more than max_poll_records"
    with pytest.raises(ConfigError, match=r"max_rows=0: must be an int of at least 1, or None"):
        consumer.poll_arrow(max_rows=0)


def test_a_time_out_returns_empty_columns(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    columns = make.assigned(0).poll_arrow(0, columns=["offset"])
    assert not columns
    assert pa.table(columns).schema.names == ["offset"]


def test_records_that_a_loop_left_are_returned_as_columns(server: ModelServer, make: Maker) -> None:
    topic(server, 40)
    consumer = make.assigned(0)
    for record in consumer:
        if record.offset == 2:
            break
    assert values_of(read_columns(consumer, 37)) == numbers(3, 40)


def test_a_loop_and_a_poll_go_on_behind_columns(server: ModelServer, make: Maker) -> None:
    topic(server, 40)
    consumer = make.assigned(0)
    assert len(consumer.poll_arrow(LONG, max_rows=10)) == 10
    assert next(iter(consumer)).offset == 10
    assert [r.offset for r in consumer.poll(LONG, 2)] == [11, 12]
    assert consumer.position(T0) == 13


def test_commits_and_positions_are_behind_the_columns(server: ModelServer, make: Maker) -> None:
    topic(server, 40)
    consumer = make.assigned(0, group_id="g")
    columns = consumer.poll_arrow(LONG, max_rows=10)
    assert (columns.positions[T0].offset, consumer.position(T0)) == (10, 10)
    consumer.commit()
    assert consumer.committed(T0) == columns.positions[T0]
    columns = consumer.poll_arrow(LONG, max_rows=5)
    consumer.commit(columns.positions)
    assert consumer.committed(T0) == columns.positions[T0]


def test_pause_and_seek(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    consumer = make.assigned(0, 1)
    consumer.pause([("t", 1)])
    assert set(lists_of(pa.concat_batches([pa.record_batch(c) for c in read_columns(consumer, 10)]))["partition"]) == {0}
    consumer.resume([("t", 1)])
    consumer.seek(("t", 0), 7)
    rows = [row for columns in read_columns(consumer, 13) for row in polars.DataFrame(columns).select("partition", "offset").rows()]
    assert sorted(offset for partition, offset in rows if partition == 0) == [7, 8, 9]


def test_a_group_commits_what_columns_returned_before_it_gives_partitions_up(server: ModelServer, make: Maker) -> None:
    topic(server, 20)
    consumer = make.member(enable_auto_commit=True)
    first = consumer.poll_arrow(LONG, max_rows=8)
    assert len(first) == 8
    consumer.close()
    second = make.member()
    assert values_of(read_columns(second, 12)) == numbers(8, 20)


def test_a_corrupt_batch_is_raised_behind_the_rows_before_it(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    fill(server, "t", 0, numbers(3, 6))
    damage(server, 1)
    consumer = make.assigned(0)
    assert values_of(read_columns(consumer, 3)) == numbers(0, 3)
    with pytest.raises(CorruptRecord) as caught:
        consumer.poll_arrow(LONG)
    consumer.seek(T0, caught.value.next_offset)
    fill(server, "t", 0, numbers(6, 7))
    assert values_of(read_columns(consumer, 1)) == [b"6"]


def test_kept_columns_leave_half_of_the_room_for_fetching(server: ModelServer, make: Maker) -> None:
    """An application that keeps all columns goes on reading."""
    server.create_topic("t", 1)
    for i in range(40):
        fill(server, "t", 0, [b"x" * 1000] * 10 if i else numbers(0, 10))
    consumer = make.assigned(0, prefetch_bytes=20_000, max_partition_fetch_bytes=10_000)
    kept = read_columns(consumer, 400)
    assert consumer.stats()["held_bytes"] == sum(columns.nbytes for columns in kept) > 20 * 20_000 - 50_000
    del kept
    gc.collect()
    assert consumer.stats()["held_bytes"] == 0


def test_ctrl_c_loses_no_columns(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 20)
    consumer = make.assigned(0)
    reader = inspect(consumer).session.reader
    assert len(consumer.poll_arrow(LONG, max_rows=5)) == 5

    def leave() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reader, "leave", leave)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll_arrow(LONG, max_rows=5)
    assert values_of(read_columns(consumer, 15)) == numbers(5, 20)
