"""Safe. Rule: a commit passes no record that was polled and is not finished, and not the place where reading stands.

As with a plain consumer, that place is committed: where it began, behind records that are not returned (markers,
aborted ones), and before the end that a log has lost. Only a record in hand that is not finished holds it back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from threading import Thread
from typing import Protocol

from pykafka4.consumer.guard import Guard
from pykafka4.consumer.selection import Run, Selection
from pykafka4.consumer.waits import Waits
from pykafka4.core.subscription import Place
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Reads", "Safe"]

_offset = itemgetter(0)


class Reads(Protocol):
    """The consumer's session, as a run uses it."""

    selection: Selection

    @property
    def guard(self) -> Guard:
        """Which thread or task uses the consumer."""

    @property
    def waits(self) -> Waits:
        """How a thread or a task waits."""

    def left(self) -> float:
        """How many seconds are left to close the consumer; infinity while nobody closes it."""

    def closer(self) -> Thread | None:
        """The thread that closes it."""

    def begin_run(self, run: Run) -> None:
        """`run` begins, in this thread: what polls have returned so far is finished. Refused while another one runs, or is in a loop."""

    def end_run(self, run: Run) -> None:
        """It has ended. May be called again."""

    def take_over(self) -> None:
        """What polls have returned so far is finished. For a thread that the consumer was lent to before."""

    def taken(self) -> None:
        """What the last poll returned is in the hands of the run."""

    def stored(self) -> Mapping[TopicPartition, int]:
        """The offsets that are known to be committed. Any thread may read it."""

    def taken_places(self) -> dict[TopicPartition, Place]:
        """Of each partition, the place behind what is in the hands of the run, or was never to be. Any thread may call it."""

    def go_back(self, places: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Read on there, where that is not the place already; records behind it that are in the hands of the run do not count any more."""


class Safe:
    """What may be committed of each partition, and what of that is not committed yet."""

    def __init__(self, reads: Reads, unfinished: Callable[[], Mapping[TopicPartition, Place]]) -> None:
        """`unfinished()` is the first record in hand of each partition that is not finished."""
        self._reads, self._unfinished = reads, unfinished
        self._ended: set[TopicPartition] = set()  # go to another member, also while the listener of the application runs

    def places(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The safe place of each partition. Any thread may call it."""
        taken = self._reads.taken_places()  # first: what comes into hand from now on is not before these
        first = self._unfinished()
        least = {tp: min(place, first.get(tp, place), key=_offset) for tp, place in taken.items() if tp not in self._ended}
        return {tp: OffsetAndMetadata(offset, epoch) for tp, (offset, epoch) in least.items()}

    def uncommitted(self, tps: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """The safe places, of these partitions or of all, of which it is not known that they are committed."""
        stored = self._reads.stored()
        return {tp: at for tp, at in self.places().items() if (tps is None or tp in tps) and stored.get(tp) != at.offset}

    def begin(self, tps: Iterable[TopicPartition]) -> None:
        """These partitions were assigned."""
        self._ended.difference_update(tps)

    def keep(self, tps: Collection[TopicPartition]) -> None:
        """Know nothing of other partitions than these, which are assigned now."""
        self._ended.intersection_update(tps)

    def end(self, tps: Iterable[TopicPartition]) -> None:
        """These are another member's, or are left alone: nothing of them may be committed."""
        self._ended.update(tps)
