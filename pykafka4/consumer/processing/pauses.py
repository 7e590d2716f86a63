"""Pauses. Rule: a partition is paused while too many of its records are in hand; what the application has paused stays paused.

So one slow record, or a thread that does not read, does not hold up the other partitions, and memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from pykafka4.records import TopicPartition

__all__ = ["Pauses", "Pausing"]

Size = Callable[[TopicPartition], int]


class Pausing(Protocol):
    """What is needed of a consumer."""

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
    """The partitions that are paused here. Used by the thread that polls."""

    def __init__(self, consumer: Pausing, most_in_hand: int) -> None:
        """`most_in_hand` is for all partitions together."""
        self._consumer, self._most = consumer, most_in_hand
        self._paused: set[TopicPartition] = set()
        self._left_out: set[TopicPartition] = set()  # paused until the end

    def room(self, held: int, most: int) -> int:
        """How many records to poll, of `most`, while `held` are in hand: what is free, or the share of a partition.

        Partitions that are not paused have room in their share. They go on, even if another one has more than its share in hand.
        """
        return min(most, max(self._share(), self._most - held))

    def pause_full(self, tps: Collection[TopicPartition], size: Size) -> None:
        """Pause those of `tps` that have their share in hand; `size(tp)` records of one are."""
        limit = self._share()
        full = {tp for tp in tps if size(tp) >= limit} - self._consumer.paused()
        if full:
            self._consumer.pause(full)  # first: it reports pauses of the application, too, which `forget` is called for
            self._paused |= full

    def leave_out(self, tps: Collection[TopicPartition]) -> None:
        """Pause these until the end."""
        if left_out := set(tps) - self._consumer.paused():
            self._consumer.pause(left_out)
            self._left_out |= left_out

    def resume_free(self, size: Size, watch: Callable[[Mapping[TopicPartition, int]], object]) -> None:
        """Resume what has half of its share left; `watch` gets, for each of the others, how many records may be in hand then."""
        if not self._paused:
            return
        half = self._share() // 2
        free = {tp for tp in self._paused if size(tp) <= half}
        self._paused -= free
        if mine := free & self._consumer.assignment():
            self._consumer.resume(mine)
        watch(dict.fromkeys(self._paused, half))

    def release(self, tps: Collection[TopicPartition]) -> None:
        """Resume these partitions, which the consumer releases next: pauses that remain are kept if a partition comes straight back."""
        if mine := (self._paused | self._left_out) & self._consumer.assignment() & set(tps):
            self._consumer.resume(mine)
        self.forget(tps)

    def forget(self, tps: Collection[TopicPartition]) -> None:
        """These partitions are not assigned any more, or the application pauses them."""
        self._paused.difference_update(tps)
        self._left_out.difference_update(tps)

    def end(self) -> None:
        """Resume all."""
        self._consumer.resume((self._paused | self._left_out) & self._consumer.assignment())
        self._paused.clear()
        self._left_out.clear()

    def _share(self) -> int:
        """How many records of a partition may be in hand."""
        return max(1, self._most // max(1, self._consumer.stats()["partitions"]))
