"""Declares events of a client, which machines emit and `Client.events` passes to the application. Events are frozen values."""

from __future__ import annotations

import enum
from typing import Final, Protocol

import attrs

from pykafka4.records import TopicPartition

__all__ = ["BrokerAdded", "BrokerRemoved", "NOBODY", "EventSink", "LossReason", "MetadataChanged", "OffsetsLost"]


class EventSink(Protocol):
    """The receiver of all events, even of events that do not concern the metadata."""

    def emit(self, event: object) -> None:
        """Pass `event` on to `Client.events`. This method runs on the loop thread, and must not block."""


class _Nobody:
    def emit(self, event: object) -> None:
        """Discard `event`."""


NOBODY: Final = _Nobody()


@attrs.frozen
class BrokerAdded:
    """Event: the cluster has a new broker, or a broker has a new address."""

    node: int
    host: str
    port: int


@attrs.frozen
class BrokerRemoved:
    """Event: a broker has left the cluster, or no longer has this address."""

    node: int
    host: str
    port: int


@attrs.frozen
class MetadataChanged:
    """Event: leaders, topics or brokers changed."""

    version: int


class LossReason(enum.Enum):
    """The reason for lost offsets."""

    REMOVED = "the log no longer has them (retention or DeleteRecords)"
    RESET = "the position was out of range, and auto_offset_reset chose a later one"
    TRUNCATED = "an unclean leader election truncated the log"
    RECREATED = "the topic was deleted and created again"
    DELETED = "the topic was deleted"


@attrs.frozen
class OffsetsLost:
    """Event: the offsets of `tp` from `first` up to `until` (not included) are lost for a consumer of the client.

    For TRUNCATED, the consumer has fetched these offsets: the log now has other records there, or none. For RECREATED and DELETED, `until`
    is the end of the log that the consumer saw last, but not below `first`: later records may be lost as well.
    """

    tp: TopicPartition
    first: int
    until: int
    reason: LossReason
