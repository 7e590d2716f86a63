"""Latches. Rule: a latch is for one thread to sleep on; opening it twice, or before the thread sleeps, wakes it once."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from pykafka4.net import system

__all__ = ["Latch", "new_latch", "open_latch"]


class Latch(Protocol):
    """What `open_latch` needs: a lock, or for a task of an asyncio loop something that wakes it."""

    def locked(self) -> bool:
        """Whether it is closed."""

    def release(self) -> object:
        """Open it."""


def new_latch() -> Any:
    """A lock that is acquired now, and released to wake the thread."""
    latch = system.Lock()
    latch.acquire()
    return latch


def open_latch(latch: Latch) -> None:
    """Wake the thread that sleeps on `latch`, or is about to."""
    if latch.locked():
        with contextlib.suppress(RuntimeError):  # another thread was faster
            latch.release()
