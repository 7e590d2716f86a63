"""Has the loop begin, commit and abort transactions, and waits for the outcomes, on threads of the application.

Invariant: if the loop may have begun an operation whose call timed out or was interrupted, the next call of the same name resumes the
operation; until then other transaction calls are refused. `send_offsets_to_transaction` is not resumed, because the commit waits for its
offsets, nor is a call of a destructor on a loop thread. One thread at a time is in a call.
`core.producer.transactions.machine` does the work on the loop thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, Protocol

import attrs

from pykafka4.client.attachment import LOOP_ANSWER_S
from pykafka4.client.runtime import Runtime
from pykafka4.core.producer.sender import Sender
from pykafka4.core.producer.transactions.machine import Done, Transactions
from pykafka4.errors import (
    ClosedError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    TransactionError,
    shown,
)
from pykafka4.misuse import as_offsets, check_count
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ProducerConfig
from pykafka4.records import ConsumerGroupMetadata

__all__ = ["NOT_TRANSACTIONAL", "SEND_OFFSETS", "Start", "TransactionCalls"]

NOT_TRANSACTIONAL: Final = "this producer has no transactional_id; pass one when you create it"

SEND_OFFSETS: Final = "send_offsets_to_transaction"
MOST_TEXT: Final = 2**15 - 1  # bytes of a string of the protocol
MOST_GENERATION: Final = 2**31 - 1

Start = Callable[[Transactions, float, Done], None]
Caller = tuple[Thread, str]  # a thread, and the name of its call


class Reading(Protocol):
    """The consumer's records in one transaction: see `consumer.transactional`."""

    committed: bool


class ProducerSide(Protocol):
    """The part of the producer's session that transactions use."""

    machine: Sender
    runtime: Runtime

    def post(self, fn: Callable[[float], object]) -> None:
        """See `Attachment.post`."""

    def promise(self) -> Promise[Any]:
        """See `Attachment.promise`."""

    def mark_failures_seen(self, start: int, end: int) -> None:
        """Remember that this thread or task has seen the failures from `start` to `end`, counted as in `Ledger.failures_seen`."""


@attrs.define(eq=False)
class UnseenCall:
    """A call whose outcome the application has not seen yet."""

    what: str
    promise: Promise[None]
    posted: bool = False  # the loop may begin the operation at any time
    started: bool = False

    def run(self, start: Start, transactions: Transactions, now: float) -> None:
        if self.started:  # each call that resumes the operation posts it again
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
    def __init__(self, owner: ProducerSide, config: ProducerConfig, check: Callable[[], None]) -> None:
        """`check` raises the error that has ended the producer, if any."""
        self._owner, self._config, self._check = owner, config, check
        self._caller: dict[str, Caller] = {}  # empty, or one entry: the thread in a call
        self._unseen: UnseenCall | None = None  # the operation whose outcome no call has returned or raised yet
        self.number = 0  # the number of the last transaction that has begun
        self.reading: Reading | None = None  # the consumer's records in the transaction `number`, if its block has a consumer
        self._given_up: list[tuple[int, int]] = []  # ranges of failures of the last abort, until its caller has seen them

    # ---------------------------------------------------------------- calls

    def init(self, timeout: float | None) -> Any:
        return self._run("init_transactions", lambda transactions, now, done: transactions.init(now, done), timeout)

    def begin(self) -> Any:
        def start(transactions: Transactions, now: float, done: Done) -> None:
            transactions.begin(now)
            self.number += 1
            self.reading = None  # on the loop: Ctrl-C in the waiting thread must not leave the reading of an earlier transaction
            done(None)

        return self._run("begin_transaction", start, LOOP_ANSWER_S)

    def commit(self, timeout: float | None) -> Any:
        reading = self.reading

        def start(transactions: Transactions, now: float, done: Done) -> None:
            def ended(error: KafkaError | None) -> None:
                if error is None and reading is not None:
                    reading.committed = True  # on the loop: Ctrl-C in the waiting thread must not make the consumer read the records again
                done(error)

            transactions.commit(now, ended)

        return self._run("commit_transaction", start, timeout)

    def abort(self, timeout: float | None) -> Any:
        def start(transactions: Transactions, now: float, done: Done) -> None:
            ledger = self._owner.machine.ledger
            before = ledger.failures_seen

            def ended(error: KafkaError | None) -> None:
                self._given_up = [*transactions.given_up, (before, ledger.failures_seen)] if error is None else []
                done(error)

            transactions.abort(now, ended)

        return self._run("abort_transaction", start, timeout)

    def send_offsets(self, offsets: object, group: object, timeout: float | None) -> Any:
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

        return self._run(SEND_OFFSETS, start, timeout, resumes=False)

    def require(self, number: int) -> None:
        if number != self.number:
            raise TransactionError(
                "the transaction of this block was ended inside the block, and another one has begun, which the block does not end; "
                "leave a block before the next begin_transaction"
            )

    def forget(self, what: str) -> None:
        """Drop the unseen outcome of the call `what`, which the application will not make again."""
        if self._unseen is not None and self._unseen.what == what:
            self._unseen = None

    def leave(self, timeout: float) -> None:
        """Abort the open transaction for `close`, or wait for a transaction that is already ending; at most `timeout` seconds."""
        try:
            self.begin_leaving().exception(timeout)
        except KafkaTimeoutError:
            return

    def begin_leaving(self) -> Promise[None]:
        """Begin `leave`; return a promise that gets its result when no transaction is open any more."""
        why = ClosedError("the producer was closed before the transaction was committed")
        promise = self._owner.promise()

        def start(now: float) -> None:
            transactions = self._owner.machine.transactions
            assert transactions is not None
            transactions.leave(now, why, lambda: promise.set_result(None))

        self._owner.post(start)
        return promise

    # ---------------------------------------------------------------- waits for outcomes

    def _run(self, what: str, start: Start, timeout: float | None, resumes: bool = True) -> Any:
        """`resumes`: after a timeout or Ctrl-C, the next call of the same name resumes this one."""
        if self._config.transactional_id is None:
            raise ConfigError(f"{what}: {NOT_TRANSACTIONAL}")
        self._check()
        limit = self._config.max_block_ms / 1000 if timeout is None else timeout
        mine = (system.current_thread(), what)
        outer: Caller | None = None  # the call that a signal handler has interrupted
        operation: UnseenCall | None = None
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
        finally:  # again, in case of Ctrl-C in the first `_leave`: an entry that stays would lock all other threads out
            self._leave(mine, outer)
        for given_up in self._given_up:  # the caller has given these records up: the producer's `with` block must not raise their failures
            self._owner.mark_failures_seen(*given_up)
        self._given_up = []
        self._saw(operation)  # last: if Ctrl-C ends this call earlier, the application has not seen the outcome, and can call again

    def _enter(self, mine: Caller) -> Caller | None:
        """Enter a call; return the outer call of this thread, if any, which a signal handler has interrupted.

        Raises TransactionError if another living thread is in a call.
        """
        holder = self._caller.setdefault("caller", mine)  # atomic: only one of two threads gets the entry
        if holder[0] is not mine[0] and holder[0].is_alive():
            raise TransactionError(
                f"thread {mine[0].name!r} called {mine[1]} while thread {holder[0].name!r} is in {holder[1]}: "
                "one thread begins and ends the transactions of a producer; any thread may send records"
            )
        outer = holder if holder is not mine and self._is_nested() else None
        self._caller["caller"] = mine
        return outer

    def _leave(self, mine: Caller, outer: Caller | None) -> None:
        """Leave the call `mine`, and enter `outer` again, if any. A second `_leave` changes nothing."""
        if self._caller.get("caller") is mine:
            if outer is None:
                self._caller.clear()
            else:
                self._caller["caller"] = outer

    def _saw(self, operation: UnseenCall) -> None:
        if self._unseen is operation:
            self._unseen = None

    def _is_nested(self) -> bool:
        """Whether this thread is in another `_run` of this object, whose call has to get its entry back.

        The entry does not prove this: a call that Ctrl-C ended may have left its entry behind.
        """
        found, frame = 0, sys._getframe()
        while (before := frame.f_back) is not None:
            frame = before
            found += frame.f_code is TransactionCalls._run.__code__ and frame.f_locals.get("self") is self
        return found > 1

    def _operation(self, what: str, resumes: bool) -> UnseenCall:
        unseen = self._unseen
        if unseen is not None and unseen.posted and unseen.what != what:
            raise TransactionError(
                f"{what}: the outcome of {unseen.what} is not known yet, because that call timed out or was interrupted; "
                f"call {unseen.what} again"
            )
        if unseen is None or unseen.what != what:
            unseen = UnseenCall(what, self._owner.promise())
            self._unseen = unseen if resumes else None
        return unseen

    def _block_seconds(self, limit: float) -> float:
        """Overridden in `aio.transactions`: a task must not block its thread."""
        return limit

    def _wait(self, operation: UnseenCall, start: Start, limit: float) -> None:
        transactions = self._owner.machine.transactions
        assert transactions is not None
        on_loop = logs.current().on_loop()  # of any client: in a destructor, which must not wait there
        dying = on_loop and not operation.posted
        operation.posted = True  # before the post: otherwise Ctrl-C between the two would let another call begin alongside this operation
        self._owner.post(lambda now: operation.run(start, transactions, now))
        try:
            operation.promise.result(0.0 if on_loop else self._block_seconds(limit))
        except KafkaTimeoutError:
            if operation.promise.done():  # the operation has failed with this error, or has ended just now
                operation.promise.result(0.0)
                return
            if dying:
                self.forget(operation.what)  # no call will resume the operation, and its unseen outcome would keep other calls out
            trouble = transactions.trouble
            why = f" (last error: {trouble})" if trouble is not None else "; status() says why"
            again = f"; the outcome is not known: call {operation.what} again" if operation is self._unseen else ""
            raise KafkaTimeoutError(f"{operation.what}: not done within {limit:g} s{why}{again}") from None


def _member(group: ConsumerGroupMetadata) -> tuple[str, int, str, str | None]:
    """The application may have made `group` itself. Raises TypeError or ConfigError with the name of a wrong field."""
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
