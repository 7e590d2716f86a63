"""Tasks that wait. Rule: a task sleeps on a future of its own loop; whatever wakes it, on any thread, never blocks.

The counterpart of `net.handoff`'s latches, which threads sleep on.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.producer.deliveries import Tasks, running_loop

__all__ = ["Home", "TaskLatch"]

T = TypeVar("T")
INSTEAD = {"on_delivery": "await the Delivery instead", "on_done": "await commit instead"}


class TaskLatch:
    """A latch that one task sleeps on."""

    __slots__ = ("_future", "_open", "_tasks")

    def __init__(self, home: Home) -> None:
        self._tasks, self._open = home.tasks, False
        self._future: asyncio.Future[None] | None = None

    def locked(self) -> bool:
        """Whether it is closed."""
        return not self._open

    def release(self) -> None:
        """Open it, on any thread."""
        self._open = True
        self._tasks.wake(self._look)

    def gone(self) -> bool:
        """Whether the task can never go on, because its event loop is closed."""
        return self._tasks.over

    def _look(self) -> None:
        if self._open:  # the sleep that this call was meant for may be over, because it found the latch open
            self._end_sleep()

    def _end_sleep(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def sleep(self, deadline: float | None) -> bool:
        """Sleep until it is opened, at most until `deadline` (monotonic seconds); returns whether it was. It is closed again then."""
        if not self._open:
            loop = running_loop()
            self._future = loop.create_future()
            timer = None if deadline is None else loop.call_later(max(0.0, deadline - system.monotonic()), self._end_sleep)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        opened, self._open = self._open, False
        return opened


class Home:
    """The event loop that a handle belongs to: the first one that it is used on, until that is closed."""

    __slots__ = ("_loop", "_name", "_what", "tasks")

    def __init__(self, what: str) -> None:
        self._what, self._name = what, what.removeprefix("aio.")
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self.tasks: Tasks

    def enter(self) -> None:
        """Called by every method that waits, on the loop that runs it. RuntimeError if that is another one than before."""
        loop = running_loop()
        known = None if self._loop is None else self._loop()
        if known is loop:
            return
        if known is not None and not known.is_closed():
            raise RuntimeError(f"this {self._what} is used on another event loop; create one for each loop, or use pykafka4.{self._name}")
        self._loop, self.tasks = weakref.ref(loop), Tasks(loop)

    def visit(self) -> None:
        """Called by methods that wait for nothing; also allowed while no event loop runs, before the first and between two."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        known = None if self._loop is None else self._loop()
        if known is None or known is loop or known.is_closed() or (loop is None and not known.is_running()):
            return
        raise RuntimeError(f"this {self._what} is used on another event loop or thread; create one for each, or use pykafka4.{self._name}")

    async def aside(self, fn: Callable[[], T], client_id: str, name: str = "pykafka4-close") -> T:
        """Run `fn`, which may take seconds, on a thread of its own."""
        ended: Promise[T] = Promise(client_id)

        def end() -> None:
            try:
                ended.set_result(fn())
            except BaseException as error:
                ended.set_exception(error)

        try:
            system.Thread(target=end, name=name, daemon=True).start()
        except RuntimeError:  # the system is out of threads, or the interpreter shuts down
            end()
        await self.done(ended, None)
        return ended.result(0)

    async def until(self, latch: TaskLatch, predicate: Callable[[], bool], deadline: float | None) -> bool:
        """Sleep on `latch` until `predicate()` is true, at most until `deadline`; returns its last value."""
        while not predicate():
            if not await latch.sleep(deadline):
                return predicate()
        return True

    async def done(self, promise: Promise[Any], deadline: float | None) -> bool:
        """Wait until `promise` has its result, at most until `deadline`."""
        latch = TaskLatch(self)
        promise.add_done_callback(lambda _: latch.release())
        return await self.until(latch, promise.done, deadline)

    def call_back(self, fn: Callable[..., object], name: str = "on_delivery") -> Callable[..., None]:
        """`fn`, the argument `name`, as a callback that may be called on any thread: it runs on the event loop, in the present context.

        TypeError if it is a coroutine function, which nobody would await.
        """
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
            raise TypeError(f"{name} must be a plain function, not the coroutine function {fn!r}; {INSTEAD[name]}")

        def run(*arguments: Any) -> None:
            try:
                result = fn(*arguments)
                if inspect.iscoroutine(result):  # of a lambda, or a partial
                    result.close()
                    raise TypeError(f"{name} must be a plain function; {fn!r} returned a coroutine, which nobody awaits")
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # also CancelledError, of a future that the callback asks for its result
                loop = asyncio.get_running_loop()
                message = f"a callback of a pykafka4 {self._what} raised an exception"
                loop.call_exception_handler({"message": message, "exception": error})

        context = contextvars.copy_context()
        return lambda *arguments: self.tasks.wake(lambda: context.run(run, *arguments))
