"""Makes and opens latches: a latch is a lock on which one thread sleeps. Invariant: an opening before the sleep is not
lost, so the thread wakes at once."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from pykafka4.net import system

__all__ = ["Latch", "new_latch", "open_latch"]


class Latch(Protocol):
    """The argument of `open_latch`: a lock, or an object that wakes a task of an asyncio loop."""

    def locked(self) -> bool:
        """Whether the latch is closed."""

    def release(self) -> object:
        """Open the latch."""


def new_latch() -> Any:
    """Return a closed latch: an acquired lock, whose release wakes the thread."""
    latch = system.Lock()
    latch.acquire()
    return latch


def open_latch(latch: Latch) -> None:
    """Wake the thread that sleeps on `latch`, or that is about to sleep."""
    if latch.locked():
        with contextlib.suppress(RuntimeError):  # another thread has opened the latch since the line above
            latch.release()
