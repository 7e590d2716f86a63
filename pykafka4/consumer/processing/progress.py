"""Keeps the window of a partition. Invariant: the window begins with the first unfinished record in hand.

The window has all records that were handed out from that record on. After a restart, the records after the last commit are processed again:
the window, and the records before it that were finished after that commit.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["PartitionProgress", "TaskInHand"]


@attrs.define(eq=False)
class TaskInHand:
    record: Record
    progress: PartitionProgress
    attempts: int = 0
    finished: bool = False
    void: bool = False  # reading has gone back to this offset or an earlier one

    @property
    def ended(self) -> bool:
        return self.void or self.progress.ended


class PartitionProgress:
    """The records in hand of one partition, from its assignment to its end. The owner of this object calls its methods under a lock."""

    __slots__ = ("_window", "ended", "running", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.running = 0  # running handlers, and records that wait for acknowledgements
        self.ended = False  # the partition was taken away: its records are not handled any more
        self._window: OrderedDict[int, TaskInHand] = OrderedDict()

    @property
    def window(self) -> int:
        return len(self._window)

    @property
    def first(self) -> OffsetAndEpoch | None:
        task = next(iter(self._window.values()), None)
        return None if task is None else (task.record.offset, task.record.leader_epoch)

    def add(self, record: Record) -> TaskInHand:
        """If reading has gone back, tasks from the record's offset on become void."""
        window = self._window
        while window and next(reversed(window)) >= record.offset:
            window.popitem()[1].void = True
        task = window[record.offset] = TaskInHand(record, self)
        return task

    def finish(self, task: TaskInHand) -> None:
        task.finished = True
        window = self._window
        while window and next(iter(window.values())).finished:
            window.popitem(last=False)  # OrderedDict: a plain dict would skip its deleted entries each time
