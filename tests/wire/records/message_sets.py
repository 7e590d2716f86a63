"""Message sets, the record formats before Kafka 0.11: the client reads them, and only tests write them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.compression import compress
from pykafka4.wire.records.layout import CREATE_TIME, LOG_APPEND_BIT, LOG_APPEND_TIME


def build_message_set(
    records: Iterable[WireRecord],
    magic: int,
    codec: int = 0,
    *,
    base_offset: int = 0,
    timestamp_type: int = CREATE_TIME,
    append_time_ms: int = -1,
) -> bytes:
    """A message set of magic 0 or 1, wrapped in one message if `codec` is given."""
    rows = [(record.offset if record.offset >= 0 else base_offset + place, record) for place, record in enumerate(records)]
    flags = LOG_APPEND_BIT * timestamp_type if magic == 1 else 0
    if not codec:
        return b"".join(encode_message(offset, magic, flags, record.timestamp_ms, record.key, record.value) for offset, record in rows)
    first, last = (rows[0][0] if magic == 1 else 0), rows[-1][0]
    inner = b"".join(encode_message(offset - first, magic, 0, record.timestamp_ms, record.key, record.value) for offset, record in rows)
    timestamp = append_time_ms if timestamp_type == LOG_APPEND_TIME else max(record.timestamp_ms for _, record in rows)
    return encode_message(last, magic, flags | codec, timestamp, None, compress(codec, inner))


def encode_message(offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    """A message of magic 0 or 1, which is a record with a header of its own."""
    time = struct.pack(">q", timestamp_ms) if magic == 1 else b""
    checked = struct.pack(">bb", magic, attributes) + time + _prefixed(key) + _prefixed(value)
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def _prefixed(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data
