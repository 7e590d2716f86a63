"""Decides what the next metadata request asks for.

A topic is asked for as soon as it is due. Topics that were asked for many times in vain take turns: all of them together are limited to
BUDGET a round (`retry_backoff_max_ms`), so that thousands of topics without a leader cost no more than hundreds. Outages rarely end for one
topic alone: when an answer brings news, all topics that take turns are due at once, at most once a round.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY
from pykafka4.core.backoff import Backoff

__all__ = ["IN_TURNS", "MetadataQueue"]

IN_TURNS = 8  # attempts in vain after which a topic takes turns with others: about five seconds by default
BUDGET = 3000  # for one round, in the cost of a partition: decoding and comparing take about 3 µs for each
TOPIC = 5  # the cost of a topic without its partitions, in that of a partition


class MetadataQueue:
    """Names to ask for, and from when on. The empty name stands for the list of brokers."""

    __slots__ = ("_due", "_next_round", "_next_rush", "_round", "_rush", "_turns")

    def __init__(self, config: ClientConfig, random: Random) -> None:
        longest = config.retry_backoff_max_ms / 1000
        self._round = Backoff(longest, longest, random)
        self._due: dict[str, float] = {}
        self._turns: dict[str, int] = {}  # name -> cost, the next one first
        self._next_round = self._next_rush = -INFINITY
        self._rush = False  # there was news: the next rush takes all that take turns

    def __contains__(self, name: str) -> bool:
        return name in self._due or name in self._turns

    def __len__(self) -> int:
        return len(self._due) + len(self._turns)

    def in_turns(self, name: str) -> bool:
        """Whether `name` waits for its turn."""
        return name in self._turns

    def put(self, name: str, when: float) -> None:
        """Ask for `name` from `when` on."""
        self._turns.pop(name, None)
        self._due[name] = min(when, self._due.get(name, INFINITY))

    def put_in_turns(self, name: str, partitions: int) -> None:
        """Ask for `name`, a topic of so many partitions, when it is its turn; earlier if it is queued already."""
        if name not in self:
            self._turns[name] = TOPIC + partitions

    def discard(self, name: str) -> None:
        """Do not ask for `name`."""
        self._due.pop(name, None)
        self._turns.pop(name, None)

    def news(self) -> None:
        """An answer told something new: perhaps the others changed as well."""
        self._rush = bool(self._turns)

    @property
    def due_at(self) -> float:
        """When something is due; INFINITY: nothing is queued."""
        first = min(self._due.values(), default=INFINITY)
        if not self._turns:
            return first
        return min(first, self._next_round, self._next_rush if self._rush else INFINITY)

    def due(self, now: float, soon: float) -> list[str]:
        """What to ask for now: all that is due by `soon`, and of those that take turns as many as the budget allows."""
        if self._rush and now >= self._next_rush:
            self._rush = False
            self._next_rush = self._next_round = now + self._round.next()
            for name in list(self._turns):
                self.put(name, now)
        names = [name for name, when in self._due.items() if when <= soon]
        if now >= self._next_round:
            left = BUDGET
            for name, cost in self._turns.items():
                if cost > left and left < BUDGET:
                    break
                left -= cost
                names.append(name)
        return names

    def asked(self, names: Iterable[str], now: float) -> None:
        """These are being asked for."""
        turns = False
        for name in names:
            turns = self._turns.pop(name, None) is not None or turns
            self._due.pop(name, None)
        if turns:
            self._next_round = now + self._round.next()
