"""Keeps the subscription and the partitions of `assign`. Invariant: no rebalance changes them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import attrs

from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerRun", "Selection"]


class ConsumerRun(Protocol):
    """A run of `process` or streams, which uses a consumer until the run ends. It also has the methods of a listener."""

    def committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets after the finished records: during a run, polled records need not be finished."""

    def paused_by_application(self, tps: Collection[TopicPartition]) -> None:
        """Leave these partitions paused from now on, even if the run has paused them itself."""


@attrs.define
class Selection:
    topics: tuple[str, ...] = ()  # subscribed by name
    filter: TopicFilter | None = None  # the patterns of the subscription
    listener: object | None = None  # the application's listener
    run: ConsumerRun | None = None  # receives rebalance events, then forwards them to the listener
    by_hand: dict[TopicPartition, None] = attrs.Factory(dict)  # the partitions of `assign`
    lost: str = ""  # why the group's partitions were lost, if that was the last rebalance event

    @property
    def subscribed(self) -> bool:
        return bool(self.topics) or self.filter is not None

    def selects(self, topic: str) -> bool:
        """Whether the subscription may contain `topic`; the coordinator matches a `SubscriptionPattern` by its own rules."""
        chosen = self.filter
        return topic in self.topics or (chosen is not None and (chosen.regex is not None or chosen.matches(topic)))
