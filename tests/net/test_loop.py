"""Loop: one thread runs every machine, and every failure on it reaches all pending calls."""

from __future__ import annotations

import gc
import logging
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from pykafka4.core import Effects, Job, Threads
from pykafka4.core.engine import Engine
from pykafka4.core.network.jobs import MAX_CONCURRENT_STEPS
from pykafka4.errors import ClosedError, KafkaError, KafkaTimeoutError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.workers import Callbacks
from pykafka4.net.loop import ASSIGNORS, Loop
from pykafka4.options.config import ClientConfig
from tests.inspection import promises_of, thread_of
from tests.net.interrupts import interrupts
from tests.net.net_helpers import SECONDS, closed_port, in_child, until


class Script:
    """A machine that does what the test says."""

    def __init__(self) -> None:
        self.act: Callable[[float], Effects] = lambda now: Effects()
        self.polled = 0
        self.reason: KafkaError | None = None

    def poll(self, now: float) -> Effects:
        self.polled += 1
        return self.act(now)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        self.reason = reason
        return (lambda: None,)


def make(callbacks: Callbacks | None = None) -> Loop:
    config = ClientConfig.parse({"bootstrap_servers": f"127.0.0.1:{closed_port()}", "reconnect_backoff_ms": 600_000})
    return Loop(Engine(config, Random(1), Mock()), callbacks or Callbacks())


@pytest.fixture
def loop() -> Iterator[Loop]:
    it = make()
    it.start()
    yield it
    it.close(SECONDS)


@pytest.fixture
def script(loop: Loop) -> Script:
    it = Script()
    loop.ask(lambda now: loop.engine.add(it), SECONDS)
    return it


def crash(loop: Loop) -> None:
    """Have a part that all machines share raise."""

    def broken(now: float) -> Effects:
        raise ValueError("the cluster broke")

    loop.engine.cluster.poll = broken  # type: ignore[method-assign]
    loop.wake()
    until(lambda: loop.crashed)


# -- call, ask, promise


def test_calls_run_on_the_loop_thread_in_order(loop: Loop) -> None:
    ran: list[int] = []
    for number in range(100):
        loop.call(lambda now, number=number: ran.append(number))
    assert loop.ask(lambda now: (loop.on_loop(), list(ran)), SECONDS) == (True, list(range(100)))
    assert not loop.on_loop()


def test_ask_returns_the_result_and_raises_what_was_raised_and_the_loop_lives(loop: Loop) -> None:
    def broken(now: float) -> int:
        raise ValueError("mine")

    assert loop.ask(lambda now: 7, SECONDS) == 7
    with pytest.raises(ValueError, match="mine"):
        loop.ask(broken, SECONDS)
    assert loop.ask(lambda now: 8, SECONDS) == 8


def test_ask_waits_for_the_promise_it_is_given(loop: Loop) -> None:
    promise: Promise[int] = Promise()
    threading.Timer(0.02, promise.set_result, (7,)).start()
    assert loop.ask(lambda now: promise, SECONDS) == 7
    failed: Promise[int] = Promise()
    failed.set_exception(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        loop.ask(lambda now: failed, SECONDS)


def test_a_timeout_names_what_was_waited_for_and_why_no_broker_is_reached(loop: Loop) -> None:
    until(lambda: "refused" in loop.engine.network.why_unreachable())
    with pytest.raises(KafkaTimeoutError, match=r"counting sheep: not done within 0\.05 s; no broker reachable: 127.* connection refused"):
        loop.ask(lambda now: Promise[int](), 0.05, "counting sheep")


def test_a_process_that_was_stopped_while_it_asked_waits_for_its_loop(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock went on, so the time for the answer is over as soon as it continues, and the loop has not had that time either."""
    real, goes_on = time.monotonic, threading.Event()
    stopped = real() + 0.05

    def clock() -> float:
        if real() < stopped:
            return real()
        goes_on.set()
        return real() + 10

    loop.call(lambda now: goes_on.wait(SECONDS))
    monkeypatch.setattr(system, "monotonic", clock)
    assert loop.ask(lambda now: 7, 0.1) == 7


def test_asking_on_the_loop_itself_runs_at_once_and_never_waits_for_itself(loop: Loop) -> None:
    assert loop.ask(lambda now: loop.ask(lambda now: 7, SECONDS), SECONDS) == 7
    with pytest.raises(KafkaError, match="which would deadlock"):
        loop.ask(lambda now: loop.ask(lambda now: Promise[int](), SECONDS, "it"), SECONDS)


# -- effects


def test_callbacks_run_on_another_thread_and_jobs_report_back_on_the_loop(loop: Loop, script: Script) -> None:
    threads: dict[str, str] = {}
    done = threading.Event()

    def name() -> str:
        return threading.current_thread().name

    def finished(now: float, result: Any) -> None:
        threads["then"], threads["job"] = name(), result
        done.set()

    effects = [Effects(deliver=(lambda: threads.update(callback=name()),), jobs=(Job(name, finished),))]
    script.act = lambda now: effects.pop() if effects else Effects()
    loop.wake()
    assert done.wait(SECONDS)
    until(lambda: len(threads) == 3)
    assert threads["then"] == "pykafka4-loop"
    assert threads["callback"] == "pykafka4-callbacks"
    assert threads["job"] == "pykafka4-helper"


@pytest.mark.parametrize(("blocked", "most"), [(Threads.CREDENTIALS, MAX_CONCURRENT_STEPS), (Threads.ASSIGNORS, ASSIGNORS)])
def test_jobs_that_block_run_at_once_and_keep_no_job_of_another_kind_waiting(
    loop: Loop, script: Script, blocked: Threads, most: int
) -> None:
    together, others = threading.Barrier(most + 1), {kind: threading.Event() for kind in Threads if kind is not blocked}
    jobs = [Job(lambda: together.wait(SECONDS), lambda now, result: None, blocked) for _ in range(most)]
    jobs += [Job(over.set, lambda now, result: None, kind) for kind, over in others.items()]
    effects = [Effects(jobs=tuple(jobs))]
    script.act = lambda now: effects.pop() if effects else Effects()
    loop.wake()
    assert all(over.wait(SECONDS) for over in others.values())
    together.wait(SECONDS)  # passes when all of them have come


def test_a_machine_is_polled_when_it_asked_to_be(loop: Loop, script: Script) -> None:
    times: list[float] = []

    def act(now: float) -> Effects:
        times.append(now)
        return Effects(wake_at=now + 0.02)

    script.act = act
    loop.wake()
    until(lambda: len(times) >= 5)
    assert min(b - a for a, b in pairwise(times[1:])) >= 0.019


def test_a_loop_with_nothing_to_do_sleeps(loop: Loop, script: Script) -> None:
    until(lambda: "refused" in loop.engine.network.why_unreachable())
    loop.ask(lambda now: None, SECONDS)
    polled = script.polled
    threading.Event().wait(0.6)
    assert script.polled - polled <= 5  # the cluster looks for a broker twice a second


def test_no_wake_up_is_lost(loop: Loop, script: Script) -> None:
    for _ in range(500):
        polled = script.polled
        loop.wake()
        until(lambda polled=polled: script.polled > polled)


def test_a_callback_that_hangs_does_not_stop_the_loop(loop: Loop, script: Script) -> None:
    release = threading.Event()
    effects = [Effects(deliver=(lambda: release.wait(SECONDS),))]
    script.act = lambda now: effects.pop() if effects else Effects()
    loop.wake()
    assert loop.ask(lambda now: 7, SECONDS) == 7
    release.set()


def test_an_executor_whose_submit_blocks_does_not_stop_the_loop() -> None:
    release = threading.Event()

    class Full(Executor):
        def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
            release.wait(SECONDS)
            fn()
            return Future()

    loop = make(Callbacks(Full()))
    loop.start()
    script, ran = Script(), threading.Event()
    effects = [Effects(deliver=(ran.set,))]
    script.act = lambda now: effects.pop() if effects else Effects()
    try:
        loop.ask(lambda now: loop.engine.add(script), SECONDS)
        until(lambda: not effects)
        assert loop.ask(lambda now: 7, SECONDS) == 7
        assert not ran.is_set()
        release.set()
        assert ran.wait(SECONDS)
    finally:
        release.set()
        loop.close(SECONDS)


# -- crashes


def test_a_crash_fails_every_pending_commit_and_lookup(loop: Loop, script: Script, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[BaseException] = []
    before, asked_for = loop.promise(), loop.promise()

    def wait() -> None:
        try:
            loop.ask(lambda now: asked_for, SECONDS)
        except KafkaError as error:
            heard.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    until(lambda: len(promises_of(loop)) >= 3)
    with caplog.at_level(logging.CRITICAL):
        crash(loop)
        waiter.join(SECONDS)
    assert "the loop crashed: ValueError: the cluster broke" in str(heard[0])
    assert isinstance(heard[0].__cause__, ValueError)
    assert before.exception(SECONDS) is loop.crashed
    assert script.reason is loop.crashed
    until(lambda: "Traceback" in caplog.text)


def test_after_a_crash_every_call_says_so_at_once(loop: Loop) -> None:
    crash(loop)
    until(lambda: not loop.alive)
    for use in (loop.check, lambda: loop.ask(lambda now: 7, SECONDS)):
        with pytest.raises(KafkaError, match="the loop crashed: ValueError: the cluster broke"):
            use()
    loop.call(lambda now: None)
    loop.wake()
    loop.close()


def test_a_call_that_is_interrupted_leaves_no_promise_behind(loop: Loop) -> None:
    for place in interrupts(lambda: loop.ask(lambda now: 7, SECONDS)):
        loop.ask(lambda now: None, SECONDS)  # the one before is through
        assert not promises_of(loop), place


@pytest.mark.parametrize("end", ["crashed", "closed"])
def test_a_promise_made_after_the_end_fails_at_once(loop: Loop, end: str) -> None:
    if end == "crashed":
        crash(loop)
    loop.close(SECONDS)
    with pytest.raises(KafkaError, match=end):
        loop.promise().result(0)
    assert not promises_of(loop)


def test_the_failure_of_a_machine_fails_its_promises_and_no_others(loop: Loop, script: Script) -> None:
    other = Script()
    loop.ask(lambda now: loop.engine.add(other), SECONDS)
    mine, theirs, nobodys = loop.promise(script), loop.promise(other), loop.promise()

    def broken(now: float) -> Effects:
        raise ValueError("a machine broke")

    script.act = broken
    loop.wake()
    with pytest.raises(KafkaError, match="stopped this machine: ValueError: a machine broke"):
        mine.result(SECONDS)
    with pytest.raises(KafkaError, match="stopped this machine: ValueError: a machine broke"):
        loop.promise(script).result(0)
    assert loop.ask(lambda now: 7, SECONDS) == 7
    assert not theirs.done()
    assert not nobodys.done()
    assert loop.crashed is None


def test_a_posted_call_that_raises_ends_its_machine_or_nothing_but_never_the_loop(loop: Loop, script: Script) -> None:
    def broken(now: float) -> None:
        raise ValueError("a call broke")

    loop.call(broken)
    assert loop.ask(lambda now: 7, SECONDS) == 7
    assert loop.engine.failure(script) is None
    loop.call(broken, script)
    until(lambda: script.reason)
    assert loop.ask(lambda now: 8, SECONDS) == 8


def test_a_callback_of_a_promise_that_raises_keeps_none_of_the_others_from_running(loop: Loop) -> None:
    heard: list[object] = []
    promise = loop.promise()

    def broken(it: Promise[Any]) -> None:
        raise ValueError("not mine")

    promise.add_done_callback(broken)
    promise.add_done_callback(heard.append)
    loop.call(lambda now: promise.set_result(7))
    until(lambda: heard == [promise])
    assert loop.ask(lambda now: 8, SECONDS) == 8


@pytest.mark.parametrize("end", ["crashed", "closed"])
def test_the_error_of_an_ended_loop_is_a_new_one_each_time(loop: Loop, end: str) -> None:
    waiting = loop.promise()
    if end == "crashed":
        crash(loop)
        until(lambda: not loop.alive)
    else:
        loop.close(SECONDS)
    raised: list[KafkaError] = []
    for use in (loop.check, loop.check, lambda: waiting.result(SECONDS), lambda: waiting.result(SECONDS)):
        with pytest.raises(KafkaError) as caught:
            use()
        raised.append(caught.value)
    assert len({id(error) for error in raised}) == 4
    assert len({str(error) for error in raised}) == 1
    assert {traces(error) for error in raised[:2]} == {traces(raised[0])}
    assert traces(raised[2]) == traces(raised[3])


def traces(error: BaseException) -> int:
    """The length of its traceback."""
    return len(list(traceback.walk_tb(error.__traceback__)))


# -- ends


def test_closing_fails_pending_calls_and_joins_the_thread(loop: Loop, script: Script) -> None:
    waiting = loop.promise()
    loop.close(SECONDS)
    assert not thread_of(loop).is_alive()
    with pytest.raises(ClosedError):
        waiting.result(0)
    with pytest.raises(ClosedError):
        loop.check()
    with pytest.raises(ClosedError):
        loop.ask(lambda now: 7, SECONDS)
    assert isinstance(script.reason, ClosedError)
    loop.close(SECONDS)


@pytest.mark.parametrize("where", ["loop", "callback"])
def test_closing_from_the_loop_or_a_callback_does_not_wait_for_itself(loop: Loop, where: str) -> None:
    done = threading.Event()
    act = lambda *args: (loop.close(SECONDS), done.set())  # noqa: E731
    began = time.monotonic()
    if where == "loop":
        loop.call(act)
    else:
        loop._callbacks.submit(act)
    assert done.wait(SECONDS)
    until(lambda: not thread_of(loop).is_alive())
    assert time.monotonic() - began < SECONDS / 2


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_closed_loop_leaves_no_descriptor_and_no_thread() -> None:
    descriptors, threads = open_descriptors(), threading.active_count()
    for _ in range(10):
        loop = make()
        loop.start()
        loop.ask(lambda now: None, SECONDS)
        loop.close(SECONDS)
    until(lambda: open_descriptors() <= descriptors)
    until(lambda: threading.active_count() <= threads + 10)  # idle helpers end by themselves
    gone = weakref.ref(loop)
    del loop
    until(lambda: gc.collect() >= 0 and gone() is None)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_an_error_and_the_parent_nothing(loop: Loop) -> None:
    loop.ask(lambda now: None, SECONDS)

    def act() -> str:
        loop.wake()
        loop.call(lambda now: None)
        loop.close(SECONDS)
        return str(loop.ask(lambda now: "an answer", SECONDS))

    assert in_child(act).startswith("ForkedClientError: this client was created in another process")
    assert loop.ask(lambda now: 7, SECONDS) == 7
    loop.wake()
    assert loop.ask(lambda now: 8, SECONDS) == 8
