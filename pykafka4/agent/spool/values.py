"""Defines the state of the spool as values, and the protocols of the spool's neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from pykafka4.agent.message import Message, Reason
from pykafka4.wire.records.hot import Delivery

__all__ = ["Discards", "Sender", "SpoolState", "SpooledTopic"]


@attrs.frozen
class SpooledTopic:
    """The messages of a topic on disk. `messages` counts messages that are only on disk, `sent` messages that the producer has in memory as
    well.

    `restored` messages were on disk when the agent started, whether or not they are still there. `oldest_ms` is the timestamp of the
    oldest segment's first message, as its client wrote it; None without messages, or if the timestamp is unknown.
    """

    messages: int
    sent: int
    bytes: int
    restored: int
    oldest_ms: int | None


@attrs.frozen
class SpoolState:
    """The spool at a moment. `failure` is the reason why the disk now refuses writes, or files cannot be synced; otherwise None.

    `topics` has each topic with messages on disk, now or at the start. `damaged_bytes` were not readable. `counting` is True while old
    segments have messages that are not counted yet.
    """

    bytes: int
    max_size: int
    topics: Mapping[str, SpooledTopic]
    damaged_bytes: int = 0
    failure: str | None = None
    failing_for_s: float | None = None
    counting: bool = False
    only_syncs_fail: bool = False  # the disk takes messages, although there is a failure


class Discards(Protocol):
    """Counts messages that the spool has lost, and failed messages that are on disk. The ledger implements this protocol."""

    def discarded(self, message: Message, reason: Reason) -> None:
        """Count a lost message."""

    def damaged(self, topic: str, count: int) -> None:
        """Count messages that cannot be read from the disk any more. If a length is damaged, `count` is the least possible number."""

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        """Count messages that failed in the producer for this reason, but are on disk."""


class Sender(Protocol):
    """Sends messages from the disk. The router implements this protocol."""

    def send_spooled(self, message: Message) -> Delivery | None:
        """Send a message from the disk. Returns None if the message was discarded and counted.

        Raises KafkaError or MemoryError if the message must wait, because there is no room, or the producer has ended or crashed.
        """

    def hurry(self) -> None:
        """Let the producer send its messages without linger. A thread of the spool makes this call, which may block for a moment."""
