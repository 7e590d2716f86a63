"""Alarms. Rule: an endpoint has at most one alarm that counts, and it is looked at no later than it is due.

What an alarm was set for may be over when its time comes: responses only move deadlines to a later time, and nobody moves the alarm.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from itertools import count

from pykafka4.core import INFINITY
from pykafka4.core.network.endpoint import Endpoint

__all__ = ["Alarms"]


class Alarms:
    """When to look at each endpoint again."""

    __slots__ = ("_heap", "_ties")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Endpoint]] = []  # the one that counts for an endpoint is its `alarm`
        self._ties = count()

    def set(self, endpoint: Endpoint, when: float) -> None:
        """Look at `endpoint` at `when`, which is earlier than its alarm."""
        endpoint.alarm = when
        heappush(self._heap, (when, next(self._ties), endpoint))

    def next(self) -> float:
        """When the first endpoint is due. The first alarm is corrected until it counts."""
        heap = self._heap
        while heap:
            when, tie, endpoint = heap[0]
            due = endpoint.due() if endpoint.alarm == when else INFINITY  # else an earlier one was set in its place
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
        """The endpoints that are due; they have no alarm any more."""
        due = []
        while self.next() <= now:
            endpoint = heappop(self._heap)[2]
            endpoint.alarm = INFINITY
            due.append(endpoint)
        return due
