"""Waits on locks and selectors, and requests the GIL at the end of a wait. Without the compiled flag, for a `Lock` on systems other than
Linux, and for a selector without `fileno`, these are the waits of the standard library.

`Lock` is for any thread, `Turn` for a portable loop. The compiled pump asks for the GIL itself.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from pykafka4.gil.flag import compiled
from pykafka4.native import allocate_lock, monotonic

__all__ = ["Lock", "Turn"]

SLICE_S: Final = 1.0  # longest part of a wait: a signal that comes just before the system call is handled only after it


class PlainLock:
    """A lock of the standard library that waits in slices."""

    __slots__ = ("_lock", "locked", "release")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.locked, self.release = self._lock.locked, self._lock.release

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        until = monotonic() + timeout if timeout >= 0 else float("inf")
        while not self._lock.acquire(False):
            left = until - monotonic() if blocking else 0.0
            if left <= 0:
                return False
            if self._lock.acquire(True, min(left, SLICE_S)):
                break
        return True


Lock: Any = compiled.Lock if compiled is not None and sys.platform == "linux" else PlainLock


class Turn:
    """Keeps the flag raised between the waits of a portable loop, whose other system calls also release the GIL."""

    __slots__ = ("_up",)

    def __init__(self) -> None:
        self._up = False

    def wait(self, selector: Any, timeout: float) -> float:
        """Wait until `selector` has events, up to `timeout` seconds, then raise the flag. Return the timeout for `select`, 0.

        Without the compiled flag, and for a selector without `fileno`, return `timeout`: then `select` waits.
        """
        if compiled is None or not hasattr(selector, "fileno"):
            return timeout
        self.end()
        compiled.wait(selector.fileno(), timeout)
        self._up = True
        return 0.0

    def end(self) -> None:
        if self._up:
            self._up = False
            compiled.done()
