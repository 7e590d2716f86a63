"""Topic. Rule: an older leader epoch, or a topic id that was replaced, is not believed, unless for long nobody tells anything else.

What is known of one topic; `Cluster` asks, and notes here what it is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff
from pykafka4.error_table import ErrorCode

__all__ = ["CONTRADICTED", "Leader", "Topic"]

CONTRADICTED = 30.0  # seconds for which only what is older is told: brokers that lag behind do so for less


@attrs.frozen
class Leader:
    """Who leads a partition. `epoch` is -1 where the broker is too old to tell it."""

    node: int
    epoch: int


@attrs.define(eq=False)
class Topic:
    """What is known of a topic, and when it may be asked for again."""

    backoff: Backoff
    topic_id: UUID | None = None
    former_ids: frozenset[UUID] = frozenset()
    leaders: list[Leader | None] = attrs.Factory(list)
    epochs: list[int] = attrs.Factory(list)  # the newest seen, of leaderless partitions too
    available: list[int] = attrs.Factory(list)
    error: ErrorCode | None = None
    missing_since: float | None = None
    behind_since: float | None = None  # only older epochs than those known, or ids that were replaced, were told since
    asked_at: float = -INFINITY
    not_before: float = -INFINITY

    @property
    def troubled(self) -> bool:
        """Whether asking again may tell more."""
        if self.error is not None:
            return self.error.retriable
        return not self.leaders or len(self.available) < len(self.leaders)

    def picture(self) -> tuple[object, ...]:
        """What users of the cluster can see of it."""
        return self.topic_id, tuple(self.leaders), self.error

    def lead(self, partition: int, node: int | None, epoch: int) -> None:
        """Note who leads, unless that is older than what is known. A broker too old to tell epochs is believed.

        Most answers tell what is known already: of those nothing is made anew, as they are about thousands of partitions at times.
        """
        if -1 < epoch < self.epochs[partition]:
            return
        self.epochs[partition] = max(epoch, self.epochs[partition])
        known = self.leaders[partition]
        if node is None:
            self.leaders[partition] = None
        elif known is None or known.node != node or known.epoch != epoch:
            self.leaders[partition] = Leader(node, epoch)

    def is_replaced(self, now: float, topic_id: UUID) -> bool:
        """Whether an answer with that id is about a topic that was deleted, and so older than what is known.

        Ids have no order: who hears of a new topic first, and of the old one from a broker that lags behind, takes the old one for the
        newer. So a replaced id is believed again when nobody has told another for long.
        """
        return topic_id in self.former_ids and not self._contradicted(now)

    def compare(self, now: float, told: Mapping[int, int]) -> None:
        """Before `lead`, with the epochs of a whole answer: those that everybody has contradicted for long are forgotten."""
        older = [partition for partition, epoch in told.items() if -1 < epoch < self.epochs[partition]]
        if not older:
            self.behind_since = None
        elif self._contradicted(now):
            self.forget_epochs(older)

    def _contradicted(self, now: float) -> bool:
        """Something older was told again: whether nothing else has been for so long that it is the truth."""
        if self.behind_since is None:
            self.behind_since = now
        return now - self.behind_since >= CONTRADICTED

    def forget_epochs(self, partitions: Iterable[int]) -> None:
        """Whatever is told next of these is believed."""
        self.behind_since = None
        for partition in partitions:
            self.epochs[partition] = -1

    def dismiss(self, partitions: Collection[int]) -> None:
        """These have no leader for now."""
        for partition in partitions:
            self.leaders[partition] = None
        self.settle()

    def settle(self) -> None:
        """After changes: list the partitions that have a leader."""
        self.available = [partition for partition, leader in enumerate(self.leaders) if leader is not None]

    def begin_anew(self, topic_id: UUID) -> None:
        """This name belongs to another topic now."""
        if self.topic_id is not None:
            self.former_ids |= {self.topic_id}
        self.former_ids -= {topic_id}
        self.topic_id, self.leaders, self.epochs, self.behind_since = topic_id, [], [], None

    def resize(self, partitions: int) -> None:
        """Have room for so many. With a topic id fewer than before means an older answer; without, perhaps another topic."""
        if self.topic_id is None:
            del self.leaders[partitions:], self.epochs[partitions:]
        missing = partitions - len(self.leaders)
        self.leaders += [None] * missing
        self.epochs += [-1] * missing
