"""Keeps the state of each record of a partition in a share group. Invariant: a record in a final state is never acquired again.

The states belong to the model cluster, so they survive when a broker stops, but a change of the leader releases acquired records.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.timeline import NEVER, Moment, Timeline

__all__ = ["ACCEPT", "GAP", "REJECT", "RELEASE", "RENEW", "Holder", "RecordState", "ShareEvent", "SharePartition", "Slot"]

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # types of acknowledgement


class RecordState(enum.Enum):
    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"


FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Holder(Protocol):
    """The share session that holds the lock on a record."""

    group: str
    member: str

    def releases(self, partition: tuple[UUID, int]) -> bool:
        """Whether the session has ended and thereby releases its records of this partition (topic id, number)."""


@attrs.frozen
class ShareEvent:
    what: str  # acquired, accepted, released, rejected, renewed, expired, archived
    group: str
    tp: TopicPartition
    offset: int
    member: str
    count: int  # number of deliveries so far


@attrs.define(eq=False)
class Slot:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    holder: Holder | None = None
    lock: Moment = NEVER


@attrs.define(eq=False)
class SharePartition:
    """The records of a partition from `start` on; records below `start` are never acquired."""

    group: str
    key: tuple[UUID, int]
    tp: TopicPartition
    timeline: Timeline
    lock_seconds: Callable[[], float]
    most_deliveries: Callable[[], int]
    start: int
    led: tuple[int, int]  # leader and epoch under which records were locked
    tell: Callable[[ShareEvent], None]
    slots: dict[int, Slot] = attrs.Factory(dict)

    def under(self, leader: int, epoch: int) -> None:
        """Release all locks if another broker leads now, or the same broker in another epoch."""
        if (leader, epoch) != self.led:
            self.led = (leader, epoch)
            self._release(slot for slot in self.slots.values() if slot.state is RecordState.ACQUIRED)

    def drop_ended(self) -> None:
        acquired = (slot for slot in self.slots.values() if slot.state is RecordState.ACQUIRED and slot.holder is not None)
        self._release(slot for slot in acquired if slot.holder is not None and slot.holder.releases(self.key))

    def hand_over(self, before: Holder, after: Holder) -> None:
        """Pass the locks of session `before` to `after`, which replaces it for the same member.

        If `before` has ended, it passes only the locks that its end has not released.
        """
        self.drop_ended()
        for slot in self.slots.values():
            if slot.holder is before:
                slot.holder = after

    def _release(self, slots: Iterable[Slot]) -> None:
        found = set(map(id, list(slots)))
        for offset, slot in self.slots.items():
            if id(slot) in found:
                self._free(offset, slot, "released")

    def _free(self, offset: int, slot: Slot, why: str) -> None:
        """After its last delivery, the record is archived."""
        self._note(why, offset, slot)
        slot.lock.cancel()
        slot.state, slot.holder = RecordState.AVAILABLE, None
        if slot.count >= self.most_deliveries():
            slot.state = RecordState.ARCHIVED
            self._note("archived", offset, slot)

    def _note(self, what: str, offset: int, slot: Slot) -> None:
        member = "" if slot.holder is None else slot.holder.member
        self.tell(ShareEvent(what, self.group, self.tp, offset, member, slot.count))

    # ---- acquiring

    def available(self, log: PartitionLog) -> bool:
        self.drop_ended()
        first = max(self.start, log.start_offset)
        return any(self._is_free(offset) for offset in range(first, log.high_watermark))

    def _is_free(self, offset: int) -> bool:
        slot = self.slots.get(offset)
        return slot is None or slot.state is RecordState.AVAILABLE

    def acquire(self, log: PartitionLog, holder: Holder, most: int, whole_batches: bool) -> list[tuple[int, int, int]]:
        """Lock up to `most` records for `holder`; with `whole_batches`, also the remaining records of the last batch.

        Returns runs of records as (first offset, last offset, deliveries).
        """
        self.drop_ended()
        found: list[tuple[int, int]] = []
        ends = {batch.next_offset for batch in log.batches}
        for offset in range(max(self.start, log.start_offset), log.high_watermark):
            if len(found) >= most and (not whole_batches or offset in ends):
                break
            if not self._is_free(offset):
                continue
            slot = self.slots.setdefault(offset, Slot())
            slot.state, slot.holder, slot.count = RecordState.ACQUIRED, holder, slot.count + 1
            self._lock(offset, slot)
            self._note("acquired", offset, slot)
            found.append((offset, slot.count))
        return _spans(found)

    def _lock(self, offset: int, slot: Slot) -> None:
        slot.lock.cancel()
        slot.lock = self.timeline.after(self.lock_seconds(), lambda: self._expired(offset, slot))

    def _expired(self, offset: int, slot: Slot) -> None:
        if slot.state is RecordState.ACQUIRED:
            self._free(offset, slot, "expired")

    # ---- acknowledging

    def acknowledge(self, holder: Holder, batches: Iterable[tuple[int, int, list[int]]]) -> str | None:
        """Apply the acknowledgements (first offset, last offset, types) and return None; or apply none of them, and return the error."""
        self.drop_ended()
        types: dict[int, int] = {}
        for first, last, kinds in batches:
            if last < first or len(kinds) not in (1, last - first + 1) or any(kind not in range(5) for kind in kinds):
                return "INVALID_REQUEST"
            types.update((offset, kinds[0] if len(kinds) == 1 else kinds[offset - first]) for offset in range(first, last + 1))
        types = {offset: kind for offset, kind in types.items() if offset >= self.start}  # no error for records below, as in Kafka
        for offset in types:
            slot = self.slots.get(offset)
            if slot is None or slot.state is not RecordState.ACQUIRED or slot.holder is None or slot.holder.member != holder.member:
                return "INVALID_RECORD_STATE"
        for offset, kind in types.items():
            self._apply(offset, self.slots[offset], kind)
        while (slot := self.slots.get(self.start)) is not None and slot.state in FINAL:
            del self.slots[self.start]
            self.start += 1
        return None

    def _apply(self, offset: int, slot: Slot, kind: int) -> None:
        if kind == RENEW:
            self._note("renewed", offset, slot)
            self._lock(offset, slot)
        elif kind == RELEASE:
            self._free(offset, slot, "released")
        else:
            slot.lock.cancel()
            slot.state = RecordState.ACKNOWLEDGED if kind == ACCEPT else RecordState.ARCHIVED
            self._note({ACCEPT: "accepted", REJECT: "rejected", GAP: "archived"}[kind], offset, slot)
            slot.holder = None


def _spans(found: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    spans: list[tuple[int, int, int]] = []
    for offset, count in found:
        if spans and spans[-1][1] == offset - 1 and spans[-1][2] == count:
            spans[-1] = (spans[-1][0], offset, count)
        else:
            spans.append((offset, offset, count))
    return spans
