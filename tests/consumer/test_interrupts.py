"""Ctrl-C at every place where Python lets it in: afterwards the consumer works, and no record is skipped."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka4.consumer import assignment, waits
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.waits import at_once
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.subscription import Assigned, Claim, Lasting, Located, Move, PollError
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import IMPLEMENTATION, Chunk, RecordColumns
from tests.consumer.consuming import LONG, Listener, Maker, fill, poll_until, read, topic
from tests.consumer.reader_harness import ReaderHarness
from tests.core.consumer_harness import Polling
from tests.inspection import inspect
from tests.net.interrupts import handled, interrupted, interrupts, share
from tests.wire.records.columns.reading import lists_of

RunOnce = Callable[[Callable[[Callable[[], Any]], Any]], None]


def at_every_place(run: RunOnce) -> int:
    """Run `run(ctrl_c)` for every place; `ctrl_c(call)` makes the call that the interrupt hits. How many places there were."""
    for at in range(1, 20_000):
        places: list[str | None] = []

        def ctrl_c(call: Callable[[], Any], at: int = at, places: list[str | None] = places) -> Any:
            results: list[Any] = []
            places.append(interrupted(lambda: results.append(call()), at))
            return results[0] if results else None

        run(ctrl_c)
        if places == [None]:
            return at - 1
    raise AssertionError("no end of places")


# ---------------------------------------------------------------- the reader


class InterruptedReader(Polling):
    """A reader of two partitions, and the loop's part: it reads on where the reader's seeks say."""

    def __init__(self) -> None:
        self.reader = Reader(lambda: 0.0, lambda: None, self._reseek)
        self.current = {p: Claim(TopicPartition("t", p)) for p in (0, 1)}
        self.offset = {0: 0, 1: 0}
        self.got: dict[int, list[int]] = {0: [], 1: []}
        self.reader.adopt(self.current.values())
        for p in (0, 1):
            self.reader.put(Located(self.current[p], 0))
            self.fetch(p, 4)
            self.fetch(p, 4)

    def _reseek(self, moves: Collection[Move]) -> None:
        for old, new, start in moves:
            if self.current[old.tp.partition].origin is old.origin:
                assert isinstance(start, int)
                self.current[old.tp.partition] = new
                self.offset[old.tp.partition] = start

    def fetch(self, p: int, count: int) -> None:
        claim, first = self.current[p], self.offset[p]
        data = bytes(build_batch([WireRecord(timestamp_ms=1, value=b"x") for _ in range(count)], base_offset=first))
        chunk = Chunk("t", p, data, first, serial=claim, decompress=decompress, max_decompressed=1 << 20)
        claim.delivered += chunk.size
        self.offset[p] += count
        self.reader.put(chunk)

    def recover(self) -> None:
        if self.reader.changing:
            self.reader.recover()

    def note(self, records: Any) -> None:
        """What a call has returned: records, columns, or None."""
        if isinstance(records, RecordColumns):
            lists = lists_of(records)
            for partition, offset in zip(lists["partition"], lists["offset"], strict=True):
                self.got[partition].append(offset)
        else:
            for record in records or ():
                self.got[record.partition].append(record.offset)

    def finish(self) -> None:
        """Read everything up to the end; at most 40 polls."""
        for _ in range(40):
            self.note(self.poll(3))
            self.note(self.two())
            if all(self.got[p] and self.got[p][-1] >= 11 for p in (0, 1)):
                break
            for p in (0, 1):
                if self.offset[p] < 12 and p not in {tp.partition for tp in self.reader.paused}:
                    self.fetch(p, 4)

    def two(self) -> list[Any]:
        """Two records of a loop, which is left then."""
        return list(itertools.islice(self.loop(3), 2))


@pytest.mark.parametrize("before", ["nothing", "poll", "loop"])
@pytest.mark.parametrize("act", ["poll", "columns", "seek", "pause", "resume", "relieve"])
def test_an_interrupted_reader_hands_out_every_record_once_and_in_order(act: str, before: str) -> None:
    if act == "columns" and IMPLEMENTATION != "compiled":
        pytest.skip("the plain core counts its columns in a destructor, which swallows the interrupt")

    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        interrupted = InterruptedReader()
        tp = TopicPartition("t", 0)
        if before == "poll":
            interrupted.note(interrupted.poll(3))
        elif before == "loop":
            interrupted.note(interrupted.two())
        if act in ("pause", "resume", "relieve"):
            interrupted.reader.drain()
        if act in ("resume", "relieve"):
            interrupted.reader.pause(tp)
        if act == "relieve":
            interrupted.reader.pause(TopicPartition("t", 1))
            interrupted.reader.resume_at = 1
        acts: dict[str, Callable[[], Any]] = {
            "poll": lambda: interrupted.poll(5),
            "columns": lambda: interrupted.poll(5, interrupted.reader.columns.form(["partition", "offset"])),
            "seek": lambda: interrupted.reader.seek(tp, 2),
            "pause": lambda: interrupted.reader.pause(tp),
            "resume": lambda: interrupted.reader.resume(tp),
            "relieve": interrupted.reader.relieve,
        }
        interrupted.note(ctrl_c(acts[act]))
        interrupted.recover()
        if act == "seek":
            interrupted.got[0].clear()
            interrupted.reader.seek(tp, 2)
        for p in (0, 1):
            interrupted.reader.resume(TopicPartition("t", p))
        interrupted.finish()
        assert interrupted.got[1] == list(range(12))[: len(interrupted.got[1])]
        assert interrupted.got[1][-1] >= 11
        expected = list(range(2 if act == "seek" else 0, 12))
        assert interrupted.got[0][: len(expected)] == expected

    assert at_every_place(run) > 3


def test_an_interrupted_seek_of_a_partition_that_has_not_begun_is_made_or_not() -> None:
    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        interrupted = InterruptedReader()
        interrupted.reader.drain()
        ctrl_c(lambda: interrupted.reader.seek(TopicPartition("t", 0), 2))
        interrupted.finish()
        got = interrupted.got[0]
        assert got[0] in (0, 2)
        assert got[-1] >= 11
        assert got == list(range(got[0], got[-1] + 1))

    assert at_every_place(run) > 3


@pytest.mark.parametrize("paused", [False, True])
def test_the_bytes_of_a_partition_that_has_not_begun_are_freed_wherever_ctrl_c_arrives(paused: bool) -> None:
    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        harness, tp = ReaderHarness(1), TopicPartition("t", 0)
        if paused:
            harness.reader.pause(tp)
        harness.reader.put(Located(harness.claims[0], 0))
        chunks = [harness.put(0, 2), harness.put(2, 2)]
        ctrl_c(harness.reader.drain)
        harness.poll()
        harness.reader.resume(tp)
        harness.poll()
        assert harness.reader.consumed == sum(chunk.size for chunk in chunks)

    assert at_every_place(run) > 3


@pytest.mark.parametrize("act", ["seek", "rewind", "release", "pause"])
def test_what_an_interrupted_poll_had_decoded_is_not_handed_out_after_a_move(act: str) -> None:
    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        interrupted = InterruptedReader()
        reader, tp = interrupted.reader, TopicPartition("t", 0)
        interrupted.poll(3)
        ctrl_c(lambda: interrupted.poll(5))
        interrupted.recover()
        acts: dict[str, Callable[[], Any]] = {
            "seek": lambda: reader.seek(tp, 2),
            "rewind": lambda: reader.rewind_each({tp: (2, -1)}),
            "release": lambda: reader.release([reader.claims[tp]]),
            "pause": lambda: reader.pause(tp),
        }
        acts[act]()
        if act in ("seek", "rewind"):
            interrupted.fetch(0, 4)
        for _ in range(6):
            interrupted.note(interrupted.poll(3))
        assert interrupted.got[0] == ([2, 3, 4, 5] if act in ("seek", "rewind") else [])

    assert at_every_place(run) > 3


def test_a_signal_handler_whose_call_is_refused_during_a_poll_loses_no_record() -> None:
    """A handler of SIGTERM calls `close`, which raises a KafkaError, and the handler lets it through."""

    def refuse() -> None:
        raise KafkaError("close must not be called during poll")

    for at in itertools.count(1):
        reader = InterruptedReader()
        place: str | None = "refused"
        with contextlib.suppress(KafkaError):
            place = interrupted(lambda reader=reader: reader.note(reader.poll()), at, handler=refuse)  # type: ignore[misc]
        reader.finish()
        assert reader.got == {0: list(range(12)), 1: list(range(12))}, at
        if place is None:
            assert at > 10
            return


def test_an_interrupted_poll_of_an_error_of_a_partition_that_has_not_begun_leaves_the_others_readable() -> None:
    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        harness = ReaderHarness(2)
        harness.reader.put(PollError(harness.claims[0], KafkaError("no coordinator"), Lasting.ONCE))
        harness.put(0, 2, partition=1)
        got: list[Any] = []

        def poll() -> None:
            with contextlib.suppress(KafkaError):
                got.extend(harness.poll())

        ctrl_c(poll)
        for _ in range(3):
            poll()
        if harness.seeks:
            harness.put(0, 2, partition=1)
            poll()
        harness.reader.put(Located(harness.claims[0], 0))
        harness.put(0, 2)
        poll()
        assert [(record.partition, record.offset) for record in got] == [(1, 0), (1, 1), (0, 0), (0, 1)]

    assert at_every_place(run) > 3


def test_an_error_without_a_partition_is_raised_once_wherever_ctrl_c_arrives() -> None:
    def run(ctrl_c: Callable[[Callable[[], Any]], Any]) -> None:
        harness = ReaderHarness(1)
        errors = [KafkaError("no coordinator"), KafkaError("no right")]
        for error in errors:
            harness.reader.put(PollError(None, error, Lasting.ONCE))
        ctrl_c(harness.reader.drain)
        harness.reader.drain()
        assert list(harness.reader.notices.waiting) == errors

    assert at_every_place(run) > 3


# ---------------------------------------------------------------- the consumer


def test_no_record_is_skipped_or_repeated_when_poll_is_interrupted(server: ModelServer, make: Maker) -> None:
    topic(server, 3000)
    consumer = make.assigned(0)
    got: list[int] = []
    act = lambda: got.extend([r.offset for r in consumer.poll(0.01, max_records=2)])  # noqa: E731
    for place in interrupts(act):
        records = consumer.poll(1.0, max_records=1)
        got += [r.offset for r in records]
        assert got == list(range(len(got))), place
    assert len(got) > 20


def test_no_list_is_lost_when_an_iteration_over_batches_is_interrupted(server: ModelServer, make: Maker) -> None:
    topic(server, 3000)
    consumer = make.assigned(0)
    batches = consumer.batches(0.01, max_records=2)
    got: list[int] = []
    act = lambda: got.extend([r.offset for r in next(batches)])  # noqa: E731
    for place in interrupts(act):
        got += [r.offset for r in next(batches)]
        assert got == list(range(len(got))), place
    assert len(got) > 20


def test_no_record_is_skipped_when_a_loop_is_interrupted(server: ModelServer, make: Maker) -> None:
    """The record in hand, if there was one, is given out again or was seen."""
    topic(server, 3000)
    consumer = make.assigned(0)
    got: list[int] = []
    act = lambda: got.extend(r.offset for r in itertools.islice(consumer, 3))  # noqa: E731
    for place in interrupts(act, step=9):
        got += [r.offset for r in itertools.islice(consumer, 2)]
        assert got == list(range(len(got))), place
    assert len(got) > 20


def test_an_interrupted_rebalance_is_completed_by_the_next_poll(server: ModelServer, make: Maker) -> None:
    """Partitions are given back and taken up again around each place; the listener is called for both, the group has no other member."""
    topic(server, 400)
    told = Listener()
    consumer = make.member(told, session_timeout_ms=60_000)
    poll_until(consumer, consumer.assignment)
    membership = inspect(consumer).machine.membership
    count = 0
    for at in itertools.count(*share(6)):
        inspect(consumer).rejoin()
        place = interrupted(lambda: consumer.poll(0.05), at)
        poll_until(consumer, lambda: membership.state is MemberState.STABLE and consumer.assignment() == set(membership.held))
        consumer.poll(0)
        assert consumer.assignment() == {("t", 0)}, place
        assert told.kinds[-1] == "assigned", place
        count += 1
        if place is None:
            break
        assert at < 2_000, "no end of places"
    assert count > 20
    consumer.commit()


def test_the_listener_is_called_once_for_an_assignment_wherever_ctrl_c_arrives(server: ModelServer, make: Maker) -> None:
    """At every place of the module; of a whole rebalance, with its polls, the sweep takes a share."""
    topic(server, 4)
    told = Listener()
    consumer = make.member(told)
    poll_until(consumer, consumer.assignment)
    session = inspect(consumer).session
    claims = tuple(session.reader.claims.values())

    def adopt(event: Assigned) -> None:
        at_once(session.assignment.adopt(event))

    for at in itertools.count(1):
        event = Assigned(claims)
        told.told.clear()
        place = interrupted(partial(adopt, event), at, within=(str(assignment.__file__), str(waits.__file__)))
        adopt(event)  # as the next poll does
        assert told.kinds == ["assigned"], place
        if place is None:
            break
    assert at > 10


@pytest.mark.parametrize("act", ["seek", "pause", "commit", "position", "committed", "subscribe", "assign"])
def test_a_consumer_works_after_an_interrupted_call(server: ModelServer, make: Maker, act: str) -> None:
    topic(server, 4, 4)
    consumer = make(group_id="g")
    consumer.assign([("t", 0)]) if act != "subscribe" else consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    acts: dict[str, Callable[[], Any]] = {
        "seek": lambda: consumer.seek(("t", 0), 1),
        "pause": lambda: consumer.pause([("t", 0)]),
        "commit": lambda: consumer.commit({("t", 0): 1}, 5.0),
        "position": lambda: consumer.position(("t", 0), 5.0),
        "committed": lambda: consumer.committed(("t", 0), 5.0),
        "subscribe": lambda: consumer.subscribe(["t"]),
        "assign": lambda: consumer.assign([("t", 0), ("t", 1)]),
    }
    for place in interrupts(acts[act]):
        consumer.poll(0)
        assert not inspect(consumer).busy, place
    acts[act]()
    poll_until(consumer, consumer.assignment)
    consumer.resume(consumer.paused())
    consumer.seek(("t", 0), 0)
    assert [r.offset for r in read(consumer, 4) if r.partition == 0] == [0, 1, 2, 3]


def test_a_partition_is_resumed_after_an_interrupted_seek(server: ModelServer, make: Maker) -> None:
    """The loop may have made the seek already, and the application's thread not."""
    consumer = paused(server, make)
    for place in interrupts(lambda: consumer.seek(("t", 0), 5)):
        consumer.resume([("t", 0)])
        assert not paused_on_loop(consumer), place
        consumer.pause([("t", 0)])


def test_a_partition_is_resumed_although_a_signal_handler_seeks_meanwhile(server: ModelServer, make: Maker) -> None:
    consumer = paused(server, make)
    for place in handled(lambda: consumer.resume([("t", 0)]), lambda: seek_if_allowed(consumer, {("t", 0): 5})):
        assert not paused_on_loop(consumer), place
        consumer.pause([("t", 0)])


def test_an_interrupted_resume_leaves_no_partition_that_only_the_loop_has_paused(server: ModelServer, make: Maker) -> None:
    """Nobody would fetch it, and nobody would know."""
    consumer = paused(server, make)
    for place in interrupts(lambda: consumer.resume([("t", 0)])):
        assert consumer.paused() or not paused_on_loop(consumer), place
        consumer.pause([("t", 0)])


def test_a_signal_handler_that_pauses_during_a_resume_leaves_no_partition_that_only_the_loop_has_paused(
    server: ModelServer, make: Maker
) -> None:
    consumer = paused(server, make)

    def pause() -> None:
        with contextlib.suppress(KafkaError):
            consumer.pause([("t", 0)])

    for place in handled(lambda: consumer.resume([("t", 0)]), pause):
        assert consumer.paused() or not paused_on_loop(consumer), place
        consumer.pause([("t", 0)])


def paused(server: ModelServer, make: Maker) -> Any:
    """A consumer of one partition, which has been read to its end and is paused."""
    topic(server, 10)
    consumer = make.assigned(0)
    read(consumer, 10)
    consumer.pause([("t", 0)])
    return consumer


def paused_on_loop(consumer: Any) -> bool:
    """Whether the loop does not fetch the partition."""
    machine = inspect(consumer).machine
    paused: bool = inspect(consumer).loop.ask(lambda _: machine.fetcher.positions[TopicPartition("t", 0)].paused, LONG)
    return paused


def seek_if_allowed(consumer: Any, offsets: dict[tuple[str, int], int]) -> None:
    with contextlib.suppress(KafkaError):  # in the middle of a step, or not assigned yet
        consumer.seek(offsets)


def test_a_partition_is_read_although_a_signal_handler_seeks_while_it_is_assigned(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    consumer = make.assigned(0)

    def assign() -> None:
        consumer.assign([("t", 0), ("t", 1)])
        consumer.seek(("t", 1), 7)

    for place in handled(assign, lambda: seek_if_allowed(consumer, {("t", 1): 5}), step=3):
        claim = inspect(consumer).session.reader.claims[TopicPartition("t", 1)]
        machine = inspect(consumer).machine
        position = inspect(consumer).loop.ask(lambda _, m=machine: m.fetcher.positions[TopicPartition("t", 1)], LONG)
        assert position.claim is claim, place
        consumer.assign([("t", 0)])


def test_a_poll_goes_on_after_a_listener_that_handles_the_exception_of_a_signal_handler_in_its_seek(
    server: ModelServer, make: Maker
) -> None:
    topic(server, 5)

    class Seeking(Listener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            reader = inspect(consumer).session.reader
            reseek = reader._reseek

            def alarm(moves: Collection[Move]) -> None:
                reader._reseek = reseek
                raise TimeoutError

            reader._reseek = alarm
            with contextlib.suppress(TimeoutError):
                consumer.seek(("t", 0), 2)

    consumer = make.member(Seeking())
    assert [record.offset for record in read(consumer, 3)] == [2, 3, 4]


def test_an_interrupted_assign_is_completed_by_the_next_poll(server: ModelServer, make: Maker) -> None:
    """Otherwise a partition could be neither read nor given up, or its buffered records be skipped."""
    topic(server, 3, 3)
    consumer = make(group_id="g")
    first, second = [("t", 0)], [("t", 1)]
    consumer.assign(first)
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]
    for place in interrupts(lambda: consumer.assign(second), step=3):
        consumer.poll(0)
        assigned = consumer.assignment()
        assert assigned in (set(first), set(second)), place
        consumer.assign(first)
        consumer.assign(second)
        consumer.seek(second[0], 0)
        assert [(r.partition, r.offset) for r in read(consumer, 3)] == [(1, 0), (1, 1), (1, 2)], place
        consumer.assign(first)
        consumer.seek(first[0], 0)
        assert [(r.partition, r.offset) for r in read(consumer, 3)] == [(0, 0), (0, 1), (0, 2)], place


@pytest.mark.parametrize("done", [0, 1])
def test_a_seek_after_an_interrupted_assign_is_kept(server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    topic(server, 3)
    consumer = make()
    post, calls = inspect(consumer).session.post, itertools.count()

    def interrupted_post(work: Any) -> None:
        if next(calls) == done:
            raise KeyboardInterrupt
        post(work)

    monkeypatch.setattr(inspect(consumer).session, "post", interrupted_post)
    with contextlib.suppress(KeyboardInterrupt):
        consumer.assign([("t", 0)])
    monkeypatch.undo()
    consumer.seek(("t", 0), 1)
    assert [r.offset for r in read(consumer, 2)] == [1, 2]


@pytest.mark.parametrize("act", ["assign", "unsubscribe"])
def test_no_record_is_skipped_after_an_interrupted_end_of_an_assignment(server: ModelServer, make: Maker, act: str) -> None:
    """Takes seconds: around each of hundreds of places the partition is assigned anew."""
    topic(server, 4)
    consumer = make(group_id="g", max_partition_fetch_bytes=1)
    for at in itertools.count(*share(3)):
        consumer.assign([("t", 0)])
        consumer.seek(("t", 0), 0)
        got = [r.offset for r in consumer.poll(5.0, max_records=1)]
        place = interrupted(lambda: consumer.assign([]) if act == "assign" else consumer.unsubscribe(), at)
        with contextlib.suppress(ConfigError):  # no partitions any more
            got += [r.offset for r in read(consumer, 3)]
            assert got == [0, 1, 2, 3], place
        if place is None:
            break
    assert at > 10


def test_a_member_that_unsubscribed_with_an_interrupt_reads_again_when_it_subscribes(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    consumer = make.member()
    for at in itertools.count(*share(6)):
        poll_until(consumer, consumer.assignment)
        consumer.seek(("t", 0), 0)
        got = [r.offset for r in consumer.poll(5.0, max_records=1)]
        place = interrupted(consumer.unsubscribe, at)
        consumer.subscribe(["t"])
        while got[-1] != 3:
            got += [r.offset for r in read(consumer, 1, max_records=1)]
        assert sorted(set(got)) == [0, 1, 2, 3], place
        if place is None:
            break
    assert at > 50


def test_an_assignment_taken_up_before_the_loop_has_left_the_group_ends(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 4)
    server.create_topic("u", 1)
    consumer = make.member()
    consumer.poll(0)
    deadline = time.monotonic() + LONG
    while consumer.status()["consumer"]["state"] != "stable":
        assert time.monotonic() < deadline
    session, delayed = inspect(consumer).session, list[Any]()
    with monkeypatch.context() as patch:
        patch.setattr(session, "post", delayed.append)
        patch.setattr("pykafka4.consumer.assignment.settled", partial(interrupt_from, 2, itertools.count(1)))
        with pytest.raises(KeyboardInterrupt):
            consumer.unsubscribe()
        consumer.subscribe(["u"])
        consumer.poll(0)
    for work in delayed:
        session.post(work)
    poll_until(consumer, lambda: ("u", 0) in consumer.assignment())
    assert consumer.assignment() == {("u", 0)}


def interrupt_from(first: int, calls: Iterator[int], *_: object) -> tuple[()]:
    """Ctrl-C in the `first` of the calls and those after it; no steps otherwise."""
    if next(calls) >= first:
        raise KeyboardInterrupt
    return ()


def test_an_interrupted_close_is_completed_by_the_next(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    for at in itertools.count(*share(7)):
        consumer = make.member(group_id=f"g{at}")
        poll_until(consumer, consumer.assignment)
        loop = inspect(consumer).loop
        place = interrupted(lambda consumer=consumer: consumer.close(2.0), at)  # type: ignore[misc]
        consumer.close(2.0)
        assert not loop.alive, place
        if place is None:
            break
        assert at < 2_000, "no end of places"
    assert at > 50


@pytest.mark.parametrize("on_poison", ["skip", "dead-letter:dead"])
def test_poison_is_passed_and_every_other_record_returned_once_wherever_ctrl_c_arrives(
    server: ModelServer, make: Maker, on_poison: str
) -> None:
    server.create_topic("dead", 1)
    values = [b"no number" if n % 3 == 1 else b"%d" % n for n in range(1_500)]
    topic(server, 0)
    fill(server, "t", 0, values)
    consumer, got = make.assigned(0, value_deserializer=int, on_poison=on_poison), list[int]()
    places = sum(1 for _ in interrupts(lambda: got.extend(record.value for record in consumer.poll(LONG, max_records=3)), step=3))
    assert places > 30
    assert got[-1] < 1_400, "the last place had records"
    while got[-1] < 1_499:
        got += [record.value for record in consumer.poll(LONG)]
    assert got == [n for n in range(1_500) if n % 3 != 1]
    letters = {dict(record.headers)["dead_letter.offset"] for record in server.records("dead")}
    assert letters == ({b"%d" % n for n in range(1_500) if n % 3 == 1} if on_poison != "skip" else set())
