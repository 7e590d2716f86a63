"""Callbacks, listeners and helpers: what is submitted runs once, whatever executors and callbacks do, and without a thread at once."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from pykafka4.net.handoff import workers
from pykafka4.net.handoff.latch import new_latch
from pykafka4.net.handoff.workers import Callbacks, Feed, Helper
from tests.inspection import idle_threads, pool_threads
from tests.net.interrupts import interrupted
from tests.net.net_helpers import SECONDS, in_thread, python, until


def test_an_interrupt_while_the_first_thread_for_callbacks_is_started_keeps_none_from_being_started() -> None:
    for at in range(1, 1000):
        callbacks = Callbacks()
        place = interrupted(lambda: callbacks.submit(int), at)  # noqa: B023
        done = threading.Event()
        in_thread(lambda done=done, callbacks=callbacks: callbacks.submit(done.set))
        assert done.wait(SECONDS), f"no callback runs any more after an interrupt at {place}"
        assert pool_threads(callbacks) == 1, f"one thread, so that callbacks keep their order; interrupted at {place}"
        if place is None:
            return
    pytest.fail("submit never ended undisturbed")


def test_callbacks_run_in_order_and_know_that_they_are_callbacks() -> None:
    callbacks, seen, done = Callbacks(), list[int](), threading.Event()
    inside: list[bool] = []
    for number in range(100):
        callbacks.submit(lambda number=number: seen.append(number))
    callbacks.submit(lambda: (inside.append(callbacks.in_callback()), done.set()))
    assert done.wait(SECONDS)
    assert seen == list(range(100))
    assert inside == [True]
    assert not callbacks.in_callback()


def test_a_callback_that_raises_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, done = Callbacks(), threading.Event()

    def broken() -> None:
        raise ValueError("broken callback")

    callbacks.submit(broken)
    callbacks.submit(lambda: (_ for _ in ()).throw(SystemExit("leave")))
    callbacks.submit(done.set)
    assert done.wait(SECONDS)
    assert "broken callback" in caplog.text


def test_what_a_callback_raises_on_the_applications_executor_is_logged_whatever_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as executor:
        callbacks, done = Callbacks(executor), threading.Event()
        callbacks.submit(lambda: (_ for _ in ()).throw(SystemExit("leave")))
        callbacks.submit(done.set)
        assert done.wait(SECONDS)
    assert "SystemExit: leave" in caplog.text


def test_callbacks_that_a_forked_childs_copy_of_an_executor_holds_do_not_run_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holding(Executor):
        def submit(self, fn: Callable[[], Any]) -> Any:  # type: ignore[override]
            held.append(fn)
            return Future()

    held, ran = list[Callable[[], Any]](), list[str]()
    callbacks = Callbacks(Holding())
    callbacks.submit(lambda: ran.append("parent's"))
    until(lambda: held)
    with monkeypatch.context() as child:
        child.setattr(workers, "_process", workers._process + 1)
        held[0]()
        assert ran == []
    held[0]()
    assert ran == ["parent's"]


def test_the_applications_executor_is_used_and_outlived(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    inside: list[bool] = []
    done = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        callbacks = Callbacks(executor)
        callbacks.submit(lambda: (seen.append(threading.current_thread().name), inside.append(callbacks.in_callback())))
        until(lambda: inside)
    with caplog.at_level(logging.WARNING):
        callbacks.submit(done.set)
        assert done.wait(SECONDS)
    assert seen[0].startswith("mine")
    assert inside == [True]
    assert "callback_executor rejected a callback" in caplog.text


def test_callbacks_that_the_applications_executor_drops_are_run_all_the_same() -> None:
    seen: list[int] = []
    begun, go, done = threading.Event(), threading.Event(), threading.Event()
    executor = ThreadPoolExecutor(1)
    callbacks = Callbacks(executor)
    callbacks.submit(lambda: (begun.set(), go.wait(SECONDS), seen.append(0)))
    for number in range(1, 10):
        callbacks.submit(lambda number=number: seen.append(number))
    assert begun.wait(SECONDS)
    until(lambda: executor._work_queue.qsize() == 9)
    executor.shutdown(wait=False, cancel_futures=True)
    until(lambda: len(seen) == 9)
    go.set()
    callbacks.submit(done.set)
    assert done.wait(SECONDS)
    executor.shutdown()
    assert seen == [*range(1, 10), 0], "each once, those dropped in their order"


@pytest.mark.parametrize("error", [RuntimeError("shut down"), queue.Full(), ValueError("no"), SystemExit(1)])
def test_an_executor_that_refuses_does_not_stop_the_callbacks(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Executor):
        def submit(self, *args: Any, **more: Any) -> Future[Any]:
            raise error

    callbacks, done = Callbacks(Refusing()), threading.Event()
    callbacks.submit(done.set)
    assert done.wait(SECONDS)
    assert "callback_executor rejected a callback" in caplog.text


def test_an_executor_that_runs_things_itself_and_gives_no_future_runs_them_once() -> None:
    class Inline(Executor):
        def submit(self, fn: Callable[[], Any]) -> Any:  # type: ignore[override]
            fn()

    seen: list[int] = []
    callbacks, done = Callbacks(Inline()), threading.Event()
    callbacks.submit(lambda: seen.append(1))
    callbacks.submit(done.set)
    assert done.wait(SECONDS)
    assert seen == [1]


def test_the_thread_of_callbacks_ends_when_there_is_nothing_to_do_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.01)
    callbacks, threads = Callbacks(), list[threading.Thread]()
    for number in range(3):
        callbacks.submit(lambda: threads.append(threading.current_thread()))
        until(lambda number=number: len(threads) == number + 1)
        threads[-1].join(SECONDS)
        assert not threads[-1].is_alive()
    assert len(set(threads)) == 3


def test_a_hanging_callback_does_not_keep_the_interpreter_from_exiting() -> None:
    code = "import threading; from pykafka4.net.handoff.workers import Callbacks, Helper\n"
    code += "Callbacks().submit(threading.Event().wait); Helper().submit(threading.Event().wait, print); print('exit')"
    assert python(code, timeout=30).stdout == "exit\n"


def test_helpers_work_side_by_side_and_hand_back_exceptions() -> None:
    helper, barrier, results = Helper(), threading.Barrier(workers.HELPERS), list[Any]()

    def work(number: int) -> int:
        barrier.wait(SECONDS)
        if number == 0:
            raise ValueError("no such name")
        return number

    for number in range(workers.HELPERS):
        helper.submit(lambda number=number: work(number), results.append)
    until(lambda: len(results) == workers.HELPERS)
    assert sorted(r for r in results if isinstance(r, int)) == list(range(1, workers.HELPERS))
    assert [str(r) for r in results if isinstance(r, ValueError)] == ["no such name"]


def no_new_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_where_no_thread_can_be_started_work_is_done_at_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    no_new_threads(monkeypatch)
    callbacks, done = Callbacks(), list[object]()
    for number in range(3):
        callbacks.submit(lambda number=number: done.append((number, callbacks.in_callback())))
    Helper().submit(lambda: 7, done.append)
    assert done == [(0, True), (1, True), (2, True), 7]
    assert not callbacks.in_callback()


def test_work_that_no_further_thread_can_take_waits_for_the_one_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    helper, first, go_on, done = Helper(), threading.Event(), threading.Event(), list[object]()
    helper.submit(lambda: (first.set(), go_on.wait(SECONDS)), lambda _: done.append(0))
    assert first.wait(SECONDS)
    no_new_threads(monkeypatch)
    for number in (1, 2):
        helper.submit(lambda number=number: number, done.append)
    assert done == []
    go_on.set()
    until(lambda: len(done) == 3)
    assert done == [0, 1, 2]


# -- events


class Held:
    """Callbacks that run when the test says so."""

    client_id = "test"

    def __init__(self) -> None:
        self.queue: list[Callable[[], Any]] = []

    def submit(self, fn: Callable[[], Any]) -> None:
        self.queue.append(fn)

    def run(self) -> None:
        while self.queue:
            self.queue.pop(0)()


def feed() -> tuple[Feed, Held, list[object]]:
    held, heard = Held(), list[object]()
    return Feed(held, heard.append), held, heard  # type: ignore[arg-type]


def test_a_slow_listener_gets_only_the_latest_state() -> None:
    it, held, heard = feed()
    for version in range(1000):
        it.latest("metadata", version)
    assert len(held.queue) == 1
    held.run()
    assert heard == [999]


def test_a_slow_listener_ends_up_with_the_offline_partitions() -> None:
    it, held, heard = feed()
    it.alternate("a", "a off")
    it.alternate("b", "b off")
    it.alternate("b", "b on")
    for _ in range(1000):
        it.alternate("a", "a on")
        it.alternate("a", "a off again")
    held.run()
    assert heard == ["a off again", "b off", "b on"]


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit])
def test_a_listener_that_raises_hears_of_the_next_event(kind: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    held, heard = Held(), list[object]()

    def listener(event: object) -> None:
        heard.append(event)
        raise kind("listener broke")

    it = Feed(held, listener)  # type: ignore[arg-type]
    it.alternate(1, "one")
    it.alternate(2, "two")
    held.run()
    assert heard == ["one", "two"]
    assert "listener broke" in caplog.text


def test_a_burst_of_blocking_work_gets_a_thread_for_each_although_one_is_idle() -> None:
    helper, both = Helper(most=2), threading.Barrier(2)
    idle = threading.Event()
    helper.submit(lambda: None, lambda _: idle.set())
    assert idle.wait(SECONDS)
    until(lambda: len(idle_threads(helper)) == 1)
    results: list[object] = []
    for _ in range(2):
        helper.submit(lambda: both.wait(SECONDS), results.append)
    until(lambda: len(results) == 2)
    assert sorted(map(str, results)) == ["0", "1"], "each waits for the other"


def test_a_thread_that_is_woken_just_when_it_gives_up_waiting_takes_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    helper, results = Helper(most=1), list[object]()

    class Late:
        """Its time is over; meanwhile there is a call."""

        calls = [1, 2, 3]

        def acquire(self, blocking: bool, timeout: float) -> bool:
            if not self.calls:
                return False
            n = self.calls.pop()
            helper.submit(lambda: n, results.append)
            return False

        def locked(self) -> bool:
            return True

        def release(self) -> None:
            pass

    monkeypatch.setattr(workers, "new_latch", Late)
    helper.submit(lambda: 4, results.append)
    until(lambda: len(results) == 4)
    assert results == [4, 3, 2, 1]
    until(lambda: not pool_threads(helper), "the end of the thread")
    assert not idle_threads(helper)


def test_an_interrupt_while_an_idle_thread_is_woken_leaves_no_trace_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a later call would wake a thread that is not there any more, and wait for the one after it."""

    class Latch:
        def __init__(self) -> None:
            self.lock, self.opened = new_latch(), 0
            self.acquire, self.locked = self.lock.acquire, self.lock.locked
            made.append(self)

        def release(self) -> None:
            self.lock.release()
            self.opened += 1

    made: list[Latch] = []
    monkeypatch.setattr(workers, "new_latch", Latch)
    pool, ran = workers.Workers("pykafka4-test", 1, "c"), list[int]()
    pool.submit(lambda: ran.append(0))
    until(lambda: made and made[-1] in idle_threads(pool))
    for at in range(1, 1000):
        latch = made[-1]
        place = interrupted(lambda: pool.submit(lambda: ran.append(at)), at)  # noqa: B023
        if latch.opened:
            until(lambda: made[-1] is not latch and made[-1] in idle_threads(pool))  # noqa: B023
            assert idle_threads(pool) == [made[-1]], f"interrupted at {place}"
        if place is None:
            return
    pytest.fail("submit never ended undisturbed")


def test_a_thread_whose_waking_was_interrupted_is_not_woken_in_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", SECONDS / 10)
    helper, real = Helper(), workers.open_latch
    first, done = threading.Event(), threading.Event()
    helper.submit(lambda: None, lambda _: None)
    until(lambda: len(idle_threads(helper)) == 1)

    def interrupt(latch: Any) -> None:
        real(latch)
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "open_latch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        helper.submit(lambda: None, lambda _: first.set())
    monkeypatch.setattr(workers, "open_latch", real)
    assert first.wait(SECONDS)
    until(lambda: pool_threads(helper) == 0)
    helper.submit(lambda: None, lambda _: done.set())
    assert done.wait(SECONDS)


@pytest.mark.parametrize("idle", [1, 2])
def test_a_signal_handler_may_submit_while_its_thread_submits(monkeypatch: pytest.MonkeyPatch, idle: int) -> None:
    helper, real, both = Helper(), workers.open_latch, threading.Barrier(idle + 1)
    for _ in range(idle):
        helper.submit(lambda: both.wait(SECONDS), lambda _: None)
    both.wait(SECONDS)
    until(lambda: len(idle_threads(helper)) == idle)
    done = [threading.Event(), threading.Event()]

    def signalled(latch: Any) -> None:
        real(latch)
        monkeypatch.setattr(workers, "open_latch", real)
        helper.submit(lambda: None, lambda _: done[1].set())

    monkeypatch.setattr(workers, "open_latch", signalled)
    helper.submit(lambda: None, lambda _: done[0].set())
    assert all(event.wait(SECONDS) for event in done)
    until(lambda: len(idle_threads(helper)) == pool_threads(helper))


@pytest.mark.parametrize("busy", [False, True])
def test_threads_that_are_to_end_do_when_they_have_nothing_to_do(busy: bool) -> None:
    made, go, done, threads = workers.Workers("pykafka4-test", 2, "c"), threading.Event(), threading.Event(), list[threading.Thread]()
    made.submit(lambda: (threads.append(threading.current_thread()), go.wait(SECONDS)))
    until(lambda: threads)
    if not busy:
        go.set()
        until(lambda: idle_threads(made))
    made.end()
    made.submit(done.set)
    assert done.wait(SECONDS), "what comes later runs all the same"
    go.set()
    threads[0].join(SECONDS / 4)
    assert not threads[0].is_alive()
    until(lambda: not pool_threads(made))
