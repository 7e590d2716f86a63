"""Reads the bytes of a partition's log: record batches, and the message sets of older releases. Uses no code of the client.

Invariant: a checksum, a length or a count that does not fit raises `Wrong`; only the end of the bytes may be incomplete, where a broker has
cut its answer. Checksums come from crcmod and zlib, decompression from the codecs' own libraries.
`tests/integration/test_log_format.py` compares the result with Kafka's own dump of the same files.
"""

from __future__ import annotations

import functools
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import lz4.block
import snappy
import zstandard

__all__ = ["Batch", "LogRecord", "Wrong", "batches_in"]

BATCH = struct.Struct(">qiibIhiqqqhii")
MESSAGE = struct.Struct(">qiIbb")
MARKER = struct.Struct(">hh")
COMMIT = 1
BEFORE_LENGTH_ENDS = 12  # bytes of base offset and length, which every format has first
MAGIC_AT = 16
CRC_AT = {0: 16, 1: 16, 2: 21}  # format -> first byte that the checksum covers
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
XERIAL = b"\x82SNAPPY\x00"


@functools.cache
def crc_function() -> Callable[[Any], int]:
    import crcmod.predefined  # imported here: offline tests import this module, and may run without it

    made: Callable[[Any], int] = crcmod.predefined.mkCrcFun("crc-32c")
    return made


def crc32c(data: bytes) -> int:
    return crc_function()(data)


class Wrong(AssertionError):
    """Raised if a broker's log breaks the format; the message has the position."""


class LogRecord(NamedTuple):
    """The producer's fields are -1 if it was not idempotent. Control records are left out."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    producer_id: int
    epoch: int
    sequence: int


class Batch(NamedTuple):
    """One batch, or one message of an old format with the messages that are packed into it."""

    base_offset: int
    next_offset: int
    magic: int
    codec: int
    leader_epoch: int
    control: bool
    transactional: bool
    append_time: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[LogRecord, ...]
    commits: bool = False  # a control batch with the marker that commits a transaction; any other marker aborts it


def batches_in(data: Any, where: str = "log") -> Iterator[Batch]:
    """Yield the batches of a log segment or a Fetch response, without an incomplete last one."""
    view, at = memoryview(data), 0
    while len(view) - at > MAGIC_AT:
        base, length = struct.unpack_from(">qi", view, at)
        if length <= 0:
            raise Wrong(f"{where}: length {length} at {base}")
        if len(view) - at < BEFORE_LENGTH_ENDS + length:
            return
        frame = view[at : at + BEFORE_LENGTH_ENDS + length]
        magic = frame[MAGIC_AT]
        if magic not in CRC_AT:
            raise Wrong(f"{where}: format {magic} at {base}")
        yield batch_of(frame, where) if magic == 2 else message_of(frame, where)
        at += len(frame)


# ---- record batches


def batch_of(frame: memoryview, where: str) -> Batch:
    (base, _, leader_epoch, magic, crc, attributes, last_delta, first_time, max_time, pid, epoch, sequence, count) = BATCH.unpack_from(
        frame
    )
    where = f"{where}: the batch at {base}"
    if crc32c(frame[CRC_AT[2] :].tobytes()) != crc:
        raise Wrong(f"{where} does not fit its checksum")
    control, append_time = bool(attributes & CONTROL), bool(attributes & APPEND_TIME)
    body = Bytes(unpack(attributes & CODEC, frame[BATCH.size :].tobytes(), where), where)
    rows = [body.record(base, first_time, max_time if append_time else None, pid, epoch, sequence) for _ in range(count)]
    if body.left():
        raise Wrong(f"{where} has {body.left()} bytes after its {count} records")
    if rows and rows[-1].offset > base + last_delta:
        raise Wrong(f"{where} holds offset {rows[-1].offset}, past its own end")
    return Batch(
        base, base + last_delta + 1, magic, attributes & CODEC, leader_epoch, control, bool(attributes & TRANSACTIONAL), append_time,
        pid, epoch, sequence, () if control else tuple(rows), control and commits(rows, where),
    )  # fmt: skip


def commits(rows: list[LogRecord], where: str) -> bool:
    """The key of a control batch's only record has a version and a type."""
    if len(rows) != 1 or rows[0].key is None or len(rows[0].key) < MARKER.size:
        raise Wrong(f"{where} is a control batch without a marker")
    _, kind = MARKER.unpack_from(rows[0].key)
    return bool(kind == COMMIT)


class Bytes:
    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.at, self.where = data, 0, where

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left():
            raise Wrong(f"{self.where}: {size} bytes are wanted where {self.left()} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        """Read a zigzag varint."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift >= 70:
                raise Wrong(f"{self.where}: a number of more than ten bytes")

    def text(self) -> bytes | None:
        """None for the length -1."""
        size = self.number()
        return None if size == -1 else self.take(size)

    def record(self, base: int, first_time: int, append_time: int | None, pid: int, epoch: int, sequence: int) -> LogRecord:
        size = self.number()
        begin = self.at
        self.take(1)  # attributes, unused
        time = first_time + self.number()
        delta = self.number()
        key, value = self.text(), self.text()
        headers = tuple((self.name(), self.text()) for _ in range(self.number()))
        if self.at - begin != size:
            raise Wrong(f"{self.where}: record {base + delta} says {size} bytes and has {self.at - begin}")
        numbered = (sequence + delta) & 0x7FFFFFFF if sequence >= 0 else -1
        return LogRecord(base + delta, key, value, headers, time if append_time is None else append_time, pid, epoch, numbered)

    def name(self) -> str:
        found = self.text()
        if found is None:
            raise Wrong(f"{self.where}: a header without a name")
        return found.decode()


# ---- the formats before record batches


def message_of(frame: memoryview, where: str) -> Batch:
    rows = messages(frame, where, None)
    magic, attributes = frame[MAGIC_AT], frame[MAGIC_AT + 1]
    append_time = bool(magic and attributes & APPEND_TIME)
    last = rows[-1].offset
    return Batch(rows[0].offset, last + 1, magic, attributes & CODEC, -1, False, False, append_time, -1, -1, -1, tuple(rows))


def messages(frame: memoryview, where: str, append_time: int | None) -> list[LogRecord]:
    offset, _, crc, magic, attributes = MESSAGE.unpack_from(frame)
    where = f"{where}: the message at {offset}"
    if zlib.crc32(frame[CRC_AT[magic] :]) != crc:
        raise Wrong(f"{where} does not fit its checksum")
    at, time = MESSAGE.size, -1
    if magic == 1:
        (time,) = struct.unpack_from(">q", frame, at)
        at += 8
        append_time = time if attributes & APPEND_TIME else append_time
    key, at = sized(frame, at, where)
    value, at = sized(frame, at, where)
    if not attributes & CODEC:
        return [LogRecord(offset, key, value, (), time if append_time is None else append_time, -1, -1, -1)]
    inner = list(inside(unpack(attributes & CODEC, value or b"", where), where, append_time))
    if not inner:
        raise Wrong(f"{where} has nothing packed into it")
    shift = offset - inner[-1].offset if magic == 1 else 0  # format 1 counts from 0 inside, and the outer offset is the last one's
    return [row._replace(offset=row.offset + shift) for row in inner]


def inside(data: bytes, where: str, append_time: int | None) -> Iterator[LogRecord]:
    view, at = memoryview(data), 0
    while at < len(view):
        (size,) = struct.unpack_from(">i", view, at + 8)
        yield from messages(view[at : at + BEFORE_LENGTH_ENDS + size], where, append_time)
        at += BEFORE_LENGTH_ENDS + size


def sized(frame: memoryview, at: int, where: str) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", frame, at)
    if size < -1 or at + 4 + size > len(frame):
        raise Wrong(f"{where}: {size} bytes are wanted where {len(frame) - at - 4} are left")
    return (None, at + 4) if size == -1 else (frame[at + 4 : at + 4 + size].tobytes(), at + 4 + size)


# ---- codecs


def unpack(codec: int, data: bytes, where: str) -> bytes:
    if codec not in CODECS:
        raise Wrong(f"{where} has codec {codec}")
    return CODECS[codec](data)


def from_snappy(data: bytes) -> bytes:
    """Decompress one block, or several in the frame of snappy-java."""
    if not data.startswith(XERIAL):
        return bytes(snappy.uncompress(data))
    parts, at = [], 16
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        parts.append(snappy.uncompress(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def from_lz4(data: bytes) -> bytes:
    """Decompress block by block: old Kafka clients write a wrong header checksum, which the library's frame reader refuses."""
    flags, largest = data[4], 1 << (8 + 2 * (data[5] >> 4))
    linked, block_checksum, content_size = not flags & 0x20, flags & 0x10, flags & 0x08
    out, at = bytearray(), 15 if content_size else 7
    while True:
        (size,) = struct.unpack_from("<I", data, at)
        if size == 0:
            return bytes(out)
        block, plain = data[at + 4 : at + 4 + (size & 0x7FFFFFFF)], bool(size >> 31)
        before = {"dict": bytes(out[-65536:])} if linked and out else {}
        out += block if plain else lz4.block.decompress(block, uncompressed_size=largest, **before)
        at += 4 + len(block) + (4 if block_checksum else 0)


def from_zstd(data: bytes) -> bytes:
    return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data))


CODECS: dict[int, Callable[[bytes], bytes]] = {0: bytes, 1: gzip.decompress, 2: from_snappy, 3: from_lz4, 4: from_zstd}
