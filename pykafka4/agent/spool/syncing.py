"""Syncs written files to the disk, in one thread. Invariant: with `always`, no byte waits for longer than the sync that runs and its own.

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

__all__ = ["Syncing"]


class Syncing:
    """The files that were written and are not synced yet."""

    def __init__(self, policy: Sync, fail: Callable[[str, OSError], None]) -> None:
        """`fail` is called on the thread, with what the disk refused."""
        self._policy, self._fail = policy, fail
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
            for path in paths:
                self._sync(path)

    def _sync(self, path: Path) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # deleted meanwhile: its messages are done
            return
        try:
            os.fsync(fd)
        except OSError as refused:
            self._fail(f"sync {path}", refused)
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)
