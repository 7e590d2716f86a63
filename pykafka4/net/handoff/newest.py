"""Keeps the result of the newest of several calls that may overlap. Invariant: an older call never replaces a newer call's result."""

from __future__ import annotations

from typing import Generic, TypeVar

from pykafka4.net import system

__all__ = ["Newest"]

T = TypeVar("T")


class Newest(Generic[T]):
    """The result of the newest call that has returned. For any thread; the lock is held for assignments only."""

    __slots__ = ("_begun", "_kept", "_lock", "value")

    def __init__(self) -> None:
        self._lock = system.RLock()
        self._begun = self._kept = 0
        self.value: T | None = None

    def begin(self) -> int:
        with self._lock:
            self._begun += 1
            return self._begun

    def keep(self, number: int, value: T | None) -> None:
        """Keep `value`, the result of the call `number`, unless a newer call has already returned."""
        with self._lock:
            if number > self._kept:
                self._kept, self.value = number, value
