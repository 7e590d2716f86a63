"""Attempts. Rule: where a thread would wait in `send`, an attempt raises WouldBlock: a task of an asyncio loop waits instead.

The loop of the application runs on one thread, and a call of `send` does not suspend it, so an attempt belongs to its thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum

from pykafka4.errors import BufferFull
from pykafka4.net import system

__all__ = ["Attempts", "For", "WouldBlock"]


class For(Enum):
    """What a `send` waits for."""

    ROOM = "room"
    PARTITION = "partition"
    TOPIC = "topic"


class WouldBlock(BufferFull):
    """`send` would have to wait; nothing was accepted. An application sees it only in a destructor that runs during an attempt."""

    def __init__(self, reason: str, awaits: For, topic: str, partition: int, size: int = 0) -> None:
        super().__init__(reason)
        self.awaits, self.topic, self.partition, self.size = awaits, topic, partition, size


class Attempts:
    """The threads that are in an attempt."""

    __slots__ = ("_granted",)

    def __init__(self) -> None:
        self._granted: dict[int, For | None] = {}  # by thread: what it need not wait for, because it has waited

    @contextlib.contextmanager
    def attempt(self, granted: For | None = None) -> Iterator[None]:
        """In this block `send` raises WouldBlock instead of waiting."""
        thread = system.get_ident()
        self._granted[thread] = granted
        try:
            yield
        finally:
            self._granted.pop(thread, None)

    @property
    def here(self) -> bool:
        """Whether the calling thread is in an attempt."""
        return bool(self._granted) and system.get_ident() in self._granted

    def granted(self, awaits: For) -> bool:
        """Whether this attempt was preceded by waiting for that."""
        return self._granted.get(system.get_ident()) is awaits
