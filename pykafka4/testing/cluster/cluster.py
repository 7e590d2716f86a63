"""Keeps the state that a cluster's brokers share. Request handlers use `Cluster` directly; tests use `ModelCluster`, which adds the faults.

Invariant: all random numbers are drawn from `random`, and all scheduled events are on `timeline`, so that a run can be repeated.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Protocol
from uuid import UUID

from pykafka4.records import TopicPartition
from pykafka4.testing.broker import Broker, Brokers
from pykafka4.testing.cluster.metadata import Metadata
from pykafka4.testing.cluster.releases import Behaviour, versions_of
from pykafka4.testing.cluster.settings import LOG_SETTINGS, MOST_PARTITIONS, altered, checked_settings
from pykafka4.testing.faults import checks
from pykafka4.testing.faults.controls import Controls, Injected
from pykafka4.testing.groups.coordinators import Coordinators
from pykafka4.testing.shares.shares import Shares
from pykafka4.testing.storage.batch import Appended
from pykafka4.testing.storage.fetch_sessions import FetchSessions
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.partition import Partition, Replica, Topic, Topics
from pykafka4.testing.storage.replication import Replication
from pykafka4.testing.storage.transactions import Marker
from pykafka4.testing.timeline import Timeline
from pykafka4.testing.transactions.coordinators import TransactionCoordinators
from pykafka4.testing.transactions.markers import MarkerWriter
from pykafka4.wire.records.batch import ControlType

__all__ = ["Cluster"]


class Request(Protocol):
    """The attributes that `Cluster` reads from a request."""

    key: int
    name: str
    version: int
    broker: Broker


class Cluster:
    def __init__(
        self,
        brokers: int = 3,
        *,
        random: Random | None = None,
        timeline: Timeline | None = None,
        release: str = "4.4",
        auto_create_topics: bool = True,
        default_partitions: int = 3,
    ) -> None:
        nodes = range(1, checks.whole("brokers", brokers, 1) + 1)
        self.random = random = Random(0) if random is None else checks.instance("random", random, Random)
        self.timeline = timeline = timeline or Timeline()
        self.auto_create_topics = checks.flag("auto_create_topics", auto_create_topics)
        self.default_partitions = checks.whole("default_partitions", default_partitions, 1, MOST_PARTITIONS)
        self.release, self.versions = release, dict(versions_of(release))
        self.behaviour = behaviour = Behaviour(release)
        self.brokers = Brokers({node: Broker(node, f"broker-{node}", 9092) for node in nodes})
        numbers = itertools.count(1)
        self.fetch_sessions = {node: FetchSessions(timeline, numbers) for node in nodes}
        self.topics = Topics()
        self.controls = Controls()
        self.metadata = Metadata(self.brokers, self.topics, timeline)
        self.replication = Replication(self.brokers, self.topics, timeline, random)
        self.replication.waits_below_min = behaviour.waits_below_min
        self.coordinators = Coordinators(self.brokers, self.topics, timeline, random, behaviour.interrupts_sync, behaviour.replication_lag)
        self.shares = Shares(self.topics, timeline)
        markers = MarkerWriter(self.brokers, self.topics, timeline, self.appended, self._settle_offsets)
        self.transactions = TransactionCoordinators(self.brokers, timeline, random, self.new_producer_id, markers)
        self.transaction_version = behaviour.transaction_version
        # shortcuts
        self.alive, self.partition, self.partitions = self.brokers.alive, self.topics.partition, self.topics.partitions
        self.groups, self.group, self.coordinator = self.coordinators.groups, self.coordinators.group, self.coordinators.coordinator_of
        self.cluster_id = "model-cluster"
        self.zombies = 0.0  # the probability that requests of lost connections are still executed
        self.requests: Counter[str] = Counter()
        self.on_request: Callable[[str], None] | None = None  # called with a text about each request
        # called with (partition, produced batch, result)
        self.on_batch: Callable[[str, Any, Appended], None] = lambda where, data, result: None
        self.on_append: list[Callable[[TopicPartition, int, int], None]] = []  # called with (partition, first new offset, count)
        # called with each offset that OffsetCommit stores: (group, partition, offset, whether the client still waits for the response)
        self.on_commit: list[Callable[[str, TopicPartition, int, bool], None]] = []
        self.wall_ms: Callable[[], int] = lambda: 1_700_000_000_000 + int(self.timeline.now * 1000)
        self._last_producer = 1000

    # ---- requests

    def seen(self, call: Request, fault: Injected | None) -> None:
        """Count a request, and report it to `on_request`."""
        self.requests[call.name] += 1
        if self.on_request is not None:
            self.on_request(f"broker {call.broker.node}: {call.name} v{call.version} {fault.fault.name if fault else ''}")

    def use_throttle(self, call: Request) -> float:
        return self.controls.use_throttle(call.key)

    def new_producer_id(self) -> int:
        self._last_producer += 1
        return self._last_producer

    def _settle_offsets(self, group: str, marker: Marker) -> bool:
        """False if no coordinator serves the group now."""
        if not self.coordinators.serves(group):
            return False
        self.group(group).settle(marker.producer_id, marker.producer_epoch, committed=marker.kind is ControlType.COMMIT)
        return True

    # ---- topics

    def create_topic(self, name: str, partitions: int | None = None, *, leaders: Iterable[int] = (), **settings: Any) -> Topic:
        """Create a topic; leaders are assigned round-robin, or as given.

        `settings`: replicas (their number, by default the number of brokers), min_in_sync, unclean, and the settings of `PartitionLog`:
        max_message_bytes, append_time, compacted, before_max_ms, after_max_ms, refuse, unknown_producer, duplicate_answer, remembered.
        Raises ValueError for an existing topic, TypeError or ValueError for an invalid argument.
        """
        if name in self.topics:
            raise ValueError(f"topic {name!r} already exists")
        count = self.default_partitions if partitions is None else checks.whole("partitions", partitions, 1, MOST_PARTITIONS)
        wanted, settings = checks.leaders(leaders, self.brokers), checked_settings(settings, self.brokers)
        topic = self.topics[name] = Topic(name, UUID(int=self.random.getrandbits(128) | 1), settings=settings)
        self.add_partitions(name, count, leaders=wanted)
        return topic

    def ensure_topic(self, name: str) -> Topic:
        """The topic; it is created if it does not exist."""
        return self.topics[name] if name in self.topics else self.create_topic(name)

    def add_partitions(self, name: str, total: int, *, leaders: Iterable[int] = ()) -> None:
        """Grow a topic to `total` partitions."""
        topic, wanted, nodes = self.topics[name], list(leaders), sorted(self.brokers)
        shift = self.random.randrange(len(nodes))
        for number in range(len(topic.partitions), total):
            leader = wanted[number] if number < len(wanted) else nodes[(number + shift) % len(nodes)]
            topic.partitions.append(self._new_partition(topic, number, leader, nodes))
            if not self.brokers[leader].up:
                self.replication.elect(topic.partitions[-1])

    def alter_topic(self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Change configs of a topic; None restores the default of a config. Raises ValueError for an invalid number."""
        topic = self.topics[name]
        settings = checked_settings(altered(topic.settings, topic.configs, changes), self.brokers)
        if validate_only:
            return
        topic.settings = settings
        topic.configs = {key: value for key, value in {**topic.configs, **changes}.items() if value is not None}
        for partition in topic.partitions:
            new = self._new_partition(topic, partition.tp.partition, partition.last_leader, sorted(self.brokers))
            partition.min_in_sync, partition.unclean = new.min_in_sync, new.unclean
            for copy, key in itertools.product(partition.copies.values(), LOG_SETTINGS):
                setattr(copy.log, key, getattr(new.log, key))

    def _new_partition(self, topic: Topic, number: int, leader: int, nodes: list[int]) -> Partition:
        usual = self.behaviour
        settings = {
            "after_max_ms": usual.after_max_ms,
            "unknown_producer": usual.unknown_producer,
            "remembered": usual.remembered,
            **topic.settings,
        }
        count = settings.pop("replicas", len(nodes))
        own = {name: settings.pop(name) for name in ("min_in_sync", "unclean") if name in settings}
        at = nodes.index(leader)
        holders = sorted((nodes[at:] + nodes[:at])[:count])
        tp = TopicPartition(topic.name, number)
        copies = {node: Replica(node, PartitionLog(tp, lambda: self.wall_ms(), **settings)) for node in holders}
        copies[leader].log.begin_epoch(0)
        in_sync = [node for node in holders if self.brokers[node].up or node == leader]
        return Partition(tp, leader, 0, copies, in_sync, last_leader=leader, **own)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets."""
        topic = self.topics.pop(name)
        for group in self.groups.values():
            for partition in topic.partitions:
                group.offsets.pop(partition.tp, None)
        self.replication.deleted(topic)

    # ---- records

    def appended(self, target: Partition, base: int) -> None:
        """Report the records from `base` on to the watchers, execute an ordered fault, then let the followers copy.

        The fault comes before the copies, because `lose_leadership_after_append` has to change the leader while followers lack the records.
        """
        for watch in self.on_append:
            watch(target.tp, base, target.log.end_offset - base)
        order = self.controls.use_after_append(target.tp)
        if order is not None:
            order(target)
        self.replication.spread(target)

    @checks.checked
    def delete_records(self, topic: str, partition: int, to: int) -> None:
        """Delete the records below offset `to`, as DeleteRecords or retention does."""
        target = self.topics[topic].partitions[partition]
        target.log.delete_before(to)
        self.replication.spread(target)
