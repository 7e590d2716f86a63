"""Accounts and reports as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from pykafka4.agent.message import Reason

__all__ = ["Account", "Discards", "Repeats", "Report", "TopicAccount", "merged"]


@attrs.frozen
class Discards:
    """Discarded messages of a topic: how many for each reason; the earliest and the latest of their timestamps (ms since the epoch, None
    if they are not known).
    """

    by_reason: Mapping[Reason, int] = attrs.Factory(dict)
    first_ms: int | None = None
    last_ms: int | None = None

    @property
    def count(self) -> int:
        """Messages, whatever the reason."""
        return sum(self.by_reason.values())


@attrs.frozen
class Repeats:
    """Acknowledged messages of a topic that may be in Kafka twice: how many; the earliest and the latest of their timestamps."""

    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


def merged(parts: Iterable[Discards]) -> Discards:
    """The discards of several topics, or of several times."""
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
    """Messages of a topic, or of all: accepted = acknowledged + queued + spooled + discards.count. `queued` includes messages in flight."""

    accepted: int
    acknowledged: int
    queued: int
    spooled: int  # on disk, and not in the producer's memory
    discards: Discards = Discards()


@attrs.frozen
class Account:
    """The account since the agent's start. `others` are topics without a row in `topics`; `total` is the sum of both, always.

    `refused` counts what was no message, and so is not in `accepted`. `restored` of the accepted messages came from an earlier process,
    through the spool: the inputs of this one have counted the others. `possible_duplicates` of the acknowledged ones may be in Kafka twice.
    """

    total: TopicAccount
    topics: Mapping[str, TopicAccount]
    others: TopicAccount
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    possible_duplicates: int = 0
    restored: int = 0


@attrs.frozen
class Report:
    """The discards of an interval, or all since the start. Lists have the 25 newest distinct entries, the newest first.

    `number` counts the intervals from 0; times are in seconds since the epoch, `ended_at` None while the interval goes on. A message
    counts in the interval in which it was discarded, whenever it was accepted. `topics` and `possible_duplicates` have rows for at most
    about 1,000 topics each, those of the latest discards; the other topics are summed. Prefixes are at most `prefix_size` bytes, topics in
    `recent_bad_topics` that many characters. `versions` has the 1,000 newest; `refused` counts all.
    """

    number: int
    started_at: int
    ended_at: int | None = None
    refused: Mapping[Reason, int] = attrs.Factory(dict)
    refused_bytes: Mapping[Reason, int] = attrs.Factory(dict)
    topics: Mapping[str, Discards] = attrs.Factory(dict)
    others: Discards = Discards()
    possible_duplicates: Mapping[str, Repeats] = attrs.Factory(dict)  # sent again, perhaps after they were written
    other_duplicates: Repeats = Repeats()
    versions: Mapping[int, int] = attrs.Factory(dict)  # unsupported versions, with the number of messages
    recent_malformed: tuple[bytes, ...] = ()
    recent_unclean_unix: tuple[bytes, ...] = ()
    recent_unclean_tcp: tuple[bytes, ...] = ()
    recent_bad_topics: tuple[str, ...] = ()
    recent_too_long: tuple[bytes, ...] = ()  # topic, space, value

    @property
    def by_reason(self) -> Mapping[Reason, int]:
        """Discarded messages of all topics, by reason."""
        return merged([*self.topics.values(), self.others]).by_reason
