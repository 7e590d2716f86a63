"""Signals, promises and the gate: no notification is lost, every wait has a deadline, and Ctrl-C ends it anywhere."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from pykafka4.errors import KafkaTimeoutError
from pykafka4.net import logs
from pykafka4.net.handoff.latch import new_latch
from pykafka4.net.handoff.waiting import Gate, Promise, Signal
from pykafka4.net.handoff.workers import Callbacks
from tests.net.interrupts import interrupted, interrupts, undisturbed
from tests.net.net_helpers import SECONDS, in_thread, until

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


def test_the_thread_of_a_loop_never_waits() -> None:
    raised: list[BaseException] = []

    def on_a_loop() -> None:
        logs.current().enter()
        try:
            assert Signal().wait(lambda: True)
            assert not Signal().wait(lambda: False, 0)
            for wait in (lambda: Signal().wait(lambda: False, 10 * SECONDS), lambda: Promise[int]().result()):
                with pytest.raises(KafkaTimeoutError, match="destructor") as caught:
                    wait()
                raised.append(caught.value)
        finally:
            logs.current().leave()

    thread = threading.Thread(target=on_a_loop, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert len(raised) == 2


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


def test_a_waiter_that_gives_up_does_not_block_those_behind_it() -> None:
    gate, open_ = Gate(), [False]
    first = in_thread(lambda: gate.wait(lambda: False, SECONDS / 10))  # long enough for both to be seen in line
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


def test_a_blocked_waiter_lets_later_ones_pass_but_not_those_with_the_same_key() -> None:
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
    assert [ticket.steps_aside for ticket in gate.tickets] == [True, False], "the second was not tried"
    full[0] = False
    gate.release()
    for thread in hindered:
        thread.join(SECONDS)
    assert served == ["other", "first", "second"]


def test_a_waiter_is_not_woken_while_only_its_own_key_is_blocked() -> None:
    gate, full, tries = Gate(), [True], list[bool]()

    def take() -> bool:
        tries.append(not full[0])
        return tries[-1]

    thread = in_thread(lambda: gate.wait(take, SECONDS, key=1, hindered=lambda: full[0]))
    until(lambda: gate.tickets and gate.tickets[0].steps_aside)
    for _ in range(100):
        gate.release()
        assert gate.wait(lambda: True, SECONDS, key=2)  # it leaves the queue, which is a release too
        assert gate.tickets[0].latch.locked(), "it is woken"
    full[0] = False
    gate.release()
    thread.join(SECONDS)
    assert tries == [False, True]


def test_a_newcomer_queues_up_unless_all_waiters_step_aside_and_have_other_keys() -> None:
    told, hindered = list[tuple[int, frozenset[object] | None]](), {1: True, 2: False}
    gate = Gate(lambda waiting, aside: told.append((waiting, aside)))
    assert (gate.waiting, gate.aside) == (0, frozenset())

    def line_up(key: int) -> threading.Thread:
        before = gate.waiting
        thread = in_thread(lambda: gate.wait(lambda: hindered[key] is None, SECONDS, key=key, hindered=lambda: hindered[key] is True))
        until(lambda: gate.waiting == before + 1)
        return thread

    threads = [line_up(1)]
    until(lambda: told[-1] == (1, frozenset({1})))
    threads.append(line_up(1))  # behind a thread that has stepped aside with the same key
    until(lambda: told[-1] == (2, frozenset({1})))
    threads.append(line_up(2))  # for what all share
    until(lambda: gate.starved)
    assert told[-1] == (3, None)
    hindered[2] = True
    gate.release()
    until(lambda: told[-1] == (3, frozenset({1, 2})))
    hindered[1] = False
    gate.release()
    until(lambda: told[-1] == (3, None))
    hindered.update({1: None, 2: None})
    gate.release()
    for thread in threads:
        thread.join(SECONDS)
    assert told[-1] == (0, frozenset())


def test_a_waiter_for_the_shared_resource_steps_aside_when_its_key_is_blocked_later() -> None:
    gate, hindered, done = Gate(), [False], [False]
    first = in_thread(lambda: gate.wait(lambda: done[0], SECONDS, key=1, hindered=lambda: hindered[0]))
    until(lambda: gate.starved)
    second = in_thread(lambda: gate.wait(lambda: hindered[0], SECONDS, key=2))
    until(lambda: gate.waiting == 2)
    hindered[0] = True
    gate.release()
    second.join(SECONDS / 2)  # before its own time is over
    assert not second.is_alive(), "the first still blocks it"
    hindered[0], done[0] = False, True
    gate.release()
    first.join(SECONDS)
    assert not first.is_alive()


def test_a_waiter_that_was_blocked_and_now_waits_for_the_shared_resource_is_first_again() -> None:
    gate, hindered, room, served = Gate(), [True], [False], list[str]()

    def serve(name: str) -> bool:
        if room[0]:
            served.append(name)
        return room[0]

    first = in_thread(lambda: gate.wait(lambda: serve("first"), SECONDS, key=1, hindered=lambda: hindered[0]))
    until(lambda: gate.tickets and gate.tickets[0].steps_aside)
    hindered[0] = False
    gate.release()
    until(lambda: not gate.tickets[0].steps_aside)
    second = in_thread(lambda: gate.wait(lambda: serve("second"), SECONDS, key=2))
    until(lambda: gate.waiting == 2)
    room[0] = True
    gate.release()
    for thread in (first, second):
        thread.join(SECONDS)
    assert served == ["first", "second"]


def test_a_waiter_for_the_shared_resource_is_reported_once_and_counts_until_it_leaves() -> None:
    told, hindered, room, tries = list[bool](), [True], [False], list[None]()
    gate = Gate(starving=lambda: told.append(gate.starved))

    def take() -> bool:
        tries.append(None)
        return room[0]

    thread = in_thread(lambda: gate.wait(take, SECONDS, key=1, hindered=lambda: hindered[0]))
    until(lambda: gate.tickets and gate.tickets[0].steps_aside)
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
    gate, room, counts = Gate(lambda n, aside: counts.append(n)), [False], list[int]()

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


@pytest.mark.parametrize("threads", [2, 8])
def test_the_count_of_those_in_line_ends_true_without_a_lock(threads: int) -> None:
    told: list[int] = []
    gate = Gate(lambda n, aside: told.append(n))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [in_thread(lambda: [gate.wait(lambda: False, 0) for _ in range(300)]) for _ in range(threads)]
        for worker in workers:
            worker.join(SECONDS)
    finally:
        sys.setswitchinterval(before)
    assert told[-1] == gate.waiting == 0


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


def test_thousands_of_tasks_whose_event_loop_was_closed_let_the_next_one_try_at_once() -> None:
    gate, over = Gate(), [False]
    with contextlib.ExitStack() as tickets:
        for _ in range(5_000):
            tickets.enter_context(gate.queued(new_latch(), "t", lambda: False, lambda: over[0]))
        over[0] = True
        gate.release()
        assert gate.waiting == 0
        assert gate.wait(lambda: True, 0)
