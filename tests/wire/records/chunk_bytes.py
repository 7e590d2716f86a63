"""Fetched bytes made by hand, for tests of chunks: whole batches, and bodies that no broker writes behind a good checksum."""

from __future__ import annotations

import struct
from typing import Any

from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import ATTRIBUTES, COUNT, CRC, HEADER_SIZE, LAST_OFFSET_DELTA, LENGTH

FINE = b"\0\0\0\1\1\0"  # attributes, timestamp, offset, no key, no value, no headers


def records(count: int, size: int = 5, start: int = 0) -> list[WireRecord]:
    return [WireRecord(offset=start + i, timestamp_ms=1000 + i, value=b"%d" % i * size) for i in range(count)]


def offsets(found: list[Any]) -> list[int]:
    return [r.offset for r in found]


def resealed(data: bytes, **fields: int) -> bytes:
    """`data` with header fields changed and the checksum made right again."""
    out = bytearray(data)
    places = {"count": (COUNT, ">i"), "last": (LAST_OFFSET_DELTA, ">i"), "bits": (ATTRIBUTES, ">h")}
    for name, value in fields.items():
        place, kind = places[name]
        struct.pack_into(kind, out, place, value)
    struct.pack_into(">I", out, CRC, crc32c(bytes(out[ATTRIBUTES:])))
    return bytes(out)


def batch_of(body: bytes, count: int = 1, last: int = 0) -> bytes:
    """A batch whose records are `body`, whatever that is, with a good checksum."""
    empty = bytearray(build_batch([]))
    struct.pack_into(">i", empty, LENGTH, HEADER_SIZE - 12 + len(body))
    return resealed(bytes(empty) + body, count=count, last=last)


def record_of(body: bytes) -> bytes:
    return varint(len(body)) + body
