"""Work: order per key, retries, dead letters, the end of partitions, and errors."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from integration.waiting import until
from pykafka4.consumer.dead_letters import DeadLetters
from pykafka4.consumer.processing.plan import Retries
from pykafka4.consumer.processing.work import HandlerWork, Processed
from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.consumer.processing.working import first, record, work
from tests.net.interrupts import interrupted

T0 = TopicPartition("t", 0)


class Flaky:
    """Fails for a record as often as it was told."""

    def __init__(self, **fails: int) -> None:
        self.left = {int(at.strip("_")): times for at, times in fails.items()}
        self.handled: list[int] = []

    def __call__(self, one: Record) -> None:
        if self.left.get(one.offset, 0):
            self.left[one.offset] -= 1
            raise RuntimeError(f"cannot handle {one.offset}")
        self.handled.append(one.offset)


def test_records_of_a_key_are_handled_in_order_and_others_in_any() -> None:
    handled: list[int] = []
    todo, executor = work(lambda one: handled.append(one.offset))
    todo.add([record(0, b"a"), record(1, b"a"), record(2, b"b"), record(3), record(4)])
    assert len(executor.waiting) == 4  # the second of a waits for the first
    executor.run()
    executor.run()
    assert handled == [0, 2]
    executor.run_all()
    assert handled.index(0) < handled.index(1)
    assert sorted(handled) == list(range(5))
    assert first(todo) == {}
    assert todo.processed == Processed(5, 0, 0)


def test_records_of_a_partition_are_handled_in_order() -> None:
    handled: list[tuple[int, int]] = []
    todo, executor = work(lambda one: handled.append((one.partition, one.offset)), "partition")
    todo.add([record(0, b"a"), record(1, b"b"), record(7, None, 1), record(2)])
    assert len(executor.waiting) == 2
    executor.run_all()
    assert [at for p, at in handled if p == 0] == [0, 1, 2]


def test_partitions_take_turns() -> None:
    handled: list[tuple[int, int]] = []
    todo, executor = work(lambda one: handled.append((one.partition, one.offset)))
    todo.add([record(n, None, 2) for n in range(4)])
    executor.run()
    todo.add([record(n, None, 0) for n in range(2)] + [record(n, b"one key", 1) for n in range(2)])
    executor.run_all()
    assert handled == [(2, 0), (2, 1), (0, 0), (1, 0), (2, 2), (0, 1), (1, 1), (2, 3)]


def test_a_callable_says_what_is_handled_in_order() -> None:
    handled: list[int] = []
    todo, executor = work(lambda one: handled.append(one.offset), lambda one: one.offset % 2)
    todo.add([record(n) for n in range(6)])
    assert len(executor.waiting) == 2
    executor.run_all()
    assert [n for n in handled if n % 2] == [1, 3, 5]


def test_a_record_is_tried_again_and_only_its_key_waits() -> None:
    flaky = Flaky(_0=2)
    todo, executor = work(flaky, retries=2)
    todo.add([record(0, b"a"), record(1, b"a"), record(2, b"b")])
    executor.run_all()
    assert flaky.handled == [2]
    assert first(todo) == {0: 0}
    now = system.monotonic()
    todo.start_due(now)
    assert not executor.waiting  # not due yet
    todo.start_due(now + 2)
    executor.run_all()
    assert flaky.handled == [2]
    todo.start_due(now + 2)
    assert not executor.waiting  # the second wait is longer
    todo.start_due(now + 4)
    executor.run_all()
    assert flaky.handled == [2, 0, 1]
    assert first(todo) == {}
    assert (todo.error, todo.processed) == (None, Processed(3, 0, 2))


def test_the_wait_doubles_up_to_half_a_minute() -> None:
    retries = Retries(10, 0.5)
    assert [retries.wait(n) for n in (1, 2, 3, 7, 100, 10_000)] == [0.5, 1.0, 2.0, 30.0, 30.0, 30.0]
    assert Retries(1, 45.0).wait(3) == 45.0


def test_without_dead_letters_an_error_ends_the_work() -> None:
    flaky = Flaky(_1=9)
    todo, executor = work(flaky, retries=0)
    todo.add([record(n, b"%d" % n) for n in range(4)])
    executor.run_all()
    assert flaky.handled == [0]
    assert isinstance(todo.error, RuntimeError)
    assert todo.error.__notes__ == ["raised for t-0 at offset 1, attempt 1; that record is not finished"]
    assert first(todo) == {0: 1}
    assert todo.stop(0)


def test_an_exit_ends_the_work_without_another_attempt() -> None:
    def leave(one: Record) -> None:
        raise SystemExit(3)

    todo, executor = work(leave, retries=5)
    todo.add([record(0)])
    executor.run_all()
    assert isinstance(todo.error, SystemExit)
    assert todo.stop(0)


class Letters:
    """A producer that keeps what it is given."""

    def __init__(self, outcome: Any = None) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self._outcome = outcome

    def send(self, topic: str, value: Any = None, *, key: Any = None, headers: Sequence[Any] | None = None) -> Any:
        if self._outcome is not None and not hasattr(self._outcome, "add_done_callback"):
            raise self._outcome
        self.sent.append((topic, value, key, list(headers or ())))
        return self._outcome or Settled()


class Settled:
    """A delivery with its outcome."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._error

    def add_done_callback(self, fn: Any) -> None:
        fn(self)


def test_a_record_that_failed_for_good_becomes_a_dead_letter_with_its_cause() -> None:
    letters, flaky = Letters(), Flaky(_0=9)
    todo, executor = work(flaky, retries=1, dead=DeadLetters("dead", letters, "g"))  # type: ignore[arg-type]
    todo.add([Record("t", 0, 0, 77, key=b"k", value=b"v", headers=(("h", b"1"),)), record(1, b"k")])
    executor.run_all()
    todo.start_due(system.monotonic() + 9)
    executor.run_all()
    ((topic, value, key, headers),) = letters.sent
    assert (topic, value, key, headers[0]) == ("dead", b"v", b"k", ("h", b"1"))
    assert dict(headers[1:]) == {
        "dead_letter.topic": "t",
        "dead_letter.partition": "0",
        "dead_letter.offset": "0",
        "dead_letter.timestamp_ms": "77",
        "dead_letter.group": "g",
        "dead_letter.attempts": "2",
        "dead_letter.exception": "builtins.RuntimeError",
        "dead_letter.message": "cannot handle 0",
    }
    assert flaky.handled == [1]
    assert first(todo) == {}
    assert (todo.error, todo.processed) == (None, Processed(2, 1, 1))


@pytest.mark.parametrize("outcome", [KafkaError("closed"), Settled(KafkaError("closed"))])
def test_a_dead_letter_that_is_not_delivered_ends_the_work_and_the_record_is_not_finished(outcome: Any) -> None:
    todo, executor = work(Flaky(_0=9), dead=DeadLetters("dead", Letters(outcome), None))  # type: ignore[arg-type]
    todo.add([record(0)])
    executor.run_all()
    assert "t-0 at offset 0: its handling failed (RuntimeError('cannot handle 0')), and so did its dead letter: closed" in str(todo.error)
    assert isinstance(todo.error and todo.error.__cause__, RuntimeError)
    assert first(todo) == {0: 0}
    assert todo.stop(0)


def test_the_text_of_an_exception_that_cannot_be_read_is_no_obstacle() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    letters = Letters()
    DeadLetters("dead", letters, None).send(record(0), 1, Odd())  # type: ignore[arg-type]
    assert dict(letters.sent[0][3])["dead_letter.message"] == "(its text cannot be read)"


def test_the_end_of_a_partition_waits_for_what_is_in_hand_and_starts_nothing_more() -> None:
    entered, leave = threading.Event(), threading.Event()
    handled: list[int] = []

    def handle(one: Record) -> None:
        entered.set()
        assert leave.wait(30)
        handled.append(one.offset)

    todo, executor = work(handle, "partition")
    todo.add([record(0), record(1), record(5, None, 1)])
    running = threading.Thread(target=executor.run)
    running.start()
    assert entered.wait(30)
    todo.end([T0], 0.0)  # the time is over
    assert first(todo) == {0: 0, 1: 5}
    todo.drop([T0])
    assert (first(todo), todo.held) == ({1: 5}, 1)
    leave.set()
    running.join(30)
    executor.run_all()
    assert handled == [0, 5]
    assert (first(todo), todo.held) == ({}, 0)


def test_a_handler_that_ends_its_partition_goes_on_when_the_other_handlers_have_returned() -> None:
    """A handler that closes the consumer calls `end`, while a handler of another key runs."""
    begun, waited = threading.Event(), list[bool]()

    def handle(one: Record) -> None:
        if one.offset == 0:
            assert begun.wait(30)
            waited.append(todo.end([T0], 30.0))
        else:
            begun.set()
            until(lambda: todo._ends.waiting, 30, "the wait of the other handler")

    todo, executor = work(handle)
    todo.add([record(0, b"a"), record(1, b"b")])
    threads = [threading.Thread(target=fn, args=args) for fn, args in executor.waiting]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (waited, time.monotonic() - began < 15) == ([True], True)


def test_what_is_taken_is_told_before_the_first_handler_starts() -> None:
    told: list[int] = []
    todo, executor = work(lambda one: None)
    todo.add([record(0), record(1)], lambda: told.append(len(executor.waiting)))
    assert (told, len(executor.waiting)) == ([0], 2)


def test_after_a_log_lost_its_end_the_records_before_it_are_handled_and_those_behind_it_are_not() -> None:
    handled: list[bytes | None] = []
    todo, executor = work(lambda one: handled.append(one.key), "partition")
    todo.add([record(n, b"%d" % n) for n in range(4)])
    todo.add([record(2, b"new 2"), record(3, b"new 3")])
    assert (todo.held, first(todo)) == (4, {0: 0})
    executor.run_all()
    assert handled == [b"0", b"1", b"new 2", b"new 3"]
    assert (todo.held, first(todo)) == (0, {})


def test_a_partition_that_comes_back_is_counted_anew() -> None:
    handled: list[int] = []
    todo, executor = work(lambda one: handled.append(one.offset), "partition")
    todo.add([record(0), record(1)])
    todo.drop([T0])
    todo.add([record(0), record(1)])
    executor.run_all()
    assert handled == [0, 1]
    assert first(todo) == {}


def test_a_record_is_finished_when_what_its_handler_sent_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks: list[Any] = []

    class Pending(Settled):
        def add_done_callback(self, fn: Any) -> None:
            callbacks.append(lambda: fn(self))

    monkeypatch.setattr("pykafka4.consumer.processing.work.Delivery", Pending)
    outcomes = {0: Pending(), 1: [Pending(), Pending()], 2: Pending(KafkaError("lost"))}
    todo, executor = work(lambda one: outcomes[one.offset])
    todo.add([record(0), record(1), record(2)])
    executor.run_all()
    assert todo.processed.finished == 0
    callbacks.pop(0)()
    assert first(todo) == {0: 1}
    callbacks.pop(0)()
    assert first(todo) == {0: 1}
    callbacks.pop(0)()
    assert first(todo) == {0: 2}
    callbacks.pop(0)()
    assert "lost" in str(todo.error)
    assert first(todo) == {0: 2}


@pytest.mark.parametrize("several", [None, list, tuple])
def test_a_handler_that_returns_an_awaitable_is_an_error(several: Callable[[Any], Any] | None) -> None:
    """Also in a list: what a handler for asyncio was to send, and did not await, is never sent."""

    async def coroutine() -> None: ...

    def handle(one: Record) -> Any:
        return coroutine() if several is None else several([None, coroutine(), coroutine()])

    todo, executor = work(handle)
    todo.add([record(0)])
    executor.run_all()
    assert isinstance(todo.error, TypeError)
    assert "awaitable" in str(todo.error)
    assert todo.processed.finished == 0


def test_an_executor_that_cancels_handlers_ends_the_work() -> None:
    """`shutdown(cancel_futures=True)`: nothing more would happen, and nobody be told."""
    todo, executor = work(lambda one: None)
    todo.add([record(0, b"a"), record(1, b"b")])
    executor.run()
    executor.shutdown(cancel_futures=True)
    assert isinstance(todo.error, KafkaError)
    assert "the executor was shut down" in str(todo.error)
    todo, executor = work(lambda one: None)
    todo.add([record(0)])
    todo.refuse()
    executor.shutdown(cancel_futures=True)
    assert todo.error is None, "it had ended"


def test_a_handler_that_returns_a_generator_is_an_error_and_no_other_attempt_is_made() -> None:
    async def numbers() -> Any:
        yield 1

    for made in ((n for n in range(3)), numbers()):
        letters = Letters()
        todo, executor = work(lambda one: made, retries=2, dead=DeadLetters("dead", letters, None))  # type: ignore[arg-type]  # noqa: B023
        todo.add([record(0), record(1, b"k")])
        executor.run_all()
        assert isinstance(todo.error, TypeError)
        assert "without yield" in str(todo.error)
        assert todo.error.__notes__ == ["raised for t-0 at offset 0, attempt 1; that record is not finished"]
        assert (letters.sent, todo.processed.finished, todo.stop(0)) == ([], 0, True)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Nothing can be added to it."""


class Unreadable(Exception):
    def __repr__(self) -> str:
        raise ValueError

    __str__ = __repr__


def failing(error: BaseException) -> Any:
    def handle(one: Record) -> None:
        raise error

    return handle


def test_an_exception_that_cannot_be_changed_ends_the_work() -> None:
    todo, executor = work(failing(error := Frozen()))
    todo.add([record(0)])
    executor.run_all()
    assert todo.error is error
    assert todo.stop(0)


@pytest.mark.parametrize(
    ("send", "text"),
    [
        (failing(Unreadable()), "failed (Unreadable), and so did its dead letter: Unreadable"),
        (lambda *_, **__: None, "its dead letter: producer.send must return a Delivery, not None"),
    ],
)
def test_whatever_a_producer_of_dead_letters_does_wrong_ends_the_work(send: Any, text: str) -> None:
    letters = Letters()
    letters.send = send if send.__name__ == "<lambda>" else lambda *_, **__: send(None)  # type: ignore[method-assign]
    todo, executor = work(failing(Unreadable()), dead=DeadLetters("dead", letters, None))  # type: ignore[arg-type]
    todo.add([record(0)])
    executor.run_all()
    assert text in str(todo.error)
    assert todo.stop(0)


def test_a_producer_of_dead_letters_that_exits_ends_the_work() -> None:
    todo, executor = work(Flaky(_0=9), dead=DeadLetters("dead", Letters(SystemExit(3)), None))  # type: ignore[arg-type]
    todo.add([record(0)])
    executor.run_all()
    assert isinstance(todo.error, SystemExit)
    assert todo.stop(0)


def test_nothing_that_goes_wrong_on_a_worker_is_lost_in_its_future(monkeypatch: pytest.MonkeyPatch) -> None:
    todo, executor = work(lambda one: None)
    monkeypatch.setattr(todo, "_next", failing(MemoryError()))
    todo.add([record(0)])
    executor.run_all()
    assert isinstance(todo.error, MemoryError)


def test_ctrl_c_at_any_place_leaves_the_lock_free() -> None:
    """Workers would wait for it for ever, and the exit of the interpreter for them."""

    def use(todo: HandlerWork) -> None:
        todo.add([record(5, None, 1)])
        todo.watch({T0: 1})
        todo.unfinished()
        todo.start_due(system.monotonic())
        todo.end([T0], 0.0)
        todo.drop([T0])
        todo.stop(0.0)

    for at in range(1, 5_000):
        todo, executor = work(lambda one: None)
        todo.add([record(0), record(1)])
        executor.run()
        place = interrupted(lambda: use(todo), at)  # noqa: B023
        free: list[bool] = []
        looks = threading.Thread(target=lambda: free.append(todo._lock.acquire(blocking=False)))  # noqa: B023
        looks.start()
        looks.join()
        assert free == [True], place
        if place is None:
            assert at > 20
            return
    pytest.fail("the calls have no end")


def test_what_is_held_is_counted() -> None:
    """Whatever happens: records are added and finished in any order, partitions end, and the consumer goes back."""
    for seed in range(40):
        drawn = random.Random(seed)

        def handle(one: Record) -> None:
            if drawn.random() < 0.05:  # noqa: B023
                todo.drop([TopicPartition("t", one.partition)])  # noqa: B023

        todo, executor = work(handle)
        following = dict.fromkeys(range(3), 0)
        for _ in range(200):
            partition, act = drawn.randrange(3), drawn.random()
            if act < 0.4:
                first = following[partition]
                following[partition] += drawn.randint(1, 4)
                todo.add([record(n, None, partition) for n in range(first, following[partition])])
            elif act < 0.9 and executor.waiting:
                executor.run(drawn.randrange(len(executor.waiting)))
            elif act < 0.95:
                todo.end([TopicPartition("t", partition)], 0.0)
                todo.drop([TopicPartition("t", partition)])
            else:
                following[partition] = max(0, following[partition] - 3)
            assert todo.held == sum(progress.window for progress in todo.partitions.values())


def test_an_executor_that_is_shut_down_ends_the_work() -> None:
    todo, executor = work(lambda one: None)

    def refuse(*_: Any) -> Any:
        raise RuntimeError("cannot schedule new futures after shutdown")

    executor.submit = refuse  # type: ignore[method-assign]
    todo.add([record(0)])
    assert "after shutdown" in str(todo.error)


def test_ten_thousand_keys_leave_nothing_behind() -> None:
    todo, executor = work(lambda one: None)
    todo.add([record(n, b"%d" % n) for n in range(10_000)])
    executor.run_all()
    assert not todo._ordered
    assert todo.partitions[T0].window == 0


def test_a_watched_partition_wakes_the_thread_that_polls_once() -> None:
    woken: list[None] = []
    todo, executor = work(lambda one: None, "partition")
    todo._wake = lambda: woken.append(None)
    todo.add([record(n) for n in range(5)])
    todo.watch({T0: 2})
    executor.run()
    executor.run()
    assert not woken
    executor.run_all()
    assert len(woken) == 1
    todo.watch({T0: 2})
    assert len(woken) == 2, "it is free already"
