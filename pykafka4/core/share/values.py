"""Values of share groups. Rule: an acknowledgement gets exactly one outcome; a lease that has ended never becomes valid again.

A broker *acquires* records for a member: it locks them for `group.share.record.lock.duration.ms`. A `Lease` stands for one partition in one
share session with its leader. When it ends, records that were acquired under it cannot be acknowledged any more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs

from pykafka4.errors import KafkaError, RecordLockLost
from pykafka4.records import TopicPartition

__all__ = [
    "EXPIRED",
    "AcknowledgeType",
    "Acknowledgements",
    "Acquired",
    "Lease",
    "Report",
    "lock_lost",
    "ranges",
    "release",
    "shown_offsets",
]

EXPIRED = "the lock has expired"
SHOWN = 5  # ranges of offsets in a message
FEW = 1_000  # offsets that a lease may remember although they are over
REMEMBERED = 60.0  # seconds for which it does so after the end of a lock, when there are more


class AcknowledgeType(enum.Enum):
    """What becomes of an acquired record; the values are those of the protocol. GAP is not for applications."""

    GAP = 0  # there is no record at this offset
    ACCEPT = 1  # processed: it is not delivered again
    RELEASE = 2  # delivered again, to any member
    REJECT = 3  # it cannot be processed: it is not delivered again
    RENEW = 4  # the lock begins again; the record is still in hand


@attrs.define(eq=False)
class Lease:
    """One partition in one share session. The loop sets `ended`; any thread may read it."""

    tp: TopicPartition
    topic_id: UUID
    node: int
    ended: str | None = None  # why: the records that were acquired under it are released
    _current: dict[int, Acquired] = attrs.Factory(dict)  # by offset, the last delivery, unless it has an outcome
    _most: int = FEW

    def deliver(self, acquired: Acquired, now: float) -> None:
        """Records are acquired. What is said about earlier deliveries of them must not reach the broker: it would count for this one."""
        if len(self._current) >= self._most:
            self._current = {o: each for o, each in self._current.items() if now < each.locked_until(o) + REMEMBERED}
            self._most = FEW + 2 * len(self._current)
        for first, last, _ in acquired.spans:
            for offset in range(first, last + 1):
                before = self._current.get(offset)
                if before is not None:
                    before.again.add(offset)
                self._current[offset] = acquired

    def settled(self, acquired: Acquired, offset: int) -> None:
        """A delivery has an outcome."""
        if self._current.get(offset) is acquired:
            del self._current[offset]

    def has(self, offset: int) -> bool:
        """Whether the last delivery of the record at `offset` has no outcome."""
        return offset in self._current

    def locked(self, now: float) -> dict[Acquired, list[int]]:
        """The offsets of each response whose records have no outcome, and whose locks are not over."""
        found: dict[Acquired, list[int]] = {}
        for offset, acquired in self._current.items():
            if now < acquired.locked_until(offset):
                found.setdefault(acquired, []).append(offset)
        return found


@attrs.define(eq=False)
class Acquired:
    """The records that one response has acquired from a partition: undecoded, with others of the same batches."""

    lease: Lease
    spans: tuple[tuple[int, int, int], ...]  # first offset, last offset, delivery count
    data: Any  # record batches
    until: float  # the end of the locks, by the client's clock: not before their end on the broker
    renewed: dict[int, float] = attrs.Factory(dict)  # offset -> the end of a lock that was renewed. The loop writes, any thread reads
    again: set[int] = attrs.Factory(set)  # offsets that were acquired again: these locks had ended. As `renewed`

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.lease.tp

    def locked_until(self, offset: int) -> float:
        """When the lock of the record at `offset` ends."""
        return self.renewed.get(offset, self.until)


def ranges(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of consecutive offsets, ascending."""
    first = last = -2
    for offset in sorted(offsets):
        if offset == last + 1 and first >= 0:
            last = offset
            continue
        if first >= 0:
            yield first, last
        first = last = offset
    if first >= 0:
        yield first, last


def shown_offsets(offsets: Iterable[int]) -> str:
    """`offset 7`, or `offsets 3-5, 7`, for messages."""
    runs = list(ranges(offsets))
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs[:SHOWN])
    more = f" and {len(runs) - SHOWN} more ranges" if len(runs) > SHOWN else ""
    return f"offset{'s' if len(runs) > 1 or '-' in shown else ''} {shown}{more}"


def lock_lost(tp: TopicPartition, offsets: Iterable[int], reason: str) -> RecordLockLost:
    """The error for records that are no longer locked for this consumer."""
    return RecordLockLost.of(tp.topic, tp.partition, sorted(offsets), f"{tp} {shown_offsets(offsets)}: {reason}")


@attrs.define(eq=False)
class Report:
    """The outcome of acknowledgements that were handed over together: per partition None, or the error. `done` is called once."""

    done: Callable[[Report], object]
    results: dict[TopicPartition, KafkaError | None] = attrs.Factory(dict)
    accepted: int = 0  # acknowledged records, gaps left out
    failed: int = 0
    _open: int = 1  # until `close`

    @property
    def is_open(self) -> bool:
        """Whether a part has no outcome yet. Any thread may ask."""
        return self._open > 0

    def begin(self) -> None:
        """Another part will be settled."""
        self._open += 1

    def settle(self, tp: TopicPartition, records: int, error: KafkaError | None) -> None:
        """The outcome of a part. The first error of a partition counts."""
        if self.results.get(tp) is None:
            self.results[tp] = error
        if error is None:
            self.accepted += records
        else:
            self.failed += records
        self.close()

    def close(self) -> None:
        """No further part begins; or one has ended."""
        self._open -= 1
        if not self._open:
            self.done(self)


@attrs.define(eq=False)
class Acknowledgements:
    """Acknowledgements of records of one response, on their way to the broker."""

    acquired: Acquired
    types: Mapping[int, AcknowledgeType]  # by offset
    report: Report
    attempts: int = 0

    @property
    def renews(self) -> bool:
        """Whether it renews locks: brokers refuse to fetch with the same request."""
        return AcknowledgeType.RENEW in self.types.values()

    @property
    def records(self) -> int:
        """How many records it acknowledges."""
        return sum(kind is not AcknowledgeType.GAP for kind in self.types.values())

    def split(self, offsets: Container[int]) -> tuple[Acknowledgements | None, Acknowledgements | None]:
        """(those of `offsets`, the others) instead of this object; None if there are none."""
        inside = {offset: kind for offset, kind in self.types.items() if offset in offsets}
        outside = {offset: kind for offset, kind in self.types.items() if offset not in inside}
        if not inside:
            return None, self
        if not outside:
            return self, None
        self.report.begin()
        return Acknowledgements(self.acquired, inside, self.report), Acknowledgements(self.acquired, outside, self.report)

    def succeed(self, now: float, lock: float) -> None:
        """The broker has stored them. `lock` seconds: how long renewed locks last."""
        for offset, kind in self.types.items():
            if kind is AcknowledgeType.RENEW:
                self.acquired.renewed[offset] = now + lock
        self._forget()
        self.report.settle(self.acquired.tp, self.records, None)

    def fail(self, error: KafkaError) -> None:
        """They were not stored, or it is not known."""
        self._forget()
        self.report.settle(self.acquired.tp, self.records, error)

    def _forget(self) -> None:
        for offset, kind in self.types.items():
            if kind is not AcknowledgeType.RENEW:
                self.acquired.lease.settled(self.acquired, offset)


def release(acquired: Acquired, offsets: Iterable[int]) -> Acknowledgements:
    """Records that nobody has in hand any more: nobody is told the outcome."""
    report = Report(lambda _: None)
    report.begin()
    report.close()
    return Acknowledgements(acquired, dict.fromkeys(offsets, AcknowledgeType.RELEASE), report)
