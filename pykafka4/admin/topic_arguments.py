"""Checks arguments about topics and settings. Invariant: the error for a wrong argument shows the correct use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pykafka4.core.admin.configs import ALL_BROKERS, KINDS, Append, Operation, Resource, Subtract
from pykafka4.core.admin.topics import NewPartitions, NewTopic
from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count, check_topic

__all__ = ["as_changes", "as_kinds", "as_new_partitions", "as_new_topics", "as_resources", "as_topic_names", "as_topics"]

MOST: Final = 2**31 - 1  # an int32: numbers of partitions, broker ids
MOST_REPLICAS: Final = 2**15 - 1  # an int16 of CreateTopics
KNOWN: Final = (*KINDS,)  # a tuple, because `in` for a dict raises TypeError if the argument is a list
NUMBERED: Final = ("broker", "broker-logger")  # kinds of resources whose names are broker ids


def as_topics(topics: object) -> list[str | UUID]:
    given = _listed(topics, "topic names or ids")
    return list(dict.fromkeys(topic if isinstance(topic, UUID) else check_topic(topic) for topic in given))


def as_topic_names(topics: object) -> list[str]:
    return list(dict.fromkeys(map(check_topic, _listed(topics, "topic names"))))


def _listed(topics: object, kind: str) -> Iterable[object]:
    if isinstance(topics, (str, bytes, UUID)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={shown(topics)}: takes a list of {kind}")
    return topics


def as_new_topics(topics: object, replication_factor: object, configs: object) -> dict[str, NewTopic]:
    """`replication_factor` and `configs` are for topics without a `NewTopic`."""
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={shown(topics)}: takes a mapping of topic names to numbers of partitions, or to NewTopic")
    given = topics if isinstance(topics, Mapping) else dict.fromkeys(map(check_topic, topics), -1)
    replicas, settings = _or_default(replication_factor, "replication_factor", MOST_REPLICAS), _as_configs(configs or {})
    return {check_topic(name): _new(name, given[name], replicas, settings) for name in given}


def _new(name: str, topic: object, replicas: int, configs: dict[str, str]) -> NewTopic:
    if not isinstance(topic, NewTopic):
        return NewTopic(_or_default(topic, f"the number of partitions of topic {name!r}", MOST), replicas, None, configs)
    placed = topic.assignments or {}
    if not isinstance(placed, Mapping):
        raise ConfigError(f"topic {name!r}: assignments={shown(placed)}: takes a mapping of partitions to brokers, such as {{0: [1, 2]}}")
    rows = {check_count(n, f"a partition of {name}", MOST): _brokers(nodes) for n, nodes in placed.items()}
    if rows and (topic.partitions not in (-1, len(rows)) or topic.replication_factor != -1):
        raise ConfigError(
            f"topic {name!r}: assignments already give partitions and replicas; leave partitions and replication_factor at -1"
        )
    return NewTopic(
        _or_default(topic.partitions, f"the number of partitions of topic {name!r}", MOST),
        _or_default(topic.replication_factor, f"the replication factor of topic {name!r}", MOST_REPLICAS),
        rows or None,
        _as_configs(topic.configs),
    )


def _or_default(value: object, what: str, highest: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value == -1:
        return -1
    with contextlib.suppress(ConfigError):
        if number := check_count(value, what, highest):
            return number
    raise ConfigError(f"{what} must be from 1 to {highest:,}, or -1 for the brokers' default, not {shown(value)}")


def _brokers(nodes: object) -> list[int]:
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Sequence) or not nodes:
        raise ConfigError(f"assignments: {shown(nodes)}: takes the numbers of brokers, the leader first, for each partition")
    return [check_count(node, "a broker's number", MOST) for node in nodes]


def as_new_partitions(topics: object) -> dict[str, NewPartitions]:
    if not isinstance(topics, Mapping):
        raise ConfigError(f"topics={shown(topics)}: takes a mapping of topic names to their new number of partitions, or to NewPartitions")
    found = {}
    for name, wanted in topics.items():
        total, rows = (wanted.total, wanted.assignments) if isinstance(wanted, NewPartitions) else (wanted, None)
        if rows is not None and (isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable)):
            raise ConfigError(f"topic {name!r}: assignments={shown(rows)}: takes the brokers of each new partition, such as [[1, 2]]")
        placed = None if rows is None else [_brokers(nodes) for nodes in rows]
        found[check_topic(name)] = NewPartitions(check_count(total, f"the number of partitions of topic {name!r}", MOST), placed)
    return found


def as_resource(resource: object) -> Resource:
    """Check a resource: `("topic", "orders")`, `("broker", 1)`; `("broker", None)` means all brokers."""
    if not isinstance(resource, tuple) or len(resource) != 2 or resource[0] not in KNOWN:
        raise ConfigError(f"{shown(resource)}: takes a pair of a kind ({', '.join(KINDS)}) and a name, such as ('topic', 'orders')")
    kind, name = resource
    if kind not in NUMBERED:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{shown(resource)}: the name of a {kind} is a str, not empty")
        return (kind, check_topic(name) if kind == "topic" else str.__str__(name))
    if name is ALL_BROKERS and kind == "broker":
        return (kind, name)
    if isinstance(name, str) and name.isascii() and name.isdigit():
        name = int(name)
    return (kind, check_count(name, f"the number of a {kind}", MOST))


def as_resources(resources: object) -> list[Resource]:
    if isinstance(resources, (str, bytes, tuple)) or not isinstance(resources, Iterable):
        raise ConfigError(f"resources={shown(resources)}: takes a list of pairs such as ('topic', 'orders') and ('broker', 1)")
    return list(dict.fromkeys(map(as_resource, resources)))


def as_kinds(kinds: object) -> list[str]:
    if isinstance(kinds, (str, bytes)) or not isinstance(kinds, Iterable):
        raise ConfigError(f"kinds={shown(kinds)}: takes a list of {', '.join(KINDS)}")
    found = list(kinds)
    if wrong := [kind for kind in found if kind not in KNOWN]:
        raise ConfigError(f"kinds: {shown(wrong[0])} is none of {', '.join(KINDS)}")
    return found


def as_changes(changes: object) -> dict[Resource, dict[str, Operation]]:
    if not isinstance(changes, Mapping):
        raise ConfigError(f"changes={shown(changes)}: takes a mapping such as {{('topic', 'orders'): {{'retention.ms': '7200000'}}}}")
    found = {}
    for resource, settings in changes.items():
        if not isinstance(settings, Mapping) or not settings:
            raise ConfigError(
                f"the changes of {shown(resource)} must be a mapping of at least one setting to its value, not {shown(settings)}"
            )
        found[as_resource(resource)] = {_setting(name): _operation(name, value) for name, value in settings.items()}
    return found


def _operation(name: str, value: object) -> Operation:
    if isinstance(value, (Append, Subtract)):
        return type(value)(*(_text(name, item) for item in value.values))
    return None if value is None else _text(name, value)


def _as_configs(configs: object) -> dict[str, str]:
    if not isinstance(configs, Mapping):
        raise ConfigError(f"configs={shown(configs)}: takes a mapping of settings to their values")
    return {_setting(name): _text(name, value) for name, value in configs.items()}


def _setting(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"setting {shown(name)}: the name of a setting is a str, not empty, such as 'retention.ms'")
    return str.__str__(name)


def _text(name: str, value: Any) -> str:
    """A value as Kafka writes it: `true`, `7200000`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():  # Kafka refuses "1000000.0" for an integer
        value = int(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise ConfigError(f"setting {name!r}: {shown(value)} is neither text nor a number; a list is written 'a,b'")
    return str.__str__(value)
