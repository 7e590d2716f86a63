"""Checks the arguments of a consumer's methods. Invariant: a check changes no state."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, Final

from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.errors import ConfigError, KafkaError, shown
from pykafka4.misuse import as_offset, as_offsets, check_count, check_timeout, check_topic, topic_partition
from pykafka4.records import OffsetAndMetadata, SubscriptionPattern, TopicPartition

__all__ = [
    "LISTENS",
    "MOST_RECORDS",
    "Offsets",
    "OnDone",
    "PartitionList",
    "Partitions",
    "SeekOffsets",
    "Times",
    "Topics",
    "as_offset",
    "as_offsets",
    "as_partitions",
    "as_seek_offsets",
    "as_subscription",
    "as_timestamp",
    "check_lease",
    "check_limit",
    "check_listener",
    "check_on_done",
    "check_overlap",
    "check_timeout",
    "no_group",
]

SEEK_OFFSET: Final = "offset (use seek_to_beginning or seek_to_end for the ends)"
REGEX: Final = re.compile(r"[\\^$*+?()\[\]{}|]")  # characters of patterns that no topic name has
MOST_RECORDS: Final = (1 << 31) - 1  # the compiled core and ShareFetch count in 32 bits
LONGEST_LEASE_S: Final = 86_400  # seconds: a larger number was probably meant as milliseconds
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LISTENS: Final = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")

Topics = str | re.Pattern[str] | SubscriptionPattern | Iterable[str | re.Pattern[str] | SubscriptionPattern]
PartitionList = Iterable["TopicPartition | tuple[str, int]"]
Partitions = PartitionList | TopicPartition | tuple[str, int]
Offsets = Mapping[Any, "int | OffsetAndMetadata"]
Times = Mapping[TopicPartition, "int | datetime"] | Mapping[tuple[str, int], "int | datetime"]
SeekOffsets = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
OnDone = Callable[[dict[TopicPartition, OffsetAndMetadata], "KafkaError | None"], Any]


def as_seek_offsets(partition: object, offset: object) -> dict[TopicPartition, int]:
    if not isinstance(partition, tuple) and isinstance(partition, Mapping):  # in this order, because the second check is slow
        if offset is not None:
            raise ConfigError(f"seek takes a mapping of partitions to offsets without another offset, not offset={shown(offset)}")
        return {topic_partition(item): check_count(at, SEEK_OFFSET) for item, at in partition.items()}
    tp = topic_partition(partition)
    if offset is None:
        raise TypeError(f"seek needs the offset of {tp}: seek({tuple(tp)!r}, offset), or seek({{{tuple(tp)!r}: offset}})")
    return {tp: check_count(offset, SEEK_OFFSET)}


def as_timestamp(time: object) -> int:
    """`time` in milliseconds since 1970. Raises TypeError or ConfigError, for example for a datetime without a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ConfigError(f"time={time!r}: has no time zone; add one, such as time.replace(tzinfo=timezone.utc)")
        return check_count((time - EPOCH) // timedelta(milliseconds=1), "time")
    return check_count(time, "time (milliseconds since 1970, or a datetime)")


def check_on_done(on_done: object) -> None:
    if on_done is not None and not callable(on_done):
        raise TypeError(f"on_done must be callable, not {on_done!r}")


def as_subscription(
    topics: object, exclude: object, *, with_internal: bool, group_protocol: str
) -> tuple[tuple[str, ...], TopicFilter | None]:
    """The names of the topics to subscribe to, and a filter for the patterns, if there are any.

    Raises TypeError or ConfigError for wrong arguments, including duplicate names. A str is a pattern, but in a list it is a name; an
    re.Pattern or a SubscriptionPattern is a pattern in both cases.
    """
    names, patterns, of_group = _names_and_patterns(topics, "subscribe")
    if not names and not patterns and not of_group:
        raise ConfigError("subscribe([]): no topics; call unsubscribe() to leave the group")
    _refuse_duplicates(names, "topic")
    if of_group:
        _check_pattern_of_group(of_group[0], len(of_group) + len(patterns), exclude, group_protocol)
        return tuple(names), TopicFilter((_pattern(of_group[0].pattern, "subscribe"),), with_internal=True, regex=of_group[0].pattern)
    excluded, exclude_patterns, excluded_of_group = _names_and_patterns(() if exclude is None else exclude, "exclude")
    if excluded_of_group:
        raise ConfigError(f"exclude={shown(exclude)}: the coordinator excludes nothing; pass re.compile({excluded_of_group[0].pattern!r})")
    if not patterns:
        if excluded or exclude_patterns:
            raise ConfigError(f"exclude={shown(exclude)} without a pattern: subscribe to a pattern, or leave the topics out of the list")
        return tuple(names), None
    chosen = TopicFilter(tuple(patterns), tuple(exclude_patterns), frozenset(excluded), with_internal)
    chosen.check_names(names)
    return tuple(names), chosen


def _check_pattern_of_group(pattern: SubscriptionPattern, patterns: int, exclude: object, group_protocol: str) -> None:
    """Reject arguments that cannot be combined with a SubscriptionPattern, whose topics the coordinator chooses."""
    instead = f"pass re.compile({pattern.pattern!r}), which this client matches itself"
    if group_protocol != "consumer":
        raise ConfigError(f"subscribe: only coordinators of group_protocol='consumer' match a SubscriptionPattern; {instead}")
    if patterns > 1:
        raise ConfigError(
            "subscribe: the coordinator matches one pattern per member; combine the patterns, such as SubscriptionPattern('a-.*|b-.*')"
        )
    if exclude is not None:
        raise ConfigError(f"exclude={shown(exclude)} with a SubscriptionPattern: the coordinator excludes nothing; {instead}")


def _names_and_patterns(topics: object, what: str) -> tuple[list[str], list[re.Pattern[str]], list[SubscriptionPattern]]:
    if isinstance(topics, str | re.Pattern):
        return [], [_pattern(topics, what)], []
    if isinstance(topics, SubscriptionPattern):
        topics = [topics]
    if not isinstance(topics, Iterable) or isinstance(topics, bytes):
        raise TypeError(f"{what} takes a list of topic names, or a pattern, not {shown(topics)}")
    names, patterns, of_group = [], [], []
    for topic in topics:
        if isinstance(topic, re.Pattern):
            patterns.append(_pattern(topic, what))
        elif isinstance(topic, SubscriptionPattern):
            of_group.append(topic)
        else:
            names.append(_name(topic, what))
    return names, patterns, of_group


def _name(topic: object, what: str) -> str:
    try:
        return check_topic(topic)
    except ConfigError as error:
        if isinstance(topic, str) and REGEX.search(topic):
            raise ConfigError(f"{what}: {error}; an item of a list is a name: for a pattern pass re.compile({topic!r}) instead") from None
        raise


def _pattern(pattern: str | re.Pattern[Any], what: str) -> re.Pattern[str]:
    if isinstance(pattern, str):
        try:
            return re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(f"{what}: {pattern!r} is not a regular expression: {error}") from None
    if not isinstance(pattern.pattern, str):
        raise TypeError(f"{what}: {pattern!r} is a pattern of bytes; topic names are text")
    return pattern


def as_partitions(partitions: object) -> dict[TopicPartition, None]:
    """The given partition, or the partitions of a list in order. Raises TypeError or ConfigError, also for duplicates."""
    if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
        return {topic_partition(partitions): None}
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions={partitions!r}: must be a TopicPartition or (topic, partition) pair, or a list of these")
    tps = [topic_partition(tp) for tp in partitions]
    _refuse_duplicates(tps, "partition")
    return dict.fromkeys(tps)


def _refuse_duplicates(items: Sequence[object], what: str) -> None:
    seen: set[object] = set()
    for item in items if len(set(items)) < len(items) else ():
        if item in seen:
            raise ConfigError(f"{what} {item} is listed twice")
        seen.add(item)


def check_limit(given: int | None, default: int, name: str = "max_records", otherwise: str = "max_poll_records") -> int:
    """`given`, at most MOST_RECORDS; `default` if `given` is None. `name` and `otherwise` are for the text of the ConfigError."""
    if given is None:
        return default
    countable = hasattr(type(given), "__index__") and not isinstance(given, bool)
    if not countable or (most := int(operator.index(given))) < 1:
        raise ConfigError(f"{name}={shown(given)}: must be an int of at least 1, or None for {otherwise}")
    return min(most, MOST_RECORDS)


def check_lease(seconds: object) -> float:
    """Raises ConfigError."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or seconds <= 0 or not seconds <= LONGEST_LEASE_S:
        raise ConfigError(f"extend_lease({shown(seconds)}): takes seconds, more than 0 and at most {LONGEST_LEASE_S:,} (a day)")
    return float(seconds)


def check_listener(listener: object | None) -> None:
    if listener is not None and not any(callable(getattr(listener, name, None)) for name in LISTENS):
        raise ConfigError(f"listener={listener!r} has none of the methods {', '.join(LISTENS)}")


def check_overlap(topics: Iterable[str], filter: TopicFilter | None, tps: Iterable[TopicPartition]) -> None:
    by_hand, names = {tp.topic for tp in tps}, set(topics)
    both = sorted(topic for topic in by_hand if topic in names or (filter is not None and filter.matches(topic)))
    if both and both[0] not in names:
        raise ConfigError(
            f"topic {both[0]!r} matches the pattern of the subscription and is assigned; its partitions would be read twice: "
            "exclude the topic in subscribe"
        )
    if both:
        raise ConfigError(f"topic {both[0]!r} is both subscribed and assigned; its partitions would be read twice")


def no_group(call: str) -> ConfigError:
    return ConfigError(f"{call} needs a group_id: offsets are stored per group")
