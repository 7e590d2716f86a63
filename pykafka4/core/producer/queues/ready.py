"""Lists the queues with a batch to send, by leader. Invariant: a queue is in at most one list, under the leader found when it was placed.

Rule: the code that ends the reason why a queue is in no list places the queue again; otherwise its batches would never be sent. The leader
of a queue is looked up when the queue is placed, and checked when the queue is picked. A queue without a leader then leaves its list, until
its topic changes or the partition is online again.
"""

from __future__ import annotations

from collections import OrderedDict

from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.producer.queues.partition_queue import PartitionQueue

__all__ = ["ReadyQueues"]


class ReadyQueues:
    """The queues with a batch to send; first come, first served."""

    __slots__ = ("_queues", "_recovery", "late")

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.late: dict[PartitionQueue, None] = {}  # queues of batches without a partition, and so without a leader
        self._queues: dict[int, OrderedDict[PartitionQueue, None]] = {}  # by leader; only nodes with ready queues

    def place(self, queue: PartitionQueue) -> None:
        """Append `queue` to the list of its leader, unless it is already there; or to `late`, if its batches have no partition.

        A queue without a leader, or without a batch to send (its last batch may have failed), is removed.
        """
        if queue.tp.partition < 0:
            self.remove(queue)
            if queue.waiting:
                self.late[queue] = None
            return
        leader = self._recovery.leader(queue.tp) if queue.waiting else None
        node = None if leader is None else leader.node
        if queue.placed_at == node:
            return
        self.remove(queue)
        if node is not None:
            queue.placed_at = node
            self._queues.setdefault(node, OrderedDict())[queue] = None

    def remove(self, queue: PartitionQueue) -> None:
        if queue.tp.partition < 0:
            self.late.pop(queue, None)
        node, queue.placed_at = queue.placed_at, None
        if node is not None:
            queues = self._queues[node]
            del queues[queue]
            if not queues:
                del self._queues[node]

    def of(self, node: int) -> list[PartitionQueue]:
        return list(self._queues.get(node, ()))

    def nodes(self) -> list[int]:
        return list(self._queues)

    def head(self, node: int) -> PartitionQueue | None:
        queues = self._queues.get(node)
        return None if queues is None else next(iter(queues))
