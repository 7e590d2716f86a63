"""Threads of the client that run what may block: the application's callbacks and listeners, and slow work of the loop.

Invariant: no lock is held while one of those calls runs. The threads are started when needed, end when idle, and are never joined.

`threading.Condition` is for the client's own threads: its methods are Python code that can be interrupted while the lock is held.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from pykafka4.core import INFINITY
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.handoff.wakeup import Wakeup

__all__ = ["Callbacks", "Feed", "Helper"]

log = get_log("pykafka4.handoff")
HELPERS = 4  # threads for slow codecs
IDLE_SECONDS = 10.0  # a thread with nothing to do for so long ends


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
