"""The reader: the lists of `poll`, which records are finished, and the room for fetching ahead."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY
from pykafka4.core.subscription import Claim, Lasting, Located, PollError, Start
from pykafka4.errors import KafkaError
from tests.consumer.reader_harness import ReaderHarness, offsets
from tests.core.consumer_harness import tp

# ---------------------------------------------------------------- lists


def test_chunks_come_out_in_order_of_arrival_across_lists(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    harness.put(3, 3)
    assert offsets(harness.poll(4)) == [0, 1, 2, 3]
    assert offsets(harness.poll(4)) == [4, 5]
    assert harness.poll(4) == []


def test_a_partition_with_a_backlog_does_not_starve_the_others() -> None:
    harness = ReaderHarness(2)
    for first in (0, 3):
        for partition in (0, 1):
            harness.put(first, 3, partition)
    assert [r.partition for r in harness.poll(12)] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]


def test_the_next_poll_finishes_the_records_of_the_last(harness: ReaderHarness) -> None:
    harness.put(0, 6)
    harness.poll(2)
    assert (harness.finished(), harness.reached()) == (None, 2)
    harness.poll(2)
    assert (harness.finished(), harness.reached()) == (2, 4)
    assert harness.reader.settle()[tp(0)][0] == 2


def test_an_empty_poll_finishes_what_came_before(harness: ReaderHarness) -> None:
    harness.put(0, 2)
    harness.poll()
    assert harness.poll() == []
    assert harness.finished() == 2


def test_compaction_gaps_and_control_batches_move_the_position(harness: ReaderHarness) -> None:
    harness.put(0, 2)
    harness.put(10, 2, fetch_offset=2)
    assert offsets(harness.poll()) == [0, 1, 10, 11]
    assert harness.reached() == 12


def test_records_below_the_position_asked_for_are_not_handed_out(harness: ReaderHarness) -> None:
    harness.put(0, 6, fetch_offset=4)
    assert offsets(harness.poll()) == [4, 5]


def test_a_chunks_bytes_are_released_once_it_was_read(harness: ReaderHarness) -> None:
    chunk = harness.put(0, 4)
    harness.poll(2)
    assert harness.reader.consumed == 0
    harness.poll()
    assert harness.reader.consumed == harness.claims[0].consumed == chunk.size


def test_the_time_between_polls_is_known(harness: ReaderHarness) -> None:
    assert harness.reader.idle_since() == -INFINITY
    harness.reader.enter()
    assert harness.reader.idle_since() is None
    harness.reader.leave()
    assert harness.reader.idle_since() == 50.0


def test_records_of_an_interrupted_poll_are_fetched_again(harness: ReaderHarness) -> None:
    chunks = [harness.put(0, 2), harness.put(2, 4), harness.put(6, 2)]
    assert offsets(harness.poll(1)) == [0]
    harness.enter()
    assert offsets(harness.take(3)) == [1, 2, 3]  # KeyboardInterrupt comes here
    assert harness.poll() == []
    assert (harness.finished(), harness.reached()) == (1, 1)
    assert [start for _, _, start in harness.seeks] == [1]
    assert harness.reader.consumed == sum(chunk.size for chunk in chunks)
    harness.put(1, 3)
    assert offsets(harness.poll()) == [1, 2, 3]


def test_the_rest_of_a_loops_list_is_fetched_again_after_an_interrupted_poll(harness: ReaderHarness) -> None:
    harness.put(0, 6)
    cursor = harness.loop()
    assert [next(cursor).offset for _ in range(2)] == [0, 1]
    harness.enter()
    assert offsets(harness.take(3)) == [2, 3, 4]  # KeyboardInterrupt comes here
    assert harness.poll() == list(cursor) == []
    assert (harness.finished(), [start for _, _, start in harness.seeks]) == (2, [2])
    harness.put(2, 4)
    assert offsets(harness.poll()) == [2, 3, 4, 5]


def test_a_record_in_hand_is_not_finished_by_a_step_that_was_left_in_the_middle(harness: ReaderHarness) -> None:
    harness.put(0, 6)
    cursor = harness.loop()
    assert [next(cursor).offset for _ in range(3)] == [0, 1, 2]
    harness.reader.changing = True  # KeyboardInterrupt came in a call of the loop's body
    harness.reader.recover()
    assert (harness.reached(), harness.reader.position(tp(0))) == (2, 3)
    assert harness.reader.progress()[tp(0)][0] == 2
    assert list(cursor) == []


def test_partitions_that_have_not_begun_keep_their_records_after_an_interrupted_step() -> None:
    """The offset found for them may not be found again, with auto_offset_reset=latest."""
    harness = ReaderHarness(3)
    waits = Claim(tp(3))
    for claim in (harness.claims[1], waits):
        harness.reader.put(Located(claim, 7))
    harness.claims.append(waits)
    harness.put(7, 2, 1)
    harness.put(7, 2, 3)
    gone = harness.put(0, 4)
    harness.reader.pause(tp(1))
    assert offsets(harness.poll(1)) == [0]
    harness.reader.changing = True
    harness.reader.recover()
    assert [(old.tp, start) for old, _, start in harness.seeks] == [(tp(0), 1)]
    assert harness.reader.consumed == gone.size
    harness.reader.adopt([waits])
    assert [(r.partition, r.offset) for r in harness.poll()] == [(3, 7), (3, 8)]
    harness.reader.resume(tp(1))
    assert [(r.partition, r.offset) for r in harness.poll()] == [(1, 7), (1, 8)]


def test_a_seek_that_has_no_offset_yet_is_made_again_after_an_interrupted_step(harness: ReaderHarness) -> None:
    harness.reader.seek(tp(0), Start.LATEST)
    sought = harness.reader.claims[tp(0)]
    harness.reader.changing = True
    harness.reader.recover()
    assert harness.seeks[-1] == (sought, harness.reader.claims[tp(0)], Start.LATEST)


def test_an_offset_that_was_found_for_a_seek_is_not_looked_up_again_after_an_interrupted_step(harness: ReaderHarness) -> None:
    """The end of the log may lie behind it by then."""
    harness.reader.seek(tp(0), Start.LATEST)
    harness.reader.put(Located(harness.reader.claims[tp(0)], 7))
    harness.reader.drain()
    harness.reader.changing = True
    harness.reader.recover()
    assert harness.seeks[-1][2] == 7


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
    harness = ReaderHarness(2)
    written, given_out = [0, 0], [0, 0]  # next offset per partition
    fetch_at = [0, 0]
    in_hand: list[Any] = []

    def follow_seeks() -> None:
        for old, _, start in harness.seeks:
            fetch_at[old.tp.partition] = int(start)  # type: ignore[arg-type]
        harness.seeks.clear()

    def note(records: list[Any]) -> None:
        for record in records:
            assert record.offset == given_out[record.partition]
            given_out[record.partition] += 1

    def check() -> None:
        pending = [0, 0]
        for record in in_hand:
            pending[record.partition] += 1
        for p in (0, 1):
            done = harness.finished(p) or 0
            assert done <= given_out[p] - pending[p]
            reached = harness.reader.positions().get(tp(p))
            assert reached in (None, given_out[p])

    for step, first, second in steps:
        if step == "put":
            written[first] += second
            follow_seeks()
            harness.put(fetch_at[first], written[first] - fetch_at[first], first)
            fetch_at[first] = written[first]
        elif step == "poll":
            in_hand = []
            records = harness.poll(first)
            note(records)
            in_hand = records
        elif step == "loop":
            in_hand = []
            cursor = harness.loop(first)
            for _ in range(second):
                record = next(cursor, None)
                if record is None:
                    break
                note([record])
                in_hand = [record]
        elif step == "pause":
            harness.reader.pause(tp(first))
        else:
            harness.reader.resume(tp(first))
        check()
    for p in (0, 1):
        harness.reader.resume(tp(p))
        follow_seeks()
        if fetch_at[p] < written[p]:
            harness.put(fetch_at[p], written[p] - fetch_at[p], p)
    while records := harness.poll(7):
        note(records)
    assert given_out == written


# ---------------------------------------------------------------- the room for fetching ahead


def test_ending_a_claim_frees_the_room_of_its_buffered_records() -> None:
    harness = ReaderHarness(2)
    gone, kept = harness.put(0, 5), harness.put(0, 7, partition=1)
    harness.reader.drain()
    harness.reader.release([harness.claims[0]])
    assert harness.reader.consumed == gone.size
    harness.poll()
    assert harness.reader.consumed == gone.size + kept.size


def test_records_arriving_after_their_claim_ended_take_no_room() -> None:
    harness = ReaderHarness()
    chunk = harness.put(0, 5)
    harness.reader.release(list(harness.claims))
    harness.reader.drain()
    assert harness.reader.consumed == chunk.size


def test_ending_a_paused_claim_frees_the_room_of_its_records() -> None:
    harness = ReaderHarness()
    harness.reader.pause(tp(0))
    chunk = harness.put(0, 5)
    harness.reader.drain()
    harness.reader.release(list(harness.claims))
    assert harness.reader.consumed == chunk.size


def test_a_seek_frees_the_room_of_buffered_records() -> None:
    harness = ReaderHarness()
    chunk = harness.put(0, 5)
    harness.reader.drain()
    harness.reader.seek(tp(0), 100)
    assert harness.reader.consumed == chunk.size


def test_an_error_of_a_poll_keeps_nothing_alive_when_the_application_has_handled_it(harness: ReaderHarness) -> None:
    """A cycle of the error and a frame would keep a forgotten consumer until the garbage collector runs."""
    harness.reader.put(PollError(harness.claims[0], KafkaError("no coordinator"), Lasting.ONCE))
    gc.disable()
    try:
        try:
            harness.poll()
        except KafkaError as error:
            raised = weakref.ref(error)
        assert raised() is None
    finally:
        gc.enable()
