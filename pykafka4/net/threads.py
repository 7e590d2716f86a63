"""Starts the client's threads, makes its locks, and identifies the calling thread or greenlet. Invariant: the client's own threads are
threads of the system.

Under `gevent.monkey.patch_all()` and `eventlet.monkey_patch()` a caller is a greenlet. A greenlet that waits for a lock of the client tries
again and again, and lets other greenlets run in between (`sleep` of its library). The client's threads sleep in the lock.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from pykafka4.gil import asking
from pykafka4.native import allocate_lock, get_ident, monotonic, start_new_thread

__all__ = ["GreenletThread", "Thread", "caller", "caller_ident", "frame_of", "greenlets", "new_lock"]

SLICE_S: Final = 1.0  # longest part of a wait: a signal that comes just before the system call is handled only when the call returns
FIRST_NAP_S: Final = 0.0005  # first sleep of a greenlet that waits for a lock; each further sleep is twice as long, up to LONGEST_NAP_S
LONGEST_NAP_S: Final = 0.01

_own: dict[int, Thread] = {}  # the running threads of the client, by their idents
_library = ""  # "gevent" or "eventlet", if it has replaced the threads of this process


def greenlets() -> str:
    """Return the library whose greenlets replace threads, or an empty string.

    Not for import time: the application may patch its process later.
    """
    global _library
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        _library = "gevent"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        _library = "eventlet"
    return _library


class Thread(threading.Thread):
    """A `threading.Thread` that is a thread of the system even if a library has replaced threads."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "", daemon: bool = True) -> None:
        super().__init__(target=target, args=args, name=name, daemon=daemon)
        # `_dangling` is a WeakSet for tests of `threading`. Its callback would run when this object is freed, and could swallow Ctrl-C.
        getattr(threading, "_dangling", set()).discard(self)
        self._begun: Any = None  # if a library has replaced threads: a lock, held from the start to the end of the thread
        self._number: int | None = None

    def start(self) -> None:
        if not greenlets():
            super().start()
            return
        begun = self._begun = allocate_lock()
        begun.acquire()
        try:
            start_new_thread(self._serve, ())
        except BaseException:
            begun.release()
            raise

    def run(self) -> None:
        self._number = get_ident()
        _own[self._number] = self
        try:
            super().run()
        finally:
            _own.pop(self._number, None)

    def _serve(self) -> None:
        try:
            self.run()
        except BaseException:  # no caller can get the exception
            traceback.print_exc()
        finally:
            self._begun.release()

    @property
    def ident(self) -> int | None:
        return super().ident if self._begun is None else self._number

    def is_alive(self) -> bool:
        return super().is_alive() if self._begun is None else bool(self._begun.locked())

    def join(self, timeout: float | None = None) -> None:
        until = None if timeout is None else monotonic() + timeout
        while self.is_alive() and (until is None or monotonic() < until):
            left = SLICE_S if until is None else max(0.0, min(until - monotonic(), SLICE_S))
            if self._begun is None:
                super().join(left)
            elif _acquire(self._begun, left):
                self._begun.release()


class GreenletThread:
    """A calling greenlet, with the interface of a thread."""

    __slots__ = ("_greenlet", "ident", "name")

    def __init__(self, greenlet: Any) -> None:
        self._greenlet = weakref.ref(greenlet)
        self.ident = id(greenlet)
        self.name: str = getattr(greenlet, "name", None) or f"greenlet {self.ident:x}"

    def is_alive(self) -> bool:
        greenlet = self._greenlet()
        return greenlet is not None and not greenlet.dead

    def frame(self) -> FrameType | None:
        """Return the frame in which the greenlet runs or will continue; None after its end."""
        greenlet = self._greenlet()
        if greenlet is None or greenlet.dead:
            return None
        return sys._getframe() if greenlet is _current_greenlet() else greenlet.gr_frame


def caller() -> Any:
    if not _library:
        return threading.current_thread()
    if (own := _own.get(get_ident())) is not None:
        return own
    greenlet = _current_greenlet()
    found = greenlet.__dict__.get("_pykafka4")
    if found is None:
        found = greenlet.__dict__["_pykafka4"] = GreenletThread(greenlet)
    return found


def caller_ident() -> int:
    ident: int = get_ident()
    return id(_current_greenlet()) if _library and ident not in _own else ident


def frame_of(thread: Any) -> FrameType | None:
    """Return the innermost frame of `thread`, a result of `caller`; None after the end of `thread`."""
    if isinstance(thread, GreenletThread):
        return thread.frame()
    return sys._current_frames().get(thread.ident or 0) if thread.is_alive() else None  # after its end another thread may have its ident


def new_lock() -> Any:
    """Return a lock in which the calling thread or greenlet can wait."""
    return GreenletLock() if _library and get_ident() not in _own else asking.Lock()


class GreenletLock:
    """A lock whose wait lets other greenlets run."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asking.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return _acquire(self._lock, timeout if blocking else 0.0)

    def release(self) -> None:
        """Any thread may call this."""
        self._lock.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())


def _acquire(lock: Any, timeout: float) -> bool:
    """Wait up to `timeout` seconds (negative: no limit). Client threads and the hub sleep in the lock; other greenlets nap."""
    if get_ident() in _own or _in_hub():
        return bool(lock.acquire(True, timeout))
    until = monotonic() + timeout if timeout >= 0 else float("inf")
    nap = FIRST_NAP_S
    while not lock.acquire(False):
        left = until - monotonic()
        if left <= 0:
            return False
        sys.modules[_library].sleep(min(nap, left))
        nap = min(2 * nap, LONGEST_NAP_S)
    return True


def _current_greenlet() -> Any:
    return sys.modules["greenlet"].getcurrent()


def _in_hub() -> bool:
    """The hub runs all other greenlets and cannot call `sleep` of the library. Destructors may run there."""
    if _library == "gevent":
        return _current_greenlet() is sys.modules["gevent"].get_hub()
    return _current_greenlet() is sys.modules["eventlet.hubs"].get_hub().greenlet


def _after_fork() -> None:
    """Only the thread that forked exists in the child."""
    me = _own.get(get_ident())
    _own.clear()
    if me is not None:
        _own[get_ident()] = me


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
