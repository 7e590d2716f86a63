"""Keeps the records that the application of a share consumer has. Rule: a record is accepted only if the application had it and then asked
for more, or accepted it itself; never after its lock has ended.

The application's side of a share consumer, without waiting; used by the thread that polls only. Ctrl-C may end each step: then `changing`
stays set, and the next call begins with `recover`, which takes back the records that no poll has returned. They cannot be fetched again, as
the broker has locked them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.values import EXPIRED, AcknowledgeType, Acquired, Report, lock_lost
from pykafka4.errors import ConfigError, CorruptRecord, KafkaError, RecordLockLost, RecordTooLarge, listed
from pykafka4.records import TopicPartition
from pykafka4.share.record import ShareRecord
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk, Record

__all__ = ["LOOP", "DeliveredRecords", "Outgoing", "as_type", "name_some"]

LOOP, APPLICATION = "loop", "application"  # who takes what is on its way
SHOWN: Final = 3  # records in a message
AT_ONCE: Final = 2**31 - 1  # records to decode
LATE: Final = 0.1  # renewals that would reach the broker after the lock's end would have all others of the partition refused
TYPES: Final = {kind.name.lower(): kind for kind in AcknowledgeType if kind is not AcknowledgeType.GAP}


def as_type(kind: object) -> AcknowledgeType:
    """One of accept, release, reject and renew: its name, or the AcknowledgeType."""
    if isinstance(kind, AcknowledgeType) and kind is not AcknowledgeType.GAP:
        return kind
    found = TYPES.get(str.lower(kind)) if isinstance(kind, str) else None
    if found is None:
        raise ConfigError(f"acknowledge: {kind!r} must be one of {', '.join(TYPES)}, or an AcknowledgeType")
    return found


@attrs.define(eq=False)
class Outgoing:
    """What `collect` has found: acknowledgements to send, and records that cannot be acknowledged any more.

    Ctrl-C may come while it is given to the loop. So the first of loop and application takes it: the application if it collects again
    before the loop has begun to send.
    """

    types: dict[Acquired, dict[int, AcknowledgeType]]
    lost: dict[TopicPartition, tuple[int, RecordLockLost]]  # how many, and the error
    records: tuple[ShareRecord, ...]  # acknowledged or lost
    report: Report | None = None
    _taker: dict[str, str] = attrs.Factory(dict)

    def take(self, who: str) -> bool:
        """Whether `who` is the first to take it. Atomic under the GIL."""
        return self._taker.setdefault("taker", who) == who

    @property
    def is_urgent(self) -> bool:
        """Whether it needs a report of its own: there are errors to tell, or somebody may ask for the outcome."""
        return bool(self.lost) or any(AcknowledgeType.RENEW in types.values() for types in self.types.values())

    def __bool__(self) -> bool:
        return bool(self.types or self.lost)


@attrs.frozen
class Part:
    """A part of a response, decoded."""

    records: list[ShareRecord]
    aside: dict[int, AcknowledgeType]  # offsets in it without such a record, and how they are acknowledged
    next: int  # the offset behind it
    size: int  # of the records, in memory


@attrs.define(eq=False)
class Reading:
    """A response that is being decoded. After an interrupt it is decoded again from `next` on."""

    acquired: Acquired
    counts: dict[int, int]  # of each acquired offset: how often it was delivered
    next: int  # records before it are decoded
    last: int
    aside: dict[int, AcknowledgeType] = attrs.Factory(dict)
    _chunk: Chunk | None = None

    @classmethod
    def begin(cls, acquired: Acquired) -> Reading:
        """Nothing of `acquired` is decoded yet."""
        counts = {offset: count for first, last, count in acquired.spans for offset in range(first, last + 1)}
        return cls(acquired, counts, acquired.spans[0][0], acquired.spans[-1][1])

    def open(self, max_decompressed: int) -> Chunk:
        """The chunk, which continues at `next`."""
        tp, data = self.acquired.tp, self.acquired.data
        if self._chunk is None or self._chunk.position != self.next:
            assert data is not None
            self._chunk = Chunk(tp.topic, tp.partition, data, self.next, decompress=_decompress, max_decompressed=max_decompressed)
        return self._chunk

    def part(self, next: int, kind: AcknowledgeType, records: Iterable[Record] = (), size: int = 0, since: int = 0) -> Part:
        """The records before the offset `next`. Acquired offsets without a record are acknowledged as `kind`, before `since` as gaps."""
        counts, found = self.counts, [record for record in records if record.offset in self.counts]
        aside = {offset: kind if offset >= since else AcknowledgeType.GAP for offset in counts if self.next <= offset < next}
        for record in found:
            aside.pop(record.offset, None)
        return Part([ShareRecord(record, counts[record.offset], self.acquired) for record in found], aside, max(next, self.next), size)

    def rest(self, kind: AcknowledgeType) -> Part:
        """All acquired offsets that are not decoded yet, as in `part`."""
        return self.part(self.last + 1, kind)


class DeliveredRecords:
    """The records that the application has, and those that wait for it."""

    def __init__(self, mailbox: Mailbox, clock: Callable[[], float], max_decompressed: int) -> None:
        """`clock` is monotonic."""
        self._mailbox, self._clock, self._max_decompressed = mailbox, clock, max_decompressed
        self.ready: deque[ShareRecord] = deque()  # decoded, not handed out
        self._topics: tuple[str, ...] = ()
        self.held: dict[ShareRecord, AcknowledgeType | None] = {}  # handed out, and how each is acknowledged
        self.dropped = 0  # records whose lock ended before they were handed out
        self.expired = 0  # of these, those whose time was over
        self.delivered = 0
        self._aside: dict[Acquired, dict[int, AcknowledgeType]] = {}  # gaps, and what cannot be read
        self._reading: Reading | None = None  # the first of the arrivals
        self._stocked = 0  # bytes in memory of the records decoded since `ready` was empty
        self.changing = False  # during a step, and after one that was left in the middle
        self.out: list[ShareRecord] = []  # of the running poll: taken, not returned
        self._leaving: Outgoing | None = None  # `sent` has not been called, or not to its end
        self._renew_from = INFINITY  # when the first lock of a record in `ready` ends; it may be too early

    # ---------------------------------------------------------------- taking

    def stock(self) -> None:
        """Decode what has arrived, until the records that wait for a poll take `max_decompressed` bytes of memory."""
        arrivals = self._mailbox.arrivals
        if not self.ready:
            self._stocked = 0
        while arrivals and self._stocked < self._max_decompressed:
            acquired = arrivals[0]
            if acquired.data is not None:  # otherwise Ctrl-C came before it was removed
                reading = self._reading
                if reading is None or reading.acquired is not acquired:
                    self._renew_from = min(self._renew_from, acquired.until)
                    reading = self._reading = Reading.begin(acquired)
                part = self._read(reading)
                aside = reading.aside | part.aside
                kept = self._aside.get(acquired, {}) | aside  # `keep` may have released records of it
                # No call from here to the end of this block: Ctrl-C is raised in calls.
                self.ready += part.records
                self._stocked += part.size
                reading.aside, reading.next = aside, part.next
                if reading.next <= reading.last:
                    continue
                if aside:
                    self._aside[acquired] = kept
                acquired.data = self._reading = None
            arrivals.popleft()

    def keep(self, topics: tuple[str, ...]) -> None:
        """Hand out records of these topics only. What is buffered of others is released; what the application has of them stays in hand."""
        self._topics = topics
        self.stock()
        aside = {acquired: dict(types) for acquired, types in self._aside.items()}
        for record in self.ready:
            if record.topic not in topics:
                aside.setdefault(record._acquired, {})[record.offset] = AcknowledgeType.RELEASE
        ready = deque(record for record in self.ready if record.topic in topics)
        self.ready, self._aside = ready, aside  # both or, after Ctrl-C, none

    def _read(self, reading: Reading) -> Part:
        """The next records of a response. Batches that cannot be read are rejected, and `poll` says so once."""
        if reading.acquired.tp.topic not in self._topics:
            return reading.rest(AcknowledgeType.RELEASE)
        try:
            chunk = reading.open(self._max_decompressed)
        except KafkaError as error:  # not even the first header can be read
            tp = reading.acquired.tp
            self._mailbox.tell(CorruptRecord(tp.topic, tp.partition, reading.next, str(error)))
            return reading.rest(AcknowledgeType.REJECT)
        out: list[Record] = []
        try:
            chunk.decode(out, AT_ONCE, self._max_decompressed - self._stocked)
        except (CorruptRecord, RecordTooLarge) as error:
            behind = reading.last + 1 if error.next_offset is None else error.next_offset
            if behind > reading.next:  # otherwise it was told before an interrupt
                self._mailbox.tell(error)
            rejected = reading.part(behind, AcknowledgeType.REJECT, since=chunk.position)
            chunk.skip()
            return rejected
        except ConfigError as error:  # the library of its codec is missing: another consumer may have it
            self._mailbox.tell(error)
            return reading.rest(AcknowledgeType.RELEASE)
        if not out and chunk.position == reading.next:  # no batch has them, or one that was cut off: as gaps, their records would be lost
            return reading.rest(AcknowledgeType.RELEASE)
        return reading.part(chunk.position, AcknowledgeType.GAP, out, chunk.decoded)

    def take(self, limit: int) -> list[ShareRecord]:
        """Hand out up to `limit` records whose locks hold."""
        out = self.out = []
        now = self._clock()
        while self.ready and len(out) < limit:
            record = self.ready[0]
            reason = _why_ended(record, now)
            if reason is None:
                out.append(record)
            self.ready.popleft()
            if reason is not None:
                self.dropped += 1
                self.expired += reason == EXPIRED
        for record in out:
            self.held[record] = None
            self.delivered += 1
        return out

    def recover(self) -> None:
        """A step was left in the middle: the next poll returns the records that it took. If this is interrupted, the next call goes on."""
        if (outgoing := self._leaving) is not None:  # what the loop has taken, or takes, is sent; otherwise it is collected again
            if outgoing.take(APPLICATION):
                self._leaving = None
            else:
                self.sent(outgoing)
        while self.out:
            record = self.out[-1]
            if record in self.held:
                del self.held[record]
                self.delivered -= 1
            if not self.ready or self.ready[0] is not record:
                self.ready.appendleft(record)
            self.out.pop()
        self.changing = False

    def renewals(self, within: float) -> dict[Acquired, dict[int, ShareRecord]]:
        """Buffered records whose locks end within so many seconds: to be renewed, unless it is too late for that, or under way."""
        now = self._clock()
        if now + within < self._renew_from:
            return {}
        found: dict[Acquired, dict[int, ShareRecord]] = {}
        self._renew_from = INFINITY
        for record in self.ready:
            left = record._acquired.locked_until(record.offset) - now
            if left <= within and not _is_renewing(record) and left > LATE * within and _why_ended(record, now) is None:
                found.setdefault(record._acquired, {})[record.offset] = record
            self._renew_from = min(self._renew_from, now + left)
        return found

    # ---------------------------------------------------------------- acknowledging

    def acknowledge(self, record: object, kind: AcknowledgeType) -> None:
        """Note how `record` is acknowledged; the last call before it is sent counts."""
        if not isinstance(record, ShareRecord):
            raise TypeError(f"acknowledge takes a record of this consumer, not {type(record).__name__}")
        tp = TopicPartition(record.topic, record.partition)
        reason = _why_lost(record, self._clock())
        if reason is not None:
            self.held.pop(record, None)
            raise lock_lost(tp, (record.offset,), f"{reason}; it is delivered again, unless that was its last delivery")
        if record not in self.held:
            raise ConfigError(
                f"acknowledge: {tp} offset {record.offset} is not in hand: it was not returned by this consumer's poll, "
                "or its acknowledgement has been sent"
            )
        self.held[record] = kind

    def accept_all(self) -> None:
        """The application is done with what it has."""
        for record, kind in self.held.items():
            if kind is None:
                self.held[record] = AcknowledgeType.ACCEPT

    def unacknowledged(self) -> list[ShareRecord]:
        """Records in hand without an acknowledgement, whose locks hold; a renewal counts as one."""
        now = self._clock()
        return [record for record, kind in self.held.items() if kind is None and not record._renewed and _why_lost(record, now) is None]

    def collect(self) -> Outgoing:
        """What is to be sent; `sent` removes it."""
        now = self._clock()
        types = self._collect_aside(now)
        lost: dict[TopicPartition, dict[int, str]] = {}
        records: list[ShareRecord] = []
        for record, kind in self.held.items():
            reason = _why_lost(record, now)
            if reason is not None:
                lost.setdefault(TopicPartition(record.topic, record.partition), {})[record.offset] = reason
                records.append(record)
            elif kind is not None:
                types.setdefault(record._acquired, {})[record.offset] = kind
                records.append(record)
        errors = {tp: (len(found), lock_lost(tp, found, next(iter(found.values())))) for tp, found in lost.items()}
        return Outgoing(types, errors, tuple(records))

    def collect_aside(self) -> Outgoing:
        """As `collect`, only what is said about records that are not handed out."""
        return Outgoing(self._collect_aside(self._clock()), {}, ())

    def _collect_aside(self, now: float) -> dict[Acquired, dict[int, AcknowledgeType]]:
        held = {each: types for each, types in self._aside.items() if each.lease.ended is None}
        left = {each: {o: kind for o, kind in types.items() if now < each.locked_until(o)} for each, types in held.items()}
        self._aside = {each: types for each, types in left.items() if types}
        return {acquired: dict(types) for acquired, types in self._aside.items()}

    def sending(self, outgoing: Outgoing) -> None:
        """It is about to be given to the loop."""
        self._leaving = outgoing

    def sent(self, outgoing: Outgoing) -> None:
        """It is on its way. Records whose lock is renewed stay in hand. May be called again if it was interrupted."""
        outgoing.take(LOOP)  # the loop has it, or will: what is forgotten from here on must not be collected again without it
        for acquired in outgoing.types:
            self._aside.pop(acquired, None)
        for record in outgoing.records:
            if outgoing.types.get(record._acquired, {}).get(record.offset) is not AcknowledgeType.RENEW:
                self.held.pop(record, None)
            elif self.held.get(record) is AcknowledgeType.RENEW:
                self.held[record], record._renewed, record._renewal = None, True, outgoing.report
        self._leaving = None


def _why_ended(record: ShareRecord, now: float) -> str | None:
    """Why the record is not known to be locked, if so."""
    acquired, offset = record._acquired, record._record.offset
    if acquired.lease.ended is not None:
        return acquired.lease.ended
    return EXPIRED if now >= acquired.locked_until(offset) or offset in acquired.again else None


def _is_renewing(record: ShareRecord) -> bool:
    return record._renewal is not None and record._renewal.is_open


def _why_lost(record: ShareRecord, now: float) -> str | None:
    """Why the record cannot be acknowledged, if so. While its lock is being renewed, only the broker knows when it ends."""
    acquired = record._acquired
    if acquired.lease.ended is None and _is_renewing(record) and record.offset not in acquired.again:
        return None
    return _why_ended(record, now)


def name_some(records: list[ShareRecord]) -> str:
    """The first records, for messages."""
    return listed(records, lambda each: f"{each.topic}-{each.partition} offset {each.offset}", most=SHOWN)


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, data, max_size)
