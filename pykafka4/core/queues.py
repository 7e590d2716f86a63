"""Partition queues. Rule: the batches in flight are always the head of their queue, and nothing passes them.

A queue belongs to one partition and outlives leaders, connections and epochs: sequence numbers live here, so they survive the topic
vanishing from the metadata. The order in `batches` is the order of the log.
"""

from __future__ import annotations

from collections import deque
from uuid import UUID

import attrs

from pykafka4.core.backoff import Backoff
from pykafka4.records import TopicPartition
from pykafka4.wire.hot import Batch

__all__ = ["SEQUENCES", "PartitionQueue"]

SEQUENCES = 2**31  # sequence numbers wrap to 0 after 2^31 - 1
UNASSIGNED = -1


@attrs.define(eq=False)
class PartitionQueue:
    """What waits for one partition, oldest first."""

    tp: TopicPartition
    backoff: Backoff
    depth: int  # most batches in flight: 5 with idempotence (what brokers remember), else 1 (or a retry could overtake)
    batches: deque[Batch] = attrs.Factory(deque)
    due: Batch | None = None  # an open batch whose linger is over; sealed when its connection can take it
    in_flight: int = 0
    strays: int = 0  # batches that failed while under way: their requests are not back yet
    node: int = -1  # where the batches in flight went
    broken: bool = False  # one of those in flight came back: wait for the others, then start again from the head
    held_until: float = 0.0
    proven: bool = False  # the broker has acknowledged a batch of this epoch, so it checks the order of the next ones
    next_sequence: int = 0
    topic_id: UUID | None = None
    placed_at: int | None = None  # the node in whose line this queue stands
    watched: bool = False  # a delivery deadline is in the timer heap

    @property
    def candidate(self) -> Batch | None:
        """The next batch to send, if it is sealed."""
        return self.batches[self.in_flight] if len(self.batches) > self.in_flight else None

    @property
    def waiting(self) -> bool:
        """Whether there is something to send, sealed or due."""
        return len(self.batches) > self.in_flight or self.due is not None

    def may_send(self, now: float) -> bool:
        """Whether another batch may go out now, whatever the leader.

        A broker that has no state yet of this producer takes any sequence as the first: were the first batch refused in passing
        (too few replicas, say) and the second accepted, they would lie in the log in the wrong order. So the first goes alone.
        """
        return not self.broken and not self.strays and self.in_flight < (self.depth if self.proven else 1) and now >= self.held_until

    def number(self, batch: Batch) -> None:
        """Give `batch` its sequence; it keeps it until the epoch changes."""
        if batch.base_sequence == UNASSIGNED:
            batch.base_sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.count) % SEQUENCES

    def sent(self, batch: Batch, node: int) -> None:
        """`batch`, the candidate, went out to `node`."""
        batch.in_flight = True
        self.in_flight += 1
        self.node = node

    def returned(self, batch: Batch) -> None:
        """An answer (or the loss of the connection) ended this flight of `batch`."""
        if batch.in_flight:
            batch.in_flight = False
            self.in_flight -= 1
        if self.in_flight == 0:
            self.broken = False

    def requeue(self, batch: Batch) -> None:
        """Keep `batch` where it is, to be sent again when those behind it have come back."""
        self.returned(batch)
        self.broken = self.in_flight > 0 and not batch.done

    def forsake(self, batch: Batch) -> None:
        """`batch` is about to fail. While its request is under way nothing follows: another leader could write that first."""
        self.strays += batch.in_flight

    def came_back(self, batch: Batch) -> None:
        """The request that carried `batch` was answered or lost."""
        self.strays -= batch.done

    def remove(self, batch: Batch) -> None:
        """`batch` is finished. The head in the ordinary case; anywhere after a delivery timeout."""
        self.returned(batch)
        if self.batches and self.batches[0] is batch:
            self.batches.popleft()
        else:
            self.batches.remove(batch)

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Put the halves of a batch that was too large where it stood."""
        at = self.batches.index(batch)
        del self.batches[at]
        for part in reversed(parts):
            self.batches.insert(at, part)

    def give_back_numbers(self, batch: Batch) -> bool:
        """Undo `number` for a batch that was certainly not written; False when later ones were numbered after it."""
        if (batch.base_sequence + batch.count) % SEQUENCES != self.next_sequence:
            return False
        self.next_sequence = batch.base_sequence
        return True

    def renumber(self) -> None:
        """A new epoch (or a new topic of this name): count from 0 again. Nothing may be in doubt here."""
        self.next_sequence = 0
        self.proven = False
        for batch in self.batches:
            if not batch.in_flight:
                batch.base_sequence = UNASSIGNED
                batch.producer_id = UNASSIGNED

    @property
    def in_doubt(self) -> bool:
        """Whether a batch is here that a broker may have written without our knowing.

        The head decides: brokers take the batches of a producer in sequence, so behind one that is certainly not in the log none is.
        """
        return self.in_flight > 0 or self.strays > 0 or (bool(self.batches) and self.batches[0].written)
