"""The reader in a `for` loop: one record at a time, and what the loop thread sees of it."""

from __future__ import annotations

import pytest
from consumer_talk import tp
from reader_talk import Desk, offsets

from pykafka4.core.subscription import Assigned, Ended, Ending, Lasting, Trouble
from pykafka4.errors import KafkaError

# ---------------------------------------------------------------- loops


def test_a_loop_takes_nothing_back_that_was_committed_by_name(desk: Desk) -> None:
    desk.put(0, 5)
    cursor = desk.loop()
    assert [next(cursor).offset for _ in range(4)] == [0, 1, 2, 3]
    desk.reader.finished[tp(0)] = (100, 0)
    assert desk.reader.progress()[tp(0)] == (100, 0)
    assert desk.reader.settle()[tp(0)] == (100, 0)


def test_in_a_loop_everything_before_the_record_in_hand_is_reached(desk: Desk) -> None:
    desk.put(0, 5)
    cursor = desk.loop()
    for expected in range(5):
        assert next(cursor).offset == expected
        assert desk.reached() == expected
        assert desk.reader.settle()[tp(0)][0] == expected
    assert list(cursor) == []
    assert desk.reached() == 4  # the loop has not asked for more yet
    desk.poll()
    assert desk.finished() == 5


def test_what_a_loop_left_comes_with_the_next_poll_and_counts_exactly(desk: Desk) -> None:
    desk.put(0, 6)
    cursor = desk.loop()
    next(cursor), next(cursor)
    assert offsets(desk.poll(3)) == [2, 3, 4]
    assert (desk.finished(), desk.reached()) == (2, 5)
    assert offsets(desk.poll(3)) == [5]
    assert desk.finished() == 5
    desk.poll()
    assert desk.finished() == 6


def test_a_second_loop_goes_on_with_the_list_of_the_first(desk: Desk) -> None:
    desk.put(0, 4)
    next(desk.loop())
    assert offsets(desk.loop()) == [1, 2, 3]


def test_the_next_record_is_where_the_position_is(desk: Desk) -> None:
    desk.put(0, 4)
    cursor = desk.loop()
    next(cursor)
    assert desk.reader.positions() == {tp(0): 1}
    next(cursor)
    assert desk.reader.positions() == {tp(0): 2}


def test_partitions_in_one_list_count_each_for_itself() -> None:
    desk = Desk(2)
    desk.put(0, 2, 0)
    desk.put(7, 2, 1)
    cursor = desk.loop()
    for _ in range(3):
        next(cursor)
    assert (desk.reached(0), desk.reached(1)) == (2, 7)
    next(cursor)
    assert (desk.reached(0), desk.reached(1)) == (2, 8)


# ---------------------------------------------------------------- a `for` loop, seen from the loop thread


def test_each_record_asked_for_in_a_loop_is_a_sign_of_life(desk: Desk) -> None:
    desk.put(0, 5)
    iterator = desk.loop()
    assert desk.reader.idle_since() == 50.0
    for now in (60.0, 70.0):
        desk.now = now
        next(iterator)
        assert desk.reader.idle_since() == now
    desk.now = 80.0
    assert desk.reader.idle_since() == 70.0
    desk.reader.enter()
    assert desk.reader.idle_since() is None


def test_a_list_of_poll_gives_no_sign_of_life(desk: Desk) -> None:
    desk.put(0, 5)
    desk.poll()
    desk.now = 60.0
    assert desk.reader.idle_since() == 50.0


def test_progress_in_a_loop_is_everything_before_the_record_in_hand() -> None:
    desk = Desk(2)
    desk.put(0, 3, 0)
    desk.put(0, 3, 1)
    iterator = desk.loop()
    places = []
    for _ in iterator:
        places.append({tp.partition: offset for tp, (offset, _) in desk.reader.progress().items()})
    assert places == [{0: 0, 1: 0}, {0: 1, 1: 0}, {0: 2, 1: 0}, {0: 3, 1: 0}, {0: 3, 1: 1}, {0: 3, 1: 2}]
    assert desk.reader.finished == {}  # the loop thread reads what the application alone writes
    desk.poll()
    assert {tp.partition: offset for tp, (offset, _) in desk.reader.progress().items()} == {0: 3, 1: 3}


def test_progress_does_not_cover_what_a_pause_or_seek_took_out_of_the_list() -> None:
    desk = Desk(2)
    desk.put(0, 3, 0)
    desk.put(0, 3, 1)
    iterator = desk.loop()
    next(iterator), next(iterator)
    desk.reader.seek(tp(1), 7)
    assert desk.reader.progress() == {tp(0): (1, 0), tp(1): (7, -1)}
    desk.reader.pause(tp(0))
    assert list(iterator) == []
    assert desk.reader.progress()[tp(0)][0] == 1


@pytest.mark.parametrize("event", ["assigned", "ended", "trouble", "notice"])
def test_an_event_ends_a_loops_list_before_its_next_record(desk: Desk, event: str) -> None:
    """A handler that has become slow must not hold a rebalance back until it is through with 500 records."""
    items = {
        "assigned": Assigned(()),
        "ended": Ended((), Ending.REVOKED),
        "trouble": Trouble(None, KafkaError("x")),
        "notice": Trouble(None, KafkaError("x"), Lasting.ONCE),
    }
    desk.put(0, 5)
    iterator = desk.loop()
    assert next(iterator).offset == 0
    desk.put(5, 1)  # data is no event
    assert next(iterator).offset == 1
    desk.reader.put(items[event])
    assert next(iterator, None) is None
    assert desk.reader.reached() == {tp(0): (1, 0)}
    again = desk.loop()  # this asks for the next: the second record is finished
    assert desk.finished() == 2
    assert offsets(again) == [2, 3, 4]


def test_an_event_that_arrives_while_a_list_is_made_ends_it_too(desk: Desk) -> None:
    desk.put(0, 5)
    desk.reader.enter()
    desk.reader.drain()
    desk.reader.put(Ended((), Ending.REVOKED))
    assert list(desk.reader.take_one_by_one(500)) == []
    desk.reader.drain()
    assert offsets(desk.reader.take_one_by_one(500)) == [0, 1, 2, 3, 4]


def test_in_a_loop_the_position_is_that_of_the_next_record_of_its_list(desk: Desk) -> None:
    desk.put(0, 3)
    desk.reader.enter()
    desk.reader.drain()
    for record in desk.reader.take_one_by_one(500):
        assert desk.reader.position(tp(0)) == (record.offset + 1)
