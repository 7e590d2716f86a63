"""Which transport moves the bytes. Rule: this module alone decides.

`PYKAFKA4_LOOP=pump` requires the compiled pump, `portable` the transport on `selectors`; if unset, the pump is used if it was built. It is
built on Linux only, and never used in an interpreter without the GIL.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TypeAlias

from pykafka4.net.handoff.workers import Helper
from pykafka4.net.portable import PortableTransport
from pykafka4.net.transport import Post, Transport

__all__ = ["LOOP", "open_transport"]

Opener: TypeAlias = Callable[[int, Helper, Post], Transport]


def _choose(wanted: str | None) -> tuple[str, Opener]:
    """(name, class) of the transport to use."""
    if wanted not in {None, "", "pump", "portable"}:
        raise ImportError(f"PYKAFKA4_LOOP={wanted!r} must be pump, portable or unset")
    if wanted == "portable":
        return "portable", PortableTransport
    try:
        return "pump", _pump()
    except ImportError:
        if wanted:
            raise
    return "portable", PortableTransport


def _pump() -> Opener:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("the pump relies on the GIL, which is off in this interpreter")
    opener: Opener = importlib.import_module("pykafka4.net.pump.transport").PumpTransport
    return opener


LOOP, _opener = _choose(os.environ.get("PYKAFKA4_LOOP"))


def open_transport(max_frame: int, helper: Helper, post: Post) -> Transport:
    """A transport for a new loop. See `net.transport.Transport`."""
    return _opener(max_frame, helper, post)
