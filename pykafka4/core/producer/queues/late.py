"""Assigns partitions to batches that have none (`Spread.LATE`).

Invariant: a batch gets a partition that can send now, and keeps that partition.

The records of a topic that have no partition and no hashed key share one open batch. Their sealed batches wait in one queue with
partition -1 until a broker can take a batch: then the oldest batch moves to the queue of that broker's next partition, and is numbered and
sent from there.

Brokers get records in proportion to the partitions that they lead. A broker that is ahead of its share waits for brokers that are behind
theirs, unless they can take nothing for `LAGGARD_S`, or lead no online partition. (The model is Dory's AnyPartition.)
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Accumulator, Batch

__all__ = ["UNDESIGNATED", "LateBatches"]

UNDESIGNATED = -1  # the partition number of the queue of batches that have no partition yet
LAGGARD_S = 0.1  # seconds for which the other brokers wait for a broker that is behind its share
HUNGER_S = 0.5  # seconds after which a batch may queue behind others, if no partition of the broker is free
MOST_CHECKS = 50  # partitions that one search checks at most: a broker may lead thousands, and a turn of the loop must be short
PACE_S = 0.01  # seconds until the next check, if no partition of a broker can take a batch


@attrs.define(eq=False)
class BrokerShare:
    """The partitions of a topic that a broker leads, and the records that these partitions got."""

    partitions: list[int] = attrs.Factory(list)  # the online partitions that the broker leads
    cursor: int = 0  # index of the partition that was checked last
    checked: int = 0  # number of checks without success since one of the partitions last got a batch
    taken: float = 0.0  # number of records taken, per partition
    busy_since: float | None = None  # the time since which this broker has been next, but could take no batch
    excused: bool = False  # the broker took nothing for LAGGARD_S: other brokers do not wait for it


@attrs.define(eq=False)
class BrokerShares:
    """`as_of` has `Recovery.changes` and `Recovery.losses` from the last check of `by_node`."""

    as_of: tuple[int, int]
    by_node: dict[int, BrokerShare]


class PartitionQueues(Protocol):
    """The part of the sender that `LateBatches` uses."""

    def has_room(self, node: int) -> bool:
        """Whether another request may be sent to `node` now."""

    def late_queue(self, topic: str, partition: int, node: int, now: float) -> PartitionQueue | None:
        """The queue of `partition`, if `node` leads it and the queue can take a batch now."""

    def late_batch(self, queue: PartitionQueue, now: float) -> Batch | None:
        """The next batch of `queue`, sealed if necessary; None if there is none, or if it is not compressed yet."""

    def take_late(self, batch: Batch, queue: PartitionQueue) -> None:
        """Append `batch`, which has its partition now, to its `queue`."""


class LateBatches:
    __slots__ = (
        "_acc",
        "_checking",
        "_cluster",
        "_network",
        "_queues",
        "_ready",
        "_recovery",
        "_shares",
        "wake_at",
    )

    def __init__(
        self,
        accumulator: Accumulator,
        network: Network,
        cluster: Cluster,
        recovery: Recovery,
        ready: ReadyQueues,
        queues: PartitionQueues,
    ) -> None:
        self._acc, self._network, self._cluster, self._recovery, self._ready = accumulator, network, cluster, recovery, ready
        self._queues = queues
        self._shares: dict[str, BrokerShares] = {}
        self._checking: BrokerShare | None = None  # the share whose partitions are being checked
        self.wake_at = INFINITY

    def changed(self, topic: str) -> None:
        """Let the next `assign` check the leaders of `topic` again."""
        if (shares := self._shares.get(topic)) is not None:
            shares.as_of = (-1, -1)

    def forget(self, topic: str) -> None:
        self._shares.pop(topic, None)

    def assign(self, now: float) -> bool:
        """Give at most one batch of each topic to each broker that can take one; return whether a batch was assigned."""
        self.wake_at = INFINITY
        moved = False
        for queue in list(self._ready.late):
            moved |= self._assign(queue, now)
        return moved

    def _assign(self, queue: PartitionQueue, now: float) -> bool:
        shares = self._look(queue.tp.topic)
        waited_for = dict(shares)
        served: set[int] = set()
        while waited_for and queue.waiting:
            node = min(waited_for, key=lambda node: (shares[node].taken, node))
            if node in served:  # the next batch of the topic goes with the next request to the broker
                break
            share = shares[node]
            target = self._target(queue, node, share, now)
            if target is None:
                if not self._excuse(share, now):
                    break
                del waited_for[node]
                continue
            batch = self._queues.late_batch(queue, now)
            if batch is None:
                break
            self._welcome(share, shares)
            queue.remove(batch)
            self._acc.assign(batch, target.tp.partition)
            share.taken += batch.count / len(share.partitions)
            self._queues.take_late(batch, target)
            served.add(node)
        self._ready.place(queue)
        return bool(served)

    def is_hungry(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the oldest batch of `queue` has waited for so long that it may also queue behind a partition's other batches.

        False until all partitions of the broker have been checked: a partition with batches may be stuck while others are idle.
        """
        oldest = queue.candidate or queue.due
        share = self._checking
        return share is not None and share.checked >= len(share.partitions) and oldest is not None and oldest.created + HUNGER_S <= now

    def _target(self, queue: PartitionQueue, node: int, share: BrokerShare, now: float) -> PartitionQueue | None:
        if not self._network.ready(node):
            self._network.want(node)
            return None
        if not self._queues.has_room(node):
            return None
        self._checking = share
        hungry = self.is_hungry(queue, now)
        target = self._next_target(queue.tp.topic, node, share, now)
        if target is None and not hungry and self.is_hungry(queue, now):  # all partitions have been checked now
            target = self._next_target(queue.tp.topic, node, share, now)
        if target is None:
            self.wake_at = min(self.wake_at, now if share.checked < len(share.partitions) else now + PACE_S)
        return target

    def _next_target(self, topic: str, node: int, share: BrokerShare, now: float) -> PartitionQueue | None:
        count = len(share.partitions)
        for _ in range(min(count, MOST_CHECKS)):
            share.cursor = (share.cursor + 1) % count  # also moves past a stuck partition
            target = self._queues.late_queue(topic, share.partitions[share.cursor], node, now)
            if target is not None:
                return target
            share.checked += 1
        return None

    def _excuse(self, share: BrokerShare, now: float) -> bool:
        """Whether the other brokers may continue without this broker, which is next, but can take no batch."""
        if share.busy_since is None:
            share.busy_since = now
        until = share.busy_since + LAGGARD_S
        share.excused = share.excused or now >= until
        if not share.excused:
            self.wake_at = min(self.wake_at, until)
        return share.excused

    def _welcome(self, share: BrokerShare, shares: dict[int, BrokerShare]) -> None:
        """Prepare `share` for its next batch. A share that was excused does not catch up with the batches that the others took meanwhile.

        Otherwise a broker would get every batch after an outage, until it had as many as the others.
        """
        if share.excused:
            share.taken = max(share.taken, min((other.taken for other in shares.values() if not other.excused), default=share.taken))
        share.busy_since, share.excused, share.checked = None, False, 0

    def _look(self, topic: str) -> dict[int, BrokerShare]:
        as_of = self._recovery.changes, self._recovery.losses
        known = self._shares.get(topic)
        if known is not None and known.as_of == as_of:
            return known.by_node
        leads: dict[int, list[int]] = {}
        for partition in self._cluster.available(topic):
            leader = self._recovery.leader(TopicPartition(topic, partition))
            if leader is not None:
                leads.setdefault(leader.node, []).append(partition)
        if known is None:
            known = self._shares[topic] = BrokerShares(as_of, {})
        known.as_of = as_of
        if leads != {node: share.partitions for node, share in known.by_node.items()}:
            known.by_node = {node: self._share(known.by_node.get(node), leads[node]) for node in sorted(leads)}
        return known.by_node

    def _share(self, known: BrokerShare | None, partitions: list[int]) -> BrokerShare:
        """The new share of a broker that leads `partitions` now. `taken` starts from 0 for all brokers, because the partitions changed."""
        cursor = 0 if known is None else known.cursor
        return BrokerShare(partitions, cursor, 0, 0.0, None if known is None else known.busy_since, known is not None and known.excused)
