"""Transacted records. Rule: whether a transaction may end is read from counters that every record changes, not from a list that may lag.

The sender's records, as its transactions see them (`transactions.Records`).
"""

from __future__ import annotations

from typing import Protocol

from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.produce.requests import ProduceRequests
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import Accumulator

__all__ = ["Transacted"]


class Admission(Protocol):
    """The door for records."""

    def admit(self, refusal: KafkaError | None) -> None:
        """From now on `send` raises `refusal`; None: it accepts records."""


class TransactedSender(Protocol):
    """The sender, as transactions know it."""

    queues: dict[tuple[str, int], PartitionQueue]

    def expedite(self) -> None:
        """Open batches are due now."""

    def give_up(self, now: float, reason: KafkaError) -> tuple[int, int]:
        """Fail all records that are not in flight; returns how many records had failed before and after that."""


class Transacted:
    """The records of a transactional producer."""

    def __init__(
        self,
        accumulator: Accumulator,
        ledger: Ledger,
        requests: ProduceRequests,
        ready: ReadyQueues,
        application: Admission,
        sender: TransactedSender,
    ) -> None:
        self._acc, self._ledger = accumulator, ledger
        self._requests, self._ready = requests, ready
        self._application, self._sender = application, sender

    def admit(self, refusal: KafkaError | None) -> None:
        """See `machine.Records`."""
        self._application.admit(refusal)

    def expedite(self) -> None:
        """See `machine.Records`."""
        self._sender.expedite()

    def _decided(self) -> bool:
        return bool(self._acc.accepted == self._acc.acked + self._acc.failed)

    def settled(self) -> bool:
        """See `machine.Records`."""
        return self._decided() and self._requests.quiet

    def renumber(self, producer_id: int, epoch: int) -> bool:
        """See `machine.Records`."""
        return any(queue.stale and (queue.producer_id, queue.epoch) == (producer_id, epoch) for queue in self._sender.queues.values())

    def dropped(self) -> int:
        """See `machine.Records`."""
        return int(self._acc.dropped)

    def give_up(self, now: float, reason: KafkaError) -> tuple[int, int] | None:
        """See `machine.Records`. An abort asks in each turn, and this goes through all: so only if a record is not in flight."""
        undecided = self._acc.accepted - self._acc.acked - self._acc.failed
        return None if undecided == self._ledger.in_flight else self._sender.give_up(now, reason)

    def place(self) -> None:
        """See `machine.Records`."""
        for queue in self._sender.queues.values():
            self._ready.place(queue)
