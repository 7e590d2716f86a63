"""Where threads meet. Rule: every lock of the client is in this module, and none is held while foreign code runs.

Waiting is done in `threading` primitives only: they let KeyboardInterrupt through, and all of them take a deadline.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from pykafka4.errors import KafkaTimeoutError
from pykafka4.net import system

__all__ = ["Callbacks", "Feed", "Gate", "Helper", "Inbox", "Promise", "Signal", "Wakeup"]

log = logging.getLogger("pykafka4.handoff")
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
            self.asleep = False
            try:
                self._writer.send(b"\0")
            except OSError:  # full: it wakes up anyway; closed: nobody sleeps there
                return

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


class Promise(Generic[T]):
    """A result that comes later. The first `set_result` or `set_exception` counts."""

    __slots__ = ("__weakref__", "_callbacks", "_condition", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._condition = system.Condition()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    def done(self) -> bool:
        """Whether the result is in."""
        return self._done

    def set_result(self, value: T) -> None:
        """It is done."""
        self._finish(value, None)

    def set_exception(self, error: BaseException) -> None:
        """It failed."""
        self._finish(None, error)

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds; raises what `set_exception` was given, or KafkaTimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does; what went wrong, None if nothing did."""
        if not self._done:
            with self._condition:
                if not self._condition.wait_for(self.done, None if timeout is None else min(timeout, FOREVER)):
                    raise KafkaTimeoutError(f"no result within {timeout:g} s")
        return self._error

    def add_done_callback(self, fn: Callable[[Promise[T]], None]) -> None:
        """Call `fn(self)` when it is done (at once if it is), on the thread that finishes it."""
        with self._condition:
            if not self._done:
                self._callbacks.append(fn)
                return
        fn(self)

    def _finish(self, value: T | None, error: BaseException | None) -> None:
        with self._condition:
            if self._done:
                return
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for fn in callbacks:
            fn(self)


class Signal:
    """Something changed: look again. `notify` costs one attribute read while nobody waits."""

    __slots__ = ("_condition", "_waiters")

    def __init__(self) -> None:
        self._condition = system.Condition()
        self._waiters = 0

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `predicate()` is true, up to `timeout` seconds; returns what it said last."""
        if predicate():
            return True
        with self._condition:
            self._waiters += 1  # before looking: a `notify` from here on finds us, one before left its trace for the predicate
            try:
                return self._condition.wait_for(predicate, None if timeout is None else min(timeout, FOREVER))
            finally:
                self._waiters -= 1

    def notify(self) -> None:
        """Have everyone who waits look again. Call it after the change."""
        if self._waiters:
            with self._condition:
                self._condition.notify_all()


class Gate:
    """First come, first served: threads that wait for room.

    Only the first in line tries, so a small request cannot starve a large one. `lock` is not used here: it is for those whose data
    structures need one where there is no compiled core.
    """

    __slots__ = ("_guard", "_line", "lock")

    def __init__(self) -> None:
        self.lock = system.RLock()
        self._guard = system.RLock()  # reentrant: the collector may run a `close` in the middle of anything
        self._line: deque[system.Event] = deque()

    @property
    def waiting(self) -> int:
        """How many stand in line; a newcomer lines up when this is not 0."""
        return len(self._line)

    def wait(self, try_again: Callable[[], bool], timeout: float | None = None) -> bool:
        """Stand in line until `try_again()` succeeds, up to `timeout` seconds; returns whether it did."""
        ticket, deadline = system.Event(), _deadline(timeout)
        with self._guard:
            self._line.append(ticket)
        try:
            while True:
                ticket.clear()  # before trying: a release from here on is not missed
                if self._line[0] is ticket and try_again():
                    return True
                if not ticket.wait(_left(deadline)):
                    return False
        finally:
            with self._guard:
                self._line.remove(ticket)
            self.release()  # the next may fit into what is left

    def release(self) -> None:
        """Room was made: the first in line tries again."""
        if not self._line:
            return
        with self._guard:
            if self._line:
                self._line[0].set()


_inside: dict[system.Thread, int] = {}  # how many callbacks a thread is in; only that thread touches its entry


class _Workers:
    """Up to `most` daemon threads, started when needed, gone when idle; with `most=1` things run in order.

    Not concurrent.futures' pool: that one keeps the interpreter from exiting while a callback hangs.
    """

    __slots__ = ("_condition", "_idle", "_most", "_name", "_queue", "_threads")

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._queue: deque[Callable[[], Any]] = deque()
        self._condition = system.Condition()
        self._threads = self._idle = 0

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` on one of the threads, soon; here and now when there is none and none can be started."""
        with self._condition:
            self._queue.append(fn)
            if self._idle >= len(self._queue):
                self._condition.notify()
                return
            if self._threads >= self._most or self._start() or self._threads:
                return
            stranded = list(self._queue)
            self._queue.clear()
        for fn in stranded:
            self._attempt(fn)

    def _start(self) -> bool:
        """One thread more. An interpreter that is shutting down refuses (Python 3.12), and so does a system that has no more."""
        self._threads += 1
        try:
            system.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._threads -= 1
            log.info("%s: no thread more: %s", self._name, error)
            return False
        return True

    def _run(self) -> None:
        while (fn := self._take()) is not None:
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
    """A call that happens once, whoever makes it."""

    __slots__ = ("_fn",)

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._fn = [fn]

    @property
    def begun(self) -> bool:
        return not self._fn

    def __call__(self) -> None:
        try:
            fn = self._fn.pop()  # one step under the interpreter's lock
        except IndexError:
            return
        me = system.current_thread()
        depth = _inside.get(me, 0)
        _inside[me] = depth + 1
        try:
            fn()
        except Exception:
            log.exception("a callback raised")
        finally:
            if depth:
                _inside[me] = depth
            else:
                _inside.pop(me, None)


class Callbacks:
    """Runs the application's callbacks: on one thread of ours, in order, or on the executor it gave.

    Each runs once, whatever the executor does: memory and waiters depend on it.
    """

    __slots__ = ("_executor", "_workers")

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._workers = _Workers("pykafka4-callbacks", 1)

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon. What it raises is logged; it never reaches the loop."""
        callback = _Callback(fn)
        if self._executor is None:
            self._workers.submit(callback)
            return
        try:
            future = self._executor.submit(callback)
            future.add_done_callback(lambda _: self._look_after(callback))
        except Exception as error:  # most likely shut down before the client
            log.warning("callback_executor takes no more callbacks (%s); they run on a thread of the client", error)
            self._executor = None
            self._workers.submit(callback)

    def _look_after(self, callback: _Callback) -> None:
        """The executor is done with it. Cancelled (`shutdown(cancel_futures=True)`), it is owed all the same."""
        if not callback.begun:
            self._workers.submit(callback)

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
            except Exception:
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
