"""Encodes batch headers and records of magic 2. The caller has checked the values.

In the plain core, `_plain_raw_batch` and `_plain_batch` also write this format when they copy parts of records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

from pykafka4.wire.buffers import Buffer, Readable
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.layout import HEADER_SIZE, LOG_OVERHEAD

__all__ = ["encode_content", "encode_header", "encode_record", "varint"]

_UNCHECKED: Final = struct.Struct(">qiibI")  # offset, length, leader epoch, magic, checksum
_CHECKED: Final = struct.Struct(">hiqqqhii")  # from attributes to count: the part of the header that the checksum covers


def _encode_varint(n: int) -> bytes:
    n = n << 1 if n >= 0 else (-n << 1) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_SMALL: Final = [_encode_varint(n) for n in range(2048)]  # a table, because most varints of a record are among these


def varint(n: int) -> bytes:
    """`n` as a zig-zag varint, int32 and int64 alike."""
    return _SMALL[n] if 0 <= n < 2048 else _encode_varint(n)


def encode_record(timestamp_delta: int, offset_delta: int, content: bytes) -> bytes:
    """`content` is encoded as by `encode_content`."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + content
    return varint(len(body)) + body


def encode_content(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """The part of a record that does not depend on its offset or timestamp."""
    pairs = [_sized(name.encode()) + _sized(data) for name, data in headers]
    return _sized(key) + _sized(value) + varint(len(pairs)) + b"".join(pairs)


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else varint(len(data)) + data


def encode_header(
    records: Buffer,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
    checksum: Callable[[Readable, int], int] = crc32c,
) -> bytes:
    """`records` are the bytes after the header, compressed or not."""
    times = base_timestamp_ms, max_timestamp_ms
    checked = _CHECKED.pack(attributes, last_offset_delta, *times, producer_id, producer_epoch, base_sequence, count)
    crc = checksum(records, checksum(checked, 0))
    return _UNCHECKED.pack(base_offset, HEADER_SIZE + len(records) - LOG_OVERHEAD, leader_epoch, 2, crc) + checked
