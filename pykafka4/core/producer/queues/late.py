"""Late partitions. Rule: a batch without a partition gets one when a request to its leader can be built, and keeps it from then on.

With `partitioner="late"` the records of a topic that have neither key nor partition share one open batch. Its sealed batches wait in one
queue per topic, whose partition is -1, until a broker can take one: then the batch moves to the queue of one of that broker's partitions,
the next one in turn, and is numbered and sent from there. A request gets at most one such batch of each topic.

Brokers get records in proportion to the partitions that they lead: a broker that is ahead of its share waits for those behind, but not for
one that has taken nothing for `LAGGARD_S`, is not connected, or leads no partition that is online. (Dory's AnyPartition.)
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

__all__ = ["UNDESIGNATED", "Late"]

UNDESIGNATED = -1  # the partition of the queue of batches without one
LAGGARD_S = 0.1  # the other brokers wait that long for one that is behind its share
HUNGER = 0.5  # seconds after which a batch takes its place behind others, if records with keys keep every partition busy
LOOKS = 50  # partitions of a broker that are looked at in one turn for one that can take a batch
PACE = 0.01  # seconds until the next ones are looked at, when all were looked at in vain


@attrs.define(eq=False)
class Share:
    """What a broker takes of a topic."""

    partitions: list[int] = attrs.Factory(list)  # that it leads and that are online
    cursor: int = 0  # of the one that was looked at last
    looked: int = 0  # how many were looked at since one of them got a batch
    taken: float = 0.0  # records per partition
    busy_since: float | None = None  # since when it was its turn and it could not take a batch
    excused: bool = False  # it took nothing for LAGGARD_S: the others do not wait for it


@attrs.define(eq=False)
class Shares:
    """The brokers' shares of a topic, as of these changes of the metadata and of what is online."""

    as_of: tuple[int, int]
    by_node: dict[int, Share]


class PartitionQueues(Protocol):
    """The sender, as batches without a partition know it."""

    def has_room(self, node: int) -> bool:
        """Whether another request may be sent to `node` now."""

    def late_queue(self, topic: str, partition: int, node: int, now: float) -> PartitionQueue | None:
        """The queue of that partition of `node`, if it can take a batch now."""

    def late_batch(self, queue: PartitionQueue, now: float) -> Batch | None:
        """The next batch of a `queue` without a partition, sealed if it is due."""

    def take_late(self, batch: Batch, queue: PartitionQueue) -> None:
        """`batch` has its partition now: append it to its `queue`."""


class Late:
    """Moves batches without a partition to the queues of partitions."""

    __slots__ = (
        "_acc",
        "_cluster",
        "_looking",
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
        self._shares: dict[str, Shares] = {}
        self._looking: Share | None = None  # whose partitions are looked at
        self.wake_at = INFINITY

    def changed(self, topic: str) -> None:
        """The metadata of `topic` changed, or it is no longer used."""
        if (shares := self._shares.get(topic)) is not None:
            shares.as_of = (-1, -1)

    def forget(self, topic: str) -> None:
        """Nothing is sent to `topic` any more."""
        self._shares.pop(topic, None)

    def assign(self, now: float) -> bool:
        """Give each broker that can take one a batch of each topic; returns whether there was any."""
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
            if node in served:  # the next request gets its next batch
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
        """Whether the oldest batch of `queue` has waited for so long that it no longer waits for a partition with nothing to send.

        Not before all partitions of the broker were looked at: one that has something to send may be stuck, beside others that are idle.
        """
        oldest = queue.candidate or queue.due
        share = self._looking
        return share is not None and share.looked >= len(share.partitions) and oldest is not None and oldest.created + HUNGER <= now

    def _target(self, queue: PartitionQueue, node: int, share: Share, now: float) -> PartitionQueue | None:
        """The queue of the next partition of `node` that can send a batch now."""
        if not self._network.ready(node):
            self._network.want(node)
            return None
        if not self._queues.has_room(node):
            return None
        self._looking = share
        hungry = self.is_hungry(queue, now)
        target = self._next_target(queue.tp.topic, node, share, now)
        if target is None and not hungry and self.is_hungry(queue, now):  # all were looked at now
            target = self._next_target(queue.tp.topic, node, share, now)
        if target is None:
            self.wake_at = min(self.wake_at, now if share.looked < len(share.partitions) else now + PACE)
        return target

    def _next_target(self, topic: str, node: int, share: Share, now: float) -> PartitionQueue | None:
        count = len(share.partitions)
        for _ in range(min(count, LOOKS)):
            share.cursor = (share.cursor + 1) % count  # also if that one is stuck: the next turn goes on behind it
            target = self._queues.late_queue(topic, share.partitions[share.cursor], node, now)
            if target is not None:
                return target
            share.looked += 1
        return None

    def _excuse(self, share: Share, now: float) -> bool:
        """It is this broker's turn, and it can take nothing: whether the others may go on without it."""
        if share.busy_since is None:
            share.busy_since = now
        until = share.busy_since + LAGGARD_S
        share.excused = share.excused or now >= until
        if not share.excused:
            self.wake_at = min(self.wake_at, until)
        return share.excused

    def _welcome(self, share: Share, shares: dict[int, Share]) -> None:
        """`share` is about to take a batch. What it missed while it was excused went to the others: it does not catch up."""
        if share.excused:
            share.taken = max(share.taken, min((other.taken for other in shares.values() if not other.excused), default=share.taken))
        share.busy_since, share.excused, share.looked = None, False, 0

    def _look(self, topic: str) -> dict[int, Share]:
        """The shares of the brokers that lead partitions which are online."""
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
            known = self._shares[topic] = Shares(as_of, {})
        known.as_of = as_of
        if leads != {node: share.partitions for node, share in known.by_node.items()}:
            known.by_node = {node: self._share(known.by_node.get(node), leads[node]) for node in sorted(leads)}
        return known.by_node

    def _share(self, known: Share | None, partitions: list[int]) -> Share:
        """The share of a broker that leads `partitions` now: all start from 0, as what they took was for other shares."""
        cursor = 0 if known is None else known.cursor
        return Share(partitions, cursor, 0, 0.0, None if known is None else known.busy_since, known is not None and known.excused)
