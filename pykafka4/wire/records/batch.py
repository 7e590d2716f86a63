"""Builds record batches of format v2 and reads all formats, for the model broker and tests. The client does not use this module."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator

import attrs

from pykafka4.errors import DecodeError
from pykafka4.wire.buffers import Readable
from pykafka4.wire.records.compression import compress, decompress
from pykafka4.wire.records.decoder import RecordBatch, open_batch, read_header, read_messages, read_records, size_at
from pykafka4.wire.records.encoder import encode_content, encode_header, encode_record
from pykafka4.wire.records.layout import (
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_BIT,
    LOG_APPEND_TIME,
    MAGIC,
    MOST_DECOMPRESSED_BYTES,
    TRANSACTIONAL_BIT,
)

__all__ = [
    "ControlType",
    "WireRecord",
    "batches",
    "build_batch",
    "control_record",
    "control_type",
    "records_of",
]


class ControlType(enum.IntEnum):
    """The outcome of a transaction, as in the control record at its end."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen
class WireRecord:
    """A record with its offset. `offset` -1 and `timestamp_ms` -1 mean not given; `sequence` is -1 without an idempotent producer."""

    offset: int = -1
    timestamp_ms: int = -1
    timestamp_type: int = CREATE_TIME
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    leader_epoch: int = -1
    transactional: bool = False
    control: bool = False


# -- reading ------------------------------------------------------------------------------


def batches(buffer: Readable) -> Iterator[RecordBatch]:
    """The complete batches in `buffer`, with only their headers decoded. Raises DecodeError."""
    view, pos = memoryview(buffer).cast("B"), 0
    while len(view) - pos > MAGIC:
        size = size_at(view, pos)
        if size > len(view) - pos:
            return
        yield read_header(view, pos)
        pos += size


def records_of(batch: RecordBatch, max_size: int = MOST_DECOMPRESSED_BYTES) -> list[WireRecord]:
    """Raises DecodeError if the batch is corrupt, RecordTooLarge if it exceeds `max_size` bytes when decompressed."""
    if batch.magic != 2:
        return [WireRecord(*message) for message in read_messages(batch, max_size)]
    batch.check()
    try:
        return list(_records_v2(batch, max_size))
    except DecodeError as error:
        raise DecodeError(f"the batch at offset {batch.base_offset}: {error}") from None


def _records_v2(batch: RecordBatch, max_size: int) -> Iterator[WireRecord]:
    kind, transactional, control = batch.timestamp_type, batch.transactional, batch.control
    appended_at = batch.max_timestamp_ms if kind == LOG_APPEND_TIME else None
    for raw in read_records(open_batch(batch, decompress, max_size), batch.count):
        yield WireRecord(
            batch.base_offset + raw.offset_delta,
            batch.base_timestamp_ms + raw.timestamp_delta if appended_at is None else appended_at,
            kind,
            raw.key,
            raw.value,
            raw.headers,
            batch.producer_id,
            batch.producer_epoch,
            _sequence(batch.base_sequence, raw.offset_delta),
            batch.leader_epoch,
            transactional,
            control,
        )


def _sequence(base: int, delta: int) -> int:
    """Sequences wrap to 0 after 2**31 - 1."""
    return -1 if base < 0 else (base + delta) & 0x7FFF_FFFF


# -- control records -----------------------------------------------------------------------


def control_record(kind: ControlType, coordinator_epoch: int = 0) -> WireRecord:
    return WireRecord(key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, coordinator_epoch))


def control_type(record: WireRecord) -> ControlType | None:
    """The outcome in a control record; None for another type, as in Kafka's metadata log. Raises DecodeError for a null or short key."""
    if record.key is None or len(record.key) < 4:
        raise DecodeError(f"the control record at offset {record.offset} has a key of {len(record.key or b'')} bytes; 4 are needed")
    number = int.from_bytes(record.key[2:4], "big", signed=True)
    return ControlType(number) if number in (ControlType.ABORT, ControlType.COMMIT) else None


# -- building --------------------------------------------------------------------------------


def build_batch(
    records: Iterable[WireRecord],
    *,
    base_offset: int = 0,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    timestamp_type: int = CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    last_offset_delta: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Records without an offset are consecutive; offsets with gaps make a compacted batch.

    `last_offset_delta` is the value from before the compaction; `max_timestamp_ms` is the append time for LOG_APPEND_TIME.
    """
    rows = [(record.offset - base_offset if record.offset >= 0 else place, record) for place, record in enumerate(records)]
    times = [record.timestamp_ms for _, record in rows]
    base_timestamp = times[0] if times else -1
    body = b"".join(_encoded(record, delta, record.timestamp_ms - base_timestamp) for delta, record in rows)
    packed = compress(codec, body)
    header = encode_header(
        packed,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=codec | LOG_APPEND_BIT * timestamp_type | TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control,
        last_offset_delta=last_offset_delta if last_offset_delta is not None else max((delta for delta, _ in rows), default=-1),
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max(times, default=-1) if max_timestamp_ms is None else max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(rows),
    )
    return header + packed


def _encoded(record: WireRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    return encode_record(timestamp_delta, offset_delta, encode_content(record.key, record.value, record.headers))
