"""The reader of many partitions: a call costs what it is about, counted in bytecodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from pykafka4.consumer.reading.reader import Reader
from pykafka4.core.subscription import Claim, Located, Start
from pykafka4.records import TopicPartition
from tests.consumer.reader_harness import ReaderHarness
from tests.core.consumer_harness import tp
from tests.core.counting import bytecodes


def crowd(partitions: int, what: str) -> ReaderHarness:
    """A harness with two chunks of each partition, the first half read; before "next offset" nothing is: it is looked for in the chunks."""
    harness = ReaderHarness(partitions)
    for first in (0, 2):
        for p in range(partitions):
            harness.put(first, 2, p)
    if what == "next offset":
        harness.reader.drain()
        return harness
    assert len(harness.poll(2 * partitions)) == 2 * partitions
    harness.poll(1)
    if what in ("resume", "relieve"):
        harness.reader.pause(*map(tp, range(partitions)))
        harness.reader.resume_at = 0
    return harness


ACTS: dict[str, Callable[[ReaderHarness, Sequence[TopicPartition]], object]] = {
    "pause": lambda harness, tps: harness.reader.pause(*tps),
    "resume": lambda harness, tps: harness.reader.resume(*tps),
    "seek": lambda harness, tps: harness.reader.seek_each(dict.fromkeys(tps, Start.EARLIEST)),
    "relieve": lambda harness, tps: harness.reader.relieve(),
    "position": lambda harness, tps: [harness.reader.position(place) for place in tps],
    "next offset": lambda harness, tps: [harness.reader.next_offset(place) for place in tps],
    "release": lambda harness, tps: harness.reader.release([harness.reader.claims[place] for place in tps]),
    "poll": lambda harness, tps: harness.poll(1),
}


@pytest.mark.parametrize("what", ["pause", "resume", "seek", "position", "next offset", "release", "poll"])
def test_what_is_done_to_one_partition_does_not_look_at_the_others(what: str) -> None:
    few, many = (bytecodes(partial(ACTS[what], crowd(count, what), [tp(count - 1)])) for count in (10, 300))
    assert many < 2 * few


@pytest.mark.parametrize("what", ["pause", "resume", "seek", "relieve", "position", "next offset", "release"])
def test_what_is_done_to_all_partitions_takes_steps_in_proportion_to_their_number(what: str) -> None:
    few, many = (bytecodes(partial(ACTS[what], crowd(count, what), [tp(p) for p in range(count)])) for count in (10, 100))
    assert many < 15 * few


@pytest.mark.parametrize("what", ["pause", "seek", "recover"])
def test_moves_within_the_list_of_a_loop_take_steps_in_proportion_to_the_number_of_partitions(what: str) -> None:
    def cost(partitions: int) -> int:
        harness = ReaderHarness(partitions)
        for p in range(partitions):
            harness.put(0, 2, p)
        next(harness.loop(2 * partitions))
        act = {**ACTS, "recover": lambda harness, _: harness.reader.recover()}[what]
        return bytecodes(partial(act, harness, [tp(p) for p in range(partitions)]))

    assert cost(100) < 15 * cost(10)


def test_what_all_partitions_had_buffered_comes_out_after_they_were_paused_and_resumed_together() -> None:
    harness = crowd(10, "resume")
    assert harness.poll() == []
    harness.reader.resume(*map(tp, range(10)))
    assert {p: [r.offset for r in rest if r.partition == p] for rest in [harness.poll()] for p in range(10)} == {
        p: [3] if p == 0 else [2, 3] for p in range(10)
    }


def test_a_poll_that_goes_on_with_the_list_of_a_loop_does_not_look_at_partitions_that_are_through() -> None:
    """Their markers were taken with that list: all of them on the first poll of a consumer."""

    def cost(markers: int) -> int:
        harness = ReaderHarness(markers + 1)
        for p in range(1, markers + 1):
            harness.reader.put(Located(harness.claims[p], 7))
        harness.put(0, 5)
        next(harness.loop())
        harness.poll(1)
        taken = bytecodes(lambda: harness.poll(1))
        assert all(harness.finished(p) == 7 for p in range(1, markers + 1))
        return taken

    assert cost(300) < 2 * cost(10)


def test_a_seek_of_many_partitions_is_one_call_to_the_loop() -> None:
    orders: list[int] = []
    reader = Reader(lambda: 0.0, lambda: None, lambda moves: orders.append(len(moves)))
    reader.adopt([Claim(tp(p)) for p in range(10)])
    reader.seek_each({tp(p): Start.LATEST for p in range(10)})
    assert orders == [10]
