"""CRC-32C, the checksum of record batches. Rule: what is computed in parts equals what is computed at once."""

from __future__ import annotations

import google_crc32c

from pykafka4.wire.buffers import Readable

__all__ = ["crc32c"]


def crc32c(data: Readable, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, going on from `value`."""
    return int(google_crc32c.extend(value, data if isinstance(data, bytes) else bytes(data)))
