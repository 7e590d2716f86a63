"""The per-record loops. Rule: two implementations, one behaviour; this module alone decides which one runs.

`PYKAFKA4_IMPL=compiled` insists on the compiled core, `python` on the plain one; unset takes the compiled one where it was built and
says once, through logging, when it was not.
"""

from __future__ import annotations

import importlib
import logging
import os
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "ACKED",
    "FAILED",
    "IMPLEMENTATION",
    "OPEN",
    "SEALED",
    "SPLIT",
    "Accumulator",
    "Batch",
    "Chunk",
    "Delivery",
    "Record",
    "RecordIterator",
    "crc32c",
    "murmur2",
]

_MODULES = {"compiled": "pykafka4.wire._hot", "python": "pykafka4.wire.reference"}


def _choose(wanted: str | None) -> tuple[str, ModuleType]:
    """(name, module) of the implementation to use."""
    if wanted:
        if wanted not in _MODULES:
            raise ImportError(f"PYKAFKA4_IMPL={wanted!r} must be one of {', '.join(_MODULES)}, or unset")
        return wanted, importlib.import_module(_MODULES[wanted])
    try:
        return "compiled", importlib.import_module(_MODULES["compiled"])
    except ImportError as error:
        logging.getLogger("pykafka4").warning(
            "the compiled core is not there (%s): the plain-Python one is used, which takes 15 to 40 times the CPU per record; "
            "install a C compiler and reinstall, or set PYKAFKA4_IMPL=python to silence this",
            error,
        )
    return "python", importlib.import_module(_MODULES["python"])


IMPLEMENTATION, _module = _choose(os.environ.get("PYKAFKA4_IMPL"))

if TYPE_CHECKING:
    from pykafka4.wire._hot import (
        ACKED,
        FAILED,
        OPEN,
        SEALED,
        SPLIT,
        Accumulator,
        Batch,
        Chunk,
        Delivery,
        Record,
        RecordIterator,
        crc32c,
        murmur2,
    )
else:
    OPEN, SEALED, ACKED, FAILED, SPLIT = _module.OPEN, _module.SEALED, _module.ACKED, _module.FAILED, _module.SPLIT
    Accumulator, Batch, Delivery = _module.Accumulator, _module.Batch, _module.Delivery
    Chunk, Record, RecordIterator = _module.Chunk, _module.Record, _module.RecordIterator
    crc32c, murmur2 = _module.crc32c, _module.murmur2
