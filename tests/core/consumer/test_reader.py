"""The application's side: what is handed out, what counts as finished, what dies unread."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import pytest
from consumer_talk import batch, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY
from pykafka4.core.consumer.reader import Reader
from pykafka4.core.subscription import Assigned, Claim, Credentials, Ended, Lasting, Located, Start, Ticket, Trouble, Truncated
from pykafka4.errors import CorruptRecord, KafkaError, LogTruncated
from pykafka4.records import TopicPartition
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk


class Desk:
    """A reader, the claims it has, and where the loop was told to read on."""

    def __init__(self, partitions: int = 1) -> None:
        self.seeks: list[tuple[Claim, Claim, Start | int]] = []
        self.now = 50.0
        self.reader = Reader(lambda: self.now, lambda: None, self.seeks.extend)
        self.claims = [Claim(tp(p)) for p in range(partitions)]
        self.reader.adopt(self.claims)

    def put(self, first: int, count: int, partition: int = 0, data: bytes | None = None, fetch_offset: int | None = None) -> Chunk:
        claim = self.reader.claims[tp(partition)]
        chunk = Chunk(
            "t",
            partition,
            batch(first, count) if data is None else data,
            first if fetch_offset is None else fetch_offset,
            serial=claim,
            decompress=decompress,
            max_decompressed=1 << 20,
        )
        claim.delivered += chunk.size
        self.reader.put(chunk)
        return chunk

    def poll(self, limit: int = 500) -> list[Any]:
        self.reader.enter()
        try:
            self.reader.drain()
            return self.reader.take(limit)
        except BaseException:
            self.reader.take_back()
            raise
        finally:
            self.reader.leave()

    def loop(self, limit: int = 500) -> Any:
        """An iterator as a `for` loop gets it from one poll."""
        self.reader.enter()
        self.reader.drain()
        cursor = self.reader.take_one_by_one(limit)
        self.reader.leave()
        return cursor

    def finished(self, partition: int = 0) -> int | None:
        place = self.reader.finished.get(tp(partition))
        return None if place is None else place[0]

    def reached(self, partition: int = 0) -> int | None:
        place = self.reader.reached().get(tp(partition))
        return None if place is None else place[0]


def offsets(records: Any) -> list[int]:
    return [r.offset for r in records]


@pytest.fixture
def desk() -> Desk:
    return Desk()


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


# ---------------------------------------------------------------- seeks, pauses, endings


def test_seek_drops_what_is_buffered_and_what_arrives_late(desk: Desk) -> None:
    desk.put(0, 3)
    desk.reader.drain()
    late = Chunk("t", 0, batch(3, 3), 3, serial=desk.claims[0], decompress=decompress, max_decompressed=1 << 20)
    desk.reader.seek(tp(0), 50)
    desk.reader.put(late)
    assert desk.poll() == []
    assert desk.reader.consumed > 0
    (old, new, start) = desk.seeks[0]
    assert (old, new, start) == (desk.claims[0], desk.reader.claims[tp(0)], 50)
    desk.put(50, 2)
    assert offsets(desk.poll()) == [50, 51]


def test_seek_in_a_loop_takes_the_rest_of_the_partition_out_of_the_list() -> None:
    desk = Desk(2)
    desk.put(0, 3, 0)
    desk.put(0, 3, 1)
    cursor = desk.loop()
    next(cursor)
    desk.reader.seek(tp(0), 40)
    assert [(r.partition, r.offset) for r in cursor] == [(1, 0), (1, 1), (1, 2)]
    assert desk.reached(0) == 40


def test_what_comes_before_a_seek_counts_as_finished(desk: Desk) -> None:
    desk.put(0, 3)
    desk.poll()
    desk.reader.seek(tp(0), 2)
    assert (desk.finished(), desk.reached()) == (2, 2)
    desk.reader.seek(tp(0), Start.LATEST)
    assert (desk.finished(), desk.reached()) == (None, None)


def test_paused_data_waits_aside_in_order() -> None:
    desk = Desk(2)
    desk.put(0, 4, 0)
    assert offsets(desk.poll(2)) == [0, 1]
    desk.reader.pause(tp(0))
    desk.put(4, 2, 0)
    desk.put(0, 1, 1)
    assert [(r.partition, r.offset) for r in desk.poll()] == [(1, 0)]
    desk.reader.resume(tp(0))
    desk.put(6, 1, 0)
    assert offsets(desk.poll()) == [2, 3, 4, 5, 6]
    assert desk.seeks == []


def test_paused_data_does_not_keep_the_rest_of_its_response_in_memory() -> None:
    desk = Desk()
    frames = []
    for first in (0, 3):
        data = batch(first, 3)
        frames.append(bytearray(data + bytes(10 * len(data))))
        desk.put(first, 3, data=memoryview(frames[-1])[: len(data)])  # type: ignore[arg-type]
        if first == 0:
            desk.reader.drain()
            desk.reader.pause(tp(0))
    assert desk.poll() == []
    for frame in frames:
        frame.clear()  # BufferError while something holds on to it
    desk.reader.resume(tp(0))
    assert [r.offset for r in desk.poll()] == list(range(6))


def test_pause_in_a_loop_takes_the_rest_back_and_fetches_it_again_later(desk: Desk) -> None:
    desk.put(0, 4)
    cursor = desk.loop()
    next(cursor)
    desk.reader.pause(tp(0))
    assert list(cursor) == []
    assert [start for _, _, start in desk.seeks] == [1]
    assert desk.reader.positions() == {tp(0): 1}
    assert desk.reached() in (0, 1)


def test_a_revoked_partition_leaves_nothing_behind() -> None:
    desk = Desk(2)
    desk.put(0, 3, 0)
    desk.put(0, 3, 1)
    desk.poll(2)
    desk.poll(0 + 1)
    desk.reader.release([desk.claims[0]])
    assert set(desk.reader.claims) == {tp(1)}
    assert tp(0) not in desk.reader.finished
    assert tp(0) not in desk.reader.reached()
    assert [r.partition for r in desk.poll()] == [1, 1, 1]
    assert tp(0) not in desk.reader.finished


def test_data_of_partitions_that_were_never_taken_up_is_not_handed_out() -> None:
    desk = Desk()
    never = Claim(tp(7))
    desk.reader.claims[tp(7)] = never
    desk.put(0, 2, 7)
    desk.reader.drain()
    del desk.reader.claims[tp(7)]
    desk.reader.refuse([never])
    desk.reader.put(Chunk("t", 7, batch(2, 2), 2, serial=never, decompress=decompress, max_decompressed=1 << 20))
    assert desk.poll() == []
    assert desk.reader.consumed == never.consumed > 0


def test_a_partition_released_after_a_seek_is_released_under_its_new_claim(desk: Desk) -> None:
    desk.reader.seek(tp(0), 5)
    new = desk.reader.claims[tp(0)]
    desk.put(5, 1)
    desk.reader.release(desk.claims)
    assert desk.reader.claims == {}
    assert not new.live
    assert desk.poll() == []


def test_records_a_loop_left_are_not_finished_when_their_partition_goes(desk: Desk) -> None:
    desk.put(0, 5)
    cursor = desk.loop()
    next(cursor), next(cursor)
    desk.reader.enter()
    desk.reader.purge(desk.claims)
    assert desk.reader.settle()[tp(0)][0] == 2


@pytest.mark.parametrize("take", [Reader.take, Reader.take_one_by_one])
def test_a_poll_that_waits_goes_on_after_a_revocation_took_the_rest_of_a_list(take: Any) -> None:
    desk = Desk(2)
    desk.put(0, 3)
    next(desk.loop())
    desk.reader.enter()
    desk.reader.drain()
    desk.reader.release([desk.claims[0]])
    assert not list(take(desk.reader, 500))
    desk.put(0, 2, partition=1)
    desk.reader.drain()
    assert offsets(take(desk.reader, 500)) == [0, 1]


def test_paused_data_is_dropped_when_it_takes_all_the_room() -> None:
    desk = Desk(2)
    desk.put(0, 3, 0)
    desk.poll(1)
    desk.reader.pause(tp(0))
    desk.put(3, 3, 0)
    desk.reader.drain()
    desk.reader.relieve()
    assert desk.seeks == []  # there is room
    desk.reader.resume_at = 10
    desk.reader.relieve()
    assert [start for _, _, start in desk.seeks] == [1]
    desk.poll()
    assert desk.finished(0) == 1  # what was handed out before stays handed out


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
    ticket = Ticket((), Credentials("g", 1, "m"))
    desk.reader.put(Assigned(ticket))
    desk.reader.put(Ended(ticket))
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
        "assigned": Assigned(Ticket((), Credentials("g", 1, "m"))),
        "ended": Ended(Ticket((), Credentials("g", 1, "m"))),
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
    desk.reader.put(Ended(Ticket((), Credentials("g", 1, "m"))))
    assert list(desk.reader.take_one_by_one(500)) == []
    desk.reader.drain()
    assert offsets(desk.reader.take_one_by_one(500)) == [0, 1, 2, 3, 4]


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


def test_what_is_buffered_of_an_assignment_goes_when_another_takes_its_place(desk: Desk) -> None:
    desk.put(0, 3)
    desk.poll(1)
    desk.reader.pause(tp(0))
    (old,) = desk.claims
    new = Claim(tp(0))
    desk.reader.adopt([new])
    assert (old.live, desk.reader.paused) == (False, set())
    desk.put(7, 2)
    assert offsets(desk.poll()) == [7, 8]
    desk.reader.release([old])
    assert desk.reader.claims == {tp(0): new}


def test_a_cut_below_what_was_read_says_how_many_offsets_are_gone(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.put(0, 5)
    assert len(desk.poll()) == 5
    desk.reader.put(Truncated(desk.reader.claims[tp(0)], 2))
    desk.poll()
    assert "truncated the log to offset 2" in caplog.text
    assert "3 offsets that were already read" in caplog.text


def steps(act: Callable[[], object]) -> int:
    """How many bytecodes `act` takes: unlike its time, almost the same on every machine (the interpreter merges some when it is warm)."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def crowd(partitions: int, what: str) -> Desk:
    """A desk with two chunks of each partition, the first half read."""
    desk = Desk(partitions)
    for first in (0, 2):
        for p in range(partitions):
            desk.put(first, 2, p)
    assert len(desk.poll(2 * partitions)) == 2 * partitions
    desk.poll(1)
    if what in ("resume", "relieve"):
        desk.reader.pause(*map(tp, range(partitions)))
        desk.reader.resume_at = 0
    return desk


ACTS: dict[str, Callable[[Desk, Sequence[TopicPartition]], object]] = {
    "pause": lambda desk, tps: desk.reader.pause(*tps),
    "resume": lambda desk, tps: desk.reader.resume(*tps),
    "seek": lambda desk, tps: desk.reader.seek_all(tps, Start.EARLIEST),
    "relieve": lambda desk, tps: desk.reader.relieve(),
    "position": lambda desk, tps: [desk.reader.position(place) for place in tps],
    "next offset": lambda desk, tps: [desk.reader.next_offset(place) for place in tps],
    "release": lambda desk, tps: desk.reader.release([desk.reader.claims[place] for place in tps]),
    "poll": lambda desk, tps: desk.poll(1),
}


@pytest.mark.parametrize("what", ["pause", "resume", "seek", "position", "next offset", "release", "poll"])
def test_what_is_done_to_one_partition_does_not_look_at_the_others(what: str) -> None:
    desks = [crowd(count, what) for count in (10, 300)]
    few, many = (steps(partial(ACTS[what], desk, [tp(9)])) for desk in desks)
    assert many < 2 * few


@pytest.mark.parametrize("what", ["pause", "resume", "seek", "relieve", "position", "next offset", "release"])
def test_what_is_done_to_all_partitions_takes_steps_in_proportion_to_their_number(what: str) -> None:
    few, many = (steps(partial(ACTS[what], crowd(count, what), [tp(p) for p in range(count)])) for count in (10, 100))
    assert many < 15 * few


def test_what_all_partitions_had_buffered_comes_out_after_they_were_paused_and_resumed_together() -> None:
    desk = crowd(10, "resume")
    assert desk.poll() == []
    desk.reader.resume(*map(tp, range(10)))
    assert {p: [r.offset for r in rest if r.partition == p] for rest in [desk.poll()] for p in range(10)} == {
        p: [3] if p == 0 else [2, 3] for p in range(10)
    }


def test_a_poll_that_goes_on_with_the_list_of_a_loop_does_not_look_at_partitions_that_are_through() -> None:
    """Their markers were taken with that list: all of them on the first poll of a consumer."""

    def cost(markers: int) -> int:
        desk = Desk(markers + 1)
        for p in range(1, markers + 1):
            desk.reader.put(Located(desk.claims[p], 7))
        desk.put(0, 5)
        next(desk.loop())
        desk.poll(1)
        taken = steps(lambda: desk.poll(1))
        assert all(desk.finished(p) == 7 for p in range(1, markers + 1))
        return taken

    assert cost(300) < 2 * cost(10)


def test_a_seek_of_many_partitions_is_one_order_to_the_loop() -> None:
    orders: list[int] = []
    reader = Reader(lambda: 0.0, lambda: None, lambda moves: orders.append(len(moves)))
    reader.adopt([Claim(tp(p)) for p in range(10)])
    reader.seek_all([tp(p) for p in range(10)], Start.LATEST)
    assert orders == [10]


def test_pausing_several_partitions_takes_all_of_them_out_of_a_loops_list() -> None:
    desk = Desk(3)
    for p in range(3):
        desk.put(0, 2, p)
    iterator = desk.loop()
    assert (next(iterator).partition, next(iterator).partition) == (0, 0)
    desk.reader.pause(tp(1), tp(2))
    assert list(iterator) == []
    assert {(old.tp, start) for old, _, start in desk.seeks} == {(tp(1), 0), (tp(2), 0)}
    assert desk.reader.positions() == {tp(0): 2, tp(1): 0, tp(2): 0}


def test_in_a_loop_the_position_is_that_of_the_next_record_of_its_list(desk: Desk) -> None:
    desk.put(0, 3)
    desk.reader.enter()
    desk.reader.drain()
    for record in desk.reader.take_one_by_one(500):
        assert desk.reader.position(tp(0)) == (record.offset + 1)
