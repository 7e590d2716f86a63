"""A run has its consumer alone. Calls of other threads are refused before they change anything; only `close` ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4 import ClosedError, ConfigError, Consumer, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Record
from tests.consumer.consuming import LONG, Listener, Maker, topic
from tests.consumer.running import Running
from tests.consumer.test_process import Enough
from tests.consumer.test_runs_waits import joins
from tests.inspection import inspect
from tests.net.interrupts import interrupted

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(make: Maker, listener: object | None = None) -> Consumer:
    return make.member(listener, enable_auto_commit=False)


def test_a_handler_that_calls_the_consumer_is_refused_whenever_it_does(server: ModelServer, make: Maker) -> None:
    """Also while the thread that polls is between two polls: a poll of a handler would take records away from `process`."""
    topic(server, 20)
    consumer, enough, errors = member(make), Enough(20), list[KafkaError]()
    calls: list[Callable[[], Any]] = [
        lambda: consumer.poll(0),
        lambda: consumer.process(print),
        lambda: consumer.streams({"t": 1}),
        lambda: consumer.pause([T0]),
        consumer.commit,
    ]
    round_ = consumer.assignment  # called between two polls
    between, go_on = threading.Event(), threading.Event()

    def pause_between() -> set[TopicPartition]:
        if threading.current_thread() is threading.main_thread() and not between.is_set():
            between.set()
            assert go_on.wait(LONG)
        return round_()

    def handle(record: Record) -> None:
        if record.offset == 0:
            assert between.wait(LONG)
            for call in calls:
                with pytest.raises(KafkaError) as caught:
                    call()
                errors.append(caught.value)
            go_on.set()
        enough.note(record)

    consumer.assignment = pause_between  # type: ignore[method-assign]
    assert consumer.process(handle, max_in_hand=2, stop=enough).finished == 20
    assert len(errors) == len(calls)
    assert all("while process of this consumer runs in thread 'MainThread'" in str(error) for error in errors), errors
    assert consumer.committed([T0])[T0].offset == 20  # type: ignore[union-attr]


def test_process_inside_a_listener_of_process_is_refused_and_commits_nothing(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    enough, errors = Enough(3), list[Exception]()

    class Nested:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            for begin in (lambda: consumer.process(print), lambda: consumer.streams({"t": 1})):
                with pytest.raises(ConfigError, match="was called while process of this consumer runs") as caught:
                    begin()
                errors.append(caught.value)

    consumer = member(make, Nested())
    assert consumer.process(enough.note, stop=enough).finished == 3
    assert len(errors) == 2


def test_ctrl_c_at_any_place_leaves_the_consumer_to_the_next_run(make: Maker) -> None:
    session = inspect(make()).session

    def run() -> None:
        one = Listener()
        try:
            session.begin_run(one)  # type: ignore[arg-type]
        finally:
            try:
                session.end_run(one)  # type: ignore[arg-type]
            finally:  # as a run does
                session.end_run(one)  # type: ignore[arg-type]

    for at in range(1, 5_000):
        place = interrupted(run, at)
        assert (session.selection.run, session.guard.lent) == (None, None), place
        if place is None:
            assert at > 20
            return
    pytest.fail("the calls have no end")


@pytest.mark.parametrize("how", ["process", "streams"])
def test_process_beside_a_loop_of_another_thread_is_refused_and_commits_nothing(server: ModelServer, make: Maker, how: str) -> None:
    """What the other thread has in hand is not finished."""
    topic(server, 3)
    consumer, inside, go_on = member(make), threading.Event(), threading.Event()

    def loop() -> None:
        for _ in consumer:
            inside.set()
            assert go_on.wait(LONG)
            break

    first = threading.Thread(target=loop, name="first")
    first.start()
    assert inside.wait(LONG)
    begin: Callable[[], Any] = (lambda: consumer.process(print)) if how == "process" else lambda: consumer.streams({"t": 1})
    with pytest.raises(KafkaError, match=r"called (process|streams) while thread 'first' is in a loop"):
        begin()
    assert server.committed("g") == {}
    go_on.set()
    first.join(LONG)


def test_streams_that_cannot_subscribe_leave_the_loops_of_their_thread_alone(server: ModelServer, make: Maker) -> None:
    """Otherwise another thread could poll, and what this one has in hand would count as finished."""
    topic(server, 3)
    consumer, errors = member(make), list[Exception]()
    records = iter(consumer)
    next(records)
    with pytest.raises(TypeError):
        consumer.streams(["t"], 1, exclude=7)  # type: ignore[call-overload]

    def poll() -> None:
        with pytest.raises(KafkaError, match="is in a loop") as caught:
            consumer.poll(0)
        errors.append(caught.value)

    thread = threading.Thread(target=poll)
    thread.start()
    thread.join(LONG)
    assert len(errors) == 1


def test_a_handler_may_close_the_consumer(server: ModelServer, make: Maker) -> None:
    """The close does not wait for the record of that handler, which is not finished."""
    topic(server, 20)
    consumer, took = member(make), list[float]()

    def handle(record: Record) -> None:
        if record.offset == 5:
            began = time.monotonic()
            consumer.close(LONG)
            took.append(time.monotonic() - began)

    with pytest.raises(ClosedError):
        consumer.process(handle, "partition")
    assert max(took) < LONG / 2
    assert server.committed("g") == {T0: 5}


@pytest.mark.parametrize("how", ["process", "streams"])
def test_what_is_finished_during_a_revocation_is_committed_although_another_thread_closes(
    server: ModelServer, make: Maker, how: str
) -> None:
    topic(server, 20, 20)
    go_on, listener = threading.Event(), Listener()

    def handle(record: Record) -> None:
        if record.offset == 7:
            assert go_on.wait(LONG)

    with Running(server, how, handle, auto_offset_reset="earliest", listener=listener) as running:
        running.got(8)
        consumer = running.consumer
        joining = joins(make, consumer)
        until(lambda: inspect(consumer).session.assignment.listener_method, LONG, "the revocation")
        closing = threading.Thread(target=consumer.close)
        closing.start()
        until(lambda: inspect(consumer).session.guard.closing, LONG, "the close")
        go_on.set()
        closing.join(LONG)
        assert not closing.is_alive()
    joining.join(LONG)
    finished = {tp: sum(record.partition == tp.partition for record in running.handled) for tp in (T0, T1)}
    assert {tp: offset for tp, offset in server.committed("g").items() if offset} == {tp: n for tp, n in finished.items() if n}
    assert listener.kinds == ["assigned", "revoked"]


@pytest.mark.parametrize("how", ["process", "streams"])
@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_a_close_that_does_not_wait_for_the_handlers_of_a_revocation_commits_what_is_finished(
    server: ModelServer, how: str, seconds: float
) -> None:
    topic(server, 20)
    release = threading.Event()

    def handle(record: Record) -> None:
        if record.offset == 7:
            assert release.wait(LONG)

    with Running(server, how, handle, auto_offset_reset="earliest") as running:
        running.got(8)
        with Running(server, "process") as other:
            until(lambda: inspect(running.consumer).session.assignment.listener_method, LONG, "the revocation")
            running.consumer.close(seconds)
            until(lambda: server.committed("g") == {T0: 7}, LONG, "what is finished is committed")
            release.set()
            other.got(13)
    assert min(other.offsets) == 7


def test_a_listener_may_commit_while_another_thread_closes(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    errors: list[Exception] = []

    class Committing:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            closing.start()
            until(lambda: inspect(consumer).session.guard.closing, LONG, "the close")
            try:
                consumer.commit({T0: 2})
            except KafkaError as error:
                errors.append(error)

    consumer = member(make, Committing())
    closing = threading.Thread(target=consumer.close)
    with pytest.raises(ClosedError):
        while True:
            consumer.poll(LONG)
    closing.join(LONG)
    assert not errors
    assert server.committed("g") == {T0: 2}


@pytest.mark.parametrize("right", ["group", "topic"])
def test_after_streams_whose_last_commit_was_refused_nothing_stays_paused(server: ModelServer, make: Maker, right: str) -> None:
    topic(server, 30)
    consumer = make(group_id="g", enable_auto_commit=False, max_poll_records=10)
    streams = consumer.streams({"t": 1}, max_in_hand=10)
    next(streams[0])
    until(consumer.paused, LONG, "that enough records wait")
    server.do(lambda cluster: cluster.deny(right, "g" if right == "group" else "t", "READ"))
    streams.close()
    server.do(lambda cluster: cluster.allow(right, "g" if right == "group" else "t", "READ"))
    assert consumer.paused() == set()
