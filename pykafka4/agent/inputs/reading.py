"""Chooses the implementation that reads datagrams and cuts frames. Invariant: this module alone decides.

`PYKAFKA4_IMPL=python` requires the plain implementation; on Linux, `PYKAFKA4_IMPL=compiled` requires the compiled one. Otherwise the
compiled one is used if it was built. It is built only on Linux, and never used without the GIL.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["IMPLEMENTATION", "DatagramReader", "cut_frames"]

_MODULES = {"compiled": "pykafka4.agent.inputs.compiled._reading", "python": "pykafka4.agent.inputs.plain"}


def choose(wanted: str | None) -> tuple[str, ModuleType]:
    if wanted not in {None, "", *_MODULES}:
        raise ImportError(f"PYKAFKA4_IMPL={wanted!r} must be one of {', '.join(_MODULES)}, or unset")
    if wanted and (wanted == "python" or sys.platform == "linux"):
        return wanted, _load(wanted)
    try:
        return "compiled", _load("compiled")
    except ImportError:
        return "python", _load("python")


def _load(name: str) -> ModuleType:
    if name == "compiled" and not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("the compiled reader relies on the GIL, which is off in this interpreter; unset PYKAFKA4_IMPL")
    return importlib.import_module(_MODULES[name])


IMPLEMENTATION, _module = choose(os.environ.get("PYKAFKA4_IMPL"))

if TYPE_CHECKING:  # both implementations have the types of the plain one
    from pykafka4.agent.inputs.plain import DatagramReader, cut_frames
else:
    DatagramReader, cut_frames = _module.DatagramReader, _module.cut_frames
