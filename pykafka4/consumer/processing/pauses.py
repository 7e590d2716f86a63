"""Pauses partitions with too many records in hand. Invariant: a run resumes no partition that the application has paused.

Without these pauses, one slow record, or a stream that no thread reads, would hold up all partitions, or the waiting records would fill
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from pykafka4.records import TopicPartition

__all__ = ["Pauses", "Pausing"]

Size = Callable[[TopicPartition], int]


class Pausing(Protocol):
    """The methods of a consumer that `Pauses` needs."""

    def assignment(self) -> set[TopicPartition]:
        """See Consumer.assignment."""

    def paused(self) -> set[TopicPartition]:
        """See Consumer.paused."""

    def stats(self) -> dict[str, int]:
        """See Consumer.stats."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See Consumer.pause."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """See Consumer.resume."""


class Pauses:
    """Used by the thread that polls or closes."""

    def __init__(self, consumer: Pausing, most_in_hand: int) -> None:
        """`most_in_hand` is for all partitions together."""
        self._consumer, self._most = consumer, most_in_hand
        self._paused: set[TopicPartition] = set()
        self._left_out: set[TopicPartition] = set()  # partitions that no stream reads: `resume_free` leaves them paused

    def room(self, held: int, most: int) -> int:
        """How many records to poll while `held` are in hand: the room that is left, but at least a partition's share, and at most `most`.

        Because of the minimum, other partitions go on even if one partition has more than its share in hand.
        """
        return min(most, max(self._share(), self._most - held))

    def pause_full(self, tps: Collection[TopicPartition], size: Size) -> None:
        """`size(tp)` is the number of records that count against the share of `tp`."""
        limit = self._share()
        full = {tp for tp in tps if size(tp) >= limit} - self._consumer.paused()
        if full:
            # `pause` comes first: the session takes it for a pause by the application and calls `forget`, which clears earlier entries.
            self._consumer.pause(full)
            self._paused |= full

    def leave_out(self, tps: Collection[TopicPartition]) -> None:
        if left_out := set(tps) - self._consumer.paused():
            self._consumer.pause(left_out)
            self._left_out |= left_out

    def resume_free(self, size: Size, watch: Callable[[Mapping[TopicPartition, int]], object]) -> None:
        """Resume partitions with at most half of their share in hand; `watch` gets this bound for each partition that stays paused."""
        if not self._paused:
            return
        half = self._share() // 2  # not the complete share: a partition at its limit would be paused and resumed with each record
        free = {tp for tp in self._paused if size(tp) <= half}
        self._paused -= free
        if mine := free & self._consumer.assignment():
            self._consumer.resume(mine)
        watch(dict.fromkeys(self._paused, half))

    def release(self, tps: Collection[TopicPartition]) -> None:
        """Resume these partitions, which the consumer releases next: otherwise the next assignment would pause them again."""
        if mine := (self._paused | self._left_out) & self._consumer.assignment() & set(tps):
            self._consumer.resume(mine)
        self.forget(tps)

    def forget(self, tps: Collection[TopicPartition]) -> None:
        """Forget the pauses of these partitions: the run does not resume the partitions any more."""
        self._paused.difference_update(tps)
        self._left_out.difference_update(tps)

    def end(self) -> None:
        self._consumer.resume((self._paused | self._left_out) & self._consumer.assignment())
        self._paused.clear()
        self._left_out.clear()

    def _share(self) -> int:
        """The number of records in hand at which a partition is paused."""
        return max(1, self._most // max(1, self._consumer.stats()["partitions"]))
