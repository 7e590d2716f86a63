"""Decodes acquired records, hands them to the application, and collects its acknowledgements. Invariant: a record is accepted only if the
application accepted it, or had it in hand and called `poll`, `commit`, `commit_async` or `close`; `collect` leaves out the acknowledgement
of a record whose lock has ended, as far as the client knows.

One thread at a time uses `DeliveredRecords` (see `Guard`), and no call here waits. Ctrl-C can end any step: then `changing` stays set, and
the next call begins with `recover`, which takes back the records that no poll has returned. These records cannot be fetched again: the
broker has locked them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.values import EXPIRED, AcknowledgementReport, AcknowledgeType, Acquired, lock_lost
from pykafka4.errors import ConfigError, CorruptRecord, KafkaError, RecordLockLost, RecordTooLarge, listed
from pykafka4.records import TopicPartition
from pykafka4.share.record import ShareRecord
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk, Record

__all__ = ["LOOP", "DeliveredRecords", "Outgoing", "as_type", "name_some"]

LOOP, APPLICATION = "loop", "application"  # the takers of an `Outgoing`
SHOWN: Final = 3  # records in an error's text
AT_ONCE: Final = 2**31 - 1  # records of one decoding step: no limit, because their memory is limited
# A poll renews a lock only while more than this part of the renewal's lead time is left. If a renewal reached the broker after the lock's
# end, the broker would refuse all acknowledgements of the partition in that request.
LATE_SHARE: Final = 0.1
TYPES: Final = {kind.name.lower(): kind for kind in AcknowledgeType if kind is not AcknowledgeType.GAP}


def as_type(kind: object) -> AcknowledgeType:
    if isinstance(kind, AcknowledgeType) and kind is not AcknowledgeType.GAP:
        return kind
    found = TYPES.get(str.lower(kind)) if isinstance(kind, str) else None
    if found is None:
        raise ConfigError(f"acknowledge: {kind!r} must be one of {', '.join(TYPES)}, or an AcknowledgeType")
    return found


@attrs.define(eq=False)
class Outgoing:
    """The result of `collect`: acknowledgements to send, and records whose locks have ended.

    Ctrl-C can come just before or just after the hand-over to the loop. If the application then always collected again, the loop could send
    the acknowledgements twice; if the application never did, they could be lost. So both sides call `take`, and only the first caller uses
    the object: the application if it recovers before the loop has begun to send.
    """

    types: dict[Acquired, dict[int, AcknowledgeType]]
    lost: dict[TopicPartition, tuple[int, RecordLockLost]]  # number of records, and the error
    records: tuple[ShareRecord, ...]  # acknowledged or lost
    report: AcknowledgementReport | None = None
    _taker: dict[str, str] = attrs.Factory(dict)

    def take(self, who: str) -> bool:
        """Whether `who` is the first to take the object. `setdefault` is atomic under the GIL, so exactly one taker wins."""
        return self._taker.setdefault("taker", who) == who

    @property
    def is_urgent(self) -> bool:
        """Whether the object needs its report at once, because it has errors to report, or renewals, whose report the records query."""
        return bool(self.lost) or any(AcknowledgeType.RENEW in types.values() for types in self.types.values())

    def __bool__(self) -> bool:
        return bool(self.types or self.lost)


@attrs.frozen
class DecodedPart:
    records: list[ShareRecord]
    aside: dict[int, AcknowledgeType]  # acquired offsets in the part that have no decoded record -> their acknowledgement
    next: int  # the first offset after the part
    size: int  # bytes of the records in memory


@attrs.define(eq=False)
class ResponseDecoding:
    """After Ctrl-C, decoding begins again at `next`."""

    acquired: Acquired
    counts: dict[int, int]  # acquired offset -> number of its deliveries
    next: int  # the first offset that is not decoded yet
    last: int
    aside: dict[int, AcknowledgeType] = attrs.Factory(dict)
    _chunk: Chunk | None = None

    @classmethod
    def begin(cls, acquired: Acquired) -> ResponseDecoding:
        counts = {offset: count for first, last, count in acquired.spans for offset in range(first, last + 1)}
        return cls(acquired, counts, acquired.spans[0][0], acquired.spans[-1][1])

    def open(self, max_decompressed: int) -> Chunk:
        tp, data = self.acquired.tp, self.acquired.data
        if self._chunk is None or self._chunk.position != self.next:
            assert data is not None
            self._chunk = Chunk(tp.topic, tp.partition, data, self.next, decompress=_decompress, max_decompressed=max_decompressed)
        return self._chunk

    def part(self, next: int, kind: AcknowledgeType, records: Iterable[Record] = (), size: int = 0, since: int = 0) -> DecodedPart:
        """The part up to `next`. Acquired offsets without a record are acknowledged: before `since` as gaps, from `since` on as `kind`."""
        counts, found = self.counts, [record for record in records if record.offset in self.counts]
        aside = {offset: kind if offset >= since else AcknowledgeType.GAP for offset in counts if self.next <= offset < next}
        for record in found:
            aside.pop(record.offset, None)
        return DecodedPart(
            [ShareRecord(record, counts[record.offset], self.acquired) for record in found], aside, max(next, self.next), size
        )

    def rest(self, kind: AcknowledgeType) -> DecodedPart:
        return self.part(self.last + 1, kind)


class DeliveredRecords:
    """The records in the application's hand, the decoded records that wait for a poll, and the acknowledgements of both."""

    def __init__(self, mailbox: Mailbox, clock: Callable[[], float], max_decompressed: int) -> None:
        """`max_decompressed` bounds the bytes of decoded records that wait for a poll, except for one record."""
        self._mailbox, self._clock, self._max_decompressed = mailbox, clock, max_decompressed
        self.ready: deque[ShareRecord] = deque()  # decoded records that wait for a poll
        self._topics: tuple[str, ...] = ()
        self.held: dict[ShareRecord, AcknowledgeType | None] = {}  # records in hand -> their acknowledgement, or None
        self.dropped = 0  # records whose lease or lock ended before a poll returned them
        self.expired = 0  # dropped records whose locks had expired
        self.delivered = 0
        self._aside: dict[Acquired, dict[int, AcknowledgeType]] = {}  # acknowledgements of gaps, unreadable and unwanted records
        self._reading: ResponseDecoding | None = None  # the decoding of the first arrival
        self._stocked = 0  # bytes in memory of the records decoded since `stock` last found `ready` empty
        self.changing = False  # True during a step, and after a step that an exception has ended
        self.out: list[ShareRecord] = []  # records that the running poll has taken and not returned
        self._leaving: Outgoing | None = None  # the `Outgoing` between `sending` and the end of `sent`, if any
        self._renew_from = INFINITY  # a time at or before the earliest end of a lock in `ready`

    # ---------------------------------------------------------------- taking

    def stock(self) -> None:
        """Decode arrivals until `_stocked` reaches `max_decompressed`."""
        arrivals = self._mailbox.arrivals
        if not self.ready:
            self._stocked = 0
        while arrivals and self._stocked < self._max_decompressed:
            acquired = arrivals[0]
            if acquired.data is not None:  # otherwise Ctrl-C came between the last decoding step and `popleft`
                reading = self._reading
                self._renew_from = min(self._renew_from, acquired.until)
                if reading is None or reading.acquired is not acquired:
                    reading = self._reading = ResponseDecoding.begin(acquired)
                part = self._read(reading)
                aside = reading.aside | part.aside
                kept = self._aside.get(acquired, {}) | aside  # `keep` may have released records of the response
                # No call from here to the end of this block, because Ctrl-C is raised in calls. After the first store, Ctrl-C would leave
                # the part's records in `ready`, and `next` before them: later polls would return the records twice.
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
        """Keep the waiting records of `topics`, and release the others. Records in hand stay in hand."""
        self._topics = topics
        self.stock()
        aside = {acquired: dict(types) for acquired, types in self._aside.items()}
        for record in self.ready:
            if record.topic not in topics:
                aside.setdefault(record._acquired, {})[record.offset] = AcknowledgeType.RELEASE
        ready = deque(record for record in self.ready if record.topic in topics)
        self.ready, self._aside = ready, aside  # no call between the stores: after Ctrl-C both are set or neither

    def _read(self, reading: ResponseDecoding) -> DecodedPart:
        """Decode the next part. Corrupt or too large batches are rejected, and `poll` raises the error once."""
        if reading.acquired.tp.topic not in self._topics:
            return reading.rest(AcknowledgeType.RELEASE)
        try:
            chunk = reading.open(self._max_decompressed)
        except KafkaError as error:  # not even the first header can be read
            tp = reading.acquired.tp
            self._mailbox.put_error(CorruptRecord(tp.topic, tp.partition, reading.next, str(error)))
            return reading.rest(AcknowledgeType.REJECT)
        out: list[Record] = []
        try:
            chunk.decode(out, AT_ONCE, self._max_decompressed - self._stocked)
        except (CorruptRecord, RecordTooLarge) as error:
            next_offset = reading.last + 1 if error.next_offset is None else error.next_offset
            if next_offset > reading.next:  # otherwise it was put before: after Ctrl-C, decoding begins with the first batch again
                self._mailbox.put_error(error)
            rejected = reading.part(next_offset, AcknowledgeType.REJECT, since=chunk.position)
            chunk.skip()
            return rejected
        except ConfigError as error:  # the codec's library is missing here: another consumer may have it, so release, not reject
            self._mailbox.put_error(error)
            return reading.rest(AcknowledgeType.RELEASE)
        # The response has no complete batch for these offsets. If they were acknowledged as gaps, their records would be lost.
        if not out and chunk.position == reading.next:
            return reading.rest(AcknowledgeType.RELEASE)
        return reading.part(chunk.position, AcknowledgeType.GAP, out, chunk.decoded)

    def take(self, limit: int) -> list[ShareRecord]:
        """Move up to `limit` records whose locks hold from `ready` to `held`; drop the records before them whose locks have ended."""
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
        """Undo the step that an exception has ended: the next poll returns the records that the step took.

        A second Ctrl-C in here does no harm: each pass of the loop below leaves a state from which the next call continues.
        """
        if (outgoing := self._leaving) is not None:  # sent by the loop if the loop is its taker, otherwise collected again
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
        self._renew_from = -INFINITY
        self.changing = False

    def renewals(self, within: float) -> dict[Acquired, dict[int, ShareRecord]]:
        """Waiting records whose locks end within `within` seconds, but not too soon (`LATE_SHARE`), and are not being renewed."""
        now = self._clock()
        if now + within < self._renew_from:
            return {}
        found: dict[Acquired, dict[int, ShareRecord]] = {}
        earliest = INFINITY
        for record in self.ready:
            left = record._acquired.locked_until(record.offset) - now
            if left <= within and not _is_renewing(record) and left > LATE_SHARE * within and _why_ended(record, now) is None:
                found.setdefault(record._acquired, {})[record.offset] = record
            earliest = min(earliest, now + left)
        self._renew_from = earliest
        return found

    # ---------------------------------------------------------------- acknowledging

    def acknowledge(self, record: object, kind: AcknowledgeType) -> None:
        """Store the acknowledgement, in place of an earlier one that was not sent. Raises as ShareConsumer.acknowledge does."""
        if not isinstance(record, ShareRecord):
            raise TypeError(f"acknowledge takes a record of this consumer, not {type(record).__name__}")
        tp = TopicPartition(record.topic, record.partition)
        reason = _why_lost(record, self._clock())
        if reason is not None:
            self.held.pop(record, None)
            raise lock_lost(tp, (record.offset,), f"{reason}; the record is delivered again, unless that was its last delivery")
        if record not in self.held:
            raise ConfigError(
                f"acknowledge: {tp} offset {record.offset} is not in hand: it was not returned by this consumer's poll, "
                "or its acknowledgement has been sent"
            )
        self.held[record] = kind

    def accept_all(self) -> None:
        for record, kind in self.held.items():
            if kind is None:
                self.held[record] = AcknowledgeType.ACCEPT

    def unacknowledged(self) -> list[ShareRecord]:
        """Records in hand whose locks hold and that have no acknowledgement; a renewal counts as an acknowledgement."""
        now = self._clock()
        return [record for record, kind in self.held.items() if kind is None and not record._renewed and _why_lost(record, now) is None]

    def collect(self) -> Outgoing:
        """All acknowledgements, and records whose locks have ended. They stay here until `sent` removes them."""
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
        """Acknowledgements of offsets that no poll has returned: gaps, unreadable records, unwanted topics."""
        return Outgoing(self._collect_aside(self._clock()), {}, ())

    def _collect_aside(self, now: float) -> dict[Acquired, dict[int, AcknowledgeType]]:
        held = {each: types for each, types in self._aside.items() if each.lease.ended is None}
        left = {each: {o: kind for o, kind in types.items() if now < each.locked_until(o)} for each, types in held.items()}
        self._aside = {each: types for each, types in left.items() if types}
        return {acquired: dict(types) for acquired, types in self._aside.items()}

    def sending(self, outgoing: Outgoing) -> None:
        self._leaving = outgoing

    def sent(self, outgoing: Outgoing) -> None:
        """Remove `outgoing`: the loop has it. Records with a renewal stay in hand. After Ctrl-C in here, `recover` calls this again."""
        # The loop becomes the taker first: from here on, parts of `outgoing` are removed, and after Ctrl-C an application that took the
        # remaining part would never send the removed part.
        outgoing.take(LOOP)
        for acquired in outgoing.types:
            self._aside.pop(acquired, None)
        for record in outgoing.records:
            if outgoing.types.get(record._acquired, {}).get(record.offset) is not AcknowledgeType.RENEW:
                self.held.pop(record, None)
            elif self.held.get(record) is AcknowledgeType.RENEW:
                self.held[record], record._renewed, record._renewal = None, True, outgoing.report
        self._leaving = None


def _why_ended(record: ShareRecord, now: float) -> str | None:
    """The reason why the record's lock has ended, as far as the client knows; None if it holds."""
    acquired, offset = record._acquired, record._record.offset
    if acquired.lease.ended is not None:
        return acquired.lease.ended
    return EXPIRED if now >= acquired.locked_until(offset) or offset in acquired.again else None


def _is_renewing(record: ShareRecord) -> bool:
    return record._renewal is not None and record._renewal.is_open


def _why_lost(record: ShareRecord, now: float) -> str | None:
    """The reason why the record cannot be acknowledged, if any. During a renewal, only the broker knows whether the lock holds."""
    acquired = record._acquired
    if acquired.lease.ended is None and _is_renewing(record) and record.offset not in acquired.again:
        return None
    return _why_ended(record, now)


def name_some(records: list[ShareRecord]) -> str:
    return listed(records, lambda each: f"{each.topic}-{each.partition} offset {each.offset}", most=SHOWN)


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, data, max_size)
