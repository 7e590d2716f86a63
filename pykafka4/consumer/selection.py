"""Selection. Rule: only calls of the application change what a consumer reads; the loss of partitions changes only what it may commit."""

from __future__ import annotations

import attrs

from pykafka4.records import TopicPartition

__all__ = ["Selection"]


@attrs.define
class Selection:
    """The subscribed topics with their listener, and the partitions of `assign`."""

    topics: tuple[str, ...] = ()
    listener: object | None = None
    by_hand: dict[TopicPartition, None] = attrs.Factory(dict)
    lost: str = ""  # why the partitions of the group were lost, until there are new ones
