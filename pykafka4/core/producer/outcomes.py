"""Outcomes. Rule: each record gets exactly one outcome, despite any exception; the ledger counts it before other threads can see it.

Every batch that leaves its queue ends here, acknowledged or failed. Its callbacks run on the callback executor.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.core.producer.ledger import Ledger
from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.error_table import Written
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import Batch

__all__ = ["Callbacks", "Outcomes"]

Callbacks = Callable[[], None]


class Outcomes:
    """Ends the batches of one producer."""

    def __init__(self, progress: Callable[[], None]) -> None:
        """`progress` is called after batches have ended, so that waiters look again."""
        self.ledger = Ledger()
        self.progress = progress
        self._deliver: list[Callbacks] = []
        self._finished = False  # whether a batch ended since `take_finished`

    def take_deliver(self) -> tuple[Callbacks, ...]:
        """The callbacks for the executor, each once."""
        deliver, self._deliver = tuple(self._deliver), []
        return deliver

    def take_finished(self) -> bool:
        """Whether a batch got its outcome since the last call."""
        finished, self._finished = self._finished, False
        return finished

    def acknowledge(self, queue: PartitionQueue, batch: Batch, offset: int, log_append_time_ms: int) -> None:
        """`batch` is in the log."""
        if batch.done:  # its delivery time-out came first
            queue.end_flight(batch)
            return
        queue.remove(batch)
        self.ledger.acknowledged(batch.count)
        self._settled(batch.complete(offset, log_append_time_ms))

    def fail(self, queue: PartitionQueue, batch: Batch, code: str, error: KafkaError) -> None:
        """Fail the records of `batch`."""
        written = Written.MAYBE if queue.may_be_written(batch) else Written.NO
        if batch.in_flight:
            self.ledger.requeued(batch.count)
        queue.withdraw(batch)
        queue.remove(batch)
        self.lose(batch, code, written, error)

    def lose(self, batch: Batch, code: str, written: Written, error: KafkaError) -> None:
        """Fail the records of `batch`, which is no longer in a queue. The ledger first: a thread that sees the outcome may read it."""
        try:
            self.ledger.lost(batch.topic, batch.partition, code, written, batch.count, error)
        finally:
            self._settled(batch.fail(code, written, error))

    def lose_parked(self, topic: str, code: str, cause: Exception, records: int, callbacks: Callbacks | None) -> None:
        """Count records that failed before they were in a batch."""
        try:
            self.ledger.lost(topic, None, code, Written.NO, records, cause)
        finally:
            self._settled(callbacks)

    def _settled(self, callbacks: Callbacks | None) -> None:
        self._finished = True
        if callbacks is not None:
            self._deliver.append(lambda: self._call_back(callbacks))

    def _call_back(self, callbacks: Callbacks) -> None:
        """On the executor. The memory of a batch is free only after its callbacks, so waiters look again after them."""
        try:
            callbacks()
        finally:
            self.progress()
