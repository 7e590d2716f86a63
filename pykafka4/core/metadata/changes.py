"""Collects the changed topics, and the partitions that came online again, until a machine takes them.

Rule: a machine checks a topic only after the topic has changed, and once for all its changes since the last check. So the cost of a turn
depends on the number of changed topics, not on the number of topics. Exceptions are a share consumer and a consumer without a
group, which check all their partitions after any change. Each machine that follows this rule has its own `TopicChanges`, and an index from
each topic to the machine's state of that topic. A machine reads the metadata when it adds a topic to this index, because `TopicChanges`
collects only later changes.
"""

from __future__ import annotations

from pykafka4.core.metadata.cluster import Cluster, MetadataChange
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.records import TopicPartition

__all__ = ["TopicChanges"]


class TopicChanges:
    """The topics whose metadata changed, and the partitions that came online again, since the machine last took them."""

    __slots__ = ("_cluster", "_online", "_recovery", "_topics")

    def __init__(self, cluster: Cluster, recovery: Recovery | None = None) -> None:
        """Without `recovery`, only topics are collected, for machines that send no requests to leaders."""
        self._cluster, self._recovery = cluster, recovery
        self._topics: set[str] = set()
        self._online: dict[TopicPartition, None] = {}
        cluster.on_change.append(self._changed)
        if recovery is not None:
            recovery.on_online.append(self._came_online)

    def __bool__(self) -> bool:
        return bool(self._topics or self._online)

    def note(self, topic: str) -> None:
        self._topics.add(topic)

    def take_topics(self) -> list[str]:
        """Return the topics sorted, because the order of a set differs between processes."""
        if not self._topics:
            return []
        topics, self._topics = self._topics, set()
        return sorted(topics)

    def take_online(self) -> list[TopicPartition]:
        if not self._online:
            return []
        online, self._online = self._online, {}
        return list(online)

    def end(self) -> None:
        """A second call does nothing."""
        if self._changed in self._cluster.on_change:
            self._cluster.on_change.remove(self._changed)
        if self._recovery is not None and self._came_online in self._recovery.on_online:
            self._recovery.on_online.remove(self._came_online)
        self._topics.clear()
        self._online.clear()

    def _changed(self, change: MetadataChange) -> None:
        self._topics |= change.topics

    def _came_online(self, tp: TopicPartition) -> None:
        self._online[tp] = None
