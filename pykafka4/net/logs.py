"""Runs the logging handlers for the log records of loop threads on a separate thread. Invariant: the loop never waits for a handler.

While MOST_WAITING entries wait, further entries are dropped, and their number is logged. The thread ends with the last loop. Records keep
the time and the thread of their origin. The thread is a real thread even if the client runs in virtual time, because handlers are not part
of the client. The thread also looks for loops that hang (`hangs`).
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from pykafka4.logs import Entry, get_log, set_divert
from pykafka4.native import Empty, RLock, SimpleQueue, monotonic
from pykafka4.net import system, threads
from pykafka4.net.hangs import LOOK_S, HangWatch, WatchedLoop

__all__ = ["FLUSH_S", "MOST_WAITING", "LogThread", "current"]

MOST_WAITING: Final = 1000  # entries that may wait
FLUSH_S: Final = 1.0  # limit of the wait for the handlers when a loop is closed or the interpreter exits

log = get_log("pykafka4.log")


class WaitingEntry(NamedTuple):
    entry: Entry
    created: float  # seconds since the epoch
    thread: int
    thread_name: str

    def handle(self) -> None:
        """Create the record, with its original time and thread, and run the handlers."""
        record = self.entry.record()
        record.relativeCreated -= (record.created - self.created) * 1000
        record.created, record.msecs = self.created, float(int(self.created * 1000) % 1000)
        record.thread, record.threadName = self.thread, self.thread_name
        self.entry.logger.handle(record)


class LogThread:
    """The thread that runs the handlers, for all loops of the process."""

    __slots__ = ("_dropped", "_ending", "_guard", "_hangs", "_loops", "_queue", "_reported", "_thread", "_users")

    def __init__(self) -> None:
        self._guard = RLock()  # for starts, ends and flushes; `divert` does not take it
        self._queue: SimpleQueue[WaitingEntry | Callable[[], object] | None] = SimpleQueue()  # `put` never waits
        self._thread: threads.Thread | None = None
        self._users: set[object] = set()
        self._ending = False  # the last loop has ended: the thread handles the waiting entries, then ends
        self._loops: dict[int, str] = {}  # idents of the loop threads, and their names
        self._hangs = HangWatch()
        self._dropped = self._reported = 0

    # -- for loops

    def retain(self, user: object) -> None:
        """Start a thread, unless one is running and not about to end; `release` takes the same `user`."""
        with self._guard:
            self._users.add(user)
            if self._thread is not None and not self._ending:
                return
            queue: SimpleQueue[WaitingEntry | Callable[[], object] | None] = SimpleQueue()  # a previous thread may still read its own queue
            thread = threads.Thread(target=self._run, args=(queue,), name="pykafka4-log", daemon=True)
            try:
                thread.start()
                self._queue, self._thread, self._ending = queue, thread, False
            except BaseException:  # perhaps Ctrl-C, before or after the start: the thread, if there is one, ends at the None in its queue
                self._ending = True
                queue.put(None)
                raise

    def release(self, user: object) -> None:
        """Forget `user`. After the last user, the thread handles the waiting entries and ends."""
        with self._guard:
            self._users.discard(user)
            if not self._users and self._thread is not None and not self._ending:
                self._ending = True
                self._queue.put(None)

    def enter(self, loop: WatchedLoop | None = None) -> None:
        """Mark the calling thread as a loop thread: it runs no handlers, and is watched for hangs if `loop` is given."""
        self._loops[system.get_ident()] = system.current_thread().name
        if loop is not None:
            self._hangs.begin(system.get_ident(), loop)

    def leave(self) -> None:
        self._loops.pop(system.get_ident(), None)
        self._hangs.end(system.get_ident())

    def on_loop(self) -> bool:
        return system.get_ident() in self._loops

    def flush(self, timeout: float = FLUSH_S) -> bool:
        """Wait up to `timeout` seconds until the thread has handled the entries in its queue; return whether it has.

        Returns False at once on a loop thread, on the log thread, and before the first log thread.
        """
        handled = threads.new_lock()
        handled.acquire()
        with self._guard:
            thread, ending = self._thread, self._ending
            if thread is None or threads.caller() is thread or system.get_ident() in self._loops:
                return False
            if not ending:
                self._queue.put(handled.release)
        if not ending:
            return bool(handled.acquire(True, timeout))
        thread.join(timeout)
        return not thread.is_alive()

    # -- for threads that log

    def divert(self, entry: Entry) -> bool:
        """On a loop thread, queue `entry`, or drop it if the queue is full, and return True; elsewhere return False. Never waits."""
        name = self._loops.get(system.get_ident())
        if name is None:
            return False
        if self._queue.qsize() >= MOST_WAITING:
            self._dropped += 1
        else:
            self._queue.put(WaitingEntry(entry, time.time(), system.get_ident(), name))
        return True

    def aside(self, act: Callable[[], object]) -> None:
        """Call `act`, which may run code of the application: at once, or on the log thread if the caller is a loop thread."""
        if self.on_loop():
            self._queue.put(act)
        else:
            act()

    # -- the thread

    def _run(self, queue: SimpleQueue[WaitingEntry | Callable[[], object] | None]) -> None:
        look_at = monotonic() + LOOK_S
        while True:
            if (now := monotonic()) >= look_at:  # checked before the queue, which may never be empty
                _attempt(partial(self._hangs.look, now))
                look_at = monotonic() + LOOK_S
            try:
                waiting = queue.get(timeout=max(0.0, look_at - monotonic()))
            except Empty:
                continue
            if waiting is None:
                return
            if isinstance(waiting, WaitingEntry):
                _attempt(waiting.handle)
                _attempt(self._report_dropped)
            else:
                _attempt(waiting)
            del waiting  # otherwise this frame keeps the entry's objects alive until the next entry

    def _report_dropped(self) -> None:
        dropped = self._dropped
        if dropped > self._reported:
            log.warning("the logging handlers are too slow; dropped log records: %d", dropped - self._reported)
            self._reported = dropped


def _attempt(act: Callable[[], object]) -> None:
    """Call `act`, and print an exception to stderr, as `logging` does, so that the thread continues."""
    try:
        act()
    except BaseException:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()


_current: list[LogThread] = []


def current() -> LogThread:
    return _current[0]


def _begin() -> None:
    """Make a new LogThread, also in a forked child: the parent's thread does not exist there, and a lock held at the fork stays locked."""
    _current[:] = [LogThread()]
    set_divert(_current[0].divert)


_begin()
atexit.register(lambda: current().flush())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
