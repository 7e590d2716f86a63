"""Runs the handlers of `aio.Consumer.process` in tasks. Invariant: at most `workers` handlers run; a cancelled call cancels them.

`pykafka4.consumer.processing.run_loop` decides when to poll, to commit and to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

from pykafka4.aio.waits import run
from pykafka4.consumer.processing.committable_offsets import RunSession
from pykafka4.consumer.processing.plan import Plan
from pykafka4.consumer.processing.progress import PartitionProgress, TaskInHand
from pykafka4.consumer.processing.run_loop import RELEASE_COMMIT_S, RunConsumer, RunLoop
from pykafka4.consumer.processing.work import HandlerWork, OrderedRecords, checked_delivery
from pykafka4.consumer.selection import ConsumerRun
from pykafka4.errors import KafkaError, shown
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.wire.records.hot import Delivery

__all__ = ["TaskWork", "check_producer", "run_in_tasks"]

log = get_log("pykafka4.processing")

# The progress of the partition whose record the running handler has.
PROGRESS: Final[ContextVar[PartitionProgress | None]] = ContextVar("pykafka4_progress", default=None)


class BeginsRuns(RunSession, Protocol):
    """The part of an aio.Consumer's session that a run uses."""

    async def await_run(self, run: ConsumerRun) -> None:
        """Begin a run: the form of `begin_run` for tasks."""


def check_producer(producer: object) -> None:
    """Raise TypeError for a producer whose `send` is not a coroutine function, because it may block the event loop."""
    if producer is not None and not inspect.iscoroutinefunction(getattr(producer, "send", None)):
        raise TypeError(f"producer must be a pykafka4.aio.Producer, whose send is awaited, not {shown(producer)}")


class TaskWork(HandlerWork):
    """Work whose handlers run on the event loop. Callbacks of producers may run on another thread."""

    def __init__(self, plan: Plan, wake: Callable[[], object]) -> None:
        """Called on the event loop."""
        super().__init__(plan, wake)
        self._loop, self._thread = asyncio.get_running_loop(), system.get_ident()
        # Handlers run in the context of the call of `process`, although a callback or the end of another handler may start them.
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[Any]] = set()  # the workers
        self._ended = asyncio.Event()  # set when `_running` decreases; then `_until` checks again

    # ---------------------------------------------------------------- workers

    def _start_worker(self) -> None:
        if system.get_ident() == self._thread:
            self._fill()
        else:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._fill)

    def _fill(self) -> None:
        while self._turns and len(self._tasks) < self._plan.workers:
            with self._lock:
                what, arguments = self._turns.take()
            task = self._context.copy().run(self._loop.create_task, what(*arguments))
            self._tasks.add(task)
            task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)
        self._fill()

    async def _run(self, ordered: OrderedRecords) -> None:
        task = self._begin(ordered)
        if task is None:
            return
        PROGRESS.set(task.progress)  # in the context of this worker's task
        try:
            returned = self._plan.handle(task.record)
            if inspect.isawaitable(returned) and not isinstance(returned, Delivery):
                returned = await returned
        except asyncio.CancelledError:
            with self._lock:
                self._count(task, -1)
            if not self._stopping:  # otherwise the run is ending, and the record stays unfinished
                self._fail(KafkaError("a handler was cancelled"), task)
        except Exception as error:
            self._failed(ordered, task, error)
        except BaseException as error:
            if self._loop.is_closed():  # GeneratorExit: the coroutine is garbage-collected after the end of its event loop
                raise
            self._abandon(task, error)
        else:
            self._settle(ordered, task, returned)

    async def _bury(self, ordered: OrderedRecords, task: TaskInHand, error: BaseException) -> None:
        assert self._plan.dead_letters is not None
        try:
            sending: Any = self._plan.dead_letters.send(task.record, task.attempts, error)
            delivery = checked_delivery(await sending)
        except asyncio.CancelledError:
            with self._lock:
                self._count(task, -1)
        except BaseException as refused:
            self._lose(task, error, refused)
        else:
            self._settle_letter(ordered, task, error, delivery)

    def _count(self, task: TaskInHand, change: int) -> None:
        super()._count(task, change)
        if change > 0 or self._ended.is_set():
            return
        if system.get_ident() == self._thread:
            self._ended.set()
        else:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)

    # ---------------------------------------------------------------- ends

    @property
    def abandoned(self) -> bool:
        return self._loop.is_closed()

    def _handled_here(self) -> PartitionProgress | None:
        return PROGRESS.get()

    async def drain(self, error: BaseException | None) -> float:
        """Wait for the running handlers. After a cancellation, cancel them, and wait for their end, but not for acknowledgements.

        Returns the seconds for the last commit.
        """
        if isinstance(error, asyncio.CancelledError):
            self.cancel_handlers()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self.limits.drain)
            return 0.0
        self.refuse()
        try:
            if not await self._until(lambda: not self._running, self.limits.drain):
                log.warning(
                    "%s: records are unfinished after drain_timeout=%g s; handlers that still run are cancelled",
                    self.limits.where,
                    self.limits.drain,
                )
        except asyncio.CancelledError as cancelled:
            await self.drain(cancelled)
            raise
        return RELEASE_COMMIT_S

    def cancel_handlers(self) -> None:
        self.refuse()
        if self.abandoned:
            return
        with self._lock:
            self._turns.clear()
        for task in self._tasks:
            task.cancel()

    async def _until(self, condition: Callable[[], bool], timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                self._ended.clear()  # before the condition: otherwise a callback between the two would find the event set, and wake nobody
                while not condition():
                    await self._ended.wait()
                    self._ended.clear()
        return condition()


async def run_in_tasks(consumer: RunConsumer, work: TaskWork, reads: BeginsRuns) -> None:
    loop = RunLoop(consumer, work, reads)
    try:
        await reads.await_run(loop)
        await run(loop.run())
    finally:
        if not work.abandoned:
            loop.end()
