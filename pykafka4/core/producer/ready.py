"""Ready queues. Rule: a queue with something to send stands in exactly one place: the line of its leader, or among the leaderless.

The leader is asked for when a queue is placed; whoever picks a queue looks again. A leader change moves nothing in the queues themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.records import TopicPartition

__all__ = ["ReadyQueues"]


class ReadyQueues:
    """The queues that have something to send, by the node that leads their partition; first come, first served."""

    __slots__ = ("_leader", "_leaderless", "_lines")

    def __init__(self, leader: Callable[[TopicPartition], int | None]) -> None:
        """`leader(tp)` names the node that leads a partition now, None while nobody does."""
        self._leader = leader
        self._lines: dict[int, OrderedDict[PartitionQueue, None]] = {}
        self._leaderless: OrderedDict[PartitionQueue, None] = OrderedDict()

    def place(self, queue: PartitionQueue) -> None:
        """Put `queue` at the end of where it belongs now, unless it stands there already; with nothing to send that is nowhere."""
        if not queue.waiting:
            self.remove(queue)  # its last batch may have failed in the line: it would be asked for one for ever
            return
        node = self._leader(queue.tp)
        if node is None:
            self.remove(queue)
            self._leaderless[queue] = None
        elif queue.placed_at != node:
            self.remove(queue)
            queue.placed_at = node
            self._lines.setdefault(node, OrderedDict())[queue] = None

    def remove(self, queue: PartitionQueue) -> None:
        """Take `queue` out of its line; whatever it waits for places it again."""
        if queue.placed_at is not None:
            del self._lines[queue.placed_at][queue]
            queue.placed_at = None
        self._leaderless.pop(queue, None)

    def replace_all(self) -> None:
        """Leaders may have changed: look again for everybody who waits."""
        for queue in [*self._leaderless, *(q for line in self._lines.values() for q in line)]:
            self.place(queue)

    def nodes(self) -> list[int]:
        """The nodes that ever had a line."""
        return list(self._lines)

    def head(self, node: int) -> PartitionQueue | None:
        """Who is next at `node`."""
        line = self._lines.get(node)
        return next(iter(line)) if line else None

    def __iter__(self) -> Iterator[PartitionQueue]:
        for line in self._lines.values():
            yield from line
        yield from self._leaderless
