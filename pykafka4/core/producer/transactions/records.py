"""Shows the sender's records to the transactions (`machine.TransactionRecords`).

Rule: only counters that every record changes decide whether all records have their outcomes. A list could lag behind `send` on other
threads.
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


class SendSession(Protocol):
    """The part of the session that opens and closes `send`."""

    def set_refusal(self, refusal: KafkaError | None) -> None:
        """Make `send` raise `refusal` from now on, or, if None, accept records."""


class TransactedSender(Protocol):
    """The part of the sender that the transactions use."""

    queues: dict[tuple[str, int], PartitionQueue]

    def expedite(self) -> None:
        """Make all open batches due now."""

    def fail_unsent(self, now: float, reason: KafkaError) -> tuple[int, int]:
        """Fail all records that are not in flight; return the numbers of failed records before and after."""


class Transacted:
    """Implements `machine.TransactionRecords`."""

    def __init__(
        self,
        accumulator: Accumulator,
        ledger: Ledger,
        requests: ProduceRequests,
        ready: ReadyQueues,
        application: SendSession,
        sender: TransactedSender,
    ) -> None:
        self._acc, self._ledger = accumulator, ledger
        self._requests, self._ready = requests, ready
        self._application, self._sender = application, sender

    def set_refusal(self, refusal: KafkaError | None) -> None:
        self._application.set_refusal(refusal)

    def expedite(self) -> None:
        self._sender.expedite()

    def _decided(self) -> bool:
        return bool(self._acc.accepted == self._acc.acked + self._acc.failed)

    def settled(self) -> bool:
        return self._decided() and self._requests.quiet

    def renumber(self, producer_id: int, epoch: int) -> bool:
        return any(queue.stale and (queue.producer_id, queue.epoch) == (producer_id, epoch) for queue in self._sender.queues.values())

    def dropped(self) -> int:
        return int(self._acc.dropped)

    def fail_unsent(self, now: float, reason: KafkaError) -> tuple[int, int] | None:
        """The transactions may call this in each turn, so the sender checks all queues only if some records are not in flight."""
        undecided = self._acc.accepted - self._acc.acked - self._acc.failed
        return None if undecided == self._ledger.in_flight else self._sender.fail_unsent(now, reason)

    def place(self) -> None:
        for queue in self._sender.queues.values():
            self._ready.place(queue)
