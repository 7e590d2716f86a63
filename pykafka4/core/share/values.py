"""Holds acquired records, their leases and locks, and acknowledgements with their reports. Invariant: a lease that has ended never
becomes valid again.

A broker *acquires* records for a member: it locks them for the group's `share.record.lock.duration.ms`. A `SessionLease` stands for one
partition in one share session with the partition's leader. After a lease has ended, the records acquired under it cannot be acknowledged.
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
    "SessionLease",
    "AcknowledgementReport",
    "lock_lost",
    "ranges",
    "release",
    "shown_offsets",
]

EXPIRED = "the lock has expired"
SHOWN = 5  # ranges of offsets in an error's text
# A lease remembers the last delivery of each offset. Records that the application never acknowledges would stay in it until the session
# ends. So a lease with at least FEW offsets sometimes forgets the offsets whose locks ended more than REMEMBERED_S ago.
FEW = 1_000
REMEMBERED_S = 60.0


class AcknowledgeType(enum.Enum):
    """The types of acknowledgements, with the protocol's values. Applications use all types except GAP."""

    GAP = 0  # the offset has no record (compacted, or a control batch)
    ACCEPT = 1  # processed: the broker does not deliver the record again
    RELEASE = 2  # the broker may deliver the record again, to any member
    REJECT = 3  # cannot be processed: the broker does not deliver the record again
    RENEW = 4  # the lock begins again, because the record needs more time


@attrs.define(eq=False)
class SessionLease:
    """The right to acknowledge records of one partition in one share session. The loop sets `ended`; any thread may read it."""

    tp: TopicPartition
    topic_id: UUID
    node: int
    ended: str | None = None  # the reason for the end, for error texts; None while the lease holds
    _current: dict[int, Acquired] = attrs.Factory(dict)  # offset -> its last delivery, if that has no outcome
    _most: int = FEW  # old offsets are dropped at this size; a drop sets it to more than twice the rest, so drops cost O(1) per record

    def deliver(self, acquired: Acquired, now: float) -> None:
        """Note `acquired` as the last delivery of its offsets, and mark these offsets in earlier deliveries as acquired `again`.

        Brokers identify an acknowledged record only by member and offset. Without the mark: the lock of a record ends, the broker delivers
        the record again, the application accepts the first delivery late, and the broker applies this acknowledgement to the second
        delivery, which has not been processed.
        """
        if len(self._current) >= self._most:
            self._current = {o: each for o, each in self._current.items() if now < each.locked_until(o) + REMEMBERED_S}
            self._most = FEW + 2 * len(self._current)
        for first, last, _ in acquired.spans:
            for offset in range(first, last + 1):
                before = self._current.get(offset)
                if before is not None:
                    before.again.add(offset)
                self._current[offset] = acquired

    def settled(self, acquired: Acquired, offset: int) -> None:
        """Forget the delivery of `offset`, which has an outcome, unless a later delivery has replaced it."""
        if self._current.get(offset) is acquired:
            del self._current[offset]

    def has(self, offset: int) -> bool:
        """Whether the last delivery of `offset` has no outcome."""
        return offset in self._current

    def locked(self, now: float) -> dict[Acquired, list[int]]:
        """The offsets that are still locked and have no outcome, by the response that acquired them."""
        found: dict[Acquired, list[int]] = {}
        for offset, acquired in self._current.items():
            if now < acquired.locked_until(offset):
                found.setdefault(acquired, []).append(offset)
        return found


@attrs.define(eq=False)
class Acquired:
    """Records of one partition from one response, as undecoded batches, which may contain other records as well."""

    lease: SessionLease
    spans: tuple[tuple[int, int, int], ...]  # first offset, last offset, delivery count
    data: Any  # record batches; None after they have been decoded
    until: float  # the end of the locks without renewals, by the client's clock: not before their end on the broker
    renewed: dict[int, float] = attrs.Factory(dict)  # offset -> end of its renewed lock. The loop writes, any thread reads
    again: set[int] = attrs.Factory(set)  # offsets that a later response acquired, so their locks ended. The loop writes, any thread reads

    @property
    def tp(self) -> TopicPartition:
        return self.lease.tp

    def locked_until(self, offset: int) -> float:
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
    more = f" and {len(runs) - SHOWN} more range{'s' if len(runs) > SHOWN + 1 else ''}" if len(runs) > SHOWN else ""
    return f"offset{'s' if len(runs) > 1 or '-' in shown else ''} {shown}{more}"


def lock_lost(tp: TopicPartition, offsets: Iterable[int], reason: str) -> RecordLockLost:
    return RecordLockLost.of(tp.topic, tp.partition, sorted(offsets), f"{tp} {shown_offsets(offsets)}: {reason}")


@attrs.define(eq=False)
class AcknowledgementReport:
    """Collects the outcomes of acknowledgements with one report: None or the first error of each partition. Calls `done` once.

    A part is one `Acknowledgements`. `_open` counts the parts without an outcome, plus one until all parts have begun: the first part may
    have its outcome before the second begins.
    """

    done: Callable[[AcknowledgementReport], object]
    results: dict[TopicPartition, KafkaError | None] = attrs.Factory(dict)
    stored: int = 0  # records whose acknowledgements the brokers have stored; gaps and renewals do not count, here and in `failed`
    failed: int = 0  # records whose acknowledgements have failed
    _open: int = 1

    @property
    def is_open(self) -> bool:
        """Whether any part has no outcome so far, or is still to begin. Any thread may read it."""
        return self._open > 0

    def begin(self) -> None:
        """Begin a part, which `settle` ends."""
        self._open += 1

    def settle(self, tp: TopicPartition, records: int, error: KafkaError | None) -> None:
        """End a part. The first error of a partition stays in `results`."""
        if self.results.get(tp) is None:
            self.results[tp] = error
        if error is None:
            self.stored += records
        else:
            self.failed += records
        self.close()

    def close(self) -> None:
        """Called once for each part that ends, and once when all parts have begun."""
        self._open -= 1
        if not self._open:
            self.done(self)


@attrs.define(eq=False)
class Acknowledgements:
    """Acknowledgements for records of one response."""

    acquired: Acquired
    types: Mapping[int, AcknowledgeType]  # by offset
    report: AcknowledgementReport

    @property
    def renews(self) -> bool:
        """Whether any lock is renewed: brokers then refuse to fetch records in the same request."""
        return AcknowledgeType.RENEW in self.types.values()

    @property
    def records(self) -> int:
        """The number of records, without gaps and without renewals, which give a record no outcome."""
        return sum(kind not in (AcknowledgeType.GAP, AcknowledgeType.RENEW) for kind in self.types.values())

    def split(self, offsets: Container[int]) -> tuple[Acknowledgements | None, Acknowledgements | None]:
        """Return (acknowledgements for `offsets`, the other ones), which replace this object; None for an empty part."""
        inside = {offset: kind for offset, kind in self.types.items() if offset in offsets}
        outside = {offset: kind for offset, kind in self.types.items() if offset not in inside}
        if not inside:
            return None, self
        if not outside:
            return self, None
        self.report.begin()
        return Acknowledgements(self.acquired, inside, self.report), Acknowledgements(self.acquired, outside, self.report)

    def succeed(self, now: float, lock: float) -> None:
        """The broker has stored the acknowledgements. A renewed lock lasts `lock` seconds from `now` on."""
        for offset, kind in self.types.items():
            if kind is AcknowledgeType.RENEW:
                self.acquired.renewed[offset] = now + lock
        self._forget()
        self.report.settle(self.acquired.tp, self.records, None)

    def fail(self, error: KafkaError) -> None:
        self._forget()
        self.report.settle(self.acquired.tp, self.records, error)

    def _forget(self) -> None:
        for offset, kind in self.types.items():
            if kind is not AcknowledgeType.RENEW:
                self.acquired.lease.settled(self.acquired, offset)


def release(acquired: Acquired, offsets: Iterable[int]) -> Acknowledgements:
    """Create releases that the application did not request; nothing reads their report."""
    report = AcknowledgementReport(lambda _: None)
    report.begin()
    report.close()
    return Acknowledgements(acquired, dict.fromkeys(offsets, AcknowledgeType.RELEASE), report)
