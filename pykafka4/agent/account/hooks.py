"""Counts messages that the producer could not deliver, or that may be in Kafka twice. Invariant: no lost message is counted twice.

The producer calls `on_ack` on its callback executor, so counting the records of a failed batch does not hold up the agent's loop.
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

UNDELIVERED: Final = "CLOSED"  # the code of the undelivered records that `Producer.close` returns


class BatchOutcomes(ProducerHooks):
    """The hook that counts the messages of failed and repeated batches."""

    def __init__(self, ledger: Ledger, reasons: Reasons, keeps_undelivered: bool) -> None:
        """With `keeps_undelivered` the hook does not count the records that `Producer.close` returns, because a spool takes them."""
        self._ledger, self._reasons, self._keeps_undelivered = ledger, reasons, keeps_undelivered
        self._closed = Event()

    def on_ack(self, outcome: BatchOutcome) -> None:
        error = outcome.error
        if error is None:
            if outcome.maybe_repeated:
                self._ledger.repeated(outcome.topic, outcome.records, outcome.first_ms, outcome.last_ms)
            return
        code = str(error.code)
        if not (self._keeps_undelivered and code == UNDELIVERED):
            self._ledger.failed([message_of(record) for record in outcome.lost()], self._reasons.of(code), str(error))

    def on_close(self) -> None:
        self._closed.set()  # this call comes after the last `on_ack`

    def wait(self, timeout_s: float) -> bool:
        """After `Producer.close`, wait until all failed batches have been counted. Returns False after `timeout_s` seconds.

        Without this wait, the last report and log lines would miss batches whose callbacks are queued.
        """
        return self._closed.wait(timeout_s)


def count_undelivered(ledger: Ledger, rest: Iterable[ProducerRecord]) -> None:
    """Count the records that the spool could not write at its `close`."""
    ledger.failed([message_of(record) for record in rest], Reason.SERVER_SHUTDOWN)


def message_of(record: ProducerRecord) -> Message:
    """Return the message of a record, without a partition key, which no count needs."""
    return record.topic, record.value, record.key, None, record.timestamp_ms or 0
