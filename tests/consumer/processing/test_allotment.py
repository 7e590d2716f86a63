"""Allotment: a partition is on one stream at a time, and its committable offset never passes a record that is not finished."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer.processing.allotment import Allotment, StreamState
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from tests.consumer.processing.working import record
from tests.core.counting import bytecodes
from tests.net.interrupts import interrupted

LONG_S = 30.0


def tps(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition("t", p) for p in partitions]


def allotment(streams: int = 1, partitions: int = 1, woken: list[None] | None = None) -> tuple[Allotment, list[StreamState]]:
    states = [StreamState("t", f"stream {n} of t") for n in range(streams)]
    made = Allotment(states, (lambda: None) if woken is None else (lambda: woken.append(None)))
    made.assign(tps(*range(partitions)))
    return made, states


def records(*offsets: int, partition: int = 0) -> list[Any]:
    return [record(offset, None, partition) for offset in offsets]


def first(made: Allotment) -> dict[int, int]:
    """The first record of each partition that is not finished."""
    return {tp.partition: offset for tp, (offset, _) in made.unfinished().items()}


def end(made: Allotment, *partitions: int, timeout: float = 0.0) -> dict[int, int]:
    """What is not finished when these have ended."""
    made.end(tps(*partitions), timeout)
    left = {partition: offset for partition, offset in first(made).items() if partition in partitions}
    made.drop(tps(*partitions))
    assert not first(made).keys() & set(partitions)
    return left


def held(states: list[StreamState]) -> list[set[int]]:
    return [{tp.partition for tp in state.queues} for state in states]


class Elsewhere:
    """Runs a call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None

        def run() -> None:
            try:
                self.result = call()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def ended(self) -> Elsewhere:
        self.thread.join(LONG_S)
        assert not self.thread.is_alive()
        return self


def test_a_record_is_finished_when_the_next_one_is_asked_for() -> None:
    made, (stream,) = allotment()
    made.add(records(5, 6, 9))
    assert made.next_record(stream).offset == 5
    assert first(made) == {0: 5}
    assert made.next_record(stream).offset == 6
    assert first(made) == {0: 6}
    assert made.next_record(stream).offset == 9
    assert first(made) == {0: 9}
    made.finish(stream)
    assert first(made) == {}


def test_the_partitions_of_a_stream_take_turns() -> None:
    made, (stream,) = allotment(1, 2)
    made.add(records(0, 1) + records(0, 1, 2, partition=1))
    found = [made.next_record(stream) for _ in range(5)]
    assert [(r.partition, r.offset) for r in found] == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)]


def test_partitions_are_divided_among_the_streams_of_their_topic() -> None:
    states = [StreamState("t", "a"), StreamState("t", "b"), StreamState("u", "c")]
    made = Allotment(states, lambda: None)
    made.assign([TopicPartition("u", 0), *tps(0, 1, 2), TopicPartition("u", 1)])
    assert [sorted(state.queues) for state in states] == [tps(0, 2), tps(1), [TopicPartition("u", 0), TopicPartition("u", 1)]]


def test_the_streams_of_a_pattern_share_all_topics() -> None:
    states = [StreamState(None, "a"), StreamState(None, "b")]
    made = Allotment(states, lambda: None)
    made.assign([TopicPartition("u", 0), *tps(0, 1), TopicPartition("v", 0)])
    assert [len(state.queues) for state in states] == [2, 2]


def test_thousands_of_partitions_are_divided_among_thousands_of_streams_in_one_pass() -> None:
    """A second counts: the thread that polls does this, and every stream waits meanwhile."""
    costs = []
    for many in (500, 1_000):
        made, states = allotment(many, 0)
        costs.append(bytecodes(lambda made=made, many=many: made.assign(tps(*range(2 * many)))))
        assert {len(state.queues) for state in states} == {2}
    assert costs[1] < 3 * costs[0]


def test_after_a_loss_streams_differ_by_one_partition_at_most_and_few_partitions_move() -> None:
    made, states = allotment(3, 9)
    assert held(states) == [{0, 3, 6}, {1, 4, 7}, {2, 5, 8}]
    end(made, 0, 3, 6)
    assert [len(one) for one in held(states)] == [2, 2, 2]
    assert {1, 4} <= held(states)[1] | {7}
    assert len(held(states)[1] - {1, 4, 7}) == 0, "only the stream that lost some has got some"
    made.assign(tps(9))
    assert sorted(len(one) for one in held(states)) == [2, 2, 3]


def test_a_partition_that_moves_starts_on_the_new_stream_when_the_old_one_has_finished_its_record() -> None:
    made, states = allotment(2, 2)
    old, new = states
    made.add(records(0, 1, 2))
    assert made.next_record(old).offset == 0
    made.queues[tps(0)[0]].stream = new  # as `_balance` moves it
    new.queues[tps(0)[0]] = old.queues.pop(tps(0)[0])
    made._list(made.queues[tps(0)[0]])
    assert not new.ready
    waiting = Elsewhere(lambda: made.next_record(new))
    until(lambda: new.signal.waiting, LONG_S, "the new stream waits")
    assert waiting.thread.is_alive()
    made.finish(old)
    assert waiting.ended().result.offset == 1
    assert first(made) == {0: 1}


def test_a_partition_in_hand_moves_only_if_no_other_can() -> None:
    made, states = allotment(2, 4)
    made.add(records(0, partition=2))
    assert made.next_record(states[0]).partition == 2
    end(made, 1, 3)
    assert held(states) == [{2}, {0}]


def test_a_partition_that_comes_back_waits_for_the_record_of_its_earlier_time() -> None:
    made, (one, other) = allotment(2, 1)
    made.add(records(0, 1))
    gate = threading.Event()
    earlier = Elsewhere(lambda: (made.next_record(one), gate.wait(LONG_S), made.finish(one)))
    until(lambda: one.hand, LONG_S, "a record in hand")
    assert end(made, 0) == {0: 0}, "the time is over"
    made.assign(tps(1))
    made.assign(tps(0))
    assert held([one, other]) == [{1}, {0}]
    made.add(records(0))
    again = Elsewhere(lambda: made.next_record(other))
    until(lambda: other.signal.waiting, LONG_S, "the other stream waits")
    gate.set()
    assert earlier.ended().error is None
    assert again.ended().result.offset == 0
    assert first(made) == {0: 0}, "what the earlier time finished is not of this one"


def test_the_end_of_a_partition_waits_for_the_record_in_hand_and_returns_what_is_safe() -> None:
    made, states = allotment(1, 2)
    made.add(records(0, 1, 2))
    gate, taken = threading.Event(), list[int]()

    def read() -> None:
        taken.append(made.next_record(states[0]).offset)
        taken.append(made.next_record(states[0]).offset)
        gate.wait(LONG_S)
        made.finish(states[0])

    reading = Elsewhere(read)
    until(lambda: len(taken) == 2, LONG_S, "two records")
    ending = Elsewhere(lambda: end(made, 0, timeout=LONG_S))
    until(lambda: made._changed.waiting, LONG_S, "the end waits")
    gate.set()
    assert ending.ended().result == {0: 2}
    reading.ended()
    assert held(states) == [{1}]


def test_what_was_polled_before_its_partition_ended_and_comes_then_is_not_finished() -> None:
    """Another thread closes the consumer."""
    made, (stream,) = allotment()
    made.add(records(0))
    made.next_record(stream)
    made.end(tps(0), 0.0)
    made.add(records(1))
    made.finish(stream)
    assert (first(made), made.held) == ({0: 1}, 0)


def test_a_record_that_is_given_back_while_its_partition_ends_is_not_finished() -> None:
    made, (stream,) = allotment()
    made.add(records(0, 1, 2))
    made.next_record(stream)
    made.end(tps(0), 0.0)
    made.leave(stream)
    assert (first(made), made.held) == ({0: 0}, 0)


def test_what_is_taken_is_told_before_a_stream_takes_a_record() -> None:
    made, (stream,) = allotment()
    told: list[int] = []
    made.add(records(0), lambda: told.append(len(stream.ready)))
    assert (told, len(stream.ready)) == ([0], 1)


def test_the_end_does_not_wait_for_the_calling_thread_and_for_threads_that_have_ended() -> None:
    made, states = allotment(2, 2)
    made.add(records(0) + records(0, partition=1))
    made.next_record(states[0])
    Elsewhere(lambda: made.next_record(states[1])).ended()
    assert end(made, 0, 1, timeout=LONG_S) == {0: 0, 1: 0}


def test_a_stream_is_read_by_one_thread() -> None:
    made, (stream,) = allotment()
    made.add(records(0, 1))
    gate, taken = threading.Event(), threading.Event()
    reading = Elsewhere(lambda: (made.next_record(stream), taken.set(), gate.wait(LONG_S), made.leave(stream)))
    assert taken.wait(LONG_S)
    with pytest.raises(
        KafkaError, match=r"thread 'MainThread' reads stream 0 of t while thread 'Thread-.*' does: one thread reads a stream"
    ):
        made.next_record(stream)
    for call in (made.finish, made.leave):
        with pytest.raises(KafkaError, match="one thread reads a stream"):
            call(stream)
    gate.set()
    reading.ended()
    assert made.next_record(stream).offset == 0
    assert first(made) == {0: 0}


def test_two_threads_that_wait_for_one_stream_are_an_error() -> None:
    made, (stream,) = allotment()
    reading = Elsewhere(lambda: made.next_record(stream))
    until(lambda: stream.signal.waiting, LONG_S, "the first waits")
    with pytest.raises(KafkaError, match="one thread reads a stream"):
        made.next_record(stream)
    made.add(records(0))
    assert reading.ended().result.offset == 0


def test_the_record_of_a_thread_that_has_ended_is_returned_again() -> None:
    made, (stream,) = allotment()
    made.add(records(0, 1))
    Elsewhere(lambda: made.next_record(stream)).ended()
    assert made.unread(0.0, 1e9) == ([stream], [])
    assert made.unread(0.0, 1e9) == ([], []), "once"
    assert made.next_record(stream).offset == 0
    made.leave(stream)
    Elsewhere(lambda: made.next_record(stream)).ended()
    assert made.next_record(stream).offset == 0, "also before anybody has looked"
    assert first(made) == {0: 0}


def test_a_stream_that_nobody_reads_is_told_once() -> None:
    made, (stream,) = allotment()
    later = stream.asked_at + 10
    assert made.unread(later, 5.0) == ([], []), "nothing waits"
    made.add(records(0, 1))
    assert made.unread(later, 5.0) == ([], [stream])
    assert made.unread(later, 5.0) == ([], [])
    made.next_record(stream)
    assert made.unread(stream.asked_at, 5.0) == ([], [])
    assert made.unread(stream.asked_at + 6, 5.0) == ([], [stream])


def test_a_log_that_lost_its_end_is_read_again_from_there() -> None:
    made, (stream,) = allotment()
    made.add(records(5, 6, 7))
    assert [made.next_record(stream).offset for _ in range(2)] == [5, 6]
    made.add(records(3, 4))
    assert (first(made), made.held) == ({0: 3}, 2)
    assert [made.next_record(stream).offset for _ in range(2)] == [3, 4]
    assert first(made) == {0: 4}


@pytest.mark.parametrize("gives_back", [False, True])
def test_records_before_the_end_that_a_log_lost_stay(gives_back: bool) -> None:
    made, (stream,) = allotment()
    made.add(records(5, 6, 7, 8))
    assert made.next_record(stream).offset == 5
    made.add(records(7, 8))
    assert (first(made), made.held) == ({0: 5}, 3)
    if gives_back:
        made.leave(stream)
        assert (first(made), made.held) == ({0: 5}, 4)
    rest = [5, 6, 7, 8] if gives_back else [6, 7, 8]
    assert [made.next_record(stream).offset for _ in rest] == rest
    made.finish(stream)
    assert (first(made), made.held) == ({}, 0)


def test_stop_ends_the_loops_and_the_record_before_is_finished() -> None:
    made, states = allotment(2, 1)
    made.add(records(0, 1))
    reader = next(state for state in states if state.queues)
    other = states[1 - states.index(reader)]
    made.next_record(reader)
    waiting = Elsewhere(lambda: made.next_record(other))
    until(lambda: other.signal.waiting, LONG_S, "a stream without partitions waits")
    made.stop()
    assert isinstance(waiting.ended().error, StopIteration)
    assert first(made) == {0: 0}
    with pytest.raises(StopIteration):
        made.next_record(reader)
    assert first(made) == {0: 1}
    with pytest.raises(StopIteration):
        made.next_record(reader)


def test_an_error_ends_every_loop() -> None:
    made, states = allotment(2, 2)
    made.add(records(0, 1))
    made.next_record(states[0])
    waiting = Elsewhere(lambda: made.next_record(states[1]))
    until(lambda: states[1].signal.waiting, LONG_S, "a stream waits")
    made.fail(KafkaError("no"))
    assert str(waiting.ended().error) == "no"
    with pytest.raises(KafkaError, match="no"):
        made.next_record(states[0])
    assert first(made) == {0: 1}


def test_the_first_record_that_is_not_finished_is_in_hand_or_waits() -> None:
    made, states = allotment(2, 3)
    made.add(records(4, 5) + records(7, partition=1))
    made.next_record(states[0])
    assert first(made) == {0: 4, 1: 7}
    made.finish(states[0])
    assert first(made) == {0: 5, 1: 7}


def test_drain_waits_for_records_in_hand() -> None:
    made, (stream,) = allotment()
    made.add(records(0))
    gate, taken = threading.Event(), threading.Event()
    reading = Elsewhere(lambda: (made.next_record(stream), taken.set(), gate.wait(LONG_S), made.finish(stream)))
    assert taken.wait(LONG_S)
    assert not made.wait_for_hands(0.0)
    draining = Elsewhere(lambda: made.wait_for_hands(LONG_S))
    until(lambda: made._changed.waiting, LONG_S, "drain waits")
    gate.set()
    assert draining.ended().result is True
    reading.ended()


def test_a_watched_partition_wakes_the_dispatcher_once() -> None:
    woken: list[None] = []
    made, (stream,) = allotment(1, 1, woken)
    made.add(records(*range(6)))
    made.watch({tps(0)[0]: 2})
    for _ in range(3):
        made.next_record(stream)
    assert not woken
    for _ in range(3):
        made.next_record(stream)
    assert len(woken) == 1
    made.watch({tps(0)[0]: 2})
    assert len(woken) == 2, "it is free already"


def test_ctrl_c_at_any_place_loses_no_record_and_returns_none_twice() -> None:
    for at in range(1, 500):
        made, (stream,) = allotment()
        made.add(records(0, 1, 2))
        assert made.next_record(stream).offset == 0
        stream.owner = None  # the call that is interrupted has a thread of its own
        got: list[Any] = []
        place = interrupted(lambda: got.append(made.next_record(stream)), at)  # noqa: B023
        stream.owner = None
        seen = [one.offset for one in got]
        seen += [made.next_record(stream).offset for _ in range(2 - len(seen))]
        assert (seen, first(made)) == ([1, 2], {0: 2}), place
        if place is None:
            assert at > 20
            return
    pytest.fail("the call has no end")


def test_whatever_happens_in_whatever_order_the_rules_hold() -> None:
    """Random calls of streams and of the dispatcher, in one thread; `Books` knows what each of them must do."""
    for seed in range(60):
        drawn = random.Random(seed)
        books = Books(drawn)
        for _ in range(300):
            drawn.choice((books.add, books.next, books.next, books.next, books.finish, books.leave, books.rebalance))()
            books.check()


class Books:
    """An allotment, and what its streams have been given."""

    def __init__(self, drawn: random.Random) -> None:
        self.drawn = drawn
        self.made, self.states = allotment(drawn.randint(1, 4), 0)
        self.written: dict[int, int] = {}  # partition: the offset that is read next, if it is assigned
        self.finished: dict[int, int] = {}  # partition: the offset that its next stream begins with at the latest
        self.hands: dict[StreamState, tuple[int, int]] = {}

    def rebalance(self) -> None:
        """Some partitions go, others come; what is not finished is read again."""
        for partition in range(5):
            if self.drawn.random() < 0.3:
                if partition in self.written:
                    left = end(self.made, partition).get(partition, self.written[partition])
                    assert left == self.finished.get(partition, 0), "what the next owner reads"
                    del self.written[partition]
                else:
                    self.made.assign(tps(partition))
                    self.written[partition] = self.finished.get(partition, 0)

    def add(self) -> None:
        for partition, offset in self.written.items():
            if self.drawn.random() < 0.5:
                count = self.drawn.randint(1, 3)
                self.made.add(records(*range(offset, offset + count), partition=partition))
                self.written[partition] += count

    def next(self) -> None:
        stream = self.drawn.choice(self.states)
        if not any(queue.records and not self.made._held_elsewhere(queue) for queue in stream.queues.values()):
            return  # it would wait
        stream.owner = None
        self._ends(stream)
        found = self.made.next_record(stream)
        assert TopicPartition("t", found.partition) in stream.queues, "of another stream"
        assert found.partition not in [partition for partition, _ in self.hands.values()], "in hand twice"
        assert found.offset == self.finished.get(found.partition, 0), "a record is skipped or repeated"
        self.hands[stream] = found.partition, found.offset

    def finish(self) -> None:
        stream = self.drawn.choice(self.states)
        stream.owner = None
        self._ends(stream)
        self.made.finish(stream)

    def leave(self) -> None:
        stream = self.drawn.choice(self.states)
        stream.owner = None
        self.made.leave(stream)
        self.hands.pop(stream, None)

    def _ends(self, stream: StreamState) -> None:
        """The record in hand is finished; if its partition was given away meanwhile, that does not count."""
        if stream in self.hands:
            partition, offset = self.hands.pop(stream)
            queue = self.made.queues.get(tps(partition)[0])
            if queue is not None and stream.hand is not None and stream.hand[0] is queue:
                self.finished[partition] = offset + 1

    def check(self) -> None:
        places = {partition: first(self.made).get(partition, at) for partition, at in self.written.items()}
        assert all(at == self.finished.get(partition, 0) for partition, at in places.items()), "a commit passes the record in hand"
        sizes = [len(state.queues) for state in self.states]
        assert max(sizes) - min(sizes) <= 1
        assert sorted(tp for state in self.states for tp in state.queues) == sorted(self.made.queues)
