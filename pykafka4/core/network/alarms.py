"""Tells `Network` when to check each endpoint again. Invariant: an endpoint has at most one alarm (`Endpoint.alarm`); an entry of
the heap with another time is outdated.

The reason for an alarm may be gone when its time comes: a response moves deadlines to a later time, and leaves the alarm as it is.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from itertools import count

from pykafka4.core import INFINITY
from pykafka4.core.network.endpoint import Endpoint

__all__ = ["Alarms"]


class Alarms:
    __slots__ = ("_heap", "_ties")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Endpoint]] = []  # an endpoint's entry is valid only if its time is `Endpoint.alarm`
        self._ties = count()

    def set(self, endpoint: Endpoint, when: float) -> None:
        """`when` must be earlier than the current alarm of `endpoint`."""
        endpoint.alarm = when
        heappush(self._heap, (when, next(self._ties), endpoint))

    def next(self) -> float:
        """Return the time of the first alarm, or INFINITY, after moving or removing the outdated alarms at the front."""
        heap = self._heap
        while heap:
            when, tie, endpoint = heap[0]
            due = endpoint.due() if endpoint.alarm == when else INFINITY  # otherwise the entry is outdated
            if due <= when:
                return when
            if endpoint.alarm == when:
                endpoint.alarm = due
            if due == INFINITY:
                heappop(heap)
            else:
                heapreplace(heap, (due, tie, endpoint))
        return INFINITY

    def take(self, now: float) -> list[Endpoint]:
        due = []
        while self.next() <= now:
            endpoint = heappop(self._heap)[2]
            endpoint.alarm = INFINITY
            due.append(endpoint)
        return due
