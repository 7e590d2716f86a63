"""Runs the handlers of `aio.Consumer.process` in tasks. Rule: of a lane one record is in hand; commits pass no unfinished one.

`pykafka4.consumer.processing` has the shared part. This module has the handlers that are awaited, at most `workers` at a time, and the
waits. When the call is cancelled, its running handlers are cancelled too: their records are not finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from pykafka4.consumer.processing.consumer_run import COMMIT_SECONDS, Between
from pykafka4.consumer.processing.progress import Progress, Task
from pykafka4.consumer.processing.run import LOOK, Plan, Rounds
from pykafka4.consumer.processing.safe import Reads
from pykafka4.consumer.processing.work import Lane, Processed, Work, checked_delivery
from pykafka4.consumer.selection import Run
from pykafka4.errors import ClosedError, KafkaError, shown
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Delivery, Record

__all__ = ["TaskConsumes", "check_producer", "run"]

log = get_log("pykafka4.processing")

PROGRESS: Final[ContextVar[Progress | None]] = ContextVar("pykafka4_progress", default=None)  # of which partition a handler has a record


class BeginsRuns(Reads, Protocol):
    """What a run in tasks needs of the consumer's session."""

    async def await_run(self, run: Run) -> None:
        """As `begin_run`."""


class TaskConsumes(Between, Protocol):
    """What is needed of a consumer."""

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """See aio.Consumer.poll."""

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> None:
        """See aio.Consumer.commit."""


def check_producer(producer: object) -> None:
    """TypeError for one whose `send` would block the event loop."""
    if producer is not None and not inspect.iscoroutinefunction(getattr(producer, "send", None)):
        raise TypeError(f"producer must be a pykafka4.aio.Producer, whose send is awaited, not {shown(producer)}")


class TaskWork(Work):
    """Work whose handlers are awaited. Producers call back on their own thread; everything else happens on the event loop."""

    def __init__(self, plan: Plan, wake: Callable[[], object]) -> None:
        """See Work; called on the event loop."""
        super().__init__(plan.handle, plan.order, plan.retries, plan.dead_letters, None, wake)
        self._loop, self._thread, self._workers = asyncio.get_running_loop(), system.get_ident(), plan.workers
        self._context = contextvars.copy_context()  # of the call: a handler may start in a callback, or when another one ends
        self._tasks: set[asyncio.Task[Any]] = set()  # the workers
        self._none_runs = asyncio.Event()  # of records in hand

    # ---------------------------------------------------------------- workers

    def _start_worker(self) -> None:
        if system.get_ident() == self._thread:
            self._fill()
        else:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._fill)

    def _fill(self) -> None:
        while self._turns and len(self._tasks) < self._workers:
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

    async def _run(self, lane: Lane) -> None:
        task = self._begin(lane)
        if task is None:
            return
        PROGRESS.set(task.progress)  # in the context of this attempt
        try:
            returned = self._handle(task.record)
            if inspect.isawaitable(returned) and not isinstance(returned, Delivery):
                returned = await returned
        except asyncio.CancelledError:
            with self._lock:
                self._count(task, -1)
            if not self._stopping:  # not by this object: it is the handler's own
                self._fail(KafkaError("a handler was cancelled"), task)
        except Exception as error:
            self._failed(lane, task, error)
        except BaseException as error:
            if self._loop.is_closed():  # this coroutine is collected
                raise
            self._abandon(task, error)
        else:
            self._settle(lane, task, returned)

    async def _bury(self, lane: Lane, task: Task, error: BaseException) -> None:
        assert self._dead_letters is not None
        try:
            sending: Any = self._dead_letters.send(task.record, task.attempts, error)
            delivery = checked_delivery(await sending)
        except asyncio.CancelledError:
            with self._lock:
                self._count(task, -1)
        except BaseException as refused:
            self._lose(task, error, refused)
        else:
            self._settle_letter(lane, task, error, delivery)

    def _count(self, task: Task, change: int) -> None:
        super()._count(task, change)
        if not task.progress.running:
            if system.get_ident() == self._thread:
                self._none_runs.set()
            else:
                with contextlib.suppress(RuntimeError):  # the event loop is closed
                    self._loop.call_soon_threadsafe(self._none_runs.set)

    # ---------------------------------------------------------------- ends

    @property
    def left(self) -> bool:
        """Whether the handlers never go on, because their event loop was closed."""
        return self._loop.is_closed()

    async def ended(self, tps: Collection[TopicPartition], timeout: float) -> None:
        """See Work.end."""
        ending = self.begin_end(tps)
        mine = PROGRESS.get()  # a handler closes the consumer: its own record is not waited for
        await self._until(lambda: not any(progress.running > (progress is mine) for progress in ending), timeout)

    async def stopped(self, timeout: float) -> bool:
        """See Work.stop."""
        with self._lock:
            self._stopping = True
        return await self._until(lambda: not self._running, timeout)

    def cancel(self) -> None:
        """Start no more handlers, and cancel those that run."""
        with self._lock:
            self._stopping = True
            self._turns.clear()
        for task in self._tasks:
            task.cancel()

    async def cancelled(self, timeout: float) -> None:
        """The same, and wait for their end; not for acknowledgements."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    async def _until(self, condition: Callable[[], bool], timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not condition():
                    self._none_runs.clear()
                    await self._none_runs.wait()
        return condition()


class TaskProcessing(Rounds):
    """One run of `aio.Consumer.process`. The listener runs inside `poll`."""

    def __init__(self, consumer: TaskConsumes, plan: Plan, reads: BeginsRuns, where: str, commits: bool, release_seconds: float) -> None:
        """See Rounds."""
        self._consumer, self._task_reads, self._release_seconds = consumer, reads, release_seconds
        self._tasks = TaskWork(plan, consumer.wakeup)
        super().__init__(consumer, plan, self._tasks, reads, where, commits)

    async def run(self) -> None:
        """Process records until `stop` is set, an error ends it, or it is cancelled."""
        try:
            await self._run()
        finally:
            if not self.left:
                self.end()

    @property
    def left(self) -> bool:
        """Whether it never goes on, because its event loop was closed."""
        return self._tasks.left

    def abandon(self) -> None:
        """The same, and the consumer is used on another event loop: go back to what is not finished."""
        self._tasks.refuse()
        offsets = self._go_back()
        self.end()
        self._commit_soon(offsets)

    async def _run(self) -> None:
        await self._task_reads.await_run(self)
        try:
            while self._goes_on():
                self._round(await self._consumer.poll(LOOK, self._room()))
        except asyncio.CancelledError:
            await self._finish_cancelled()
            raise
        except BaseException:
            if self.left:  # this coroutine is collected
                raise
            await self._finish()
            raise
        await self._finish()

    async def _commit_now(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        if not offsets:
            return
        left = min(timeout, self._reads.left())
        try:
            if left <= 0:
                self._consumer.commit_async(offsets, self._committed)
                return
            await self._consumer.commit(offsets, left)
        except ClosedError:
            raise
        except KafkaError as error:
            log.warning("%s: the last commit of finished records failed; they will be read again: %s", self._where, error)

    async def _finish(self) -> None:
        """Wait for the handlers that run, cancel those that are late, commit what is finished, and go back to what is not."""
        try:
            if not await self._tasks.stopped(self._plan.drain):
                log.warning("%s: handlers that still run after drain_timeout=%g s are cancelled", self._where, self._plan.drain)
        except asyncio.CancelledError:
            await self._finish_cancelled()
            raise
        finally:
            self._tasks.cancel()
        with contextlib.suppress(KafkaError):  # of a client that was closed or has crashed; the records are processed again
            await self._commit_now(self._go_back(), COMMIT_SECONDS)

    async def _finish_cancelled(self) -> None:
        """Cancel the handlers, and commit what is finished without waiting for that."""
        try:
            await self._tasks.cancelled(self._plan.drain)
        finally:  # also if it is cancelled again
            self._commit_soon(self._go_back())

    def _commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets:
            with contextlib.suppress(KafkaError):  # partitions were lost
                self._consumer.commit_async(offsets, self._committed)

    # ---------------------------------------------------------------- the listener, inside `poll`

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They are committed from now on."""
        self._safe.begin(partitions)
        await self._tell_all(partitions, "on_partitions_assigned")

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Finish what is in hand, and commit it, before another member begins."""
        await self._tasks.ended(partitions, min(self._release_seconds, self._reads.left()))
        offsets = self._uncommitted(partitions)
        self._gone(partitions)
        await self._commit_now(offsets, COMMIT_SECONDS)
        await self._tell_all(partitions, "on_partitions_revoked")

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may have begun: nothing can be committed."""
        self._gone(partitions)
        await self._tell_all(partitions, "on_partitions_lost", "on_partitions_revoked")

    async def _tell_all(self, partitions: list[TopicPartition], *methods: str) -> None:
        told = self._tell(partitions, *methods)
        if inspect.isawaitable(told):
            await told


async def run(consumer: TaskConsumes, plan: Plan, reads: BeginsRuns, where: str, commits: bool, max_poll: float) -> Processed:
    """See aio.Consumer.process. `reads` is the consumer's session, `max_poll` is how long its listener may take."""
    processing = TaskProcessing(consumer, plan, reads, where, commits, min(plan.drain, max_poll / 2))
    await processing.run()
    return processing.result()
