"""Keeps the state of the disk that the FIFOs of all topics share: used bytes, files to be synced, the current failure.

Invariant: `bytes` counts each file and folder of the FIFOs, even files that the disk refuses to remove. `Spool.add` and `ending` check
`max_size` before messages are written.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pykafka4.agent.settings.values import SpoolSettings
from pykafka4.agent.spool.segment import BLOCK, Segment, allocated
from pykafka4.agent.spool.syncing import Syncing
from pykafka4.logs import get_log

__all__ = ["Disk"]

log = get_log("pykafka4.agent.spool")

MIB: Final = 1024 * 1024
# A segment leaves the disk as a whole. Smaller segments free room sooner, larger ones need fewer files.
LARGEST_SEGMENT: Final = 8 * MIB
SMALLEST_SEGMENT: Final = 64 * 1024
PARTS: Final = 64  # a segment is full at 1/64 of max_size, within the limits above
DAMAGED_PART: Final = 8  # damaged segments may use 1/8 of max_size, at least LARGEST_SEGMENT, in addition to max_size
RETRY_S: Final = 1.0  # seconds of pause after a refusal of the disk; doubles
LONGEST_RETRY_S: Final = 30.0
MOST_REMOVED: Final = 50  # files that one call of `remove_left` removes
WAYS_OUT: Final = {
    errno.ENOSPC: "make room on the file system of the spool, or lower [spool] max_size",
    errno.EDQUOT: "raise the disk quota, or lower [spool] max_size",
    errno.EROFS: "remount the file system of the spool for writing",
    errno.EACCES: "give the agent's user the folder of the spool, with everything in it",
    errno.EIO: "read the kernel's log: the device is failing",
}


class Disk:
    """The state of the disk below the spool's folder. `bytes` counts whole blocks, as the file system does."""

    def __init__(self, settings: SpoolSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = settings.path
        self.max_size = settings.max_size
        self.segment_size = max(SMALLEST_SEGMENT, min(LARGEST_SEGMENT, settings.max_size // PARTS))
        self.bytes = 0
        self.damaged_bytes = 0
        self.failure: str | None = None
        self.failing_since = 0.0
        self.syncing = Syncing(settings.sync, clock)
        self._clock = clock
        self._retry_at = self._retry_s = 0.0
        self._left: deque[Segment] = deque()  # files that the disk has refused to remove; no FIFO has them any more

    def refuses(self) -> bool:
        """Whether the pause after the last refusal still lasts."""
        return self.failure is not None and self._clock() < self._retry_at

    def trouble(self) -> tuple[str | None, float | None]:
        """Return the current failure and its age in seconds, or None for both."""
        if self.failure is not None:
            return f"cannot {self.failure}", self._clock() - self.failing_since
        if self.syncing.failure is not None:
            return f"cannot {self.syncing.failure}", self._clock() - self.syncing.failing_since
        return None, None

    def fail(self, what: str, refused: OSError) -> None:
        """Record a refusal, and begin the pause. A series of refusals gets one log line."""
        reason = f"{what}: {refused.strerror or refused}"
        now = self._clock()
        if self.failure is None:
            self.failing_since, self._retry_s = now, RETRY_S
            way_out = WAYS_OUT.get(refused.errno or 0, "see the error")
            log.warning(
                "spool: cannot %s; messages that cannot wait in memory are discarded until the disk works again: %s", reason, way_out
            )
        else:
            self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)
        self.failure, self._retry_at = reason, now + self._retry_s

    def succeed(self) -> None:
        if self.failure is not None:
            log.warning(
                "spool: the disk works again after %.0f s (the spool could not %s)", self._clock() - self.failing_since, self.failure
            )
            self.failure = None

    def probe(self) -> None:
        """Write a block after a failure, when the pause has ended.

        Without messages, no other write would show that the disk works again, and the pages would go on showing the failure.
        """
        if self.failure is None or self.refuses():
            return
        path = self.folder / "probe"
        try:
            path.write_bytes(bytes(BLOCK))
            path.unlink()
        except OSError as refused:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            self.fail(f"write to {path}", refused)
        else:
            self.succeed()

    def account(self, segment: Segment) -> None:
        used = allocated(segment.size)
        self.bytes += used - segment.used
        segment.used = used

    def remove(self, segment: Segment) -> None:
        """Delete a file whose messages are done; set aside a file with unreadable bytes. If the disk refuses, `remove_left` tries again."""
        if (refused := self._try_to_remove(segment)) is not None:
            self.fail(f"remove {segment.path}", refused)

    def remove_left(self) -> None:
        """Try again to remove up to MOST_REMOVED files, until the first refusal.

        A refusal is not recorded again: the disk may still take writes, for example if only one folder has another owner.
        """
        for _ in range(min(len(self._left), MOST_REMOVED)):
            if self._try_to_remove(self._left.popleft()) is not None:
                break

    def free_number(self, folder: Path, number: int) -> int:
        """Return the lowest number, from `number` on, above all files in `folder` that the disk has refused to remove."""
        return max([number, *(left + 1 for left in self._left_in(folder))])

    def free_number_in_front(self, folder: Path, number: int) -> int:
        """Return the highest number, up to `number`, below all files in `folder` that the disk has refused to remove."""
        return min([number, *(left - 1 for left in self._left_in(folder))])

    def _left_in(self, folder: Path) -> list[int]:
        return [segment.number for segment in self._left if segment.path.parent == folder]

    def _try_to_remove(self, segment: Segment) -> OSError | None:
        try:
            if segment.damaged and segment.path.exists():
                self._set_aside(segment)
            else:
                segment.path.unlink(missing_ok=True)
                self._forget(segment)
        except OSError as refused:
            if segment.used:
                self._left.append(segment)
            # The file stays: without its progress, the next agent would send its messages again.
            with contextlib.suppress(OSError):
                segment.save_progress()
            return refused
        return None

    def _forget(self, segment: Segment) -> None:
        self.bytes -= segment.used
        segment.used = 0

    def _set_aside(self, segment: Segment) -> None:
        folder = self.folder / "damaged"
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = folder / f"{segment.path.parent.name}-{segment.path.name}"[-250:]
        segment.path.replace(kept)
        self._forget(segment)
        log.warning("spool: %s is kept as %s", segment.path, kept)
        try:
            self._remove_oldest(folder)
        except OSError as refused:  # not a failure of the spool: the segment is already set aside
            log.warning("spool: cannot remove older files from %s: %s", folder, refused)

    def _remove_oldest(self, folder: Path) -> None:
        """Remove the oldest damaged files, until the others fit into their part of the disk; keep the newest. Raises OSError."""
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        used = sum(allocated(file.stat().st_size) for file in files)
        for file in files[:-1]:
            if used <= max(self.max_size // DAMAGED_PART, LARGEST_SEGMENT):
                break
            used -= allocated(file.stat().st_size)
            file.unlink()

    def add_folder(self, path: Path) -> None:
        """Make the folder of a topic. Raises OSError."""
        path.mkdir(mode=0o700, exist_ok=True)
        self.bytes += BLOCK
        self.syncing.written(self.folder / "topics")

    def remove_folder(self, path: Path) -> None:
        """Remove the folder of a topic, unless the folder has other files: then `rmdir` refuses."""
        self.bytes -= BLOCK
        with contextlib.suppress(OSError):
            path.rmdir()
