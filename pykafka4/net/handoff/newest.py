"""The result of the newest of several calls that may overlap. Rule: the lock is held for assignments only."""

from __future__ import annotations

from typing import Generic, TypeVar

from pykafka4.net import system

__all__ = ["Newest"]

T = TypeVar("T")


class Newest(Generic[T]):
    """Keeps what the call that began last has returned. For several threads."""

    __slots__ = ("_begun", "_kept", "_lock", "value")

    def __init__(self) -> None:
        self._lock = system.RLock()
        self._begun = self._kept = 0
        self.value: T | None = None

    def begin(self) -> int:
        """The number of a call that begins now."""
        with self._lock:
            self._begun += 1
            return self._begun

    def keep(self, number: int, value: T | None) -> None:
        """The result of that call, unless a later one has already returned."""
        with self._lock:
            if number > self._kept:
                self._kept, self.value = number, value
