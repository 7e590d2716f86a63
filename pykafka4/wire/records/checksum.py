"""CRC-32C, the checksum of record batches. Rule: computing it in parts gives the same result as at once."""

from __future__ import annotations

import google_crc32c

from pykafka4.wire.buffers import Readable

__all__ = ["crc32c"]


def crc32c(data: Readable, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, continuing from `value`."""
    return int(google_crc32c.extend(value, data if isinstance(data, bytes) else bytes(data)))
