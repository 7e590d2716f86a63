"""Checks arguments about groups and their offsets. Invariant: the error for a wrong argument shows the correct use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, check_group, check_topic, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["Destination", "Goal", "Targets", "as_destination", "as_goal", "as_groups", "as_targets"]

Targets: TypeAlias = "Iterable[str | TopicPartition | tuple[str, int]]"
Destination: TypeAlias = "str | int | datetime | timedelta | Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]"
WORDS: Final = ("earliest", "latest", "current")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)


def as_groups(groups: object) -> list[str]:
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable):
        raise ConfigError(f"groups={shown(groups)}: takes a list of group ids")
    return list(dict.fromkeys(map(check_group, groups)))


def as_targets(topics: object) -> tuple[list[str], list[TopicPartition]]:
    if isinstance(topics, (str, bytes, TopicPartition)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={shown(topics)}: takes a list of topic names, or of (topic, partition) pairs")
    items = list(topics)
    if not items:
        raise ConfigError("topics=[]: give at least one topic name or (topic, partition) pair")
    names = [check_topic(item) for item in items if isinstance(item, str)]
    return list(dict.fromkeys(names)), list(dict.fromkeys(topic_partition(item) for item in items if not isinstance(item, str)))


@attrs.frozen
class Goal:
    """The goal of a plan of offsets: exactly one field is set."""

    word: str | None = None  # one of WORDS
    offset: int | None = None
    timestamp: int | None = None  # milliseconds since 1970
    shift: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None


def as_goal(to: object, shift: object) -> Goal:
    if (to is None) == (shift is None):
        raise ConfigError("give either to= (earliest, latest, current, an offset, a datetime, a timedelta or a mapping) or shift=")
    if shift is None:
        return as_destination(to, "to")
    if isinstance(shift, bool) or not isinstance(shift, int):
        raise TypeError(f"shift must be an int, not {shown(shift)}")
    return Goal(shift=int(shift))


def as_destination(to: object, name: str) -> Goal:
    """`name` is the name of the argument in errors."""
    if to is None or isinstance(to, str):
        if to not in WORDS:
            raise ConfigError(f"{name}={shown(to)}: must be {', '.join(WORDS)}, an offset, a datetime, a timedelta or a mapping")
        return Goal(word=str.__str__(to))
    if isinstance(to, (datetime, timedelta)):
        return Goal(timestamp=_timestamp(to, name))
    if isinstance(to, Mapping):
        if not to:
            raise ConfigError(f"{name}={{}}: has no offsets; give at least one partition")
        return Goal(offsets={(tp := topic_partition(item)): check_count(to[item], f"the offset of {tp}") for item in to})
    return Goal(offset=check_count(to, f"{name}=, as an offset,"))


def _timestamp(to: datetime | timedelta, name: str) -> int:
    """Milliseconds since 1970; a timedelta counts back from now."""
    too_early = ConfigError(f"{name}={to!r}: is before 1970; 'earliest' moves to the first offsets")
    if isinstance(to, timedelta):
        if to < timedelta():
            raise ConfigError(f"{name}={to!r}: a timedelta is the time before now, so it must not be negative")
        try:
            to = datetime.now(UTC) - to
        except OverflowError:
            raise too_early from None
    if to.utcoffset() is None:
        raise ConfigError(f"{name}={to!r}: has no time zone; add one, such as time.replace(tzinfo=timezone.utc)")
    found = (to - EPOCH) // MILLISECOND
    if found < 0:
        raise too_early
    return found
