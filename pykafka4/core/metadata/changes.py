"""Topic changes. Rule: a machine looks at a topic again only after something happened to it, and once for all that happened since.

A turn costs what changed, not what there is: each machine that uses the metadata has a `TopicChanges` of its own, and keeps an index from
topic to whatever it has of that topic. What is added to such an index looks at the metadata by itself: only later changes come here.
"""

from __future__ import annotations

from pykafka4.core.metadata.cluster import Change, Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.records import TopicPartition

__all__ = ["TopicChanges"]


class TopicChanges:
    """Topics whose metadata changed, and partitions that came back online, since one machine last took them."""

    __slots__ = ("_cluster", "_online", "_recovery", "_topics")

    def __init__(self, cluster: Cluster, recovery: Recovery | None = None) -> None:
        """Without `recovery` only topics are collected: for machines that send nothing to leaders."""
        self._cluster, self._recovery = cluster, recovery
        self._topics: set[str] = set()
        self._online: dict[TopicPartition, None] = {}
        cluster.on_change.append(self._changed)
        if recovery is not None:
            recovery.on_online.append(self._came_online)

    def __bool__(self) -> bool:
        return bool(self._topics or self._online)

    def note(self, topic: str) -> None:
        """Have `topic` taken once more, although nothing happened to it."""
        self._topics.add(topic)

    def take_topics(self) -> list[str]:
        """The topics with another id, other leaders or another error than before. Sorted: a set's order differs between processes."""
        if not self._topics:
            return []
        topics, self._topics = self._topics, set()
        return sorted(topics)

    def take_online(self) -> list[TopicPartition]:
        """The partitions that can be sent to again, in the order in which they came back."""
        if not self._online:
            return []
        online, self._online = self._online, {}
        return list(online)

    def end(self) -> None:
        """The machine is gone: collect nothing for it. Ending twice is ending once."""
        if self._changed in self._cluster.on_change:
            self._cluster.on_change.remove(self._changed)
        if self._recovery is not None and self._came_online in self._recovery.on_online:
            self._recovery.on_online.remove(self._came_online)
        self._topics.clear()
        self._online.clear()

    def _changed(self, change: Change) -> None:
        self._topics |= change.topics

    def _came_online(self, tp: TopicPartition) -> None:
        self._online[tp] = None
