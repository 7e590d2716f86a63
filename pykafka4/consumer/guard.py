"""Guard. Rule: one thread at a time is in the calls of a consumer, and Ctrl-C in one of them shuts nobody out.

Ctrl-C can end a call before it gives the consumer back. So whoever finds it taken looks whether the thread that has it is still in a call:
a function marked with `call` is on that thread's stack then.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from threading import Thread
from types import CodeType
from typing import Any, Final, TypeVar

from pykafka4.core.consumer.reader import Reader
from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal

__all__ = ["Guard", "call"]

CALLS: Final[set[CodeType]] = set()

Call = TypeVar("Call", bound=Callable[..., Any])


def call(method: Call) -> Call:
    """A method that applications call: it has the consumer while it is on a thread's stack. `self.guard` of its object is the guard."""
    CALLS.add(method.__code__)
    return method


class Guard:
    """Who uses a consumer, and who closes it. Only `use_last` waits."""

    def __init__(self, reader: Reader, signal: Signal, check: Callable[[], None]) -> None:
        """`signal` is notified when the last call before a close ends; `check` raises what every call would raise."""
        self._reader, self._signal, self._check = reader, signal, check
        self._busy: dict[str, tuple[Thread, str]] = {}  # who uses the consumer, and for what
        self._closer: dict[str, tuple[Thread, object]] = {}  # who closes: its listener may still commit
        self.closing = False

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[None]:
        """A block that has the consumer for this thread."""
        outermost = self.enter(what)
        try:
            yield
        finally:
            if outermost:
                self.leave()

    def enter(self, what: str) -> bool:
        """Have the consumer for this thread; whether this call is the one to give it back."""
        self._check()
        mine = (system.current_thread(), what)
        holder = self._busy.setdefault("user", mine)  # one step under the interpreter's lock: only one of two threads gets it
        if holder is mine:
            self._reader.changing = False  # Ctrl-C may have left it set
            return True
        if not self._inside(holder[0]):  # Ctrl-C ended that call before it could give the consumer back
            self._busy.clear()
            return self.enter(what)
        if holder[0] is not mine[0]:
            raise KafkaError(
                f"thread {mine[0].name!r} called {what} while thread {holder[0].name!r} is in {holder[1]}: "
                "use a consumer from one thread at a time, or one consumer per thread"
            )
        self.check_whole(what)
        return False

    def leave(self) -> None:
        """Give the consumer back."""
        self._busy.clear()
        if self.closing:
            self._signal.notify()

    def check_whole(self, what: str) -> None:
        """Refuse a call that comes in the middle of another one on the same thread: records would be lost or handed out twice."""
        holder = self._busy.get("user")
        if self._reader.changing and holder is not None and holder[0] is system.current_thread() and self._inside(holder[0]):
            raise _in_the_middle(what, holder[1])

    def refusal(self, what: str) -> KafkaError:
        """Why `what` cannot be called inside the call that has the consumer."""
        return _in_the_middle(what, self._busy["user"][1])

    def _inside(self, thread: Thread) -> bool:
        """Whether `thread` is in a call of this consumer; of the calling thread: in another call than the present one."""
        found, frame = 0, sys._current_frames().get(thread.ident or 0)
        while frame is not None:
            found += frame.f_code in CALLS and getattr(frame.f_locals.get("self"), "guard", None) is self
            frame = frame.f_back
        return found > (thread is system.current_thread())

    # ---------------------------------------------------------------- closing

    def begin_closing(self) -> bool:
        """Let nobody in any more but this thread; False if a close is under way, in this thread or another."""
        mine = (system.current_thread(), object())
        closer = self._closer.setdefault("closer", mine)
        if closer is not mine:
            if self._inside(closer[0]):
                return False
            self._closer["closer"] = mine  # Ctrl-C ended the close before
        self.closing = True
        return True

    def shut(self) -> bool:
        """Whether another thread closes the consumer, or has closed it."""
        return self.closing and system.current_thread() is not self._closer.get("closer", (None, None))[0]

    def end_closing(self) -> None:
        """It is closed."""
        self._closer.clear()

    @contextlib.contextmanager
    def use_last(self, timeout: float) -> Iterator[None]:
        """Have the consumer for closing it. Another thread's poll ends now; its listener may take a while, up to `timeout` seconds."""
        me = system.current_thread()
        inside = self._busy.get("user", (None, ""))[0] is me
        if not inside:
            self._signal.wait(self._unused, timeout)
            self._busy["user"] = (me, "close")
        try:
            yield
        finally:
            if not inside:
                self._busy.clear()

    def _unused(self) -> bool:
        """Whether no other thread is in a call of this consumer."""
        holder = self._busy.get("user")
        return holder is None or not self._inside(holder[0])


def _in_the_middle(what: str, other: str) -> KafkaError:
    return KafkaError(
        f"a signal handler or destructor called {what} during {other}: call wakeup() there, and {what} after {other} has returned"
    )
