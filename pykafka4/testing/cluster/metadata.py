"""Gives each broker its view of the cluster. During a fault, the view may be outdated or incomplete."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import attrs

from pykafka4.testing.broker import Brokers
from pykafka4.testing.storage.partition import Partition, Topics
from pykafka4.testing.timeline import Timeline

__all__ = ["Metadata", "Snapshot"]


@attrs.frozen
class Snapshot:
    """`topics` has for each topic its id, and (leader, epoch, replicas, in-sync replicas) of each partition."""

    brokers: tuple[int, ...]
    controller: int
    topics: Mapping[str, tuple[UUID, tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]]]
    coordinators: Mapping[str, int] = attrs.Factory(dict)  # by group; only in a snapshot that `deafen` keeps


class Metadata:
    def __init__(self, brokers: Brokers, topics: Topics, timeline: Timeline) -> None:
        self._brokers, self._topics, self._timeline = brokers, topics, timeline
        self._hidden: dict[str, float] = {}  # topic: the time until which it is left out
        self._stale: tuple[Snapshot, float] | None = None  # the state that brokers return, and the time until which they do
        self._deaf: dict[int, tuple[Snapshot, float]] = {}  # broker: the state that it returns, and until when

    def snapshot(self, node: int | None = None) -> Snapshot:
        """`node` None: the state for a broker that is not deaf."""
        now = self._timeline.now
        outdated, until = self._deaf.get(node or 0, (None, 0.0))
        if outdated is not None and now < until:
            return outdated
        if self._stale is not None and now < self._stale[1]:
            return self._stale[0]
        self._stale = None
        return Snapshot(
            tuple(self._brokers.alive()),
            self._brokers.controller,
            {
                name: (topic.id, tuple((p.leader, p.epoch, p.replicas, tuple(p.in_sync)) for p in topic.partitions))
                for name, topic in self._topics.items()
                if self._hidden.get(name, 0.0) <= now
            },
        )

    def make_stale(self, seconds: float) -> None:
        self._stale = (self.snapshot(), self._timeline.now + seconds)

    def deafen(self, node: int, seconds: float, coordinators: Mapping[str, int]) -> None:
        self._deaf[node] = (attrs.evolve(self.snapshot(), coordinators=coordinators), self._timeline.now + seconds)

    def was_replaced(self, node: int, partition: Partition) -> bool:
        """Whether `node` is deaf, and still believes that it leads `partition`, although it no longer does."""
        known, until = self._deaf.get(node, (None, 0.0))
        if known is None or self._timeline.now >= until or partition.leader == node:
            return False
        _, partitions = known.topics.get(partition.tp.topic, (None, ()))
        return any(leader == node for leader, *_ in partitions[partition.tp.partition :][:1])

    def hide(self, topic: str, seconds: float) -> None:
        self._hidden[topic] = self._timeline.now + seconds

    def heal(self) -> None:
        self._hidden.clear()
        self._stale = None
        self._deaf.clear()
