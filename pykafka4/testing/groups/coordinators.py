"""Groups and their coordinators. Rule: a group has one coordinator, and its members and offsets move with it."""

from __future__ import annotations

from random import Random
from uuid import UUID

from pykafka4.testing.broker import Brokers
from pykafka4.testing.groups.group import Group
from pykafka4.testing.timeline import Timeline

__all__ = ["Coordinators"]


class Coordinators:
    """`interrupts_sync`: see `Group`. `replication_lag`: seconds until a new coordinator returns the offsets committed last."""

    def __init__(self, brokers: Brokers, timeline: Timeline, random: Random, interrupts_sync: bool, replication_lag: float) -> None:
        self._brokers, self._timeline, self._random = brokers, timeline, random
        self._interrupts_sync, self._replication_lag = interrupts_sync, replication_lag
        self.groups: dict[str, Group] = {}
        self._moved: dict[str, int] = {}  # group: its coordinator, if it has moved
        self._loading: dict[str, float] = {}  # group: until when its coordinator loads

    def group(self, name: str) -> Group:
        """The group; it is created if it does not exist."""
        if name not in self.groups:
            self.groups[name] = Group(name, self._timeline, self._member_id, self._interrupts_sync)
        return self.groups[name]

    def _member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self._random.getrandbits(128))}"

    def _last(self, group: str) -> int:
        """Its last coordinator, running or not."""
        return self._moved.get(group, sorted(self._brokers)[sum(group.encode()) % len(self._brokers)])

    def of(self, group: str) -> int | None:
        """The broker that coordinates `group`; None while no broker runs."""
        node, alive = self._last(group), self._brokers.alive()
        if node in alive:
            return node
        return self.move(group, alive[sum(group.encode()) % len(alive)]) if alive else None

    def move(self, group: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Let another broker coordinate the group, after `loading` seconds; returns the new coordinator."""
        before = self._last(group)
        others = [node for node in self._brokers.alive() if node != before] or [before]
        self._moved[group] = self._random.choice(others) if to is None else to
        self._loading[group] = self._timeline.now + loading
        if group in self.groups:
            self.groups[group].kill(self._replication_lag)
        return self._moved[group]

    def loading(self, group: str) -> bool:
        """Whether the coordinator still reads the group's state."""
        return self._loading.get(group, 0.0) > self._timeline.now

    def heal(self) -> None:
        """No coordinator is loading any more."""
        self._loading.clear()
