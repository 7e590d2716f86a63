"""Shape. Rule: leaders are dealt round over all topics, so the first partitions of the cluster are led by all brokers."""

from __future__ import annotations

import attrs

__all__ = ["Place", "Shape"]

Place = tuple[str, int]  # topic, partition


@attrs.frozen
class Shape:
    """How large a cluster is: `partitions` of each of `topics`, over `brokers`."""

    brokers: int
    topics: int
    partitions: int

    @property
    def total(self) -> int:
        """The partitions of all topics."""
        return self.topics * self.partitions

    @property
    def names(self) -> list[str]:
        """The topics."""
        return [f"scale-{number:04d}" for number in range(self.topics)]

    @property
    def places(self) -> list[Place]:
        """Every partition."""
        return [(name, partition) for name in self.names for partition in range(self.partitions)]

    def leaders(self, topic: int) -> list[int]:
        """The brokers that lead the partitions of a topic, given by its number; brokers count from 1."""
        return [(topic * self.partitions + partition) % self.brokers + 1 for partition in range(self.partitions)]

    @property
    def base(self) -> list[Place]:
        """One partition on each broker: what a client costs that is connected to all of them."""
        return self.places[: self.brokers]
