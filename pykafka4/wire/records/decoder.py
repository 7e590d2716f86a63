"""Reads batch headers and records, in every format. Invariant: every length is checked against the bytes left before it is used.

Magic 2 is read in steps: `read_header`, `RecordBatch.check`, `open_batch`, `read_records`. For magic 0 and 1, where a compressed message
wraps a message set, `read_messages` does everything after `read_header`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import attrs

from pykafka4.errors import DecodeError
from pykafka4.records import Headers
from pykafka4.wire.buffers import Readable
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.compression import CODECS, decompress, repair_lz4
from pykafka4.wire.records.layout import (
    ATTRIBUTES,
    CODEC_BITS,
    CONTROL_BIT,
    CREATE_TIME,
    HEADER_SIZE,
    LEAST_BATCH,
    LEAST_RECORD,
    LENGTH,
    LOG_APPEND_BIT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)

__all__ = [
    "Message",
    "RawRecord",
    "RecordBatch",
    "open_batch",
    "read_batch_header",
    "read_header",
    "read_headers",
    "read_messages",
    "read_records",
    "read_varint",
    "size_at",
]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_MESSAGE: Final = struct.Struct(">qiIbb")
_INNER: Final = struct.Struct(">qi")  # offset and size of a message
_OLD_HEADERS: Final = (18, 26)  # bytes before the key, by magic
_MAX_OFFSET: Final = 2**63 - 2  # the next offset must be an int64 as well
_CODEC_NUMBERS: Final = frozenset(CODECS.values())


# -- headers -----------------------------------------------------------------------------


@attrs.frozen
class RecordBatch:
    """A batch, or one message of an old message set: its header, and `data`, all of its bytes.

    An old message has its own offset as `base_offset`, the `last_offset_delta` 0, and -1 for fields that its format lacks. A compressed
    message has the `count` -1.
    """

    data: memoryview = attrs.field(repr=lambda view: f"<{len(view)} bytes>")
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch, even if compaction has removed the last record."""
        return self.last_offset + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_BITS

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP
        return LOG_APPEND_TIME if self.attributes & LOG_APPEND_BIT else CREATE_TIME

    @property
    def transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & CONTROL_BIT)

    def check(self) -> None:
        found = crc32c(self.data[ATTRIBUTES:]) if self.magic >= 2 else zlib.crc32(self.data[MAGIC:])
        if found != self.crc:
            raise DecodeError(
                f"the batch at offset {self.base_offset} is corrupt: its checksum is {found:#010x}, expected {self.crc:#010x}"
            )


def size_at(view: memoryview, pos: int) -> int:
    """The size of the batch at `pos`, whose magic byte is in `view`. Raises DecodeError."""
    size = int.from_bytes(view[pos + LENGTH : pos + LENGTH + 4], "big", signed=True) + LOG_OVERHEAD
    magic = view[pos + MAGIC]
    least = LEAST_BATCH.get(magic)
    if least is None:
        raise DecodeError(f"a record batch of magic {magic}; the known ones are 0, 1 and 2")
    if size < least:
        raise DecodeError(f"a record batch of magic {magic} and {size} bytes; the minimum is {least}")
    return size


def read_header(buffer: Readable, pos: int = 0) -> RecordBatch:
    """The batch at `pos`, with only its header decoded. Raises DecodeError."""
    view = memoryview(buffer).cast("B")[pos:]
    if len(view) <= MAGIC:
        raise DecodeError(f"a record batch truncated after {len(view)} bytes")
    size = size_at(view, 0)
    if size > len(view):
        raise DecodeError(f"a record batch of {size} bytes, truncated after {len(view)}")
    return read_batch_header(view[:size]) if view[MAGIC] == 2 else _header_v01(view[:size])


def read_batch_header(data: memoryview) -> RecordBatch:
    """The batch of magic 2 in `data`; nothing is checked."""
    base_offset, _, *fields = _HEADER.unpack_from(data)
    return RecordBatch(data, base_offset, *fields)


def _header_v01(data: memoryview) -> RecordBatch:
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(data)
    timestamp = struct.unpack_from(">q", data, _MESSAGE.size)[0] if magic == 1 else -1
    count = -1 if attributes & CODEC_BITS else 1
    return RecordBatch(data, offset, -1, magic, crc, attributes & 0xFF, 0, timestamp, timestamp, -1, -1, -1, count)


# -- records of magic 2 ------------------------------------------------------------------


class RawRecord(NamedTuple):
    """A record as encoded in a batch, with offset and timestamp relative to the batch's."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    header_count: int
    encoded_headers: bytes
    end: int

    @property
    def headers(self) -> Headers:
        return read_headers(self.header_count, self.encoded_headers)


def open_batch(batch: RecordBatch, unpack: Callable[[int, bytes, int], bytes], max_size: int) -> memoryview:
    """The records of `batch`, decompressed. Raises DecodeError for an unknown codec or an impossible count, and the errors of `unpack`."""
    if batch.count == 0:  # compaction has removed all records: the bytes after the header have no meaning
        return memoryview(b"")
    if batch.codec not in _CODEC_NUMBERS:
        raise DecodeError(f"compression codec {batch.codec} is unknown")
    body = batch.data[HEADER_SIZE:]
    view = memoryview(unpack(batch.codec, bytes(body), max_size)) if batch.codec else body
    if not 0 <= batch.count <= len(view) // LEAST_RECORD:
        raise DecodeError(f"it claims {batch.count} records in {len(view)} bytes")
    return view


def read_records(view: memoryview, count: int) -> Iterator[RawRecord]:
    """The `count` records in `view`. Raises DecodeError at the first invalid record, or if bytes follow the last one."""
    at = 0
    for _ in range(count):
        raw = _read_record(view, at)
        at = raw.end
        yield raw
    if at != len(view):
        raise DecodeError("a batch is longer than its records")


def _read_record(view: memoryview, at: int) -> RawRecord:
    size, at = read_varint(view, at)
    if not 1 <= size <= len(view) - at:
        raise DecodeError("a record's length exceeds its batch")
    body, end = view[at : at + size], at + size
    timestamp, at = read_varint(body, 1, 64)  # from 1: byte 0, the attributes, has no meaning yet
    offset, at = read_varint(body, at)
    key, at = _read_bytes(body, at)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    if not 0 <= count <= (size - at) // 2:
        raise DecodeError("more headers than fit into the record")
    if _skip_headers(body, at, count) != size:
        raise DecodeError("a record is longer than its fields")
    return RawRecord(timestamp, offset, key, value, count, bytes(body[at:]), end)


def _skip_headers(body: memoryview, at: int, count: int) -> int:
    """The position after `count` headers."""
    for _ in range(count):
        for what, least in (("name", 0), ("value", -(2**31))):
            size, at = read_varint(body, at)
            if not least <= size <= len(body) - at:
                raise DecodeError(f"the length of a header's {what} exceeds its record")
            at += max(size, 0)
    return at


def read_headers(count: int, data: bytes) -> Headers:
    """The `count` headers in `data`, whose lengths are already checked."""
    view, at = memoryview(data), 0
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(view, at)
        value, at = _read_bytes(view, at)
        headers.append(((name or b"").decode(errors="replace"), value))  # as in Java: one invalid name must not block a partition
    return tuple(headers)


def _read_bytes(body: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size > len(body) - at:
        raise DecodeError("a length exceeds its record")
    return (None, at) if size < 0 else (bytes(body[at : at + size]), at + size)


def read_varint(view: memoryview, pos: int, bits: int = 32) -> tuple[int, int]:
    """The zig-zag varint at `pos`, of at most `bits` (32 or 64) bits, and the position after it."""
    if pos < len(view) and (byte := view[pos]) < 0x80:  # most varints have one byte
        return byte >> 1 ^ -(byte & 1), pos + 1
    n = shift = 0
    while shift < bits:
        if pos >= len(view):
            raise DecodeError("a truncated varint")
        byte = view[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            n &= (1 << bits) - 1  # as in Java, which drops the bits of the last byte that have no room
            return n >> 1 ^ -(n & 1), pos
        shift += 7
    raise DecodeError(f"a varint of more than {bits} bits")


# -- messages of magic 0 and 1 -----------------------------------------------------------


class Message(NamedTuple):
    """A record of magic 0 or 1."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


def read_messages(batch: RecordBatch, max_size: int) -> Iterator[Message]:
    """The records of a message of magic 0 or 1, created one at a time, because objects can take ten times the bytes that `max_size` limits.

    The complete message is checked before its first record is created. Raises DecodeError for a corrupt message, RecordTooLarge for more
    than `max_size` bytes decompressed, ConfigError if the codec's library is missing.
    """
    batch.check()
    if batch.codec not in _CODEC_NUMBERS:
        raise DecodeError(f"the batch at offset {batch.base_offset}: compression codec {batch.codec} is unknown")
    key, value = _key_and_value(batch)
    if not batch.codec:
        return iter((Message(batch.base_offset, batch.base_timestamp_ms, batch.timestamp_type, key, value),))
    if value is None:
        raise DecodeError(f"the compressed message at offset {batch.base_offset} is empty")
    packed: Any = repair_lz4(memoryview(value)) if batch.magic == 0 and batch.codec == CODECS["lz4"] else value
    held = memoryview(decompress(batch.codec, packed, max_size))
    return _inner_records(batch, held, _shift(batch, held))


def _key_and_value(batch: RecordBatch) -> tuple[bytes | None, bytes | None]:
    pos = _MESSAGE.size + (8 if batch.magic == 1 else 0)
    key, pos = _bytes_v01(batch.data, pos)
    value, pos = _bytes_v01(batch.data, pos)
    if pos != len(batch.data):
        raise DecodeError(f"the message at offset {batch.base_offset} has {len(batch.data) - pos} extra bytes after its value")
    return key, value


def _bytes_v01(view: memoryview, pos: int) -> tuple[bytes | None, int]:
    if len(view) - pos < 4:
        raise DecodeError("a message ends inside a length")
    size = int.from_bytes(view[pos : pos + 4], "big", signed=True)
    pos += 4
    if size == -1:
        return None, pos
    if not 0 <= size <= len(view) - pos:
        raise DecodeError(f"a field of {size} bytes, but only {len(view) - pos} are left in its message")
    return bytes(view[pos : pos + size]), pos + size


def _skip_v01(view: memoryview, pos: int, end: int) -> int:
    """The position after the key or value at `pos`."""
    if end - pos < 4:
        raise DecodeError("a message ends inside a length")
    size = int.from_bytes(view[pos : pos + 4], "big", signed=True)
    pos += 4
    if not -1 <= size <= end - pos:
        raise DecodeError(f"a field of {size} bytes, but only {end - pos} are left in its message")
    return pos + max(size, 0)


def _shift(batch: RecordBatch, held: memoryview) -> int:
    """Check that the messages in `held` are complete, of the magic of `batch` and not compressed; return the shift of their offsets.

    Inner offsets are absolute in magic 0. In magic 1 they count from 0, and the wrapper has the true offset of the last inner message.
    """
    pos, highest, last = 0, -1, -1
    while pos < len(held):
        last, pos = _check_message(batch, held, pos)
        highest = max(highest, last)
    if pos == 0:
        raise DecodeError(f"the compressed message at offset {batch.base_offset} is empty")
    shift = batch.base_offset - last if batch.magic == 1 else 0
    if highest + shift > _MAX_OFFSET:
        raise DecodeError(f"the message at offset {batch.base_offset} holds one at offset {highest + shift}")
    return shift


def _check_message(batch: RecordBatch, held: memoryview, pos: int) -> tuple[int, int]:
    """Check the message at `pos`; return its offset and end."""
    left = len(held) - pos
    if left <= MAGIC:
        raise DecodeError(f"a record batch truncated after {left} bytes")
    size = size_at(held, pos)
    if size > left:
        raise DecodeError(f"a record batch of {size} bytes, truncated after {left}")
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(held, pos)
    if magic != batch.magic or attributes & CODEC_BITS:
        codec = attributes & CODEC_BITS
        raise DecodeError(f"the message at offset {batch.base_offset}, magic {batch.magic}, holds one of magic {magic}, codec {codec}")
    end = pos + size
    found = zlib.crc32(held[pos + MAGIC : end])
    if found != crc:
        raise DecodeError(f"the batch at offset {offset} is corrupt: its checksum is {found:#010x}, expected {crc:#010x}")
    behind = _skip_v01(held, _skip_v01(held, pos + _OLD_HEADERS[magic], end), end)
    if behind != end:
        raise DecodeError(f"the message at offset {offset} has {end - behind} extra bytes after its value")
    return offset, end


def _inner_records(batch: RecordBatch, held: memoryview, shift: int) -> Iterator[Message]:
    """The messages in `held`, which are already checked."""
    pos, kind, magic = 0, batch.timestamp_type, batch.magic
    while pos < len(held):
        offset, size = _INNER.unpack_from(held, pos)
        timestamp = -1
        if magic == 1:
            inner = int.from_bytes(held[pos + _MESSAGE.size : pos + _MESSAGE.size + 8], "big", signed=True)
            timestamp = batch.base_timestamp_ms if kind == LOG_APPEND_TIME else inner
        key, at = _bytes_v01(held, pos + _OLD_HEADERS[magic])
        value, _ = _bytes_v01(held, at)
        yield Message(offset + shift, timestamp, kind, key, value)
        pos += size + LOG_OVERHEAD
