"""Syncs written files to the disk, in one thread.

Invariant: with `always`, the sync of written bytes begins at once, or when the running sync ends. All bytes written during one sync share
the next sync: a group commit.

The thread opens each file itself, so that the loop may delete files at any time.
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
    """The files to sync, and the thread that syncs them."""

    def __init__(self, policy: Sync, clock: Callable[[], float]) -> None:
        self._policy, self._clock = policy, clock
        self.failure: str | None = None  # of the last sync; None after a success
        self.failing_since = 0.0
        self._lock = Lock()
        self._waiting: set[Path] = set()  # files with new bytes, or whose sync failed
        self._is_due = False  # a file was written after the last sync had begun, or `begin` has just submitted a sync
        self._running = False
        self._thread = ThreadPoolExecutor(1, "pykafka4-spool-sync")

    def written(self, path: Path) -> None:
        """Add a file or folder to the next sync, except with `never`. With `always`, also begin the sync.

        The sync of a folder saves the names of new files.
        """
        if self._policy is Sync.NEVER:
            return
        with self._lock:
            self._waiting.add(path)
            self._is_due = True
        if self._policy is Sync.ALWAYS:
            self.begin()

    def begin(self) -> None:
        """Begin a sync, unless one is running or no file waits; return at once."""
        with self._lock:
            if self._running or not self._waiting:
                return
            self._running = self._is_due = True
        self._thread.submit(self._run)

    def close(self) -> None:
        """Sync the added files, and end the thread. Blocks."""
        self.begin()
        self._thread.shutdown()

    def _run(self) -> None:
        while True:
            # The flags change under one lock: otherwise a `begin` between the check of `_is_due` and `_running = False` would start no
            # sync, and the new file would wait for the next `begin`.
            with self._lock:
                self._running, self._is_due = self._is_due, False
                if not self._running:
                    return
                paths, self._waiting = self._waiting, set()
            failures = {path: failure for path in paths if (failure := _sync(path)) is not None}
            with self._lock:
                self._waiting |= failures.keys()  # without these files, the next sync would report success
            self._note(next(iter(failures.values()), None))

    def _note(self, failure: str | None) -> None:
        if failure is not None and self.failure is None:
            self.failing_since = self._clock()
            log.warning(
                "spool: cannot %s; a loss of power would lose the messages written since the last successful sync: "
                "see the error and the kernel's log",
                failure,
            )
        elif failure is None and self.failure is not None:
            log.warning("spool: files can be synced again (the spool could not %s)", self.failure)
        self.failure = failure


def _sync(path: Path) -> str | None:
    """Sync a file or folder; return the failure as text, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # deleted or moved meanwhile
        return None
    except OSError as refused:  # such as EMFILE
        return f"open {path} to sync it: {refused.strerror or refused}"
    try:
        os.fsync(fd)
    except OSError as refused:
        return f"sync {path}: {refused.strerror or refused}"
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
    return None
