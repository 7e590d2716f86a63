"""Keeps the state of one transactional id. Invariant: a producer id and epoch are given to one producer only."""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from pykafka4.core import Transitions
from pykafka4.records import TopicPartition
from pykafka4.testing.timeline import NEVER, Moment

__all__ = ["TABLE", "Transaction", "TransactionState"]

MAX_EPOCH: Final = 2**15 - 1
NO_EPOCH: Final = -1
NO_PRODUCER: Final = -1


class TransactionState(Enum):
    """The state of a transactional id, as DescribeTransactions names it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


S = TransactionState
TABLE = Transitions[S](
    "transaction",
    {
        S.EMPTY: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
        S.ONGOING: {S.PREPARE_COMMIT, S.PREPARE_ABORT},
        S.PREPARE_COMMIT: {S.COMPLETE_COMMIT},
        S.PREPARE_ABORT: {S.COMPLETE_ABORT},
        S.COMPLETE_COMMIT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
        S.COMPLETE_ABORT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT},
    },
)


@attrs.define(eq=False)
class Transaction:
    """A transactional id: its producer, and the transaction that the producer last began."""

    id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH  # the epoch before the current one, if the same producer has both
    last_producer_id: int = NO_PRODUCER  # the previous producer id, whose epochs are used up
    timeout: float = 0.0
    state: TransactionState = S.EMPTY
    partitions: dict[TopicPartition, None] = attrs.Factory(dict)
    groups: dict[str, None] = attrs.Factory(dict)
    deadline: Moment = NEVER

    @property
    def completing(self) -> bool:
        """Whether the outcome is decided, but not all markers are written."""
        return self.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)

    @property
    def exhausted(self) -> bool:
        """Whether no epoch is left for a producer; the highest epoch is reserved for a marker."""
        return self.epoch >= MAX_EPOCH - 1

    def move(self, to: TransactionState) -> None:
        self.state = TABLE.move(self.state, to)

    def refusal(self, producer_id: int, epoch: int) -> str | None:
        if producer_id != self.producer_id:
            return "INVALID_PRODUCER_ID_MAPPING"
        if epoch != self.epoch:
            return "PRODUCER_FENCED"
        return "CONCURRENT_TRANSACTIONS" if self.completing else None

    # ---- producer ids and epochs

    def may_begin(self, expected: tuple[int, int] | None) -> bool:
        """A producer may also name the previous producer id, if it has used up the epochs of that id (KIP-360)."""
        if expected is None or self.epoch == NO_EPOCH or expected[0] == self.producer_id:
            return True
        return expected[0] == self.last_producer_id and expected[1] >= MAX_EPOCH - 1

    def next_epoch(self, expected_epoch: int | None) -> str | None:
        """Raise the epoch, unless the producer repeats a request whose response was lost; return the error if the producer is fenced."""
        if expected_epoch is None:
            self.epoch, self.last_epoch = self.epoch + 1, NO_EPOCH
        elif self.epoch in (NO_EPOCH, expected_epoch):
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch
        elif expected_epoch != self.last_epoch:
            return "PRODUCER_FENCED"
        return None

    def rotate(self, producer_id: int, *, keep: bool) -> None:
        """Continue with another producer id. With `keep`, the producer may repeat its request with the old id if the response was lost."""
        self.last_producer_id, self.last_epoch = (self.producer_id, self.epoch) if keep else (NO_PRODUCER, NO_EPOCH)
        self.producer_id, self.epoch = producer_id, 0

    def fence(self) -> None:
        self.epoch, self.last_epoch = self.epoch + 1, NO_EPOCH

    # ---- a request that is repeated because its response was lost (KIP-890)

    def ended_for(self, producer_id: int, epoch: int) -> bool:
        """Whether this id and epoch directly precede the current ones, as they do after `end_and_raise` or a timeout."""
        raised = (self.producer_id, self.epoch) == (producer_id, epoch + 1)
        return raised or (self.last_producer_id == producer_id and epoch == MAX_EPOCH - 1 and self.epoch == 0)
