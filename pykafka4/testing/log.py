"""A partition's log. Rule: what Kafka's log and its producer state would do with a batch, and nothing kinder.

Written from the protocol's behaviour (KIP-98, KIP-360, KIP-101) and on purpose without the client's batch writer: this is the
witness that a client is measured against, so it reads headers with a `struct` of its own.
"""

from __future__ import annotations

import bisect
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

import attrs

from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition
from pykafka4.wire.batch import WireRecord, crc32c, read_header, records_of

__all__ = ["Appended", "Header", "Memory", "PartitionLog", "ProducerMemory", "Repeats", "StoredBatch", "parse_header"]

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, both timestamps, producer id, its epoch, sequence, count
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CRC_AT: Final = 17  # the checksum covers everything after itself
BODY_AT: Final = 21
TIMESTAMP_TYPE: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
REMEMBERED: Final = 5  # batches per producer and partition


@attrs.frozen
class Header:
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
    count: int

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; numbers wrap to 0 after 2^31 - 1."""
        return (self.base_sequence + self.count - 1) & MAX_SEQUENCE


def parse_header(data: bytes) -> Header | None:
    """The header at the start of `data`, None when it is too short."""
    return Header(*HEADER.unpack_from(data)) if len(data) >= HEADER.size else None


@attrs.frozen
class Appended:
    """What a produce response says about one batch."""

    error: str = "NONE"
    base_offset: int = -1
    append_time_ms: int = -1
    duplicate: bool = False


@attrs.frozen
class StoredBatch:
    """A batch in the log."""

    base_offset: int
    header: Header
    data: bytes
    decoded: tuple[WireRecord, ...] | None = None  # None: not looked into

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.header.last_offset_delta + 1


@attrs.frozen
class Remembered:
    """A batch the broker would recognise."""

    first_sequence: int
    last_sequence: int
    base_offset: int


@attrs.define
class ProducerMemory:
    """What a partition knows of one producer: its epoch and its last five batches."""

    epoch: int
    batches: deque[Remembered] = attrs.Factory(lambda: deque(maxlen=REMEMBERED))

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
    REFUSE = "refuse"  # UNKNOWN_PRODUCER_ID, as before


class Repeats(Enum):
    """How a broker answers a batch that it has."""

    OFFSET = "offset"  # success, with the offset of the first copy
    ERROR = "error"  # DUPLICATE_SEQUENCE_NUMBER


def _decoded(data: bytes) -> tuple[WireRecord, ...] | None:
    try:
        return tuple(records_of(read_header(data)))
    except DecodeError:
        return None


@attrs.define(eq=False)
class PartitionLog:
    """Batches, leader epochs, producers. Appended is committed."""

    tp: TopicPartition
    wall_ms: Callable[[], int]
    max_message_bytes: int = 1024 * 1024 + 12
    append_time: bool = False  # message.timestamp.type=LogAppendTime
    memory: Memory = Memory.ACCEPT
    repeats: Repeats = Repeats.OFFSET
    batches: list[StoredBatch] = attrs.Factory(list)
    producers: dict[int, ProducerMemory] = attrs.Factory(dict)
    epochs: list[tuple[int, int]] = attrs.Factory(list)  # (leader epoch, its first offset)
    start_offset: int = 0
    end_offset: int = 0
    _bases: list[int] = attrs.Factory(list)

    def append(self, data: bytes, leader_epoch: int) -> Appended:
        """Validate one produced batch and write it, or say with which error it is refused."""
        header = parse_header(data)
        refused = self._refusal(header, data)
        if refused or header is None:
            return Appended(refused or "CORRUPT_MESSAGE")
        if header.producer_id >= 0:
            known = self.producers.get(header.producer_id)
            first_copy = known.duplicate_of(header) if known else None
            if first_copy is not None:
                return self._repeat(first_copy)
            refused = self._sequence_refusal(known, header)
            if refused:
                return Appended(refused)
        return self._write(header, data, leader_epoch)

    def _refusal(self, header: Header | None, data: bytes) -> str | None:
        if header is None or header.magic != 2 or header.length != len(data) - 12:
            return "CORRUPT_MESSAGE" if header is None or header.magic == 2 else "INVALID_RECORD"
        if crc32c(memoryview(data)[BODY_AT:]) != header.crc:
            return "CORRUPT_MESSAGE"
        if len(data) > self.max_message_bytes:
            return "MESSAGE_TOO_LARGE"
        if header.count < 1 or header.last_offset_delta != header.count - 1 or header.attributes & CONTROL:
            return "INVALID_RECORD"
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            return "INVALID_RECORD"
        return None

    def _repeat(self, first_copy: Remembered) -> Appended:
        if self.repeats is Repeats.ERROR:
            return Appended("DUPLICATE_SEQUENCE_NUMBER")
        return Appended("NONE", first_copy.base_offset, self._stamp(), duplicate=True)

    def _sequence_refusal(self, known: ProducerMemory | None, header: Header) -> str | None:
        if known is None:
            return "UNKNOWN_PRODUCER_ID" if self.memory is Memory.REFUSE and header.base_sequence else None
        if header.producer_epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if header.producer_epoch > known.epoch:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER" if header.base_sequence else None
        return None if known.follows(header) else "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def _stamp(self) -> int:
        return self.wall_ms() if self.append_time else -1

    def _write(self, header: Header, data: bytes, leader_epoch: int) -> Appended:
        base, stamp = self.end_offset, self._stamp()
        body = bytearray(data)
        struct.pack_into(">q", body, 0, base)
        struct.pack_into(">i", body, 12, leader_epoch)
        if self.append_time:
            struct.pack_into(">h", body, 21, header.attributes | TIMESTAMP_TYPE)
            struct.pack_into(">q", body, 35, stamp)
            struct.pack_into(">I", body, CRC_AT, crc32c(memoryview(body)[BODY_AT:]))
        records = _decoded(bytes(body))
        if records is None or [r.offset for r in records] != list(range(base, base + header.count)):
            return Appended("INVALID_RECORD")
        self.store(bytes(body), records)
        if header.producer_id >= 0:
            self._remember(header, base)
        return Appended("NONE", base, stamp)

    def store(self, data: bytes, records: tuple[WireRecord, ...] | None = None) -> None:
        """Put a batch into the log as it is, its own offsets and epoch believed: for gaps, control batches, damaged batches."""
        header = parse_header(data)
        if header is None:
            raise ValueError(f"{len(data)} bytes are no record batch: its header alone has {HEADER.size}")
        if header.base_offset < self.end_offset:
            raise ValueError(f"{self.tp}: base offset {header.base_offset} is below the end offset {self.end_offset}")
        if not self.epochs or header.leader_epoch > self.epochs[-1][0]:
            self.epochs.append((header.leader_epoch, header.base_offset))
        self.batches.append(StoredBatch(header.base_offset, header, data, records))
        self._bases.append(header.base_offset)
        self.end_offset = self.batches[-1].next_offset

    def _remember(self, header: Header, base: int) -> None:
        known = self.producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = ProducerMemory(header.producer_epoch)
        known.batches.append(Remembered(header.base_sequence, header.last_sequence, base))

    # ---- reading

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds `offset`: the first whole, the last cut at `max_bytes` as brokers cut it."""
        first = self._index_of(offset)
        if first >= len(self.batches):
            return b""
        parts: list[bytes] = []
        size = 0
        for batch in self.batches[first:]:
            if parts and size >= max_bytes:
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)[: max(max_bytes, len(parts[0]))]

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
        return records_of(read_header(batch.data)) if batch.decoded is None else batch.decoded

    def offset_at(self, timestamp_ms: int) -> tuple[int, int]:
        """(offset, timestamp) of the first record stamped `timestamp_ms` or later; (-1, -1) when there is none."""
        for record in self.records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= self.start_offset:
                return record.offset, record.timestamp_ms
        return -1, -1

    def newest(self) -> tuple[int, int]:
        """(offset, timestamp) of the record with the highest timestamp."""
        best = max(self.records(), key=lambda r: r.timestamp_ms, default=None)
        return (best.offset, best.timestamp_ms) if best else (-1, -1)

    # ---- epochs

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above `epoch`; (-1, -1) when there is none."""
        at = bisect.bisect_right([e for e, _ in self.epochs], epoch) - 1
        if at < 0:
            return -1, -1
        end = self.epochs[at + 1][1] if at + 1 < len(self.epochs) else self.end_offset
        return self.epochs[at][0], end

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, -1 when nothing did."""
        at = bisect.bisect_right([start for _, start in self.epochs], offset) - 1
        return self.epochs[at][0] if at >= 0 else -1

    # ---- what befalls logs

    def delete_before(self, offset: int) -> None:
        """DeleteRecords and retention: the log starts at `offset` now."""
        self.start_offset = min(max(self.start_offset, offset), self.end_offset)
        keep = next((i for i, b in enumerate(self.batches) if b.next_offset > self.start_offset), len(self.batches))
        del self.batches[:keep], self._bases[:keep]

    def truncate(self, offset: int) -> None:
        """An unclean leader change: whole batches from `offset` on are gone."""
        while self.batches and self.batches[-1].next_offset > offset:
            self.batches.pop()
            self._bases.pop()
        self.end_offset = self.batches[-1].next_offset if self.batches else self.start_offset
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end_offset]
        for known in self.producers.values():
            kept = [b for b in known.batches if b.base_offset < self.end_offset]
            known.batches = deque(kept, maxlen=REMEMBERED)

    def forget_producers(self) -> None:
        """Producer state lost, as by expiry or deleted segments."""
        self.producers.clear()
