"""Client threads that run calls which may block: the application's callbacks, listeners and handlers, and slow work of the loop.

Rule: no lock is held while one of those calls runs. The threads are started when needed, end when idle, and are never joined.
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
HELPERS = 4  # threads for slow codecs
IDLE_SECONDS = 10.0  # a thread that is idle for so long ends


_forks = itertools.count(1)
_process = 0  # how many forks separate this process from the one that imported this module


def _after_fork() -> None:
    global _process
    _process = next(_forks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_inside: dict[Any, int] = {}  # how many callbacks a thread is in; only that thread touches its entry


class Workers:
    """Up to `most` daemon threads, started when needed, ended when idle; with `most=1` calls run in order.

    Not ThreadPoolExecutor, which keeps the interpreter from exiting while a callback hangs.
    """

    __slots__ = ("_client_id", "_ended", "_idle", "_lock", "_most", "_name", "_queue", "_threads")

    def __init__(self, name: str, most: int, client_id: str) -> None:
        self._name, self._most, self._client_id = name, most, client_id
        self._queue: deque[Callable[[], Any]] = deque()
        self._lock = system.RLock()
        self._idle: list[Any] = []  # what the idle threads sleep on
        self._threads = 0
        self._ended = False

    def end(self) -> None:
        """Have threads end when they have nothing to do, without waiting for more. What is submitted later runs all the same."""
        with self._lock:
            self._ended = True
            for latch in self._idle:
                open_latch(latch)

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon on one of the threads, or here and now if there is none and none can be started."""
        with self._lock:
            self._queue.append(fn)
            if self._idle:
                latch = self._idle[-1]
                open_latch(latch)  # first: after Ctrl-C in between, its thread removes it
                if latch in self._idle:  # no signal handler has called `submit` meanwhile
                    self._idle.remove(latch)
                return
            if self._threads >= self._most or self._start() or self._threads:
                return
            stranded = list(self._queue)
            self._queue.clear()
        for fn in stranded:
            self._attempt(fn)

    def _start(self) -> bool:
        """Start another thread. Fails while the interpreter is shutting down (Python 3.12), and when the system is out of threads."""
        given_up: list[None] = []
        self._threads += 1
        try:
            system.Thread(target=partial(self._run, given_up), name=self._name, daemon=True).start()
        except BaseException as error:  # perhaps Ctrl-C, and it is unknown whether the thread was started
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
        with self._lock:  # held by the thread that starts this one until it knows whether that worked
            if given_up:
                return
        process = _process
        while process == _process and (fn := self._take()) is not None:  # a child that `fn` forked must not continue here
            self._attempt(fn)
            del fn  # do not keep what it references until the next call

    def _attempt(self, fn: Callable[[], Any]) -> None:
        try:
            fn()
        except BaseException:  # SystemExit in a callback ends the callback, not the thread
            log.exception("%s: a call on a %s thread raised an exception", self._client_id, self._name)

    def _take(self) -> Callable[[], Any] | None:
        """The next call; None if there was none for long: then the thread ends."""
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
                if self._ended:
                    self._threads -= 1
                    return None
                latch = new_latch()
                self._idle.append(latch)
            woken = latch.acquire(True, IDLE_SECONDS)  # another thread may be faster
            with self._lock:
                if latch in self._idle:  # its time is over, or Ctrl-C came to the thread that woke it
                    self._idle.remove(latch)
                    if not woken:
                        self._threads -= 1
                        return None


class _Callback:
    """A callback that runs once, whichever thread calls it first, and never in a forked child: it runs in the parent."""

    __slots__ = ("_fn", "_owner", "_process")

    def __init__(self, fn: Callable[[], Any], owner: Callbacks) -> None:
        """It removes itself from the owner's pending callbacks when it begins."""
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
            fn = self._fn.pop()  # atomic under the GIL
        except IndexError:
            return
        self._owner._pending.pop(self, None)
        me = system.current_thread()
        depth = _inside.get(me, 0)
        _inside[me] = depth + 1
        try:
            fn()
        except BaseException:  # SystemExit ends the callback, not the executor's thread
            log.exception("%s: a callback raised an exception", self._owner.client_id)
        finally:
            if depth:
                _inside[me] = depth
            else:
                _inside.pop(me, None)


class Callbacks:
    """Runs the application's callbacks: in order on a thread of the client, or on the executor that the application passed.

    Each runs once, whatever the executor does: memory and waiting threads depend on it. The executor is code of the application, too, and
    its `submit` may block; so it is called on the client's callback thread, never on the loop's. While every thread of a ThreadPoolExecutor
    is in a wait that only callbacks can end (`waiting`), callbacks run on the client's thread.

    `submit` takes a lock and is for threads of the client. Application threads `post`, and the loop submits for them: a signal handler
    that runs while its thread holds the lock may wait for the loop, which would wait for the lock.
    """

    __slots__ = ("_blocked", "_executor", "_pending", "_posted", "_wakeup", "_workers", "client_id")

    def __init__(self, executor: Executor | None = None, client_id: str = "pykafka4") -> None:
        self._executor, self.client_id = executor, client_id
        self._workers = Workers("pykafka4-callbacks", 1, client_id)
        self._pending: dict[_Callback, None] = {}  # submitted to the executor and not begun
        self._blocked: dict[Any, None] = {}  # executor threads that are in `waiting`
        self._posted: deque[Callable[[], Any]] = deque()
        self._wakeup: Wakes | None = None  # of the loop that submits posted callbacks

    def post(self, fn: Callable[[], Any]) -> None:
        """Let the loop submit `fn`; submit it here if the loop has ended."""
        self._posted.append(fn)  # before checking for the loop, which is unset before its last `submit_posted`
        wakeup = self._wakeup
        if wakeup is None:
            self.submit_posted()
        else:
            wakeup.wake()

    def submit_posted(self) -> None:
        """Submit the posted callbacks."""
        while self._posted:
            try:
                fn = self._posted.popleft()
            except IndexError:  # without a loop, several threads may be here
                return
            self.submit(fn)

    def serve(self, wakeup: Wakes | None) -> None:
        """From now on the loop that `wakeup` wakes calls `submit_posted` in each turn; None: there is no loop any more."""
        self._wakeup = wakeup

    def submit(self, fn: Callable[[], Any]) -> None:
        """Run `fn` soon. What it raises is logged and never reaches the loop."""
        callback = _Callback(fn, self)
        if self._executor is not None:
            self._pending[callback] = None
        self._workers.submit(callback if self._executor is None else lambda: self._hand_over(callback))

    def _hand_over(self, callback: _Callback) -> None:
        executor = self._executor
        if executor is not None:
            try:
                future = executor.submit(callback)
                future.add_done_callback(lambda _: self._look_after(callback))
                if not self._all_blocked():  # checked after adding to `_pending`, where a thread that blocks later finds it
                    return
            except BaseException as error:  # most likely it was shut down before the client
                log.warning("%s: callback_executor rejected a callback (%r); callbacks now run on a client thread", self.client_id, error)
                self._executor = None
        callback()

    def _look_after(self, callback: _Callback) -> None:
        """The executor is done with it. If it was cancelled (`shutdown(cancel_futures=True)`), it still has to run."""
        if not callback.begun:
            self._workers.submit(callback)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A `with` block in which the calling thread may wait until callbacks have run."""
        me = system.current_thread()
        if not self.on_executor():
            yield
            return
        self._blocked[me] = None  # no Ctrl-C here: it is raised in the main thread, which belongs to no executor
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
        work = getattr(pool, "_work_queue", None)  # the pool lists a thread only after it has started to work
        return any(argument is work for argument in getattr(thread, "_args", ()))

    def in_callback(self) -> bool:
        """Whether the calling thread is running a callback: then it must not wait for something that needs another callback."""
        return system.current_thread() in _inside


class Feed:
    """A bounded queue of events for one listener, however slow it is.

    Events of one key alternate (offline, online, offline …): a waiting pair that cancels itself out is dropped, so the listener always
    ends up with the current state. With `latest` only the last event of a key waits.
    """

    __slots__ = ("_callbacks", "_listener", "_lock", "_pending", "_scheduled")

    def __init__(self, callbacks: Callbacks, listener: Callable[[object], Any]) -> None:
        self._callbacks, self._listener = callbacks, listener
        self._lock = system.RLock()
        self._pending: dict[object, list[object]] = {}
        self._scheduled = False

    def latest(self, key: object, event: object) -> None:
        """Queue `event` in place of the waiting ones of its key."""
        with self._lock:
            self._pending[key] = [event]
        self._schedule()

    def alternate(self, key: object, event: object) -> None:
        """Queue `event` after the waiting ones of its key."""
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
            except BaseException:  # the following events are still delivered
                log.exception("%s: a client.events listener raised an exception", self._callbacks.client_id)


class Helper:
    """Threads for work that may block: slow codecs; a separate instance looks up names, which may hang. They are never joined."""

    __slots__ = ("_workers",)

    def __init__(self, name: str = "pykafka4-helper", most: int = HELPERS, client_id: str = "pykafka4") -> None:
        self._workers = Workers(name, most, client_id)

    def submit(self, run: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call `then(result or exception)` on the helper's thread when `run()` is done."""

        def work() -> None:
            try:
                result = run()
            except Exception as error:
                result = error
            then(result)

        self._workers.submit(work)
