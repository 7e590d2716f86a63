"""Guards the three standard streams. Invariant: output to a closed standard output raises an error, at the latest when it is flushed,
because `consume` commits written records.

A stream that the caller closed (`>&-`, `<&-`) gets an open descriptor: otherwise a file or socket would get the number of the stream.
Reads and writes of such a stream fail, as in other programs; but a closed standard error swallows its lines.
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
# Errors of a write. `explained` takes such an error, if it has no file name, for an error of standard output.
OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
CLOSED: Final = "closed by the program that started this one; give a file, a pipe or /dev/null"


def fill_closed() -> None:
    """Open /dev/null for each closed stream. `open` takes the lowest free number, so in this order each stream gets its own number."""
    for name, mode, access in MODES:
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode, encoding="utf-8"))


def lose(stream: TextIO) -> None:
    """Redirect a failed stream to /dev/null; otherwise the interpreter writes the buffer at exit, fails, and changes the exit code."""
    with contextlib.suppress(OSError, ValueError):  # a stream of a test has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def named(thing: str) -> Iterator[None]:
    """In a `with` block, name `thing` in an OSError without a file name, and in the error for bytes that are not UTF-8."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # other errors have their own text
            error.filename = error.filename or thing
        raise
    except UnicodeDecodeError:  # its text has a byte, perhaps of a password
        raise OSError(f"{thing}: is not UTF-8 text") from None


def explained(error: OSError) -> str:
    """The name of the file or stream, if known, then CLOSED for a closed stream, otherwise the error's text without its number."""
    if error.strerror is None:
        return str(error)
    thing = error.filename or (STDOUT if error.errno in OUTPUT_ERRORS else "")
    text = CLOSED if error.errno == errno.EBADF else error.strerror
    return f"{thing}: {text}" if thing else text
