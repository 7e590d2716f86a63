"""Computes one offset range per partition from the two ends of a bounded read. Invariant: the ranges are fixed before the first record is
read.

This module does no I/O: `read`, `read_arrow` and `Client.splits` do the ListOffsets lookups for `Bounds.timestamps`, and `Bounds.span`
computes a partition's range from their results.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, check_topic, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["EARLIEST", "LATEST", "BoundSpec", "Bounds", "Selection", "Span", "as_bound", "as_bounds", "as_selection", "now_ms"]

BoundSpec: TypeAlias = "str | int | datetime | timedelta | Mapping[int, int] | Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]"
LATEST: Final = -1  # LATEST and EARLIEST: the timestamps in ListOffsets for the ends of a log
EARLIEST: Final = -2
WORDS: Final = {"earliest": EARLIEST, "latest": LATEST, "now": LATEST}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
DURATION: Final = re.compile(r"-((?:\d+(?:ms|[wdhms]))+)")
PART: Final = re.compile(r"(\d+)(ms|[wdhms])")
LEAST_MS: Final = 10_000_000_000  # April 1970; a smaller number is probably a mistake: an offset, or a time in seconds
FORMS: Final = (
    '"earliest", "latest" or "now", a datetime with a time zone, milliseconds since 1970, '
    'a duration before now ("-1h", "-7d", a timedelta), or a mapping of partitions to offsets'
)
Selection: TypeAlias = "dict[str, tuple[int, ...] | None]"  # topic -> its partitions to read; None: all its partitions


@attrs.frozen
class Span:
    """The offsets to read in one partition, from `start` up to, but not including, `until`; `earliest` is the first offset of the log."""

    start: int
    until: int
    earliest: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.start >= self.until


@attrs.frozen
class Bound:
    """One end of a read: a timestamp for all partitions (EARLIEST, LATEST or milliseconds), or an offset for each."""

    name: str  # the name of the argument, for messages
    timestamp: int = LATEST
    offsets: Mapping[TopicPartition, int] | None = None

    def offset(self, tp: TopicPartition, found: Mapping[int, int | None]) -> int:
        """Raises ConfigError if `offsets` has none for `tp`, or one beyond the end of the log."""
        end = found[LATEST]
        assert end is not None
        if self.offsets is None:
            at = found[self.timestamp]
            return end if at is None else min(at, end)
        if tp not in self.offsets:
            raise ConfigError(f"{self.name} names no offset for {tp}: add one, or choose the partitions to read with partitions=[…]")
        offset = self.offsets[tp]
        if offset > end:
            way_out = 'until="now" reads up to that end' if self.name == "until" else "choose an offset up to that end"
            raise ConfigError(
                f"{self.name}: offset {offset} of {tp} is beyond the end of the log, {end}; {way_out} "
                '(with isolation_level="read_committed", the end is before the first open transaction)'
            )
        return offset


@attrs.frozen
class Bounds:
    start: Bound
    until: Bound

    @property
    def timestamps(self) -> Collection[int]:
        """The timestamps to look up for every partition, with ListOffsets."""
        return {EARLIEST, LATEST, *(end.timestamp for end in (self.start, self.until) if end.offsets is None)}

    def span(self, tp: TopicPartition, found: Mapping[int, int | None]) -> Span:
        """`found` has the offset for each of `timestamps`, None for a time after the last record.

        Raises ConfigError if an offset is missing or beyond the end of the log. `start` can be lower than `earliest`: then the records
        between the two have been deleted.
        """
        earliest = found[EARLIEST]
        assert earliest is not None
        return Span(self.start.offset(tp, found), self.until.offset(tp, found), earliest)


def as_selection(topics: object, partitions: object) -> Selection:
    """`topics` is a name or a list of names; `partitions` has (topic, partition) pairs, or numbers if there is one topic; None means all
    partitions. Raises ConfigError or TypeError for other arguments.
    """
    if isinstance(topics, Mapping):  # refused, because the mapping's values would be ignored
        raise TypeError(f"topics={shown(topics)}: takes names; partitions=[(topic, partition), …] chooses partitions")
    if isinstance(topics, (bytes, TopicPartition)) or not isinstance(topics, (str, Iterable)):
        raise TypeError(f"topics={shown(topics)}: takes the name of a topic, or a list of names")
    names = [check_topic(topics)] if isinstance(topics, str) else [check_topic(topic) for topic in topics]
    if not names:
        raise ConfigError("topics=[]: no topics to read")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"topic {twice!r} is listed twice")
    if partitions is None:
        return dict.fromkeys(names)
    if isinstance(partitions, (str, bytes)) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions={shown(partitions)}: takes a list of (topic, partition) pairs, or of numbers if there is one topic")
    if isinstance(partitions, TopicPartition) or (isinstance(partitions, tuple) and partitions and isinstance(partitions[0], str)):
        partitions = [partitions]  # one pair in place of a list
    chosen = dict.fromkeys(_partition(item, names, "partitions") for item in partitions)
    if idle := [name for name in names if name not in {tp.topic for tp in chosen}]:
        raise ConfigError(f"partitions names none of topic {idle[0]!r}: add some, or leave the topic out")
    return {name: tuple(tp.partition for tp in chosen if tp.topic == name) for name in names}


def _partition(item: object, names: Collection[str], what: str) -> TopicPartition:
    if isinstance(item, tuple):
        tp = topic_partition(item)
    elif len(names) == 1:
        (topic,) = names
        tp = topic_partition((topic, item))
    else:
        raise ConfigError(f"{what}: {shown(item)} needs its topic, because there are several: (topic, partition)")
    if tp.topic not in names:
        raise ConfigError(f"{what}: {tp} belongs to none of the topics to read")
    return tp


def now_ms() -> int:
    return int(time.time() * 1000)


def as_bounds(start: object, until: object, topics: Collection[str], now_ms: int) -> Bounds:
    """Durations count back from `now_ms`, in milliseconds since 1970."""
    return Bounds(as_bound("start", start, topics, now_ms), as_bound("until", until, topics, now_ms))


def as_bound(name: str, value: object, topics: Collection[str], now_ms: int) -> Bound:
    """Raises ConfigError or TypeError."""
    if isinstance(value, str):
        return Bound(name, _of_text(name, value, now_ms))
    if isinstance(value, datetime):
        return Bound(name, _of_datetime(name, value))
    if isinstance(value, timedelta):
        return Bound(name, max(0, now_ms - abs(value) // timedelta(milliseconds=1)))
    if isinstance(value, Mapping):
        return Bound(name, offsets=_offsets(name, value, topics))
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name}={shown(value)}: takes {FORMS}")
    time = check_count(value, name)
    if time < LEAST_MS:
        raise ConfigError(
            f"{name}={time}: a number is a time in milliseconds since 1970, and this one is in January to April 1970; "
            f"for an offset pass a mapping of partitions to offsets, such as {{0: {time}}}; multiply seconds by 1000"
        )
    return Bound(name, time)


def _of_text(name: str, text: str, now_ms: int) -> int:
    if text in WORDS:
        return WORDS[text]
    if (found := DURATION.fullmatch(text)) is None:
        raise ConfigError(f"{name}={shown(text)}: takes {FORMS}")
    return max(0, now_ms - sum(int(count) * UNITS[unit] for count, unit in PART.findall(found[1])))


def _of_datetime(name: str, time: datetime) -> int:
    if time.tzinfo is None:
        raise ConfigError(f"{name}={time!r}: has no time zone; add one, such as time.replace(tzinfo=timezone.utc)")
    return check_count((time - EPOCH) // timedelta(milliseconds=1), name)


def _offsets(name: str, offsets: Mapping[object, object], topics: Collection[str]) -> dict[TopicPartition, int]:
    if not offsets:
        raise ConfigError(f"{name}={{}}: names no partition; takes {FORMS}")
    named = {_partition(item, topics, name): at for item, at in offsets.items()}
    return {tp: check_count(at, f"{name}: the offset of {tp}") for tp, at in named.items()}
