"""The three standard streams. Invariant: output that no reader can get is an error, never a silence: `consume` commits what it has written.

A stream that the caller closed (`>&-`, `<&-`) has an open descriptor in its place, which else the first socket would get. Reading closed
standard input and writing closed standard output fail there, as they do in other programs. Closed standard error swallows its lines.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Final, TextIO

__all__ = ["STDIN", "STDOUT", "explained", "fill_closed", "lose", "named"]

STDIN: Final = "standard input"
STDOUT: Final = "standard output"
MODES: Final = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
# Of a write without a file's name: to a command's only output.
OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
CLOSED: Final = "closed by the program that started this one; give a file, a pipe or /dev/null"


def fill_closed() -> None:
    """Open /dev/null for each closed stream, in this order: each gets the descriptor that its name stands for."""
    for name, mode, access in MODES:
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode, encoding="utf-8"))


def lose(stream: TextIO) -> None:
    """Drop the buffer of a stream that cannot be written: at its end the interpreter would try again, and change the exit code."""
    with contextlib.suppress(OSError, ValueError):  # a stream of a test has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def named(thing: str) -> Iterator[None]:
    """A `with` block in which an OSError without a file's name gets this one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # an error of the operating system
            error.filename = error.filename or thing
        raise


def explained(error: OSError) -> str:
    """The error's text without its number, and with the thing that it is about."""
    if error.strerror is None:
        return str(error)
    thing = error.filename or (STDOUT if error.errno in OUTPUT_ERRORS else "")
    text = CLOSED if error.errno == errno.EBADF else error.strerror
    return f"{thing}: {text}" if thing else text
