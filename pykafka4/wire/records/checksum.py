"""Computes CRC-32C, the checksum of record batches. Invariant: a checksum computed in parts equals the checksum of the whole.

google-crc32c (the extra `crc32c`) computes it if its C extension is installed, otherwise crcmod. Neither is imported before the first call,
because the compiled core has its own CRC-32C.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import TypeAlias

from pykafka4.logs import get_log
from pykafka4.wire.buffers import Readable

__all__ = ["crc32c"]

_log = get_log("pykafka4")

Extend: TypeAlias = Callable[[bytes, int], int]

_SLOW = (
    "neither google-crc32c nor crcmod has its C extension here: a checksum takes a hundred times as long; pip install 'pykafka4[crc32c]', "
    "or install a C compiler, then: pip install --force-reinstall --no-cache-dir crcmod"
)


def crc32c(data: Readable, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, continuing from `value`, the checksum of the bytes before it."""
    return _fastest()(data if isinstance(data, bytes) else bytes(data), value)


@functools.cache
def _fastest() -> Extend:
    """Log a warning if no installed implementation is compiled."""
    return _google() or _crcmod()


def _google() -> Extend | None:
    try:
        google = importlib.import_module("google_crc32c")
    except ImportError:
        return None
    if google.implementation != "c":
        return None
    extend: Callable[[int, bytes], int] = google.extend
    return lambda data, value: extend(value, data)


def _crcmod() -> Extend:
    made: Extend = importlib.import_module("crcmod.predefined").mkPredefinedCrcFun("crc-32c")
    if sys.modules.get("crcmod._crcfunext") is None:
        _log.warning(_SLOW)
    return made
