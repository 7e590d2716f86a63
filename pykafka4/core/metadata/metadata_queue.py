"""Chooses the topics of the next Metadata request: each topic when it is due, but after many requests without success only
within a common budget.

Topics that were requested many times without success are in rotation: together they are limited to BUDGET per round
(`retry_backoff_max_ms`), so that thousands of topics without a leader cost no more than hundreds. Outages rarely end for one topic alone,
so when a response contains a change, all topics in rotation become due, at most once per round.

The cluster sets the times: `Cluster._pace` has the backoff of a single topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff
from pykafka4.options.config import ClientConfig

__all__ = ["ROTATES_AFTER", "MetadataQueue", "within_budget"]

ROTATES_AFTER = 8  # failed attempts after which a topic is in rotation with others: about five seconds with default options
AT_ONCE = 2000  # the limit of one request, in the unit of BUDGET: the loop takes up to 10 ms for a response of this cost
BUDGET = 3000  # the limit per round; the unit is the cost of one partition, about 3 µs to decode and compare
TOPIC = 5  # the cost of a topic without its partitions, in the same unit


def within_budget(names: list[str], partitions: Callable[[str], int]) -> list[str]:
    """The first of `names`, as many as AT_ONCE allows, but at least one."""
    left = AT_ONCE
    for number, name in enumerate(names):
        left -= TOPIC + partitions(name)
        if left < 0 < number:  # `0 < number`: a topic that is larger than AT_ONCE would otherwise never be requested
            return names[:number]
    return names


class MetadataQueue:
    """The topics to request, and when each is due. The empty name stands for the list of brokers."""

    __slots__ = ("_due", "_next_round", "_next_rush", "_rotation", "_round", "_rush")

    def __init__(self, config: ClientConfig, random: Random) -> None:
        longest = config.retry_backoff_max_ms / 1000
        self._round = Backoff(longest, longest, random)
        self._due: dict[str, float] = {}
        self._rotation: dict[str, int] = {}  # name -> cost, in the order of rotation
        self._next_round = self._next_rush = -INFINITY
        self._rush = False  # a response contained a change: the next rush takes all topics in rotation

    def __contains__(self, name: str) -> bool:
        return name in self._due or name in self._rotation

    def __len__(self) -> int:
        return len(self._due) + len(self._rotation)

    def in_rotation(self, name: str) -> bool:
        return name in self._rotation

    def put(self, name: str, when: float) -> None:
        """Request `name` at `when` or earlier."""
        self._rotation.pop(name, None)
        self._due[name] = min(when, self._due.get(name, INFINITY))

    def put_in_rotation(self, name: str, partitions: int) -> None:
        """Put `name`, a topic with this number of partitions, in rotation, unless it is already queued."""
        if name not in self:
            self._rotation[name] = TOPIC + partitions

    def discard(self, name: str) -> None:
        self._due.pop(name, None)
        self._rotation.pop(name, None)

    def note_change(self) -> None:
        self._rush = bool(self._rotation)

    @property
    def due_at(self) -> float:
        first = min(self._due.values(), default=INFINITY)
        if not self._rotation:
            return first
        return min(first, self._next_round, self._next_rush if self._rush else INFINITY)

    def due(self, now: float, soon: float) -> list[str]:
        """The names to request now: all that are due by `soon`, and in a new round as many topics in rotation as the budget allows."""
        if self._rush and now >= self._next_rush:
            self._rush = False
            self._next_rush = self._next_round = now + self._round.next()
            for name in list(self._rotation):
                self.put(name, now)
        names = [name for name, when in self._due.items() if when <= soon]
        if now >= self._next_round:
            left = BUDGET
            for name, cost in self._rotation.items():
                if cost > left and left < BUDGET:  # the first topic always fits, however large it is
                    break
                left -= cost
                names.append(name)
        return names

    def asked(self, names: Iterable[str], now: float) -> None:
        """Remove the requested `names`, and set the time of the next round if one of them was in rotation."""
        turns = False
        for name in names:
            turns = self._rotation.pop(name, None) is not None or turns
            self._due.pop(name, None)
        if turns:
            self._next_round = now + self._round.next()
