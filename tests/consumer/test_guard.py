"""Every public method of a consumer goes through its guard, or is listed here with the reason why it need not."""

from __future__ import annotations

import gc
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from inspect import getmembers, getsource, isfunction
from typing import Any

import pytest

from pykafka4 import ClosedError, ConfigError, Consumer, KafkaError
from pykafka4.consumer.assignment import Assignment
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.guard import CALLS, Guard, call
from pykafka4.consumer.session import ConsumerSession
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import LONG, Maker, fill, topic
from tests.inspection import inspect
from tests.net.interrupts import handled, undisturbed

T0 = ("t", 0)
GUARDED: dict[str, tuple[Any, ...]] = {  # arguments of each
    "subscribe": (["u"],),
    "unsubscribe": (),
    "assign": ([T0],),
    "poll": (0,),
    "poll_arrow": (0,),
    "poll_raw": (0,),
    "until_end": (),
    "seek": (T0, 0),
    "seek_to_beginning": ([T0],),
    "seek_to_end": ([T0],),
    "seek_to_time": (0, [T0]),
    "position": (T0, 0),
    "lag": (T0,),
    "pause": ([T0],),
    "resume": ([T0],),
    "commit": (),
    "commit_async": (),
}
FREE = {
    "streams": "it calls guarded methods; the thread that it starts has the consumer until the streams are closed",
    "wakeup": "for other threads and signal handlers",
    "extend_lease": "for other threads, while the thread that polls works",
    "close": "waits for the call of another thread",
    **dict.fromkeys(("beginning_offsets", "end_offsets", "offsets_for_times"), "asks the leaders, whatever the consumer does"),
    "committed": "asks the coordinator, whatever the consumer does",
    "rewind_group": "asks the leaders, and leaves its wish to the loop",
    "batches": "each of its lists is a poll",
    "process": "polls and commits by the guarded methods",
    "assignment": "a copy of what is there",
    "subscription": "a copy of what is there",
    "paused": "a copy of what is there",
    "group_metadata": "of a consumer without a subscription it is constant; with one it is guarded",
    "status": "says what the other thread's call waits for",
    "stats": "numbers, read as they are",
    "metrics": "numbers, read as they are",
    "serve_status": "its threads read what `status` returns",
}
OWNERS = {"": ConsumerSession, "assignment.": Assignment, "commits.": Commits}


def test_every_public_method_is_guarded_or_says_why_not() -> None:
    public = {name for name, _ in getmembers(Consumer, isfunction) if not name.startswith("_")}
    assert public == GUARDED.keys() | FREE.keys()
    assert not GUARDED.keys() & FREE.keys()


def test_guarded_methods_refuse_a_second_thread(server: ModelServer, make: Maker) -> None:
    consumer = make.assigned(0, group_id="g")
    polling = threading.Thread(target=consumer.poll, args=(LONG,), name="first")
    polling.start()
    try:
        deadline = time.monotonic() + LONG
        while not inspect(consumer).busy:
            assert time.monotonic() < deadline
        for name, arguments in GUARDED.items():
            what = name.removesuffix("_async")
            with pytest.raises(KafkaError, match=f"called {what} while thread 'first' is in poll"):
                getattr(consumer, name)(*arguments)
    finally:
        consumer.wakeup()
        polling.join(LONG)
    assert not polling.is_alive()


@pytest.mark.parametrize("name", [*GUARDED, "close"])
def test_calls_are_recognized_on_a_stack(name: str) -> None:
    """Otherwise the next call takes one that is still running for one that Ctrl-C ended, or the other way round."""
    source = getsource(getattr(Consumer, name))
    found = re.findall(r"self\.(?:_session|_visit\(\))\.(assignment\.|commits\.|)(\w+)\(", source)
    assert found
    calls = [(owner, method) for owner, method in found if method != "raw_form"]  # which only makes a value
    assert all(getattr(OWNERS[owner], method).__code__ in CALLS for owner, method in calls)


def test_a_call_that_begins_while_another_thread_closes_is_told_that_the_consumer_is_closed(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = inspect(make()).session.guard

    def check() -> None:
        if guard.closing:
            raise ClosedError("this consumer is closed")
        guard.closing = True  # the other thread begins between the check and what follows

    with monkeypatch.context() as patch:
        patch.setattr(guard, "_check", check)
        with pytest.raises(ClosedError):
            guard.enter("poll")
    guard.closing = False
    assert guard.enter("poll"), "it is free again"
    guard.leave()


class User:
    """Calls that use a consumer."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    @call
    def use(self, until: Callable[[], object]) -> None:
        """Use the consumer until `until` returns, unless it is in use."""
        try:
            self.guard.enter("poll")
        except KafkaError:
            return
        until()
        self.guard.leave()


def on_a_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()


def test_one_of_two_threads_takes_over_after_a_call_that_ctrl_c_has_ended(make: Maker) -> None:
    """The second thread comes at each place of the first one's call."""
    guard = inspect(make()).session.guard
    user, using, most = User(guard), set[str](), list[int]()

    def use(name: str, until: Callable[[], object]) -> None:
        def inside() -> None:
            using.add(name)
            most.append(len(using))
            until()
            using.remove(name)

        user.use(inside)

    def act() -> None:
        with undisturbed():
            on_a_thread(lambda: guard.enter("poll"))
        use("first", lambda: None)
        with undisturbed():
            end.set()

    def come() -> None:
        arrived = threading.Event()

        def second() -> None:
            use("second", lambda: arrived.set() or end.wait(LONG))
            arrived.set()

        threads.append(threading.Thread(target=second))
        threads[-1].start()
        assert arrived.wait(LONG)

    end, threads = threading.Event(), list[threading.Thread]()
    places = 0
    for place in handled(act, come):
        for thread in threads:
            thread.join(LONG)
        assert max(most) == 1, place
        end.clear()
        places += 1
    assert places > 5


@pytest.mark.parametrize("how", ["poll", "loop"])
def test_a_thread_that_polls_while_another_is_in_a_loop_is_refused(server: ModelServer, make: Maker, how: str) -> None:
    """The record that the other one has in hand would count as finished."""
    topic(server, 3)
    consumer = make.assigned(0, group_id="g")
    inside, step, left, end = (threading.Event() for _ in range(4))

    def loop() -> None:
        for _ in consumer:
            inside.set()
            step.wait(LONG)
            break
        left.set()
        end.wait(LONG)

    first = threading.Thread(target=loop, name="first")
    first.start()
    assert inside.wait(LONG)
    poll: Callable[[], Any] = partial(consumer.poll, LONG) if how == "poll" else lambda: next(iter(consumer))
    for _ in range(2):
        with pytest.raises(KafkaError, match=f"thread {threading.current_thread().name!r} called poll while thread 'first' is in a loop"):
            poll()
    consumer.commit()
    assert server.committed("g") == {TopicPartition(*T0): 0}
    step.set()
    assert left.wait(LONG)
    assert poll(), "the first thread has left its loop"
    end.set()
    first.join(LONG)


def refused(attempted: Callable[[], object]) -> bool:
    """Whether another thread gets an error that says who is in a loop."""
    errors: list[Exception] = []

    def attempt() -> None:
        try:
            attempted()
        except KafkaError as error:
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join(LONG)
    assert not errors or "is in a loop" in str(errors[0]), errors
    return bool(errors)


def test_an_inner_loop_that_was_left_does_not_hide_the_outer_one(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.assigned(0)
    outer = iter(consumer)
    next(outer)
    for _ in consumer:
        break
    assert refused(lambda: consumer.poll(0))
    del outer
    assert not refused(lambda: consumer.poll(0))


def test_a_poll_that_is_refused_does_not_prolong_the_lease(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.assigned(0)
    records = iter(consumer)
    next(records)
    idle = inspect(consumer).session.reader.idle
    assert idle is not None
    assert refused(lambda: consumer.poll(0))
    assert inspect(consumer).session.reader.idle == idle
    assert consumer.poll(0)
    assert inspect(consumer).session.reader.idle != idle


def test_streams_begin_although_their_thread_has_an_iterator(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make(group_id="g", enable_auto_commit=False)
    consumer.subscribe(["t"])
    records = iter(consumer)
    next(records)
    assert refused(lambda: consumer.streams(["t"], 1))
    with consumer.streams(["t"], 1) as (stream,):
        assert next(iter(stream)).offset >= 1


def test_a_loop_may_go_on_in_another_thread(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make.assigned(0, group_id="g", max_poll_records=1)
    records = iter(consumer)
    found = [next(records).offset]
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(next(records).offset))
        thread.start()
        thread.join(LONG)
    assert found == [0, 1, 2]
    fill(server, "t", 0, [b"3"])
    assert [record.offset for record in consumer.poll(LONG)] == [3], "the thread of the loop has ended"


def test_a_list_iterator_keeps_its_consumer_alive(server: ModelServer) -> None:
    batches = Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g").batches(0)
    gc.collect()
    with pytest.raises(ConfigError, match="no topics"):  # not ClosedError
        next(batches)
    batches.__reduce__()[1][0].__dict__["consumer"].close(2)
