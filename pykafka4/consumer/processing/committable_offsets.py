"""Computes committable offsets of a run. Invariant: no such offset passes an unfinished record or the position of reading.

As with a plain consumer, the position of reading is committed, even if it is the start offset, an offset after records that polls do not
return (markers, aborted records), or the offset to which reading went back in a truncated log. Only an unfinished record in hand holds the
offset back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from threading import Thread
from typing import Protocol

from pykafka4.consumer.guard import Guard
from pykafka4.consumer.selection import ConsumerRun, Selection
from pykafka4.consumer.waits import Waits
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["RunSession", "CommittableOffsets"]

_offset = itemgetter(0)


class RunSession(Protocol):
    """The part of a consumer's session that a run uses."""

    selection: Selection

    @property
    def guard(self) -> Guard:
        """The consumer's guard."""

    @property
    def waits(self) -> Waits:
        """The waits of threads, or of tasks."""

    def close_time_left(self) -> float:
        """Seconds left to close the consumer; infinity while no thread closes it."""

    def closer(self) -> Thread | None:
        """The thread that closes the consumer."""

    def begin_run(self, run: ConsumerRun) -> None:
        """Begin `run` in this thread; records that polls have returned so far count as finished.

        Raises ConfigError inside another run, KafkaError while another thread has the consumer or is in a loop over it.
        """

    def end_run(self, run: ConsumerRun) -> None:
        """End `run`. A second call does nothing."""

    def take_over(self) -> None:
        """Count the records returned so far as finished. For a thread to which the consumer is lent."""

    def taken(self) -> None:
        """Advance `taken_offsets` past the records that the last poll returned."""

    def stored(self) -> Mapping[TopicPartition, int]:
        """The offsets that are known to be committed. Any thread may read them."""

    def taken_offsets(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The offsets after the records in the hands of the run, and after records that polls do not return. Any thread may call it."""

    def go_back(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Read on from these offsets in partitions whose position differs; records in hand from these offsets on are not finished."""


class CommittableOffsets:
    def __init__(self, reads: RunSession, unfinished: Callable[[], Mapping[TopicPartition, OffsetAndEpoch]]) -> None:
        """`unfinished()` returns the offset of the first unfinished record in hand of each partition."""
        self._reads, self._unfinished = reads, unfinished
        self._ended: set[TopicPartition] = set()  # see `end`

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Any thread may call it."""
        # `taken` is read before `first`: records that come into hand in between are after `taken`. In the other order, `first` could lack
        # an unfinished record that comes into hand in between, `taken` would be the offset after it, and the commit would pass it.
        taken = self._reads.taken_offsets()
        first = self._unfinished()
        least = {tp: min(offset, first.get(tp, offset), key=_offset) for tp, offset in taken.items() if tp not in self._ended}
        return {tp: OffsetAndMetadata(offset, epoch) for tp, (offset, epoch) in least.items()}

    def uncommitted(self, tps: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committable offsets that are not known to be committed. `tps=None` means all partitions."""
        stored = self._reads.stored()
        return {tp: at for tp, at in self.offsets().items() if (tps is None or tp in tps) and stored.get(tp) != at.offset}

    def begin(self, tps: Iterable[TopicPartition]) -> None:
        """Allow commits for these partitions, which were assigned."""
        self._ended.difference_update(tps)

    def keep(self, tps: Collection[TopicPartition]) -> None:
        """Forget the exclusions of partitions other than these, which are assigned now."""
        self._ended.intersection_update(tps)

    def end(self, tps: Iterable[TopicPartition]) -> None:
        """Exclude these partitions from commits: they are released or lost, or no stream reads them."""
        self._ended.update(tps)
