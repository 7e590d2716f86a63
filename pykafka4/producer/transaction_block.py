"""Runs a `with` block as one transaction: begin, offsets of the consumer, commit or abort. Threads and tasks share this code (`Steps`).

Invariant: the offsets of records that a block has read are committed with its transaction, or the records are read again.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Protocol

from pykafka4.client.steps import Steps, at_once, awaited
from pykafka4.errors import KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionAborted, TransactionError, shown
from pykafka4.producer.transactions import TransactionCalls
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["ReadingConsumer", "ConsumerSide", "TransactionBlock", "TransactionSteps"]


class ConsumerSide(Protocol):
    """The part of a consumer that a block uses. `consumer.transactional` implements it."""

    def membership(self) -> Any:
        """The consumer's membership in its group, for the commit of its offsets."""

    def announce(self) -> None:
        """Remember that a block was made for the records read so far. The block may never begin."""

    def begin(self, timeout: float | None) -> Any:
        """A `Reading` for a transaction that begins. Rewinds first if the last transaction was not committed, or could not begin.

        Raises TransactionAborted if the rewind takes back unprocessed records.
        """

    def refuse(self) -> None:
        """Remember that a transaction could not begin: the records read for it are not part of the next transaction."""

    def take(self, reading: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets after the records that the application has received and no transaction has committed."""

    def settle(self, reading: Any) -> None:
        """Settle an ended transaction: after a known commit, the consumer needs no rewind."""

    def fail(self, reading: Any, timeout: float | None) -> Any:
        """Rewind the consumer, so that it reads again the records of an uncommitted transaction."""


class ReadingConsumer(Protocol):
    """A `Consumer` or `aio.Consumer` whose offsets become part of a transaction."""

    def _in_transaction(self) -> ConsumerSide:
        """The consumer's side of transactions. Raises ConfigError if the consumer's offsets cannot be part of a transaction."""


class TransactionSteps:
    def __init__(self, producer: Any, calls: TransactionCalls, reads: ConsumerSide | None, timeout: float | None) -> None:
        self._producer, self._calls, self._reads, self._timeout = producer, calls, reads, timeout
        self._reading: Any = None
        self._number = 0
        if reads is not None:
            reads.announce()  # last: an error before this leaves nothing announced

    def _entering(self) -> Steps[Any]:
        begun = False
        try:
            yield from awaited(self._calls.begin())
            begun = True
            self._number = self._calls.number
            if self._reads is not None:
                self._reading = self._calls.reading = yield from awaited(self._reads.begin(self._timeout))
            return self._producer
        except BaseException:
            if self._reads is not None:
                self._reads.refuse()  # before the abort, which may take a long time: otherwise Ctrl-C in the abort would lose the rewind
            if begun:
                with contextlib.suppress(KafkaError):
                    yield from awaited(self._calls.abort(self._timeout))  # if this fails too, the block raises the first error
            raise

    def _leaving(self, error: BaseException | None) -> Steps[None]:
        if error is None:
            yield from self._require_own()
            yield from self._add_offsets()
            yield from self._commit()
        else:
            yield from self._give_up(error)

    def _require_own(self) -> Steps[None]:
        try:
            self._calls.require(self._number)
        except TransactionError as error:
            yield from self._rewind(error)
            raise

    def _add_offsets(self) -> Steps[None]:
        if self._reads is None:
            return
        try:
            if offsets := self._reads.take(self._reading):
                member = yield from awaited(self._membership(self._reads))
                yield from awaited(self._calls.send_offsets(offsets, member, self._timeout))
        except BaseException as error:  # also a timeout, Ctrl-C or a cancellation: no commit was requested, so an abort is safe
            yield from self._give_up(error)
            raise

    def _commit(self) -> Steps[None]:
        try:
            yield from awaited(self._calls.commit(self._timeout))
        except TransactionAborted as error:
            yield from self._give_up(error)
            raise
        except KafkaTimeoutError:
            raise  # no rewind: the transaction may be committed. The next commit_transaction returns or raises its outcome
        except KafkaError as error:
            yield from self._rewind(error)
            raise
        if self._reads is not None:
            self._reads.settle(self._reading)

    def _give_up(self, error: BaseException) -> Steps[None]:
        """Abort, unless the producer is fenced; then rewind the consumer, even if the abort fails."""
        try:
            if not isinstance(error, ProducerFencedError):
                yield from self._abort(error)
        finally:
            yield from self._rewind(error)

    def _abort(self, error: BaseException) -> Steps[None]:
        try:
            self._calls.require(self._number)
            yield from awaited(self._calls.abort(self._timeout))
        except ProducerFencedError as fenced:
            if isinstance(error, KafkaError):
                raise fenced from error  # the fencing is final, and perhaps the reason for `error`
            error.add_note(f"pykafka4: aborting the transaction failed: {fenced}")
        except KafkaError as failure:
            error.add_note(f"pykafka4: aborting the transaction failed: {failure}")

    def _rewind(self, error: BaseException) -> Steps[None]:
        if self._reads is None:
            return
        try:
            yield from awaited(self._reads.fail(self._reading, self._timeout))
        except KafkaError as failure:
            error.add_note(f"pykafka4: rewinding the consumer failed; its next transaction will first try again: {failure}")

    def _membership(self, reads: ConsumerSide) -> Any:
        return reads.membership()


class TransactionBlock(TransactionSteps):
    def __init__(self, producer: Any, calls: TransactionCalls, consumer: ReadingConsumer | None, timeout: float | None) -> None:
        try:
            if consumer is not None and getattr(consumer, "_in_transaction", None) is None:
                raise TypeError(f"transaction: consumer must be a Consumer, not {shown(consumer)}")
            super().__init__(producer, calls, None if consumer is None else consumer._in_transaction(), timeout)
        except (TypeError, KafkaError):
            raise  # the consumer was refused before anything was announced
        except BaseException:  # Ctrl-C, perhaps after the announcement: the block never begins, so its records must be read again
            if consumer is not None:
                consumer._in_transaction().refuse()
            raise

    def __enter__(self) -> Any:
        return at_once(self._entering())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        at_once(self._leaving(error))
