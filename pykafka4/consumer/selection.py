"""Selection. Rule: only calls of the application change what a consumer reads; the loss of partitions changes only what it may commit."""

from __future__ import annotations

import attrs

from pykafka4.core.group.topic_filter import TopicFilter
from pykafka4.records import TopicPartition

__all__ = ["Selection"]


@attrs.define
class Selection:
    """The subscribed topics with their listener, and the partitions of `assign`."""

    topics: tuple[str, ...] = ()  # by name
    filter: TopicFilter | None = None  # by pattern
    listener: object | None = None
    by_hand: dict[TopicPartition, None] = attrs.Factory(dict)
    lost: str = ""  # why the partitions of the group were lost, until there are new ones

    @property
    def subscribed(self) -> bool:
        """Whether there is a subscription, by name or by pattern."""
        return bool(self.topics) or self.filter is not None
