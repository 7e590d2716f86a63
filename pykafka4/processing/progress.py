"""Progress. Rule: the safe offset of a partition is that of its first record that is not finished.

The window is what was handed out from that record on. It is what a restart would process again, at most.
"""

from __future__ import annotations

from collections import OrderedDict

from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["Progress"]


class Progress:
    """What is finished of one partition, from its assignment or a jump of its position to the next. Its owner synchronizes."""

    __slots__ = ("_last", "_window", "ended", "running", "safe", "tp")

    def __init__(self, tp: TopicPartition, first: int) -> None:
        """`first` is the offset of the first record."""
        self.tp = tp
        self.safe = OffsetAndMetadata(first)
        self.running = 0  # handlers, and records that wait for acknowledgements
        self.ended = False  # the partition has another owner, or is read from elsewhere: its records are not handled any more
        self._window: OrderedDict[int, tuple[bool, int]] = OrderedDict()  # offset: whether the record is finished, and its leader epoch
        self._last = first - 1

    @property
    def window(self) -> int:
        """How many records were handed out from the first that is not finished on."""
        return len(self._window)

    def continues_with(self, record: Record) -> bool:
        """Whether `record` is behind all that was handed out: otherwise its partition is read from elsewhere."""
        return not self.ended and record.offset > self._last

    def add(self, record: Record) -> None:
        """`record` was handed out."""
        self._window[record.offset] = (False, record.leader_epoch)
        self._last = record.offset

    def finish(self, offset: int) -> None:
        """The record at `offset` is finished."""
        window = self._window
        window[offset] = (True, window[offset][1])
        while window:
            first, (finished, epoch) = next(iter(window.items()))
            if not finished:
                break
            del window[first]  # a plain dict would have to skip what was deleted before
            self.safe = OffsetAndMetadata(first + 1, epoch)
