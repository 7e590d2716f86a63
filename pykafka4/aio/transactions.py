"""Transactions for asyncio. Rule: one task at a time; a call whose outcome is not known is finished by the next call of the same name.

`producer.transactions` begins each operation and says how it ended; only the waiting is done here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol

import attrs

from pykafka4.aio.session import TaskConsumerSession
from pykafka4.aio.tasks import Home
from pykafka4.aio.waits import run
from pykafka4.client.attachment import SHORT
from pykafka4.consumer.transactional import Reading
from pykafka4.errors import ConfigError, KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionAborted, TransactionError, shown
from pykafka4.net import system
from pykafka4.producer.deliveries import Tasks
from pykafka4.producer.session import ProducerSession
from pykafka4.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["ReadingTaskConsumer", "TaskReads", "Transaction", "TransactionTasks"]


OFFSETS: Final = "send_offsets_to_transaction"


@attrs.frozen(eq=False)
class Busy:
    """The call that a task is in, and what wakes that task."""

    what: str
    tasks: Tasks


class TransactionTasks:
    """The calls of one producer's tasks."""

    def __init__(self, home: Home, session: ProducerSession) -> None:
        self._home, self._session, self._calls = home, session, session.transactions
        self._calls.waits = False
        self._busy: Busy | None = None

    async def init(self, timeout: float | None) -> None:
        """See Producer.init_transactions."""
        await self._run("init_transactions", lambda limit: self._calls.init(limit), timeout)

    async def begin(self) -> None:
        """See Producer.begin_transaction. It only waits for a turn of the client's thread."""
        await self._run("begin_transaction", lambda _: self._calls.begin(), SHORT)

    async def commit(self, timeout: float | None) -> None:
        """See Producer.commit_transaction."""
        await self._run("commit_transaction", lambda limit: self._calls.commit(limit), timeout)

    async def abort(self, timeout: float | None) -> None:
        """See Producer.abort_transaction."""
        await self._run("abort_transaction", lambda limit: self._calls.abort(limit), timeout)

    async def send_offsets(self, offsets: Any, group: Any, timeout: float | None) -> None:
        """See Producer.send_offsets_to_transaction. It is not finished by another call: the commit waits for these offsets."""
        try:
            await self._run(OFFSETS, lambda limit: self._calls.send_offsets(offsets, group, limit, resumes=True), timeout)
        finally:
            if self._busy is None or self._busy.what != OFFSETS:  # otherwise another task is in it
                self._calls.forget(OFFSETS)

    @property
    def number(self) -> int:
        """See TransactionCalls.number."""
        return self._calls.number

    def require(self, number: int) -> None:
        """See TransactionCalls.require."""
        self._calls.require(number)

    def read(self, reading: Reading) -> None:
        """The open transaction processes this."""
        self._calls.reading = reading

    async def leave(self, deadline: float) -> None:
        """The producer closes: abort the open transaction, or wait for the end of one that ends already."""
        if self._session.config.transactional_id is not None and self._session.runtime.loop.alive:
            await self._home.done(self._calls.begin_leaving(), deadline)

    def _enter(self, what: str) -> Busy:
        self._home.enter()
        busy = self._busy
        if busy is not None and not busy.tasks.over:
            raise TransactionError(f"a task called {what} while another is in {busy.what}: one task begins and ends the transactions")
        if busy is not None:  # its event loop was closed, so it never goes on
            self._calls.forget(OFFSETS)
        self._busy = busy = Busy(what, self._home.tasks)
        return busy

    async def _run(self, what: str, call: Callable[[float], None], timeout: float | None) -> None:
        """`call(seconds)` begins the operation, or takes part in one that was begun, and raises KafkaTimeoutError until it has ended."""
        mine = self._enter(what)
        limit = self._session.config.max_block_ms / 1000 if timeout is None else timeout
        try:
            try:
                call(limit)  # waits for nothing: see `TransactionCalls.waits`
                return
            except KafkaTimeoutError:
                unseen = self._calls.unseen
                if unseen is None:
                    raise
            await self._home.done(unseen, system.monotonic() + limit)
            call(limit)
        finally:
            if self._busy is mine:
                self._busy = None


class TaskReads:
    """What a transaction needs of the consumer whose records it processes: `consumer.transactional`, for a task."""

    def __init__(self, session: TaskConsumerSession) -> None:
        self._session, self._reads = session, session.transactional

    async def begin(self, timeout: float | None) -> Reading:
        """See TransactionalReads.begin."""
        self._session.enter()
        with self._session.guard.exclusive("transaction"):
            return await run(self._reads.beginning(timeout))

    def announce(self) -> None:
        """See TransactionalReads.announce."""
        self._reads.announce()

    def refuse(self) -> None:
        """See TransactionalReads.refuse."""
        self._reads.refuse()

    def take(self, reading: Reading) -> dict[TopicPartition, OffsetAndMetadata]:
        """See TransactionalReads.take."""
        with self._session.guard.exclusive("transaction"):
            return self._reads.take(reading)

    async def membership(self) -> ConsumerGroupMetadata:
        """See TransactionalReads.membership."""
        return await run(self._reads.finding_membership())

    def settle(self, reading: Reading) -> None:
        """See TransactionalReads.settle."""
        self._reads.settle(reading)

    async def fail(self, reading: Reading, timeout: float | None) -> None:
        """See TransactionalReads.fail."""
        with self._session.guard.exclusive("transaction"):
            await run(self._reads.failing(reading, timeout))


class ReadingTaskConsumer(Protocol):
    """An aio.Consumer."""

    def _in_task_transaction(self) -> TaskReads:
        """Raises ConfigError if its offsets cannot be part of a transaction."""


def _reads_of(consumer: ReadingTaskConsumer) -> TaskReads:
    if getattr(consumer, "_in_task_transaction", None) is None:
        if getattr(consumer, "_in_transaction", None) is not None:
            raise ConfigError("transaction(consumer): a pykafka4.Consumer would block the event loop; use a pykafka4.aio.Consumer")
        raise TypeError(f"transaction: consumer must be an aio.Consumer, not {shown(consumer)}")
    return consumer._in_task_transaction()


class Transaction:
    """An `async with` block that is one transaction: see Producer.transaction."""

    def __init__(self, producer: Any, calls: TransactionTasks, consumer: ReadingTaskConsumer | None, timeout: float | None) -> None:
        self._producer, self._calls, self._timeout = producer, calls, timeout
        self._reads = None if consumer is None else _reads_of(consumer)
        self._reading: Any = None
        self._number = 0
        if self._reads is not None:
            self._reads.announce()  # last: then `__aenter__` begins it, or it never begins

    async def __aenter__(self) -> Any:
        begun = False
        try:
            await self._calls.begin()
            begun = True
            self._number = self._calls.number
            if self._reads is not None:
                self._reading = await self._reads.begin(self._timeout)
                self._calls.read(self._reading)
            return self._producer
        except BaseException:  # also if it is cancelled
            if self._reads is not None:
                self._reads.refuse()
            if begun:
                with contextlib.suppress(KafkaError):
                    await self._calls.abort(self._timeout)  # it is empty, so this costs nothing
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            await self._require_own()
            await self._add_offsets()
            await self._commit()
        else:
            await self._give_up(error)

    async def _require_own(self) -> None:
        try:
            self._calls.require(self._number)
        except TransactionError as error:
            await self._rewind(error)
            raise

    async def _add_offsets(self) -> None:
        if self._reads is None:
            return
        try:
            if offsets := self._reads.take(self._reading):
                await self._calls.send_offsets(offsets, await self._reads.membership(), self._timeout)
        except BaseException as error:  # also a timeout, or if it is cancelled: the commit has not been asked for
            await self._give_up(error)
            raise

    async def _commit(self) -> None:
        try:
            await self._calls.commit(self._timeout)
        except (TransactionAborted, ConfigError) as error:
            await self._give_up(error)
            raise
        except KafkaTimeoutError:
            raise  # the next commit_transaction tells the outcome
        except KafkaError as error:
            await self._rewind(error)
            raise
        if self._reads is not None:
            self._reads.settle(self._reading)

    async def _give_up(self, error: BaseException) -> None:
        """Abort because of `error`, and read again what was read for this transaction, whatever becomes of the abort."""
        try:
            if not isinstance(error, ProducerFencedError):
                await self._abort(error)
        finally:
            await self._rewind(error)

    async def _rewind(self, error: BaseException) -> None:
        if self._reads is None:
            return
        try:
            await self._reads.fail(self._reading, self._timeout)
        except KafkaError as failure:
            error.add_note(f"pykafka4: rewinding the consumer failed; the next transaction with it tries again first: {failure}")

    async def _abort(self, error: BaseException) -> None:
        try:
            self._calls.require(self._number)
            await self._calls.abort(self._timeout)
        except ProducerFencedError as fenced:
            if isinstance(error, KafkaError):
                raise fenced from error  # it is the reason of the other error, and final
            error.add_note(f"pykafka4: aborting the transaction failed: {fenced}")
        except KafkaError as failure:
            error.add_note(f"pykafka4: aborting the transaction failed: {failure}")
