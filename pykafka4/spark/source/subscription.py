"""Parses the options that name topics, partitions, and the ends of a read: subscribe, assign, startingOffsets and similar options."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import attrs

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.errors import ConfigError, listed
from pykafka4.misuse import check_topic
from pykafka4.records import TopicPartition
from pykafka4.spark.options import Given, wrong

__all__ = ["ReadEnd", "Subscription", "parse_read_end", "parse_subscription"]

WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
OFFSETS_FORM: Final = '{"topic": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest'
TIMES_FORM: Final = '{"topic": {"0": 1700000000000}}, milliseconds since 1970'
ASSIGN_FORM: Final = '{"topic": [0, 1]}'
MOST_PARTITION: Final = 2**31 - 1


@attrs.frozen
class Subscription:
    """The topics of a read, by name or by pattern, or single partitions."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] | None = None  # the partitions of `assign`

    def __str__(self) -> str:
        what = self.pattern or ",".join(map(str, self.partitions or self.topics))
        return f"{self.option} {what}"


@attrs.frozen
class ReadEnd:
    """One end of a read: a timestamp for all partitions (EARLIEST, LATEST or milliseconds), or an offset or a time for each."""

    option: str
    timestamp: int = LATEST
    offsets: Mapping[TopicPartition, int] | None = None  # offsets, EARLIEST or LATEST
    times: Mapping[TopicPartition, int] | None = None

    @property
    def named(self) -> Collection[TopicPartition] | None:
        """The partitions that the option names; None if the end is for all partitions."""
        return self.offsets if self.offsets is not None else self.times

    @property
    def is_chosen(self) -> bool:
        """Whether the option names partitions or a time, not just earliest or latest."""
        return self.named is not None or self.timestamp >= 0

    def check_names(self, assigned: Iterable[TopicPartition]) -> None:
        """Raise ConfigError if the option names partitions, but not exactly the partitions of the read."""
        if (named := self.named) is None:
            return
        wanted, given = set(assigned), set(named)
        if missing := sorted(wanted - given):
            more = " (-2 is earliest, -1 latest)" if self.offsets is not None else ""
            raise ConfigError(f"option {self.option} lacks {listed(missing)}: each partition of the read needs one value{more}")
        if surplus := sorted(given - wanted):
            raise ConfigError(f"option {self.option} names {listed(surplus)}, and the read has only {listed(sorted(wanted))}")


def parse_subscription(given: Given) -> Subscription:
    """Raises ConfigError unless exactly one of subscribe, subscribePattern and assign is given."""
    found = given.has(*SUBSCRIPTIONS)
    if len(found) != 1:
        which = " and ".join(found) if found else 'none of them: add .option("subscribe", "a topic"), and leave load() empty'
        raise ConfigError(f"give one of the options subscribe, subscribePattern and assign; this read has {which}")
    return PARSERS[found[0]](given)


def _subscribe(given: Given) -> Subscription:
    topics = given.names("subscribe") or []
    if not topics:
        raise wrong("subscribe", given.text("subscribe") or "", 'takes topics separated by commas, such as "orders,returns"')
    return Subscription("subscribe", tuple(_topic("subscribe", topic) for topic in dict.fromkeys(topics)))


def _pattern(given: Given) -> Subscription:
    text = given.text("subscribePattern") or ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # a set such as [a-z&&[^q]] matches different topics in Java
            re.compile(text)
    except (re.error, FutureWarning) as error:
        raise wrong("subscribePattern", text, f"must be a valid and unambiguous regular expression of Python ({error})") from None
    if not text:
        raise wrong("subscribePattern", text, 'takes a regular expression, such as "^orders-"')
    return Subscription("subscribePattern", pattern=text)


def _assign(given: Given) -> Subscription:
    data = given.parsed("assign", ASSIGN_FORM)
    if not isinstance(data, dict) or not data or not all(isinstance(numbers, list) and numbers for numbers in data.values()):
        raise wrong("assign", given.text("assign") or "", f"takes {ASSIGN_FORM}")
    pairs = [_partition("assign", given, topic, number) for topic, numbers in data.items() for number in numbers]
    return Subscription("assign", partitions=tuple(sorted(set(pairs))))


PARSERS: Final = {"subscribe": _subscribe, "subscribePattern": _pattern, "assign": _assign}


def parse_read_end(given: Given, end: str, default: int) -> ReadEnd:
    """The end that the options `starting…` or `ending…` set. One time for all partitions overrides single times; times override offsets."""
    timestamp, times, offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    if (ms := given.count(timestamp, least=0)) is not None:
        return ReadEnd(timestamp, ms)
    if (data := given.parsed(times, TIMES_FORM)) is not None:
        return ReadEnd(times, times=_by_partition(given, times, data, TIMES_FORM, least=0))
    if (text := given.text(offsets)) is None:
        return ReadEnd(offsets, default)
    if text.lower() in WORDS:
        return ReadEnd(offsets, WORDS[text.lower()])
    form = f"earliest, latest, or {OFFSETS_FORM}"
    return ReadEnd(offsets, offsets=_by_partition(given, offsets, given.parsed(offsets, form), form, least=EARLIEST))


def _by_partition(given: Given, option: str, data: Any, form: str, least: int) -> dict[TopicPartition, int]:
    text = given.text(option) or ""
    if not isinstance(data, dict) or not data or not all(isinstance(each, dict) and each for each in data.values()):
        raise wrong(option, text, f"takes {form}")
    found: dict[TopicPartition, int] = {}
    for topic, numbers in data.items():
        for number, at in numbers.items():
            if isinstance(at, bool) or not isinstance(at, int) or not least <= at < 2**63:
                raise wrong(option, text, f"{at!r} of partition {number} of {topic} must be a whole number, at least {least}")
            found[_partition(option, given, topic, int(number) if number.isdecimal() else number)] = at
    return found


def _partition(option: str, given: Given, topic: str, number: object) -> TopicPartition:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST_PARTITION:
        raise wrong(option, given.text(option) or "", f"{number!r} of topic {topic} is not the number of a partition")
    return TopicPartition(_topic(option, topic), number)


def _topic(option: str, topic: str) -> str:
    try:
        return check_topic(topic)
    except ConfigError as error:
        raise ConfigError(f"option {option}: {error}") from None
