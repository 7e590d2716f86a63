"""Ready queues. Rule: a queue stands in at most one line, that of its leader; whatever keeps it out of there places it again.

The leader is asked for when a queue is placed; whoever picks a queue looks again. While nobody leads its partition a queue stands nowhere:
the sender places it when its topic changes or the partition comes back. A leader change moves nothing in the queues themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.records import TopicPartition

__all__ = ["ReadyQueues"]


class ReadyQueues:
    """The queues that have something to send, by the node that leads their partition; first come, first served."""

    __slots__ = ("_leader", "_lines")

    def __init__(self, leader: Callable[[TopicPartition], int | None]) -> None:
        """`leader(tp)` names the node that leads a partition now, None while nobody does."""
        self._leader = leader
        self._lines: dict[int, OrderedDict[PartitionQueue, None]] = {}  # none is empty

    def place(self, queue: PartitionQueue) -> None:
        """Put `queue` at the end of the line of its leader, unless it stands there already.

        Without a leader it stands nowhere, nor with nothing to send: its last batch may have failed in the line, which would ask for one
        for ever.
        """
        node = self._leader(queue.tp) if queue.waiting else None
        if queue.placed_at == node:
            return
        self.remove(queue)
        if node is not None:
            queue.placed_at = node
            self._lines.setdefault(node, OrderedDict())[queue] = None

    def remove(self, queue: PartitionQueue) -> None:
        """Take `queue` out of its line; whatever it waits for places it again."""
        node, queue.placed_at = queue.placed_at, None
        if node is not None:
            line = self._lines[node]
            del line[queue]
            if not line:
                del self._lines[node]

    def nodes(self) -> list[int]:
        """The nodes that something could be sent to."""
        return list(self._lines)

    def head(self, node: int) -> PartitionQueue | None:
        """Who is next at `node`."""
        line = self._lines.get(node)
        return None if line is None else next(iter(line))
