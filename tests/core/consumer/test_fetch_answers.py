"""Fetch answers: data, answers that come too late, and truncated logs."""

from __future__ import annotations

import struct

import pytest

from pykafka4.core.consumer.fetch_answers import MOST_CUT_OFF
from pykafka4.core.subscription import Stage
from pykafka4.errors import CorruptRecord, LogTruncated, RecordTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse, ListOffsetsRequest
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.core.consumer_harness import Answer, ConsumerHarness, batch, fetched_epoch, fetching, partition, tp
from tests.wire.records.chunk_bytes import resealed


@pytest.fixture
def harness() -> ConsumerHarness:
    return fetching()


# ---------------------------------------------------------------- answers that come too late


def test_what_was_fetched_for_a_position_before_a_seek_is_dropped(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    request = harness.fetch_at(1)
    harness.reader.seek(tp(0), 50)
    harness.fetched(request, {tp(0): batch(0, 10)})
    assert harness.poll() == []
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 50}


@pytest.mark.parametrize("late", [batch(0, 10), batch(0, 20), "OFFSET_OUT_OF_RANGE"], ids=["the same", "more", "out of range"])
def test_an_answer_asked_at_another_offset_is_dropped(harness: ConsumerHarness, late: bytes | str) -> None:
    """The leader moved: two brokers were asked at the same offset, and the new leader was the first to answer."""
    harness.assign(tp(0), start=0)
    old = harness.fetch_at(1)
    harness.cluster.set("t", [2, 2, 2])
    harness.run()
    new = harness.fetch_at(2)
    harness.fetched(new, {tp(0): batch(0, 10)})
    harness.fetched(old, {tp(0): late})
    assert [r.offset for r in harness.poll()] == list(range(10))
    assert harness.asked(harness.fetch_at(2)) == {tp(0): 10}
    assert harness.pending(ListOffsetsRequest) == []


def test_unrequested_and_repeated_partitions_of_an_answer_are_ignored(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    parts = [partition(0, batch(0, 5)), partition(0, batch(0, 5)), partition(7, batch(0, 5))]
    harness.answer(harness.fetch_at(1), FetchResponse(session_id=0, responses=[FetchResponse.Topic(topic="t", partitions=parts)]))
    assert len(harness.poll()) == 5


# ---------------------------------------------------------------- data


def test_a_partition_whose_batch_cannot_be_read_is_fetched_no_more(harness: ConsumerHarness) -> None:
    (claim,) = harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 2)[:-1] + b"?"})
    with pytest.raises(CorruptRecord):
        harness.poll()
    harness.fetched(harness.fetch_at(1), {tp(0): batch(2, 2)})
    assert claim.delivered == claim.consumed
    assert harness.pending(FetchRequest) == []
    harness.reader.seek(tp(0), 2)
    harness.run()
    harness.fetched(harness.fetch_at(1), {tp(0): batch(2, 2)})
    assert [record.offset for record in harness.poll()] == [2, 3]


def test_a_truncated_batch_is_fetched_again_whole(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    whole = batch(0, 1, size=3_000_000)
    harness.fetched(harness.fetch_at(1), {tp(0): whole[:1_000_000]})
    assert harness.fetch_at(1).message.topics[0].partitions[0].partition_max_bytes == len(whole)


def test_a_first_batch_that_is_cut_off_again_and_again_is_corrupt(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=5)
    part = batch(5, 1, size=3_000)[:-1]
    for _ in range(MOST_CUT_OFF + 1):
        harness.fetched(harness.fetch_at(1), {tp(0): part})
    assert harness.pending(FetchRequest) == []
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"t-0 at offset 5: the broker returns only a part of a batch of 3,0\d\d bytes") as caught:
            harness.poll()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 5)
    harness.reader.seek(tp(0), 5)
    harness.run()
    harness.fetched(harness.fetch_at(1), {tp(0): batch(5, 1, size=3_000)})
    assert [record.offset for record in harness.poll()] == [5]


def test_a_batch_that_is_cut_off_now_and_then_is_read(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    for first in range(4):
        for _ in range(MOST_CUT_OFF):
            harness.fetched(harness.fetch_at(1), {tp(0): batch(first, 1)[:-1]})
        harness.fetched(harness.fetch_at(1), {tp(0): batch(first, 1)})
    assert [record.offset for record in harness.poll()] == [0, 1, 2, 3]


def test_a_batch_that_others_of_the_response_cut_off_is_fetched_alone_and_read(harness: ConsumerHarness) -> None:
    harness.cluster.set("t", [1, 1, 1])
    harness.assign(tp(0), tp(1), start=0)
    whole = batch(0, 1, size=3_000)
    for first in range(MOST_CUT_OFF):
        request = harness.fetch_at(1)
        assert harness.asked(request) == {tp(0): first, tp(1): 0}
        harness.fetched(request, {tp(0): batch(first, 1), tp(1): whole[:100]})
    alone = harness.fetch_at(1)
    assert harness.asked(alone) == {tp(1): 0}
    harness.fetched(alone, {tp(1): whole})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): MOST_CUT_OFF, tp(1): 1}
    assert sorted((record.partition, record.offset) for record in harness.poll()) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_a_batch_larger_than_any_response_is_refused_at_once(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    size = harness.config.receive_message_max_bytes
    harness.fetched(harness.fetch_at(1), {tp(0): struct.pack(">qiib", 0, size, -1, 2) + bytes(100)})
    with pytest.raises(RecordTooLarge, match=f"t-0 at offset 0: .* exceeds receive_message_max_bytes={size}; raise that option"):
        harness.poll()
    assert harness.pending(FetchRequest) == []


def test_records_before_the_position_only_are_corrupt(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=5)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3)})
    assert harness.pending(FetchRequest) == []
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 5: the broker returned only records before that offset"):
            harness.poll()


def test_a_batch_that_claims_offsets_behind_the_log_does_not_move_the_position(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    claims = batch(0, 2) + resealed(batch(2, 2), last=2**31 - 1)
    harness.fetched(harness.fetch_at(1), {tp(0): Answer(partition_index=0, error_code=0, high_watermark=4, records=claims)})
    assert [record.offset for record in harness.poll()] == [0, 1]
    with pytest.raises(CorruptRecord, match="t-0 at offset 2: "):
        harness.poll()
    assert harness.reader.positions() == {tp(0): 2}


def test_a_cut_last_batch_is_fetched_again(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3) + batch(3, 3)[:-1]})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 3}


def test_corrupt_data_stops_the_partition_with_an_error_and_no_busy_loop(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 2)})
    harness.fetched(harness.fetch_at(1), {tp(0): b"\xff" * 100})
    assert harness.pending(FetchRequest) == []
    assert len(harness.poll()) == 2
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
            harness.poll()
    assert harness.machine.fetcher.positions[tp(0)].stage is Stage.STOPPED
    harness.reader.seek(tp(0), 3)
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 3}


def test_one_large_batch_does_not_make_every_later_fetch_large() -> None:
    harness = ConsumerHarness(max_partition_fetch_bytes=1000)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    large = batch(0, 1, size=5000)

    def asked() -> int:
        return int(harness.fetch_at(1).message.topics[0].partitions[0].partition_max_bytes)

    assert asked() == 1000
    harness.fetched(harness.fetch_at(1), {tp(0): large[:1000]})
    assert asked() == len(large)
    harness.fetched(harness.fetch_at(1), {tp(0): large})
    assert asked() == 1000


# ---------------------------------------------------------------- a log that was cut


def test_a_truncated_log_moves_the_position_back_once(harness: ConsumerHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    diverged = Answer(
        partition_index=0, error_code=0, high_watermark=6, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=2, end_offset=6)
    )
    harness.fetched(harness.fetch_at(1), {tp(0): diverged})
    assert len(harness.poll()) == 10
    assert harness.pending(FetchRequest) == []
    harness.poll()
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 6}
    assert "truncated the log to offset 6" in caplog.text
    assert harness.pending(ListOffsetsRequest) == []


def test_a_second_truncation_is_noticed_before_anything_was_read_after_the_first(harness: ConsumerHarness) -> None:
    """Without the epoch the broker could only answer OFFSET_OUT_OF_RANGE, and auto_offset_reset would choose where to go on."""
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    diverged = Answer(
        partition_index=0, error_code=0, high_watermark=6, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=2, end_offset=6)
    )
    harness.fetched(harness.fetch_at(1), {tp(0): diverged})
    harness.poll()
    harness.poll()
    harness.run()
    assert fetched_epoch(harness, 6) == 2


def test_a_truncation_is_noticed_after_the_client_fetches_paused_records_again(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    assert next(harness.loop()).offset == 0
    harness.reader.pause(tp(0))  # nine records of the loop's list are fetched again later
    harness.machine.fetcher.resume(harness.reader.claims[tp(0)])
    harness.run()
    assert fetched_epoch(harness, 1) == 3


def test_after_a_seek_the_epoch_before_is_not_known(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    harness.reader.seek(tp(0), 4)
    harness.run()
    assert fetched_epoch(harness, 4) == -1


@pytest.mark.parametrize("policy", ["none", "earliest"])
def test_a_truncated_log_is_raised_only_without_a_policy(policy: str) -> None:
    harness = ConsumerHarness(auto_offset_reset=policy)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 5)})
    assert len(harness.poll()) == 5
    cut = Answer(
        partition_index=0, error_code=0, high_watermark=3, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=1, end_offset=3)
    )
    harness.fetched(harness.fetch_at(1), {tp(0): cut})
    if policy == "none":
        with pytest.raises(LogTruncated):
            harness.poll()
        harness.run(10)
        assert harness.pending(FetchRequest) == []
        harness.reader.seek(tp(0), 3)
    else:
        harness.poll()
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 3}


# ---------------------------------------------------------------- isolation


@pytest.mark.parametrize(
    ("level", "stable", "end"),
    [("read_uncommitted", 7, 9), ("read_committed", 7, 7), ("read_committed", -1, 9)],
    ids=["uncommitted", "committed", "committed, from a broker without transactions"],
)
def test_the_end_is_where_the_isolation_level_stops_reading(level: str, stable: int, end: int) -> None:
    harness = fetching(isolation_level=level)
    harness.assign(tp(0), start=0)
    answer = Answer(partition_index=0, error_code=0, high_watermark=9, last_stable_offset=stable, records=batch(0, 7))
    harness.fetched(harness.fetch_at(1), {tp(0): answer})
    assert harness.machine.fetcher.positions[tp(0)].claim.end == end


@pytest.mark.parametrize(("level", "read"), [("read_uncommitted", [0, 1, 2]), ("read_committed", [])])
def test_aborted_transactions_count_only_for_readers_of_committed_records(level: str, read: list[int]) -> None:
    harness = fetching(isolation_level=level)
    harness.assign(tp(0), start=0)
    data = build_batch([WireRecord(value=b"v")] * 3, producer_id=5, producer_epoch=0, transactional=True)
    aborted = [Answer.AbortedTransaction(producer_id=5, first_offset=0)]
    answer = Answer(partition_index=0, error_code=0, high_watermark=3, last_stable_offset=3, aborted_transactions=aborted, records=data)
    harness.fetched(harness.fetch_at(1), {tp(0): answer})
    assert [r.offset for r in harness.poll()] == read
    assert harness.reader.position(tp(0)) == 3
