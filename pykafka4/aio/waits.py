"""Implements the waits of a consumer's steps in tasks. Invariant: cancelling a poll ends its wait at once.

A coroutine of the listener runs in a separate task, which the cancellation of a poll does not cancel. The next call that needs the end of
that coroutine waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import coroutine
from typing import Any, TypeVar

from pykafka4.aio.guard import SCOPES, TaskGuard
from pykafka4.aio.tasks import EventLoopBinding, TaskLatch
from pykafka4.client.steps import awaited
from pykafka4.consumer.waits import Listen, Steps, ThreadWaits
from pykafka4.core.subscription import Assigned, Ended
from pykafka4.errors import KafkaTimeoutError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import TopicPartition

__all__ = ["TaskWaits", "run"]

T = TypeVar("T")


@coroutine
def run(steps: Steps[T]) -> Steps[T]:
    """`await run(steps)`: run steps in a task."""
    return (yield from steps)


class TaskWaits(ThreadWaits):
    """`Waits` that suspend the task, or block the thread after the consumer has been detached from its event loop."""

    def __init__(self, binding: EventLoopBinding, signal: Signal, guard: TaskGuard) -> None:
        # No executor: `fn` calls a function from `EventLoopBinding.call_back`, which runs the application's callback on the event loop.
        super().__init__(signal, lambda fn: fn())
        self._binding, self._guard = binding, guard
        self._running: asyncio.Future[Any] | None = None  # the running method of the listener, if it is a coroutine
        self.method = ""  # the name of the listener's method that runs or ran last
        self.detached = False

    @property
    def listening(self) -> bool:
        if self._running is not None and self._running.get_loop().is_closed():
            self._running = None
        return self._running is not None and not self._guard.in_listener()

    def result(self, promise: Promise[T], timeout: float) -> Steps[T]:
        if self.detached:
            return (yield from super().result(promise, timeout))
        if not (yield from self._binding.done(promise, system.monotonic() + timeout).__await__()):
            raise KafkaTimeoutError(f"no result within {timeout:g} s")
        return promise.result(0.0)

    def until(self, predicate: Callable[[], bool], timeout: float | None) -> Steps[bool]:
        if self.detached:
            return (yield from super().until(predicate, timeout))
        return (yield from self._until(predicate, timeout).__await__())

    async def _until(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        latch = TaskLatch(self._binding)
        with self._signal.opening(latch):
            return await self._binding.until(latch, predicate, None if timeout is None else system.monotonic() + timeout)

    def listen(self, method: Listen, tps: list[TopicPartition], event: Assigned | Ended) -> Steps[None]:
        if self._guard.in_listener():  # the running method has called `unsubscribe` or `close`, which must not wait for the method's end
            event.reported = True
            if isawaitable(result := method(tps)):
                yield from result.__await__()
            return
        yield from self.finish_listener()
        self._guard.listener_scope, self.method = object(), getattr(method, "__name__", "a listener")
        before = SCOPES.set((*SCOPES.get(), self._guard.listener_scope))
        try:
            event.reported = True
            result = method(tps)
            if isawaitable(result):
                self._running = asyncio.ensure_future(result)  # inherits this context with its scope, as do tasks that the method starts
        finally:
            SCOPES.reset(before)
            if self._running is None:
                self._guard.listener_scope = None
        yield from self.finish_listener()

    def awaited(self, result: Any) -> Steps[Any]:
        return awaited(result)

    async def drive(self, steps: Steps[Any]) -> Any:
        self._binding.enter()
        return await run(steps)

    def finish_listener(self) -> Steps[None]:
        if not self.listening:
            return
        running = self._running
        assert running is not None
        yield from _ended(running).__await__()
        self._running = self._guard.listener_scope = None
        if not running.cancelled():  # otherwise the event loop was stopped, or the application has cancelled the method
            running.result()


async def _ended(running: Awaitable[Any]) -> None:
    """Wait until `running` has ended. A cancellation of this wait does not cancel `running`."""
    await asyncio.wait([asyncio.ensure_future(running)])
