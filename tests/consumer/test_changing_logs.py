"""Logs that change under the reader, with model brokers: the right records, or a report of the offsets that were lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from pykafka4 import Client, Consumer, LossReason, OffsetsLost, TopicPartition
from pykafka4.errors import InvalidOffset, LogTruncated, OffsetOutOfRange
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord
from tests.consumer.consuming import LONG, fill, numbers, poll_until, read
from tests.net.net_helpers import until

T0 = TopicPartition("t", 0)


@attrs.define
class Reading:
    """A consumer whose losses are noted."""

    consumer: Consumer
    heard: list[OffsetsLost]
    caplog: pytest.LogCaptureFixture

    def lost(self, first: int, until_offset: int, reason: LossReason) -> None:
        """The only loss so far: the event, the count, and the warning."""
        until(lambda: self.heard, "the event")
        assert self.heard == [OffsetsLost(T0, first, until_offset, reason)]
        assert self.consumer.stats()["lost_offsets"] == until_offset - first
        if reason is not LossReason.TRUNCATED:
            self.warned(f"t-0: offsets {first} to {until_offset - 1} ({until_offset - first}) are lost: {reason.value}")

    def warned(self, text: str) -> None:
        """Log lines are written on a thread of their own."""
        until(lambda: text in self.caplog.text, text)

    def reach(self, offset: int) -> None:
        """Poll until the position, without records before it, is `offset`."""
        assert poll_until(self.consumer, lambda: self.consumer.position(T0, LONG) == offset) == []

    def nothing_lost(self) -> None:
        assert self.heard == []
        assert self.consumer.stats()["lost_offsets"] == 0


Start = Callable[..., Reading]


@pytest.fixture
def reading(server: ModelServer, caplog: pytest.LogCaptureFixture) -> Iterator[Start]:
    """Makes a consumer of `t`: of group `g`, with a subscription without a group, or with `assign`."""
    made: list[tuple[Client, Consumer]] = []

    def make(how: str = "assign", reset: str = "earliest", **options: Any) -> Reading:
        client = Client(bootstrap_servers=server.bootstrap_servers, metadata_max_age_ms=200)
        heard: list[OffsetsLost] = []
        client.events(lambda event: heard.append(event) if isinstance(event, OffsetsLost) else None)
        group = {"group_id": "g", "heartbeat_interval_ms": 50} if how == "group" else {}
        consumer = Consumer(client, auto_offset_reset=reset, fetch_max_wait_ms=50, **group, **options)
        made.append((client, consumer))
        consumer.assign([T0]) if how == "assign" else consumer.subscribe(["t"])
        return Reading(consumer, heard, caplog)

    caplog.set_level(logging.WARNING)
    yield make
    for client, consumer in made:
        consumer.close(0.3)
        client.close()


@pytest.fixture(autouse=True)
def log(server: ModelServer) -> None:
    """Ten records in batches of one: every offset can be the start of the log."""
    server.create_topic("t", 1)
    for n in range(10):
        fill(server, "t", 0, numbers(n, n + 1))


def delete_before(server: ModelServer, offset: int) -> None:
    def act(cluster: Any) -> None:
        for copy in cluster.partition("t", 0).copies.values():
            copy.log.delete_before(offset)

    server.do(act)


def stop_at(reading: Reading, offset: int) -> None:
    """Read from `offset` on, with the partition paused: nothing is fetched before `resume`."""
    poll_until(reading.consumer, reading.consumer.assignment)
    reading.consumer.pause([T0])
    reading.consumer.seek(T0, offset)


def offsets(records: list[Any]) -> list[int]:
    return [record.offset for record in records]


# ---------------------------------------------------------------- the log starts later


@pytest.mark.parametrize("how", ["assign", "subscribe", "group"])
@pytest.mark.parametrize(
    ("reset", "goes_on", "reason"),
    [("earliest", 7, LossReason.REMOVED), ("latest", 10, LossReason.RESET), ("by_duration:PT1H", 10, LossReason.RESET)],
)
def test_a_removed_range_is_reported_and_the_rest_is_read(
    server: ModelServer, reading: Start, how: str, reset: str, goes_on: int, reason: LossReason
) -> None:
    """DeleteRecords and retention. The records of the model are of 1970: none of them is in the duration."""
    reader = reading(how, reset)
    stop_at(reader, 4)
    delete_before(server, 7)
    reader.consumer.resume([T0])
    if goes_on == 10:
        reader.reach(10)
    fill(server, "t", 0, numbers(10, 12))
    assert offsets(read(reader.consumer, 12 - goes_on)) == [*range(goes_on, 12)]
    reader.lost(4, goes_on, reason)


def test_with_policy_none_the_range_is_an_error_until_a_seek(server: ModelServer, reading: Start) -> None:
    reader = reading(reset="none")
    stop_at(reader, 4)
    delete_before(server, 7)
    reader.consumer.resume([T0])
    with pytest.raises(OffsetOutOfRange, match=r"offset 4 .* 7 to 10"):
        read(reader.consumer, 1)
    reader.nothing_lost()
    reader.consumer.seek(T0, 7)
    assert offsets(read(reader.consumer, 3)) == [7, 8, 9]


def test_a_committed_offset_in_the_removed_range_is_reported(server: ModelServer, reading: Start) -> None:
    first = reading("group", enable_auto_commit=False)
    poll_until(first.consumer, first.consumer.assignment)
    first.consumer.commit({T0: 2})
    first.consumer.close()
    delete_before(server, 5)
    second = reading("group")
    records = poll_until(second.consumer, second.consumer.assignment)
    assert offsets([*records, *read(second.consumer, 5 - len(records))]) == [5, 6, 7, 8, 9]
    second.lost(2, 5, LossReason.REMOVED)


def test_records_that_were_fetched_before_their_removal_are_returned_and_nothing_is_lost(server: ModelServer, reading: Start) -> None:
    reader = reading()
    assert offsets(read(reader.consumer, 3, max_records=3)) == [0, 1, 2]
    until(lambda: reader.consumer.stats()["buffered_bytes"], "the rest")
    delete_before(server, 10)
    assert offsets(read(reader.consumer, 7)) == [*range(3, 10)]
    reader.nothing_lost()


def test_a_start_at_the_beginning_loses_nothing(server: ModelServer, reading: Start) -> None:
    delete_before(server, 5)
    reader = reading()
    assert offsets(read(reader.consumer, 5)) == [5, 6, 7, 8, 9]
    reader.consumer.seek_to_beginning([T0])
    assert offsets(read(reader.consumer, 5)) == [5, 6, 7, 8, 9]
    reader.nothing_lost()


# ---------------------------------------------------------------- compaction


def test_gaps_of_compaction_are_no_loss(server: ModelServer, reading: Start) -> None:
    def compact(cluster: Any) -> None:
        for copy in cluster.partition("t", 0).copies.values():
            kept = [
                (base, batch) for base, batch in zip(copy.log._bases, copy.log.batches, strict=True) if batch.base_offset not in (5, 6, 9)
            ]
            copy.log._bases[:], copy.log.batches[:] = [base for base, _ in kept], [batch for _, batch in kept]

    server.do(compact)
    reader = reading()
    assert offsets(read(reader.consumer, 7)) == [0, 1, 2, 3, 4, 7, 8]
    reader.nothing_lost()


# ---------------------------------------------------------------- truncation


def test_a_truncated_log_is_reported_with_the_range(server: ModelServer, reading: Start) -> None:
    reader = reading()
    assert offsets(read(reader.consumer, 10)) == [*range(10)]
    server.do(lambda cluster: cluster.unclean_election("t", 0, lost=3))
    fill(server, "t", 0, numbers(20, 22))
    assert [(record.offset, record.value) for record in read(reader.consumer, 2)] == [(7, b"20"), (8, b"21")]
    reader.lost(7, 10, LossReason.TRUNCATED)
    reader.warned("truncated the log to offset 7; lost offsets that were already read: 3")


def test_a_truncated_log_raises_with_policy_none(server: ModelServer, reading: Start) -> None:
    reader = reading(reset="none")
    reader.consumer.seek(T0, 0)
    read(reader.consumer, 10)
    server.do(lambda cluster: cluster.unclean_election("t", 0, lost=3))
    with pytest.raises(LogTruncated):
        read(reader.consumer, 1)


@pytest.mark.parametrize(("reset", "goes_on"), [("earliest", 0), ("latest", 6)])
def test_a_position_behind_the_end_of_a_truncated_log_is_reported(server: ModelServer, reading: Start, reset: str, goes_on: int) -> None:
    """After a seek no epoch is known: the broker only sees an offset that it does not have."""
    reader = reading(reset=reset)
    stop_at(reader, 9)
    server.do(lambda cluster: cluster.unclean_election("t", 0, lost=4))
    reader.consumer.resume([T0])
    if goes_on == 6:
        reader.reach(6)
    fill(server, "t", 0, numbers(20, 21))
    assert offsets(read(reader.consumer, 7 - goes_on)) == [*range(goes_on, 7)]
    reader.warned(f"t-0: offset 9 is beyond the end of the log; reading from offset {goes_on}")


# ---------------------------------------------------------------- the topic goes, and comes back


@pytest.mark.parametrize("how", ["assign", "subscribe", "group"])
@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1H"])
def test_a_recreated_topic_is_read_from_its_beginning_and_the_rest_of_the_former_one_is_reported(
    server: ModelServer, reading: Start, how: str, reset: str
) -> None:
    reader = reading(how, reset)
    poll_until(reader.consumer, reader.consumer.assignment)
    reader.consumer.seek(T0, 0)
    read(reader.consumer, 6, max_records=6)
    reader.consumer.pause([T0])
    reader.consumer.seek(T0, 6)
    server.do(lambda cluster: cluster.recreate_topic("t"))
    fill(server, "t", 0, numbers(20, 23))
    until(lambda: "recreated" in reader.caplog.text, "the new topic")
    reader.consumer.resume([T0])
    records = read(reader.consumer, 3)
    assert [(record.offset, record.value) for record in records] == [(0, b"20"), (1, b"21"), (2, b"22")]
    reader.lost(6, 10, LossReason.RECREATED)


def test_a_recreated_topic_raises_with_policy_none(server: ModelServer, reading: Start) -> None:
    reader = reading(reset="none")
    reader.consumer.seek(T0, 0)
    read(reader.consumer, 10)
    server.do(lambda cluster: cluster.recreate_topic("t"))
    with pytest.raises(InvalidOffset, match="recreated"):
        read(reader.consumer, 1)


def test_a_topic_that_is_deleted_and_comes_back_is_read_from_its_beginning(server: ModelServer, reading: Start) -> None:
    reader = reading("subscribe")
    read(reader.consumer, 10)
    server.do(lambda cluster: cluster.delete_topic("t"))
    until(lambda: "UNKNOWN_TOPIC" in str(reader.consumer.status()), "the deletion")
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(20, 23))
    assert offsets(read(reader.consumer, 3)) == [0, 1, 2]
    until(lambda: reader.heard, "the event")
    assert reader.heard == [OffsetsLost(T0, 10, 10, LossReason.RECREATED)]


def test_a_deleted_topic_of_a_pattern_is_reported_with_its_unread_offsets(server: ModelServer, reading: Start) -> None:
    reader = reading("subscribe")
    reader.consumer.subscribe("t.*")
    read(reader.consumer, 10)
    reader.consumer.pause([T0])
    reader.consumer.seek(T0, 6)
    server.do(lambda cluster: cluster.delete_topic("t"))
    begin = time.monotonic()
    poll_until(reader.consumer, lambda: not reader.consumer.assignment())
    reader.lost(6, 10, LossReason.DELETED)
    assert time.monotonic() - begin < LONG


def test_timestamps_in_the_duration_are_read_behind_a_removed_range(server: ModelServer, reading: Start) -> None:
    now_ms = int(time.time() * 1000)
    server.do(lambda cluster: cluster.append("t", 0, [WireRecord(timestamp_ms=now_ms, value=b"new")]))
    reader = reading(reset="by_duration:PT1H")
    stop_at(reader, 4)
    delete_before(server, 7)
    reader.consumer.resume([T0])
    assert offsets(read(reader.consumer, 1)) == [10]
    reader.lost(4, 10, LossReason.RESET)
