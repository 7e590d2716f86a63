"""Hand. Rule: a record is accepted only if the application has had it and asked for more, or has said so; never after its lock has ended.

The application's side of a share consumer, without waiting; used by the thread that polls only. Ctrl-C may end each step: then records stay
unacknowledged, and the broker delivers them again when their locks expire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from pykafka4.core.share.shelf import Shelf
from pykafka4.core.share.values import AcknowledgeType, Acquired, lock_lost
from pykafka4.errors import ConfigError, CorruptRecord, KafkaError, RecordLockLost, RecordTooLarge
from pykafka4.records import TopicPartition
from pykafka4.share.record import ShareRecord
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk, Record

__all__ = ["Hand", "Outgoing", "as_type"]

EXPIRED: Final = "the lock has expired"
SHOWN: Final = 3  # records in a message
AT_ONCE: Final = 2**31 - 1  # records to decode
TYPES: Final = {kind.name.lower(): kind for kind in AcknowledgeType if kind is not AcknowledgeType.GAP}


def as_type(kind: object) -> AcknowledgeType:
    """One of accept, release, reject and renew: its name, or the AcknowledgeType."""
    if isinstance(kind, AcknowledgeType) and kind is not AcknowledgeType.GAP:
        return kind
    found = TYPES.get(str.lower(kind)) if isinstance(kind, str) else None
    if found is None:
        raise ConfigError(f"acknowledge: {kind!r} must be one of {', '.join(TYPES)}, or an AcknowledgeType")
    return found


@attrs.frozen(eq=False)
class Outgoing:
    """What `collect` has found: acknowledgements to send, and records that cannot be acknowledged any more."""

    types: dict[Acquired, dict[int, AcknowledgeType]]
    lost: dict[TopicPartition, tuple[int, RecordLockLost]]  # how many, and the error
    records: tuple[ShareRecord, ...]  # acknowledged or lost

    def __bool__(self) -> bool:
        return bool(self.types or self.lost)


class Hand:
    """The records that the application has, and those that wait for it."""

    def __init__(self, shelf: Shelf, clock: Callable[[], float], max_decompressed: int) -> None:
        """`clock` is monotonic."""
        self._shelf, self._clock, self._max_decompressed = shelf, clock, max_decompressed
        self.ready: deque[ShareRecord] = deque()  # decoded, not handed out
        self.held: dict[ShareRecord, AcknowledgeType | None] = {}  # handed out, and how each is acknowledged
        self.dropped = 0  # records whose lock ended before they were handed out
        self.delivered = 0
        self._aside: dict[Acquired, dict[int, AcknowledgeType]] = {}  # gaps, and what cannot be read
        self._last: Acquired | None = None  # was decoded last
        self._out: list[ShareRecord] = []  # of the running poll

    # ---------------------------------------------------------------- taking

    def stock(self) -> None:
        """Decode what has arrived."""
        arrivals = self._shelf.arrivals
        while arrivals:
            acquired = arrivals[0]
            if acquired is not self._last:  # otherwise Ctrl-C came before it was removed
                records, aside = self._decode(acquired)
                self._last = acquired
                self.ready += records
                if aside:
                    self._aside[acquired] = aside
                acquired.data = b""
            arrivals.popleft()

    def _decode(self, acquired: Acquired) -> tuple[list[ShareRecord], dict[int, AcknowledgeType]]:
        """The acquired records, and what becomes of the other acquired offsets."""
        counts = {offset: count for first, last, count in acquired.spans for offset in range(first, last + 1)}
        rest = dict.fromkeys(counts, AcknowledgeType.GAP)
        found: list[ShareRecord] = []
        for record in self._read(acquired, rest):
            count = counts.get(record.offset)
            if count is not None:
                found.append(ShareRecord(record, count, acquired))
                del rest[record.offset]
        return found, rest

    def _read(self, acquired: Acquired, rest: dict[int, AcknowledgeType]) -> Iterable[Record]:
        """All records of the response from the first acquired one on. Batches that cannot be read are rejected, and `poll` says so once."""
        tp, out = acquired.tp, list[Record]()
        first, last = acquired.spans[0][0], acquired.spans[-1][1]
        try:
            chunk = Chunk(tp.topic, tp.partition, acquired.data, first, decompress=_decompress, max_decompressed=self._max_decompressed)
        except KafkaError as error:  # not even the first header can be read
            self._reject(rest, first, last, CorruptRecord(tp.topic, tp.partition, first, str(error)))
            return out
        while not chunk.exhausted:
            try:
                if not chunk.decode(out, AT_ONCE):
                    break
            except (CorruptRecord, RecordTooLarge) as error:
                unread = last if error.next_offset is None else error.next_offset - 1
                self._reject(rest, chunk.position, unread, error)
                if error.next_offset is None:
                    break
                chunk.skip()
            except ConfigError as error:  # the library of its codec is missing: another consumer may have it
                self._set_aside(rest, chunk.position, last, AcknowledgeType.RELEASE)
                self._shelf.tell(error)
                break
        if chunk.incomplete:
            self._set_aside(rest, chunk.position, last, AcknowledgeType.RELEASE)
        return out

    def _reject(self, rest: dict[int, AcknowledgeType], first: int, last: int, error: KafkaError) -> None:
        self._set_aside(rest, first, last, AcknowledgeType.REJECT)
        self._shelf.tell(error)

    def _set_aside(self, rest: dict[int, AcknowledgeType], first: int, last: int, kind: AcknowledgeType) -> None:
        for offset in rest:
            if first <= offset <= last:
                rest[offset] = kind

    def take(self, limit: int) -> list[ShareRecord]:
        """Hand out up to `limit` records whose locks hold."""
        out = self._out = []
        now = self._clock()
        while self.ready and len(out) < limit:
            record = self.ready.popleft()
            if _why_lost(record, now) is None:
                out.append(record)
            else:
                self.dropped += 1
        for record in out:
            self.held[record] = None
        self.delivered += len(out)
        return out

    def take_back(self) -> None:
        """The poll was interrupted: the next one returns what this one took."""
        out, self._out = self._out, []
        for record in reversed(out):
            if record in self.held:
                del self.held[record]
                self.delivered -= 1
            self.ready.appendleft(record)

    def leave(self) -> None:
        """The poll has returned."""
        self._out = []

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
        types = {acquired: dict(aside) for acquired, aside in self._aside.items() if acquired.lease.ended is None}
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

    def sent(self, outgoing: Outgoing) -> None:
        """It is on its way. Records whose lock is renewed stay in hand."""
        self._aside.clear()
        for record in outgoing.records:
            if self.held.get(record) is AcknowledgeType.RENEW:
                self.held[record], record._renewed = None, True
            else:
                self.held.pop(record, None)


def _why_lost(record: ShareRecord, now: float) -> str | None:
    acquired = record._acquired
    if acquired.lease.ended is not None:
        return acquired.lease.ended
    return EXPIRED if now >= acquired.locked_until(record._record.offset) else None


def name_some(records: list[ShareRecord]) -> str:
    """The first records, for messages."""
    shown = ", ".join(f"{each.topic}-{each.partition} offset {each.offset}" for each in records[:SHOWN])
    return shown + (f" and {len(records) - SHOWN} more" if len(records) > SHOWN else "")


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, data, max_size)
