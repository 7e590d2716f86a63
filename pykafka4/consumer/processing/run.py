"""Run. Rule: one thread polls, pauses and commits; it goes on polling while handlers work, so that the member keeps its partitions.

A partition is paused while its window is full: one record that takes long, or is tried again, does not hold up the other partitions.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, Protocol

import attrs

from pykafka4.consumer.processing.consumer_run import COMMIT_SECONDS, Between, ConsumerRun, Consumes, ThreadListener
from pykafka4.consumer.processing.dead_letters import DeadLetters, Sends
from pykafka4.consumer.processing.own_threads import OwnThreads
from pykafka4.consumer.processing.safe import Reads
from pykafka4.consumer.processing.work import Handler, Order, Processed, Retries, Work
from pykafka4.errors import ClosedError, ConfigError, GroupError, KafkaError, shown, with_article
from pykafka4.logs import get_log
from pykafka4.misuse import check_count
from pykafka4.net import system
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["COMMIT_EVERY", "LOOK", "Plan", "Rounds", "Stop", "at_least_one", "check_sends", "plan", "run", "seconds"]

log = get_log("pykafka4.processing")

UNORDERED: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)
LOOK: Final = 0.2  # seconds between looks at `stop`, at retries and at failures
COMMIT_EVERY: Final = 5.0
MOST_WORKERS: Final = 1_000
ELSEWHERE: Final = ("ProcessPoolExecutor", "InterpreterPoolExecutor")  # executors that pickle what they run


class Stop(Protocol):
    """What ends the processing: a threading.Event, for example."""

    def is_set(self) -> bool:
        """Whether to stop."""


@attrs.frozen
class Plan:
    """How records are processed: the checked arguments of `Consumer.process`."""

    handle: Handler
    order: Order
    retries: Retries
    dead_letters: DeadLetters | None
    workers: int
    executor: Executor | None
    most_in_hand: int
    most_polled: int
    stop: Stop | None
    drain: float


def plan(
    handle: Handler,
    by: object,
    workers: object,
    retries: object,
    retry_backoff: object,
    dead_letter: object,
    producer: Sends | None,
    group: str | None,
    max_in_hand: object,
    max_poll_records: int,
    stop: Stop | None,
    drain_timeout: object,
    executor: Executor | None,
) -> Plan:
    """Check the other arguments of `Consumer.process`; TypeError or ConfigError names the wrong one."""
    if dead_letter is None and producer is not None:
        raise ConfigError("producer is for dead letters: pass dead_letter='a topic' as well, or leave it out; handlers use their own")
    _check_handler(handle)
    _check_executor(executor)
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise TypeError(f"stop must have is_set(), as a threading.Event, not {shown(stop)}")
    most = at_least_one(max_in_hand, "max_in_hand", 2**31 - 1)
    return Plan(
        handle,
        _order(by),
        Retries(check_count(retries, "retries", 2**31 - 1), seconds(retry_backoff, "retry_backoff")),
        None if dead_letter is None else DeadLetters(dead_letter, producer, group),
        at_least_one(workers, "workers", MOST_WORKERS),
        executor,
        most,
        min(most, max_poll_records),
        stop,
        seconds(drain_timeout, "drain_timeout"),
    )


def check_sends(producer: object) -> None:
    """TypeError for a producer of dead letters whose `send` nobody would await."""
    if _is(inspect.iscoroutinefunction, getattr(producer, "send", None)):
        raise TypeError(
            f"producer must be a pykafka4.Producer, not {type(producer).__module__}.{type(producer).__name__}, whose send must be awaited: "
            "that one is for pykafka4.aio.Consumer.process"
        )


def _check_handler(handle: object) -> None:
    if _is(inspect.isgeneratorfunction, handle) or _is(inspect.isasyncgenfunction, handle):
        raise TypeError(
            f"process: the handler {shown(handle)} is a generator function, whose body nobody would run: use a function without yield"
        )


def _check_executor(executor: object) -> None:
    if executor is None:
        return
    if not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor, not {shown(executor)}")
    if any(kind.__name__ in ELSEWHERE for kind in type(executor).__mro__):
        raise TypeError(
            f"executor must use threads of this interpreter, as a ThreadPoolExecutor does, not {type(executor).__name__}: "
            "use one of these inside the handler"
        )


def _is(kind: Callable[[Any], bool], function: object) -> bool:
    """Whether `function` is of this kind, or an object whose `__call__` is, or a `functools.partial` of one."""
    while isinstance(function, partial):
        function = function.func
    calls = (base.__dict__["__call__"] for base in type(function).__mro__ if "__call__" in base.__dict__)
    return kind(function) or kind(next(calls, None))


def _order(by: object) -> Order:
    if by == "partition":
        return _by_partition
    if by == "key":
        return _by_key
    if callable(by):
        if any(_is(kind, by) for kind in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
            raise TypeError(
                f"by must return what is handled in order; {shown(by)} returns a coroutine or generator, another for each record"
            )
        return partial(_checked_key, by)
    raise ConfigError(f"by must be 'key', 'partition' or a callable that takes a record, not {shown(by)}")


def _by_partition(record: Record) -> Hashable:
    return record.topic, record.partition


def _by_key(record: Record) -> Hashable:
    """Records without a key have no order."""
    return record.topic, record.partition, record.key, None if record.key is not None else record.offset


def _checked_key(by: Order, record: Record) -> Hashable:
    key = by(record)
    if isinstance(key, UNORDERED):
        if isinstance(key, CoroutineType):
            key.close()
        kind = with_article(type(key).__name__)
        raise TypeError(f"by must return what is handled in order, not {kind}: there is another for each record")
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(f"by must return what can be a key of a dict, such as a str or tuple, not {shown(key)}: {error}") from None
    return key


def at_least_one(value: object, what: str, most: int) -> int:
    count = check_count(value, what, most)
    if not count:
        raise ConfigError(f"{what} must be at least 1")
    return count


def seconds(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number of seconds, not {shown(value)}")
    if not 0 <= value < system.TIMEOUT_MAX:
        raise ConfigError(f"{what} must be from 0 to {system.TIMEOUT_MAX:,.0f} seconds, not {shown(value)}")
    return float(value)


class Rounds(ConsumerRun):
    """What a run of `process` does between two polls, on threads and in tasks. It never waits."""

    def __init__(self, consumer: Between, plan: Plan, work: Work, reads: Reads, where: str, commits: bool) -> None:
        """`where` begins log lines. `commits`: there is a group."""
        super().__init__(consumer, reads, work, plan.most_in_hand, where, commits)
        self._plan, self._work = plan, work
        self._commit_at = system.monotonic() + COMMIT_EVERY
        self.closed = False  # by another thread or task, which has the listener commit what is finished

    def end(self) -> None:
        """Be no longer what uses the consumer; unless it was closed, which ended the run: then its listener commits what is finished."""
        if not self.closed:
            self._reads.end_run(self)

    def _room(self) -> int:
        """How many records to poll."""
        return self._pauses.room(self._work.held, self._plan.most_polled)

    def _goes_on(self) -> bool:
        """Whether to poll again."""
        return self._work.error is None and (self._plan.stop is None or not self._plan.stop.is_set())

    def _round(self, polled: list[Record]) -> None:
        """Take what was polled into hand, and start, pause and commit what is due."""
        work = self._work
        work.add(polled, self._reads.taken)
        touched = {TopicPartition(record.topic, record.partition) for record in polled}
        self._pauses.pause_full(touched, self._size)
        self._pauses.resume_free(self._size, work.watch)
        now = system.monotonic()
        work.start_due(now)
        if now >= self._commit_at:
            self._commit_later(now)

    def result(self) -> Processed:
        """What it came to; raises the error that ended it. Not inside a context manager: that cannot pass on every exception."""
        if self._work.error is not None:
            raise self._work.error
        return self._work.processed

    def _size(self, tp: TopicPartition) -> int:
        """How many records of this partition are in hand."""
        progress = self._work.partitions.get(tp)
        return 0 if progress is None else progress.window

    def _commit_later(self, now: float) -> None:
        self._commit_at = now + COMMIT_EVERY
        self._drop_gone()
        offsets = self._uncommitted()
        if not offsets:
            return
        try:
            self._between.commit_async(offsets, self._committed)
        except GroupError as error:  # partitions were lost; the next poll says so
            self._committed(offsets, error)

    def _drop_gone(self) -> None:
        """Of partitions that `assign` has taken away, no listener is told; a commit of one of them would fail with that of all others."""
        mine = self._between.assignment()
        self._safe.keep(mine)
        if gone := [tp for tp in self._work.partitions if tp not in mine]:
            self._work.drop(gone)
            self._pauses.forget(gone)

    def _go_back(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Go back to the first record of each partition that is not finished; returns what is to be committed."""
        try:
            self._reads.go_back(self._safe.places())
            self._pauses.end()
        except ClosedError:
            self.closed = True
            return {}
        return self._uncommitted()


class Processing(Rounds, ThreadListener):
    """One run of `Consumer.process`. Used by the thread that polls; the listener runs there, too."""

    def __init__(self, consumer: Consumes, plan: Plan, reads: Reads, where: str, commits: bool, release_seconds: float) -> None:
        """See Rounds."""
        self._consumer, self._release_seconds = consumer, release_seconds
        self._own = OwnThreads(plan.workers, where) if plan.executor is None else None
        executor = plan.executor or self._own
        work = Work(plan.handle, plan.order, plan.retries, plan.dead_letters, executor, consumer.wakeup)
        super().__init__(consumer, plan, work, reads, where, commits)

    def run(self) -> None:
        """Process records until `stop` is set or an error ends it."""
        try:
            self._run()
        finally:  # again: Ctrl-C may have ended `_finish`, and a run that stays would have `commit` commit old offsets
            self.end()

    def _run(self) -> None:
        self._reads.begin_run(self)
        try:
            while self._goes_on():
                self._round(self._consumer.poll(LOOK, self._room()))
        finally:
            self._finish()

    def _end_in_hand(self, partitions: list[TopicPartition]) -> None:
        self._work.end(partitions, min(self._release_seconds, self._reads.left()))

    # ---------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Wait for the handlers that run, commit what is finished, and go back to the first record of each partition that is not.

        A second Ctrl-C ends the wait, not the rest: otherwise the next run, or `poll`, would skip records that are not finished.
        """
        drained = False
        try:
            drained = self._drain()
        finally:
            try:
                self._work.refuse()
                self._commit_last(waits=drained)
            finally:
                if self._own is not None:
                    self._own.shutdown()
                self.end()

    def _drain(self) -> bool:
        """Whether the wait for handlers ended as it should, which is not to say that they have."""
        if not self._work.stop(self._plan.drain):
            log.warning("%s: handlers still run after drain_timeout=%g s; their records are not finished", self._where, self._plan.drain)
        return True

    def _commit_last(self, *, waits: bool) -> None:
        with contextlib.suppress(KafkaError):  # of a client that was closed or has crashed; the records are processed again
            try:
                offsets = self._go_back()
            except KeyboardInterrupt:
                self._go_back()
                raise
            if waits:
                self._commit_now(offsets, COMMIT_SECONDS)
            elif offsets:
                self._between.commit_async(offsets, self._committed)


def run(consumer: Consumes, plan: Plan, reads: Reads, where: str, commits: bool, max_poll: float) -> Processed:
    """See Consumer.process. `reads` is the consumer's session, `max_poll` is how long its listener may take."""
    processing = Processing(consumer, plan, reads, where, commits, min(plan.drain, max_poll / 2))
    processing.run()
    return processing.result()
