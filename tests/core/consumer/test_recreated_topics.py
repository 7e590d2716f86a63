"""Topics that are deleted and created again: what was read of the old topic is not committed in the new one, and that is read whole."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import pytest

from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.core.subscription import Start, Truncated
from pykafka4.errors import InvalidOffset
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest
from tests.core.consumer_harness import ConsumerHarness, batch, tp


@pytest.fixture
def harness() -> ConsumerHarness:
    return made()


def made(**options: str) -> ConsumerHarness:
    """A consumer with three records in hand, of offsets 40 to 42, which were finished when it polled again."""
    harness = ConsumerHarness(group_id="g", auto_commit_interval_ms=5_000, **options)
    harness.cluster.set("t", [1], topic_id=UUID(int=1))
    harness.assign(tp(0), start=40)
    harness.fetched(harness.one(FetchRequest), {tp(0): batch(40, 3)})
    assert len(harness.poll(3)) == 3
    harness.poll()
    return harness


def recreate(harness: ConsumerHarness) -> None:
    harness.cluster.set("t", topic_id=UUID(int=2))


def read_on(harness: ConsumerHarness) -> None:
    """It reads the new topic from its beginning, five records, and commits that."""
    harness.ends(0)
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(0, 5)})
    assert [record.offset for record in harness.poll()] == [0, 1, 2, 3, 4]
    assert harness.reader.settle() == {tp(0): (0, -1)}
    harness.poll()
    assert harness.reader.reached() == harness.reader.settle() == {tp(0): (5, 0)}
    harness.run(10)
    harness.find_coordinator()
    assert harness.commits() == {tp(0): 5}


def test_nothing_is_committed_before_the_new_topic_is_read(harness: ConsumerHarness) -> None:
    recreate(harness)
    harness.run(10)
    assert harness.reader.reached() == harness.reader.settle() == harness.reader.committable() == {}
    harness.ends(0)
    harness.run(10)
    assert harness.pending(OffsetCommitRequest) == []
    read_on(harness)


def test_a_loop_over_records_of_the_old_topic_commits_nothing(harness: ConsumerHarness) -> None:
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(43, 3)})
    loop = harness.loop(3)
    next(loop), next(loop)
    assert harness.reader.progress() == {tp(0): (44, 0)}
    recreate(harness)
    harness.run(10)
    next(loop)
    assert harness.reader.progress() == harness.reader.reached() == {}


def test_no_offsets_of_a_topic_that_was_read_to_its_end_are_called_lost(harness: ConsumerHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(43, 957)})  # up to the end of the log
    with caplog.at_level(logging.WARNING, "pykafka4"):
        recreate(harness)
        harness.run(10)
        harness.ends(0)
    assert "the topic was recreated" in caplog.text
    assert "are lost" not in caplog.text


@pytest.mark.parametrize("deleted", [False, True], ids=["recreated", "deleted"])
def test_a_partition_that_ends_with_its_topic_is_not_committed(harness: ConsumerHarness, deleted: bool) -> None:
    if deleted:
        harness.cluster.missing["t"] = MISSING_S
    else:
        recreate(harness)
    harness.machine.fetcher.drop(list(harness.reader.claims.values()))  # before the fetcher has seen it: a rebalance is noticed first
    assert harness.reader.settle(in_hand=True) == {}


def test_an_answer_that_a_topic_does_not_exist_may_be_of_a_broker_that_has_just_started(harness: ConsumerHarness) -> None:
    harness.cluster.missing["t"] = MISSING_S - 0.1
    harness.machine.fetcher.drop(list(harness.reader.claims.values()))
    assert harness.reader.settle(in_hand=True) == {tp(0): (43, 0)}


@pytest.mark.parametrize("certain", [True, False])
def test_records_of_a_topic_that_may_be_deleted_abort_their_transaction(harness: ConsumerHarness, certain: bool) -> None:
    """If it is certain, nobody can read them again."""
    handed, claim = harness.reader.delivered, harness.reader.claims[tp(0)]
    handed.add(tp(0), 40, 42)
    if certain:
        recreate(harness)
    else:
        harness.cluster.missing["t"] = MISSING_S
    harness.machine.fetcher.drop([claim])
    assert handed.in_doubt({tp(0): claim}) == ([] if certain else [tp(0)])
    handed.end(claim, 43)
    assert list(handed.cut_off) == ([] if certain else [tp(0)])


def test_a_text_of_the_old_topic_does_not_come_back(harness: ConsumerHarness) -> None:
    done: list[object] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(5, 0, "old")}, 1e9, done.append)
    harness.run()
    harness.find_coordinator()
    assert harness.commits() == {tp(0): 5}
    assert done == [None]
    recreate(harness)
    harness.run(10)
    harness.ends(0)
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(0, 5)})
    assert len(harness.poll()) == 5
    harness.poll()
    harness.run(10)
    (place,) = harness.one(OffsetCommitRequest).message.topics[0].partitions
    assert (place.committed_offset, place.committed_metadata) == (5, "")


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("step", ["pause", "truncation"])
def test_a_step_back_does_not_go_to_the_offset_of_the_old_topic(harness: ConsumerHarness, step: str, noticed: bool) -> None:
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(43, 3)})
    next(harness.loop(3))
    recreate(harness)
    if noticed:
        harness.run()
    if step == "pause":
        harness.reader.pause(tp(0))
        harness.reader.resume(tp(0))
    else:
        harness.poll()
        harness.reader.put(Truncated(harness.reader.claims[tp(0)], 44))
        assert harness.poll() == []
    harness.run()
    assert {request.message.topics[0].partitions[0].timestamp for request in harness.pending(ListOffsetsRequest)} == {-2}
    assert harness.reader.reached() == {}
    harness.ends(0)
    read_on(harness)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_seek_counts_if_the_consumer_knows_the_new_topic(harness: ConsumerHarness, noticed: bool) -> None:
    recreate(harness)
    if noticed:
        harness.run()
    harness.reader.seek(tp(0), 7)
    harness.run()
    assert harness.reader.reached() == ({tp(0): (7, -1)} if noticed else {})
    assert harness.asked(harness.pending(FetchRequest)[-1]) == {tp(0): 7 if noticed else 43}
    assert len(harness.pending(ListOffsetsRequest)) == 1


def test_without_a_reset_policy_nothing_is_committed_until_a_seek() -> None:
    harness = made(auto_offset_reset="none")
    recreate(harness)
    for _ in range(2):
        harness.run(10)
        with pytest.raises(InvalidOffset, match="recreated"):
            harness.poll()
        assert harness.reader.reached() == harness.reader.settle(in_hand=True) == {}
    harness.reader.seek(tp(0), 0)
    harness.run()
    assert harness.reader.reached() == {tp(0): (0, -1)}


def test_an_offset_that_was_found_in_an_older_topic_is_not_committed(harness: ConsumerHarness) -> None:
    recreate(harness)
    harness.run()
    harness.ends(0)  # found, and not taken by a poll
    harness.cluster.set("t", topic_id=UUID(int=3))
    harness.run()
    assert harness.poll() == []
    assert harness.reader.reached() == harness.reader.settle() == {}
    harness.ends(0)
    assert harness.poll() == []
    assert harness.reader.reached() == harness.reader.settle() == {tp(0): (0, -1)}


@pytest.mark.parametrize("start", [Start.EARLIEST, 40])
def test_a_partition_that_was_never_read_continues_in_the_new_topic(start: Start | int) -> None:
    harness = ConsumerHarness(group_id="g", auto_commit_interval_ms=5_000)
    harness.cluster.set("t", [1], topic_id=UUID(int=1))
    harness.assign(tp(0), start=start)
    recreate(harness)
    harness.run()
    read_on(harness)


Steps = Callable[[ConsumerHarness], object]


@pytest.mark.parametrize("before", [lambda harness: None, lambda harness: harness.poll()], ids=["in hand", "finished"])
def test_records_of_a_deleted_topic_do_not_hold_back_a_transaction(before: Steps) -> None:
    """Nobody can read them again, so they need no offset."""
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1], topic_id=UUID(int=1))
    claims = harness.assign(tp(0), start=40)
    harness.fetched(harness.one(FetchRequest), {tp(0): batch(40, 3)})
    assert len(harness.poll(3)) == 3
    before(harness)
    recreate(harness)
    harness.run()
    harness.reader.release(claims)
    assert harness.reader.delivered.cut_off == {}
