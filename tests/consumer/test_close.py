"""Ends of a consumer: close, Ctrl-C, fork, a client that closes, a consumer that is not closed."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka4.client.client import Client
from pykafka4.consumer import Consumer
from pykafka4.consumer.exception_in_hand import HandledError
from pykafka4.errors import ClosedError, ConfigError, ForkedClientError, GroupError, KafkaError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, poll_until, read, topic
from tests.inspection import inspect
from tests.net.net_helpers import python


class Parting(Listener):
    """Does something with the consumer when partitions are revoked."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        super().on_partitions_revoked(partitions)
        self.act()


UNBOUNDED_S = 30.0  # request_timeout_ms: how long a close would take that waited for its last requests


def stop_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])


def raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


@contextmanager
def ctrl_c(after: float) -> Iterator[None]:
    """KeyboardInterrupt in this thread, `after` seconds from now."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        threading.Timer(after, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------- close


def test_after_close_every_call_says_so_and_close_works_again(server: ModelServer, make: Maker) -> None:
    consumer = make(group_id="g")
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, lambda: consumer.subscribe(["t"]), lambda: consumer.assign([("t", 0)])):
        with pytest.raises(ClosedError):
            call()
    assert consumer.status()["consumer"]["state"] == "closed"


def test_a_loop_gets_no_record_of_a_list_that_it_polled_while_another_thread_began_to_close(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 10)
    consumer = make.assigned(0, max_poll_records=5)
    records = iter(consumer)
    assert [next(records).offset for _ in range(5)] == list(range(5))
    closing, begun = threading.Thread(target=consumer.close, args=(LONG,)), threading.Event()
    session = inspect(consumer).session
    interrupt, note = session.reader.interrupt, HandledError.note

    def begin_close(handled: HandledError) -> None:  # the poll has begun
        closing.start()
        assert begun.wait(LONG)
        note(handled)

    monkeypatch.setattr(HandledError, "note", begin_close)
    monkeypatch.setattr(session.reader, "interrupt", lambda: (interrupt(), begun.set()))
    with pytest.raises(ClosedError):
        next(records)
    closing.join(LONG)


def test_close_leaves_the_group_at_once(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.member()
    poll_until(consumer, consumer.assignment)
    consumer.close()
    server.wait_for(lambda cluster: not cluster.group("g").members, 1.0)


def test_close_is_bounded_when_no_broker_is_in_reach(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.member()
    read(consumer, 3)
    consumer.poll(0)
    stop_all(server)
    began = time.monotonic()
    consumer.close(1.0)
    assert time.monotonic() - began < UNBOUNDED_S / 3


@pytest.mark.parametrize("timeout", [0, 0.0001])
def test_close_without_time_to_wait_still_commits_and_leaves(server: ModelServer, make: Maker, timeout: float) -> None:
    topic(server, 10)
    consumer = make.member()
    read(consumer, 4, max_records=4)
    consumer.poll(1, max_records=1)
    consumer.close(timeout)
    server.wait_for(lambda cluster: not cluster.group("g").members, 5.0)
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(5, 0)


def test_commit_in_on_partitions_revoked_works_while_the_consumer_closes(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    told = Parting(lambda: consumer.commit())
    consumer = make.member(told, enable_auto_commit=False)
    read(consumer, 4, max_records=4)
    consumer.close()
    assert told.kinds == ["assigned", "revoked"]
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(4, 0)
    with pytest.raises(ClosedError):
        consumer.commit()


def test_calls_in_a_listener_that_runs_while_the_consumer_closes(server: ModelServer, make: Maker) -> None:
    """Those that only ask are answered; poll, and other threads, are refused."""
    topic(server, 10)
    answers: list[Any] = []

    def ask() -> None:
        answers.append((consumer.position(("t", 0)), consumer.assignment(), consumer.committed(("t", 0))))
        with pytest.raises(KafkaError, match="poll must not be called inside on_partitions_revoked"):
            consumer.poll(0)
        thread = threading.Thread(target=lambda: answers.append(raised(consumer.commit)))
        thread.start()
        thread.join(LONG)
        consumer.close()

    consumer = make.member(Parting(ask), enable_auto_commit=False)
    read(consumer, 4, max_records=4)
    consumer.close()
    assert answers[0] == (4, {("t", 0)}, None)
    assert isinstance(answers[1], ClosedError)


def test_close_in_a_listener_commits_partitions_that_are_not_revoked(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 3))
    consumer = make(group_id="g", auto_commit_interval_ms=60_000)
    consumer.assign([("u", 0)])
    told = Parting(consumer.close)
    consumer.subscribe(["t"], told)
    read(consumer, 6)
    consumer.subscribe(["v"], told)
    with pytest.raises(ClosedError):
        poll_until(consumer, lambda: False)
    tps = [("t", 0), ("u", 0)]
    assert {tp: at and at.offset for tp, at in make(group_id="g").committed(tps).items()} == dict.fromkeys(tps, 3)


def test_a_listener_that_subscribes_while_the_consumer_unsubscribes_does_not_keep_it_in_the_group(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make(group_id="g")
    told = Parting(lambda: (consumer.subscribe(["t"]), consumer.assign([("u", 0)])))
    consumer.subscribe(["t"], told)
    read(consumer, 3)
    consumer.unsubscribe()
    assert told.kinds == ["assigned", "revoked"]
    assert inspect(consumer).machine.membership.subscription.names == ()
    assert consumer.assignment() == set()


def test_close_inside_a_listener_does_not_call_it_again(server: ModelServer, make: Maker) -> None:
    topic(server, 0, 0)
    told = Parting(lambda: consumer.close())
    consumer = make.member(told)
    poll_until(consumer, consumer.assignment)
    second = make.member()
    with pytest.raises(ClosedError):
        poll_until(consumer, lambda: second.poll(0) is None)
    assert told.kinds == ["assigned", "revoked"]


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), GroupError(22, "mine"), KeyboardInterrupt("mine")])
def test_what_a_listener_raises_comes_out_of_close_and_nothing_stays_open(server: ModelServer, make: Maker, error: BaseException) -> None:
    topic(server, 0)

    def fail() -> None:
        raise error

    consumer = make.member(Parting(fail))
    poll_until(consumer, consumer.assignment)
    loop = inspect(consumer).loop
    with pytest.raises(type(error), match="mine"):
        consumer.close()
    assert not loop.alive
    consumer.close()
    server.wait_for(lambda cluster: not cluster.group("g").members)


def test_one_consumer_that_fails_to_close_does_not_keep_the_client_from_closing_the_others(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    poor = make.member(Parting(lambda: 1 / 0), client=client, group_id="poor")
    good = make.member(client=client)
    poll_until(poor, poor.assignment)
    read(good, 4, max_records=4)
    good.poll(1, max_records=1)
    with pytest.raises(ZeroDivisionError):
        client.close()
    assert not inspect(client).loop.alive
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(5, 0)


def test_a_commit_still_waiting_when_its_consumer_closes_fails_at_once(server: ModelServer, make: Maker) -> None:
    """On a client that stays open: nothing else would ever notify it."""
    topic(server, 3)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        consumer = make.assigned(0, client=client, group_id="g", enable_auto_commit=False)
        read(consumer, 3)
        stop_all(server)
        errors: list[Any] = []
        told = threading.Event()
        consumer.commit_async({("t", 0): 1}, lambda _, error: (errors.append(error), told.set()))
        thread = threading.Thread(target=lambda: errors.append(raised(lambda: consumer.commit({("t", 0): 2}, LONG))))
        thread.start()
        deadline = time.monotonic() + LONG
        while len(inspect(consumer).machine.offsets._queue) < 2:
            assert time.monotonic() < deadline
        consumer.close(0.2)
        assert told.wait(LONG / 2)
        thread.join(LONG / 2)
        assert [type(error) for error in errors] == [ClosedError, ClosedError]
        assert all("commit of t-0" in str(error) for error in errors)
        assert not inspect(client).promises


# ---------------------------------------------------------------- other ends


def test_ctrl_c_leaves_poll_at_once_and_loses_nothing(server: ModelServer, make: Maker) -> None:
    topic(server, 0)
    consumer = make.assigned(0)
    consumer.poll(0.1)
    began = time.monotonic()
    with ctrl_c(after=0.1):
        consumer.poll(LONG)
    assert time.monotonic() - began < 3
    fill(server, "t", 0, numbers(0, 3))
    assert [r.offset for r in read(consumer, 3)] == [0, 1, 2]


def test_ctrl_c_leaves_close_at_once_and_nothing_stays_open(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.member()
    read(consumer, 3)
    consumer.poll(0)
    stop_all(server)
    began = time.monotonic()
    with ctrl_c(after=0.1):
        consumer.close(LONG)
    assert time.monotonic() - began < 3
    assert not inspect(consumer).loop.alive


def test_a_forked_child_gets_an_error_and_the_parent_reads_on(server: ModelServer, make: Maker) -> None:
    topic(server, 4)
    consumer = make.member()
    read(consumer, 2, max_records=2)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (consumer.poll, consumer.commit, lambda: consumer.seek(("t", 0), 0), lambda: next(iter(consumer))):
            try:
                call()
            except ForkedClientError:
                refused += 1
        consumer.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert [r.offset for r in read(consumer, 2)] == [2, 3]
    consumer.commit()


def test_a_loop_that_forks_ends_with_an_error_in_the_child_and_goes_on_in_the_parent(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    offsets, child, refused = [], -1, False
    try:
        for record in make.assigned(0):
            offsets.append(record.offset)
            if child < 0 and record.offset == 3:
                child = os.fork()
            if record.offset == 9:
                break
    except ForkedClientError:
        refused = True
    finally:
        if child == 0:
            os._exit(7 if refused and offsets == [0, 1, 2, 3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert offsets == list(range(10))


def test_a_forked_child_gets_the_fork_error_though_the_consumer_was_closed_before(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        consumer = Consumer(client)
        consumer.close()
        child = os.fork()
        if child == 0:
            os._exit(isinstance(raised(lambda: consumer.poll(0)), ForkedClientError))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_leaving_the_interpreter_commits_what_is_finished_and_not_the_list_in_hand(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    code = f"""
from pykafka4 import Consumer
options = {{"bootstrap_servers": "{server.bootstrap_servers}", "group_id": "g", "auto_offset_reset": "earliest"}}
consumer = Consumer(**options)
consumer.subscribe(["t"])
for count in (4, 3):
    while not (records := consumer.poll(1, count)):
        pass
    print(len(records))
"""
    result = python(code)
    assert result.stdout.split() == ["4", "3"], result
    assert make(group_id="g").committed(("t", 0)) == OffsetAndMetadata(4, 0)
    assert not server.do(lambda cluster: cluster.group("g").members)


def test_a_client_that_closes_closes_its_consumers(server: ModelServer) -> None:
    topic(server, 0)
    client = Client(bootstrap_servers=server.bootstrap_servers)
    consumer = Consumer(client=client, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    client.close()
    with pytest.raises(ClosedError):
        consumer.poll(0)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    consumer.close()


def test_consumers_share_a_client_and_leave_it_open(server: ModelServer) -> None:
    topic(server, 3)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        for _ in range(2):
            with Consumer(client=client, auto_offset_reset="earliest") as consumer:
                consumer.assign([("t", 0)])
                read(consumer, 3)
        assert client.partitions_for("t", LONG) == [0]
        with pytest.raises(ConfigError, match="client_id"):
            Consumer(client=client, client_id="x")


@pytest.mark.parametrize("call", ["committed", "commit"])
def test_a_call_that_failed_does_not_keep_a_forgotten_consumer_open_until_a_collection(server: ModelServer, call: str) -> None:
    topic(server, 0)
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g")
    gone = weakref.ref(consumer)
    gc.disable()
    try:
        with pytest.raises(KafkaError):
            if call == "commit":
                consumer.commit({("t", 0): 0}, 0.0)
            else:
                consumer.committed([("t", 0)], 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            del consumer
            assert gone() is None
    finally:
        gc.enable()


def test_a_forgotten_consumer_warns_and_leaves(server: ModelServer) -> None:
    topic(server, 0)
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g")
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    server.wait_for(lambda cluster: not cluster.group("g").members)


WHERE_READING_BEGAN = 0  # committed as such, or not at all, as the position was found during the poll or before it


@pytest.mark.parametrize("polled", ["before the exception", "while it is handled"])
def test_close_while_an_exception_is_handled_finishes_only_a_list_that_was_polled_meanwhile(
    server: ModelServer, make: Maker, polled: str
) -> None:
    topic(server, 10)
    consumer = make.assigned(0, group_id="g")
    read(consumer, 3, max_records=3)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        if polled == "while it is handled":
            read(consumer, 2, max_records=2)
        consumer.close()
    later = make.assigned(0, group_id="g")
    place = later.committed(("t", 0))
    assert (place.offset if place else WHERE_READING_BEGAN) == (5 if polled == "while it is handled" else WHERE_READING_BEGAN)


def test_close_after_another_exception_in_the_same_handler_leaves_the_list_unfinished(server: ModelServer, make: Maker) -> None:
    topic(server, 10)
    consumer = make.assigned(0, group_id="g")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        read(consumer, 3, max_records=3)
        try:
            raise KeyError
        except KeyError:
            consumer.close()
    place = make.assigned(0, group_id="g").committed(("t", 0))
    assert (place.offset if place else WHERE_READING_BEGAN) == WHERE_READING_BEGAN
