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

    def pause_full(self, tps: Collection[TopicPartition], count: int, size: Size) -> None:
        """Pause those of `tps` that have their share in hand. There are `count` partitions; `size(tp)` records of one are in hand."""
        limit = self._limit(count)
        full = {tp for tp in tps if size(tp) >= limit} - self._consumer.paused()
        if full:
            self._consumer.pause(full)
            self._paused |= full

    def resume_free(self, count: int, size: Size, watch: Callable[[Mapping[TopicPartition, int]], object]) -> None:
        """Resume what has half of its share left; `watch` gets, for each of the others, how many records may be in hand then."""
        if not self._paused:
            return
        half = self._limit(count) // 2
        free = {tp for tp in self._paused if size(tp) <= half}
        self._paused -= free
        if mine := free & self._consumer.assignment():
            self._consumer.resume(mine)
        watch(dict.fromkeys(self._paused, half))

    def forget(self, tps: Collection[TopicPartition]) -> None:
        """These partitions go to another member."""
        self._paused.difference_update(tps)

    def end(self) -> None:
        """Resume all."""
        self._consumer.resume(self._paused & self._consumer.assignment())
        self._paused.clear()

    def _limit(self, count: int) -> int:
        return max(1, self._most // max(1, count))
