"""The reader and everything but records: errors, offsets that were found, truncated logs, resets."""

from __future__ import annotations

import traceback

import pytest

from pykafka4.consumer.reading.forms import LoopForm
from pykafka4.consumer.reading.notices import DENIED_AGAIN_S
from pykafka4.core.subscription import Assigned, Claim, Ended, Ending, Lasting, Located, PollError, Start, Truncated
from pykafka4.errors import AuthorizationError, CorruptRecord, KafkaError, LogTruncated, broker_error
from tests.consumer.reader_harness import ReaderHarness, offsets
from tests.core.consumer_harness import batch, tp

# ---------------------------------------------------------------- errors and markers


def test_valid_records_come_before_the_error_and_it_is_raised_until_seek(harness: ReaderHarness) -> None:
    good, bad = batch(0, 2), bytearray(batch(2, 2))
    bad[-1] ^= 1
    harness.put(0, 4, data=good + bytes(bad))
    assert offsets(harness.poll()) == [0, 1]
    for _ in range(3):
        with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
            harness.poll()
        assert harness.reader.positions() == {tp(0): 2}
    assert harness.finished() == 2
    harness.reader.seek(tp(0), 4)
    harness.put(4, 1)
    assert offsets(harness.poll()) == [4]


@pytest.mark.parametrize("kind", ["damaged batch", "lasting error", "truncation"])
def test_an_error_of_one_partition_keeps_no_other_partition_waiting(kind: str) -> None:
    harness = ReaderHarness(2)
    harness.put(0, 2)
    assert offsets(harness.poll()) == [0, 1]
    claim = harness.reader.claims[tp(0)]
    if kind == "damaged batch":
        bad = bytearray(batch(2, 2))
        bad[-1] ^= 1
        harness.put(2, 2, data=bytes(bad))
    elif kind == "lasting error":
        harness.reader.put(PollError(claim, KafkaError("for good")))
    else:
        harness.reader.put(Truncated(claim, 1, raises=True))
    harness.put(4, 1)  # more of the same partition: it stays behind the error
    with pytest.raises(KafkaError):
        harness.poll()
    for first in (0, 3):
        harness.put(first, 3, partition=1)
        with pytest.raises(KafkaError):  # it was the first in line
            harness.poll()
        assert [(r.partition, r.offset) for r in harness.poll()] == [(1, first), (1, first + 1), (1, first + 2)]


def damaged(first: int, count: int) -> bytes:
    data = bytearray(batch(first, count))
    data[-1] ^= 1
    return bytes(data)


def test_what_lies_behind_an_error_makes_room(harness: ReaderHarness) -> None:
    sizes = [harness.put(0, 2, data=damaged(0, 2)).size, harness.put(2, 2).size]
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            harness.poll()
        assert harness.reader.consumed == harness.claims[0].consumed == sum(sizes)
        sizes.append(harness.put(4, 2).size)
    harness.reader.seek(tp(0), 2)
    harness.put(2, 2)
    assert offsets(harness.poll()) == [2, 3]


def test_a_stopped_partition_does_not_keep_the_data_of_a_paused_one() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    assert offsets(harness.poll(1)) == [0]
    harness.reader.pause(tp(0))
    harness.put(0, 2, 1, data=damaged(0, 2))
    with pytest.raises(CorruptRecord):
        harness.poll()
    harness.reader.resume_at = 10
    harness.reader.relieve()
    assert [start for _, _, start in harness.seeks] == [1]


def test_a_lasting_error_is_a_new_object_each_time_it_is_raised(harness: ReaderHarness) -> None:
    stored = KafkaError("for good")
    harness.reader.put(PollError(harness.claims[0], stored))
    raised = []
    for _ in range(3):
        with pytest.raises(KafkaError, match="for good") as caught:
            harness.poll()
        raised.append(caught.value)
    assert len({id(error) for error in raised}) == 3
    assert stored not in raised
    assert stored.__traceback__ is None
    assert len({len(list(traceback.walk_tb(error.__traceback__))) for error in raised}) == 1


def test_an_error_raised_once_is_cleared_and_one_until_seek_is_not(harness: ReaderHarness) -> None:
    claim = harness.claims[0]
    claim.troubled = True
    harness.put(0, 1)
    harness.reader.put(PollError(claim, KafkaError("once"), Lasting.ONCE))
    harness.reader.put(PollError(claim, KafkaError("for good")))
    assert offsets(harness.poll()) == [0]
    with pytest.raises(KafkaError, match="once"):
        harness.poll()
    assert not claim.troubled
    for _ in range(2):
        with pytest.raises(KafkaError, match="for good"):
            harness.poll()
    harness.reader.seek(tp(0), 0)
    assert harness.poll() == []


def test_an_error_of_an_ended_claim_is_not_raised(harness: ReaderHarness) -> None:
    harness.reader.seek(tp(0), 7)
    harness.reader.put(PollError(harness.claims[0], KafkaError("old")))
    assert harness.poll() == []


def test_an_error_without_a_partition_concerns_the_whole_consumer(harness: ReaderHarness) -> None:
    harness.reader.put(PollError(None, KafkaError("a"), Lasting.ONCE))
    harness.reader.drain()
    assert harness.reader.ready
    harness.reader.put(PollError(None, KafkaError("b")))
    harness.reader.drain()
    assert [str(e) for e in harness.reader.notices.waiting] == ["a"]
    assert str(harness.reader.fatal) == "b"
    assert harness.reader.ready


def test_a_found_offset_takes_effect_in_order(harness: ReaderHarness) -> None:
    harness.put(0, 2)
    harness.reader.put(Located(harness.claims[0], 90, 3))
    assert offsets(harness.poll(2)) == [0, 1]
    assert harness.reached() == 2
    harness.poll()
    assert harness.reached() == 90
    harness.poll()
    assert harness.reader.finished[tp(0)] == (90, 3)


def test_where_reading_begins_is_finished_although_its_records_are_not(harness: ReaderHarness) -> None:
    harness.reader.put(Located(harness.claims[0], 90, 3))
    harness.put(90, 2)
    assert offsets(harness.poll()) == [90, 91]
    assert harness.reader.finished[tp(0)] == (90, 3)


def test_an_offset_found_while_a_poll_waits_is_finished_at_once(harness: ReaderHarness) -> None:
    """A loop over an idle partition is in one poll for hours; a restart has to begin at the place found before."""
    harness.reader.enter()
    harness.reader.put(Located(harness.claims[0], 90, 3))
    harness.reader.drain()
    assert list(harness.take(10, LoopForm(500))) == []
    assert harness.reader.progress()[tp(0)] == (90, 3)


@pytest.mark.parametrize(("cut", "back_to"), [(3, 3), (9, 5)])
def test_a_truncated_log_moves_the_position_back_to_the_cut_and_never_forward(
    harness: ReaderHarness, cut: int, back_to: int, caplog: pytest.LogCaptureFixture
) -> None:
    harness.put(0, 5)
    harness.reader.put(Truncated(harness.claims[0], cut))
    assert len(harness.poll()) == 5
    assert harness.seeks == []
    harness.poll()
    assert [start for _, _, start in harness.seeks] == [back_to]
    assert harness.finished() == back_to
    assert f"truncated the log to offset {cut}; lost offsets that were already read: {5 - back_to}" in caplog.text


@pytest.mark.parametrize(("ours", "theirs", "asked"), [(2, 1, 1), (1, 2, 1), (2, -1, -1)])
def test_a_truncation_behind_the_position_is_checked_with_the_older_epoch(ours: int, theirs: int, asked: int) -> None:
    """Asked with the same offset and epoch again, the broker gives the same answer again: without end, at the speed of the network."""
    harness = ReaderHarness()
    harness.put(0, 5, data=batch(0, 5, epoch=ours))
    assert len(harness.poll()) == 5
    harness.reader.put(Truncated(harness.reader.claims[tp(0)], 9, theirs))
    harness.poll()
    assert harness.reader.finished[tp(0)] == (5, asked)
    assert harness.reader.claims[tp(0)].epoch == asked


def test_events_keep_their_order(harness: ReaderHarness) -> None:
    harness.reader.put(Assigned(()))
    harness.reader.put(Ended((), Ending.REVOKED))
    harness.reader.drain()
    assert [type(e) for e in harness.reader.events] == [Assigned, Ended]


def test_what_was_assigned_is_read_only_after_the_revocation_before_it() -> None:
    """Its last commit may take long, and partitions that stay are read meanwhile. The listener may seek to an offset of its own."""
    harness = ReaderHarness(2)
    fresh = Claim(tp(2))
    harness.claims.append(fresh)
    for event in (Ended((harness.claims[0],), Ending.REVOKED), Assigned((fresh,))):
        harness.reader.put(event)
    harness.put(0, 2, 2)
    harness.put(0, 3, 1)
    assert [(r.partition, r.offset) for r in harness.poll()] == [(1, 0), (1, 1), (1, 2)]
    harness.reader.resume_at = 10
    harness.reader.relieve()
    assert harness.seeks == [], "what fills the room waits for its assignment, which no seek brings"
    harness.reader.release(harness.claims[:1])
    harness.reader.adopt((fresh,))
    assert [(r.partition, r.offset) for r in harness.poll()] == [(2, 0), (2, 1)]


def test_the_next_offset_is_known_from_what_is_buffered(harness: ReaderHarness) -> None:
    assert harness.reader.next_offset(tp(0)) is None
    harness.reader.put(Located(harness.claims[0], 12))
    harness.reader.drain()
    assert harness.reader.next_offset(tp(0)) == 12
    harness.reader.seek(tp(0), Start.EARLIEST)
    harness.reader.put(PollError(harness.reader.claims[tp(0)], KafkaError("no")))
    harness.reader.drain()
    with pytest.raises(KafkaError, match="no"):
        harness.reader.next_offset(tp(0))


@pytest.mark.parametrize(("cut", "raises"), [(2, True), (3, False), (9, False)])
def test_without_a_policy_a_truncation_below_the_position_is_raised_until_a_seek(harness: ReaderHarness, cut: int, raises: bool) -> None:
    harness.put(0, 3)
    assert offsets(harness.poll()) == [0, 1, 2]
    claim = harness.reader.claims[tp(0)]
    harness.reader.put(Truncated(claim, cut, raises=True))
    if raises:
        errors = []
        for _ in range(2):
            with pytest.raises(LogTruncated, match="t-0: an unclean leader election removed offsets 2 to 2") as caught:
                harness.poll()
            errors.append(caught.value)
        assert errors[0] is not errors[1]
        assert (errors[0].topic, errors[0].partition, errors[0].offset, errors[0].truncated_to) == ("t", 0, 3, 2)
        assert harness.seeks == []
        harness.reader.seek(tp(0), 2)
    assert harness.poll() == []
    assert [start for _, _, start in harness.seeks] == [min(cut, 3)]


def test_a_truncation_below_the_position_reports_how_many_offsets_were_lost(
    harness: ReaderHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.put(0, 5)
    assert len(harness.poll()) == 5
    harness.reader.put(Truncated(harness.reader.claims[tp(0)], 2))
    harness.poll()
    assert "truncated the log to offset 2" in caplog.text
    assert "lost offsets that were already read: 3" in caplog.text


# ---------------------------------------------------------------- a reset to a lower offset


def restarted(harness: ReaderHarness) -> None:
    """Offsets up to 503 were read when the partition was reset to its beginning: the topic was deleted and created again."""
    harness.put(500, 3)
    claim = harness.reader.claims[tp(0)]
    harness.reader.put(Located(claim, 0))
    harness.put(0, 5)


def test_progress_made_before_a_reset_to_a_lower_offset_is_not_committed_after_it(harness: ReaderHarness) -> None:
    restarted(harness)
    assert offsets(harness.poll()) == [500, 501, 502]
    assert offsets(harness.poll()) == [0, 1, 2, 3, 4]
    assert harness.finished() == 0
    assert harness.reader.progress()[tp(0)] == (0, -1)
    assert harness.reader.settle()[tp(0)] == (0, -1)


def test_a_loop_over_records_behind_a_reset_to_a_lower_offset_makes_progress(harness: ReaderHarness) -> None:
    restarted(harness)
    assert offsets(harness.loop()) == [500, 501, 502]
    iterator = harness.loop()
    assert [next(iterator).offset for _ in range(3)] == [0, 1, 2]
    assert harness.reader.progress()[tp(0)] == (2, 0)
    assert harness.reader.settle()[tp(0)] == (2, 0)


def test_a_reset_to_a_higher_offset_loses_no_record(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    harness.reader.put(Located(harness.reader.claims[tp(0)], 100))
    harness.put(100, 2)
    assert offsets(harness.poll() + harness.poll()) == [0, 1, 2, 100, 101]


# ---------------------------------------------------------------- missing rights


def denial(topic: str, partition: int = 0) -> KafkaError:
    return broker_error(29, f"fetching {topic}-{partition}", None, "Fetch", topic=topic)


def test_a_missing_right_is_raised_once_a_second_for_all_partitions_of_a_topic() -> None:
    harness = ReaderHarness(3)
    raised = []
    for _ in range(5):
        for number, claim in enumerate(harness.claims):
            if not claim.troubled:
                claim.troubled = True
                harness.reader.put(PollError(claim, denial("t", number), Lasting.ONCE))
        for _ in range(3):
            try:
                harness.poll()
            except AuthorizationError as error:
                raised.append((harness.now, error.resource_name))
        assert not any(claim.troubled for claim in harness.claims), "all of them may be told again"
        harness.now += 0.3
    assert [name for _, name in raised] == ["t", "t"]
    assert raised[1][0] - raised[0][0] >= DENIED_AGAIN_S


def test_records_behind_a_missing_right_that_was_just_raised_are_returned_by_the_same_poll() -> None:
    harness = ReaderHarness(2)
    first = harness.claims[0]
    harness.reader.put(PollError(first, denial("t", 0), Lasting.ONCE))
    with pytest.raises(AuthorizationError):
        harness.poll()
    harness.reader.put(PollError(first, denial("t", 1), Lasting.ONCE))
    harness.put(0, 2, partition=1)
    assert offsets(harness.poll()) == [0, 1]


def test_different_rights_are_raised_one_after_the_other(harness: ReaderHarness) -> None:
    for topic in ("t", "u", "t"):
        harness.reader.tell_denied(denial(topic))
    harness.reader.drain()
    assert len(harness.reader.notices) == 2, "one that waits to be raised is not told again"
    for topic in ("t", "u"):
        with pytest.raises(AuthorizationError, match=f"topic '{topic}'"):
            harness.reader.notices.raise_next()
    harness.reader.tell_denied(denial("t"))
    harness.reader.drain()
    harness.reader.notices.raise_next()
    assert not harness.reader.notices, "it was just raised"
    harness.now += DENIED_AGAIN_S
    harness.reader.tell_denied(denial("t"))
    harness.reader.drain()
    with pytest.raises(AuthorizationError):
        harness.reader.notices.raise_next()


def test_a_denial_does_not_hide_another_error(harness: ReaderHarness) -> None:
    harness.reader.tell_denied(denial("t"))
    harness.reader.put(PollError(None, KafkaError("something else"), Lasting.ONCE))
    harness.reader.drain()
    with pytest.raises(AuthorizationError):
        harness.reader.notices.raise_next()
    with pytest.raises(KafkaError, match="something else"):
        harness.reader.notices.raise_next()
    harness.reader.notices.raise_next()
