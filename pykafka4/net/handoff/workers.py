"""Runs blocking calls on separate threads: callbacks and listeners of the application, and slow work of the loop.

Invariant: no lock of this module is held while such a call runs. `Workers` starts threads when needed; they end when idle, and are never
joined.

Without an executor of the application, callbacks run one after another, in order, while threads can be started.
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
from pykafka4.net.handoff.latch import new_latch, open_latch
from pykafka4.net.handoff.wakeup import Wakes

__all__ = ["Callbacks", "Feed", "Helper", "Workers"]

log = get_log("pykafka4.handoff")
HELPERS = 4  # threads for short work of the loop, such as compression
IDLE_S = 10.0  # a thread ends after this long without a call


_forks = itertools.count(1)
_process = 0  # a new number in each forked child, where threads and callbacks of the parent must not continue


def _after_fork() -> None:
    global _process
    _process = next(_forks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_inside: dict[Any, int] = {}  # thread -> depth of nested callbacks; only the thread itself touches its entry


class Workers:
    """Up to `most` daemon threads, which are started when needed and end when idle; with `most=1` calls run in order.

    This is not a ThreadPoolExecutor, which keeps the interpreter from exiting while a callback hangs.
    """

    __slots__ = ("_client_id", "_ended", "_idle", "_lock", "_most", "_name", "_queue", "_threads")

    def __init__(self, name: str, most: int, client_id: str) -> None:
        self._name, self._most, self._client_id = name, most, client_id
        self._queue: deque[Callable[[], Any]] = deque()
        self._lock = system.RLock()
        self._idle: list[Any] = []  # the latches of the idle threads
        self._threads = 0
        self._ended = False

    def end(self) -> None:
        """Have threads end as soon as they are idle. Calls that are submitted later still run."""
        with self._lock:
            self._ended = True
            for latch in self._idle:
                open_latch(latch)

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon; here and now if no thread exists and none can be started."""
        with self._lock:
            self._queue.append(fn)
            if self._idle:
                latch = self._idle[-1]
                # Opened before it is removed: after Ctrl-C between the two steps, the woken thread removes the latch itself. Otherwise no
                # thread could open the latch, and its thread would sleep for IDLE_S although a call waits.
                open_latch(latch)
                if latch in self._idle:  # otherwise a signal handler on this thread has called `submit`, which removed the latch
                    self._idle.remove(latch)
                return
            if self._threads >= self._most or self._start() or self._threads:
                return
            stranded = list(self._queue)
            self._queue.clear()
        for fn in stranded:
            self._attempt(fn)

    def _start(self) -> bool:
        """Start a thread. Returns False while the interpreter shuts down (from Python 3.12 on), or if the system is out of threads."""
        given_up: list[None] = []
        self._threads += 1
        try:
            system.Thread(target=partial(self._run, given_up), name=self._name, daemon=True).start()
        except BaseException as error:  # perhaps Ctrl-C, before or after the start: a thread that was started finds `given_up`
            given_up.append(None)
            self._threads -= 1
            if not isinstance(error, RuntimeError):
                raise
            if isinstance(error.__context__, KeyboardInterrupt):  # raised while `Thread.start` held the lock of a Condition
                raise error.__context__ from None
            log.info("%s: cannot start another %s thread: %s", self._client_id, self._name, error)
            return False
        return True

    def _run(self, given_up: list[None]) -> None:
        with self._lock:  # the starting thread holds the lock until it knows whether the start succeeded
            if given_up:
                return
        process = _process
        while process == _process and (fn := self._take()) is not None:  # a child that `fn` forked must not continue here
            self._attempt(fn)
            del fn  # otherwise this frame keeps the call's objects alive until the next call

    def _attempt(self, fn: Callable[[], Any]) -> None:
        try:
            fn()
        except BaseException:  # SystemExit in a callback ends the callback, not the thread
            log.exception("%s: a call on a %s thread raised an exception", self._client_id, self._name)

    def _take(self) -> Callable[[], Any] | None:
        """Wait for a call and return it; return None, which ends the thread, after IDLE_S without a call or after `end`."""
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
                if self._ended:
                    self._threads -= 1
                    return None
                latch = new_latch()
                self._idle.append(latch)
            woken = latch.acquire(True, IDLE_S)  # the queue may nevertheless be empty: another thread has taken the call
            with self._lock:
                if latch in self._idle:  # the time has passed, or Ctrl-C or `end` left an open latch in the list
                    self._idle.remove(latch)
                    if not woken:
                        self._threads -= 1
                        return None


class _Callback:
    """A callback that runs at most once, on the thread that calls it first, and only in the process that made it."""

    __slots__ = ("_fn", "_owner", "_process")

    def __init__(self, fn: Callable[[], Any], owner: Callbacks) -> None:
        """With an executor, `owner` lists the callback as pending until it begins."""
        self._fn = [fn]
        self._owner = owner
        self._process = _process

    @property
    def begun(self) -> bool:
        return not self._fn

    def __call__(self) -> None:
        if self._process != _process:
            return
        try:
            fn = self._fn.pop()  # atomic under the GIL, so only one thread gets it
        except IndexError:
            return
        self._owner._pending.pop(self, None)
        me = system.current_thread()
        depth = _inside.get(me, 0)
        _inside[me] = depth + 1
        try:
            fn()
        except BaseException:  # SystemExit ends the callback, not the thread
            log.exception("%s: a callback raised an exception", self._owner.client_id)
        finally:
            if depth:
                _inside[me] = depth
            else:
                _inside.pop(me, None)


class Callbacks:
    """Runs the application's callbacks: in order on a thread of the client, or on the executor that the application passed.

    A callback that the executor rejects or cancels runs on the client's thread, because memory and waiting threads depend on callbacks. The
    executor's `submit` may block, so the client's callback thread calls it, not the loop. While every thread of a ThreadPoolExecutor is in
    a wait that may need callbacks (`waiting`), callbacks run on the client's thread.

    `submit` takes a lock and is for threads of the client. Application threads call `post`, and the loop submits for them. Otherwise: an
    application thread takes the lock, a signal handler on this thread waits for the loop, and the loop waits for the lock.
    """

    __slots__ = ("_blocked", "_executor", "_pending", "_posted", "_wakeup", "_workers", "client_id")

    def __init__(self, executor: Executor | None = None, client_id: str = "pykafka4") -> None:
        self._executor, self.client_id = executor, client_id
        self._workers = Workers("pykafka4-callbacks", 1, client_id)
        self._pending: dict[_Callback, None] = {}  # callbacks for the executor that have not begun
        self._blocked: dict[Any, None] = {}  # threads of the executor that are in `waiting`
        self._posted: deque[Callable[[], Any]] = deque()
        self._wakeup: Wakes | None = None  # wakes the loop that submits posted callbacks; None while no loop does

    def post(self, fn: Callable[[], Any]) -> None:
        """Have the loop submit `fn`; submit it here if the loop has ended."""
        # Appended before `_wakeup` is read; the loop unsets `_wakeup` before its last `submit_posted`. Otherwise: this thread reads
        # `_wakeup`, the loop ends, this thread appends, and `fn` is never submitted.
        self._posted.append(fn)
        wakeup = self._wakeup
        if wakeup is None:
            self.submit_posted()
        else:
            wakeup.wake()

    def submit_posted(self) -> None:
        while self._posted:
            try:
                fn = self._posted.popleft()
            except IndexError:  # after the end of the loop several threads may be here, and another was faster
                return
            self.submit(fn)

    def serve(self, wakeup: Wakes | None) -> None:
        """Have `post` wake the loop of `wakeup`, which calls `submit_posted` in each turn; None: the loop has ended."""
        self._wakeup = wakeup

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon. Its exceptions are logged."""
        callback = _Callback(fn, self)
        if self._executor is not None:
            self._pending[callback] = None
        self._workers.submit(callback if self._executor is None else lambda: self._hand_over(callback))

    def _hand_over(self, callback: _Callback) -> None:
        executor = self._executor
        if executor is not None:
            try:
                future = executor.submit(callback)
                future.add_done_callback(lambda _: self._run_if_dropped(callback))
                # Read after the callback is in `_pending`: a thread of the executor that blocks later finds it there.
                if not self._all_blocked():
                    return
            except BaseException as error:  # most likely the application shut the executor down before it closed the client
                log.warning("%s: callback_executor rejected a callback (%r); callbacks now run on a client thread", self.client_id, error)
                self._executor = None
        callback()

    def _run_if_dropped(self, callback: _Callback) -> None:
        """Run a `callback` that its executor has dropped (`shutdown(cancel_futures=True)`)."""
        if not callback.begun:
            self._workers.submit(callback)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the calling thread, if it belongs to the executor, as blocked in this `with` block, where it may wait for callbacks."""
        me = system.current_thread()
        if not self.on_executor():
            yield
            return
        self._blocked[me] = None  # outside the `try`: Ctrl-C reaches only the main thread, which belongs to no executor
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
        """Whether the calling thread belongs to the application's ThreadPoolExecutor: callbacks may need this very thread."""
        pool, thread = self._executor, system.current_thread()
        if not isinstance(pool, ThreadPoolExecutor):
            return False
        if thread in getattr(pool, "_threads", ()):
            return True
        work = getattr(pool, "_work_queue", None)  # the pool lists a thread only after the thread has started to work
        return any(argument is work for argument in getattr(thread, "_args", ()))

    def in_callback(self) -> bool:
        """Whether the calling thread runs a callback, and so must not wait for a result that needs another callback."""
        return system.current_thread() in _inside


class Feed:
    """A queue of events for one listener, in which at most two events of each key wait, however slow the listener is.

    With `alternate`, the events of a key alternate (offline, online, offline …): if three wait, the first two cancel each other out and are
    dropped, so the listener's last event is the current state. With `latest`, only the last event of a key waits.
    """

    __slots__ = ("_callbacks", "_listener", "_lock", "_pending", "_scheduled")

    def __init__(self, callbacks: Callbacks, listener: Callable[[object], Any]) -> None:
        self._callbacks, self._listener = callbacks, listener
        self._lock = system.RLock()
        self._pending: dict[object, list[object]] = {}
        self._scheduled = False

    def latest(self, key: object, event: object) -> None:
        with self._lock:
            self._pending[key] = [event]
        self._schedule()

    def alternate(self, key: object, event: object) -> None:
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
            except BaseException:  # the listener still gets the following events
                log.exception("%s: a client.events listener raised an exception", self._callbacks.client_id)


class Helper:
    """Threads for work of the loop that may block."""

    __slots__ = ("_workers",)

    def __init__(self, name: str = "pykafka4-helper", most: int = HELPERS, client_id: str = "pykafka4") -> None:
        self._workers = Workers(name, most, client_id)

    def submit(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run `run()` on a helper thread, then call `then` on the same thread with the result or exception."""

        def work() -> None:
            try:
                result = run()
            except Exception as error:
                result = error
            then(result)

        self._workers.submit(work)
