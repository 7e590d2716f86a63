"""Keeps and numbers the sealed batches of one partition. Invariant: no batch overtakes another. The batches in flight are the first ones,
until one of them is requeued: then the queue sends nothing until the requests with the others have ended (`broken`).

A queue outlives changes of leaders and connections. A batch is in flight to one leader only: with idempotence, requests to a leader that
was replaced are *superseded* (`supersede`), and their batches are sent to the new leader. With idempotence a queue has its own (producer
id, epoch, next sequence). Brokers also keep producer state per partition, so without transactions an error of one partition does not
affect the others. The order in `batches` is the order in the log.
"""

from __future__ import annotations

from itertools import islice, takewhile
from uuid import UUID

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Batch

__all__ = ["SEQUENCES", "PartitionQueue"]

SEQUENCES = 2**31  # sequence numbers wrap to 0 after 2^31 - 1
UNASSIGNED = -1
# Seconds since the last acknowledgement, after which the next batch is sent alone if no batch is in flight (`meet`).
QUIET_S = 10.0


@attrs.define(eq=False)
class PartitionQueue:
    """The sealed batches of one partition, oldest first."""

    tp: TopicPartition
    backoff: Backoff
    depth: int = 1  # maximum number of batches in flight to the current leader
    batches: list[Batch] = attrs.Factory(list)  # not a deque: an empty one takes 600 bytes, and most queues are empty
    due: Batch | None = None  # a due batch that is still open (`Sender.seal_due`)
    in_flight: int = 0
    strays: int = 0  # number of batches that got their outcome while in flight, and whose requests have not ended
    node: int = -1  # the broker to which the last batch was sent
    leader_epoch: int = -1  # the leader epoch of that broker; -1: unknown
    term: int = 0  # incremented by `supersede`: requests of an earlier term are superseded
    session: tuple[int | None, int] = (None, -1)  # (connection to the leader, leader epoch) at the last call of `meet`
    acked_at: float = -INFINITY  # when the leader last acknowledged a batch
    broken: bool = False  # a batch in flight was requeued: wait for the other batches in flight, then start again from the head
    held_until: float = 0.0
    proven: bool = False  # this leader has acknowledged a batch of this epoch, so it checks the sequence of later batches
    producer_id: int = UNASSIGNED
    epoch: int = UNASSIGNED
    next_sequence: int = 0
    stale: bool = False  # continue in another epoch, from sequence 0, as soon as nothing is in doubt
    spent: bool = False  # like `stale`, but with another producer id as well
    never_written: frozenset[Batch] = frozenset()  # batches in flight that are certainly not in the log, because an earlier batch is not
    topic_id: UUID | None = None
    placed_at: int | None = None  # the node under which `ReadyQueues` lists this queue
    watched: bool = False  # a timer for a delivery timeout is set
    due_watched: bool = False  # a timer that seals `due` in any case is set

    @property
    def candidate(self) -> Batch | None:
        """The next batch to send, if it is sealed."""
        return self.batches[self.in_flight] if len(self.batches) > self.in_flight else None

    @property
    def waiting(self) -> bool:
        return len(self.batches) > self.in_flight or self.due is not None

    def late(self, now: float, timeout: float) -> list[Batch]:
        """The batches whose first record was sent `timeout` seconds ago or earlier, up to the first that is not late.

        With `partitioner="late"` an older batch may follow; it has its own timer (`Deadlines.watch_late`).
        """
        # The same sum as in `Deadlines.watch`. `sent_at <= now - timeout` rounds differently: the timer would run, find no late batch, and
        # be set for the same time again.
        return list(takewhile(lambda batch: batch.sent_at + timeout <= now, self.batches))

    def may_send(self, now: float) -> bool:
        """Whether another batch may be sent now, to any leader.

        A broker without state of this producer accepts any sequence as the first. If the first batch got a transient error (too few
        replicas, for instance) and the second were accepted, the log would have the wrong order. So the first batch of an epoch, and the
        first to a leader that may lack the state (`meet`), are sent alone.
        """
        return not self.broken and not self.strays and self.in_flight < (self.depth if self.proven else 1) and now >= self.held_until

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        """Start at sequence 0 in another epoch or with another producer id. Call this only if no batch is in doubt.

        With the same producer id, abandoned requests of the old epoch are fenced: brokers reject epochs below the highest that they have
        seen.
        """
        self.producer_id, self.epoch, self.next_sequence = producer_id, epoch, 0
        self.proven = self.stale = self.spent = False
        self.never_written = frozenset()
        for batch in self.batches:
            batch.base_sequence = batch.producer_id = UNASSIGNED
            batch.written = False

    def number(self, batch: Batch) -> None:
        if batch.base_sequence == UNASSIGNED:
            batch.base_sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.count) % SEQUENCES

    def meet(self, now: float, connection: int | None, leader_epoch: int) -> bool:
        """Store the connection and the leader epoch for the next batch; return whether either has changed. Call this before `may_send`.

        The broker may have lost the producer's state since the last batch: with its log, while it was disconnected, or while it was not the
        leader. After `QUIET_S` this may have happened unnoticed, and the state may have expired.
        """
        if (connection, leader_epoch) != self.session:
            self.session, self.proven = (connection, leader_epoch), False
            return True
        if self.in_flight == 0 and now - self.acked_at > QUIET_S:
            self.proven = False
        return False

    def acknowledged(self, now: float) -> None:
        self.acked_at, self.proven = now, True
        self.backoff.reset()

    def sent(self, batch: Batch, node: int) -> None:
        batch.in_flight = True
        self.in_flight += 1
        self.node, self.leader_epoch = node, self.session[1]

    def end_flight(self, batch: Batch) -> None:
        if batch.in_flight:
            batch.in_flight = False
            self.in_flight -= 1
            if self.never_written:
                self.never_written -= {batch}
        if self.in_flight == 0:
            self.broken = False

    @property
    def awaits_response(self) -> bool:
        return self.in_flight > 0 or self.strays > 0

    def is_replaced_by(self, node: int, leader_epoch: int) -> bool:
        """Whether `node`, the leader in `leader_epoch`, has certainly replaced the broker that got the last batch."""
        return node != self.node and leader_epoch > self.leader_epoch >= 0

    def supersede(self) -> int:
        """End the wait for the requests in flight, whose leader was replaced; return the number of records that were in flight.

        Call this only with idempotence. The old leader can commit nothing more: its replicas follow the new leader. But it may have
        appended the batches, so they keep their sequence, and go to the new leader unchanged, the first alone (`meet`). If the old leader
        leads again (A, B, A) and carries out such a request late, it appends no batch whose sequence is in its log or follows a gap, or
        whose epoch is over. So it appends a batch only if no later batch was written.
        """
        flying = [batch for batch in self.batches if batch.in_flight]  # not a slice: halves of a split batch may be between them
        for batch in flying:
            self.doubt(batch)
        for batch in flying:
            self.end_flight(batch)
        self.strays, self.term = 0, self.term + 1
        return sum(batch.count for batch in flying)

    def requeue(self, batch: Batch) -> None:
        """Keep `batch` at its position. It can be sent again when the requests with the other batches have ended."""
        self.end_flight(batch)
        self.broken = self.in_flight > 0

    def hold_behind(self, batch: Batch) -> None:
        """Send nothing until the request of `batch`, which is about to get its outcome, has ended.

        Otherwise: a failed batch is still unread in the socket of the old leader, a new leader writes the next batch, the old leader leads
        again, and writes the failed batch after the next one.
        """
        self.strays += batch.in_flight

    def request_ended(self, batch: Batch) -> None:
        self.strays -= batch.done

    def remove(self, batch: Batch) -> None:
        """Remove `batch`: usually the head, but a batch that fails may be anywhere."""
        self.end_flight(batch)
        if self.batches and self.batches[0] is batch:
            del self.batches[0]
        else:
            self.batches.remove(batch)

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        at = self.batches.index(batch)
        del self.batches[at]
        for part in reversed(parts):
            self.batches.insert(at, part)

    def doubt(self, batch: Batch) -> None:
        """Mark `batch` as maybe written, after a request without a definite response, unless it is certainly not in the log."""
        if batch not in self.never_written:
            batch.written = True

    def may_be_written(self, batch: Batch) -> bool:
        return batch.written or (batch.in_flight and batch not in self.never_written)

    def withdraw(self, batch: Batch) -> None:
        """Take back the sequence of `batch`, which is still in the queue, and will not be resent with that sequence.

        Brokers accept the batches of a producer in sequence: if `batch` is certainly not in the log, no batch numbered after it is. The
        sequence is reused only if no batch was numbered after `batch`. Otherwise, and if `batch` may be in the log, numbering restarts in
        the next epoch: in the same epoch, brokers could take another batch with the same sequence for a duplicate, and acknowledge that
        batch without writing it.
        """
        if batch.base_sequence == UNASSIGNED:
            return
        if self.may_be_written(batch):
            self.stale = True
            return
        if (batch.base_sequence + batch.count) % SEQUENCES == self.next_sequence:
            self.next_sequence = batch.base_sequence
            return
        self.stale = True
        for later in islice(self.batches, self.batches.index(batch) + 1, None):
            if later.in_flight:
                self.never_written |= {later}
            else:
                later.written = False

    @property
    def in_doubt(self) -> bool:
        """Whether a broker may have written, or may still write, a batch of this queue that is not acknowledged.

        The head decides: if the head is certainly not in the log, no batch is (`withdraw`).
        """
        return self.in_flight > 0 or self.strays > 0 or (bool(self.batches) and self.batches[0].written)
