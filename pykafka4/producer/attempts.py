"""Marks the threads on which `send` must not wait. Invariant: in an attempt `send` raises WouldBlock at the point where it would wait.

An asyncio task calls `send` in an attempt, awaits the end of the obstacle that WouldBlock names, and calls `send` again. Attempts are
listed by thread, because the task is not suspended during an attempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum

from pykafka4.errors import BufferFull
from pykafka4.net import system

__all__ = ["Attempts", "Obstacle", "WouldBlock"]


class Obstacle(Enum):
    ROOM = "room"
    PARTITION = "partition"
    TOPIC = "topic"


class WouldBlock(BufferFull):
    """Raised where `send` would have to wait. The record or raw batch was not accepted."""

    def __init__(self, reason: str, awaits: Obstacle, topic: str, partition: int, size: int = 0) -> None:
        super().__init__(reason)
        self.awaits, self.topic, self.partition, self.size = awaits, topic, partition, size


class Attempts:
    __slots__ = ("_granted",)

    def __init__(self) -> None:
        self._granted: dict[int, Obstacle | None] = {}  # by thread: the obstacle whose end its task has awaited, if any

    @contextlib.contextmanager
    def attempt(self, granted: Obstacle | None = None) -> Iterator[None]:
        """In this block `send` raises WouldBlock instead of waiting. `granted` is the obstacle whose end the task has awaited, if any."""
        thread = system.get_ident()
        self._granted[thread] = granted
        try:
            yield
        finally:
            self._granted.pop(thread, None)

    @property
    def is_attempt(self) -> bool:
        return bool(self._granted) and system.get_ident() in self._granted

    def has_waited_for(self, awaits: Obstacle) -> bool:
        return self._granted.get(system.get_ident()) is awaits
