"""Checks record batches as brokers do. The checks read headers with their own code, because the client is tested against them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import attrs

from pykafka4.wire.records.batch import WireRecord, records_of
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.decoder import read_header

__all__ = ["Appended", "Header", "RecordError", "StoredBatch", "batch_refusal", "parse_header", "request_refusal", "stamped"]

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, both timestamps, producer id, its epoch, sequence, count
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CRC_AT: Final = 17  # position of the checksum, which covers all bytes after it
BODY_AT: Final = 21
SIZE_AT_LEAST: Final = 17  # bytes up to the magic, which every batch has
LENGTH_AT_LEAST: Final = 14  # the length field of the smallest message of magic 0
CODEC: Final = 0x07
LZ4, LZ4_FLAGS_AT, LZ4_INDEPENDENT = 3, HEADER.size + 4, 0x20  # codec, position of the flags, and a flag that Java requires
ZSTD, ZSTD_SINCE = 4, 7  # codec, and the first version of Produce that may carry it
TIMESTAMP_TYPE: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
NO_TIMESTAMP: Final = -1


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

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def sequences(self) -> tuple[int, int, int]:
        """(producer epoch, first sequence, last sequence), by which a broker finds a duplicate among a producer's batches."""
        return self.producer_epoch, self.base_sequence, self.last_sequence


def parse_header(data: bytes) -> Header | None:
    return Header._make(HEADER.unpack_from(data)) if len(data) >= HEADER.size else None


@attrs.frozen
class RecordError:
    """The reason why one record of a batch is rejected (KIP-467); `index` counts from 0 within the batch."""

    index: int
    message: str | None


@attrs.frozen
class Appended:
    """The result of one batch in a produce response."""

    error: str = "NONE"
    base_offset: int = -1
    append_time_ms: int = -1
    duplicate: bool = False
    next_offset: int = -1  # the offset after the batch; for a duplicate, after its first copy
    record_errors: tuple[RecordError, ...] = ()
    message: str | None = None
    unchecked: bool = False  # the log had no state of the producer, and accepted a first sequence other than 0


def request_refusal(data: bytes, version: int, transactional_id: str | None) -> Appended | None:
    """The error for the records of a Produce request of this version, if brokers reject them before a log checks them."""
    if len(data) < SIZE_AT_LEAST:
        return Appended("INVALID_RECORD")
    length, magic = struct.unpack_from(">i", data, 8)[0], data[16]
    if length < LENGTH_AT_LEAST or magic > 2:
        return Appended("CORRUPT_MESSAGE", message="the batch has an invalid length or format")
    header = parse_header(data)
    if header is None or magic < 2 or length != len(data) - 12:  # incomplete, of an old format, or followed by another batch
        return Appended("INVALID_RECORD")
    if header.attributes & CODEC == ZSTD and version < ZSTD_SINCE:
        return Appended("UNSUPPORTED_COMPRESSION_TYPE")
    return Appended("TRANSACTIONAL_ID_AUTHORIZATION_FAILED") if header.transactional and transactional_id is None else None


def batch_refusal(header: Header | None, data: bytes, max_bytes: int) -> str | None:
    """The error of checks that do not depend on the log's contents; None if the batch passes."""
    if header is None or header.magic != 2 or header.length != len(data) - 12 or header.base_offset != 0:
        return "INVALID_RECORD"
    if len(data) > max_bytes:
        return "MESSAGE_TOO_LARGE"
    if crc32c(memoryview(data)[BODY_AT:]) != header.crc:
        return "CORRUPT_MESSAGE"
    if header.attributes & CODEC > ZSTD:
        return "UNKNOWN_SERVER_ERROR"
    if header.attributes & CODEC == LZ4 and len(data) > LZ4_FLAGS_AT and not data[LZ4_FLAGS_AT] & LZ4_INDEPENDENT:
        return "INVALID_RECORD"
    if header.records < 1 or header.last_offset_delta != header.records - 1 or header.control:
        return "INVALID_RECORD"
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return "INVALID_RECORD"
    return None


def stamped(header: Header, data: bytes, base_offset: int, leader_epoch: int, append_time_ms: int) -> bytes:
    """The batch as a broker stores it: with its offset, the leader epoch, and the append time unless `append_time_ms` is NO_TIMESTAMP."""
    body = bytearray(data)
    struct.pack_into(">q", body, 0, base_offset)
    struct.pack_into(">i", body, 12, leader_epoch)
    if append_time_ms != NO_TIMESTAMP:
        struct.pack_into(">h", body, 21, header.attributes | TIMESTAMP_TYPE)
        struct.pack_into(">q", body, 35, append_time_ms)
        struct.pack_into(">I", body, CRC_AT, crc32c(memoryview(body)[BODY_AT:]))
    return bytes(body)


@attrs.define(eq=False)
class StoredBatch:
    """A batch in the log, shared by the replicas that have it."""

    base_offset: int
    header: Header
    data: bytes
    _records: tuple[WireRecord, ...] | None = None  # None: not decoded yet

    @classmethod
    def of(cls, data: bytes) -> StoredBatch:
        """The batch keeps its base offset. Raises ValueError if `data` is too short for a record batch."""
        header = parse_header(data)
        if header is None:
            raise ValueError(f"data of size {len(data)} is too short for a record batch, whose header has {HEADER.size} bytes")
        return cls(header.base_offset, header, data)

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.header.last_offset_delta + 1

    def records(self) -> tuple[WireRecord, ...]:
        """Empty for a control batch, which has no records for clients. Raises the errors of `records_of`."""
        if self._records is None:
            self._records = () if self.header.control else tuple(records_of(read_header(self.data)))
        return self._records
