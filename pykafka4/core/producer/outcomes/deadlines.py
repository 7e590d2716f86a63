"""Fails batches that are not acknowledged within delivery_timeout_ms, and makes queues ready again after their backoff.

Invariant: a queue with a batch has a timer that is due no later than the delivery timeout of its oldest batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.core.timers import Timers
from pykafka4.errors import KafkaError
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.records.hot import Batch

__all__ = ["Deadlines"]

# A batch that cannot be sent stays open for at most delivery_timeout_ms / OPEN_SHARE after its linger. All records of a batch expire with
# the first, so a batch that stayed open until its timeout would accept records that expire at once.
OPEN_SHARE = 10


class TimedBatches(Protocol):
    """The sender: the part that the deadlines use."""

    def seal_due(self, queue: PartitionQueue, now: float) -> Batch | None:
        """Seal the batch of `queue` whose linger has ended."""

    def why_late(self, queue: PartitionQueue, batch: Batch) -> KafkaError:
        """The reason why `batch` was not acknowledged in time."""


class Deadlines:
    def __init__(
        self,
        config: ProducerConfig,
        ready: ReadyQueues,
        outcomes: Outcomes,
        batches: TimedBatches,
    ) -> None:
        self._config, self._ready, self._outcomes = config, ready, outcomes
        self._batches = batches
        self._timers = Timers()

    @property
    def wake_at(self) -> float:
        return self._timers.wake_at

    def run(self, now: float) -> None:
        self._timers.run(now)

    def hold(self, queue: PartitionQueue, now: float) -> None:
        queue.held_until = now + queue.backoff.next()
        self._timers.at(queue.held_until, lambda _: self._ready.place(queue))

    def watch(self, queue: PartitionQueue) -> None:
        """Set a timer for the delivery timeout of the head (without sealed batches, the due batch), unless `queue` has a timer."""
        oldest = queue.batches[0] if queue.batches else queue.due
        if not queue.watched and oldest is not None:
            queue.watched = True
            self._timers.at(oldest.sent_at + self._config.delivery_timeout_ms / 1000, lambda now: self._expire(queue, now))

    def watch_late(self, queue: PartitionQueue, batch: Batch) -> None:
        """Set a timer for the delivery timeout of `batch`, which is older than batches before it in `queue`.

        The timer of the queue is for its head, and `PartitionQueue.late` stops at the first batch that is not late.
        """
        self._timers.at(
            batch.sent_at + self._config.delivery_timeout_ms / 1000,
            lambda _: self._fail(
                queue, [left for left in queue.batches if left is batch], "TIMED_OUT", partial(self._batches.why_late, queue)
            ),
        )

    def watch_due(self, queue: PartitionQueue) -> None:
        """Set a timer to seal the due batch even if no connection can take it (`OPEN_SHARE`)."""
        if queue.due is not None and not queue.due_watched:
            queue.due_watched = True
            self._timers.at(self._open_until(queue.due), lambda now: self._stop_filling(queue, now))

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        queue.watched = False
        self.fail_late(queue, now, self._config.delivery_timeout_ms / 1000, "TIMED_OUT", partial(self._batches.why_late, queue))
        self.watch(queue)

    def fail_late(self, queue: PartitionQueue, now: float, timeout: float, code: str, reason: Callable[[Batch], KafkaError]) -> None:
        if queue.due is not None and queue.due.sent_at + timeout <= now:
            self._batches.seal_due(queue, now)
        self._fail(queue, queue.late(now, timeout), code, reason)

    def _fail(self, queue: PartitionQueue, batches: list[Batch], code: str, reason: Callable[[Batch], KafkaError]) -> None:
        for batch in batches:
            why = reason(batch)
            queue.hold_behind(batch)
            self._outcomes.fail(queue, batch, code, why)
        self._ready.place(queue)

    def _open_until(self, batch: Batch) -> float:
        return batch.sent_at + batch.linger + self._config.delivery_timeout_ms / OPEN_SHARE / 1000

    def _stop_filling(self, queue: PartitionQueue, now: float) -> None:
        queue.due_watched = False
        if queue.due is not None and self._open_until(queue.due) <= now:
            self._batches.seal_due(queue, now)
        self.watch_due(queue)
