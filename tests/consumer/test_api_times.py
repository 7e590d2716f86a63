"""Every call of a consumer returns within its timeout, whatever goes on: 250 ms later at most, `close` 500 ms.

`STATES` are the situations, `calls` those with a timeout; each call is made in each situation. It may raise what it documents. A busy
machine can delay a thread at any moment, and a call that waits for the wrong thing is late every time: so a late call is made again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer import Consumer
from pykafka4.errors import ClosedError, GroupError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.testing.groups.group import GroupState
from tests.consumer.api_calls import ATTEMPTS, CLOSE_LATE, LATE, TIMEOUTS, assert_all_in_time, calls, seconds
from tests.consumer.consuming import LONG, Maker, poll_until, read, topic

# ---------------------------------------------------------------- situations


@contextlib.contextmanager
def silent(server: ModelServer) -> Iterator[None]:
    """Every broker keeps its connections, and says nothing."""
    gate, begun = threading.Event(), threading.Event()
    thread = threading.Thread(target=server.do, args=(lambda _: (begun.set(), gate.wait(LONG * 3)),), daemon=True)
    thread.start()
    assert begun.wait(LONG)
    try:
        yield
    finally:
        gate.set()
        thread.join(LONG)


def member(make: Maker, **options: Any) -> Consumer:
    """One that has read some records of its partitions, and committed the first of them."""
    consumer = make.member(**options)
    read(consumer, 3, max_records=3)
    consumer.commit()
    read(consumer, 3, max_records=3)
    return consumer


@contextlib.contextmanager
def working(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    yield member(make)


@contextlib.contextmanager
def without_brokers(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with Consumer(bootstrap_servers=f"127.0.0.1:{free.getsockname()[1]}", group_id="g") as consumer:
            consumer.subscribe(["t"])
            yield consumer


@contextlib.contextmanager
def stopped(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    consumer = member(make)
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
    yield consumer


@contextlib.contextmanager
def without_answers(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    consumer = member(make)
    with silent(server):
        yield consumer


@contextlib.contextmanager
def starting_without_answers(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    """It has partitions, and no position yet."""
    with silent(server):
        yield make.assigned(0, group_id="g")


@contextlib.contextmanager
def rebalancing(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    """The group waits for a member that does not poll."""
    consumer, idle = member(make), make.member()
    poll_until(idle, lambda: consumer.poll(0) is not None and idle.assignment() and len(consumer.assignment()) == 1)
    late = make.member()  # its join waits for the idle one
    late.poll(0.0)
    server.wait_for(lambda cluster: cluster.group("g").state is GroupState.PREPARING)
    yield consumer


@contextlib.contextmanager
def with_stuck_callbacks(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    gate, inside = threading.Event(), threading.Event()
    consumer = member(make)
    consumer.commit_async(on_done=lambda *_: (inside.set(), gate.wait(LONG * 3)))
    assert inside.wait(LONG)
    try:
        yield consumer
    finally:
        gate.set()


@contextlib.contextmanager
def lost(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    """Its lease is over."""
    consumer = member(make, max_poll_interval_ms=300, session_timeout_ms=10_000)
    server.wait_for(lambda cluster: not cluster.group("g").members)
    yield consumer


@contextlib.contextmanager
def with_a_blocked_listener(server: ModelServer, make: Maker) -> Iterator[Consumer]:
    """Another thread is in `poll`, whose listener does not return."""
    gate, inside = threading.Event(), threading.Event()

    class Blocked:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            inside.set()
            gate.wait(LONG * 3)

    consumer = make.member(Blocked())

    def poll() -> None:
        with contextlib.suppress(ClosedError):
            consumer.poll(LONG)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    assert inside.wait(LONG)
    try:
        yield consumer
    finally:
        gate.set()
        thread.join(LONG)


STATES = (
    working,
    without_brokers,
    stopped,
    without_answers,
    starting_without_answers,
    rebalancing,
    with_stuck_callbacks,
    lost,
    with_a_blocked_listener,
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_every_call_returns_in_time(server: ModelServer, make: Maker, state: Callable[..., Any]) -> None:
    topic(server, 50, 50)
    with state(server, make) as consumer:
        assert_all_in_time(consumer, "t", state.__name__)


@pytest.mark.parametrize("timeout", TIMEOUTS)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_close_returns_in_time(server: ModelServer, make: Maker, state: Callable[..., Any], timeout: float) -> None:
    topic(server, 50, 50)
    took = []
    for _ in range(ATTEMPTS if state is not stopped else 1):
        with state(server, make) as consumer:
            took.append(seconds(lambda consumer=consumer: consumer.close(timeout)))
        if took[-1] <= timeout + CLOSE_LATE:
            return
        make.close()
    pytest.fail(f"{took} s; {timeout + CLOSE_LATE:g} s is the limit")


# ---------------------------------------------------------------- listeners and handlers


class Calling:
    """A listener that makes calls when partitions are revoked, and notes how long they took."""

    def __init__(self, *calls: Callable[[], object]) -> None:
        self.calls, self.took = calls, list[float]()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.took += [seconds(call) for call in self.calls]


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "silence"])
def test_calls_in_a_listener_return_in_time_and_so_does_what_called_it(server: ModelServer, make: Maker, answers: bool) -> None:
    topic(server, 50, 50)
    for attempt in range(ATTEMPTS):
        consumer = make(group_id="g")
        calling = Calling(
            *(lambda call=call, consumer=consumer: call(consumer, 0.2) for name, call in calls("t").items() if name != "poll")
        )
        consumer.subscribe(["t"], calling)
        read(consumer, 3, max_records=3)
        with contextlib.nullcontext() if answers else silent(server):
            whole = seconds(lambda consumer=consumer: consumer.close(0.3))
        late = [one for one in calling.took if one > 0.2 + LATE]
        assert len(calling.took) == len(calls("t")) - 1
        if not late and whole <= 0.3 + CLOSE_LATE + sum(calling.took):
            return
        assert attempt < ATTEMPTS - 1, (calling.took, whole)


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), GroupError(22, "mine")])
def test_a_listener_that_raises_does_not_make_close_late(server: ModelServer, make: Maker, error: Exception) -> None:
    def fail() -> None:
        raise error

    topic(server, 50)
    for attempt in range(ATTEMPTS):
        calling = Calling()
        calling.on_partitions_revoked = lambda _: fail()  # type: ignore[method-assign,assignment]
        consumer = make(group_id="g")
        consumer.subscribe(["t"], calling)
        read(consumer, 3, max_records=3)
        began = time.monotonic()
        with pytest.raises(type(error), match="mine"):
            consumer.close(0.2)
        if time.monotonic() - began <= 0.2 + CLOSE_LATE:
            return
        assert attempt < ATTEMPTS - 1


def test_poll_is_in_time_however_long_its_listener_took(server: ModelServer, make: Maker) -> None:
    class Slow:
        took = 0.0

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            began = time.monotonic()
            never.wait(0.5)
            self.took += time.monotonic() - began

    topic(server, 0)
    never = threading.Event()
    for attempt in range(ATTEMPTS):
        consumer, slow = make(group_id=f"g{attempt}"), Slow()
        consumer.subscribe(["t"], slow)
        began, late = time.monotonic(), 0.0
        while not slow.took and time.monotonic() - began < LONG:
            before = time.monotonic()
            consumer.poll(0.1)
            late = max(late, time.monotonic() - before - slow.took - 0.1)
        assert slow.took
        if late <= LATE:
            return
        assert attempt < ATTEMPTS - 1, late


@pytest.mark.parametrize("raises", [False, True], ids=["blocked", "raising"])
def test_process_returns_in_time_when_a_handler_is_stuck(server: ModelServer, make: Maker, raises: bool) -> None:
    topic(server, 50, 50)
    for attempt in range(ATTEMPTS):
        gate, stop, began = threading.Event(), threading.Event(), list[float]()

        def handle(record: Any, stop: threading.Event = stop, gate: threading.Event = gate, began: list[float] = began) -> None:
            if record.offset == 1:
                began.append(time.monotonic())
                stop.set()
                if raises:
                    raise LookupError("no such customer")
                gate.wait(LONG * 3)

        consumer = make.member(enable_auto_commit=False, group_id=f"g{attempt}")
        with contextlib.suppress(LookupError):
            consumer.process(handle, stop=stop, drain_timeout=0.3)
        late = time.monotonic() - began[0] - 0.3
        gate.set()
        if late <= LATE + 0.2:  # `stop` is looked at five times a second
            return
        assert attempt < ATTEMPTS - 1, late


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "silence"])
def test_streams_close_in_time_when_a_thread_holds_a_record(server: ModelServer, make: Maker, answers: bool) -> None:
    topic(server, 50, 50)
    for attempt in range(ATTEMPTS):
        gate, taken = threading.Event(), list[Any]()
        streams = make(enable_auto_commit=False, group_id=f"g{attempt}").streams({"t": 1})

        def hold(streams: Any = streams, gate: threading.Event = gate, taken: list[Any] = taken) -> None:
            for record in streams[0]:
                taken.append(record)
                if len(taken) == 3:
                    gate.wait(LONG * 3)

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        until(lambda taken=taken: len(taken) == 3, LONG, "a record in hand")
        with contextlib.nullcontext() if answers else silent(server):
            took = [
                seconds(lambda streams=streams: streams.commit(0.2)) - 0.2 + CLOSE_LATE - LATE,
                seconds(lambda streams=streams: streams.close(0.2)) - 0.2,
            ]
        gate.set()
        thread.join(LONG)
        if max(took) <= CLOSE_LATE:
            return
        assert attempt < ATTEMPTS - 1, took
