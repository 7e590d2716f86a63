"""Chooses the next call for a free worker. Invariant: partitions with waiting calls take turns; calls of one partition keep their order.

So the backlog of one partition delays the next record of another partition by at most one call, not by the complete backlog.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from pykafka4.records import TopicPartition

__all__ = ["PartitionTurns"]

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class PartitionTurns:
    """Calls that wait for a worker. The owner of this object calls `add`, `take` and `clear` under a lock."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: OrderedDict[TopicPartition, deque[Call]] = OrderedDict()  # the partition whose turn it is comes first

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, tp: TopicPartition, call: Call) -> None:
        self._calls.setdefault(tp, deque()).append(call)

    def take(self) -> Call:
        """Raises KeyError if no call waits."""
        tp, calls = self._calls.popitem(last=False)
        call = calls.popleft()
        if calls:
            self._calls[tp] = calls
        return call

    def clear(self) -> None:
        self._calls.clear()
