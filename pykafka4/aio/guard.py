"""Guards an asyncio consumer. Invariant: one task at a time polls, unsubscribes, begins a run, or is in a step of a transaction, but
a listener may unsubscribe during such a call. Any task may call other methods meanwhile. Outside a listener, `close` waits, up to its
timeout, until that one task has ended its call.

Tasks switch only where they await. So between two awaits only a signal handler, a destructor or a callback (such as a deserializer) can
make a call, and `check_whole` refuses such a call in the middle of a step. A listener may use the consumer. A scope in the context marks
the listener and the tasks that it starts, because a coroutine of the listener runs in a separate task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

import attrs

from pykafka4.consumer.guard import Guard
from pykafka4.consumer.reading.reader import Reader
from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal

__all__ = ["SCOPES", "TaskUse", "TaskGuard"]

# The scopes, each of a listener's method or of a close, to which the running code belongs.
SCOPES: Final[ContextVar[tuple[object, ...]]] = ContextVar("pykafka4_scopes", default=())


@attrs.frozen(eq=False)
class TaskUse:
    """The task that has a consumer to itself, and the name of its call."""

    task: asyncio.Task[Any]
    what: str

    @property
    def over(self) -> bool:
        return _ended(self.task)

    @property
    def stuck(self) -> bool:
        """Whether the call cannot go on while this thread waits."""
        loop = self.task.get_loop()
        return self.over or not loop.is_running() or loop is asyncio._get_running_loop()


class TaskGuard(Guard):
    """Remembers which task has a consumer to itself, and whether a task closes the consumer."""

    def __init__(self, reader: Reader, signal: Signal, check: Callable[[], None]) -> None:
        super().__init__(reader, signal, check)
        self._holder: TaskUse | None = None
        self._closing_scope: object = None
        self.listener_scope: object = None  # the scope of the running method of the listener
        self.detached = False  # a thread closes the consumer without its event loop

    def enter(self, what: str) -> bool:
        """Check that a call may begin; return whether the call needs a `leave` (only if the consumer is detached)."""
        if self.detached:
            return super().enter(what)
        self._check()
        self.check_whole(what)
        return False

    def check_whole(self, what: str) -> None:
        if self._reader.changing:
            if self._inside(system.current_thread()):
                raise KafkaError(f"a signal handler, destructor or callback called {what} during another call: call wakeup() there")
            self._reader.recover()  # Ctrl-C has ended a step, and left `changing` set

    def in_listener(self) -> bool:
        """Whether the calling code belongs to the running method of the listener."""
        return self.listener_scope is not None and self.listener_scope in SCOPES.get()

    @contextlib.contextmanager
    def exclusive(self, what: str, *, within: bool = False) -> Iterator[TaskUse]:
        """Admit one task at a time to a `with` block, even across awaits.

        `within`: the call comes from a listener, and may join the block of the task that has the consumer.
        """
        self.enter(what)
        task = asyncio.current_task()
        assert task is not None
        mine, other = TaskUse(task, what), self._holder
        if within and other is not None:
            yield other
            return
        if other is not None and not other.over:
            raise self._occupied(task, what, other.task, other.what)
        self._holder = mine
        try:
            yield mine
        finally:
            if self.holds(mine):
                self._holder = None
            if self.closing:
                self._signal.notify()

    def _ended(self, user: Any) -> bool:
        return _ended(user)

    def _occupied(self, mine: Any, what: str, other: Any, where: str) -> KafkaError:
        return KafkaError(
            f"task {mine.get_name()!r} called {what} while task {other.get_name()!r} is in {where}: "
            "poll from one task at a time, or use one consumer per task"
        )

    def holds(self, holder: TaskUse) -> bool:
        """Whether `holder` still has the consumer: after the end of its event loop another task may have taken over."""
        return self._holder is holder

    # ---------------------------------------------------------------- closing

    def begin_closing(self) -> bool:
        """Refuse all other tasks from now on, except tasks that this task starts, and the running method of the listener (see SCOPES)."""
        if self.detached:
            return super().begin_closing()
        self._closing_scope = object()
        SCOPES.set((*SCOPES.get(), self._closing_scope))
        self.closing = True
        return True

    def shut(self) -> bool:
        if self.detached:
            return super().shut()
        return self.closing and not self.close_waits()

    def close_waits(self) -> bool:
        """Whether a close waits for the calling code, which belongs to that close, or to the running method of the listener."""
        return self._closing_scope in SCOPES.get() or self.in_listener()

    def end_closing(self) -> None:
        super().end_closing()
        self._closing_scope = None

    @contextlib.contextmanager
    def use_last(self, timeout: float) -> Iterator[None]:
        """Wait up to `timeout` seconds until no task has the consumer, or the task that has it cannot go on while this thread waits."""
        self._signal.wait(lambda: self.unused() or self._holder is None or self._holder.stuck, timeout)
        yield

    def unused(self) -> bool:
        return self._holder is None or self._holder.over


def _ended(task: asyncio.Task[Any]) -> bool:
    """Whether the task can never continue: it has ended, or its event loop is closed."""
    return task.done() or task.get_loop().is_closed()
