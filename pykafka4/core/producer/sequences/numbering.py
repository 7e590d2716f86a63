"""Sets the producer id and epoch for the next batch of each queue, from `Identity` or from the transactions.

Invariant: a queue begins another epoch only when no batch of its current epoch is in doubt. Otherwise a batch that is in the log would be
written again in the new epoch, where brokers do not recognise the duplicate. The code that detects a lost numbering (`produce.responses`,
`PartitionQueue.withdraw`, the sender for a recreated topic) sets `stale`, and perhaps `spent`; `may_number` begins the next epoch.
"""

from __future__ import annotations

import random as _random
from typing import Protocol

from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.core.producer.sequences.identity import Identity
from pykafka4.core.producer.transactions.machine import Transactions
from pykafka4.errors import KafkaError, broker_error
from pykafka4.options.config import ProducerConfig

__all__ = ["Numbering"]


class WaitingBatches(Protocol):
    """The part of the sender that the numbering uses."""

    def fail_waiting(self, queue: PartitionQueue, now: float, error: KafkaError) -> None:
        """Fail the batches of `queue` that are not in flight."""


class Numbering:
    def __init__(
        self,
        config: ProducerConfig,
        network: Network,
        random: _random.Random,
        ready: ReadyQueues,
        batches: WaitingBatches,
    ) -> None:
        timeout = config.request_timeout_ms / 1000
        self.identity = Identity(network, Backoff.retry(config, random), timeout, self)
        self.transactions: Transactions | None = None  # if there are transactions, they replace `identity`
        self._idempotent = config.enable_idempotence
        self._ready, self._batches = ready, batches
        self._waiting: dict[PartitionQueue, None] = {}  # queues that wait for a producer id

    @property
    def fatal(self) -> KafkaError | None:
        return self.identity.fatal if self.transactions is None else self.transactions.fatal

    def poll(self, now: float, outbox: Outbox, wanted: bool) -> float:
        """Request a producer id if one is missing and `wanted`, or poll the transactions."""
        if self.transactions is not None:
            return self.transactions.poll(now)
        if not self._idempotent or not wanted:
            return INFINITY
        if self.identity.denied is not None and not self._waiting:  # the waiting records have failed; the next record causes a request
            return INFINITY
        return self.identity.poll(now, outbox)

    def may_number(self, queue: PartitionQueue) -> bool:
        """Whether the next batch may be sent in the epoch of `queue`, or in the next one, which starts here if necessary.

        While a batch of a stale queue is in doubt, the queue sends only batches that may be written, unchanged.
        """
        if self.transactions is not None:
            return self.transactions.may_number(queue)
        if queue.producer_id >= 0 and not queue.stale:
            return True
        if queue.in_doubt:
            candidate = queue.candidate
            return candidate is not None and candidate.written
        identity = self.identity.after(queue.producer_id, queue.epoch, queue.spent)
        if identity is None:
            self._waiting[queue] = None
            return False
        queue.begin_epoch(*identity)
        return True

    def trouble(self, queue: PartitionQueue) -> KafkaError | None:
        """The reason why `queue` has no producer id, or why its transaction does not proceed."""
        if self.transactions is not None:
            return self.transactions.trouble
        return self.identity.trouble if queue in self._waiting else None

    def missing(self, queue: PartitionQueue) -> tuple[bool, KafkaError | None]:
        return queue in self._waiting, self.identity.trouble

    def forget(self, queue: PartitionQueue) -> None:
        """Let a later queue of the partition start in another epoch."""
        self._waiting.pop(queue, None)
        self.identity.forget(queue.producer_id, queue.epoch)

    def id_arrived(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for queue in waiting:
            self._ready.place(queue)

    def id_denied(self, now: float) -> None:
        """Fail the records that wait for a producer id. The error names the topic of each record.

        From Kafka 2.8 on, brokers grant an id to a client that may write to at least one topic.
        """
        waiting, self._waiting = self._waiting, {}
        denied = self.identity.denied
        assert denied is not None
        for queue in [*waiting, *self._ready.late]:
            where = queue.tp if queue.tp.partition >= 0 else queue.tp.topic
            error = broker_error(denied.code.code, f"{where}: requesting a producer id", None, "InitProducerId", topic=queue.tp.topic)
            self._batches.fail_waiting(queue, now, error)
            self._ready.place(queue)
