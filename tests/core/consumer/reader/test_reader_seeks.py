"""The reader when the application seeks or pauses, and when partitions go."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import batch, tp
from reader_talk import Desk, offsets

from pykafka4.core.consumer.reader import Reader
from pykafka4.core.subscription import Claim, Start
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk


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
