"""Writes bytes to standard output. Invariant: when `write` returns, standard output has the bytes, so that a commit may follow."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

__all__ = ["Write", "standard_output"]

Write = Callable[[bytes], object]


def standard_output() -> Write:
    """Return a function that writes at once, and raises OSError, such as BrokenPipeError, if a write fails."""
    sys.stdout.flush()  # earlier text comes first: the writes below bypass the buffer of `sys.stdout`
    try:
        number = sys.stdout.buffer.fileno()
    except (OSError, AttributeError):  # a test or a program has replaced standard output
        return _Replaced().write
    return _Descriptor(number).write


class _Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, data: bytes) -> None:
        """Write all of `data`, although the system may take only a part at a time."""
        written = os.write(self._number, data) if data else 0
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[os.write(self._number, rest) :]


class _Replaced:
    def write(self, data: bytes) -> None:
        out = getattr(sys.stdout, "buffer", None)
        sys.stdout.write(data.decode(errors="backslashreplace")) if out is None else out.write(data)
        sys.stdout.flush()
