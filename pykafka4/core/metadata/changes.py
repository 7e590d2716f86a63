"""Collects the changed topics, and the partitions that came online again, until a machine takes them.

So a machine can check a topic only after a change, and once for all changes since the last check: the cost of its turn then depends on the
number of changed topics, not on the number of topics. A machine that begins to use a topic reads the metadata of the topic, or calls
`note`, because `TopicChanges` collects only later changes.
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
        """Without `recovery`, only topics are collected."""
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
