"""Counts the topics, partitions and brokers of a cluster, and names the leaders.

Invariant: the brokers take turns as leaders, across the topics, so that each of them leads one of the first partitions.
"""

from __future__ import annotations

import attrs

__all__ = ["Place", "Shape"]

Place = tuple[str, int]  # topic, partition


@attrs.frozen
class Shape:
    brokers: int
    topics: int
    partitions: int

    @property
    def total(self) -> int:
        return self.topics * self.partitions

    @property
    def names(self) -> list[str]:
        return [f"scale-{number:04d}" for number in range(self.topics)]

    @property
    def places(self) -> list[Place]:
        return [(name, partition) for name in self.names for partition in range(self.partitions)]

    def leaders(self, topic: int) -> list[int]:
        """Broker ids start at 1."""
        return [(topic * self.partitions + partition) % self.brokers + 1 for partition in range(self.partitions)]

    @property
    def base(self) -> list[Place]:
        """One partition on each broker, for a client that is connected to all brokers."""
        return self.places[: self.brokers]
