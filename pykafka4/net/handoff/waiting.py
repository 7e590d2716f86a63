"""How threads wait: `Signal` (for a change), `Promise` (for a result), `Gate` (in line, for room). Rule: a thread that waits holds no lock.

Waiting is done in `threading` primitives only: they let KeyboardInterrupt through, and all of them take a deadline.

KeyboardInterrupt can be raised between any two bytecodes of an application thread. So what those threads run here holds no lock: lists
of waiting threads are dicts and deques whose single operations are atomic. Entries are made inside the `try` that removes them. An entry
whose loss would block other threads is removed twice, by nested `finally` blocks, since the interrupt may end the inner one.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.net import system

__all__ = ["Gate", "Promise", "Signal"]

log = get_log("pykafka4.handoff")
T = TypeVar("T")
FOREVER = system.TIMEOUT_MAX


def _left(deadline: float | None) -> float:
    """Seconds until `deadline`, for a lock; never more than it can take, never less than 0."""
    return FOREVER if deadline is None else max(0.0, min(deadline - system.monotonic(), FOREVER))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else system.monotonic() + timeout


def _latch() -> system.Lock:
    """A lock that one thread sleeps on: taken now, released by whoever wakes the thread."""
    latch = system.Lock()
    latch.acquire()
    return latch


def _open(latch: system.Lock) -> None:
    """Wake the thread that sleeps on `latch`, or will sleep there next."""
    if latch.locked():
        with contextlib.suppress(RuntimeError):  # somebody else was faster
            latch.release()


class Signal:
    """Something changed: look again. `notify` costs one attribute read while nobody waits."""

    __slots__ = ("_sleepers",)

    def __init__(self) -> None:
        self._sleepers: dict[system.Lock, None] = {}

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return len(self._sleepers)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate()` is true, up to `timeout` seconds; returns what it said last."""
        if predicate():
            return True
        latch, deadline = _latch(), _deadline(timeout)
        try:
            self._sleepers[latch] = None  # before looking: a `notify` from here on finds us, one before left its trace for the predicate
            while not predicate():
                if not latch.acquire(True, _left(deadline)):
                    return predicate()
            return True
        finally:
            self._sleepers.pop(latch, None)

    def notify(self) -> None:
        """Have everyone who waits look again. Call it after the change."""
        if self._sleepers:
            for latch in list(self._sleepers):
                _open(latch)


class Promise(Generic[T]):
    """A result that comes later. The first `set_result` or `set_exception` counts."""

    __slots__ = ("__weakref__", "_callbacks", "_outcome", "_signal")

    def __init__(self) -> None:
        self._outcome: dict[str, tuple[T | None, BaseException | None]] = {}  # empty, or one item
        self._signal = Signal()
        self._callbacks: deque[Callable[[Promise[T]], None]] = deque()

    def done(self) -> bool:
        """Whether the result is in."""
        return bool(self._outcome)

    def set_result(self, value: T) -> None:
        """It is done."""
        self._finish((value, None))

    def set_exception(self, error: BaseException) -> None:
        """It failed."""
        self._finish((None, error))

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds; raises what `set_exception` was given (a KafkaError as a copy), or KafkaTimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error.again() if isinstance(error, KafkaError) else error
        return self._outcome[""][0]  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does; what went wrong, None if nothing did."""
        if not self._signal.wait(self.done, timeout):
            raise KafkaTimeoutError(f"no result within {timeout:g} s")
        return self._outcome[""][1]

    def add_done_callback(self, fn: Callable[[Promise[T]], None]) -> None:
        """Call `fn(self)` when it is done (at once if it is), on the thread that finishes it."""
        self._callbacks.append(fn)
        if self._outcome:  # the thread that finished it may have looked before the line above
            self._call_back()

    def _finish(self, outcome: tuple[T | None, BaseException | None]) -> None:
        if self._outcome.setdefault("", outcome) is outcome:  # one step under the interpreter's lock: the first one counts
            self._signal.notify()
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                fn = self._callbacks.popleft()  # each is taken by one thread only
            except IndexError:
                return
            try:
                fn(self)
            except Exception:  # it is not the fault of whoever brought the result
                log.exception("a callback of a promise raised")


class _Ticket:
    """A thread's place in the line of a `Gate`."""

    __slots__ = ("key", "latch", "starves", "steps_aside", "thread")

    def __init__(self, key: object) -> None:
        self.key, self.latch, self.thread = key, _latch(), system.get_ident()
        self.steps_aside = False  # whether what it waits for is of no use to those behind it
        self.starves = False  # whether it has tried in vain and does not step aside


class Gate:
    """First come, first served: threads that wait for room.

    Only the first in line tries, so a small request cannot starve a large one. A thread whose own obstacle keeps it from using the room
    that there is (its partition is full) steps aside: those behind it try, except those with the same key, which wait for the same.
    A thread that is in line already comes again from a signal handler or a destructor, and goes in at the front: its other places cannot
    move before that call returns.
    `counted(n)` is told how many stand in line whenever that changes, `starving()` when one of them finds no room for anybody.
    `lock` is not used here: it is for those whose data structures need one where there is no compiled core.
    """

    __slots__ = ("_counted", "_line", "_starving", "lock")

    def __init__(self, counted: Callable[[int], object] = lambda n: None, starving: Callable[[], object] = lambda: None) -> None:
        self.lock = system.RLock()
        self._counted, self._starving = counted, starving
        self._line: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in line; a newcomer lines up when this is not 0."""
        return len(self._line)

    @property
    def starved(self) -> bool:
        """Whether somebody waits for the room that all share: not for its own obstacle to go away, and not only just come."""
        return any(ticket.starves for ticket in self._line.copy())

    def wait(
        self,
        try_again: Callable[[], bool],
        timeout: float | None = None,
        key: object = None,
        hindered: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Stand in line until `try_again()` succeeds, up to `timeout` seconds; returns whether it did.

        `hindered()` says whether an obstacle of this `key` alone is in the way, so that those behind, with other keys, may go first.
        """
        ticket, deadline = _Ticket(key), _deadline(timeout)
        try:
            try:
                (self._line.appendleft if self._interrupts(ticket.thread) else self._line.append)(ticket)
                self._count()
                return self._queue(ticket, try_again, hindered, deadline)
            finally:
                self._leave(ticket)
        finally:  # a ticket that stayed first in line would keep everybody behind it waiting
            self._leave(ticket)

    def _queue(self, ticket: _Ticket, try_again: Callable[[], bool], hindered: Callable[[], bool], deadline: float | None) -> bool:
        while True:
            if ticket in self._first():
                if try_again():
                    return True
                stepped_aside, ticket.steps_aside = ticket.steps_aside, hindered()
                if ticket.steps_aside and not stepped_aside:
                    self.release()  # for those behind
                starved, ticket.starves = ticket.starves, not ticket.steps_aside
                if ticket.starves and not starved:
                    self._starving()
            if not ticket.latch.acquire(True, _left(deadline)):  # each release opens it, from before the look at the line
                return False

    def _interrupts(self, thread: int) -> bool:
        """Whether `thread` is in line already, in a call that the present one interrupts."""
        return any(ticket.thread == thread for ticket in self._line.copy())

    def _first(self) -> list[_Ticket]:
        """Whose turn it is: the first of those that do not step aside, and before it the first of each key that does."""
        first: list[_Ticket] = []
        aside: set[object] = set()
        for ticket in self._line.copy():
            if ticket.key not in aside:
                first.append(ticket)
                if not ticket.steps_aside:
                    break
                aside.add(ticket.key)
        return first

    def _leave(self, ticket: _Ticket) -> None:
        with contextlib.suppress(ValueError):
            self._line.remove(ticket)
        self._count()
        self.release()  # the next may fit into what is left

    def _count(self) -> None:
        """Tell the length of the line. Whoever tells an old one looks again, so the last word is true although there is no lock."""
        told = -1
        while told != len(self._line):
            told = len(self._line)
            self._counted(told)

    def release(self) -> None:
        """Room was made: whose turn it is tries again."""
        if self._line:
            for ticket in self._first():
                _open(ticket.latch)
