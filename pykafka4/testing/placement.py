"""Chooses the coordinators of groups and transactional ids. Invariant: a key (a group id or transactional id) has at most one
coordinator.

A key moves when `coordinator_of` finds that its coordinator is down and another broker runs, or when a test orders the move.
"""

from __future__ import annotations

from random import Random

from pykafka4.testing.broker import Brokers
from pykafka4.testing.timeline import Timeline

__all__ = ["Placement"]


class Placement:
    def __init__(self, brokers: Brokers, timeline: Timeline, random: Random) -> None:
        self._brokers, self._timeline, self._random = brokers, timeline, random
        self._moved: dict[str, int] = {}  # key: its coordinator, if it has moved
        self._loading: dict[str, float] = {}  # key: the time until which its coordinator loads the key's state

    def _last(self, key: str) -> int:
        """The last coordinator of `key`, running or not."""
        return self._moved.get(key, sorted(self._brokers)[sum(key.encode()) % len(self._brokers)])

    def coordinator_of(self, key: str) -> int | None:
        """None while no broker runs."""
        node, alive = self._last(key), self._brokers.alive()
        if node in alive:
            return node
        return self.move(key, alive[sum(key.encode()) % len(alive)]) if alive else None

    def move(self, key: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Let `to`, by default another running broker if there is one, coordinate `key`; return the new coordinator.

        The coordinator first loads the state of `key` for `loading` seconds.
        """
        before = self._last(key)
        others = [node for node in self._brokers.alive() if node != before] or [before]
        self._moved[key] = self._random.choice(others) if to is None else to
        self._loading[key] = self._timeline.now + loading
        return self._moved[key]

    def loading(self, key: str) -> bool:
        return self._loading.get(key, 0.0) > self._timeline.now

    def heal(self) -> None:
        self._loading.clear()
