"""Runs the handlers of `Consumer.process` on threads. Invariant: of ordered records, only the first is handled, until it is finished.

Records are ordered if `Plan.order` returns equal keys for them. A record is finished when its handler has returned and the deliveries
that the handler returned are acknowledged, or when its dead letter is acknowledged. An unhandled error of a handler, an executor or a
producer ends the work: no further handler starts.
A thread holds the lock for a few lines, and calls no handler, executor or producer meanwhile. `with` takes the lock, because Ctrl-C can
interrupt any call of the thread that polls, and `with` does not leave the lock locked.
"""

from __future__ import annotations

import contextlib
import heapq
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import attrs

from pykafka4.consumer.processing.partition_turns import PartitionTurns
from pykafka4.consumer.processing.plan import Plan
from pykafka4.consumer.processing.progress import PartitionProgress, TaskInHand
from pykafka4.consumer.processing.run_loop import RELEASE_COMMIT_S
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.errors import KafkaError, shown
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal
from pykafka4.net.handoff.workers import Workers
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Delivery, Record

__all__ = ["OrderedRecords", "Processed", "HandlerWork", "checked_delivery", "deliveries"]

log = get_log("pykafka4.processing")


class Processed(NamedTuple):
    """The counts of `Consumer.process`: finished records, dead letters among them, and retries of these records."""

    finished: int = 0
    dead_letters: int = 0
    retries: int = 0


@attrs.define(eq=False)
class OrderedRecords:
    """The unfinished records of one key. Only the first is handled; the others wait for it."""

    key: Hashable
    tasks: deque[TaskInHand] = attrs.Factory(deque)


class HandlerWork:
    """Implements `RecordsInHand` for `Consumer.process`, with handlers on threads."""

    def __init__(self, plan: Plan, wake: Callable[[], object]) -> None:
        """`wake()` has the thread that polls check `error` and watched partitions. Any thread may call it."""
        self._plan, self._wake = plan, wake
        self.limits = plan.limits
        self._threads = Workers("pykafka4-process", plan.workers, plan.limits.where)  # daemons: a stuck handler does not keep Python alive
        self._lock = system.RLock()  # guards changes of the attributes below, except `_runs`
        self._ends = Signal()  # notified when `_running` decreases
        self._ordered: dict[Hashable, OrderedRecords] = {}
        self._turns = PartitionTurns()  # calls that no worker has begun
        self._waiting: list[tuple[float, int, OrderedRecords]] = []  # a heap by the time of the next attempt at the first record
        self._numbers = itertools.count()  # break ties in the heap, because OrderedRecords cannot be compared
        self._running = 0  # running handlers, and records that wait for acknowledgements
        self._runs: dict[int, PartitionProgress] = {}  # by thread: the partition whose record the thread handles
        self._stopping = False
        self._watched: dict[TopicPartition, int] = {}  # wake the thread that polls when the partition's window is at most this large
        self.partitions: dict[TopicPartition, PartitionProgress] = {}
        self.held = 0  # the windows of all partitions together
        self.error: BaseException | None = None
        self.processed = Processed()

    # ---------------------------------------------------------------- calls of the run loop

    def add(self, records: Collection[Record], taken: Callable[[], object] = lambda: None) -> None:
        keys = [self._plan.order(record) for record in records]
        fresh: list[OrderedRecords] = []
        with self._lock:
            for record, key in zip(records, keys, strict=True):
                ordered = self._ordered.get(key)
                if ordered is None:
                    ordered = self._ordered[key] = OrderedRecords(key)
                    fresh.append(ordered)
                progress = self._progress(TopicPartition(record.topic, record.partition))
                window = progress.window
                ordered.tasks.append(progress.add(record))
                self.held += progress.window - window
        # After the records are in the windows: see `RunLoop._round`.
        taken()
        for ordered in fresh:
            self._submit(self._run, ordered)

    def _progress(self, tp: TopicPartition) -> PartitionProgress:
        known = self.partitions.get(tp)
        if known is None:
            known = self.partitions[tp] = PartitionProgress(tp)
        return known

    @property
    def abandoned(self) -> bool:
        return False

    def goes_on(self) -> bool:
        return self.error is None and (self._plan.stop is None or not self._plan.stop.is_set())

    def assign(self, tps: Collection[TopicPartition]) -> Collection[TopicPartition]:
        return ()

    def size(self, tp: TopicPartition) -> int:
        progress = self.partitions.get(tp)
        return 0 if progress is None else progress.window

    def start_due(self, now: float) -> None:
        due: list[OrderedRecords] = []
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                due.append(heapq.heappop(self._waiting)[2])
        for ordered in due:
            self._submit(self._run, ordered)

    def end(self, tps: Collection[TopicPartition], timeout: float) -> Any:
        # `mine`: if a handler closes the consumer, the wait leaves out the record of this handler, which cannot finish before the close.
        ending, mine = self._begin_end(tps), self._handled_here()
        return self._until(lambda: not any(progress.running > (progress is mine) for progress in ending), timeout)

    def _until(self, condition: Callable[[], bool], timeout: float) -> Any:
        """Wait up to `timeout` seconds for `condition`, which can become true only when `_running` decreases."""
        return self._ends.wait(condition, timeout)

    def _handled_here(self) -> PartitionProgress | None:
        return self._runs.get(system.get_ident())

    def _begin_end(self, tps: Collection[TopicPartition]) -> list[PartitionProgress]:
        with self._lock:
            ending = [self.partitions[tp] for tp in tps if tp in self.partitions]
            for progress in ending:
                progress.ended = True
            return ending

    def drop(self, tps: Collection[TopicPartition]) -> None:
        self._begin_end(tps)
        with self._lock:
            self.held -= sum(self.partitions.pop(tp).window for tp in tps if tp in self.partitions)

    def watch(self, windows: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._watched = dict(windows)
            free = any(tp not in self.partitions or self.partitions[tp].window <= window for tp, window in windows.items())
        if free:
            self._wake()

    def unfinished(self) -> dict[TopicPartition, OffsetAndEpoch]:
        found = {}
        with self._lock:
            for tp, progress in self.partitions.items():
                if (first := progress.first) is not None:
                    found[tp] = first
        return found

    def drain(self, error: BaseException | None) -> Any:
        if not self.stop(self.limits.drain):
            log.warning("%s: records are unfinished after drain_timeout=%g s; handlers may still run", self.limits.where, self.limits.drain)
        return RELEASE_COMMIT_S

    def stop(self, timeout: float) -> bool:
        """Start no more handlers; return whether handlers and acknowledgements ended within `timeout` seconds."""
        self.refuse()
        return self._ends.wait(lambda: not self._running, timeout)

    def refuse(self) -> None:
        with self._lock:
            self._stopping = True

    def cancel_handlers(self) -> None:
        self.refuse()
        self._threads.end()

    def result(self) -> Processed:
        """Return the counts, or raise the error of the run. Not for use in a `contextmanager`, which cannot pass on every exception."""
        if self.error is not None:
            raise self.error
        return self.processed

    # ---------------------------------------------------------------- on workers and callbacks

    def _submit(self, what: Callable[..., object], ordered: OrderedRecords, *arguments: Any) -> None:
        """A worker takes the call when it is the turn of the record's partition."""
        with self._lock:
            self._turns.add(ordered.tasks[0].progress.tp, (what, (ordered, *arguments)))
        self._start_worker()

    def _start_worker(self) -> None:
        if self._plan.executor is None:
            self._threads.submit(self._take_turn)
            return
        try:
            future = self._plan.executor.submit(self._take_turn)
        except Exception as error:  # the executor was shut down, for example
            self._fail(error)
            return
        if isinstance(future, Future):
            future.add_done_callback(self._on_future_done)

    def _take_turn(self) -> None:
        with self._lock:
            what, arguments = self._turns.take()
        self._whole(what, *arguments)

    def _on_future_done(self, future: Future[Any]) -> None:
        """End the work after a cancelled call, whose record would never be handled."""
        if future.cancelled() and not self._stopping:
            self._fail(
                KafkaError("the executor was shut down and has cancelled handlers that had not begun: their records are not finished")
            )

    def _whole(self, what: Callable[..., object], *arguments: Any) -> None:
        """Call `what`; any exception ends the work. Otherwise an executor would keep the exception in a Future that no code reads."""
        try:
            what(*arguments)
        except BaseException as error:
            self._fail(error)

    def _begin(self, ordered: OrderedRecords) -> TaskInHand | None:
        """Returns None if this run does not handle the first record any more."""
        with self._lock:
            task = ordered.tasks[0]
            if self._stopping:
                return None
            ended = task.ended
            if not ended:
                self._count(task, 1)
                task.attempts += 1
        if ended:
            self._next(ordered)
            return None
        return task

    def _run(self, ordered: OrderedRecords) -> Any:
        task = self._begin(ordered)
        if task is None:
            return
        thread = system.get_ident()
        self._runs[thread] = task.progress
        try:
            returned = self._plan.handle(task.record)
        except Exception as error:
            self._failed(ordered, task, error)
        except BaseException as error:
            self._abandon(task, error)
        else:
            self._settle(ordered, task, returned)
        finally:
            self._runs.pop(thread, None)

    def _abandon(self, task: TaskInHand, error: BaseException) -> None:
        with self._lock:
            self._count(task, -1)
        self._fail(error, task)

    def _settle(self, ordered: OrderedRecords, task: TaskInHand, returned: object) -> None:
        try:
            sent = deliveries(returned)
        except TypeError as error:  # a fault of the handler, not of the record: neither another attempt nor a dead letter helps
            self._abandon(task, error)
            return
        self._await(sent, lambda error: self._finished(ordered, task) if error is None else self._failed(ordered, task, error))

    def _await(self, sent: list[Delivery], then: Callable[[BaseException | None], object]) -> None:
        """Call `then` with the first error, or None, when all of `sent` have their outcomes."""
        # One more than `sent`, for the call of `settled` at the end: if `sent` is empty, nothing else calls `then`.
        left, errors = [len(sent) + 1], list[BaseException]()

        def settled(delivery: Delivery | None) -> None:
            error = None if delivery is None else delivery.exception(0)
            with self._lock:
                left[0] -= 1
                if error is not None:
                    errors.append(error)
                last = not left[0]
            if last:
                self._whole(then, errors[0] if errors else None)

        for delivery in sent:
            delivery.add_done_callback(settled)
        settled(None)

    def _finished(self, ordered: OrderedRecords, task: TaskInHand, dead: int = 0) -> None:
        with self._lock:
            self._count(task, -1)
            progress = task.progress
            window = progress.window
            progress.finish(task)
            if self.partitions.get(progress.tp) is progress:  # otherwise the partition was dropped, with its window
                self.held -= window - progress.window
            free = progress.window <= self._watched.get(progress.tp, -1)
            if free:
                del self._watched[progress.tp]
            finished, dead_letters, retries = self.processed
            self.processed = Processed(finished + 1, dead_letters + dead, retries + task.attempts - 1)
        if free:
            self._wake()
        self._next(ordered)

    def _next(self, ordered: OrderedRecords) -> None:
        with self._lock:
            ordered.tasks.popleft()
            if not ordered.tasks:
                del self._ordered[ordered.key]
                return
        self._submit(self._run, ordered)

    def _failed(self, ordered: OrderedRecords, task: TaskInHand, error: BaseException) -> None:
        with self._lock:
            self._count(task, -1)
            given_up = task.ended or self._stopping  # the record is read again, by the next owner or the next run, or its log has lost it
            again = not given_up and task.attempts <= self._plan.retries.most
            if again:
                heapq.heappush(self._waiting, (system.monotonic() + self._plan.retries.wait(task.attempts), next(self._numbers), ordered))
            elif not given_up and self._plan.dead_letters is not None:
                self._count(task, 1)  # its dead letter counts as running, so the end of the run waits for it
        if again:
            return
        if given_up:
            self._next(ordered)
        elif self._plan.dead_letters is None:
            self._fail(error, task)
        else:
            self._submit(self._bury, ordered, task, error)  # on a worker: `send` may wait for room, and this may be a callback thread

    def _bury(self, ordered: OrderedRecords, task: TaskInHand, error: BaseException) -> Any:
        assert self._plan.dead_letters is not None
        try:
            delivery = checked_delivery(self._plan.dead_letters.send(task.record, task.attempts, error))
        except BaseException as refused:
            self._lose(task, error, refused)
        else:
            self._settle_letter(ordered, task, error, delivery)

    def _settle_letter(self, ordered: OrderedRecords, task: TaskInHand, error: BaseException, delivery: Delivery) -> None:
        self._await([delivery], lambda lost: self._finished(ordered, task, 1) if lost is None else self._lose(task, error, lost))

    def _lose(self, task: TaskInHand, error: BaseException, refused: BaseException) -> None:
        """End the work, because the dead letter has failed."""
        with self._lock:
            self._count(task, -1)
        if not isinstance(refused, Exception):  # `result` raises SystemExit, for example, unchanged
            self._fail(refused)
            return
        lost = KafkaError(f"{_place(task)}: its handling failed ({_text(error, repr)}), and so did its dead letter: {_text(refused, str)}")
        lost.__cause__ = error
        self._fail(lost)

    def _count(self, task: TaskInHand, change: int) -> None:
        self._running += change
        task.progress.running += change
        if change < 0:
            self._ends.notify()

    def _fail(self, error: BaseException, task: TaskInHand | None = None) -> None:
        """End the work with an error that nothing handles; only the first such error is kept."""
        if task is not None:
            with contextlib.suppress(Exception):  # an exception of the application may refuse notes
                error.add_note(f"raised for {_place(task)}, attempt {task.attempts}; that record is not finished")
        with self._lock:
            if self.error is None:
                self.error = error
            self._stopping = True
        self._wake()


def _place(task: TaskInHand) -> str:
    return f"{task.progress.tp} at offset {task.record.offset}"


def _text(error: BaseException, how: Callable[[BaseException], str]) -> str:
    try:
        return how(error)
    except Exception:  # `__str__` of the application's own class can raise
        return type(error).__name__


def checked_delivery(sent: Delivery) -> Delivery:
    if not callable(getattr(sent, "add_done_callback", None)):
        raise TypeError(f"producer.send must return a Delivery, not {shown(sent)}")
    return sent


def deliveries(returned: object) -> list[Delivery]:
    """The deliveries that a handler returned. Raises TypeError for generators, and for awaitables other than deliveries, even in a list."""
    several: Collection[object] = returned if isinstance(returned, (list, tuple)) else (returned,)
    sent = [item for item in several if isinstance(item, Delivery)]
    if len(sent) < len(several):
        _check_all_done(several)
    return sent


def _check_all_done(returned: Collection[object]) -> None:
    unawaited = False
    for item in returned:
        if inspect.isgenerator(item) or inspect.isasyncgen(item):
            raise TypeError(
                "the handler returned a generator, whose body never runs: use a function without yield, or run it in the handler"
            )
        if inspect.isawaitable(item) and not isinstance(item, Delivery):
            unawaited = True
            if inspect.iscoroutine(item):
                item.close()
    if unawaited:
        raise TypeError(
            "the handler returned an awaitable, which is never awaited: await it in the handler (with pykafka4.aio), "
            "or use a handler that is not a coroutine function"
        )
