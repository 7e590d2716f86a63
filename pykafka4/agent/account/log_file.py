"""Appends lines to a file, rotates the file, and removes old archives. Invariant: after a failed write, the file is cut to
complete lines, unless this cut or an earlier cut fails.

Only one thread may use a LogFile. When the next line does not fit, and FILE is not empty, FILE becomes the archive FILE.MS. MS is the time
in milliseconds since the epoch, or one more than the newest archive's number if that is higher.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["LogFile"]

MODE = 0o600  # the file has messages of applications


class LogFile:
    """The open file. After another program (logrotate) has renamed or removed the file, the next `append` opens a new one."""

    def __init__(self, path: Path, max_size: int, max_archive_size: int, wall_clock: Callable[[], float]) -> None:
        """Sizes are in bytes; the clock is in seconds since the epoch. Opens no file."""
        self._path, self._max_size, self._max_archive_size, self._wall_clock = path, max_size, max_archive_size, wall_clock
        self._fd: int | None = None
        self._size = 0  # bytes of the file before the next write
        self._newest = 0  # the number of the newest archive

    def open(self) -> None:
        """Open the file and remove old archives, unless the current file is open. Raises OSError."""
        if self._fd is None or not self._is_current(self._fd):
            self.close()
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
            with contextlib.suppress(OSError):  # archives that cannot be removed must not stop the log
                self._remove_archives()
        # Not counted: if a cut has failed, the file is larger than its complete lines, and the next cut would remove lines that count as
        # written.
        self._size = os.fstat(self._fd).st_size

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def append(self, lines: list[bytes]) -> tuple[int, OSError | None]:
        done = 0
        try:
            while done < len(lines):
                self.open()
                done += self._append_fitting(lines, done)
        except OSError as error:
            return done, error
        return done, None

    def _append_fitting(self, lines: list[bytes], start: int) -> int:
        """Write the lines from `start` on that fit, at least one, if necessary after a rotation. Returns their number."""
        if self._size and self._size + len(lines[start]) > self._max_size:
            self._rotate()
        end, size = start + 1, self._size + len(lines[start])
        while end < len(lines) and size + len(lines[end]) <= self._max_size:
            size += len(lines[end])
            end += 1
        self._write(b"".join(lines[start:end]))
        return end - start

    def _write(self, data: bytes) -> None:
        """Write all of `data`, or try to cut the file to its previous size and raise OSError."""
        assert self._fd is not None
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with contextlib.suppress(OSError):  # a full disk may take a part of a line, to which the next line would be joined
                os.ftruncate(self._fd, self._size)
            raise

    def _rotate(self) -> None:
        self.close()
        # Archives with low numbers are removed first. After the wall clock has been set back, the time alone would give the newest archive
        # a low number.
        number = max(int(self._wall_clock() * 1000), self._newest + 1)
        self._path.rename(self._path.with_name(f"{self._path.name}.{number}"))
        self._newest = number
        self.open()

    def _remove_archives(self) -> None:
        """Remove the oldest archives, until the others fit into `max_archive_size`. Raises OSError; the next call tries again."""
        prefix = self._path.name + "."
        found = []
        for path in self._path.parent.iterdir():
            number = path.name.removeprefix(prefix)
            # FILE.old or FILE.gz belongs to another program.
            if path.name.startswith(prefix) and number.isdecimal() and number.isascii() and path.is_file():
                found.append((int(number), path))
        self._newest = max([self._newest, *(number for number, _ in found)])
        left = sum(path.stat().st_size for _, path in found)
        for _, path in sorted(found):
            if left <= self._max_archive_size:
                break
            left -= path.stat().st_size
            path.unlink()

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
