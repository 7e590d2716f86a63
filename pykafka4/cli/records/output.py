"""Standard output as bytes. Rule: what `write` has returned from is with the operating system, so a commit may follow it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

__all__ = ["Write", "standard_output"]

Write = Callable[[bytes], object]


def standard_output() -> Write:
    """Writes bytes to standard output at once. Raises OSError, BrokenPipeError among them, if they cannot be written."""
    sys.stdout.flush()
    try:
        number = sys.stdout.buffer.fileno()
    except (OSError, AttributeError):  # of a test, or replaced by the program
        return _Replaced().write
    return _Descriptor(number).write


class _Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, data: bytes) -> None:
        """All of it: the system may take a part at a time."""
        written = os.write(self._number, data) if data else 0
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[os.write(self._number, rest) :]


class _Replaced:
    def write(self, data: bytes) -> None:
        """To whatever stands for standard output."""
        out = getattr(sys.stdout, "buffer", None)
        sys.stdout.write(data.decode(errors="backslashreplace")) if out is None else out.write(data)
        sys.stdout.flush()
