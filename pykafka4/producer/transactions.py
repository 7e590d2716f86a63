"""Transactions of an application. Rule: a call whose outcome is not known is finished by the next call of the same name, and by no other.

`core.producer.transactions.machine` does the work on the loop thread. Here the calls of the application wait for it: one thread at a time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Any, Final, Protocol

import attrs

from pykafka4.client.attachment import SHORT
from pykafka4.client.runtime import Runtime
from pykafka4.core.producer.sender import Sender
from pykafka4.core.producer.transactions.machine import Done, Transactions
from pykafka4.errors import (
    ClosedError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAborted,
    TransactionError,
    shown,
)
from pykafka4.misuse import as_offsets, check_count
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ProducerConfig
from pykafka4.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["NOT_TRANSACTIONAL", "ReadingConsumer", "TransactionBlock", "TransactionCalls"]

NOT_TRANSACTIONAL: Final = "this producer has no transactional_id; pass one when you create it"

MOST_TEXT: Final = 2**15 - 1  # bytes of a string of the protocol
MOST_GENERATION: Final = 2**31 - 1

Start = Callable[[Transactions, float, Done], None]
Caller = tuple[Thread, str]  # a thread, and the call that it is in


class Reading(Protocol):
    """What one transaction processes of a consumer."""

    committed: bool


class Reads(Protocol):
    """What a transaction needs of the consumer whose records it processes: see `consumer.transactional`."""

    def membership(self) -> ConsumerGroupMetadata:
        """Its place in the group."""

    def announce(self) -> None:
        """A block is made, for what has been read. Its `begin` may never come."""

    def begin(self, timeout: float | None) -> Any:
        """A `Reading` for a transaction that begins; goes back first if the last one was not committed, or could not begin."""

    def refuse(self) -> None:
        """A transaction could not begin: what was read for it is not part of the next one."""

    def take(self, reading: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the application has read and no transaction has committed."""

    def settle(self, reading: Any) -> None:
        """The transaction has ended."""

    def fail(self, reading: Any, timeout: float | None) -> None:
        """It is not committed: read again from the committed offsets."""


class ReadingConsumer(Protocol):
    """A Consumer."""

    def _in_transaction(self) -> Reads:
        """Raises ConfigError if its offsets cannot be part of a transaction."""


class Owner(Protocol):
    """The producer's core."""

    machine: Sender
    runtime: Runtime

    def post(self, fn: Callable[[float], object]) -> None:
        """See `Attachment.post`."""

    def promise(self) -> Promise[Any]:
        """See `Attachment.promise`."""

    def _tell(self, start: int, end: int) -> None:
        """This thread or task knows of the failures from `start` to `end`, counted as in `Ledger.failures_seen`."""


@attrs.define(eq=False)
class Operation:
    """A call whose outcome the application has not seen yet."""

    what: str
    promise: Promise[None]
    posted: bool = False  # it may begin at any time
    started: bool = False

    def run(self, start: Start, transactions: Transactions, now: float) -> None:
        """Begin it, once, on the loop thread."""
        if self.started:
            return
        self.started = True
        try:
            start(transactions, now, self._end)
        except KafkaError as error:
            self.promise.set_exception(error)

    def _end(self, error: KafkaError | None) -> None:
        if error is None:
            self.promise.set_result(None)
        else:
            self.promise.set_exception(error)


class TransactionCalls:
    """The calls of one producer's application."""

    def __init__(self, owner: Owner, config: ProducerConfig, check: Callable[[], None]) -> None:
        """`check` raises the error that every call would raise, if any."""
        self._owner, self._config, self._check = owner, config, check
        self._caller: dict[str, Caller] = {}  # the thread in a call, and the call
        self._unseen: Operation | None = None  # an init, commit or abort that was interrupted or timed out
        self.number = 0  # of the last transaction that has begun
        self.reading: Reading | None = None  # of the block that has begun the transaction
        self._given_up: list[tuple[int, int]] = []  # the failures of the last abort, until its caller knows of them
        self.waits = (
            True  # False: a call that would have to wait raises KafkaTimeoutError at once; a task waits for `unseen`, then calls again
        )

    # ---------------------------------------------------------------- calls

    def init(self, timeout: float | None) -> None:
        """See Producer.init_transactions."""
        self._run("init_transactions", lambda transactions, now, done: transactions.init(now, done), timeout)

    def begin(self) -> None:
        """See Producer.begin_transaction."""

        def start(transactions: Transactions, now: float, done: Done) -> None:
            transactions.begin(now)
            self.number += 1
            self.reading = None  # here: Ctrl-C in the thread that waits must not leave that of an earlier transaction
            done(None)

        self._run("begin_transaction", start, SHORT)

    def commit(self, timeout: float | None) -> None:
        """See Producer.commit_transaction."""
        reading = self.reading

        def start(transactions: Transactions, now: float, done: Done) -> None:
            def ended(error: KafkaError | None) -> None:
                if error is None and reading is not None:
                    reading.committed = True  # here: Ctrl-C in the thread that waits must not hide it
                done(error)

            transactions.commit(now, ended)

        self._run("commit_transaction", start, timeout)

    def abort(self, timeout: float | None) -> None:
        """See Producer.abort_transaction."""

        def start(transactions: Transactions, now: float, done: Done) -> None:
            ledger = self._owner.machine.ledger
            before = ledger.failures_seen

            def ended(error: KafkaError | None) -> None:
                self._given_up = [*transactions.given_up, (before, ledger.failures_seen)] if error is None else []
                done(error)

            transactions.abort(now, ended)

        self._run("abort_transaction", start, timeout)

    def send_offsets(self, offsets: object, group: object, timeout: float | None, resumes: bool = False) -> None:
        """See Producer.send_offsets_to_transaction."""
        places = as_offsets(offsets)
        if isinstance(group, str):
            raise TypeError(
                f"group_metadata={group!r}: pass consumer.group_metadata(), or ConsumerGroupMetadata(group_id) without a member"
            )
        if not isinstance(group, ConsumerGroupMetadata):
            raise TypeError(f"group_metadata must be a ConsumerGroupMetadata (consumer.group_metadata()), not {type(group).__name__}")
        member = _member(group)

        def start(transactions: Transactions, now: float, done: Done) -> None:
            transactions.send_offsets(now, places, member, done)

        self._run("send_offsets_to_transaction", start, timeout, resumes)

    @property
    def unseen(self) -> Promise[None] | None:
        """The outcome of the call that has to be made again, if there is one."""
        return None if self._unseen is None else self._unseen.promise

    def require(self, number: int) -> None:
        """Raise TransactionError if another transaction has begun since the one with this number."""
        if number != self.number:
            raise TransactionError(
                "the transaction of this block was ended inside of the block, and another one has begun: the block does not end that one; "
                "leave a block before the next begin_transaction"
            )

    def forget(self, what: str) -> None:
        """That call will not be made again, if it is this one."""
        if self._unseen is not None and self._unseen.what == what:
            self._unseen = None

    def leave(self, timeout: float) -> None:
        """The producer closes: abort the open transaction, or wait for the end of one that ends already; at most `timeout` seconds."""
        try:
            self.begin_leaving().exception(timeout)
        except KafkaTimeoutError:
            return

    def begin_leaving(self) -> Promise[None]:
        """Abort the open transaction, or find the end of one that ends already."""
        why = ClosedError("the producer was closed before the transaction was committed")
        promise = self._owner.promise()

        def start(now: float) -> None:
            transactions = self._owner.machine.transactions
            assert transactions is not None
            transactions.leave(now, why, lambda: promise.set_result(None))

        self._owner.post(start)
        return promise

    # ---------------------------------------------------------------- how they wait

    def _run(self, what: str, start: Start, timeout: float | None, resumes: bool = True) -> None:
        """Do `start` on the loop thread and wait for its outcome. `resumes`: the next call of that name takes part in this one."""
        if self._config.transactional_id is None:
            raise ConfigError(f"{what}: {NOT_TRANSACTIONAL}")
        self._check()
        limit = self._config.max_block_ms / 1000 if timeout is None else timeout
        mine = (system.current_thread(), what)
        outer: Caller | None = None  # the call that a signal handler has interrupted
        operation: Operation | None = None
        try:
            try:
                outer = self._enter(mine)
                operation = self._operation(what, resumes)
                self._wait(operation, start, limit)
            except KafkaError:
                if operation is not None and operation.promise.done():
                    self._saw(operation)
                raise
            finally:
                self._leave(mine, outer)
        finally:  # again, in case of Ctrl-C there: an entry that stays would lock all other threads out
            self._leave(mine, outer)
        for given_up in self._given_up:  # the caller has given these records up: leaving the producer's `with` block does not raise them
            self._owner._tell(*given_up)
        self._given_up = []
        self._saw(operation)  # last: if Ctrl-C ends this call before, the application has not seen the outcome, and calls again

    def _enter(self, mine: Caller) -> Caller | None:
        """This thread is in a call; returns the one that it interrupts. TransactionError if another thread is in one."""
        holder = self._caller.setdefault("caller", mine)  # atomic under the GIL: only one of two threads gets it
        if holder[0] is not mine[0] and holder[0].is_alive():
            raise TransactionError(
                f"thread {mine[0].name!r} called {mine[1]} while thread {holder[0].name!r} is in {holder[1]}: "
                "one thread begins and ends the transactions of a producer; records may be sent by any"
            )
        outer = holder if holder is not mine and self._is_nested() else None
        self._caller["caller"] = mine
        return outer

    def _leave(self, mine: Caller, outer: Caller | None) -> None:
        """This thread leaves the call, if it is in it."""
        if self._caller.get("caller") is mine:
            if outer is None:
                self._caller.clear()
            else:
                self._caller["caller"] = outer

    def _saw(self, operation: Operation) -> None:
        """The application sees its outcome."""
        if self._unseen is operation:
            self._unseen = None

    def _is_nested(self) -> bool:
        """Whether this thread is in another `_run` of this object. A call that Ctrl-C has ended may have left its entry behind."""
        found, frame = 0, sys._getframe()
        while (before := frame.f_back) is not None:
            frame = before
            found += frame.f_code is TransactionCalls._run.__code__ and frame.f_locals.get("self") is self
        return found > 1

    def _operation(self, what: str, resumes: bool) -> Operation:
        unseen = self._unseen
        if unseen is not None and unseen.posted and unseen.what != what:
            raise TransactionError(
                f"{what}: the outcome of {unseen.what} is not known yet, because that call timed out or was interrupted; "
                f"call {unseen.what} again"
            )
        if unseen is None or unseen.what != what:
            unseen = Operation(what, self._owner.promise())
            self._unseen = unseen if resumes else None
        return unseen

    def _wait(self, operation: Operation, start: Start, limit: float) -> None:
        transactions = self._owner.machine.transactions
        assert transactions is not None
        dying = not operation.posted and self._owner.runtime.loop.on_loop()  # a destructor on the loop's own thread: it must not wait
        operation.posted = True  # first: it may begin while Ctrl-C ends this call
        self._owner.post(lambda now: operation.run(start, transactions, now))
        try:
            operation.promise.result(limit if self.waits and not self._owner.runtime.loop.on_loop() else 0.0)
        except KafkaTimeoutError:
            if operation.promise.done():  # with this error, or just now
                operation.promise.result(0.0)
                return
            if dying:
                self.forget(operation.what)  # nobody will call it again
            trouble = transactions.trouble
            why = f" (last error: {trouble})" if trouble is not None else "; status() says why"
            again = f"; the outcome is not known: call {operation.what} again" if operation is self._unseen else ""
            raise KafkaTimeoutError(f"{operation.what}: not done within {limit:g} s{why}{again}") from None


def _member(group: ConsumerGroupMetadata) -> tuple[str, int, str, str | None]:
    """The fields of `group`, which the application may have made itself. Raises TypeError or ConfigError naming one that is wrong."""
    instance, generation = group.group_instance_id, group.generation_id
    return (
        _text(group.group_id, "group_id"),
        -1 if type(generation) is int and generation == -1 else check_count(generation, "group_metadata: generation_id", MOST_GENERATION),
        _text(group.member_id, "member_id"),
        None if instance is None else _text(instance, "group_instance_id"),
    )


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"group_metadata: {what} must be a str, not {shown(value)}")
    text = str.__str__(value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"group_metadata: {what}={shown(text)}: cannot be encoded as UTF-8") from None
    if size > MOST_TEXT:
        raise ConfigError(f"group_metadata: {what} has {size:,} bytes as UTF-8; at most {MOST_TEXT:,} fit into a request")
    return text


class TransactionBlock:
    """A `with` block that is one transaction: see Producer.transaction."""

    def __init__(self, producer: Any, calls: TransactionCalls, consumer: ReadingConsumer | None, timeout: float | None) -> None:
        try:
            if consumer is not None and getattr(consumer, "_in_transaction", None) is None:
                raise TypeError(f"transaction: consumer must be a Consumer, not {shown(consumer)}")
            self._producer, self._calls, self._timeout = producer, calls, timeout
            self._reads = None if consumer is None else consumer._in_transaction()
            self._reading: Any = None
            self._number = 0
            if self._reads is not None:
                self._reads.announce()  # last: then `__enter__` begins it, or Ctrl-C comes before that
        except (TypeError, KafkaError):
            raise  # nothing that can be read in a transaction
        except BaseException:  # Ctrl-C
            if consumer is not None:
                consumer._in_transaction().refuse()
            raise

    def __enter__(self) -> Any:
        begun = False
        try:
            self._calls.begin()
            begun = True
            self._number = self._calls.number
            if self._reads is not None:
                self._reading = self._calls.reading = self._reads.begin(self._timeout)
            return self._producer
        except BaseException:
            if self._reads is not None:
                self._reads.refuse()  # first: the abort may take long, and Ctrl-C may end it
            if begun:
                with contextlib.suppress(KafkaError):
                    self._calls.abort(self._timeout)  # it is empty, so this costs nothing
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._require_own()
            self._add_offsets()
            self._commit()
        else:
            self._give_up(error)

    def _require_own(self) -> None:
        try:
            self._calls.require(self._number)
        except TransactionError as error:
            self._rewind(error)
            raise

    def _add_offsets(self) -> None:
        if self._reads is None:
            return
        try:
            if offsets := self._reads.take(self._reading):
                self._calls.send_offsets(offsets, self._reads.membership(), self._timeout)
        except BaseException as error:  # also a timeout or Ctrl-C: the commit has not been asked for
            self._give_up(error)
            raise

    def _commit(self) -> None:
        try:
            self._calls.commit(self._timeout)
        except TransactionAborted as error:
            self._give_up(error)
            raise
        except KafkaTimeoutError:
            raise  # the next commit_transaction tells the outcome
        except KafkaError as error:
            self._rewind(error)
            raise
        if self._reads is not None:
            self._reads.settle(self._reading)

    def _give_up(self, error: BaseException) -> None:
        """Abort because of `error`, and read again what was read for this transaction, whatever becomes of the abort."""
        try:
            if not isinstance(error, ProducerFencedError):
                self._abort(error)
        finally:
            self._rewind(error)

    def _abort(self, error: BaseException) -> None:
        try:
            self._calls.require(self._number)
            self._calls.abort(self._timeout)
        except ProducerFencedError as fenced:
            if isinstance(error, KafkaError):
                raise fenced from error  # it is the reason of the other error, and final
            error.add_note(f"pykafka4: aborting the transaction failed: {fenced}")
        except KafkaError as failure:
            error.add_note(f"pykafka4: aborting the transaction failed: {failure}")

    def _rewind(self, error: BaseException) -> None:
        if self._reads is None:
            return
        try:
            self._reads.fail(self._reading, self._timeout)
        except KafkaError as failure:
            error.add_note(f"pykafka4: rewinding the consumer failed; the next transaction with it tries again first: {failure}")
