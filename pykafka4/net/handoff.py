"""Where threads meet. Rule: every lock of the client is in this module, and none is held while foreign code runs.

Waiting is done in `threading` primitives only: they let KeyboardInterrupt through, and all of them take a deadline.

KeyboardInterrupt can be raised between any two bytecodes of an application thread. So what those threads run here holds no lock: lists
of waiting threads are dicts and deques whose single operations are atomic. Entries are made inside the `try` that removes them. An entry
whose loss would block other threads is removed twice, by nested `finally` blocks, since the interrupt may end the inner one.
`threading.Condition` is for the client's own threads: its methods are Python code that can be interrupted while the lock is held.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from pykafka4.core import INFINITY
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.net import system

__all__ = ["Callbacks", "Feed", "Gate", "Helper", "Inbox", "Promise", "Signal", "Wakeup"]

log = get_log("pykafka4.handoff")
T = TypeVar("T")
FOREVER = system.TIMEOUT_MAX
HELPERS = 4  # threads for slow codecs
IDLE_SECONDS = 10.0  # a thread with nothing to do for so long ends


def _left(deadline: float | None) -> float:
    """Seconds until `deadline`, for a lock; never more than it can take, never less than 0."""
    return FOREVER if deadline is None else max(0.0, min(deadline - system.monotonic(), FOREVER))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else system.monotonic() + timeout


class Inbox:
    """What other threads want run on the loop thread, in order."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: deque[Callable[[float], object]] = deque()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def post(self, fn: Callable[[float], object]) -> None:
        """Add `fn`; a deque's append is atomic, so there is no lock."""
        self._calls.append(fn)

    def run(self, now: float) -> None:
        """Call what was there at the beginning; what is added meanwhile waits for the next turn, so that the loop gets on."""
        for _ in range(len(self._calls)):
            self._calls.popleft()(now)


class Wakeup:
    """Ends the loop's sleep from another thread, with one byte however many ask.

    `news` says that somebody has work; the loop clears it, works, raises `asleep`, looks at `news` once more and only then sleeps.
    So a `wake` after that look finds `asleep` raised and writes the byte, one before it leaves `news` for the look to find.
    """

    __slots__ = ("_reader", "_writer", "asleep", "news")

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.asleep = False
        self.news = False

    def fileno(self) -> int:
        """The end to select on."""
        return self._reader.fileno()

    def wake(self) -> None:
        """There is work."""
        self.news = True
        if self.asleep:
            try:
                self.asleep = False
                self._writer.send(b"\0")
            except OSError:  # full: it wakes up anyway; closed: nobody sleeps there
                return
            except BaseException:  # Ctrl-C, perhaps before the byte was sent: the next to wake sends one
                self.asleep = True
                raise

    def clear(self) -> None:
        """Take the bytes out."""
        try:
            while len(self._reader.recv(4096)) == 4096:
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close both ends, without a word to the other side."""
        self._reader.close()
        self._writer.close()


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


_forks = itertools.count(1)
_process = 0  # how many forks lie between the process that imported this and this one


def _after_fork() -> None:
    global _process
    _process = next(_forks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_inside: dict[system.Thread, int] = {}  # how many callbacks a thread is in; only that thread touches its entry


class _Workers:
    """Up to `most` daemon threads, started when needed, gone when idle; with `most=1` things run in order.

    Not concurrent.futures' pool: that one keeps the interpreter from exiting while a callback hangs.
    """

    __slots__ = ("_condition", "_idle", "_lock", "_most", "_name", "_queue", "_threads")

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._queue: deque[Callable[[], Any]] = deque()
        self._lock = system.RLock()  # taken directly by `submit`: entering the Condition is Python code, an interrupt would keep it locked
        self._condition = system.Condition(self._lock)
        self._threads = self._idle = 0

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` on one of the threads, soon; here and now when there is none and none can be started."""
        with self._lock:
            self._queue.append(fn)
            if self._idle:
                self._condition.notify()
            if self._idle >= len(self._queue):
                return
            if self._threads >= self._most or self._start() or self._threads:
                return
            stranded = list(self._queue)
            self._queue.clear()
        for fn in stranded:
            self._attempt(fn)

    def _start(self) -> bool:
        """One thread more. An interpreter that is shutting down refuses (Python 3.12), and so does a system that has no more."""
        given_up: list[None] = []
        self._threads += 1
        try:
            system.Thread(target=partial(self._run, given_up), name=self._name, daemon=True).start()
        except BaseException as error:  # perhaps Ctrl-C, and nobody knows whether the thread was started
            given_up.append(None)
            self._threads -= 1
            if not isinstance(error, RuntimeError):
                raise
            if isinstance(error.__context__, KeyboardInterrupt):  # it came while `start` held the lock of a Condition
                raise error.__context__ from None
            log.info("%s: no thread more: %s", self._name, error)
            return False
        return True

    def _run(self, given_up: list[None]) -> None:
        with self._lock:  # held by whoever starts this thread, until it is known whether it counts
            if given_up:
                return
        process = _process
        while process == _process and (fn := self._take()) is not None:  # what `fn` left in a child of a fork has nothing to do there
            self._attempt(fn)
            del fn  # do not keep what it holds until the next one comes

    def _attempt(self, fn: Callable[[], Any]) -> None:
        try:
            fn()
        except BaseException:  # SystemExit in a callback ends the callback, not the thread
            log.exception("an exception in %s was ignored", self._name)

    def _take(self) -> Callable[[], Any] | None:
        with self._condition:
            self._idle += 1
            self._condition.wait_for(lambda: self._queue, IDLE_SECONDS)
            self._idle -= 1
            if self._queue:
                return self._queue.popleft()
            self._threads -= 1
            return None


class _Callback:
    """A call that happens once, whoever makes it, and never in a forked child, whose parent makes it."""

    __slots__ = ("_fn", "_pending", "_process")

    def __init__(self, fn: Callable[[], Any], pending: dict[_Callback, None]) -> None:
        """It takes itself out of `pending` when it begins."""
        self._fn = [fn]
        self._pending = pending
        self._process = _process

    @property
    def begun(self) -> bool:
        return not self._fn

    def __call__(self) -> None:
        if self._process != _process:
            return
        try:
            fn = self._fn.pop()  # one step under the interpreter's lock
        except IndexError:
            return
        self._pending.pop(self, None)
        me = system.current_thread()
        depth = _inside.get(me, 0)
        _inside[me] = depth + 1
        try:
            fn()
        except BaseException:  # SystemExit ends the callback, not the executor's thread
            log.exception("a callback raised")
        finally:
            if depth:
                _inside[me] = depth
            else:
                _inside.pop(me, None)


class Callbacks:
    """Runs the application's callbacks: on one thread of ours, in order, or on the executor it gave.

    Each runs once, whatever the executor does: memory and waiters depend on it. The executor is the application's code, too, and may block
    in `submit`; so that is called on our thread, never on the loop's. While each thread of a ThreadPoolExecutor is in a wait that only
    callbacks can end (`waiting`), they run on our thread.

    `submit` takes a lock and is for threads of the client. The application's threads `post`, and the loop submits for them: a signal
    handler that comes while its thread holds the lock may wait for the loop, which would wait for the lock.
    """

    __slots__ = ("_blocked", "_executor", "_pending", "_posted", "_wakeup", "_workers")

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._workers = _Workers("pykafka4-callbacks", 1)
        self._pending: dict[_Callback, None] = {}  # handed to the executor and not begun
        self._blocked: dict[system.Thread, None] = {}  # threads of the executor that are in `waiting`
        self._posted: deque[Callable[[], Any]] = deque()
        self._wakeup: Wakeup | None = None  # of the loop that submits what is posted

    def post(self, fn: Callable[[], Any]) -> None:
        """Have the loop submit `fn`; once there is none any more, do it here."""
        self._posted.append(fn)  # before the look at the loop, which is noted as ended before it submits for the last time
        wakeup = self._wakeup
        if wakeup is None:
            self.submit_posted()
        else:
            wakeup.wake()

    def submit_posted(self) -> None:
        """Submit what was posted."""
        while self._posted:
            try:
                fn = self._posted.popleft()
            except IndexError:  # without a loop several threads may be here
                return
            self.submit(fn)

    def serve(self, wakeup: Wakeup | None) -> None:
        """The loop that `wakeup` wakes calls `submit_posted` in each turn from here on; with None none does any more."""
        self._wakeup = wakeup

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon. What it raises is logged; it never reaches the loop."""
        callback = _Callback(fn, self._pending)
        if self._executor is not None:
            self._pending[callback] = None
        self._workers.submit(callback if self._executor is None else lambda: self._hand_over(callback))

    def _hand_over(self, callback: _Callback) -> None:
        executor = self._executor
        if executor is not None:
            try:
                future = executor.submit(callback)
                future.add_done_callback(lambda _: self._look_after(callback))
                if not self._all_blocked():  # asked after `_pending` has it: a thread that blocks from here on finds it there
                    return
            except BaseException as error:  # most likely shut down before the client
                log.warning("callback_executor takes no more callbacks (%r); they run on a thread of the client", error)
                self._executor = None
        callback()

    def _look_after(self, callback: _Callback) -> None:
        """The executor is done with it. Cancelled (`shutdown(cancel_futures=True)`), it is owed all the same."""
        if not callback.begun:
            self._workers.submit(callback)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A block in which the calling thread may wait until callbacks have run."""
        me = system.current_thread()
        if not self.on_executor():
            yield
            return
        self._blocked[me] = None  # no Ctrl-C here: it comes in the main thread, which belongs to no executor
        try:
            if self._all_blocked():
                for callback in list(self._pending):
                    self._workers.submit(callback)
            yield
        finally:
            self._blocked.pop(me, None)

    def _all_blocked(self) -> bool:
        return bool(self._blocked) and len(self._blocked) >= getattr(self._executor, "_max_workers", INFINITY)

    def on_executor(self) -> bool:
        """Whether the calling thread belongs to the application's ThreadPoolExecutor: callbacks may need this very thread to run."""
        pool, thread = self._executor, system.current_thread()
        if not isinstance(pool, ThreadPoolExecutor):
            return False
        if thread in getattr(pool, "_threads", ()):
            return True
        work = getattr(pool, "_work_queue", None)  # the pool lists a thread only after it began to work
        return any(argument is work for argument in getattr(thread, "_args", ()))

    def in_callback(self) -> bool:
        """Whether the calling thread is running a callback: then it must not wait for what only another callback can bring."""
        return system.current_thread() in _inside


class Feed:
    """Events for one listener, bounded however slow it is.

    Events of one key alternate (offline, online, offline …): of those that wait, a pair that cancels itself out is left out, so the
    listener always ends up knowing how things are. With `latest` only the last of a key waits.
    """

    __slots__ = ("_callbacks", "_listener", "_lock", "_pending", "_scheduled")

    def __init__(self, callbacks: Callbacks, listener: Callable[[object], Any]) -> None:
        self._callbacks, self._listener = callbacks, listener
        self._lock = system.RLock()
        self._pending: dict[object, list[object]] = {}
        self._scheduled = False

    def latest(self, key: object, event: object) -> None:
        """Queue `event` in place of those of its key that still wait."""
        with self._lock:
            self._pending[key] = [event]
        self._schedule()

    def alternate(self, key: object, event: object) -> None:
        """Queue `event` behind those of its key."""
        with self._lock:
            waiting = self._pending.setdefault(key, [])
            waiting.append(event)
            if len(waiting) > 2:
                del waiting[:2]
        self._schedule()

    def _schedule(self) -> None:
        with self._lock:
            due, self._scheduled = not self._scheduled, True
        if due:
            self._callbacks.submit(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            events = [event for waiting in self._pending.values() for event in waiting]
            self._pending.clear()
            self._scheduled = False
        for event in events:
            try:
                self._listener(event)
            except BaseException:  # those that follow are heard all the same
                log.exception("a listener of client.events raised")


class Helper:
    """Work that may block: slow codecs; another one looks up names, which may hang. Nobody ever joins these threads."""

    __slots__ = ("_workers",)

    def __init__(self, name: str = "pykafka4-helper", most: int = HELPERS) -> None:
        self._workers = _Workers(name, most)

    def submit(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """`then(result or exception)` is called on the helper's thread; post it on from there."""

        def work() -> None:
            try:
                result = run()
            except Exception as error:
                result = error
            then(result)

        self._workers.submit(work)
