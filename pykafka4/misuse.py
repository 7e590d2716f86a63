"""Checks arguments of public calls, and raises errors that explain the correct use."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any, NoReturn

from pykafka4.errors import ConfigError, shown, with_article
from pykafka4.other_clients.tables import KEYWORDS
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = [
    "LONGEST_TOPIC",
    "ForeignField",
    "api_timeout",
    "as_offset",
    "as_offsets",
    "check_count",
    "check_group",
    "check_group_to_set",
    "check_timeout",
    "check_topic",
    "explain_send",
    "is_legal_topic",
    "refuse_keywords",
    "refuse_pickling",
    "topic_partition",
]

API_S = 60.0  # seconds; `api_timeout` returns this for None
MOST_PARTITION = 2**31 - 1
MOST_METADATA = 4_096  # bytes; the default limit of brokers (offset.metadata.max.bytes)
LONGEST_ID = 32_767  # bytes
LONGEST_TOPIC = 249  # characters
LEGAL_TOPIC = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_TOPIC}}}")  # org.apache.kafka.common.internals.Topic


def check_count(value: object, what: str, highest: int = 2**63 - 1) -> int:
    """Return an integer from 0 to `highest` as a plain int. Raises a TypeError or ConfigError that names `what`."""
    if type(value) is int and 0 <= value <= highest:
        return value
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{what} must be an int, not {shown(value)}")
    number = int(operator.index(value))  # type: ignore[arg-type]
    if not 0 <= number <= highest:
        raise ConfigError(f"{what} must be from 0 to {highest:,}, not {shown(number)}")
    return number


def is_legal_topic(topic: str) -> bool:
    return LEGAL_TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def check_topic(topic: object) -> str:
    """Return a plain str. Raises ConfigError if Kafka does not allow the name, TypeError if `topic` is not a str."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__} ({shown(topic)})")
    topic = str.__str__(topic)  # the value of a subclass, such as an enum, whose own `__str__` may return another text
    if not is_legal_topic(topic):
        raise ConfigError(f"topic {topic!r}: a name has 1 to 249 of the characters a-z A-Z 0-9 . _ - (and is not '.' or '..')")
    return topic


def check_group(group: object) -> str:
    """Return a plain str. An id may be empty, because some old clients use an empty id.

    Raises TypeError if `group` is not a str, ConfigError if no request can carry the id.
    """
    if not isinstance(group, str):
        raise TypeError(f"a group id must be a str, not {shown(group)}")
    text = str.__str__(group)  # the value of a subclass, whose own `__str__` may return another text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"group id {shown(text)}: cannot be encoded as UTF-8, so no group has it") from None
    if size > LONGEST_ID:  # checked here, because a request about many groups would fail for all of them
        raise ConfigError(f"group id {shown(text)}: has {size:,} bytes as UTF-8; the longest that a request can carry has {LONGEST_ID:,}")
    return text


def check_group_to_set(group: object) -> str:
    """Raises the errors of `check_group`, and ConfigError for an empty id."""
    name = check_group(group)
    if not name:
        raise ConfigError("a group id must not be empty: no consumer can join that group")
    return name


def topic_partition(value: object) -> TopicPartition:
    """Return a (topic, partition) pair as a TopicPartition. Raises TypeError or ConfigError for other values."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"expected a TopicPartition or a (topic, partition) pair, not {value!r}")
    topic, partition = tuple.__iter__(value)
    topic = check_topic(topic)
    # Checked here, not only in `check_count`, which needs a formatted text for each partition: a call may name thousands of partitions.
    if type(partition) is not int or not 0 <= partition <= MOST_PARTITION:
        partition = check_count(partition, f"the partition of topic {topic!r}", MOST_PARTITION)
    elif type(value) is TopicPartition and topic is value.topic:
        return value  # no copy, for the same reason
    return TopicPartition(topic, partition)


def as_offset(tp: object, offset: object) -> OffsetAndMetadata:
    """`offset` is the offset of the next record to read. Raises TypeError or ConfigError for wrong values."""
    if not isinstance(offset, OffsetAndMetadata):
        return OffsetAndMetadata(check_count(offset, f"the offset of {tp}"))
    epoch = offset.leader_epoch
    if epoch != -1:
        epoch = check_count(epoch, f"leader_epoch of the offset of {tp}", 2**31 - 1)
    text = str.__str__(offset.metadata) if isinstance(offset.metadata, str) else None
    if text is None or len(text.encode(errors="replace")) > MOST_METADATA or (not text.isascii() and not _is_utf8(text)):
        raise ConfigError(f"metadata of the offset of {tp}: must be a string of at most {MOST_METADATA:,} bytes as UTF-8")
    return OffsetAndMetadata(check_count(offset.offset, f"the offset of {tp}"), epoch, text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_offsets(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises TypeError or ConfigError for wrong values."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets must map partitions to offsets, not {offsets!r}")
    return {(tp := topic_partition(item)): as_offset(tp, offsets[item]) for item in offsets}


def check_timeout(timeout: object) -> float | None:
    """Return a number up to 1e9, or None. Raises ConfigError unless `timeout` is a non-negative number of seconds or None."""
    if timeout is None:
        return None
    if (type(timeout) is float or type(timeout) is int) and 0 <= timeout <= 1e9:  # the fast path of every poll
        return timeout
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or timeout < 0 or not timeout <= math.inf:  # excludes NaN
        raise ConfigError(f"timeout={shown(timeout)}: must be a non-negative number of seconds, or None to wait without limit")
    return float(timeout) if timeout < 1e9 else 1e9  # an int may be too large for a float


def api_timeout(timeout: object) -> float:
    """Check the timeout of a call that never waits without a limit: None means API_S."""
    limit = check_timeout(timeout)
    return API_S if limit is None else limit


def refuse_keywords(method: str, given: Mapping[str, object]) -> NoReturn:
    """Raise a TypeError such as `Consumer.poll() has no argument 'timeout_ms'; use timeout, in seconds`."""
    name = next(iter(given))
    instead = KEYWORDS.get(name)
    raise TypeError(f"{method}() has no argument {name!r}" + (f"; use {instead}" if instead else ""))


_UNKNOWN_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")


def explain_send(error: TypeError) -> None:
    """Add a hint to the interpreter's error, if one fits."""
    text = str(error)
    if "positional argument" in text:
        error.args = (f"{text}: pass topic and value in this order, everything else by name: send(topic, value, key=key)",)
    elif (found := _UNKNOWN_KEYWORD.search(text)) is not None and (instead := KEYWORDS.get(found[1])):
        error.args = (f"{text}; use {instead}",)


class ForeignField:
    """A field that only records of other clients have. A read raises AttributeError with a hint."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, owner: object, kind: type[Any] | None = None) -> NoReturn:
        raise AttributeError(self._text)


def refuse_pickling(owner: str) -> NoReturn:
    """Raise TypeError for an attempt to pickle an `owner`, such as a Producer; the message names the way out."""
    raise TypeError(
        f"{with_article(owner)} cannot be pickled: it holds a thread and sockets. Pass its options (a plain dict) and create the {owner} "
        "where it is used; in Spark, pykafka4.spark.partition_writer(config, …) does that for producers"
    )
