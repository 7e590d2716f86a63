"""Misuse. Rule: a wrong call is answered at once, by a message that names the thing and the right way."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition

__all__ = ["Needless", "check_topic", "hint", "refuse_pickling", "topic_partition"]

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic


def check_topic(topic: object) -> str:
    """`topic` if Kafka allows the name; ConfigError (or TypeError for what is no str) otherwise."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__} ({topic!r})")
    if not LEGAL_TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ConfigError(f"topic {topic!r}: names are 1 to 249 of the characters a-z A-Z 0-9 . _ - (and not '.' or '..')")
    return topic


def topic_partition(value: object) -> TopicPartition:
    """A TopicPartition from itself or from a (topic, partition) pair; an error naming what is wrong otherwise."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"expected a TopicPartition or a (topic, partition) pair, not {value!r}")
    topic, partition = value
    check_topic(topic)
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"partition of {topic!r} must be an int, not {partition!r}")
    if partition < 0:
        raise ConfigError(f"partition {partition} of topic {topic!r} is negative")
    return TopicPartition(topic, partition)


class Needless(str):
    """Why there is no counterpart of a peer's method."""

    __slots__ = ()


def hint(owner: str, name: str, peers_names: Mapping[str, str], real_names: Iterable[str]) -> str:
    """`Producer has no 'produce'; use 'send'`: for people who come from another client, or mistype."""
    if isinstance(instead := peers_names.get(name), Needless):
        return f"{owner} has no {name!r} and needs none: {instead}"
    if name in peers_names:
        return f"{owner} has no {name!r}; use {peers_names[name]!r}"
    near = difflib.get_close_matches(name, [n for n in real_names if not n.startswith("_")], n=1)
    return f"{owner} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def refuse_pickling(owner: str) -> NoReturn:
    """Clients hold threads and sockets: say what to send instead."""
    raise TypeError(
        f"a {owner} cannot be pickled: it holds a thread and sockets. Send its options (a plain dict) and make the {owner} "
        "where it is used; in Spark, pykafka4.spark.partition_writer(config, …) does that"
    )
