"""`Consumer.streams`: partitions divided among threads of the application, and offsets that never pass a record that is not finished."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import re
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer.processing.streams import Streams
from pykafka4.errors import ClosedError, ConfigError, CorruptRecord, ForkedClientError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Record
from tests.consumer.consuming import LONG, Listener, Maker, damage, fill, numbers, read, topic
from tests.consumer.streaming import Reading, committed, member
from tests.inspection import inspect


def all_of(counts: Iterable[int]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_each_partition_is_on_one_stream_in_order_and_all_is_committed(server: ModelServer, make: Maker) -> None:
    topic(server, *[300] * 5)
    with member(make).streams({"t": 2}) as streams:
        assert (len(streams), [stream.topic for stream in streams]) == (2, ["t", "t"])
        reading = Reading(streams).wait(1500)
        assert sorted(len(stream.partitions) for stream in streams) == [2, 3]
    reading.ended()
    assert sorted(reading.places) == all_of([300] * 5)
    on = [{record.partition for record in got} for got in reading.got]
    assert not on[0] & on[1]
    for got in reading.got:
        for partition in range(5):
            mine = [record.offset for record in got if record.partition == partition]
            assert mine == sorted(mine)
    assert committed(make, range(5)) == dict.fromkeys(range(5), 300)


def test_each_topic_has_its_own_streams(server: ModelServer, make: Maker) -> None:
    topic(server, 10, 10)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 5))
    with member(make).streams({"t": 2, "u": 1}) as streams:
        assert [stream.topic for stream in streams] == ["t", "t", "u"]
        assert streams.of("u") == [streams[2]]
        reading = Reading(streams).wait(25)
    assert [{record.topic for record in got} for got in reading.ended().got] == [{"t"}, {"t"}, {"u"}]


def test_the_streams_of_a_pattern_read_all_topics_that_match_also_later_ones(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    server.create_topic("orders.a", 1)
    server.create_topic("orders.no", 1)
    fill(server, "orders.a", 0, numbers(0, 5))
    fill(server, "orders.no", 0, numbers(0, 5))
    consumer = member(make, metadata_max_age_ms=200)
    with consumer.streams(re.compile(r"orders\..*"), 2, exclude=["orders.no"]) as streams:
        assert [stream.topic for stream in streams] == [None, None]
        reading = Reading(streams).wait(5)
        server.create_topic("orders.b", 1)
        fill(server, "orders.b", 0, numbers(0, 5))
        reading.wait(10)
    names = [{record.topic for record in got} for got in reading.ended().got]
    assert sorted(names, key=str) == [{"orders.a"}, {"orders.b"}]


def test_an_unfinished_record_holds_back_the_commit_and_the_consumer_goes_on_there(server: ModelServer, make: Maker) -> None:
    topic(server, 20)
    consumer = member(make)
    streams = consumer.streams({"t": 1})
    for record in streams[0]:
        if record.offset == 6:
            break
    streams.close()
    assert committed(make) == {0: 6}
    assert [record.offset for record in read(consumer, 14)] == list(range(6, 20))


def test_finish_finishes_the_record_in_hand(server: ModelServer, make: Maker) -> None:
    topic(server, 20)
    with member(make).streams({"t": 1}) as streams:
        assert [next(streams[0]).offset for _ in range(3)] == [0, 1, 2]
        streams[0].finish()
        Reading(streams).wait(17)
    assert committed(make)[0] in (19, 20)


def test_commit_without_a_group_is_refused_even_without_finished_records(server: ModelServer, make: Maker) -> None:
    topic(server, 1)
    with make().streams({"t": 1}) as streams, pytest.raises(ConfigError, match="commit needs a group_id"):
        streams.commit(LONG)


def test_commit_covers_what_every_stream_has_finished(server: ModelServer, make: Maker) -> None:
    topic(server, 20, 20)
    with member(make).streams({"t": 2}) as streams:
        for stream in streams:
            for _ in range(4 if 0 in {tp.partition for tp in stream.partitions} else 7):
                next(stream)
        streams.commit()
        done = committed(make, (0, 1))
        first = 4 if TopicPartition("t", 0) in streams[0].partitions else 7
        assert sorted(done.values()) in ([3, 6], [6, 6], [3, 3]), (done, first)
        streams.commit()
        assert committed(make, (0, 1)) == done
    assert committed(make, (0, 1)) == done
    with pytest.raises(ClosedError, match="the streams have ended"):
        streams.commit()


def test_a_stream_that_nobody_reads_does_not_hold_up_the_others(
    server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 3_000, 3_000)
    consumer = member(make, max_poll_records=50, max_poll_interval_ms=400, session_timeout_ms=10_000)
    with consumer.streams({"t": 2}, max_in_hand=100) as streams:
        until(lambda: all(stream.partitions for stream in streams), LONG, "both have a partition")
        unread = streams[1].partitions
        reading = Reading(streams[:1]).wait(3_000)
        until(lambda: consumer.paused() == unread, LONG, "the other partition is paused")
        (waiting,) = (inspect(streams).dispatcher.size(tp) for tp in unread)
        assert 50 <= waiting <= 100
        until(lambda: "no thread has requested a record from" in caplog.text, LONG, "a log line")
        assert reading.count == 3_000
        both = Reading(streams[1:]).wait(3_000)
    reading.ended()
    both.ended()
    assert committed(make, (0, 1)) == {0: 3_000, 1: 3_000}
    assert caplog.text.count("for 0.4 s, and its partitions wait: t-") == 1
    assert consumer.paused() == set()


def test_what_waits_is_bounded(server: ModelServer, make: Maker) -> None:
    topic(server, 2_000, 2_000)
    consumer, most, gate = member(make, max_poll_records=20), 0, threading.Event()
    with consumer.streams({"t": 2}, max_in_hand=40) as streams:
        original = inspect(streams).dispatcher.add

        def add(*arguments: Any) -> None:
            nonlocal most
            original(*arguments)
            most = max(most, sum(len(queue.records) for queue in inspect(streams).dispatcher.queues.values()))

        inspect(streams).dispatcher.add = add  # type: ignore[method-assign]
        reading = Reading(streams, lambda record: gate.wait(LONG))
        until(lambda: len(consumer.paused()) == 2, LONG, "both partitions are paused")
        gate.set()
        reading.wait(4_000)
    assert most <= 40 + 20
    assert sorted(reading.ended().places) == all_of([2_000, 2_000])


def test_what_waits_is_bounded_however_many_partitions_there_are(server: ModelServer, make: Maker) -> None:
    topic(server, *[100] * 40)
    consumer, most = member(make), 0
    with consumer.streams({"t": 4}, max_in_hand=200, drain_timeout=0) as streams:
        until(lambda: len(consumer.paused()) == 40, LONG, "all partitions are paused")
        allotment = inspect(streams).dispatcher
        most = sum(len(queue.records) for queue in allotment.queues.values())
        assert most == allotment.held
        reading = Reading(streams).wait(4_000)
        assert allotment.held == 0
    reading.ended()
    assert 200 <= most <= 3 * 200


def test_an_exception_in_one_stream_leaves_the_others_alone_and_loses_nothing(
    server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    topic(server, 100, 100)
    with member(make).streams({"t": 2}) as streams:

        def work(record: Record) -> None:
            if (record.partition, record.offset) == (0, 30) and threading.current_thread().name != "reader-again":
                raise LookupError("no such customer")

        reading = Reading(streams, work)
        until(lambda: reading.count == 131, LONG, lambda: f"all but the rest of one: {reading.count}, {reading.errors}")
        assert [str(error) for error in reading.errors] == ["no such customer"]
        until(lambda: "has ended with a record in hand: records of t-0 wait" in caplog.text, LONG, "a log line")
        streams.commit()
        assert committed(make) == {0: 30}
        (stopped,) = (stream for stream in streams if TopicPartition("t", 0) in stream.partitions)
        again: list[int] = []

        def go_on() -> None:
            again.extend(record.offset for record in stopped)

        thread = threading.Thread(target=go_on, name="reader-again", daemon=True)
        thread.start()
        until(lambda: len(again) == 70, LONG, "the rest, from that record on")
    thread.join(LONG)
    reading.ended()
    assert again == list(range(30, 100))
    assert committed(make, (0, 1)) == {0: 100, 1: 100}


def test_a_with_block_of_a_stream_gives_the_record_of_a_failure_back(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    with member(make).streams({"t": 1}) as streams:
        with pytest.raises(ZeroDivisionError), streams[0] as stream:
            for record in stream:
                print(1 // (2 - record.offset))
        assert Reading(streams).wait(3).places == [(0, 2), (0, 3), (0, 4)]


def test_a_stream_that_two_threads_iterate_is_an_error_that_names_both(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    with member(make).streams({"t": 1}) as streams:
        assert next(streams[0]).offset == 0
        reading = Reading(streams)
        until(lambda: reading.errors, LONG, "an error")
        assert "thread 'reader-0' reads stream 0 of t while thread 'MainThread' does: one thread reads a stream" in str(reading.errors[0])
        assert next(streams[0]).offset == 1


def test_before_a_revocation_the_record_in_hand_is_finished_and_committed(server: ModelServer, make: Maker) -> None:
    counts = [200] * 4
    topic(server, *counts)
    lock, seen = threading.Lock(), list[tuple[int, int]]()
    hands: dict[int, int] = {}  # partition: how many threads have a record of it in hand
    worst = 0

    def work(record: Record) -> None:
        nonlocal worst
        with lock:
            hands[record.partition] = hands.get(record.partition, 0) + 1
            worst = max(worst, hands[record.partition])
            seen.append((record.partition, record.offset))
        slow.wait(0.01)
        with lock:
            hands[record.partition] -= 1

    slow, told = threading.Event(), Listener()
    first, second = (member(make, max_poll_records=20) for _ in range(2))
    with first.streams({"t": 2}, listener=told) as mine:
        one = Reading(mine, work).wait(40)
        with second.streams({"t": 2}) as theirs:
            two = Reading(theirs, work)
            until(lambda: two.count >= 40, LONG, "records of the second member")
            assert sorted(len(stream.partitions) for stream in (*mine, *theirs)) == [1, 1, 1, 1]
            slow.set()
            until(lambda: len(seen) >= 800, LONG, lambda: f"all records: {len(seen)}")
        two.ended()
        assert not inspect(mine).dispatcher.ended
    one.ended()
    assert worst == 1
    assert sorted(seen) == all_of(counts), "nobody died, so nothing is read twice"
    assert "revoked" in told.kinds
    assert committed(make, range(4)) == dict.fromkeys(range(4), 200)


def test_a_cooperative_member_goes_on_reading_what_does_not_move(server: ModelServer, make: Maker) -> None:
    counts = [400] * 4
    topic(server, *counts)
    strategy = {"partition_assignment_strategy": ["cooperative-sticky"], "max_poll_records": 20}
    slow, seen = threading.Event(), list[tuple[int, int]]()

    def work(record: Record) -> None:
        seen.append((record.partition, record.offset))
        slow.wait(0.005)

    with member(make, **strategy).streams({"t": 2}) as mine:
        one = Reading(mine, work).wait(40)
        kept = [next(iter(stream.partitions)) for stream in mine]
        with member(make, **strategy).streams({"t": 2}) as theirs:
            two = Reading(theirs, work)
            until(lambda: two.count >= 40, LONG, "records of the second member")
            assert sorted(len(stream.partitions) for stream in (*mine, *theirs)) == [1, 1, 1, 1]
            slow.set()
            until(lambda: len(seen) >= 1600, LONG, lambda: f"all records: {len(seen)}")
        two.ended()
    one.ended()
    assert len(kept) == 2
    assert sorted(seen) == all_of(counts)


def test_a_thread_that_does_not_finish_delays_a_revocation_for_drain_timeout_only(server: ModelServer, make: Maker) -> None:
    topic(server, 20, 20)
    first, second = member(make), member(make)
    with first.streams({"t": 1}, drain_timeout=0.2) as mine:
        assert next(mine[0]).offset == 0
        gate = threading.Event()
        holding = Reading(mine, lambda record: gate.wait(LONG))
        until(lambda: holding.errors, LONG, "this thread has the stream")
        mine[0].leave()
        holding = Reading(mine, lambda record: gate.wait(LONG)).wait(1)
        with second.streams({"t": 1}) as theirs:
            other = Reading(theirs).wait(20)
            gate.set()
        other.ended()
    holding.ended()


def test_wakeup_ends_no_loop(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = member(make)
    with consumer.streams({"t": 1}) as streams:
        reading = Reading(streams).wait(5)
        for _ in range(5):
            consumer.wakeup()
        fill(server, "t", 0, numbers(5, 8))
        reading.wait(8)


def test_stop_ends_all_loops_after_their_records(server: ModelServer, make: Maker) -> None:
    topic(server, 50, 50)
    with member(make).streams({"t": 2}) as streams:
        reading = Reading(streams, lambda record: streams.stop() if record.offset == 20 else None).ended()
        assert not reading.errors
    for partition in range(2):
        mine = [offset for at, offset in reading.places if at == partition]
        assert committed(make, range(2)).get(partition, 0) == len(mine)
    assert max(offset for _, offset in reading.places) >= 20


def test_close_from_within_a_loop_does_not_wait_for_its_own_record(server: ModelServer, make: Maker) -> None:
    topic(server, 50)
    streams = member(make).streams({"t": 1})
    began = time.monotonic()
    for record in streams[0]:
        if record.offset == 10:
            streams.close()
    assert time.monotonic() - began < 20.0
    assert record.offset == 10
    assert committed(make) == {0: 10}


def test_close_returns_in_time_while_a_thread_holds_a_record(server: ModelServer, make: Maker) -> None:
    topic(server, 50)
    consumer, gate = member(make), threading.Event()
    streams = consumer.streams({"t": 1})
    reading = Reading(streams, lambda record: gate.wait(LONG) if record.offset == 3 else None).wait(4)
    began = time.monotonic()
    streams.close(0.3)
    assert time.monotonic() - began < 0.3 + 0.5
    assert inspect(streams).dispatcher.wait_for_end(LONG)
    assert committed(make) == {0: 3}
    gate.set()
    reading.ended()
    assert committed(make) == {0: 3}
    assert [record.offset for record in read(consumer, 47)] == list(range(3, 50))


def test_closing_the_consumer_ends_the_loops_and_commits_what_is_finished(server: ModelServer, make: Maker) -> None:
    topic(server, 50)
    consumer = member(make)
    streams = consumer.streams({"t": 1})
    reading = Reading(streams).wait(50)
    consumer.close()
    assert not reading.ended().errors
    assert committed(make)[0] in (49, 50)
    streams.close()
    assert inspect(streams).dispatcher.ended


def test_what_poll_raises_ends_every_loop_and_can_be_skipped(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    fill(server, "t", 0, numbers(5, 10))
    damage(server, 1)
    fill(server, "t", 0, numbers(10, 15))
    consumer = member(make)
    streams = consumer.streams({"t": 2})
    reading = Reading(streams).ended()
    assert [type(error) for error in reading.errors] == [CorruptRecord] * 2
    streams.close()  # a loop has raised it
    error = reading.errors[0]
    assert isinstance(error, CorruptRecord)
    assert (error.topic, error.partition, error.offset) == ("t", 0, 5)
    done = committed(make, (0, 1))
    consumer.seek((error.topic, error.partition), error.next_offset)
    with consumer.streams({"t": 2}) as streams:
        again = Reading(streams).wait(5 + 5 - done.get(1, 0))
    places = again.ended().places
    assert [offset for partition, offset in places if partition == 0] == list(range(10, 15))
    assert [offset for partition, offset in places if partition == 1] == list(range(done.get(1, 0), 5))


def test_the_warning_of_a_late_end_names_the_time_of_the_wait(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic(server, 1)
    streams = member(make).streams({"t": 1}, drain_timeout=2.0)
    waited: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(type(inspect(streams).dispatcher), "wait_for_end", lambda self, timeout: waited.append(timeout))
        streams.close()
    assert f"have not ended within {waited[0]:g} s" in caplog.text
    assert inspect(streams).dispatcher.wait_for_end(LONG)


def test_close_raises_an_error_that_no_loop_has_seen(server: ModelServer, make: Maker) -> None:
    class Broken:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise LookupError("no table")

    topic(server, 5)
    streams = member(make).streams({"t": 1}, listener=Broken())
    assert inspect(streams).dispatcher.wait_for_end(LONG)
    with pytest.raises(LookupError, match="no table"):
        streams.close()
    streams.close()


def test_other_threads_cannot_use_the_consumer_meanwhile(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = member(make)
    with consumer.streams({"t": 1}) as streams:
        for call in (
            consumer.poll,
            lambda: consumer.pause([("t", 0)]),
            lambda: consumer.subscribe(["t"]),
            lambda: consumer.seek(("t", 0), 0),
        ):
            with pytest.raises(KafkaError, match="while streams of this consumer are open: close them first"):
                call()
        with pytest.raises(ConfigError, match="streams was called while streams of this consumer are open"):
            consumer.streams({"t": 1})
        Reading(streams).wait(5)
        assert consumer.assignment() == {TopicPartition("t", 0)}
        assert consumer.status()["consumer"]
    assert consumer.poll(0) == []


def test_streams_can_be_opened_again(server: ModelServer, make: Maker) -> None:
    topic(server, 5, 5)
    consumer = member(make)
    for n in range(3):
        with consumer.streams({"t": 2}) as streams:
            Reading(streams).wait(10 if n == 0 else 2)
        for partition in range(2):
            fill(server, "t", partition, numbers(0, 1))
    assert committed(make, range(2)) == {0: 7, 1: 7}


def test_forgotten_streams_end(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    consumer = member(make)
    streams: Streams | None = consumer.streams({"t": 1})
    assert streams is not None
    dispatcher = inspect(streams).dispatcher
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        streams = None
        gc.collect()
        assert dispatcher.wait_for_end(LONG)
        until(lambda: any("Streams was not closed" in str(one.message) for one in caught), LONG, "a warning")
    assert consumer.poll(0) is not None


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (({"t": 0},), ConfigError, "the count of streams of 't' must be at least 1"),
        (({"t": "2"},), TypeError, "the count of streams of 't' must be an int"),
        (({"t": 20_000},), ConfigError, "the count of streams of 't' must be from 0 to 10,000"),
        (({},), ConfigError, "no topics"),
        (({"t": 1}, 2), ConfigError, "the counts in the mapping"),
        (("t",), ConfigError, "a pattern or list of topics and a count"),
        (("t(", 2), ConfigError, "not a regular expression"),
        (({"a b": 1},), ConfigError, "a b"),
    ],
)
def test_a_wrong_argument_is_named(server: ModelServer, make: Maker, arguments: Any, error: type[Exception], text: str) -> None:
    topic(server, 1)
    consumer = member(make)
    with pytest.raises(error, match=re.escape(text)):
        consumer.streams(*arguments)
    assert consumer.subscription() == set()
    with pytest.raises(ConfigError):
        consumer.poll(0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_in_hand": 0}, "max_in_hand must be at least 1"),
        ({"drain_timeout": -1}, "drain_timeout must be from 0"),
        ({"listener": object()}, "has none of the methods"),
        ({"exclude": ["u"]}, "without a pattern"),
    ],
)
def test_a_wrong_option_is_named(server: ModelServer, make: Maker, options: Any, text: str) -> None:
    topic(server, 1)
    with pytest.raises(ConfigError, match=text):
        member(make).streams({"t": 1}, **options)


def test_what_the_consumer_must_be_like_is_said(server: ModelServer, make: Maker) -> None:
    topic(server, 1, 1)
    with pytest.raises(ConfigError, match="enable_auto_commit=False"):
        make(group_id="g").streams({"t": 1})
    by_hand = member(make)
    by_hand.assign([("t", 0)])
    with pytest.raises(ConfigError, match="t-0, which no stream reads"):
        by_hand.streams({"u": 1})


def test_a_forked_child_gets_an_error_and_the_parent_reads_on(server: ModelServer, make: Maker) -> None:
    topic(server, 5)
    with member(make).streams({"t": 1}) as streams:
        assert next(streams[0]).offset == 0
        pid = os.fork()
        if not pid:
            try:
                next(streams[0])
            except ForkedClientError:
                try:
                    streams.commit(LONG)
                except ForkedClientError:
                    streams.close()
                    os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert [next(streams[0]).offset for _ in range(4)] == [1, 2, 3, 4]


def test_streams_do_not_pickle(server: ModelServer, make: Maker) -> None:
    topic(server, 1)
    with member(make).streams({"t": 1}) as streams:
        for one in (streams, streams[0]):
            with pytest.raises(TypeError, match="pickled"):
                pickle.dumps(one)
        assert "stream 0 of t" in repr(streams)


def test_log_lines_begin_with_the_client_id(server: ModelServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    topic(server, 5)
    with caplog.at_level(logging.WARNING, "pykafka4.processing"):
        streams = member(make, client_id="billing").streams({"t": 1}, drain_timeout=0.1)
        gate = threading.Event()
        reading = Reading(streams, lambda record: gate.wait(LONG)).wait(1)
        streams.close()
        gate.set()
        reading.ended()
    lines = [record.getMessage() for record in caplog.records if record.name == "pykafka4.processing"]
    assert lines
    assert all(line.startswith("billing: group g: ") for line in lines), lines
