"""The reader: the lists of `poll`, which records are finished, and the room for fetching ahead."""

from __future__ import annotations

from typing import Any

from consumer_talk import tp
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_talk import Desk, offsets

from pykafka4.core import INFINITY

# ---------------------------------------------------------------- lists


def test_chunks_come_out_in_order_of_arrival_across_lists(desk: Desk) -> None:
    desk.put(0, 3)
    desk.put(3, 3)
    assert offsets(desk.poll(4)) == [0, 1, 2, 3]
    assert offsets(desk.poll(4)) == [4, 5]
    assert desk.poll(4) == []


def test_a_partition_with_much_to_read_lets_the_others_have_their_turn() -> None:
    desk = Desk(2)
    for first in (0, 3):
        for partition in (0, 1):
            desk.put(first, 3, partition)
    assert [r.partition for r in desk.poll(12)] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]


def test_what_a_poll_handed_out_is_finished_by_the_next(desk: Desk) -> None:
    desk.put(0, 6)
    desk.poll(2)
    assert (desk.finished(), desk.reached()) == (None, 2)
    desk.poll(2)
    assert (desk.finished(), desk.reached()) == (2, 4)
    assert desk.reader.settle()[tp(0)][0] == 2


def test_an_empty_poll_finishes_what_came_before(desk: Desk) -> None:
    desk.put(0, 2)
    desk.poll()
    assert desk.poll() == []
    assert desk.finished() == 2


def test_compaction_gaps_and_control_batches_move_the_position(desk: Desk) -> None:
    desk.put(0, 2)
    desk.put(10, 2, fetch_offset=2)
    assert offsets(desk.poll()) == [0, 1, 10, 11]
    assert desk.reached() == 12


def test_records_below_the_position_asked_for_are_not_handed_out(desk: Desk) -> None:
    desk.put(0, 6, fetch_offset=4)
    assert offsets(desk.poll()) == [4, 5]


def test_bytes_are_let_go_when_a_chunk_was_read(desk: Desk) -> None:
    chunk = desk.put(0, 4)
    desk.poll(2)
    assert desk.reader.consumed == 0
    desk.poll()
    assert desk.reader.consumed == desk.claims[0].consumed == chunk.size


def test_the_time_between_polls_is_known(desk: Desk) -> None:
    assert desk.reader.idle_since() == -INFINITY
    desk.reader.enter()
    assert desk.reader.idle_since() is None
    desk.reader.leave()
    assert desk.reader.idle_since() == 50.0


def test_an_interrupted_poll_hands_its_records_out_with_the_next(desk: Desk) -> None:
    desk.put(0, 4)
    desk.reader.enter()
    desk.reader.drain()
    desk.reader.take(3)  # KeyboardInterrupt comes here
    desk.reader.take_back()
    desk.reader.leave()
    assert offsets(desk.poll()) == [0, 1, 2]
    assert desk.finished() in (None, 0)
    assert offsets(desk.poll()) == [3]
    assert desk.finished() == 3


def test_an_interrupted_poll_gives_what_it_took_of_a_loops_list_back(desk: Desk) -> None:
    desk.put(0, 6)
    cursor = desk.loop()
    assert [next(cursor).offset for _ in range(2)] == [0, 1]
    desk.reader.enter()
    desk.reader.drain()
    assert offsets(desk.reader.take(3)) == [2, 3, 4]  # KeyboardInterrupt comes here
    desk.reader.take_back()
    desk.reader.leave()
    assert offsets(desk.poll()) == [2, 3, 4, 5]


# ---------------------------------------------------------------- any order of calls

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), st.integers(1, 5)),
        st.tuples(st.just("poll"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("loop"), st.integers(1, 6), st.integers(0, 6)),
        st.tuples(st.just("pause"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("resume"), st.integers(0, 1), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_is_called_each_record_comes_once_in_order_and_only_finished_ones_are_committed(steps: list[tuple[str, int, int]]) -> None:
    desk = Desk(2)
    written, given_out = [0, 0], [0, 0]  # next offset per partition
    fetch_at = [0, 0]
    in_hand: list[Any] = []

    def follow_seeks() -> None:
        for old, _, start in desk.seeks:
            fetch_at[old.tp.partition] = int(start)  # type: ignore[arg-type]
        desk.seeks.clear()

    def note(records: list[Any]) -> None:
        for record in records:
            assert record.offset == given_out[record.partition]
            given_out[record.partition] += 1

    def check() -> None:
        pending = [0, 0]
        for record in in_hand:
            pending[record.partition] += 1
        for p in (0, 1):
            done = desk.finished(p) or 0
            assert done <= given_out[p] - pending[p]
            reached = desk.reader.positions().get(tp(p))
            assert reached in (None, given_out[p])

    for step, first, second in steps:
        if step == "put":
            written[first] += second
            follow_seeks()
            desk.put(fetch_at[first], written[first] - fetch_at[first], first)
            fetch_at[first] = written[first]
        elif step == "poll":
            in_hand = []
            records = desk.poll(first)
            note(records)
            in_hand = records
        elif step == "loop":
            in_hand = []
            cursor = desk.loop(first)
            for _ in range(second):
                record = next(cursor, None)
                if record is None:
                    break
                note([record])
                in_hand = [record]
        elif step == "pause":
            desk.reader.pause(tp(first))
        else:
            desk.reader.resume(tp(first))
        check()
    for p in (0, 1):
        desk.reader.resume(tp(p))
        follow_seeks()
        if fetch_at[p] < written[p]:
            desk.put(fetch_at[p], written[p] - fetch_at[p], p)
    while records := desk.poll(7):
        note(records)
    assert given_out == written


# ---------------------------------------------------------------- the room for fetching ahead


def test_what_is_buffered_when_a_claim_ends_makes_room() -> None:
    desk = Desk(2)
    gone, kept = desk.put(0, 5), desk.put(0, 7, partition=1)
    desk.reader.drain()
    desk.reader.release([desk.claims[0]])
    assert desk.reader.consumed == gone.size
    desk.poll()
    assert desk.reader.consumed == gone.size + kept.size


def test_what_arrives_after_its_claim_has_ended_makes_room() -> None:
    desk = Desk()
    chunk = desk.put(0, 5)
    desk.reader.release(list(desk.claims))
    desk.reader.drain()
    assert desk.reader.consumed == chunk.size


def test_what_is_put_aside_when_a_paused_claim_ends_makes_room() -> None:
    desk = Desk()
    desk.reader.pause(tp(0))
    chunk = desk.put(0, 5)
    desk.reader.drain()
    desk.reader.release(list(desk.claims))
    assert desk.reader.consumed == chunk.size


def test_a_seek_makes_room_of_what_was_buffered() -> None:
    desk = Desk()
    chunk = desk.put(0, 5)
    desk.reader.drain()
    desk.reader.seek(tp(0), 100)
    assert desk.reader.consumed == chunk.size
