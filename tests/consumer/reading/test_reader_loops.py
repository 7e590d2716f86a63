"""The reader in a `for` loop: one record at a time, and what the loop thread sees of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from pykafka4.consumer.reading.forms import LoopForm
from pykafka4.core.subscription import Assigned, Ended, Ending, Lasting, PollError
from pykafka4.errors import KafkaError
from tests.consumer.reader_harness import ReaderHarness, offsets
from tests.core.consumer_harness import tp

# ---------------------------------------------------------------- loops


def test_a_loop_takes_nothing_back_that_was_committed_by_name(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    cursor = harness.loop()
    assert [next(cursor).offset for _ in range(4)] == [0, 1, 2, 3]
    harness.reader.finished[tp(0)] = (100, 0)
    assert harness.reader.progress()[tp(0)] == (100, 0)
    assert harness.reader.settle()[tp(0)] == (100, 0)


def test_in_a_loop_everything_before_the_record_in_hand_is_reached(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    cursor = harness.loop()
    for expected in range(5):
        assert next(cursor).offset == expected
        assert harness.reached() == expected
        assert harness.reader.settle()[tp(0)][0] == expected
    assert list(cursor) == []
    assert harness.reached() == 4  # the loop has not asked for more yet
    harness.poll()
    assert harness.finished() == 5


def test_what_a_loop_left_comes_with_the_next_poll_and_counts_exactly(harness: ReaderHarness) -> None:
    harness.put(0, 6)
    cursor = harness.loop()
    next(cursor), next(cursor)
    assert offsets(harness.poll(3)) == [2, 3, 4]
    assert (harness.finished(), harness.reached()) == (2, 5)
    assert offsets(harness.poll(3)) == [5]
    assert harness.finished() == 5
    harness.poll()
    assert harness.finished() == 6


def test_a_second_loop_goes_on_with_the_list_of_the_first(harness: ReaderHarness) -> None:
    harness.put(0, 4)
    next(harness.loop())
    assert offsets(harness.loop()) == [1, 2, 3]


def test_a_loop_that_goes_on_behind_polled_records_has_none_of_them_in_hand(harness: ReaderHarness) -> None:
    """After Ctrl-C before its first record, `commit` would go back."""
    harness.put(0, 6)
    next(harness.loop())
    assert offsets(harness.poll(2)) == [1, 2]
    cursor = harness.loop()
    assert (harness.finished(), harness.reached()) == (3, 3)
    assert next(cursor).offset == harness.reached() == 3


def test_the_next_record_is_where_the_position_is(harness: ReaderHarness) -> None:
    harness.put(0, 4)
    cursor = harness.loop()
    next(cursor)
    assert harness.reader.positions() == {tp(0): 1}
    next(cursor)
    assert harness.reader.positions() == {tp(0): 2}


def test_partitions_in_one_list_count_each_for_itself() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 2, 0)
    harness.put(7, 2, 1)
    cursor = harness.loop()
    for _ in range(3):
        next(cursor)
    assert (harness.reached(0), harness.reached(1)) == (2, 7)
    next(cursor)
    assert (harness.reached(0), harness.reached(1)) == (2, 8)


# ---------------------------------------------------------------- a `for` loop, seen from the loop thread


def test_each_record_taken_in_a_loop_counts_as_a_poll(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    iterator = harness.loop()
    assert harness.reader.idle_since() == 50.0
    for now in (60.0, 70.0):
        harness.now = now
        next(iterator)
        assert harness.reader.idle_since() == now
    harness.now = 80.0
    assert harness.reader.idle_since() == 70.0
    harness.reader.enter()
    assert harness.reader.idle_since() is None


def test_the_loop_sees_no_old_time_while_another_thread_notes_progress(harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape of the metrics notes the progress, too. With an old time the loop would end the lease."""
    harness.put(0, 5)
    iterator = harness.loop()
    next(iterator)
    harness.reader.idle_since()
    seen: list[float | None] = []
    kind = type(harness.reader)

    def store(reader: Any, name: str, value: Any) -> None:
        object.__setattr__(reader, name, value)
        with monkeypatch.context() as original:
            original.delattr(kind, "__setattr__")
            seen.append(reader.idle_since())  # as the loop between this store and the next

    harness.now = 60.0
    next(iterator)
    monkeypatch.setattr(kind, "__setattr__", store, raising=False)
    harness.reader.idle_since()
    monkeypatch.undo()
    assert set(seen) == {60.0}


def test_reading_a_polled_list_does_not_count_as_a_poll(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    harness.poll()
    harness.now = 60.0
    assert harness.reader.idle_since() == 50.0


def test_progress_in_a_loop_is_everything_before_the_record_in_hand() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    harness.put(0, 3, 1)
    iterator = harness.loop()
    places = []
    for _ in iterator:
        places.append({tp.partition: offset for tp, (offset, _) in harness.reader.progress().items()})
    assert places == [{0: 0, 1: 0}, {0: 1, 1: 0}, {0: 2, 1: 0}, {0: 3, 1: 0}, {0: 3, 1: 1}, {0: 3, 1: 2}]
    assert harness.reader.finished == {}  # the loop thread reads what the application alone writes
    harness.poll()
    assert {tp.partition: offset for tp, (offset, _) in harness.reader.progress().items()} == {0: 3, 1: 3}


def test_progress_does_not_cover_what_a_pause_or_seek_took_out_of_the_list() -> None:
    harness = ReaderHarness(2)
    harness.put(0, 3, 0)
    harness.put(0, 3, 1)
    iterator = harness.loop()
    next(iterator), next(iterator)
    harness.reader.seek(tp(1), 7)
    assert harness.reader.progress() == {tp(0): (1, 0), tp(1): (7, -1)}
    harness.reader.pause(tp(0))
    assert list(iterator) == []
    assert harness.reader.progress()[tp(0)][0] == 1


@pytest.mark.parametrize("event", ["assigned", "ended", "trouble", "notice"])
def test_an_event_ends_a_loops_list_before_its_next_record(harness: ReaderHarness, event: str) -> None:
    """A handler that has become slow must not hold a rebalance back until it is through with 500 records."""
    items = {
        "assigned": Assigned(()),
        "ended": Ended((), Ending.REVOKED),
        "trouble": PollError(None, KafkaError("x")),
        "notice": PollError(None, KafkaError("x"), Lasting.ONCE),
    }
    harness.put(0, 5)
    iterator = harness.loop()
    assert next(iterator).offset == 0
    harness.put(5, 1)  # data is no event
    assert next(iterator).offset == 1
    harness.reader.put(items[event])
    assert next(iterator, None) is None
    assert harness.reader.reached() == {tp(0): (1, 0)}
    again = harness.loop()  # this asks for the next: the second record is finished
    assert harness.finished() == 2
    assert offsets(again) == [2, 3, 4]


def test_an_event_that_arrives_while_a_list_is_made_ends_it_too(harness: ReaderHarness) -> None:
    harness.put(0, 5)
    harness.enter()
    harness.reader.put(Ended((), Ending.REVOKED))
    assert list(harness.hand_out(harness.take(500, LoopForm(500)))) == []
    harness.reader.drain()
    assert offsets(harness.take(500, LoopForm(500))) == [0, 1, 2, 3, 4]


def test_in_a_loop_the_position_is_that_of_the_next_record_of_its_list(harness: ReaderHarness) -> None:
    harness.put(0, 3)
    for record in harness.loop():
        assert harness.reader.position(tp(0)) == (record.offset + 1)


def test_before_the_first_record_of_a_loop_nothing_of_its_list_is_reached(harness: ReaderHarness) -> None:
    """The loop thread may commit just then: before the iterator returns its first record."""
    harness.put(0, 3)
    cursor = harness.loop()
    assert (harness.reached(), harness.reader.progress()[tp(0)][0]) == (0, 0)
    next(cursor)
    assert harness.reached() == 0


def progress_while(change: Callable[[], None], at: int, harness: ReaderHarness) -> tuple[Any, int]:
    """`progress`, with a change by the application's thread before its line number `at`; and how many lines ran until then."""
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if event == "line" and "/pykafka4/consumer/reading/" in frame.f_code.co_filename:
            lines += 1
            if lines == at:
                sys.settrace(None)
                change()
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        return harness.reader.progress(), lines
    finally:
        sys.settrace(tracer)


def test_auto_commit_leaves_out_records_that_a_revocation_removes_while_it_counts() -> None:
    for at in count(1):
        harness = ReaderHarness(2)
        harness.put(0, 3, 0)
        harness.put(7, 3, 1)
        first = next(harness.loop())
        other, start = (1, 7) if first.partition == 0 else (0, 0)  # none of its records was returned
        progress, lines = progress_while(partial(harness.reader.purge, [harness.claims[other]]), at, harness)
        assert progress.get(tp(other), (start, -1))[0] == start, at
        if lines < at:
            assert at > 10
            return
