"""Counts discards, refused bytes and repeats. Invariant: for any input, memory is bounded and sums are exact."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from pykafka4.agent.account.values import Discards, Repeats, Report, merged
from pykafka4.agent.message import Message, Reason, Refused
from pykafka4.misuse import LONGEST_TOPIC

__all__ = ["RECENT", "Recent", "Rows", "Tallies", "row_name"]

TOPICS: Final = 1_000  # rows of topics
BAD_TOPICS: Final = 200  # rows of topics that do not exist: anybody can invent such names, which must not displace other rows
RECENT: Final = 25  # entries in a list of recent examples
VERSIONS: Final = 1_000  # unsupported versions: a hostile client can send all 65,535

K = TypeVar("K", bound=Hashable)


def row_name(topic: str) -> str:
    """Return the name of the row for `topic`. Names too long for Kafka share a row if they have the same beginning."""
    return topic if len(topic) <= LONGEST_TOPIC else topic[:LONGEST_TOPIC] + "…"


class Recent(Generic[K]):
    """The RECENT newest distinct entries."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: OrderedDict[K, None] = OrderedDict()

    def add(self, entry: K) -> None:
        self._entries[entry] = None
        self._entries.move_to_end(entry)
        if len(self._entries) > RECENT:
            self._entries.popitem(last=False)

    def newest_first(self) -> tuple[K, ...]:
        return tuple(reversed(self._entries))

    def absorb(self, later: Recent[K]) -> None:
        for entry in later._entries:
            self.add(entry)


class TopicRow:
    """Counts of messages by reason, and the earliest and latest timestamp of the messages."""

    __slots__ = ("first_ms", "last_ms", "reasons")

    def __init__(self) -> None:
        self.reasons: dict[Reason, int] = {}
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, reason: Reason, count: int, first_ms: int | None, last_ms: int | None) -> None:
        """Count messages. A timestamp of None changes no timestamp of the row."""
        self.reasons[reason] = self.reasons.get(reason, 0) + count
        if first_ms is not None and (self.first_ms is None or first_ms < self.first_ms):
            self.first_ms = first_ms
        if last_ms is not None and (self.last_ms is None or last_ms > self.last_ms):
            self.last_ms = last_ms

    def absorb(self, other: TopicRow) -> None:
        for reason, count in other.reasons.items():
            self.add(reason, count, other.first_ms, other.last_ms)

    def value(self) -> Discards:
        return Discards(self.reasons.copy(), self.first_ms, self.last_ms)


class Rows:
    """A row for each topic that was counted lately, and one row with the sums of displaced rows."""

    __slots__ = ("_bad", "_rows", "others")

    def __init__(self) -> None:
        self._rows: OrderedDict[str, TopicRow] = OrderedDict()
        self._bad: OrderedDict[str, TopicRow] = OrderedDict()
        self.others = TopicRow()

    def add(self, topic: str, reason: Reason, count: int, first_ms: int | None, last_ms: int | None) -> None:
        self._row(topic, reason is Reason.BAD_TOPIC).add(reason, count, first_ms, last_ms)

    def _row(self, topic: str, bad: bool) -> TopicRow:
        rows, limit = (self._bad, BAD_TOPICS) if bad else (self._rows, TOPICS)
        name = row_name(topic)
        row = rows.get(name)
        if row is not None:
            rows.move_to_end(name)
            return row
        row = rows[name] = TopicRow()
        if len(rows) > limit:  # the sum over all rows stays exact
            self.others.absorb(rows.popitem(last=False)[1])
        return row

    def absorb(self, later: Rows) -> None:
        for rows, bad in ((later._rows, False), (later._bad, True)):
            for name, row in rows.items():
                self._row(name, bad).absorb(row)
        self.others.absorb(later.others)

    def values(self) -> tuple[dict[str, Discards], Discards]:
        topics = {name: row.value() for name, row in self._rows.items()}
        for name, row in self._bad.items():
            # A topic that was created after its first messages, or deleted later, may have two rows.
            topics[name] = merged([topics[name], row.value()]) if name in topics else row.value()
        return topics, self.others.value()


class Tallies:
    """Counts of refused bytes, of discarded messages, and of messages that may be in Kafka twice."""

    def __init__(self, prefix_size: int) -> None:
        self._prefix_size = prefix_size
        self.refused: Counter[Reason] = Counter()
        self.refused_bytes: Counter[Reason] = Counter()
        self.versions: OrderedDict[int, int] = OrderedDict()
        self.before_producer, self.failed, self.repeated = Rows(), Rows(), Rows()
        self._malformed, self._unclean_unix, self._unclean_tcp = Recent[bytes](), Recent[bytes](), Recent[bytes]()
        self._bad_topics, self._too_long = Recent[str](), Recent[bytes]()
        self._prefixes = {Reason.MALFORMED: self._malformed, Reason.UNCLEAN_UNIX: self._unclean_unix, Reason.UNCLEAN_TCP: self._unclean_tcp}

    def refuse(self, data: bytes, refused: Refused) -> None:
        reason = refused.reason
        self.refused[reason] += 1
        self.refused_bytes[reason] += len(data)
        prefixes = self._prefixes.get(reason)
        if prefixes is not None:
            prefixes.add(bytes(data[: self._prefix_size]))
        elif reason is Reason.VERSION and refused.detail is not None:
            self._count_version(refused.detail, 1)

    def _count_version(self, version: int, count: int) -> None:
        self.versions[version] = self.versions.get(version, 0) + count
        self.versions.move_to_end(version)
        if len(self.versions) > VERSIONS:
            self.versions.popitem(last=False)

    def keep_example(self, topic: str, value: bytes | None, reason: Reason) -> None:
        """Keep the beginning of a bad topic's name or of a message that is too long, by which people can recognize the client."""
        if reason is Reason.BAD_TOPIC:
            self._bad_topics.add(topic[: self._prefix_size])
        elif reason is Reason.LONG_MSG:
            name = topic[: self._prefix_size].encode("utf-8", "backslashreplace")
            self._too_long.add((name + b" " + (value or b"")[: self._prefix_size])[: self._prefix_size])

    def discard(self, message: Message, reason: Reason) -> None:
        topic, value, _, _, timestamp_ms = message
        self.before_producer.add(topic, reason, 1, timestamp_ms, timestamp_ms)
        if reason is Reason.BAD_TOPIC or reason is Reason.LONG_MSG:  # saves a call per message for other reasons
            self.keep_example(topic, value, reason)

    def absorb(self, later: Tallies) -> None:
        self.refused.update(later.refused)
        self.refused_bytes.update(later.refused_bytes)
        for version, count in later.versions.items():
            self._count_version(version, count)
        self.before_producer.absorb(later.before_producer)
        self.failed.absorb(later.failed)
        self.repeated.absorb(later.repeated)
        self._malformed.absorb(later._malformed)
        self._unclean_unix.absorb(later._unclean_unix)
        self._unclean_tcp.absorb(later._unclean_tcp)
        self._bad_topics.absorb(later._bad_topics)
        self._too_long.absorb(later._too_long)

    def report(self, number: int, started_at: int, ended_at: int | None) -> Report:
        """Times are in seconds since the epoch."""
        topics, others = self.before_producer.values()
        failed, other_failed = self.failed.values()
        for name, discards in failed.items():
            topics[name] = merged([topics[name], discards]) if name in topics else discards
        repeats, other_repeats = self.repeated.values()
        return Report(
            number=number,
            started_at=started_at,
            ended_at=ended_at,
            refused=dict(self.refused),
            refused_bytes=dict(self.refused_bytes),
            topics=topics,
            others=merged([others, other_failed]),
            possible_duplicates={name: _repeats(row) for name, row in repeats.items()},
            other_duplicates=_repeats(other_repeats),
            versions=dict(self.versions),
            recent_malformed=self._malformed.newest_first(),
            recent_unclean_unix=self._unclean_unix.newest_first(),
            recent_unclean_tcp=self._unclean_tcp.newest_first(),
            recent_bad_topics=self._bad_topics.newest_first(),
            recent_too_long=self._too_long.newest_first(),
        )


def _repeats(row: Discards) -> Repeats:
    return Repeats(row.count, row.first_ms, row.last_ms)
