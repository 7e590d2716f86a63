"""The state of the spool as values, and the protocols of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from pykafka4.agent.message import Message, Reason
from pykafka4.wire.records.hot import Delivery

__all__ = ["Discards", "Sender", "SpoolState", "SpooledTopic"]


@attrs.frozen
class SpooledTopic:
    """What the disk holds of a topic. `messages` are only on disk, `sent` also in the producer's memory.

    `restored` messages were on disk when the agent started, whatever became of them since. `oldest_ms` is the earliest timestamp of the
    oldest segment, as its client wrote it; None without messages.
    """

    messages: int
    sent: int
    bytes: int
    restored: int
    oldest_ms: int | None


@attrs.frozen
class SpoolState:
    """The spool at a moment. `failure` says why the disk takes nothing now; None: it does. `counting`: old segments are still counted.

    `topics` has each topic that has messages on disk, or had some at the start. `damaged_bytes` were not readable.
    """

    bytes: int
    max_size: int
    topics: Mapping[str, SpooledTopic]
    damaged_bytes: int = 0
    failure: str | None = None
    failing_for_s: float | None = None
    counting: bool = False


class Discards(Protocol):
    """Counts messages that the spool could not keep: the ledger."""

    def discarded(self, message: Message, reason: Reason) -> None:
        """The message is lost, for this reason."""

    def damaged(self, topic: str, count: int) -> None:
        """So many messages were on disk, and cannot be read any more; at least so many, if a length was damaged."""

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        """So many messages failed in the producer for this reason, but are on disk."""


class Sender(Protocol):
    """Sends what is on disk: the router."""

    def send_spooled(self, message: Message) -> Delivery | None:
        """Send a message that was on disk; None: it was discarded, and counted.

        Raises KafkaError or MemoryError if it has to wait: there is no room, or the producer has ended or failed.
        """

    def hurry(self) -> None:
        """Send what was accepted so far without linger. Called on a thread; it may block for a moment."""
