"""Transactions for asyncio. Rule: one task at a time; a call whose outcome is not known is finished by the next call of the same name.

`producer.transactions` begins each operation and says how it ended; only the waiting is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from pykafka4.aio.tasks import Home
from pykafka4.attachment import SHORT
from pykafka4.errors import ConfigError, KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionAborted, TransactionError
from pykafka4.net import system
from pykafka4.producer.core import Core

__all__ = ["Transaction", "TransactionTasks"]


class TransactionTasks:
    """The calls of one producer's tasks."""

    def __init__(self, home: Home, core: Core) -> None:
        self._home, self._core, self._calls = home, core, core.transactions
        self._calls.waits = False
        self._busy = ""  # the call that a task is in

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
        what = "send_offsets_to_transaction"
        try:
            await self._run(what, lambda limit: self._calls.send_offsets(offsets, group, limit, resumes=True), timeout)
        finally:
            if self._busy != what:  # otherwise another task is in it
                self._calls.forget(what)

    async def leave(self, deadline: float) -> None:
        """The producer closes: abort the open transaction, or wait for the end of one that ends already."""
        if self._core.config.transactional_id is not None and self._core.runtime.loop.alive:
            await self._home.done(self._calls.begin_leaving(), deadline)

    def _enter(self, what: str) -> None:
        self._home.enter()
        if self._busy:
            raise TransactionError(f"a task called {what} while another is in {self._busy}: one task begins and ends the transactions")

    async def _run(self, what: str, call: Callable[[float], None], timeout: float | None) -> None:
        """`call(seconds)` begins the operation, or takes part in one that was begun, and raises KafkaTimeoutError until it has ended."""
        self._enter(what)
        limit = self._core.config.max_block_ms / 1000 if timeout is None else timeout
        self._busy = what
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
            self._busy = ""


class Transaction:
    """An `async with` block that is one transaction: see Producer.transaction."""

    def __init__(self, producer: Any, calls: TransactionTasks, timeout: float | None) -> None:
        self._producer, self._calls, self._timeout = producer, calls, timeout

    async def __aenter__(self) -> Any:
        await self._calls.begin()
        return self._producer

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            try:
                await self._calls.commit(self._timeout)
            except (TransactionAborted, ConfigError) as failure:
                await self._abort_after(failure)
                raise
        elif not isinstance(error, ProducerFencedError):
            await self._abort_after(error)

    async def _abort_after(self, error: BaseException) -> None:
        try:
            await self._calls.abort(self._timeout)
        except ProducerFencedError as fenced:
            if isinstance(error, KafkaError):
                raise fenced from error  # it is the reason of the other error, and final
            error.add_note(f"pykafka4: aborting the transaction failed: {fenced}")
        except KafkaError as failure:
            error.add_note(f"pykafka4: aborting the transaction failed: {failure}")
