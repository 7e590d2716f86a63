"""Recovery. Rule: partitions go offline and come back one by one; none waits for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import Effects
from pykafka4.core.cluster import Cluster, Leader
from pykafka4.core.network import Network
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Offline", "PartitionOffline", "PartitionOnline", "Recovery"]


@attrs.frozen
class PartitionOffline:
    tp: TopicPartition
    reason: KafkaError


@attrs.frozen
class PartitionOnline:
    tp: TopicPartition


@attrs.frozen
class Offline:
    since: float
    reason: KafkaError
    attempts: int


class Recovery:
    changes: int  # grows when a partition came online (or its leader changed)
    offline: Mapping[TopicPartition, Offline]

    def __init__(
        self, config: ClientConfig, cluster: Cluster, network: Network, random: Random, emit: Callable[[object], None]
    ) -> None: ...
    def leader(self, tp: TopicPartition) -> Leader | None: ...
    def report(self, now: float, tp: TopicPartition, reason: KafkaError) -> None: ...
    def healthy(self, tp: TopicPartition) -> None: ...
    def poll(self, now: float) -> Effects: ...
    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]: ...
