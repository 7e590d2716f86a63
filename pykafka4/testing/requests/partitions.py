"""Finds the partitions that a request names. Invariant: only the leader serves a partition, but any replica serves Fetch
from version 11 on."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, TypeVar

from pykafka4.testing.requests.session import Call
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.partition import Partition
from pykafka4.testing.storage.transactions import Isolation

__all__ = ["FETCH_FROM_FOLLOWERS", "endpoints", "isolation", "led", "named", "readable"]

T = TypeVar("T")
FETCH_FROM_FOLLOWERS: Final = 11  # the first version of Fetch that any replica serves (KIP-392)


def named(call: Call, topic: Any, name: str, since: int) -> tuple[str | None, str | None]:
    """(topic name, error). From version `since` on, requests have topic ids instead of names."""
    if call.version < since:
        return name, None
    found = call.cluster.topics.by_id(topic.topic_id)
    return (found.name, None) if found else (None, "UNKNOWN_TOPIC_ID")


def led(call: Call, topic: str, partition: int, epoch: int = -1) -> tuple[Partition | None, str | None]:
    """(partition, error); the error is the reason why this broker does not serve the partition, or None."""
    found = call.cluster.partition(topic, partition)
    if found is None:
        return None, "UNKNOWN_TOPIC_OR_PARTITION"
    if epoch >= 0 and epoch != found.epoch and call.broker.node in found.copies:
        return found, "FENCED_LEADER_EPOCH" if epoch < found.epoch else "UNKNOWN_LEADER_EPOCH"
    return found, None if found.leader == call.broker.node else "NOT_LEADER_OR_FOLLOWER"


def readable(call: Call, topic: str, partition: int, epoch: int) -> tuple[Partition | None, PartitionLog | None, str | None]:
    """(partition, the log to read, error) for a Fetch."""
    found, refused = led(call, topic, partition, epoch)
    follows = found is not None and refused == "NOT_LEADER_OR_FOLLOWER" and call.broker.node in found.copies
    if found is not None and follows and call.version >= FETCH_FROM_FOLLOWERS:
        return found, found.copies[call.broker.node].log, None
    return found, None if refused or found is None else found.log, refused


def endpoints(call: Call, kind: Callable[..., T], nodes: Container[int]) -> list[T]:
    """The addresses of the running brokers among `nodes`, as instances of `kind`."""
    up = [broker for broker in call.cluster.brokers.values() if broker.up and broker.node in nodes]
    return [kind(node_id=broker.node, host=broker.host, port=broker.port, rack=broker.rack) for broker in up]


def isolation(call: Call) -> Isolation:
    """The isolation level of a Fetch or ListOffsets; any number but 1 reads uncommitted records."""
    return Isolation.READ_COMMITTED if call.message.isolation_level == Isolation.READ_COMMITTED.value else Isolation.READ_UNCOMMITTED
