"""How threads wait: `Signal` (for a change), `Promise` (for a result), `Gate` (in a queue, for room). Rule: a waiting thread holds no lock.

Threads wait in latches only: KeyboardInterrupt can end such a wait, and all take a timeout. A loop's thread never waits, as what it would
wait for, its own client or another one does on such a thread: destructors of the application may run there, and make any call.

KeyboardInterrupt can be raised between any two bytecodes of an application thread. So the code here that those threads run holds no lock:
waiting threads are kept in dicts and deques, whose single operations are atomic. Entries are added inside the `try` that removes them. An
entry that would block other threads if it stayed is removed twice, by nested `finally` blocks, as the interrupt may end the inner one.
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
ON_LOOP = "a destructor called this on the thread of a client, which does not wait: make such calls before the object is garbage"
NO_THREAD = -1  # of the tickets of tasks, many of which wait on one thread


def _left(deadline: float | None) -> float:
    """Seconds until `deadline`, for a lock: from 0 to the longest timeout that it accepts."""
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
        """The number of waiting threads."""
        return len(self._sleepers)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate()` is true, up to `timeout` seconds; returns its last value.

        Raises KafkaTimeoutError on a loop's thread, instead of waiting.
        """
        if predicate():
            return True
        if timeout != 0 and logs.current().on_loop():
            raise KafkaTimeoutError(ON_LOOP)
        latch, deadline = new_latch(), _deadline(timeout)
        try:
            self._sleepers[latch] = None  # before the check: a later `notify` finds us, the predicate sees the effect of an earlier one
            while not predicate():
                if not latch.acquire(True, _left(deadline)):
                    return predicate()
            return True
        finally:
            self._sleepers.pop(latch, None)

    @contextlib.contextmanager
    def opening(self, latch: Latch) -> Iterator[None]:
        """In this block `latch` is opened by every `notify`. For tasks, which must not wait here: check, sleep on the latch, repeat."""
        try:
            self._sleepers[latch] = None
            yield
        finally:
            self._sleepers.pop(latch, None)

    def notify(self) -> None:
        """Let every waiting thread check its predicate. Call it after the change."""
        if self._sleepers:
            for latch in list(self._sleepers):
                open_latch(latch)


class Promise(Generic[T]):
    """A future result. The first `set_result` or `set_exception` counts."""

    __slots__ = ("__weakref__", "_callbacks", "_client_id", "_outcome", "_signal")

    def __init__(self, client_id: str = "pykafka4") -> None:
        self._client_id = client_id
        self._outcome: dict[str, tuple[T | None, BaseException | None]] = {}  # empty or one item
        self._signal = Signal()
        self._callbacks: deque[Callable[[Promise[T]], None]] = deque()

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return bool(self._outcome)

    def set_result(self, value: T) -> None:
        """Resolve it with a value."""
        self._finish((value, None))

    def set_exception(self, error: BaseException) -> None:
        """Fail it with an error."""
        self._finish((None, error))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; returns whether there is a result or an error."""
        return self._signal.wait(self.done, timeout)

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds. Raises the error it failed with (a KafkaError as a copy), or KafkaTimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error.again() if isinstance(error, KafkaError) else error
        return self._outcome[""][0]  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does, and return the error, or None."""
        if not self.wait(timeout):
            raise KafkaTimeoutError(f"no result within {timeout:g} s")
        return self._outcome[""][1]

    def add_done_callback(self, fn: Callable[[Promise[T]], None]) -> None:
        """Call `fn(self)` when it is done (at once if it already is), on the thread that finishes it."""
        self._callbacks.append(fn)
        if self._outcome:  # the thread that finished it may have run the callbacks before the line above
            self._call_back()

    def _finish(self, outcome: tuple[T | None, BaseException | None]) -> None:
        if self._outcome.setdefault("", outcome) is outcome:  # atomic under the GIL: the first one counts
            self._signal.notify()
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                fn = self._callbacks.popleft()  # each callback is taken by one thread only
            except IndexError:
                return
            try:
                fn(self)
            except Exception:  # must not fail the thread that sets the result
                log.exception("%s: a promise callback raised an exception", self._client_id)


class _Ticket:
    """A thread's place in the queue of a `Gate`."""

    __slots__ = ("gone", "hindered", "key", "latch", "left", "starves", "steps_aside", "thread")

    def __init__(
        self, key: object, hindered: Callable[[], bool], latch: Latch, thread: int, gone: Callable[[], bool] | None = None
    ) -> None:
        self.key, self.hindered, self.latch, self.thread, self.gone = key, hindered, latch, thread, gone
        self.steps_aside = False  # whether it waits for room that those behind it cannot use
        self.starves = False  # whether it has tried without success and does not step aside
        self.left = False  # whether it has left the queue, and the others know


class Gate:
    """A queue of threads that wait for room: first come, first served.

    Only the first in the queue tries, so a small request cannot starve a large one. A thread that cannot use the free room for a reason of
    its own (its partition is full) steps aside: those behind it try, except those with the same key, which wait for the same thing.
    A thread may call again from a signal handler or a destructor while it is in the queue. Then it enters at the front, because its other
    places cannot move before that call returns.
    `counted(waiting, aside)` is called with these properties whenever they change, `starving()` when a thread finds no free room at all.
    `lock` is not used here: the plain-Python core needs one for its data structures.
    """

    __slots__ = ("_counted", "_starving", "line", "lock")

    def __init__(self, counted: Counted = lambda waiting, aside: None, starving: Callable[[], object] = lambda: None) -> None:
        self.lock = system.RLock()
        self._counted, self._starving = counted, starving
        self.line: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """The length of the queue. A new caller has to queue up if it is not 0, but see `aside`."""
        return len(self.line)

    @property
    def aside(self) -> frozenset[object] | None:
        """The keys of the waiting threads if all of them step aside, else None. A new caller with another key need not queue up then.

        A caller with one of these keys does: threads with the same key are served first come, first served.
        """
        first = self._first()
        return frozenset(ticket.key for ticket in first) if all(ticket.steps_aside for ticket in first) else None

    @property
    def starved(self) -> bool:
        """Whether a thread has tried without success to get room that all threads share, and is not blocked only by its own key."""
        return any(ticket.starves for ticket in self.line.copy())

    def wait(
        self,
        try_again: Callable[[], bool],
        timeout: float | None = None,
        key: object = None,
        hindered: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait in the queue until `try_again()` succeeds, up to `timeout` seconds; returns whether it did.

        `hindered()` says whether only this `key` is blocked, so that threads behind with other keys may go first. While it is true
        `try_again()` must fail: the thread sleeps until a `release` that finds it false. It is called on any thread.
        """
        latch, deadline = new_latch(), _deadline(timeout)
        ticket = _Ticket(key, hindered, latch, system.get_ident())
        try:
            try:
                (self.line.appendleft if self._interrupts(ticket.thread) else self.line.append)(ticket)
                self._count()
                return self._queue(ticket, latch, try_again, deadline)
            finally:
                self._leave(ticket)
        finally:  # a ticket that stayed at the front would block every thread behind it
            self._leave(ticket)

    def _queue(self, ticket: _Ticket, latch: Any, try_again: Callable[[], bool], deadline: float | None) -> bool:
        while not self._attempt(ticket, try_again):
            if not latch.acquire(True, _left(deadline)):  # also opened by a release before this line
                return False
        return True

    @contextlib.contextmanager
    def place(
        self, latch: Latch, key: object, hindered: Callable[[], bool], gone: Callable[[], bool] | None = None
    ) -> Iterator[Callable[[Callable[[], bool]], bool]]:
        """A place in the queue for a task, which must not wait here: in this block, it attempts, sleeps on `latch`, and repeats.

        The value of the block is `attempt(try_again)`: whether it was this task's turn and `try_again()` has succeeded. `gone()` is whether
        the task can never go on, because its event loop is closed: then its place is given up. It is called on any thread.
        """
        ticket = _Ticket(key, hindered, latch, NO_THREAD, gone)
        try:
            try:
                self.line.append(ticket)
                self._count()
                yield lambda try_again: self._attempt(ticket, try_again)
            finally:
                self._leave(ticket)
        finally:
            self._leave(ticket)

    def _attempt(self, ticket: _Ticket, try_again: Callable[[], bool]) -> bool:
        """Try, if it is this ticket's turn; whether it succeeded."""
        if ticket not in self._turn():
            return False
        if try_again():
            return True
        stepped_aside, ticket.steps_aside = ticket.steps_aside, ticket.hindered()
        if ticket.steps_aside != stepped_aside:
            self._count()
            if ticket.steps_aside:
                self.release()  # let those behind try
        starved, ticket.starves = ticket.starves, not ticket.steps_aside
        if ticket.starves and not starved:
            self._starving()
        return False

    def _interrupts(self, thread: int) -> bool:
        """Whether `thread` is already in the queue, with a call that this one interrupts."""
        return any(ticket.thread == thread for ticket in self.line.copy())

    def _first(self) -> list[_Ticket]:
        """The tickets that may try: the first that does not step aside, and before it the first of each key that does.

        Those that will never try again are removed on the way: they would block all others for good.
        """
        first: list[_Ticket] = []
        aside: set[object] = set()
        for ticket in self.line.copy():
            if ticket.key in aside:
                continue
            if ticket.gone is not None and ticket.gone():
                with contextlib.suppress(ValueError):
                    self.line.remove(ticket)
                continue
            first.append(ticket)
            if not ticket.steps_aside:
                break
            aside.add(ticket.key)
        return first

    def _turn(self) -> list[_Ticket]:
        """As `_first`, and report the state of the queue if tickets were removed."""
        before = len(self.line)
        first = self._first()
        if len(self.line) != before:
            self._count()
        return first

    def _leave(self, ticket: _Ticket) -> None:
        if ticket.left:
            return
        with contextlib.suppress(ValueError):
            self.line.remove(ticket)
        self._count()
        self.release()  # the next one may fit into the room that is left
        ticket.left = True

    def _count(self) -> None:
        """Report the state of the queue, again if it has changed meanwhile, so that without a lock the last report is still right."""
        reported = None
        while reported != (state := (self.waiting, self.aside)):
            self._counted(*state)
            reported = state

    def release(self) -> None:
        """Let those whose turn it is try again. Call it after each change that makes room, or that makes `hindered()` false.

        A thread that stepped aside and is still hindered is not woken: it would run for nothing, as often as others get room. No wake-up is
        lost: `hindered()` is asked here, after the change, and a thread that has not stepped aside (yet) is always woken.
        """
        if self.line:
            for ticket in self._turn():
                if not (ticket.steps_aside and ticket.hindered()):
                    open_latch(ticket.latch)
