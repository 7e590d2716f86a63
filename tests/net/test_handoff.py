"""Handoff: nothing is lost between threads, everything waits with a deadline, and Ctrl-C works in every wait."""

from __future__ import annotations

import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from interrupts import interrupted, interrupts, undisturbed
from net_talk import SECONDS, python, until

from pykafka4.errors import KafkaTimeoutError
from pykafka4.net import handoff
from pykafka4.net.handoff import Callbacks, Feed, Gate, Helper, Inbox, Promise, Signal, Wakeup


def in_thread(fn: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    return thread


# -- promise


def test_a_promise_gives_its_result_to_another_thread() -> None:
    promise: Promise[int] = Promise()
    in_thread(lambda: promise.set_result(7))
    assert promise.result(SECONDS) == 7
    assert promise.exception(0) is None


def test_a_promise_raises_what_went_wrong() -> None:
    promise: Promise[int] = Promise()
    promise.set_exception(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        promise.result(0)


def test_waiting_for_a_promise_ends_at_its_timeout() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"0\.01 s"):
        Promise[int]().result(0.01)


def test_the_first_outcome_of_a_promise_counts_and_callbacks_run_once() -> None:
    promise: Promise[int] = Promise()
    seen: list[int] = []
    promise.add_done_callback(lambda p: seen.append(p.result(0)))
    promise.set_result(1)
    promise.set_result(2)
    promise.set_exception(ValueError())
    promise.add_done_callback(lambda p: seen.append(p.result(0)))
    assert seen == [1, 1]


@pytest.mark.parametrize(
    "wait",
    [
        lambda: Promise[int]().result(SECONDS),
        lambda: Promise[int]().result(),
        lambda: Signal().wait(lambda: False, SECONDS),
        lambda: Gate().wait(lambda: False, SECONDS),
    ],
)
def test_ctrl_c_ends_every_wait_of_the_application(wait: Callable[[], object]) -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()
    assert time.monotonic() - began < SECONDS / 2


# -- signal


def test_a_signal_wakes_those_whose_time_has_come() -> None:
    changed, hello = [False], Signal()
    done = threading.Event()
    in_thread(lambda: hello.wait(lambda: changed[0], SECONDS) and done.set())
    until(lambda: hello.waiting)
    hello.notify()
    assert not done.is_set()
    changed[0] = True
    hello.notify()
    assert done.wait(SECONDS)
    until(lambda: not hello.waiting)


def test_a_signal_says_what_the_predicate_said_at_the_end() -> None:
    assert not Signal().wait(lambda: False, 0.01)
    assert Signal().wait(lambda: True, 0)


def test_no_notification_is_lost_between_looking_and_waiting() -> None:
    hello, numbers = Signal(), [0]

    def produce() -> None:
        for _ in range(2_000):
            numbers[0] += 1
            hello.notify()

    thread = in_thread(produce)
    for number in range(1, 2_001, 7):
        assert hello.wait(lambda number=number: numbers[0] >= number, SECONDS)
    thread.join(SECONDS)


# -- gate


def test_the_gate_serves_in_the_order_of_coming() -> None:
    gate, room, order = Gate(), [0], list[int]()

    def take(number: int) -> bool:
        if room[0] == 0:
            return False
        room[0] -= 1
        order.append(number)
        return True

    threads = []
    for number in range(5):
        threads.append(in_thread(lambda number=number: gate.wait(lambda: take(number), SECONDS)))
        until(lambda number=number: gate.waiting == number + 1)
    for _ in range(5):
        room[0] += 1
        gate.release()
        until(lambda: room[0] == 0)
    for thread in threads:
        thread.join(SECONDS)
    assert order == [0, 1, 2, 3, 4]
    assert gate.waiting == 0


def test_one_release_serves_all_that_fit() -> None:
    gate, room = Gate(), [0]

    def take() -> bool:
        room[0] -= room[0] > 0
        return room[0] > 0

    threads = [in_thread(lambda: gate.wait(take, SECONDS)) for _ in range(3)]
    until(lambda: gate.waiting == 3)
    room[0] = 10
    gate.release()
    for thread in threads:
        thread.join(SECONDS)
    assert gate.waiting == 0


def test_one_who_gives_up_does_not_block_those_behind() -> None:
    gate, open_ = Gate(), [False]
    first = in_thread(lambda: gate.wait(lambda: False, 0.05))
    until(lambda: gate.waiting == 1)
    second = in_thread(lambda: gate.wait(lambda: open_[0], SECONDS))
    until(lambda: gate.waiting == 2)
    first.join(SECONDS)
    open_[0] = True
    gate.release()
    second.join(SECONDS)
    assert not second.is_alive()


def test_a_signal_handler_that_waits_in_line_comes_before_the_thread_it_interrupts() -> None:
    gate, served, tries = Gate(), list[str](), [0]

    def interrupted() -> bool:
        tries[0] += 1
        if tries[0] == 1:  # what a signal handler does that runs here
            assert gate.wait(lambda: served.append("handler") is None, SECONDS)
        served.append("interrupted")
        return True

    assert gate.wait(interrupted, SECONDS)
    assert served == ["handler", "interrupted"]
    assert gate.waiting == 0


def test_whoever_is_hindered_alone_lets_those_behind_go_first_but_not_those_with_the_same_key() -> None:
    gate, full, served = Gate(), [True], list[str]()

    def line_up(name: str, key: str) -> threading.Thread:
        def serve() -> bool:
            if key == "full" and full[0]:
                return False
            served.append(name)
            return True

        before = gate.waiting
        thread = in_thread(lambda: gate.wait(serve, SECONDS, key=key, hindered=lambda: key == "full" and full[0]))
        until(lambda: gate.waiting == before + 1 or name in served)
        return thread

    hindered = [line_up("first", "full"), line_up("second", "full")]
    line_up("other", "healthy").join(SECONDS)
    assert served == ["other"]
    assert [ticket.steps_aside for ticket in gate._line] == [True, False], "the second was not tried"
    full[0] = False
    gate.release()
    for thread in hindered:
        thread.join(SECONDS)
    assert served == ["other", "first", "second"]


def test_whoever_was_hindered_and_now_waits_for_what_all_want_is_first_again() -> None:
    gate, hindered, room, served = Gate(), [True], [False], list[str]()

    def serve(name: str) -> bool:
        if room[0]:
            served.append(name)
        return room[0]

    first = in_thread(lambda: gate.wait(lambda: serve("first"), SECONDS, key=1, hindered=lambda: hindered[0]))
    until(lambda: gate._line and gate._line[0].steps_aside)
    hindered[0] = False
    gate.release()
    until(lambda: not gate._line[0].steps_aside)
    second = in_thread(lambda: gate.wait(lambda: serve("second"), SECONDS, key=2))
    until(lambda: gate.waiting == 2)
    room[0] = True
    gate.release()
    for thread in (first, second):
        thread.join(SECONDS)
    assert served == ["first", "second"]


def test_whoever_waits_for_what_all_want_is_told_of_once_and_counts_until_it_leaves() -> None:
    told, hindered, room, tries = list[bool](), [True], [False], list[None]()
    gate = Gate(starving=lambda: told.append(gate.starved))

    def take() -> bool:
        tries.append(None)
        return room[0]

    thread = in_thread(lambda: gate.wait(take, SECONDS, key=1, hindered=lambda: hindered[0]))
    until(lambda: gate._line and gate._line[0].steps_aside)
    assert not gate.starved, "it waits for its own obstacle to go away"
    assert not gate.wait(lambda: False, 0, key=1), "behind the first, and not tried"
    assert told == []
    hindered[0] = False
    for _ in range(2):
        before = len(tries)
        gate.release()
        until(lambda: len(tries) > before)  # noqa: B023
    until(lambda: told)
    assert gate.starved
    room[0] = True
    gate.release()
    thread.join(SECONDS)
    assert told == [True]
    assert not gate.starved


# -- KeyboardInterrupt at every bytecode


def test_an_interrupted_wait_leaves_the_gate_to_those_behind() -> None:
    gate, room, counts = Gate(lambda n: counts.append(n)), [False], list[int]()

    def take() -> bool:
        return room[0]

    count = 0
    for place in interrupts(lambda: gate.wait(take, 0.001), everywhere=True):
        assert gate.waiting == 0, f"a dead ticket after an interrupt at {place}"
        assert not counts or counts[-1] == 0, f"the count is not told after an interrupt at {place}"
        count += 1
    assert count > 50
    room[0] = True
    assert gate.wait(take, 0)


def test_a_thread_in_line_gets_its_turn_when_the_one_before_it_is_interrupted() -> None:
    for at in range(1, 1000):
        gate, room = Gate(), [False]
        second: list[threading.Thread] = []

        def take(room: list[bool] = room, gate: Gate = gate, second: list[threading.Thread] = second) -> bool:
            with undisturbed():
                if not second:  # the one behind comes while the first looks
                    second.append(in_thread(lambda: gate.wait(lambda: room[0], SECONDS)))
                    until(lambda: gate.waiting == 2)
                    room[0] = True
            return False

        place = interrupted(lambda: gate.wait(take, 0), at, everywhere=True)  # noqa: B023
        for thread in second:
            thread.join(SECONDS / 2)  # before its own time is over
            assert not thread.is_alive(), f"nobody woke it after {place}"
        if place is None:
            return
    pytest.fail("the wait never ended undisturbed")


def test_signals_promises_and_callbacks_survive_an_interrupt_everywhere() -> None:
    hello, callbacks = Signal(), Callbacks()
    for _ in interrupts(lambda: hello.wait(lambda: False, 0.001), everywhere=True):
        in_thread(hello.notify).join(SECONDS)
    assert hello.wait(lambda: True)
    for place in interrupts(lambda: Promise[int]().set_result(1), everywhere=True):
        assert place
    promise: Promise[int] = Promise()
    for _ in interrupts(lambda: promise.set_exception(ValueError("x")), everywhere=True):
        assert not promise.done() or isinstance(promise.exception(0), ValueError)
    for place in interrupts(lambda: callbacks.submit(int)):
        done = threading.Event()
        in_thread(lambda done=done: callbacks.submit(done.set))
        assert done.wait(SECONDS), f"callbacks stand still after an interrupt at {place}"


def test_an_interrupt_while_the_first_thread_for_callbacks_is_started_keeps_none_from_being_started() -> None:
    for at in range(1, 1000):
        callbacks = Callbacks()
        place = interrupted(lambda: callbacks.submit(int), at)  # noqa: B023
        done = threading.Event()
        in_thread(lambda done=done, callbacks=callbacks: callbacks.submit(done.set))
        assert done.wait(SECONDS), f"no callback runs any more after an interrupt at {place}"
        assert callbacks._workers._threads == 1, f"one thread, so that callbacks keep their order; interrupted at {place}"
        if place is None:
            return
    pytest.fail("submit never ended undisturbed")


def test_the_loop_is_woken_by_the_next_thread_after_an_interrupt_anywhere_in_a_wake_up() -> None:
    wakeup = Wakeup()
    try:
        wakeup.asleep = True
        for place in interrupts(wakeup.wake, everywhere=True):
            wakeup.wake()
            assert wakeup._reader.recv(10), f"the loop sleeps on after an interrupt at {place}"
            wakeup.asleep = True
    finally:
        wakeup.close()


@pytest.mark.parametrize("threads", [2, 8])
def test_the_count_of_those_in_line_ends_true_without_a_lock(threads: int) -> None:
    told: list[int] = []
    gate = Gate(told.append)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [in_thread(lambda: [gate.wait(lambda: False, 0) for _ in range(300)]) for _ in range(threads)]
        for worker in workers:
            worker.join(SECONDS)
    finally:
        sys.setswitchinterval(before)
    assert told[-1] == gate.waiting == 0


# -- inbox and wake-up


def test_the_inbox_runs_what_was_there_and_leaves_what_is_added_meanwhile() -> None:
    inbox, ran = Inbox(), []
    inbox.post(lambda now: (ran.append(now), inbox.post(lambda now: ran.append(-now))))
    inbox.run(1.0)
    assert ran == [1.0]
    assert inbox
    inbox.run(2.0)
    assert ran == [1.0, -2.0]


def test_however_many_wake_the_loop_it_costs_one_byte_a_sleep() -> None:
    wakeup = Wakeup()
    try:
        wakeup.wake()
        with pytest.raises(BlockingIOError):
            wakeup._reader.recv(10)
        assert wakeup.news
        wakeup.asleep = True
        for _ in range(1000):
            wakeup.wake()
        assert wakeup._reader.recv(10) == b"\0"
    finally:
        wakeup.close()
    wakeup.asleep = True
    wakeup.wake()  # nobody sleeps there any more


# -- callbacks and helpers


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
        child.setattr(handoff, "_process", handoff._process + 1)
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
    assert "callback_executor takes no more callbacks" in caplog.text


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
    assert "callback_executor takes no more callbacks" in caplog.text


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
    monkeypatch.setattr(handoff, "IDLE_SECONDS", 0.01)
    callbacks, threads = Callbacks(), list[threading.Thread]()
    for number in range(3):
        callbacks.submit(lambda: threads.append(threading.current_thread()))
        until(lambda number=number: len(threads) == number + 1)
        threads[-1].join(SECONDS)
        assert not threads[-1].is_alive()
    assert len(set(threads)) == 3


def test_a_hanging_callback_does_not_keep_the_interpreter_from_exiting() -> None:
    code = "import threading; from pykafka4.net.handoff import Callbacks, Helper\n"
    code += "Callbacks().submit(threading.Event().wait); Helper().submit(threading.Event().wait, print); print('exit')"
    assert python(code, timeout=30).stdout == "exit\n"


def test_helpers_work_side_by_side_and_hand_back_exceptions() -> None:
    helper, barrier, results = Helper(), threading.Barrier(handoff.HELPERS), list[Any]()

    def work(number: int) -> int:
        barrier.wait(SECONDS)
        if number == 0:
            raise ValueError("no such name")
        return number

    for number in range(handoff.HELPERS):
        helper.submit(lambda number=number: work(number), results.append)
    until(lambda: len(results) == handoff.HELPERS)
    assert sorted(r for r in results if isinstance(r, int)) == list(range(1, handoff.HELPERS))
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


def test_a_slow_listener_gets_the_latest_picture_only() -> None:
    it, held, heard = feed()
    for version in range(1000):
        it.latest("metadata", version)
    assert len(held.queue) == 1
    held.run()
    assert heard == [999]


def test_a_slow_listener_ends_up_knowing_who_is_offline() -> None:
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


def test_only_the_first_in_line_is_tried() -> None:
    gate, first_may = Gate(), [False]
    tried: list[str] = []
    one = in_thread(lambda: gate.wait(lambda: first_may[0], SECONDS))
    until(lambda: gate.waiting == 1)
    two = in_thread(lambda: gate.wait(lambda: bool(tried.append("second")) or True, SECONDS))
    until(lambda: gate.waiting == 2)
    for _ in range(3):
        gate.release()
    assert (gate.waiting, tried) == (2, [])
    first_may[0] = True
    gate.release()
    one.join(SECONDS)
    two.join(SECONDS)
    assert (gate.waiting, tried) == (0, ["second"])


def test_a_burst_of_blocking_work_gets_a_thread_for_each_although_one_is_idle() -> None:
    helper, both = Helper(most=2), threading.Barrier(2)
    idle = threading.Event()
    helper.submit(lambda: None, lambda _: idle.set())
    assert idle.wait(SECONDS)
    until(lambda: helper._workers._idle == 1)
    results: list[object] = []
    for _ in range(2):
        helper.submit(lambda: both.wait(SECONDS), results.append)
    until(lambda: len(results) == 2)
    assert sorted(map(str, results)) == ["0", "1"], "each waits for the other"
