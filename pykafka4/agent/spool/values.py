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
    """A topic's messages on disk: `messages` are still to be sent, `sent` messages are not done.

    `restored` messages were on disk when the agent started, and may have left since. `oldest_ms` is a timestamp from the oldest
    segment: of its first message, or of the first message that was not done at the start. None without segments, or if unknown.
    """

    messages: int
    sent: int
    bytes: int
    restored: int
    oldest_ms: int | None


@attrs.frozen
class SpoolState:
    """The spool at a moment.

    `failure` is the last recorded refusal of the disk, until a write succeeds; otherwise the failure of the last sync.

    `topics` has each topic with messages on disk, now or at the start. `damaged_bytes` were not readable. While `counting` is True, some
    old segments are not counted yet.
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
    """Counts messages that the spool has lost, and failed messages that are on disk. Implemented by the ledger."""

    def discarded(self, message: Message, reason: Reason) -> None:
        """Count a lost message."""

    def damaged(self, topic: str, count: int) -> None:
        """Count messages that can no longer be read. `count` may be too low."""

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        """Count messages that failed in the producer, but are on disk."""


class Sender(Protocol):
    """Sends messages from the disk. Implemented by the router."""

    def send_spooled(self, message: Message) -> Delivery | None:
        """Send a message; return None if the message was discarded and counted.

        Raises KafkaError or MemoryError if the message must wait: there is no room, or the producer has ended or crashed.
        """

    def hurry(self) -> None:
        """Let the producer send its messages without linger. A thread of the spool makes this call, which may block."""
