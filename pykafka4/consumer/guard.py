"""Guards a consumer. Invariant: one thread at a time uses the consumer (unless a `close` has given up waiting for another thread), and a
call that Ctrl-C has interrupted blocks no later call.

Ctrl-C can end a call before the call releases the consumer. Therefore a thread that finds the consumer in use checks whether the recorded
thread has a function marked with `call` on its stack.

`tests/consumer/test_guard.py` lists the public methods of `Consumer` that use the guard, and the other methods with the reasons.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from threading import Thread
from types import CodeType
from typing import Any, Final, Protocol, TypeVar

from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal

__all__ = ["Guard", "Iteration", "call"]

CALLS: Final[set[CodeType]] = set()

Call = TypeVar("Call", bound=Callable[..., Any])
T = TypeVar("T")


def call(method: Call) -> Call:
    """Mark a method of an object with a `guard`: a thread with the method on its stack may be using the consumer."""
    CALLS.add(method.__code__)
    return method


class Recoverable(Protocol):
    """An object with steps during which it must not be called, such as a `Reader`."""

    changing: bool  # True during such a step, and after a step that an exception has left in the middle

    def recover(self) -> None:
        """Make records that no poll has returned available to later polls, and clear `changing`."""


class GuardedUse:
    """A class, because a context manager from a generator would take as long as a seek."""

    __slots__ = ("_guard", "_outermost", "_what")

    def __init__(self, guard: Guard, what: str) -> None:
        self._guard, self._what = guard, what

    def __enter__(self) -> None:
        self._outermost = self._guard.enter(self._what)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._outermost:
            self._guard.leave()
        elif kind is not None:  # a listener may handle the exception of a signal handler: then the call around the listener continues
            self._guard.recover()


class Iteration:
    """A loop over a consumer. Between two of its polls, no other thread or task may poll, because a record of the last poll is in hand."""

    __slots__ = ("iterator", "user")

    def __init__(self) -> None:
        self.iterator: weakref.ref[Any] | None = None  # when the iterator is freed, the loop has ended
        self.user: Any = None  # the thread or task that polled last in this loop

    def follow(self, iterator: T) -> T:
        """Have the loop last as long as `iterator`, and return `iterator`."""
        self.iterator = weakref.ref(iterator)
        return iterator

    @property
    def ended(self) -> bool:
        """Whether the iterator was freed, or is an async generator that has ended."""
        iterator = None if self.iterator is None else self.iterator()
        return iterator is None or getattr(iterator, "ag_frame", iterator) is None


class Guard:
    """Remembers which thread uses a consumer, and which thread closes it. Only `use_last` waits."""

    def __init__(self, reader: Recoverable, signal: Signal, check: Callable[[], None]) -> None:
        """`signal` is notified when the last call before a close ends; `check` raises the error that every call would raise, if any."""
        self._reader, self._signal, self._check = reader, signal, check
        # The thread that uses the consumer, and its call; a release stores a new dict.
        self.busy: dict[str, tuple[Thread, str]] = {}
        self._closer: dict[str, tuple[Thread, object]] = {}  # the thread that closes, in which the listener may still commit
        self.closing = False
        self.listening = False  # the thread that uses the consumer is in a method of the listener
        self.iterations: list[Iteration] = []  # loops that have polled, and may have a record in hand
        self.lent: tuple[Thread, str] | None = None  # the thread that has the consumer even between its calls, and the reason, for messages

    def using(self, what: str) -> GuardedUse:
        return GuardedUse(self, what)

    def exclusive(self, what: str) -> contextlib.AbstractContextManager[Any]:
        """Reserve the consumer for this thread or task during a `with` block, even across awaits."""
        return self.using(what)

    def enter(self, what: str) -> bool:
        """Begin to use the consumer; return whether this call has to `leave` (not if an outer call of this thread does)."""
        self._check()
        mine = (system.current_thread(), what)
        if self.lent is not None:
            self._check_lent(*mine)
        busy = self.busy
        holder = busy.setdefault("user", mine)  # atomic under the GIL: only one of two threads finds its own entry
        if holder is mine:
            self.recover()
            # A close may have begun after `_check`. If `use_last` checked before this entry was made, it found no thread to wait for, and
            # both threads would use the consumer; so this thread checks again after its entry, and steps back.
            if self.shut():
                self.leave()
                self._check()
            return True
        if not self._inside(holder[0]):  # Ctrl-C ended that call before it could release the consumer
            # Another thread may have found the same entry. There is no call between these two lines, so no thread can remove the entry and
            # use the consumer between them; with a call, this thread would remove the entry of that thread.
            if self.busy is busy and busy["user"] is holder:
                self.busy = {}
            return self.enter(what)
        if holder[0] is not mine[0]:
            self._check()
            raise self._occupied(*mine, *holder)
        self.check_whole(what)
        return False

    def iterate(self, user: Any, iteration: Iteration | None, what: str = "poll") -> None:
        """Raises KafkaError while another user is in a loop: this poll would count the record in that user's hands as finished."""
        if other := self.looping(user, iteration):
            raise self._occupied(user, what, other.user, "a loop")
        if iteration is not None:
            iteration.user = user
            self.iterations.append(iteration)

    def looping(self, user: Any, iteration: Iteration | None = None) -> Iteration | None:
        """Return a loop of another user than `user`, but not `iteration`; None if there is none."""
        self.iterations = [one for one in self.iterations if one is not iteration and not one.ended and not self._ended(one.user)]
        return next((one for one in self.iterations if one.user is not user), None)

    def _ended(self, user: Any) -> bool:
        return not user.is_alive()

    def _occupied(self, mine: Any, what: str, other: Any, where: str) -> KafkaError:
        return KafkaError(
            f"thread {mine.name!r} called {what} while thread {other.name!r} is in {where}: "
            "use a consumer from one thread at a time, or one consumer per thread"
        )

    def _check_lent(self, thread: Thread, what: str) -> None:
        lent = self.lent
        if lent is not None and lent[0] is not thread and not self.closing:  # during a close, `check` refuses all other threads
            raise KafkaError(f"thread {thread.name!r} called {what} while {lent[1]}")

    def recover(self) -> None:
        if self._reader.changing:
            self._reader.recover()

    def leave(self) -> None:
        self.busy = {}
        if self.closing:
            self._signal.notify()

    def check_whole(self, what: str) -> None:
        """Refuse a call during a step of another call on the same thread: otherwise records could be lost or returned twice."""
        holder = self.busy.get("user")
        if self._reader.changing and holder is not None and holder[0] is system.current_thread() and self._inside(holder[0]):
            raise _nested_call(what, holder[1])

    def refusal(self, what: str) -> KafkaError:
        return _nested_call(what, self.busy["user"][1])

    def _inside(self, thread: Thread) -> bool:
        """Whether `thread` is in a call of this consumer; for the current thread: in another call besides the running one."""
        found = 0
        frame = system.frame_of(thread)
        while frame is not None:
            found += frame.f_code in CALLS and getattr(frame.f_locals.get("self"), "guard", None) is self
            frame = frame.f_back
        return found > (thread is system.current_thread())

    # ---------------------------------------------------------------- closing

    def begin_closing(self) -> bool:
        """Refuse other threads from now on (see `shut`). Returns False if a close is already running, in this thread or another."""
        mine = (system.current_thread(), object())
        closer = self._closer.setdefault("closer", mine)
        if closer is not mine:
            if self._inside(closer[0]):
                return False
            self._closer["closer"] = mine  # Ctrl-C has ended that close
        self.closing = True
        return True

    def shut(self) -> bool:
        """Whether the consumer is closed, or another thread closes it. False in a listener on this thread, for which the close waits."""
        me = system.current_thread()
        return self.closing and me is not self.closer() and not (self.listening and self.busy.get("user", (None, ""))[0] is me)

    def closer(self) -> Thread | None:
        return self._closer.get("closer", (None, None))[0]

    def end_closing(self) -> None:
        self._closer.clear()

    @contextlib.contextmanager
    def use_last(self, timeout: float) -> Iterator[None]:
        """Use the consumer to close it. Waits up to `timeout` seconds until the call of another thread has ended."""
        me = system.current_thread()
        inside = self.busy.get("user", (None, ""))[0] is me
        if not inside:
            unused = self._signal.wait(self._unused, timeout)
            self.busy["user"] = (me, "close")
            if unused:  # otherwise the other thread may still be in a step, whose state two threads must not touch
                self.recover()
        try:
            yield
        finally:
            if not inside:
                self.busy = {}

    def _unused(self) -> bool:
        holder = self.busy.get("user")
        return holder is None or not self._inside(holder[0])


def _nested_call(what: str, other: str) -> KafkaError:
    return KafkaError(
        f"a signal handler, destructor or callback called {what} during {other}: call wakeup() there, and {what} after {other} has returned"
    )
