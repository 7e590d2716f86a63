"""Timers. Rule: monotonic times only; what is due is found without looking at the rest."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from pykafka4.core import INFINITY

__all__ = ["Timers"]


class Timers:
    """A heap of things to do at a time. There is no cancelling: what is no longer wanted finds nothing to do."""

    __slots__ = ("_heap", "_ties")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._ties = count()

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call `act(now)` at the first `run` from `when` on."""
        heapq.heappush(self._heap, (when, next(self._ties), act))

    def run(self, now: float) -> None:
        """Do everything due at `now`, in order of time."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2](now)

    @property
    def wake_at(self) -> float:
        """When the next is due."""
        return self._heap[0][0] if self._heap else INFINITY
