"""Counts batches that the producer could not deliver, and batches that may be in Kafka twice. Invariant: each failed batch is counted once.

The producer calls this on its callback executor, so reading the records of a failed batch does not hold up the agent's loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event
from typing import Final

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.message import Message, Reason
from pykafka4.hooks import BatchOutcome, ProducerHooks
from pykafka4.records import ProducerRecord

__all__ = ["BatchOutcomes", "count_undelivered", "message_of"]

UNDELIVERED: Final = "CLOSED"  # the code of records that the producer's `close` returns


class BatchOutcomes(ProducerHooks):
    """The hook of the agent's producer."""

    def __init__(self, ledger: Ledger, reasons: Reasons, keeps_undelivered: bool) -> None:
        """`keeps_undelivered`: there is a spool, which takes what is left at the end; the caller of its `close` counts the rest."""
        self._ledger, self._reasons, self._keeps_undelivered = ledger, reasons, keeps_undelivered
        self._closed = Event()

    def on_ack(self, outcome: BatchOutcome) -> None:
        """See ProducerHooks."""
        error = outcome.error
        if error is None:
            if outcome.maybe_repeated:
                self._ledger.repeated(outcome.topic, outcome.records, outcome.first_ms, outcome.last_ms)
            return
        code = str(error.code)
        if not (self._keeps_undelivered and code == UNDELIVERED):
            self._ledger.failed([message_of(record) for record in outcome.lost()], self._reasons.of(code), str(error))

    def on_close(self) -> None:
        """See ProducerHooks."""
        self._closed.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is counted, after `Producer.close`; False if the time was over first."""
        return self._closed.wait(timeout_s)


def count_undelivered(ledger: Ledger, rest: Iterable[ProducerRecord]) -> None:
    """After the spool's `close`, which has returned the records for which it has no room."""
    ledger.failed([message_of(record) for record in rest], Reason.SERVER_SHUTDOWN)


def message_of(record: ProducerRecord) -> Message:
    """The message that a record was made of; its partition key is not known any more."""
    return record.topic, record.value, record.key, None, record.timestamp_ms or 0
