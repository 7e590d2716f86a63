"""The reader and what is no record: errors, places that were found, logs that were cut, resets."""

from __future__ import annotations

import traceback

import pytest
from consumer_talk import batch, tp
from reader_talk import Desk, offsets

from pykafka4.core.subscription import Assigned, Ended, Ending, Lasting, Located, Start, Trouble, Truncated
from pykafka4.errors import CorruptRecord, KafkaError, LogTruncated

# ---------------------------------------------------------------- errors and markers


def test_good_records_come_before_the_error_behind_them_and_it_is_raised_until_seek(desk: Desk) -> None:
    good, bad = batch(0, 2), bytearray(batch(2, 2))
    bad[-1] ^= 1
    desk.put(0, 4, data=good + bytes(bad))
    assert offsets(desk.poll()) == [0, 1]
    for _ in range(3):
        with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
            desk.poll()
        assert desk.reader.positions() == {tp(0): 2}
    assert desk.finished() == 2
    desk.reader.seek(tp(0), 4)
    desk.put(4, 1)
    assert offsets(desk.poll()) == [4]


def test_a_lasting_error_is_a_new_one_each_time_it_is_raised(desk: Desk) -> None:
    stored = KafkaError("for good")
    desk.reader.put(Trouble(desk.claims[0], stored))
    raised = []
    for _ in range(3):
        with pytest.raises(KafkaError, match="for good") as caught:
            desk.poll()
        raised.append(caught.value)
    assert len({id(error) for error in raised}) == 3
    assert stored not in raised
    assert stored.__traceback__ is None
    assert len({len(list(traceback.walk_tb(error.__traceback__))) for error in raised}) == 1


def test_an_error_once_told_is_gone_and_one_until_seek_is_not(desk: Desk) -> None:
    claim = desk.claims[0]
    claim.troubled = True
    desk.put(0, 1)
    desk.reader.put(Trouble(claim, KafkaError("once"), Lasting.ONCE))
    desk.reader.put(Trouble(claim, KafkaError("for good")))
    assert offsets(desk.poll()) == [0]
    with pytest.raises(KafkaError, match="once"):
        desk.poll()
    assert not claim.troubled
    for _ in range(2):
        with pytest.raises(KafkaError, match="for good"):
            desk.poll()
    desk.reader.seek(tp(0), 0)
    assert desk.poll() == []


def test_trouble_of_a_dead_claim_is_not_raised(desk: Desk) -> None:
    desk.reader.seek(tp(0), 7)
    desk.reader.put(Trouble(desk.claims[0], KafkaError("old")))
    assert desk.poll() == []


def test_trouble_of_nobody_concerns_the_consumer(desk: Desk) -> None:
    desk.reader.put(Trouble(None, KafkaError("a"), Lasting.ONCE))
    desk.reader.drain()
    assert desk.reader.ready
    desk.reader.put(Trouble(None, KafkaError("b")))
    desk.reader.drain()
    assert [str(e) for e in desk.reader.notices] == ["a"]
    assert str(desk.reader.fatal) == "b"
    assert desk.reader.ready


def test_a_place_found_is_reached_in_its_turn(desk: Desk) -> None:
    desk.put(0, 2)
    desk.reader.put(Located(desk.claims[0], 90, 3))
    assert offsets(desk.poll(2)) == [0, 1]
    assert desk.reached() == 2
    desk.poll()
    assert desk.reached() == 90
    desk.poll()
    assert desk.reader.finished[tp(0)] == (90, 3)


def test_a_place_found_while_a_poll_waits_for_records_is_finished_at_once(desk: Desk) -> None:
    """A loop over an idle partition is in one poll for hours; a restart has to begin at the place found before."""
    desk.reader.enter()
    desk.reader.put(Located(desk.claims[0], 90, 3))
    desk.reader.drain()
    assert list(desk.reader.take_one_by_one(10)) == []
    assert desk.reader.progress()[tp(0)] == (90, 3)


@pytest.mark.parametrize(("cut", "back_to"), [(3, 3), (9, 5)])
def test_a_cut_log_steps_back_to_the_cut_and_never_forward(desk: Desk, cut: int, back_to: int) -> None:
    desk.put(0, 5)
    desk.reader.put(Truncated(desk.claims[0], cut))
    assert len(desk.poll()) == 5
    assert desk.seeks == []
    desk.poll()
    assert [start for _, _, start in desk.seeks] == [back_to]
    assert desk.finished() == back_to


@pytest.mark.parametrize(("ours", "theirs", "asked"), [(2, 1, 1), (1, 2, 1), (2, -1, -1)])
def test_a_cut_behind_the_position_is_asked_about_with_the_older_epoch(ours: int, theirs: int, asked: int) -> None:
    """Asked with the same offset and epoch again, the broker gives the same answer again: without end, at the speed of the network."""
    desk = Desk()
    desk.put(0, 5, data=batch(0, 5, epoch=ours))
    assert len(desk.poll()) == 5
    desk.reader.put(Truncated(desk.reader.claims[tp(0)], 9, theirs))
    desk.poll()
    assert desk.reader.finished[tp(0)] == (5, asked)
    assert desk.reader.claims[tp(0)].epoch == asked


def test_events_keep_their_order(desk: Desk) -> None:
    desk.reader.put(Assigned(()))
    desk.reader.put(Ended((), Ending.REVOKED))
    desk.reader.drain()
    assert [type(e) for e in desk.reader.events] == [Assigned, Ended]


def test_the_next_offset_is_known_from_what_is_buffered(desk: Desk) -> None:
    assert desk.reader.next_offset(tp(0)) is None
    desk.reader.put(Located(desk.claims[0], 12))
    desk.reader.drain()
    assert desk.reader.next_offset(tp(0)) == 12
    desk.reader.seek(tp(0), Start.EARLIEST)
    desk.reader.put(Trouble(desk.reader.claims[tp(0)], KafkaError("no")))
    desk.reader.drain()
    with pytest.raises(KafkaError, match="no"):
        desk.reader.next_offset(tp(0))


@pytest.mark.parametrize(("cut", "raises"), [(2, True), (3, False), (9, False)])
def test_without_a_policy_a_cut_below_what_was_read_is_raised_until_a_seek(desk: Desk, cut: int, raises: bool) -> None:
    desk.put(0, 3)
    assert offsets(desk.poll()) == [0, 1, 2]
    claim = desk.reader.claims[tp(0)]
    desk.reader.put(Truncated(claim, cut, raises=True))
    if raises:
        errors = []
        for _ in range(2):
            with pytest.raises(LogTruncated, match="t-0: an unclean leader election removed offsets 2 to 2") as caught:
                desk.poll()
            errors.append(caught.value)
        assert errors[0] is not errors[1]
        assert (errors[0].topic, errors[0].partition, errors[0].offset, errors[0].truncated_to) == ("t", 0, 3, 2)
        assert desk.seeks == []
        desk.reader.seek(tp(0), 2)
    assert desk.poll() == []
    assert [start for _, _, start in desk.seeks] == [min(cut, 3)]


def test_a_cut_below_what_was_read_says_how_many_offsets_are_gone(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.put(0, 5)
    assert len(desk.poll()) == 5
    desk.reader.put(Truncated(desk.reader.claims[tp(0)], 2))
    desk.poll()
    assert "truncated the log to offset 2" in caplog.text
    assert "3 offsets that were already read" in caplog.text


# ---------------------------------------------------------------- a reset to a lower offset


def restarted(desk: Desk) -> None:
    """Offsets up to 503 were read when the partition was reset to its beginning: the topic was deleted and created again."""
    desk.put(500, 3)
    claim = desk.reader.claims[tp(0)]
    desk.reader.put(Located(claim, 0))
    desk.put(0, 5)


def test_progress_made_before_a_reset_to_a_lower_offset_is_not_committed_after_it(desk: Desk) -> None:
    restarted(desk)
    assert offsets(desk.poll()) == [500, 501, 502]
    assert offsets(desk.poll()) == [0, 1, 2, 3, 4]
    assert desk.finished() == 0
    assert desk.reader.progress()[tp(0)] == (0, -1)
    assert desk.reader.settle()[tp(0)] == (0, -1)


def test_a_loop_over_records_behind_a_reset_to_a_lower_offset_makes_progress(desk: Desk) -> None:
    restarted(desk)
    assert offsets(desk.loop()) == [500, 501, 502]
    iterator = desk.loop()
    assert [next(iterator).offset for _ in range(3)] == [0, 1, 2]
    assert desk.reader.progress()[tp(0)] == (2, 0)
    assert desk.reader.settle()[tp(0)] == (2, 0)


def test_a_reset_to_a_higher_offset_does_not_end_a_list(desk: Desk) -> None:
    desk.put(0, 3)
    desk.reader.put(Located(desk.reader.claims[tp(0)], 100))
    desk.put(100, 2)
    assert offsets(desk.poll()) == [0, 1, 2, 100, 101]
