"""Makes threads wait for a change (`Signal`), for a result (`Promise`), or in a queue for room (`Gate`). Invariant: a waiting thread holds
no lock.

Threads sleep on latches only, because KeyboardInterrupt can end such a sleep, and each sleep can have a timeout. A loop thread must not
wait for a `Signal` or a `Promise`: it may run destructors of the application, which may call any client, and the result of such a call may
need this very loop.

KeyboardInterrupt can be raised between any two bytecodes of an application thread. So such a thread holds no lock here: dicts and deques,
whose single operations are atomic, list the waiting threads. An entry is added inside the `try` that removes it. An entry that would block
other threads for good is removed twice, by nested `finally` blocks, because the interrupt may end the inner one.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.net import logs, system
from pykafka4.net.handoff.latch import Latch, new_latch, open_latch

__all__ = ["Gate", "Promise", "Signal"]

log = get_log("pykafka4.handoff")
T = TypeVar("T")
Counted = Callable[[int, frozenset[object] | None], object]
FOREVER = system.TIMEOUT_MAX
ON_LOOP = "a destructor called this on the thread of a client, which must not wait: make such calls before the object is garbage"
NO_THREAD = -1  # in the tickets of tasks: many tasks share one thread, and no task interrupts another


def _left(deadline: float | None) -> float:
    """Return the seconds until `deadline`, as a timeout that a lock accepts."""
    return FOREVER if deadline is None else max(0.0, min(deadline - system.monotonic(), FOREVER))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else system.monotonic() + timeout


class Signal:
    """Wakes threads that wait for a change. `notify` costs one attribute read while no thread waits."""

    __slots__ = ("_sleepers",)

    def __init__(self) -> None:
        self._sleepers: dict[Latch, None] = {}

    @property
    def waiting(self) -> int:
        return len(self._sleepers)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate()` is true, up to `timeout` seconds (None: no limit). Returns the last value of `predicate()`.

        Raises KafkaTimeoutError on a loop thread, instead of waiting.
        """
        if predicate():
            return True
        if timeout != 0 and logs.current().on_loop():
            raise KafkaTimeoutError(ON_LOOP)
        latch, deadline = new_latch(), _deadline(timeout)
        try:
            # Added before `predicate` is called again. Otherwise: the predicate is false, a thread makes it true and calls `notify`, which
            # finds no sleeper, and this thread sleeps.
            self._sleepers[latch] = None
            while not predicate():
                if not latch.acquire(True, _left(deadline)):
                    return predicate()
            return True
        finally:
            self._sleepers.pop(latch, None)

    @contextlib.contextmanager
    def opening(self, latch: Latch) -> Iterator[None]:
        """Have every `notify` open `latch` during this `with` block. For tasks, which cannot block: they check, sleep, and repeat."""
        try:
            self._sleepers[latch] = None
            yield
        finally:
            self._sleepers.pop(latch, None)

    def notify(self) -> None:
        """Call this after the change."""
        if self._sleepers:
            for latch in list(self._sleepers):
                open_latch(latch)


class Promise(Generic[T]):
    """A future result or error. Only the first `set_result` or `set_exception` has an effect."""

    __slots__ = ("__weakref__", "_callbacks", "_client_id", "_outcome", "_signal")

    def __init__(self, client_id: str = "pykafka4") -> None:
        self._client_id = client_id
        self._outcome: dict[str, tuple[T | None, BaseException | None]] = {}  # empty or one item
        self._signal = Signal()
        self._callbacks: deque[Callable[[Promise[T]], None]] = deque()

    def done(self) -> bool:
        return bool(self._outcome)

    def set_result(self, value: T) -> None:
        self._finish((value, None))

    def set_exception(self, error: BaseException) -> None:
        self._finish((None, error))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: no limit). Returns whether there is a result or an error."""
        return self._signal.wait(self.done, timeout)

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds, and return the result. Raises the promise's error (a KafkaError as a copy) or KafkaTimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error.again() if isinstance(error, KafkaError) else error
        return self._outcome[""][0]  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does, and return the error; None if there is a result."""
        if not self.wait(timeout):
            raise KafkaTimeoutError(f"no result within {timeout:g} s")
        return self._outcome[""][1]

    def add_done_callback(self, fn: Callable[[Promise[T]], None]) -> None:
        """Call `fn(self)` once, when the promise is done: on the thread that sets the outcome, or on one that adds a callback later."""
        self._callbacks.append(fn)
        if self._outcome:  # the thread that set the outcome may have run the callbacks before the line above
            self._call_back()

    def _finish(self, outcome: tuple[T | None, BaseException | None]) -> None:
        if self._outcome.setdefault("", outcome) is outcome:  # atomic under the GIL: the first outcome stays
            self._signal.notify()
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                fn = self._callbacks.popleft()  # atomic, so one thread takes each callback
            except IndexError:
                return
            try:
                fn(self)
            except Exception:  # an error of a callback must not reach the thread that sets the outcome
                log.exception("%s: a promise callback raised an exception", self._client_id)


class _Ticket:
    __slots__ = ("gone", "hindered", "key", "latch", "left", "starves", "steps_aside", "thread")

    def __init__(
        self, key: object, hindered: Callable[[], bool], latch: Latch, thread: int, gone: Callable[[], bool] | None = None
    ) -> None:
        self.key, self.hindered, self.latch, self.thread, self.gone = key, hindered, latch, thread, gone
        self.steps_aside = False  # whether only the ticket's own key is full; if so, tickets with other keys may go first
        self.starves = False  # whether the ticket has tried without success and does not step aside
        self.left = False  # whether the ticket has left the queue, and the next tickets have been woken


class Gate:
    """A queue of threads that wait for room: first come, first served.

    Only the first thread in the queue tries to get room, so a small request cannot starve a large one. A thread whose own key (its
    partition) is full steps aside: the threads after it try, except threads with the same key, which wait for the same room.
    While a thread is in the queue, a signal handler or a destructor may call `wait` again on that thread. The ticket of the inner call
    enters at the front, because the thread's other tickets cannot leave before the inner call returns.
    The gate calls `counted(waiting, aside)` whenever one of these properties changes, and `starving()` when a thread finds too little of
    the room that all threads share. `lock` is for rate limits and the accumulator of the plain-Python core.
    """

    __slots__ = ("_counted", "_starving", "lock", "tickets")

    def __init__(self, counted: Counted = lambda waiting, aside: None, starving: Callable[[], object] = lambda: None) -> None:
        self.lock = system.RLock()
        self._counted, self._starving = counted, starving
        self.tickets: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """The length of the queue. Unless it is 0, a new caller has to queue up; but see `aside`."""
        return len(self.tickets)

    @property
    def aside(self) -> frozenset[object] | None:
        """The keys of the waiting threads if the first thread of each key steps aside, otherwise None.

        A new caller with another key need not queue up then.
        """
        first = self._first()
        return frozenset(ticket.key for ticket in first) if all(ticket.steps_aside for ticket in first) else None

    @property
    def starved(self) -> bool:
        """Whether a waiting thread has found too little of the room that all threads share."""
        return any(ticket.starves for ticket in self.tickets.copy())

    def wait(
        self,
        try_again: Callable[[], bool],
        timeout: float | None = None,
        key: object = None,
        hindered: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait in the queue until `try_again()` succeeds, up to `timeout` seconds (None: no limit). Returns whether it succeeded.

        `hindered()` returns whether only this `key` is blocked; if so, threads with other keys may go first. While it is true,
        `try_again()` must fail, because the thread sleeps until a `release` finds `hindered()` false. Any thread may call `hindered`.
        """
        latch, deadline = new_latch(), _deadline(timeout)
        ticket = _Ticket(key, hindered, latch, system.get_ident())
        try:
            try:
                (self.tickets.appendleft if self._interrupts(ticket.thread) else self.tickets.append)(ticket)
                self._count()
                return self._queue(ticket, latch, try_again, deadline)
            finally:
                self._leave(ticket)
        finally:  # Ctrl-C may have ended the inner `finally`, and a ticket that stays blocks every thread after it
            self._leave(ticket)

    def _queue(self, ticket: _Ticket, latch: Any, try_again: Callable[[], bool], deadline: float | None) -> bool:
        while not self._attempt(ticket, try_again):
            if not latch.acquire(True, _left(deadline)):  # returns at once if a `release` has come since the attempt
                return False
        return True

    @contextlib.contextmanager
    def queued(
        self, latch: Latch, key: object, hindered: Callable[[], bool], gone: Callable[[], bool] | None = None
    ) -> Iterator[Callable[[Callable[[], bool]], bool]]:
        """Hold a place in the queue during this `with` block. For tasks, which cannot block: they call `attempt`, sleep on
        `latch`, and repeat.

        Yields `attempt(try_again)`, which returns whether it was this task's turn and `try_again()` succeeded. `gone()` returns whether the
        task can never continue, because its event loop is closed: then the queue drops the place. Any thread may call `gone`.
        """
        ticket = _Ticket(key, hindered, latch, NO_THREAD, gone)
        try:
            try:
                self.tickets.append(ticket)
                self._count()
                yield lambda try_again: self._attempt(ticket, try_again)
            finally:
                self._leave(ticket)
        finally:
            self._leave(ticket)

    def _attempt(self, ticket: _Ticket, try_again: Callable[[], bool]) -> bool:
        """Return whether it was this ticket's turn and `try_again` succeeded."""
        if ticket not in self._turn():
            return False
        if try_again():
            return True
        stepped_aside, ticket.steps_aside = ticket.steps_aside, ticket.hindered()
        if ticket.steps_aside != stepped_aside:
            self._count()
            if ticket.steps_aside:
                self.release()  # tickets after this one may try now
        starved, ticket.starves = ticket.starves, not ticket.steps_aside
        if ticket.starves and not starved:
            self._starving()
        return False

    def _interrupts(self, thread: int) -> bool:
        """Whether this call interrupts a call of `thread` in the queue."""
        return any(ticket.thread == thread for ticket in self.tickets.copy())

    def _first(self) -> list[_Ticket]:
        """Return the tickets that may try: the first ticket of each key, up to the first of these tickets that does not step aside.

        Also removes the tickets of tasks that are gone, which would block all other tickets for good.
        """
        first: list[_Ticket] = []
        aside: set[object] = set()
        for ticket in self.tickets.copy():
            if ticket.key in aside:
                continue
            if ticket.gone is not None and ticket.gone():
                with contextlib.suppress(ValueError):
                    self.tickets.remove(ticket)
                continue
            first.append(ticket)
            if not ticket.steps_aside:
                break
            aside.add(ticket.key)
        return first

    def _turn(self) -> list[_Ticket]:
        """Return `_first`, and report the state of the queue if tickets were removed."""
        before = len(self.tickets)
        first = self._first()
        if len(self.tickets) != before:
            self._count()
        return first

    def _leave(self, ticket: _Ticket) -> None:
        if ticket.left:
            return
        with contextlib.suppress(ValueError):
            self.tickets.remove(ticket)
        self._count()
        self.release()  # the next ticket may fit into the remaining room
        ticket.left = True  # last: after Ctrl-C in one of the lines above, the second call repeats them

    def _count(self) -> None:
        """Report the state of the queue, again if it has changed meanwhile, so the last report is right without a lock."""
        reported = None
        while reported != (state := (self.waiting, self.aside)):
            self._counted(*state)
            reported = state

    def release(self) -> None:
        """Wake the threads whose turn it is. Call this after each change that makes room, or `hindered()` false.

        A thread that stepped aside and is still hindered would only fail again, so it is not woken. No wake-up is lost: `hindered()` is
        called after the change, and a thread that has not stepped aside (yet) is always woken.
        """
        if self.tickets:
            for ticket in self._turn():
                if not (ticket.steps_aside and ticket.hindered()):
                    open_latch(ticket.latch)
