"""Defines the values that count messages: accounts since the agent's start, and reports of discards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from pykafka4.agent.message import Reason

__all__ = ["Account", "Discards", "Repeats", "Report", "TopicAccount", "merged"]


@attrs.frozen
class Discards:
    """Discarded messages by reason, with the earliest and latest timestamp, in milliseconds since the epoch, None if unknown."""

    by_reason: Mapping[Reason, int] = attrs.Factory(dict)
    first_ms: int | None = None
    last_ms: int | None = None

    @property
    def count(self) -> int:
        return sum(self.by_reason.values())


@attrs.frozen
class Repeats:
    """Acknowledged messages that may be in Kafka twice, with the earliest and latest timestamp."""

    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


def merged(parts: Iterable[Discards]) -> Discards:
    """Return the sum of several discards, with the earliest and latest timestamp of all."""
    counts: Counter[Reason] = Counter()
    first_ms = last_ms = None
    for part in parts:
        counts.update(part.by_reason)
        if part.first_ms is not None and (first_ms is None or part.first_ms < first_ms):
            first_ms = part.first_ms
        if part.last_ms is not None and (last_ms is None or part.last_ms > last_ms):
            last_ms = part.last_ms
    return Discards(dict(counts), first_ms, last_ms)


@attrs.frozen
class TopicAccount:
    """Messages of one or more topics: accepted = acknowledged + queued + spooled + discards.count. `queued` includes messages in flight."""

    accepted: int
    acknowledged: int
    queued: int
    spooled: int  # on disk, and not in the producer's memory
    discards: Discards = Discards()


@attrs.frozen
class Account:
    """The account since the agent's start. `others` sums the counts that are in no row of `topics`; `total` is the sum of all topics.

    `refused` counts refused datagrams and frames, and unclean ends of connections. `restored` counts the accepted messages that an
    earlier process left in the spool. `possible_duplicates` counts acknowledged messages that may be in Kafka twice.
    """

    total: TopicAccount
    topics: Mapping[str, TopicAccount]
    others: TopicAccount
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    possible_duplicates: int = 0
    restored: int = 0


@attrs.frozen
class Report:
    """The discards of one interval, or of all intervals. The `recent_` lists have the 25 newest distinct entries, the newest first.

    `number` counts the intervals from 0. Times are in seconds since the epoch; `ended_at` is None in the reports of the current interval
    and of all intervals together. A message is counted in the interval of its discard. `topics` has rows for at most 2,400 topics,
    `possible_duplicates` for the 1,000 counted last; `others` and `other_duplicates` sum the other counts. Entries of lists are prefixes of
    at most `prefix_size` bytes (in `recent_bad_topics`, characters). `versions` has the 1,000 versions seen last.
    """

    number: int
    started_at: int
    ended_at: int | None = None
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    refused_bytes: Mapping[Reason, int] = attrs.Factory(dict)
    topics: Mapping[str, Discards] = attrs.Factory(dict)
    others: Discards = Discards()
    possible_duplicates: Mapping[str, Repeats] = attrs.Factory(dict)  # sent again, maybe after a broker had written them
    other_duplicates: Repeats = Repeats()
    versions: Mapping[int, int] = attrs.Factory(dict)  # unsupported version -> number of messages
    recent_malformed: tuple[bytes, ...] = ()
    recent_unclean_unix: tuple[bytes, ...] = ()
    recent_unclean_tcp: tuple[bytes, ...] = ()
    recent_bad_topics: tuple[str, ...] = ()
    recent_too_long: tuple[bytes, ...] = ()  # topic, space, value

    @property
    def by_reason(self) -> Mapping[Reason, int]:
        return merged([*self.topics.values(), self.others]).by_reason
