"""Data that cannot be read: damaged, or larger than an option allows."""

from __future__ import annotations

import contextlib
import sys
import time

import pytest

from pykafka4.core import INFINITY
from pykafka4.errors import ConfigError, CorruptRecord, OffsetOutOfRange, RecordTooLarge
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.compression import CODECS
from tests.consumer.consuming import Maker, damage, fill, numbers, poll_until, read, topic
from tests.inspection import forget_codecs, inspect
from tests.net.net_helpers import until


def test_a_damaged_batch_is_raised_on_every_poll_until_seek_passes_it(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 0)
    fill(server, "t", 0, numbers(3, 6))
    fill(server, "t", 0, numbers(6, 9))
    fill(server, "t", 1, numbers(0, 3))
    damage(server, 1)
    consumer = make.assigned(0)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 3") as caught:
            poll_until(consumer, lambda: False)
    assert consumer.position(("t", 0)) == 3
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 3, 6)
    consumer.seek((error.topic, error.partition), error.next_offset)
    assert [r.offset for r in read(consumer, 3)] == [6, 7, 8]


def test_a_damaged_batch_keeps_no_other_partition_waiting(server: ModelServer, make: Maker) -> None:
    topic(server, 2, 0)
    fill(server, "t", 0, numbers(0, 3))
    damage(server, 0)
    consumer = make.assigned(0, 1)
    with pytest.raises(CorruptRecord):  # it is the first in line
        poll_until(consumer, lambda: False)
    fill(server, "t", 1, numbers(0, 30))
    found: list[int] = []
    deadline = time.monotonic() + 10.0
    while len(found) < 30:
        assert time.monotonic() < deadline, (found, consumer.status())
        with contextlib.suppress(CorruptRecord):
            found += [r.offset for r in consumer.poll(0.05)]
    assert found == list(range(30))
    with pytest.raises(CorruptRecord, match="t-0 at offset 0"):
        poll_until(consumer, lambda: False)


def test_a_partition_that_is_stopped_leaves_the_room_to_others(server: ModelServer, make: Maker) -> None:
    """A paused partition has all the room. Its data is dropped by the first poll that finds nothing else, or only an error."""
    server.do(lambda cluster: cluster.create_topic("t", 3, leaders=[1, 1, 1]))
    for _ in range(20):
        fill(server, "t", 0, [b"x" * 10_000])
    consumer = make.assigned(0, 1, 2, auto_offset_reset="none", prefetch_bytes=100_000, max_partition_fetch_bytes=100_000)
    consumer.seek({("t", 0): 0, ("t", 1): 5_000, ("t", 2): 0})  # type: ignore[dict-item]
    position = inspect(consumer).machine.fetcher.positions
    until(lambda: inspect(consumer).session.reader.resume_at < INFINITY and "stopped" in str(position[TopicPartition("t", 1)].stage.value))
    consumer.pause([("t", 0)])
    for _ in range(20):
        fill(server, "t", 2, [b"y" * 10_000])
    found: list[int] = []

    def read_all() -> bool:
        with contextlib.suppress(OffsetOutOfRange):
            found.extend(record.offset for record in consumer.poll(0.05))
        return len(found) == 20

    until(read_all)
    assert found == [*range(20)]


def test_records_larger_than_every_fetch_option_come_all_the_same(server: ModelServer, make: Maker) -> None:
    server.do(lambda cluster: cluster.create_topic("t", 3, leaders=[1, 1, 1]))
    for p in range(3):
        fill(server, "t", p, [b"x" * 50_000])
        fill(server, "t", p, [b"y" * 50_000])
    consumer = make.assigned(0, 1, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000, prefetch_bytes=2_000)
    assert sorted((r.partition, r.offset) for r in read(consumer, 6)) == [(p, i) for p in range(3) for i in range(2)]


def test_a_batch_over_the_fetch_limit_is_reported_and_delays_no_other_partition(server: ModelServer, make: Maker) -> None:
    server.do(lambda cluster: cluster.create_topic("t", 3, leaders=[1, 1, 1]))
    for p in range(3):
        for _ in range(20):
            fill(server, "t", p, [b"x" * 10_000])
    fill(server, "t", 1, [b"y" * 20_000] * 3)
    for p in range(3):
        fill(server, "t", p, [b"z" * 10_000])
    consumer = make.assigned(0, 1, 2, receive_message_max_bytes=50_000, fetch_max_bytes=50_000, max_partition_fetch_bytes=50_000)
    assert [r.offset for r in read(consumer, 62) if r.partition == 1] == list(range(20))
    for _ in range(2):
        with pytest.raises(
            RecordTooLarge, match=r"t-1 at offset 20: .* exceeds receive_message_max_bytes=50000; raise that option"
        ) as caught:
            poll_until(consumer, lambda: False)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 1, 20, None)
    consumer.seek(("t", 1), 23)
    assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(1, 23)]


def test_a_batch_that_unpacks_to_too_much_is_refused_by_name_and_can_be_passed(server: ModelServer, make: Maker) -> None:
    topic(server, 2)
    fill(server, "t", 0, [b"x" * 100_000] * 3, codec=1)
    fill(server, "t", 0, numbers(5, 6))
    consumer = make.assigned(0, max_decompressed_bytes=10_000)
    assert [r.offset for r in read(consumer, 2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match=r"t-0 at offset 2: .* max_decompressed_bytes.* seek to 5 ") as caught:
            poll_until(consumer, lambda: False)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 2, 5)
    consumer.seek((error.topic, error.partition), error.next_offset)
    assert [r.offset for r in read(consumer, 1)] == [5]


def test_a_batch_whose_codec_is_not_installed_names_its_partition_until_it_is(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 3)
    fill(server, "t", 0, numbers(3, 6), codec=CODECS["zstd"])
    consumer = make.assigned(0)
    forget_codecs()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^t-0 at offset 3: compression_type='zstd' needs the package zstandard, "):
            poll_until(consumer, lambda: False)
    assert consumer.position(("t", 0)) == 3
    monkeypatch.undo()
    assert [r.offset for r in read(consumer, 3)] == [3, 4, 5]
