"""Syncs written files to the disk, in one thread. Invariant: with `always`, a byte is on the disk when the sync that runs
while it is written, and the next one, have ended. Bytes that are written meanwhile share that one.

The thread opens each file itself, so that the loop may close or delete files at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from pykafka4.agent.settings.values import Sync
from pykafka4.logs import get_log

__all__ = ["Syncing"]

log = get_log("pykafka4.agent.spool")


class Syncing:
    """The files that were written and are not synced yet."""

    def __init__(self, policy: Sync, clock: Callable[[], float]) -> None:
        self._policy, self._clock = policy, clock
        self.failure: str | None = None  # why the last sync failed
        self.failing_since = 0.0
        self._lock = Lock()
        self._waiting: set[Path] = set()
        self._running = False
        self._thread = ThreadPoolExecutor(1, "pykafka4-spool-sync")

    def written(self, path: Path) -> None:
        """The file or folder has new bytes."""
        if self._policy is Sync.NEVER:
            return
        with self._lock:
            self._waiting.add(path)
        if self._policy is Sync.ALWAYS:
            self.begin()

    def begin(self) -> None:
        """Sync what waits; returns at once."""
        with self._lock:
            if self._running or not self._waiting:
                return
            self._running = True
        self._thread.submit(self._run)

    def close(self) -> None:
        """Sync what waits, and end the thread. Blocks."""
        self.begin()
        self._thread.shutdown()

    def _run(self) -> None:
        while True:
            with self._lock:
                paths, self._waiting = self._waiting, set()
                self._running = bool(paths)
            if not paths:
                return
            failures = [failure for failure in map(_sync, paths) if failure is not None]
            self._note(failures[0] if failures else None)

    def _note(self, failure: str | None) -> None:
        if failure is not None and self.failure is None:
            self.failing_since = self._clock()
            log.warning("spool: cannot %s; a loss of power would lose the messages written since: look at the kernel's log", failure)
        elif failure is None and self.failure is not None:
            log.warning("spool: files are synced again (it could not %s)", self.failure)
        self.failure = failure


def _sync(path: Path) -> str | None:
    """What failed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # deleted meanwhile: its messages are done
        return None
    try:
        os.fsync(fd)
    except OSError as refused:
        return f"sync {path}: {refused.strerror or refused}"
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
    return None
