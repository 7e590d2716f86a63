"""Selection. Rule: only calls of the application change what a consumer reads; the loss of partitions changes only what it may commit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import attrs

from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Run", "Selection"]


class Run(Protocol):
    """`process` or streams, which use a consumer until they end. Before the application's listener it has at least the same methods."""

    def safe(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind what is finished of each partition: what the application has polled says nothing about that."""

    def paused_by_application(self, tps: Collection[TopicPartition]) -> None:
        """The run does not resume these, even if it has paused them itself."""


@attrs.define
class Selection:
    """The subscribed topics with their listener, and the partitions of `assign`."""

    topics: tuple[str, ...] = ()  # by name
    filter: TopicFilter | None = None  # by pattern
    listener: object | None = None  # of the application
    run: Run | None = None  # receives rebalance events, then forwards them to the listener
    by_hand: dict[TopicPartition, None] = attrs.Factory(dict)
    lost: str = ""  # why the partitions of the group were lost, until there are new ones

    @property
    def subscribed(self) -> bool:
        """Whether there is a subscription, by name or by pattern."""
        return bool(self.topics) or self.filter is not None

    def selects(self, topic: str) -> bool:
        """Whether the subscription may contain `topic`; the coordinator matches a `SubscriptionPattern` by rules of its own."""
        chosen = self.filter
        return topic in self.topics or (chosen is not None and (chosen.regex is not None or chosen.matches(topic)))
