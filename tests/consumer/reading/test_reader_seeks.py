"""The reader when the application seeks or pauses, and when partitions go."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.consumer.reading.forms import Form, ListForm, LoopForm
from pykafka4.consumer.reading.reader import Reader
from pykafka4.core.subscription import Claim, Start
from pykafka4.records import TopicPartition
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk
from tests.consumer.reader_harness import ReaderHarness, offsets
from tests.core.consumer_harness import batch, tp


def test_seek_drops_what_is_buffered_and_what_arrives_late(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    harness.reader.drain()
    late = Chunk("t", 0, batch(3, 3), 3, serial=harness.claims[0], decompress=decompress, max_decompressed=1 << 20)
    harness.reader.seek(tp(0), 50)
    harness.reader.put(late)
    assert harness.poll() == []
    assert harness.reader.consumed > 0
    (old, new, start) = harness.seeks[0]
    assert (old, new, start) == (harness.claims[0], harness.reader.claims[tp(0)], 50)
    harness.put(50, 2)
    assert offsets(harness.poll()) == [50, 51]


def test_seek_in_a_loop_takes_the_rest_of_the_partition_out_of_the_list() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    harness.put(0, 3, 1)
    cursor = harness.loop()
    next(cursor)
    harness.reader.seek(tp(0), 40)
    assert [(r.partition, r.offset) for r in cursor] == [(1, 0), (1, 1), (1, 2)]
    assert harness.reached(0) == 40


def test_records_before_a_seek_count_as_finished(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    harness.poll()
    harness.reader.seek(tp(0), 2)
    assert (harness.finished(), harness.reached()) == (2, 2)
    harness.reader.seek(tp(0), Start.LATEST)
    assert (harness.finished(), harness.reached()) == (None, None)


def test_paused_data_waits_aside_in_order() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 4, 0)
    assert offsets(harness.poll(2)) == [0, 1]
    harness.reader.pause(tp(0))
    harness.put(4, 2, 0)
    harness.put(0, 1, 1)
    assert [(r.partition, r.offset) for r in harness.poll()] == [(1, 0)]
    harness.reader.resume(tp(0))
    harness.put(6, 1, 0)
    assert offsets(harness.poll()) == [2, 3, 4, 5, 6]
    assert harness.seeks == []


def test_paused_data_does_not_keep_the_rest_of_its_response_in_memory() -> None:
    harness = ReaderHarness()
    frames = []
    for first in (0, 3):
        data = batch(first, 3)
        frames.append(bytearray(data + bytes(10 * len(data))))
        harness.put(first, 3, data=memoryview(frames[-1])[: len(data)])  # type: ignore[arg-type]
        if first == 0:
            harness.reader.drain()
            harness.reader.pause(tp(0))
    assert harness.poll() == []
    for frame in frames:
        frame.clear()  # BufferError while something holds on to it
    harness.reader.resume(tp(0))
    assert [r.offset for r in harness.poll()] == list(range(6))


def test_pause_in_a_loop_takes_the_rest_back_and_fetches_it_again_later(harness: ReaderHarness) -> None:
    harness.put(0, 4)
    cursor = harness.loop()
    next(cursor)
    harness.reader.pause(tp(0))
    assert list(cursor) == []
    assert [start for _, _, start in harness.seeks] == [1]
    assert harness.reader.positions() == {tp(0): 1}
    assert harness.reached() in (0, 1)


def test_a_revoked_partition_leaves_nothing_behind() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    harness.put(0, 3, 1)
    harness.poll(2)
    harness.poll(0 + 1)
    harness.reader.release([harness.claims[0]])
    assert set(harness.reader.claims) == {tp(1)}
    assert tp(0) not in harness.reader.finished
    assert tp(0) not in harness.reader.reached()
    assert [r.partition for r in harness.poll()] == [1, 1, 1]
    assert tp(0) not in harness.reader.finished


def test_data_of_partitions_that_were_never_taken_up_is_not_handed_out() -> None:
    harness = ReaderHarness()
    never = Claim(tp(7))
    harness.reader.claims[tp(7)] = never
    harness.put(0, 2, 7)
    harness.reader.drain()
    del harness.reader.claims[tp(7)]
    harness.reader.refuse([never])
    harness.reader.put(Chunk("t", 7, batch(2, 2), 2, serial=never, decompress=decompress, max_decompressed=1 << 20))
    assert harness.poll() == []
    assert harness.reader.consumed == never.consumed > 0


def test_a_partition_released_after_a_seek_is_released_under_its_new_claim(harness: ReaderHarness) -> None:
    harness.reader.seek(tp(0), 5)
    new = harness.reader.claims[tp(0)]
    harness.put(5, 1)
    harness.reader.release(harness.claims)
    assert harness.reader.claims == {}
    assert not new.live
    assert harness.poll() == []


def test_records_a_loop_left_are_not_finished_when_their_partition_goes(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    cursor = harness.loop()
    next(cursor), next(cursor)
    harness.reader.enter()
    harness.reader.purge(harness.claims)
    assert harness.reader.settle()[tp(0)][0] == 2


@pytest.mark.parametrize("form", [ListForm(500), LoopForm(500)])
def test_a_poll_that_waits_goes_on_after_a_revocation_took_the_rest_of_a_list(form: Form[Any]) -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3)
    next(harness.loop())
    harness.reader.enter()
    harness.reader.drain()
    harness.reader.release([harness.claims[0]])
    assert not list(harness.take(500, form))
    harness.put(0, 2, partition=1)
    harness.reader.drain()
    assert offsets(harness.take(500, form)) == [0, 1]


def test_paused_data_is_dropped_when_it_takes_all_the_room() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    harness.poll(1)
    harness.reader.pause(tp(0))
    harness.put(3, 3, 0)
    harness.reader.drain()
    harness.reader.relieve()
    assert harness.seeks == []  # there is room
    harness.reader.resume_at = 10
    harness.reader.relieve()
    assert [start for _, _, start in harness.seeks] == [1]
    harness.poll()
    assert harness.finished(0) == 1  # what was handed out before stays handed out


def test_what_is_buffered_of_an_assignment_goes_when_another_takes_its_place(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    harness.poll(1)
    harness.reader.pause(tp(0))
    (old,) = harness.claims
    new = Claim(tp(0))
    harness.reader.adopt([new])
    assert (old.live, harness.reader.paused) == (False, set())
    harness.put(7, 2)
    assert offsets(harness.poll()) == [7, 8]
    harness.reader.release([old])
    assert harness.reader.claims == {tp(0): new}


def test_pausing_several_partitions_takes_all_of_them_out_of_a_loops_list() -> None:
    harness = ReaderHarness(3)
    for p in range(3):
        harness.put(0, 2, p)
    iterator = harness.loop()
    assert (next(iterator).partition, next(iterator).partition) == (0, 0)
    harness.reader.pause(tp(1), tp(2))
    assert list(iterator) == []
    assert {(old.tp, start) for old, _, start in harness.seeks} == {(tp(1), 0), (tp(2), 0)}
    assert harness.reader.positions() == {tp(0): 2, tp(1): 0, tp(2): 0}


class Interrupts(dict[TopicPartition, int]):
    """Ctrl-C arrives while the second partition is sought."""

    def items(self) -> Any:
        first, _ = super().items()
        yield first
        raise KeyboardInterrupt


def test_an_interrupted_seek_of_several_partitions_marks_none_as_finished() -> None:
    """Otherwise records before the offset could be committed, although they were not read and reading does not continue behind them."""
    harness = ReaderHarness(2)
    with pytest.raises(KeyboardInterrupt):
        harness.reader.seek_each(Interrupts({tp(0): 50, tp(1): 70}))
    assert (harness.seeks, harness.reader.finished) == ([], {})


def test_a_seek_counts_although_the_one_before_was_interrupted() -> None:
    harness, interrupted = ReaderHarness(), False

    def reseek(moves: Any) -> None:
        nonlocal interrupted
        harness.seeks.extend(moves)
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    harness.reader = Reader(lambda: 0.0, lambda: None, reseek)
    harness.reader.adopt(harness.claims)
    with pytest.raises(KeyboardInterrupt):
        harness.reader.seek(tp(0), 5)
    harness.reader.seek(tp(0), 9)
    assert harness.seeks[-1][1:] == (harness.reader.claims[tp(0)], 9)
    assert (harness.finished(), harness.reader.position(tp(0))) == (9, 9)


def test_after_an_interrupted_step_back_nothing_behind_it_is_finished() -> None:
    harness, interrupts = ReaderHarness(), [KeyboardInterrupt]

    def reseek(moves: Any) -> None:
        if interrupts:
            raise interrupts.pop()

    harness.reader = Reader(lambda: 0.0, lambda: None, reseek)
    harness.reader.adopt(harness.claims)
    harness.put(0, 5)
    harness.poll()
    harness.reader.finish()
    assert harness.finished() == 5
    with pytest.raises(KeyboardInterrupt):
        harness.reader.go_back({tp(0): (2, 7)})
    assert harness.finished() == 2
    harness.reader.go_back({tp(0): (2, 7)})
    claim = harness.reader.claims[tp(0)]
    assert (claim.position, claim.epoch, harness.reader.finished[tp(0)]) == (2, 7, (2, 7))


def test_a_step_back_to_where_reading_stands_is_none(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    harness.poll()
    harness.reader.go_back({tp(0): (5, 0), tp(1): (3, 0)})
    assert harness.seeks == []


def test_withheld_records_come_back_in_order_unless_their_partition_is_paused() -> None:
    harness = ReaderHarness(partitions=2)
    harness.put(0, 2, 0)
    harness.put(0, 2, 1)
    harness.reader.drain()
    harness.reader.withhold([tp(0), tp(1)])
    harness.put(2, 2, 0)
    assert harness.poll() == []
    harness.reader.pause(tp(1))
    harness.reader.resume(tp(0))
    assert harness.poll() == [], "resume is about pause alone"
    harness.reader.withhold([])
    assert [(r.partition, r.offset) for r in harness.poll()] == [(0, offset) for offset in range(4)]
    harness.reader.resume(tp(1))
    assert [(r.partition, r.offset) for r in harness.poll()] == [(1, 0), (1, 1)]


def test_a_partition_that_was_withheld_when_it_was_released_is_read_after_its_next_assignment(harness: ReaderHarness) -> None:
    harness.reader.withhold([tp(0)])
    harness.reader.release(harness.claims)
    harness.claims[:] = [Claim(tp(0))]
    harness.reader.adopt(harness.claims)
    harness.put(0, 2)
    assert offsets(harness.poll()) == [0, 1]
