"""Cluster. Rule: the picture only moves forward; an older leader epoch, a missing topic or an empty answer never takes knowledge away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from uuid import UUID

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import Effects
from pykafka4.core.network import Network
from pykafka4.error_table import ErrorCode
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Broker", "BrokerAdded", "BrokerRemoved", "Change", "Cluster", "Leader", "MetadataChanged"]


@attrs.frozen
class Broker:
    node: int
    host: str
    port: int
    rack: str | None = None


@attrs.frozen
class Leader:
    node: int
    epoch: int  # -1: the broker is too old to tell


@attrs.frozen
class Change:
    """What became different."""

    version: int
    topics: frozenset[str]
    brokers: bool


@attrs.frozen
class BrokerAdded:
    node: int
    host: str
    port: int


@attrs.frozen
class BrokerRemoved:
    node: int
    host: str
    port: int


@attrs.frozen
class MetadataChanged:
    version: int


class Cluster:
    version: int
    brokers: Mapping[int, Broker]
    controller: int | None
    cluster_id: str | None
    on_change: list[Callable[[Change], None]]

    def __init__(self, config: ClientConfig, network: Network, random: Random, emit: Callable[[object], None]) -> None: ...
    def partitions(self, topic: str) -> int: ...
    def available(self, topic: str) -> list[int]: ...
    def leader(self, tp: TopicPartition) -> Leader | None: ...
    def topic_id(self, topic: str) -> UUID | None: ...
    def topic_name(self, topic_id: UUID) -> str | None: ...
    def topic_error(self, topic: str) -> ErrorCode | None: ...
    def unknown_since(self, topic: str) -> float | None: ...
    def want(self, topic: str) -> None: ...  # remembered; learned on demand; never created
    def want_created(self, topic: str) -> None: ...  # for producers: asks the brokers to create it (if allow_auto_create_topics)
    def forget(self, topic: str) -> None: ...
    def refresh(self, now: float, topics: Collection[str] | None = None) -> None: ...
    def refreshed(self, now: float, topics: Collection[str] | None, then: Callable[[KafkaError | None], None]) -> None: ...
    def hint(self, tp: TopicPartition, node: int, epoch: int, endpoint: tuple[str, int] | None = None) -> None: ...
    def poll(self, now: float) -> Effects: ...
    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]: ...
