"""Latches. Rule: a latch is for one thread to sleep on; opening it twice, or before the thread sleeps, wakes it once."""

from __future__ import annotations

import contextlib

from pykafka4.net import system

__all__ = ["new_latch", "open_latch"]


def new_latch() -> system.Lock:
    """A lock that is acquired now, and released to wake the thread."""
    latch = system.Lock()
    latch.acquire()
    return latch


def open_latch(latch: system.Lock) -> None:
    """Wake the thread that sleeps on `latch`, or is about to."""
    if latch.locked():
        with contextlib.suppress(RuntimeError):  # another thread was faster
            latch.release()
