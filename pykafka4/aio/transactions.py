"""Runs the transaction calls and transaction blocks of `pykafka4.producer` in tasks. Invariant: one task at a time is in a call."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

import attrs

from pykafka4.aio.tasks import EventLoopBinding
from pykafka4.aio.waits import run
from pykafka4.consumer.transactional import TransactionalReads
from pykafka4.errors import ConfigError, KafkaTimeoutError, TransactionError, shown
from pykafka4.net import system
from pykafka4.producer.deliveries import TaskWaker
from pykafka4.producer.session import ProducerSession
from pykafka4.producer.transaction_block import TransactionSteps
from pykafka4.producer.transactions import SEND_OFFSETS, Start, TransactionCalls

__all__ = ["ReadingTaskConsumer", "Transaction", "TransactionTasks"]


@attrs.frozen(eq=False)
class RunningCall:
    what: str
    tasks: TaskWaker


class TransactionTasks(TransactionCalls):
    """The transaction calls of one producer, as coroutines."""

    def __init__(self, binding: EventLoopBinding, session: ProducerSession) -> None:
        super().__init__(session, session.config, session.check)
        self._binding = binding
        self._busy: RunningCall | None = None

    async def leave_soon(self, deadline: float) -> None:
        """See TransactionCalls.leave."""
        if self._config.transactional_id is not None and self._owner.runtime.loop.alive:
            await self._binding.done(self.begin_leaving(), deadline)

    def _block_seconds(self, limit: float) -> float:
        return 0.0

    async def _run(self, what: str, start: Start, timeout: float | None, resumes: bool = True) -> None:
        """Begin the operation, or resume one that an earlier call has begun; wait for the outcome.

        The first `super()._run` times out at once unless there is an outcome; the second, after the wait, returns the outcome or times out.
        `send_offsets` does not resume an earlier call, because the commit waits for the offsets of that call.
        """
        mine = self._occupy(what)
        limit = self._config.max_block_ms / 1000 if timeout is None else timeout
        try:
            try:
                super()._run(what, start, limit)
                return
            except KafkaTimeoutError:  # there is no outcome yet, unless this error is the outcome: then `_unseen` is None
                if self._unseen is None:
                    raise
            await self._binding.done(self._unseen.promise, system.monotonic() + limit)
            super()._run(what, start, limit)
        finally:
            if self._busy is mine:  # otherwise the event loop of this task was closed, and a task of another loop has begun a call
                self._busy = None
                if not resumes:
                    self.forget(what)

    def _occupy(self, what: str) -> RunningCall:
        self._binding.enter()
        busy = self._busy
        if busy is not None and not busy.tasks.over:
            raise TransactionError(f"a task called {what} while another task is in {busy.what}: one task begins and ends the transactions")
        if busy is not None:  # the event loop of that call was closed, so the call never continues; its `finally` runs late or never
            self.forget(SEND_OFFSETS)
        self._busy = busy = RunningCall(what, self._binding.tasks)
        return busy


class ReadingTaskConsumer(Protocol):
    """An `aio.Consumer` whose offsets become part of a transaction."""

    def _in_task_transaction(self) -> TransactionalReads:
        """The consumer's side of transactions. Raises ConfigError if the offsets cannot be part of a transaction."""


def _reads_of(consumer: ReadingTaskConsumer) -> TransactionalReads:
    if getattr(consumer, "_in_task_transaction", None) is None:
        if getattr(consumer, "_in_transaction", None) is not None:
            raise ConfigError("transaction(consumer): a pykafka4.Consumer would block the event loop; use a pykafka4.aio.Consumer")
        raise TypeError(f"transaction: consumer must be an aio.Consumer, not {shown(consumer)}")
    return consumer._in_task_transaction()


class Transaction(TransactionSteps):
    """An `async with` block that is one transaction."""

    def __init__(self, producer: Any, calls: TransactionTasks, consumer: ReadingTaskConsumer | None, timeout: float | None) -> None:
        super().__init__(producer, calls, None if consumer is None else _reads_of(consumer), timeout)

    async def _membership(self, reads: Any) -> Any:
        return await run(reads.finding_membership())

    async def __aenter__(self) -> Any:
        return await run(self._entering())

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await run(self._leaving(error))
