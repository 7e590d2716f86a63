"""Chooses the compiled or the plain core. Invariant: only this module chooses.

`PYKAFKA4_IMPL=compiled` requires the compiled core, `python` the plain core. If the variable is unset, the compiled core runs if it
can be imported; otherwise the plain core runs, and a log line has the reason. Without the GIL, only the plain core can
run; on Windows, the plain core runs unless somebody built the compiled core, which nobody has tested there.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
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
    "ArrowRows",
    "Batch",
    "Chunk",
    "ColumnsBuilder",
    "ColumnsStream",
    "Delivery",
    "Record",
    "RecordColumns",
    "RecordIterator",
    "SentRows",
    "crc32c",
    "cut_records",
    "murmur2",
    "pack_records",
    "send_method",
    "now_ms",
]

_HOW_TO_BUILD = "install a C compiler, then repeat pip install with --force-reinstall --no-cache-dir (pip keeps a wheel built without one)"
_MODULES = {"compiled": "pykafka4.wire.records.compiled._hot", "python": "pykafka4.wire.records.reference"}


def choose(wanted: str | None) -> tuple[str, ModuleType]:
    """Raises ImportError if the core `wanted`, the value of PYKAFKA4_IMPL, is unknown or cannot be used."""
    if wanted:
        if wanted not in _MODULES:
            raise ImportError(f"PYKAFKA4_IMPL={wanted!r} must be one of {', '.join(_MODULES)}, or unset")
        return wanted, _load(wanted)
    try:
        return "compiled", _load("compiled")
    except ImportError as error:
        logging.getLogger("pykafka4").warning(
            "the compiled core cannot be used (%s): the plain-Python one takes 15 to 40 times the CPU per record; %s. "
            "PYKAFKA4_IMPL=python silences this warning",
            error,
            advice(),
        )
    return "python", _load("python")


def advice() -> str:
    if _without_gil():
        return "start Python with PYTHON_GIL=1"
    return "the compiled core is not built on Windows" if sys.platform == "win32" else _HOW_TO_BUILD


def _without_gil() -> bool:
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _load(name: str) -> ModuleType:
    if name == "compiled" and _without_gil():
        # Without PYTHON_GIL=0, the import would turn the GIL on for the whole process.
        raise ImportError("it relies on the GIL, which is off in this interpreter")
    return importlib.import_module(_MODULES[name])


IMPLEMENTATION, _module = choose(os.environ.get("PYKAFKA4_IMPL"))

if TYPE_CHECKING:  # the plain core has the types of both
    from pykafka4.wire.records.reference import (
        ACKED,
        FAILED,
        OPEN,
        SEALED,
        SPLIT,
        Accumulator,
        ArrowRows,
        Batch,
        Chunk,
        ColumnsBuilder,
        ColumnsStream,
        Delivery,
        Record,
        RecordColumns,
        RecordIterator,
        SentRows,
        crc32c,
        cut_records,
        murmur2,
        now_ms,
        pack_records,
        send_method,
    )
else:
    OPEN, SEALED, ACKED, FAILED, SPLIT = _module.OPEN, _module.SEALED, _module.ACKED, _module.FAILED, _module.SPLIT
    Accumulator, Batch, Delivery = _module.Accumulator, _module.Batch, _module.Delivery
    Chunk, Record, RecordIterator = _module.Chunk, _module.Record, _module.RecordIterator
    ColumnsBuilder, ColumnsStream, RecordColumns = _module.ColumnsBuilder, _module.ColumnsStream, _module.RecordColumns
    ArrowRows, SentRows = _module.ArrowRows, _module.SentRows
    cut_records, pack_records = _module.cut_records, _module.pack_records
    crc32c, murmur2, now_ms, send_method = _module.crc32c, _module.murmur2, _module.now_ms, _module.send_method
