"""Keeps all groups and their coordinators. Invariant: a group has at most one coordinator, and members and offsets survive a move."""

from __future__ import annotations

from random import Random
from uuid import UUID

from pykafka4.testing.broker import Brokers
from pykafka4.testing.groups.group import Group
from pykafka4.testing.groups.modern import ConsumerProtocolGroup
from pykafka4.testing.placement import Placement
from pykafka4.testing.storage.partition import Topics
from pykafka4.testing.timeline import Timeline

__all__ = ["Coordinators"]


class Coordinators(Placement):
    """`interrupts_sync`: see `Group`. `replication_lag`: seconds until a new coordinator knows that its log is replicated."""

    def __init__(
        self, brokers: Brokers, topics: Topics, timeline: Timeline, random: Random, interrupts_sync: bool, replication_lag: float
    ) -> None:
        super().__init__(brokers, timeline, random)
        self._topics, self._interrupts_sync, self._replication_lag = topics, interrupts_sync, replication_lag
        self.session_timeout = 45.0  # seconds; this and `heartbeat_interval` are for groups with the consumer protocol
        self.heartbeat_interval = 5.0
        self.groups: dict[str, Group] = {}

    def group(self, name: str) -> Group:
        """The group is created if it does not exist."""
        if name not in self.groups:
            modern = ConsumerProtocolGroup(self._timeline, self._topics, self.session_timeout)
            self.groups[name] = Group(name, self._timeline, self._member_id, self._interrupts_sync, modern)
        return self.groups[name]

    def _member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self._random.getrandbits(128))}"

    def move(self, key: str, to: int | None = None, *, loading: float = 0.0) -> int:
        super().move(key, to, loading=loading)
        if key in self.groups:
            self.groups[key].change_coordinator(self._replication_lag)
        return self._moved[key]

    def serves(self, group: str) -> bool:
        node = self.coordinator_of(group)
        return node is not None and self._brokers[node].running(self._timeline.now) and not self.loading(group)
