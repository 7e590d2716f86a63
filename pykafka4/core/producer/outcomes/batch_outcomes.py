"""Gives batches their outcomes, acknowledged or failed, and collects their callbacks for the callback executor.

Invariant: each record gets exactly one outcome, despite any exception; the ledger counts a batch before other threads can see
its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.outcomes.measures import BatchMeasures
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.records.hot import Batch

__all__ = ["Callbacks", "BatchEvents", "Outcomes", "Waiters"]

Callbacks = Callable[[], None]
GIVEN_UP = ("CLOSED", "PURGED", "TRANSACTION_ABORTED")  # codes of records that the application gave up


class BatchEvents(Protocol):
    """The receiver of batch events, for hooks. Its methods run no code of the application on the loop thread."""

    def sealed(self, batch: Batch) -> None:
        """`batch` accepts no more records."""

    def requested(self, node: int, batches: Sequence[Batch]) -> None:
        """A request with `batches` goes to `node`."""

    def watch(self, batch: Batch) -> None:
        """`batch` is about to get its outcome."""


class Waiters(Protocol):
    """The threads that wait for outcomes or for memory."""

    def progress(self) -> None:
        """Let the threads check again, because batches have their outcomes, or memory is free."""


class Outcomes:
    events: BatchEvents | None = None

    def __init__(self, waiters: Waiters) -> None:
        self.ledger = Ledger()
        self.measures = BatchMeasures()
        self._waiters = waiters
        self.on_lost: Callable[[BaseException], None] | None = None  # called after records have failed
        self._deliver: list[Callbacks] = []
        self._finished = False  # whether a record has got its outcome since the last `take_finished`

    def take_deliver(self) -> tuple[Callbacks, ...]:
        deliver, self._deliver = tuple(self._deliver), []
        return deliver

    def take_finished(self) -> bool:
        finished, self._finished = self._finished, False
        return finished

    def wake_waiters(self) -> None:
        if self.take_finished():
            self._waiters.progress()

    def acknowledge(self, queue: PartitionQueue, batch: Batch, offset: int, log_append_time_ms: int) -> None:
        """Complete `batch`. `offset` is -1 if it is unknown.

        A batch that already has its outcome keeps that outcome.
        """
        if batch.done:  # for example, the delivery timeout came first
            queue.end_flight(batch)
            return
        queue.remove(batch)
        self.ledger.acknowledged(queue.tp, batch.count, batch.raw_size, batch.size)
        self.measures.acknowledged(batch, self.ledger.clock())
        if batch.maybe_repeated:
            self.ledger.repeated(queue.tp, batch.count)
        if batch.last_error is not None:
            self.ledger.note_trouble(queue.tp, batch.last_error, refused=False)
        elif self.ledger.troubles:
            self.ledger.note_progress(queue.tp)
        if self.events is not None:
            self.events.watch(batch)
        self._settled(batch.complete(offset, log_append_time_ms))

    def fail(self, queue: PartitionQueue, batch: Batch, code: str, error: KafkaError) -> None:
        # Before `withdraw` and `remove`, which change the state that `may_be_written` reads.
        written = Written.MAYBE if queue.may_be_written(batch) else Written.NO
        if batch.in_flight:
            self.ledger.requeued(batch.count)
        queue.withdraw(batch)
        queue.remove(batch)
        self.lose(batch, code, written, error)

    def lose(self, batch: Batch, code: str, written: Written, error: KafkaError) -> None:
        """Fail `batch` without changing its queue. The ledger comes first: a thread that sees the outcome may read the ledger."""
        try:
            self.ledger.lost(batch.topic, batch.partition if batch.partition >= 0 else None, code, written, batch.count, error, batch.times)
            self._note_trouble(batch, code, error)
        finally:
            if self.events is not None:
                self.events.watch(batch)
            self._settled(batch.fail(code, written, error))
        if self.on_lost is not None:
            self.on_lost(error)

    def _note_trouble(self, batch: Batch, code: str, error: KafkaError) -> None:
        """Keep the error for `status`, unless the application gave the records up."""
        if batch.partition >= 0 and code not in GIVEN_UP:
            refused = isinstance(error, AuthorizationError)  # the next batch will also be refused, until the right is granted
            self.ledger.note_trouble(TopicPartition(batch.topic, batch.partition), error, refused)

    def lose_parked(
        self, topic: str, code: str, cause: Exception, records: int, callbacks: Callbacks | None, times: tuple[int, int]
    ) -> None:
        try:
            self.ledger.lost(topic, None, code, Written.NO, records, cause, times)
        finally:
            self._settled(callbacks)
        if self.on_lost is not None:
            self.on_lost(cause)

    def _settled(self, callbacks: Callbacks | None) -> None:
        self._finished = True
        if callbacks is not None:
            self._deliver.append(lambda: self._call_back(callbacks))

    def _call_back(self, callbacks: Callbacks) -> None:
        """Run callbacks, on the executor. The memory of their batch stays reserved until they return, so waiters then check again."""
        try:
            callbacks()
        finally:
            self._waiters.progress()
