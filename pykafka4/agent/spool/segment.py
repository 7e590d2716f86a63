"""Writes and reads one file with frames, header and progress. Invariant: if `append` raises OSError, `size` stays the same.

No file stays open: a spool may have more topics than a process can have open files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pykafka4.agent.spool import frames

__all__ = ["BLOCK", "OUT_OF", "Segment", "allocated"]

BLOCK: Final = 4096  # bytes; files count in whole blocks, a folder as one block
FILE_MODE: Final = 0o600
OUT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # the system lacks resources now; the file may be readable later


def allocated(size: int) -> int:
    """Return the bytes on the disk for a file of `size` bytes."""
    return -(-size // BLOCK) * BLOCK


class Segment:
    """A file with frames of one topic. `start` and `done` are the progress: the offset after the done frames, and their number.

    `count` is the number of frames, None before an old segment is counted. A `sealed` segment gets no more frames.
    """

    __slots__ = ("_saved", "count", "damaged", "done", "number", "oldest_ms", "path", "sealed", "size", "start", "used")

    def __init__(self, folder: Path, number: int, size: int = 0, *, count: int | None = None) -> None:
        self.path, self.number, self.size, self.count = folder / f"{number:020d}.seg", number, size, count
        self.start = self._saved = frames.FIRST
        self.done = 0
        self.used = 0  # bytes of this file in `Disk.bytes`
        self.oldest_ms: int | None = None
        self.sealed = self.damaged = False

    @classmethod
    def create(cls, folder: Path, number: int) -> Segment:
        """Create a file with a header. Raises OSError."""
        segment = cls(folder, number, count=0)
        try:
            with _opened(segment.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
                _write(fd, frames.header())
        except OSError:
            # A full disk leaves a file without a complete header, which would make the next attempt with this number fail.
            if segment.path.exists() and segment.path.stat().st_size < frames.FIRST:
                segment.path.unlink()
            raise
        segment.size = frames.FIRST
        return segment

    def append(self, data: bytes, count: int, first_ms: int) -> None:
        """Write complete frames. `first_ms` is the first message's timestamp. Raises OSError; `size` is then as before."""
        with _opened(self.path, os.O_WRONLY) as fd:
            try:
                _write(fd, data, self.size)
            except OSError:
                os.ftruncate(fd, self.size)
                raise
        if self.oldest_ms is None:
            self.oldest_ms = first_ms
        self.size += len(data)
        self.count = (self.count or 0) + count

    def seal(self) -> None:
        """Write the seal. If this raises OSError, the next agent reads the file to count the frames."""
        self.sealed = True
        data = frames.seal(self.count or 0)
        with _opened(self.path, os.O_WRONLY) as fd:
            _write(fd, data, self.size)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`. Raises OSError. Any thread may call this."""
        length = min(length, self.size - offset)
        with _opened(self.path, os.O_RDONLY) as fd:
            return os.pread(fd, length, offset)

    def inspect(self) -> int:
        """Read the progress of an old file and count its frames; return the size of a torn end in bytes.

        Raises OSError, or ValueError for a file with a wrong header. Any thread may call this.
        """
        if self.size < frames.FIRST:  # an incomplete header: the file has no frames
            torn, self.size, self.count = self.size, frames.FIRST, 0
            return torn
        self.start, self.done = frames.read_header(self.read(0, frames.FIRST))
        self._saved = self.start
        count = frames.read_seal(self.read(max(frames.FIRST, self.size - frames.SEAL_SIZE), frames.SEAL_SIZE))
        if count is not None:
            self.size -= frames.SEAL_SIZE
            self.count = count
            return 0
        data = self.read(self.start, self.size)
        found = frames.salvage(data)
        torn = len(data) - found.end
        self.size -= torn
        # A damaged range counts as one message. If `count` left it out, the spool would not read a range after the last frame, and
        # would delete the file as empty, without counting the loss.
        self.count = self.done + len(found.frames) + len(found.damaged)
        return torn

    def save_progress(self) -> None:
        """Write the progress into the header, if it has changed. Raises OSError."""
        if self.start != self._saved:
            with _opened(self.path, os.O_WRONLY) as fd:
                os.pwrite(fd, frames.progress(self.start, self.done), frames.PROGRESS_AT)
            self._saved = self.start


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        yield fd
    finally:
        os.close(fd)


def _write(fd: int, data: bytes, offset: int = 0) -> None:
    """Write all bytes. A nearly full disk may take a part; the next `pwrite` then raises OSError."""
    done = os.pwrite(fd, data, offset)
    while done < len(data):
        done += os.pwrite(fd, memoryview(data)[done:], offset + done)
