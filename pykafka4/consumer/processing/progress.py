"""Progress. Rule: the window of a partition begins at its first record in hand that is not finished.

The window is what was handed out from that record on. It is what a restart would process again, at most.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

from pykafka4.core.subscription import Place
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["Progress", "Task"]


@attrs.define(eq=False)
class Task:
    """A record in hand."""

    record: Record
    progress: Progress
    attempts: int = 0
    finished: bool = False
    void: bool = False  # reading has gone back to this record or one before it

    @property
    def ended(self) -> bool:
        """Whether it is not handled any more."""
        return self.void or self.progress.ended


class Progress:
    """What of one partition is in hand, from its assignment to its end. Its owner synchronizes."""

    __slots__ = ("_window", "ended", "running", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.running = 0  # handlers, and records that wait for acknowledgements
        self.ended = False  # the partition has another owner: its records are not handled any more
        self._window: OrderedDict[int, Task] = OrderedDict()

    @property
    def window(self) -> int:
        """How many records were handed out from the first that is not finished on."""
        return len(self._window)

    @property
    def first(self) -> Place | None:
        """The first record that is not finished; None if all are."""
        task = next(iter(self._window.values()), None)
        return None if task is None else (task.record.offset, task.record.leader_epoch)

    def add(self, record: Record) -> Task:
        """`record` was handed out. If reading has gone back, because a log lost its end, records from there on are not those of the log."""
        window = self._window
        while window and next(reversed(window)) >= record.offset:
            window.popitem()[1].void = True
        task = window[record.offset] = Task(record, self)
        return task

    def finish(self, task: Task) -> None:
        """This record is finished."""
        task.finished = True
        window = self._window
        while window and next(iter(window.values())).finished:
            window.popitem(last=False)  # a plain dict would have to skip what was deleted before
