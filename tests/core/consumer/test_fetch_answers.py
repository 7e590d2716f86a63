"""Fetch answers: data, answers that come too late, and logs that were cut."""

from __future__ import annotations

import pytest
from consumer_talk import Answer, Talk, batch, fetched_epoch, fetching, partition, tp

from pykafka4.core.subscription import Stage
from pykafka4.errors import CorruptRecord, LogTruncated
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse, ListOffsetsRequest


@pytest.fixture
def talk() -> Talk:
    return fetching()


# ---------------------------------------------------------------- answers that come too late


def test_what_was_fetched_for_a_position_before_a_seek_is_dropped(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    request = talk.fetch_at(1)
    talk.reader.seek(tp(0), 50)
    talk.fetched(request, {tp(0): batch(0, 10)})
    assert talk.poll() == []
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 50}


def test_an_answer_asked_at_another_offset_is_dropped(talk: Talk) -> None:
    """The leader moved: two brokers were asked at the same offset, the second answer must not come twice."""
    talk.assign(tp(0), start=0)
    old = talk.fetch_at(1)
    talk.cluster.set("t", [2, 2, 2])
    talk.run()
    new = talk.fetch_at(2)
    talk.fetched(new, {tp(0): batch(0, 10)})
    talk.fetched(old, {tp(0): batch(0, 10)})
    assert [r.offset for r in talk.poll()] == list(range(10))


def test_partitions_nobody_asked_for_and_those_named_twice_are_ignored(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    parts = [partition(0, batch(0, 5)), partition(0, batch(0, 5)), partition(7, batch(0, 5))]
    talk.answer(talk.fetch_at(1), FetchResponse(session_id=0, responses=[FetchResponse.Topic(topic="t", partitions=parts)]))
    assert len(talk.poll()) == 5


# ---------------------------------------------------------------- data


def test_a_batch_cut_short_is_asked_for_whole(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    whole = batch(0, 1, size=3_000_000)
    talk.fetched(talk.fetch_at(1), {tp(0): whole[:1_000_000]})
    assert talk.fetch_at(1).message.topics[0].partitions[0].partition_max_bytes == len(whole)


def test_a_cut_last_batch_is_fetched_again(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 3) + batch(3, 3)[:-1]})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}


def test_data_that_makes_no_sense_stops_the_partition_with_an_error_and_no_hot_loop(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 2)})
    talk.fetched(talk.fetch_at(1), {tp(0): b"\xff" * 100})
    assert talk.pending(FetchRequest) == []
    assert len(talk.poll()) == 2
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
            talk.poll()
    assert talk.machine.fetcher.positions[tp(0)].stage is Stage.STOPPED
    talk.reader.seek(tp(0), 3)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}


def test_one_large_batch_does_not_make_every_later_fetch_large() -> None:
    talk = Talk(max_partition_fetch_bytes=1000)
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=0)
    large = batch(0, 1, size=5000)

    def asked() -> int:
        return int(talk.fetch_at(1).message.topics[0].partitions[0].partition_max_bytes)

    assert asked() == 1000
    talk.fetched(talk.fetch_at(1), {tp(0): large[:1000]})
    assert asked() == len(large)
    talk.fetched(talk.fetch_at(1), {tp(0): large})
    assert asked() == 1000


# ---------------------------------------------------------------- a log that was cut


def test_a_log_that_was_cut_steps_back_and_no_further(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    diverged = Answer(
        partition_index=0, error_code=0, high_watermark=6, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=2, end_offset=6)
    )
    talk.fetched(talk.fetch_at(1), {tp(0): diverged})
    assert len(talk.poll()) == 10
    assert talk.pending(FetchRequest) == []
    talk.poll()
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 6}
    assert "truncated the log to offset 6" in caplog.text
    assert talk.pending(ListOffsetsRequest) == []


def test_a_second_truncation_is_noticed_before_anything_was_read_after_the_first(talk: Talk) -> None:
    """Without the epoch the broker could only answer OFFSET_OUT_OF_RANGE, and auto_offset_reset would choose where to go on."""
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    diverged = Answer(
        partition_index=0, error_code=0, high_watermark=6, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=2, end_offset=6)
    )
    talk.fetched(talk.fetch_at(1), {tp(0): diverged})
    talk.poll()
    talk.poll()
    talk.run()
    assert fetched_epoch(talk, 6) == 2


def test_a_truncation_is_noticed_after_the_client_fetches_paused_records_again(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    talk.reader.drain()
    assert next(talk.reader.take_one_by_one(10)).offset == 0
    talk.reader.pause(tp(0))  # nine records of the loop's list are fetched again later
    talk.machine.fetcher.resume(talk.reader.claims[tp(0)])
    talk.run()
    assert fetched_epoch(talk, 1) == 3


def test_after_a_seek_the_epoch_before_is_not_known(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    talk.reader.seek(tp(0), 4)
    talk.run()
    assert fetched_epoch(talk, 4) == -1


@pytest.mark.parametrize("policy", ["none", "earliest"])
def test_a_cut_log_is_raised_only_without_a_policy(policy: str) -> None:
    talk = Talk(auto_offset_reset=policy)
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 5)})
    assert len(talk.poll()) == 5
    cut = Answer(
        partition_index=0, error_code=0, high_watermark=3, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=1, end_offset=3)
    )
    talk.fetched(talk.fetch_at(1), {tp(0): cut})
    if policy == "none":
        with pytest.raises(LogTruncated):
            talk.poll()
        talk.run(10)
        assert talk.pending(FetchRequest) == []
        talk.reader.seek(tp(0), 3)
    else:
        talk.poll()
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}
