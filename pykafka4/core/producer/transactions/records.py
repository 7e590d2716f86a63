"""Transacted records. Rule: whether a transaction may end is read from counters that every record changes, not from a list that may lag.

The sender's records, as its transactions see them (`transactions.Records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.core.producer.produce.requests import ProduceRequests
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import Accumulator

__all__ = ["Transacted"]


class Transacted:
    """The records of a transactional producer."""

    def __init__(
        self,
        accumulator: Accumulator,
        ledger: Ledger,
        requests: ProduceRequests,
        ready: ReadyQueues,
        queues: Callable[[], Iterable[PartitionQueue]],
        admit: Callable[[KafkaError | None], None],
        expedite: Callable[[], None],
        give_up: Callable[[float, KafkaError], tuple[int, int]],
    ) -> None:
        """`queues()` are all queues; `give_up(now, reason)` fails all records that are not in flight: see `transactions.Records`."""
        self._acc, self._ledger = accumulator, ledger
        self._requests, self._ready, self._queues = requests, ready, queues
        self.admit, self.expedite, self._give_up = admit, expedite, give_up

    def _decided(self) -> bool:
        return bool(self._acc.accepted == self._acc.acked + self._acc.failed)

    def settled(self) -> bool:
        """See `transactions.Records`."""
        return self._decided() and self._requests.quiet

    def renumber(self, producer_id: int, epoch: int) -> bool:
        """See `transactions.Records`."""
        return any(queue.stale and (queue.producer_id, queue.epoch) == (producer_id, epoch) for queue in self._queues())

    def dropped(self) -> int:
        """See `transactions.Records`."""
        return int(self._acc.dropped)

    def give_up(self, now: float, reason: KafkaError) -> tuple[int, int] | None:
        """See `transactions.Records`. An abort asks in each turn, and this goes through all: so only if a record is not in flight."""
        undecided = self._acc.accepted - self._acc.acked - self._acc.failed
        return None if undecided == self._ledger.in_flight else self._give_up(now, reason)

    def place(self) -> None:
        """See `transactions.Records`."""
        for queue in self._queues():
            self._ready.place(queue)
