"""Keeps notes of returned records that no transaction has committed. Invariant: only a commit, a rewind or a deletion of the topic removes
all notes of a partition.

Transactions need these notes: the application may process records of a partition that has ended, in a transaction that can no longer
contain their offsets. Such a transaction must abort, because the next owner of the partition reads the records again.
A *stretch* is the reading of a partition from its assignment, a seek, or a restart in a recreated topic, up to the next of these events.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka4.core.subscription import Claim
from pykafka4.records import TopicPartition

__all__ = ["DeliveredOffsets"]

BEFORE_A_SEEK = -1  # in place of the first offset, after a seek; less than every offset, so that `min` keeps it


class DeliveredOffsets:
    """Only the thread that uses the consumer changes the notes."""

    __slots__ = ("_open", "_seeks", "changes", "cut_off")

    def __init__(self) -> None:
        self._open: dict[TopicPartition, tuple[int, int]] = {}  # the first and the last offset of the noted records
        self._seeks: dict[TopicPartition, object] = {}  # partitions whose stretch began after the assignment, with the mark of the stretch
        self.cut_off: dict[TopicPartition, tuple[object, int]] = {}  # partitions that ended with noted records: stretch, end of the records
        self.changes = 0  # grows whenever a poll takes records for the application, and with each `sought` and `forget`

    @property
    def in_hand(self) -> bool:
        """Whether the application may have records that no transaction has committed."""
        return bool(self._open or self.cut_off)

    def add(self, tp: TopicPartition, first: int, last: int) -> None:
        self.changes += 1
        known = self._open.get(tp)
        self._open[tp] = (first if known is None else min(known[0], first), last)  # `min`: after a truncation of the log, reading goes back

    def end(self, claim: Claim, position: int | None) -> None:
        """End the reading of the partition at `position`: its noted records are cut off, unless their topic was deleted."""
        end = self._end_of(claim, position)
        # No consumer can read records of a deleted topic again, so they hold up no transaction. A topic that brokers merely do not find
        # may still exist: then the next owner reads the records again.
        if end is not None and (claim.missing or not claim.outdated):
            self.cut_off[claim.tp] = (self.stretch(claim), end)
        self._open.pop(claim.tp, None)
        self._seeks.pop(claim.tp, None)

    def sought(self, claim: Claim, position: int | None) -> None:
        """Begin a stretch: reading leaves `position`, but the application may still process the records that it has received."""
        self.changes += 1
        end = self._end_of(claim, position)
        if end is None:
            self._open.pop(claim.tp, None)
        else:
            self._open[claim.tp] = (BEFORE_A_SEEK, end - 1)
        self._seeks[claim.tp] = object()

    def _end_of(self, claim: Claim, position: int | None) -> int | None:
        """The offset after the noted records; None if there are none. Records from `position` on were decoded, but not returned."""
        first, last = self._open.get(claim.tp, (0, -1))
        if first == BEFORE_A_SEEK:
            return last + 1
        position = first if position is None else position
        return min(position, last + 1) if first < position and first <= last else None

    def in_doubt(self, claims: Mapping[TopicPartition, Claim]) -> list[TopicPartition]:
        """Partitions that have records in hand, and count as recreated only because brokers did not find the topic."""
        return [tp for tp in self._open if tp in claims and claims[tp].missing]

    def stretch(self, claim: Claim) -> object:
        """An object that identifies the current stretch."""
        return self._seeks.get(claim.tp, claim.origin)

    def start(self, claim: Claim, position: int | None) -> int | None:
        """The offset at which the stretch began, or the lowest offset to which reading has gone back since; None if unknown."""
        first = self._open.get(claim.tp, (BEFORE_A_SEEK, -1))[0]
        known = [at for at in (claim.start, position, None if first == BEFORE_A_SEEK else first) if at is not None]
        return None if claim.start is None else min(known)

    def first(self, claim: Claim, position: int | None) -> int | None:
        """The offset of the first noted record; the start of the stretch, if notes go back beyond a seek; without notes, `position`."""
        first = self._open.get(claim.tp, (position, -1))[0]
        return self.start(claim, position) if first == BEFORE_A_SEEK else first

    def was_sought(self, tp: TopicPartition) -> bool:
        """Whether a seek, or a restart in a recreated topic, began the stretch."""
        return tp in self._seeks

    def committed(self, stretches: Mapping[TopicPartition, tuple[object, int]], claims: Mapping[TopicPartition, Claim]) -> None:
        """Drop the notes of records before the offsets that a transaction has committed; each offset belongs to a stretch."""
        for tp, (stretch, offset) in stretches.items():
            ended = self.cut_off.get(tp)
            if ended is not None and ended[0] is stretch and ended[1] <= offset:
                del self.cut_off[tp]
            if tp in self._open and tp in claims and self.stretch(claims[tp]) is stretch:
                last = self._open[tp][1]
                self._open[tp] = (offset, last)
                if last < offset:
                    del self._open[tp]

    def forget(self) -> None:
        """Drop all notes: the application drops the records."""
        self.changes += 1
        self._open.clear()
        self.cut_off.clear()
