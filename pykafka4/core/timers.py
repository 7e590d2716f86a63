"""Keeps calls until they are due. Times are monotonic seconds; while no call is due, a check looks only at the earliest call."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from pykafka4.core import INFINITY

__all__ = ["Timers"]


class Timers:
    """A heap of calls and their times. Calls cannot be cancelled: a call that is no longer needed must do nothing."""

    __slots__ = ("_heap", "_ties")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._ties = count()  # orders calls with equal times: otherwise the heap would compare functions, and raise TypeError

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call `act(now)` in the first `run` at `when` or later."""
        heapq.heappush(self._heap, (when, next(self._ties), act))

    def run(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2](now)

    @property
    def wake_at(self) -> float:
        return self._heap[0][0] if self._heap else INFINITY
