"""One replica's log of a partition: validates, numbers and stores batches, and keeps producer state, as a broker does.

Written from the protocol's behaviour (KIP-98, KIP-360, KIP-101, KIP-467) and without the client's batch writer: clients are
tested against this module, so it reads headers with a `struct` of its own.
"""

from __future__ import annotations

import bisect
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

import attrs

from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition
from pykafka4.wire.batch import WireRecord, crc32c, read_header, records_of

__all__ = [
    "REMEMBERED",
    "Appended",
    "Header",
    "Memory",
    "PartitionLog",
    "ProducerMemory",
    "RecordError",
    "Repeats",
    "StoredBatch",
    "parse_header",
    "request_refusal",
]

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, both timestamps, producer id, its epoch, sequence, count
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CRC_AT: Final = 17  # the checksum covers everything after itself
BODY_AT: Final = 21
SIZE_AT_LEAST: Final = 17  # bytes up to the format, which every batch has
LENGTH_AT_LEAST: Final = 14  # of the oldest format's smallest message
CODEC: Final = 0x07
ZSTD, ZSTD_SINCE = 4, 7  # codec, version of Produce
TIMESTAMP_TYPE: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
REMEMBERED: Final = 5  # batches per producer and partition
NO_TIMESTAMP: Final = -1
TIMESTAMP_ERROR: Final = "One or more records have been rejected due to invalid timestamp"


class Header(NamedTuple):
    """The fixed part of a record batch, format 2."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; numbers wrap to 0 after 2^31 - 1."""
        return (self.base_sequence + self.records - 1) & MAX_SEQUENCE


def parse_header(data: bytes) -> Header | None:
    """The header at the start of `data`, None when it is too short."""
    return Header._make(HEADER.unpack_from(data)) if len(data) >= HEADER.size else None


@attrs.frozen
class RecordError:
    """Why one record of a batch is refused (KIP-467); `index` counts from 0 within the batch."""

    index: int
    message: str | None


@attrs.frozen
class Appended:
    """What a produce response says about one batch."""

    error: str = "NONE"
    base_offset: int = -1
    append_time_ms: int = -1
    duplicate: bool = False
    next_offset: int = -1  # the offset after the batch, of its first copy for a duplicate
    record_errors: tuple[RecordError, ...] = ()
    message: str | None = None


def request_refusal(data: bytes, version: int) -> Appended | None:
    """Why a broker refuses the records of a Produce request of this version before any log looks at them."""
    if len(data) < SIZE_AT_LEAST:
        return Appended("INVALID_RECORD")
    length, magic = struct.unpack_from(">i", data, 8)[0], data[16]
    if length < LENGTH_AT_LEAST or magic > 2:
        return Appended("CORRUPT_MESSAGE", message="the batch has an invalid length or format")
    header = parse_header(data)
    if header is None or magic < 2 or length != len(data) - 12:  # incomplete, of an old format, or followed by another one
        return Appended("INVALID_RECORD")
    if header.attributes & CODEC == ZSTD and version < ZSTD_SINCE:
        return Appended("UNSUPPORTED_COMPRESSION_TYPE")
    return Appended("TRANSACTIONAL_ID_AUTHORIZATION_FAILED") if header.attributes & TRANSACTIONAL else None


@attrs.define(eq=False)
class StoredBatch:
    """A batch in the log, shared by the replicas that have it. Only `decoded` changes."""

    base_offset: int
    header: Header
    data: bytes
    decoded: tuple[WireRecord, ...] | None = None  # None: not looked into

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.header.last_offset_delta + 1


class Remembered(NamedTuple):
    """A batch the broker would recognise."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    max_timestamp: int


@attrs.define
class ProducerMemory:
    """What a partition knows of one producer: its epoch and its last batches."""

    epoch: int
    batches: deque[Remembered]

    def duplicate_of(self, header: Header) -> Remembered | None:
        """The remembered batch with exactly these sequences, if it is the same epoch."""
        if header.producer_epoch != self.epoch:
            return None
        wanted = (header.base_sequence, header.last_sequence)
        return next((b for b in self.batches if (b.first_sequence, b.last_sequence) == wanted), None)

    def follows(self, header: Header) -> bool:
        """Whether this batch is the next one."""
        return not self.batches or header.base_sequence == (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE


class Memory(Enum):
    """What a broker makes of a producer it has no memory of, whose first sequence is not 0."""

    ACCEPT = "accept"  # Kafka 2.5 and newer
    REFUSE = "refuse"  # UNKNOWN_PRODUCER_ID, from 1.0 on
    OUT_OF_ORDER = "out of order"  # OUT_OF_ORDER_SEQUENCE_NUMBER, in 0.11


class Repeats(Enum):
    """How a broker answers a batch that it has."""

    OFFSET = "offset"  # success, with the offset of the first copy
    ERROR = "error"  # DUPLICATE_SEQUENCE_NUMBER


def _decoded(data: bytes) -> tuple[WireRecord, ...] | None:
    try:
        return tuple(records_of(read_header(data)))
    except DecodeError:
        return None


UNKNOWN: Final[Mapping[Memory, str | None]] = {
    Memory.ACCEPT: None,
    Memory.REFUSE: "UNKNOWN_PRODUCER_ID",
    Memory.OUT_OF_ORDER: "OUT_OF_ORDER_SEQUENCE_NUMBER",
}


def _always_valid(record: WireRecord) -> str | None:
    return None


@attrs.define(eq=False)
class PartitionLog:
    """Batches, leader epochs, producers of one replica. Readers get what is below `high_watermark`."""

    tp: TopicPartition
    wall_ms: Callable[[], int]
    max_message_bytes: int = 1024 * 1024 + 12
    append_time: bool = False  # message.timestamp.type=LogAppendTime
    compacted: bool = False  # cleanup.policy=compact: records need keys
    before_max_ms: int | None = None  # message.timestamp.before.max.ms; None: no limit
    after_max_ms: int | None = None  # message.timestamp.after.max.ms; None: no limit
    memory: Memory = Memory.ACCEPT
    repeats: Repeats = Repeats.OFFSET
    remembered: int = REMEMBERED  # batches kept for each producer
    refuse: Callable[[WireRecord], str | None] = _always_valid  # why a record is refused (INVALID_RECORD), None: it is not
    batches: list[StoredBatch] = attrs.Factory(list)
    producers: dict[int, ProducerMemory] = attrs.Factory(dict)
    epochs: list[tuple[int, int]] = attrs.Factory(list)  # (leader epoch, its first offset)
    start_offset: int = 0
    end_offset: int = 0
    high_watermark: int = 0
    _bases: list[int] = attrs.Factory(list)

    def append(self, data: bytes, leader_epoch: int) -> Appended:
        """Validate one produced batch and write it, or say with which error it is refused."""
        header = parse_header(data)
        refused = self._refusal(header, data)
        if refused or header is None:
            return Appended(refused or "CORRUPT_MESSAGE")
        body, stamp = self._stamped(header, data, leader_epoch)
        records = _decoded(body)
        if records is None or [r.offset for r in records] != list(range(self.end_offset, self.end_offset + header.records)):
            return Appended("INVALID_RECORD")
        invalid = self._record_errors(records)
        if invalid is not None:
            return invalid
        if header.producer_id >= 0:
            known = self.producers.get(header.producer_id)
            first_copy = known.duplicate_of(header) if known else None
            if first_copy is not None:
                return self._repeat(first_copy)
            refused = self._sequence_refusal(known, header)
            if refused:
                return Appended(refused)
        base = self.end_offset
        self.store(body, records)
        return Appended("NONE", base, stamp, next_offset=self.end_offset)

    def _refusal(self, header: Header | None, data: bytes) -> str | None:
        if header is None or header.magic != 2 or header.length != len(data) - 12:
            return "INVALID_RECORD"
        if header.base_offset != 0:
            return "INVALID_RECORD"
        if len(data) > self.max_message_bytes:
            return "MESSAGE_TOO_LARGE"
        if crc32c(memoryview(data)[BODY_AT:]) != header.crc:
            return "CORRUPT_MESSAGE"
        if header.attributes & CODEC > ZSTD:
            return "UNKNOWN_SERVER_ERROR"
        if header.records < 1 or header.last_offset_delta != header.records - 1 or header.attributes & CONTROL:
            return "INVALID_RECORD"
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            return "INVALID_RECORD"
        return None

    def _stamped(self, header: Header, data: bytes, leader_epoch: int) -> tuple[bytes, int]:
        """(the batch as it would be stored, its append time): with offsets, leader epoch and, where the topic wants it, append time."""
        stamp = self.wall_ms() if self.append_time else NO_TIMESTAMP
        body = bytearray(data)
        struct.pack_into(">q", body, 0, self.end_offset)
        struct.pack_into(">i", body, 12, leader_epoch)
        if self.append_time:
            struct.pack_into(">h", body, 21, header.attributes | TIMESTAMP_TYPE)
            struct.pack_into(">q", body, 35, stamp)
            struct.pack_into(">I", body, CRC_AT, crc32c(memoryview(body)[BODY_AT:]))
        return bytes(body), stamp

    def _record_errors(self, records: tuple[WireRecord, ...]) -> Appended | None:
        """The refusal of the whole batch when some of its records are not valid; bad timestamps name the error."""
        errors: list[RecordError] = []
        error = "INVALID_RECORD"
        for index, record in enumerate(records):
            if self.compacted and record.key is None:
                errors.append(RecordError(index, f"Compacted topic cannot accept message without key in topic partition {self.tp}."))
            elif why := self._bad_timestamp(record):
                error = "INVALID_TIMESTAMP"
                errors.append(RecordError(index, why))
            elif why := self.refuse(record):
                errors.append(RecordError(index, why))
        if not errors:
            return None
        summary = f"One or more records have been rejected due to {len(errors)} record errors in total"
        return Appended(error, record_errors=tuple(errors), message=TIMESTAMP_ERROR if error == "INVALID_TIMESTAMP" else summary)

    def _bad_timestamp(self, record: WireRecord) -> str | None:
        if self.append_time or record.timestamp_ms == NO_TIMESTAMP or (self.before_max_ms is None and self.after_max_ms is None):
            return None
        age = self.wall_ms() - record.timestamp_ms
        if (self.before_max_ms is not None and age > self.before_max_ms) or (self.after_max_ms is not None and -age > self.after_max_ms):
            return f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range"
        return None

    def _repeat(self, first_copy: Remembered) -> Appended:
        if self.repeats is Repeats.ERROR:
            return Appended("DUPLICATE_SEQUENCE_NUMBER")
        return Appended("NONE", first_copy.base_offset, first_copy.max_timestamp, duplicate=True, next_offset=first_copy.next_offset)

    def _sequence_refusal(self, known: ProducerMemory | None, header: Header) -> str | None:
        if known is None:
            return UNKNOWN[self.memory] if header.base_sequence else None
        if header.producer_epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if header.producer_epoch > known.epoch:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER" if header.base_sequence else None
        return None if known.follows(header) else "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def store(self, data: bytes, records: tuple[WireRecord, ...] | None = None) -> None:
        """Put a batch into the log as it is, its own offsets and epoch believed: for gaps, control batches, damaged batches."""
        header = parse_header(data)
        if header is None:
            raise ValueError(f"{len(data)} bytes are no record batch: its header alone has {HEADER.size}")
        if header.base_offset < self.end_offset:
            raise ValueError(f"{self.tp}: base offset {header.base_offset} is below the end offset {self.end_offset}")
        self._take(StoredBatch(header.base_offset, header, data, records))

    def _take(self, batch: StoredBatch) -> None:
        epoch = batch.header.leader_epoch
        if not self.epochs or (epoch >= 0 and epoch != self.epochs[-1][0]):
            # An epoch that this replica led, or copied, without records of it is not in the history that it copies now.
            self.epochs = [entry for entry in self.epochs if entry[0] <= epoch and entry[1] < batch.base_offset]
            if not self.epochs or self.epochs[-1][0] != epoch:
                self.epochs.append((epoch, batch.base_offset))
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        self.end_offset = batch.next_offset
        self._remember(batch)

    def _remember(self, batch: StoredBatch) -> None:
        header = batch.header
        if header.producer_id < 0 or header.attributes & CONTROL:
            return
        known = self.producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = ProducerMemory(header.producer_epoch, deque(maxlen=self.remembered))
        last = batch.next_offset
        known.batches.append(Remembered(header.base_sequence, header.last_sequence, batch.base_offset, last, header.max_timestamp))

    # ---- replication

    def begin_epoch(self, epoch: int) -> None:
        """This replica leads from now on in `epoch`, which starts at the end of its log."""
        self.epochs = [(known, start) for known, start in self.epochs if known < epoch and start < self.end_offset]
        self.epochs.append((epoch, self.end_offset))

    def follow(self, leader: PartitionLog) -> None:
        """Copy what the leader has and this log has not, after cutting off what the leader has otherwise."""
        self._agree(leader)
        if self.end_offset < leader.start_offset:
            self._restart(leader.start_offset)
        for batch in leader.batches[leader._index_of(self.end_offset) :]:
            self._take(batch)
        if self.start_offset < leader.start_offset:
            self.delete_before(leader.start_offset)

    def holds(self, batch: StoredBatch) -> bool:
        """Whether this very batch is in the log."""
        at = self._index_of(batch.base_offset)
        return at < len(self.batches) and self.batches[at] is batch

    def parts_from(self, other: PartitionLog) -> int | None:
        """The offset from which on `other` lacks what is here; None when it lacks nothing. What retention deleted there does not count."""
        for at in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[at]
            if batch.next_offset <= other.start_offset or other.holds(batch):
                return None if at == len(self.batches) - 1 else batch.next_offset
        return self.batches[0].base_offset if self.batches else None

    def _agree(self, leader: PartitionLog) -> None:
        """Cut off the end of this log that is not in the leader's."""
        while self.batches and self.batches[-1].next_offset > leader.start_offset and not leader.holds(self.batches[-1]):
            self.truncate(self.batches[-1].base_offset)
        if self.end_offset > leader.end_offset:
            self.truncate(leader.end_offset)

    def _restart(self, offset: int) -> None:
        """Empty, beginning at `offset`: the leader has nothing older."""
        self.batches.clear()
        self._bases.clear()
        self.epochs.clear()
        self.start_offset = self.end_offset = self.high_watermark = offset

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, to_end: bool = False) -> bytes:
        """Batches from the one that holds `offset`: the first whole, the last cut at `max_bytes`.

        Up to the high watermark, or `to_end`: the end of the log, as for followers.
        """
        limit = self.end_offset if to_end else self.high_watermark
        parts: list[bytes] = []
        size = 0
        for at in range(self._index_of(offset), len(self.batches)):
            batch = self.batches[at]
            if batch.next_offset > limit or (parts and size >= max_bytes):
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)[: max(max_bytes, len(parts[0]))] if parts else b""

    def _index_of(self, offset: int) -> int:
        at = bisect.bisect_right(self._bases, offset) - 1
        return at if at >= 0 and self.batches[at].next_offset > offset else at + 1

    def records(self) -> Iterator[WireRecord]:
        """Every record, in order."""
        for batch in self.batches:
            yield from self.records_in(batch)

    def records_in(self, batch: StoredBatch) -> Iterable[WireRecord]:
        """The records of one batch; a control batch has none that anybody sees."""
        if batch.header.attributes & CONTROL:
            return ()
        if batch.decoded is None:
            batch.decoded = tuple(records_of(read_header(batch.data)))
        return batch.decoded

    def offset_at(self, timestamp_ms: int) -> tuple[int, int]:
        """(offset, timestamp) of the first record stamped `timestamp_ms` or later; (-1, -1) when there is none."""
        for record in self.records():
            if record.timestamp_ms >= timestamp_ms and self.start_offset <= record.offset < self.high_watermark:
                return record.offset, record.timestamp_ms
        return -1, -1

    def newest(self) -> tuple[int, int]:
        """(offset, timestamp) of the record with the highest timestamp."""
        best = max((r for r in self.records() if r.offset < self.high_watermark), key=lambda r: r.timestamp_ms, default=None)
        return (best.offset, best.timestamp_ms) if best else (-1, -1)

    # ---- epochs

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) when `epoch` is newer than all.

        An epoch older than all has nothing here: it ends where the oldest begins.
        """
        at = bisect.bisect_right([e for e, _ in self.epochs], epoch)
        if at == len(self.epochs):
            return (epoch, self.end_offset) if self.epochs and self.epochs[-1][0] == epoch else (-1, -1)
        return (self.epochs[at - 1][0] if at else epoch), self.epochs[at][1]

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, -1 when nothing did."""
        at = bisect.bisect_right([start for _, start in self.epochs], offset) - 1
        return self.epochs[at][0] if at >= 0 else -1

    # ---- what befalls logs

    def delete_before(self, offset: int) -> None:
        """DeleteRecords and retention: the log starts at `offset` now."""
        self.start_offset = min(max(self.start_offset, offset), self.end_offset)
        self.high_watermark = max(self.high_watermark, self.start_offset)
        keep = next((i for i, b in enumerate(self.batches) if b.next_offset > self.start_offset), len(self.batches))
        del self.batches[:keep], self._bases[:keep]
        older = [entry for entry in self.epochs if entry[1] <= self.start_offset]
        if older:
            self.epochs[: len(older)] = [(older[-1][0], self.start_offset)]

    def truncate(self, offset: int) -> None:
        """Whole batches from `offset` on are gone, with what they said of epochs and producers."""
        while self.batches and self.batches[-1].next_offset > offset:
            self.batches.pop()
            self._bases.pop()
        self.end_offset = self.batches[-1].next_offset if self.batches else self.start_offset
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end_offset]
        self.producers.clear()
        for batch in self.batches:
            self._remember(batch)

    def reload_producers(self) -> None:
        """As after a restart of the broker: its snapshot of producer state holds the last batch of each producer and no more."""
        for known in self.producers.values():
            while len(known.batches) > 1:
                known.batches.popleft()

    def forget_producers(self) -> None:
        """Producer state lost, as by expiry or deleted segments."""
        self.producers.clear()
