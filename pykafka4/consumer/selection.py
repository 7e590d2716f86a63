"""Selection. Rule: only calls of the application change what it reads; a loss changes what it may commit."""

from __future__ import annotations

import attrs

from pykafka4.records import TopicPartition

__all__ = ["Selection"]


@attrs.define
class Selection:
    """The topics subscribed to, with the listener, and the partitions assigned by hand."""

    topics: tuple[str, ...] = ()
    listener: object | None = None
    by_hand: dict[TopicPartition, None] = attrs.Factory(dict)
    lost: str = ""  # why the group's partitions were lost, until there are new ones
