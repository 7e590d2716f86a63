"""Puts asyncio tasks to sleep until a thread wakes them. Invariant: a task sleeps on a future of its own loop, and loses no wake-up.

A `TaskLatch` is a `Latch` of `net.handoff`.
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
from pykafka4.producer.deliveries import TaskWaker, running_loop

__all__ = ["EventLoopBinding", "TaskLatch"]

T = TypeVar("T")
INSTEAD = {"on_delivery": "await the Delivery instead", "on_done": "await commit instead"}


class TaskLatch:
    """A latch on which one task sleeps. Any thread may open it."""

    __slots__ = ("_future", "_open", "_tasks")

    def __init__(self, binding: EventLoopBinding) -> None:
        self._tasks, self._open = binding.tasks, False
        self._future: asyncio.Future[None] | None = None

    def locked(self) -> bool:
        return not self._open

    def release(self) -> None:
        self._open = True
        self._tasks.run_soon(self._end_sleep_if_open)

    def gone(self) -> bool:
        """Whether the task can never continue, because its event loop is closed."""
        return self._tasks.over

    def _end_sleep_if_open(self) -> None:
        # The task may have found the latch open without this call, closed it, and begun another sleep, which this late call must not end.
        if self._open:
            self._end_sleep()

    def _end_sleep(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def sleep(self, deadline: float | None) -> bool:
        """Sleep until the latch is open, at most until `deadline` (monotonic seconds); close it, and return whether it was open."""
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


class EventLoopBinding:
    """The event loop to which a handle belongs: the loop of its first use, until that loop is closed."""

    __slots__ = ("_loop", "_name", "_what", "tasks")

    def __init__(self, what: str) -> None:
        self._what, self._name = what, what.removeprefix("aio.")
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self.tasks: TaskWaker

    def enter(self) -> None:
        """Bind the handle to the running event loop. Raises RuntimeError for a handle of another loop."""
        loop = running_loop()
        known = None if self._loop is None else self._loop()
        if known is loop:
            return
        if known is not None and not known.is_closed():
            raise RuntimeError(f"this {self._what} is used on another event loop; create one for each loop, or use pykafka4.{self._name}")
        self._loop, self.tasks = weakref.ref(loop), TaskWaker(loop)

    def check_caller(self) -> None:
        """Check the thread and loop of a method that does not wait, which may also be called while no event loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        known = None if self._loop is None else self._loop()
        if known is None or known is loop or known.is_closed() or (loop is None and not known.is_running()):
            return
        raise RuntimeError(f"this {self._what} is used on another event loop or thread; create one for each, or use pykafka4.{self._name}")

    async def run_on_thread(self, fn: Callable[[], T], client_id: str, name: str = "pykafka4-close") -> T:
        """Run `fn`, which may take seconds, on a new thread, or here if no thread can start; return its result, or raise its error."""
        ended: Promise[T] = Promise(client_id)

        def end() -> None:
            try:
                ended.set_result(fn())
            except BaseException as error:
                ended.set_exception(error)

        try:
            system.Thread(target=end, name=name, daemon=True).start()
        except RuntimeError:  # the system is out of threads, or the interpreter is shutting down
            end()
        await self.done(ended, None)
        return ended.result(0)

    async def until(self, latch: TaskLatch, predicate: Callable[[], bool], deadline: float | None) -> bool:
        """Sleep on `latch` until `predicate()` is true, at most until `deadline`; return whether it became true."""
        while not predicate():
            if not await latch.sleep(deadline):
                return predicate()
        return True

    async def done(self, promise: Promise[Any], deadline: float | None) -> bool:
        """Wait for `promise`, at most until `deadline`; return whether `promise` is done."""
        latch = TaskLatch(self)
        promise.add_done_callback(lambda _: latch.release())
        return await self.until(latch, promise.done, deadline)

    async def callbacks_run(self) -> None:
        """Wait until this event loop has run the callbacks that other threads have passed to it."""
        run = asyncio.Event()
        self.tasks.run_soon(run.set)  # behind these callbacks
        await run.wait()

    def call_back(self, fn: Callable[..., object], name: str = "on_delivery") -> Callable[..., None]:
        """Wrap `fn`, the argument `name`, so that any thread may call it: `fn` runs on the event loop, in the context of this call.

        Raises TypeError for a coroutine function, whose coroutine would never be awaited.
        """
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
            raise TypeError(f"{name} must be a plain function, not the coroutine function {fn!r}; {INSTEAD[name]}")

        def run(*arguments: Any) -> None:
            try:
                result = fn(*arguments)
                if inspect.iscoroutine(result):  # the coroutine of a lambda or partial
                    result.close()
                    raise TypeError(f"{name} must be a plain function; {fn!r} returned a coroutine, which is never awaited")
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # also CancelledError, which `result()` of a cancelled future raises in the callback
                loop = asyncio.get_running_loop()
                message = f"a callback of a pykafka4 {self._what} raised an exception"
                loop.call_exception_handler({"message": message, "exception": error})

        context = contextvars.copy_context()
        return lambda *arguments: self.tasks.run_soon(lambda: context.run(run, *arguments))
