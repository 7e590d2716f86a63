"""Counts batches that the producer could not deliver, and batches that may be in Kafka twice. Invariant: each failed batch is counted once.

The producer calls this on its callback executor, so reading the records of a failed batch does not hold up the agent's loop.
"""

from __future__ import annotations

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.message import Message
from pykafka4.hooks import BatchOutcome, ProducerHooks
from pykafka4.records import ProducerRecord

__all__ = ["BatchOutcomes", "message_of"]


class BatchOutcomes(ProducerHooks):
    """The hook of the agent's producer."""

    def __init__(self, ledger: Ledger, reasons: Reasons, keeps_undelivered: bool) -> None:
        """`keeps_undelivered`: there is a spool, which takes what is left at the end; the caller of its `close` counts the rest."""
        self._ledger, self._reasons, self._keeps_undelivered = ledger, reasons, keeps_undelivered

    def on_ack(self, outcome: BatchOutcome) -> None:
        """See ProducerHooks."""
        error = outcome.error
        if error is None:
            return
        code = str(error.code)
        if not (self._keeps_undelivered and code == "CLOSED"):
            self._ledger.failed([message_of(record) for record in outcome.lost()], self._reasons.of(code))


def message_of(record: ProducerRecord) -> Message:
    """The message that a record was made of; its partition key is not known any more."""
    return record.topic, record.value, record.key, None, record.timestamp_ms or 0
