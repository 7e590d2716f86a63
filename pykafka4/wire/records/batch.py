"""Record batches. Rule: the readable truth about Kafka's record formats; a checksum is compared before a byte behind it is believed.

Magic 2 is the record batch of today, magic 0 and 1 the message sets before it, where a compressed message wraps a set of its own.
The compiled core does the same faster; this is what it is compared with, and what reads the old formats.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import google_crc32c

from pykafka4.errors import ConfigError, DecodeError
from pykafka4.wire.buffers import Readable
from pykafka4.wire.records.compression import CODECS, compress, decompress, repair_lz4

__all__ = [
    "ATTRIBUTES",
    "BASE_OFFSET",
    "BASE_SEQUENCE",
    "BASE_TIMESTAMP",
    "COUNT",
    "CRC",
    "CREATE_TIME",
    "HEADER_SIZE",
    "LAST_OFFSET_DELTA",
    "LEADER_EPOCH",
    "LEAST_RECORD",
    "LENGTH",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAX_DECOMPRESSED",
    "MAX_TIMESTAMP",
    "NO_TIMESTAMP",
    "PRODUCER_EPOCH",
    "PRODUCER_ID",
    "ControlType",
    "RecordBatch",
    "WireRecord",
    "batches",
    "build_batch",
    "build_message_set",
    "control_record",
    "control_type",
    "crc32c",
    "old_records",
    "read_header",
    "read_varint",
    "records_of",
    "varint",
]


# Where the fields of a batch header lie; messages of magic 0 and 1 share the first, second and MAGIC.
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA = 0, 8, 12, 16, 17, 21, 23
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 27, 35, 43, 51, 53, 57
HEADER_SIZE = 61
LOG_OVERHEAD = 12  # offset and length, which the length does not count

CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP = 0, 1, -1
MAX_DECOMPRESSED = 64 * 1024 * 1024

_HEADER = struct.Struct(">qiibIhiqqqhii")
_MESSAGE = struct.Struct(">qiIbb")
_INNER = struct.Struct(">qi")  # offset and size of a message
_CODEC_BITS, _LOG_APPEND_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x07, 0x08, 0x10, 0x20
LEAST_RECORD = 7  # bytes: one each for length, attributes, timestamp, offset, key, value, headers
_LEAST_MESSAGE = {0: 26, 1: 34}  # with offset and length
_OLD_HEADERS = (18, 26)  # bytes before the key, by magic
_MAX_OFFSET = 2**63 - 2  # the one after it must be an int64 as well
_CODEC_NUMBERS = frozenset(CODECS.values())


class ControlType(enum.IntEnum):
    """What a control record says about the transaction before it."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen
class WireRecord:
    """A record with its place. `offset` -1 and `timestamp_ms` -1 mean not given; `sequence` is -1 without an idempotent producer."""

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


@attrs.frozen
class RecordBatch:
    """A batch, or one message of an old message set: its header, and `data`, all of its bytes.

    An old message has its own offset as `base_offset` and -1 for what its format lacks; a compressed one does not tell its `count`.
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
        """Where to read on; past the last record even where compaction took it."""
        return self.last_offset + 1

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_BITS

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP
        return LOG_APPEND_TIME if self.attributes & _LOG_APPEND_BIT else CREATE_TIME

    @property
    def transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & _CONTROL_BIT)

    def check(self) -> None:
        """DecodeError when the bytes are not those the checksum was made of."""
        found = crc32c(self.data[ATTRIBUTES:]) if self.magic >= 2 else zlib.crc32(self.data[MAGIC:])
        if found != self.crc:
            raise DecodeError(f"the batch at offset {self.base_offset} is damaged: its checksum is {found:#010x}, not {self.crc:#010x}")


# -- numbers -----------------------------------------------------------------------


def crc32c(data: Readable, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, going on from `value`."""
    return int(google_crc32c.extend(value, data if isinstance(data, bytes) else bytes(data)))


def varint(n: int) -> bytes:
    """`n` as a zig-zag varint, int32 and int64 alike."""
    n = n << 1 if n >= 0 else (-n << 1) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(view: memoryview, pos: int, bits: int = 32) -> tuple[int, int]:
    """The zig-zag varint at `pos`, of at most `bits` (32 or 64) bits, and the position after it."""
    if pos < len(view) and (byte := view[pos]) < 0x80:  # most of them
        return byte >> 1 ^ -(byte & 1), pos + 1
    n = shift = 0
    while shift < bits:
        if pos >= len(view):
            raise DecodeError("a varint ends too early")
        byte = view[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80 and n < 1 << bits:
            return n >> 1 ^ -(n & 1), pos
        shift += 7
    raise DecodeError(f"a varint of more than {bits} bits")


# -- reading batches -----------------------------------------------------------------


def batches(buffer: Readable) -> Iterator[RecordBatch]:
    """The whole batches in `buffer`, headers read and nothing else; one that is cut short at the end is left out."""
    view, pos = memoryview(buffer).cast("B"), 0
    while len(view) - pos > MAGIC:
        size = _size_at(view, pos)
        if size > len(view) - pos:
            return
        yield read_header(view, pos)
        pos += size


def _size_at(view: memoryview, pos: int) -> int:
    """The size of the batch at `pos`, which has at least MAGIC + 1 bytes; DecodeError if its format is unknown or cannot be so short."""
    size = int.from_bytes(view[pos + LENGTH : pos + LENGTH + 4], "big", signed=True) + LOG_OVERHEAD
    magic = view[pos + MAGIC]
    least = HEADER_SIZE if magic == 2 else _LEAST_MESSAGE.get(magic)
    if least is None:
        raise DecodeError(f"a record batch of magic {magic}; 0, 1 and 2 are known")
    if size < least:
        raise DecodeError(f"a record batch of magic {magic} and {size} bytes; it has at least {least}")
    return size


def read_header(buffer: Readable, pos: int = 0) -> RecordBatch:
    """The batch at `pos`, header read and nothing else. DecodeError if it is not there as a whole."""
    view = memoryview(buffer).cast("B")[pos:]
    if len(view) <= MAGIC:
        raise DecodeError(f"a record batch cut off after {len(view)} bytes")
    size = _size_at(view, 0)
    if size > len(view):
        raise DecodeError(f"a record batch of {size} bytes cut off after {len(view)}")
    return _header_v2(view[:size]) if view[MAGIC] == 2 else _header_v01(view[:size])


def _header_v2(data: memoryview) -> RecordBatch:
    (base_offset, _, leader_epoch, magic, crc, attributes, last_delta, base_ts, max_ts, pid, epoch, sequence, count) = _HEADER.unpack_from(
        data
    )
    return RecordBatch(data, base_offset, leader_epoch, magic, crc, attributes, last_delta, base_ts, max_ts, pid, epoch, sequence, count)


def _header_v01(data: memoryview) -> RecordBatch:
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(data)
    timestamp = struct.unpack_from(">q", data, _MESSAGE.size)[0] if magic == 1 else -1
    count = -1 if attributes & _CODEC_BITS else 1
    return RecordBatch(data, offset, -1, magic, crc, attributes & 0xFF, 0, timestamp, timestamp, -1, -1, -1, count)


# -- reading records -------------------------------------------------------------------


def records_of(batch: RecordBatch, max_size: int = MAX_DECOMPRESSED) -> list[WireRecord]:
    """The records of `batch`, its checksum compared first.

    Raises DecodeError for damage of any kind, RecordTooLarge when they are over `max_size` bytes once decompressed.
    """
    if batch.magic != 2:
        return list(old_records(batch, max_size))
    _check_readable(batch)
    return _records_v2(batch, max_size)


def _check_readable(batch: RecordBatch) -> None:
    batch.check()
    if batch.codec not in _CODEC_NUMBERS:
        raise DecodeError(f"the batch at offset {batch.base_offset} is compressed with codec {batch.codec}, which is unknown")


def _records_v2(batch: RecordBatch, max_size: int) -> list[WireRecord]:
    body = batch.data[HEADER_SIZE:]
    view = memoryview(decompress(batch.codec, body, max_size)) if batch.codec else body
    if not 0 <= batch.count <= len(view) // LEAST_RECORD:
        raise DecodeError(f"the batch at offset {batch.base_offset} claims {batch.count} records in {len(view)} bytes")
    records, pos = [], 0
    kind, transactional, control = batch.timestamp_type, batch.transactional, batch.control
    appended_at = batch.max_timestamp_ms if kind == LOG_APPEND_TIME else None
    for _ in range(batch.count):
        offset, timestamp, key, value, headers, pos = _fields(view, pos)
        record = WireRecord(
            batch.base_offset + offset,
            batch.base_timestamp_ms + timestamp if appended_at is None else appended_at,
            kind,
            key,
            value,
            headers,
            batch.producer_id,
            batch.producer_epoch,
            _sequence(batch.base_sequence, offset),
            batch.leader_epoch,
            transactional,
            control,
        )
        records.append(record)
    if pos != len(view):
        raise DecodeError(f"the batch at offset {batch.base_offset} has {len(view) - pos} bytes behind its last record")
    return records


def _fields(view: memoryview, pos: int) -> tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]:
    """Offset delta, timestamp delta, key, value and headers of the record at `pos`, and where it ends."""
    size, pos = read_varint(view, pos)
    if not 0 <= size <= len(view) - pos:
        raise DecodeError(f"a record of {size} bytes where {len(view) - pos} are left")
    body, after = view[pos : pos + size], pos + size
    timestamp_delta, pos = read_varint(body, 1, 64)  # the byte before it, attributes, has no meaning yet
    offset_delta, pos = read_varint(body, pos)
    key, pos = _bytes(body, pos)
    value, pos = _bytes(body, pos)
    headers, pos = _headers(body, pos)
    if pos != size:
        raise DecodeError(f"a record of {size} bytes whose fields take {pos}")
    return offset_delta, timestamp_delta, key, value, headers, after


def _sequence(base: int, delta: int) -> int:
    """Sequences go back to 0 after 2**31 - 1."""
    return -1 if base < 0 else (base + delta) & 0x7FFF_FFFF


def _bytes(view: memoryview, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(view, pos)
    if size == -1:
        return None, pos
    if not 0 <= size <= len(view) - pos:
        raise DecodeError(f"a field of {size} bytes where {len(view) - pos} are left in its record")
    return bytes(view[pos : pos + size]), pos + size


def _headers(view: memoryview, pos: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, pos = read_varint(view, pos)
    if not count:
        return (), pos
    if not 0 <= count <= (len(view) - pos) // 2:
        raise DecodeError(f"{count} headers where {len(view) - pos} bytes are left in their record")
    headers = []
    for _ in range(count):
        key, pos = _bytes(view, pos)
        value, pos = _bytes(view, pos)
        headers.append((_header_key(key), value))
    return tuple(headers), pos


def _header_key(key: bytes | None) -> str:
    if key is None:
        raise DecodeError("a header without a key")
    return key.decode(errors="replace")  # as Java: one odd name must not hold up a partition


# -- reading old messages ----------------------------------------------------------------


def old_records(batch: RecordBatch, max_size: int = MAX_DECOMPRESSED) -> Iterator[WireRecord]:
    """The records of a message of magic 0 or 1, made one at a time: as objects they take ten times the bytes that `max_size` bounds.

    Everything is checked before the first; raises what `records_of` raises.
    """
    _check_readable(batch)
    key, value = _key_and_value(batch)
    if not batch.codec:
        return iter((WireRecord(batch.base_offset, batch.base_timestamp_ms, batch.timestamp_type, key, value),))
    if value is None:
        raise DecodeError(f"the compressed message at offset {batch.base_offset} holds nothing")
    packed: Any = repair_lz4(memoryview(value)) if batch.magic == 0 and batch.codec == CODECS["lz4"] else value
    held = memoryview(decompress(batch.codec, packed, max_size))
    return _inner_records(batch, held, _shift(batch, held))


def _key_and_value(batch: RecordBatch) -> tuple[bytes | None, bytes | None]:
    pos = _MESSAGE.size + (8 if batch.magic == 1 else 0)
    key, pos = _bytes_v01(batch.data, pos)
    value, pos = _bytes_v01(batch.data, pos)
    if pos != len(batch.data):
        raise DecodeError(f"the message at offset {batch.base_offset} has {len(batch.data) - pos} bytes behind its value")
    return key, value


def _bytes_v01(view: memoryview, pos: int) -> tuple[bytes | None, int]:
    if len(view) - pos < 4:
        raise DecodeError("a message ends inside a length")
    size = int.from_bytes(view[pos : pos + 4], "big", signed=True)
    pos += 4
    if size == -1:
        return None, pos
    if not 0 <= size <= len(view) - pos:
        raise DecodeError(f"a field of {size} bytes where {len(view) - pos} are left in its message")
    return bytes(view[pos : pos + size]), pos + size


def _skip_v01(view: memoryview, pos: int, end: int) -> int:
    """Behind the key or value at `pos`."""
    if end - pos < 4:
        raise DecodeError("a message ends inside a length")
    size = int.from_bytes(view[pos : pos + 4], "big", signed=True)
    pos += 4
    if not -1 <= size <= end - pos:
        raise DecodeError(f"a field of {size} bytes where {end - pos} are left in its message")
    return pos + max(size, 0)


def _shift(batch: RecordBatch, held: memoryview) -> int:
    """What to add to the offsets of the messages in `held`, which are checked on the way: whole, of the magic of `batch`, not compressed.

    Inner offsets are absolute in magic 0; in magic 1 they count from 0 and the wrapper has the last one's true offset.
    """
    pos, highest, last = 0, -1, -1
    while pos < len(held):
        last, pos = _check_message(batch, held, pos)
        highest = max(highest, last)
    if pos == 0:
        raise DecodeError(f"the compressed message at offset {batch.base_offset} holds nothing")
    shift = batch.base_offset - last if batch.magic == 1 else 0
    if highest + shift > _MAX_OFFSET:
        raise DecodeError(f"the message at offset {batch.base_offset} holds one at offset {highest + shift}")
    return shift


def _check_message(batch: RecordBatch, held: memoryview, pos: int) -> tuple[int, int]:
    """The offset of the message at `pos`, and where it ends."""
    left = len(held) - pos
    if left <= MAGIC:
        raise DecodeError(f"a record batch cut off after {left} bytes")
    size = _size_at(held, pos)
    if size > left:
        raise DecodeError(f"a record batch of {size} bytes cut off after {left}")
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(held, pos)
    if magic != batch.magic or attributes & _CODEC_BITS:
        codec = attributes & _CODEC_BITS
        raise DecodeError(f"the message at offset {batch.base_offset}, magic {batch.magic}, holds one of magic {magic}, codec {codec}")
    end = pos + size
    found = zlib.crc32(held[pos + MAGIC : end])
    if found != crc:
        raise DecodeError(f"the batch at offset {offset} is damaged: its checksum is {found:#010x}, not {crc:#010x}")
    behind = _skip_v01(held, _skip_v01(held, pos + _OLD_HEADERS[magic], end), end)
    if behind != end:
        raise DecodeError(f"the message at offset {offset} has {end - behind} bytes behind its value")
    return offset, end


def _inner_records(batch: RecordBatch, held: memoryview, shift: int) -> Iterator[WireRecord]:
    """The messages in `held`, which were checked."""
    pos, kind, magic = 0, batch.timestamp_type, batch.magic
    while pos < len(held):
        offset, size = _INNER.unpack_from(held, pos)
        timestamp = -1
        if magic == 1:
            inner = int.from_bytes(held[pos + _MESSAGE.size : pos + _MESSAGE.size + 8], "big", signed=True)
            timestamp = batch.base_timestamp_ms if kind == LOG_APPEND_TIME else inner
        key, at = _bytes_v01(held, pos + _OLD_HEADERS[magic])
        value, _ = _bytes_v01(held, at)
        yield WireRecord(offset + shift, timestamp, kind, key, value)
        pos += size + LOG_OVERHEAD


# -- control records -----------------------------------------------------------------------


def control_record(kind: ControlType, coordinator_epoch: int = 0) -> WireRecord:
    """The one record of a control batch."""
    return WireRecord(key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, coordinator_epoch))


def control_type(record: WireRecord) -> ControlType | None:
    """What a control record says; None for a kind that later versions may bring."""
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
    """A batch of magic 2. Records without an offset follow one another; offsets that leave gaps make a compacted batch.

    `last_offset_delta` says how far the batch reached before compaction; `max_timestamp_ms` is the append time for LOG_APPEND_TIME.
    """
    rows = [(record.offset - base_offset if record.offset >= 0 else place, record) for place, record in enumerate(records)]
    times = [record.timestamp_ms for _, record in rows]
    base_timestamp = times[0] if times else -1
    body = b"".join(_encode_record(record, delta, record.timestamp_ms - base_timestamp) for delta, record in rows)
    last = last_offset_delta if last_offset_delta is not None else max((delta for delta, _ in rows), default=-1)
    flags = codec | _LOG_APPEND_BIT * timestamp_type | _TRANSACTIONAL_BIT * transactional | _CONTROL_BIT * control
    packed = compress(codec, body)
    out = bytearray(HEADER_SIZE)
    highest = max(times, default=-1) if max_timestamp_ms is None else max_timestamp_ms
    numbers = (flags, last, base_timestamp, highest, producer_id, producer_epoch, base_sequence, len(rows))
    _HEADER.pack_into(out, 0, base_offset, HEADER_SIZE + len(packed) - LOG_OVERHEAD, leader_epoch, 2, 0, *numbers)
    out += packed
    struct.pack_into(">I", out, CRC, crc32c(memoryview(out)[ATTRIBUTES:]))
    return bytes(out)


def _encode_record(record: WireRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    parts = [
        b"\0",
        varint(timestamp_delta),
        varint(offset_delta),
        _encode_bytes(record.key),
        _encode_bytes(record.value),
        varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += (_encode_bytes(key.encode()), _encode_bytes(value))
    body = b"".join(parts)
    return varint(len(body)) + body


def _encode_bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def build_message_set(
    records: Iterable[WireRecord],
    magic: int,
    codec: int = 0,
    *,
    base_offset: int = 0,
    timestamp_type: int = CREATE_TIME,
    append_time_ms: int = -1,
) -> bytes:
    """A message set of magic 0 or 1, wrapped in one message if `codec` is given. ConfigError for what the format cannot hold."""
    rows = [(record.offset if record.offset >= 0 else base_offset + place, record) for place, record in enumerate(records)]
    _check_old(rows, magic, codec)
    flags = _LOG_APPEND_BIT * timestamp_type if magic == 1 else 0
    if not codec:
        return b"".join(_encode_message(offset, magic, flags, record.timestamp_ms, record.key, record.value) for offset, record in rows)
    first, last = (rows[0][0] if magic == 1 else 0), rows[-1][0]
    inner = b"".join(_encode_message(offset - first, magic, 0, record.timestamp_ms, record.key, record.value) for offset, record in rows)
    timestamp = append_time_ms if timestamp_type == LOG_APPEND_TIME else max(record.timestamp_ms for _, record in rows)
    return _encode_message(last, magic, flags | codec, timestamp, None, compress(codec, inner))


def _check_old(rows: Sequence[tuple[int, WireRecord]], magic: int, codec: int) -> None:
    if magic not in _LEAST_MESSAGE:
        raise ConfigError(f"magic {magic} is no message set; 0 and 1 are")
    if codec == CODECS["zstd"]:
        raise ConfigError(f"magic {magic} has no zstd; use build_batch")
    if codec and not rows:
        raise ConfigError("a compressed message set holds at least one record")
    if any(record.headers for _, record in rows):
        raise ConfigError(f"magic {magic} has no headers; use build_batch")


def _encode_message(offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    time = struct.pack(">q", timestamp_ms) if magic == 1 else b""
    checked = struct.pack(">bb", magic, attributes) + time + _prefixed(key) + _prefixed(value)
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def _prefixed(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data
