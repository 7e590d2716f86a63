"""Accounts and reports as values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka4.agent.message import Reason

__all__ = ["Account", "Discards", "Report", "TopicAccount"]


@attrs.frozen
class Discards:
    """Discarded messages of a topic: how many for each reason; the first and last timestamp (ms since the epoch, or None)."""

    by_reason: Mapping[Reason, int] = attrs.Factory(dict)
    first_ms: int | None = None
    last_ms: int | None = None

    @property
    def count(self) -> int:
        """Messages, whatever the reason."""
        return sum(self.by_reason.values())


@attrs.frozen
class TopicAccount:
    """Messages of a topic, or of all: accepted = acknowledged + queued + spooled + discards.count. `queued` includes messages in flight."""

    accepted: int
    acknowledged: int
    queued: int
    spooled: int  # on disk, and not in the producer's memory
    discards: Discards = Discards()


@attrs.frozen
class Account:
    """The account since the agent's start. `refused` counts what was no message; `others` are topics without a row in `topics`."""

    total: TopicAccount
    topics: Mapping[str, TopicAccount]
    others: TopicAccount
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    possible_duplicates: int = 0


@attrs.frozen
class Report:
    """The discards of an interval. Lists have the 25 newest distinct entries; prefixes are at most `prefix_size` bytes.

    `number` counts the intervals; `started_at` is in seconds since the epoch.
    """

    number: int
    started_at: int
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    topics: Mapping[str, Discards] = attrs.Factory(dict)
    possible_duplicates: Mapping[str, Discards] = attrs.Factory(dict)  # sent again, perhaps after they were written
    versions: Mapping[int, int] = attrs.Factory(dict)  # unsupported versions, with the number of messages
    recent_malformed: tuple[bytes, ...] = ()
    recent_unclean_unix: tuple[bytes, ...] = ()
    recent_unclean_tcp: tuple[bytes, ...] = ()
    recent_bad_topics: tuple[str, ...] = ()
    recent_too_long: tuple[bytes, ...] = ()  # topic, space, value
