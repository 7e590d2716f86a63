"""Committable offsets: the place of reading, or the first unfinished record in hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka4.consumer.processing.committable_offsets import CommittableOffsets
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.records import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Books:
    """Stands for the session, and for what is in hand."""

    def __init__(self) -> None:
        self.selection: Any = None
        self.taken_so_far: dict[TopicPartition, OffsetAndEpoch] = {}
        self.first: dict[TopicPartition, OffsetAndEpoch] = {}
        self.known: dict[TopicPartition, int] = {}  # offsets that are committed
        self.comes: dict[
            TopicPartition, tuple[OffsetAndEpoch, OffsetAndEpoch]
        ] = {}  # what comes into hand as soon as one side was looked at

    def close_time_left(self) -> float:
        return float("inf")

    def closer(self) -> None: ...

    def begin_run(self, run: Any) -> None: ...

    def end_run(self, run: Any) -> None: ...

    def take_over(self) -> None: ...

    def taken(self) -> None: ...

    def stored(self) -> Mapping[TopicPartition, int]:
        return self.known

    def taken_offsets(self) -> dict[TopicPartition, OffsetAndEpoch]:
        places = dict(self.taken_so_far)
        self._come()
        return places

    def unfinished(self) -> dict[TopicPartition, OffsetAndEpoch]:
        places = dict(self.first)
        self._come()
        return places

    def _come(self) -> None:
        for tp, (end, first) in self.comes.items():
            self.taken_so_far[tp], self.first[tp] = end, first

    def go_back(self, places: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...


def made(**taken: OffsetAndEpoch) -> tuple[Books, CommittableOffsets]:
    books = Books()
    books.taken_so_far = {TopicPartition("t", int(name[1:])): place for name, place in taken.items()}
    return books, CommittableOffsets(books, books.unfinished)


def test_a_place_is_held_back_by_a_record_in_hand_only() -> None:
    books, offsets = made(p0=(9, 3), p1=(5, -1))
    assert offsets.offsets() == {T0: OffsetAndMetadata(9, 3), T1: OffsetAndMetadata(5, -1)}
    books.first = {T0: (7, 2)}
    assert offsets.offsets() == {T0: OffsetAndMetadata(7, 2), T1: OffsetAndMetadata(5, -1)}
    books.taken_so_far[T0] = (6, 1)  # the log has lost its end
    assert offsets.offsets()[T0] == OffsetAndMetadata(6, 1)


def test_what_comes_into_hand_meanwhile_is_not_passed() -> None:
    books, offsets = made(p0=(9, 3))
    books.comes[T0] = (20, 3), (9, 3)
    assert offsets.offsets() == {T0: OffsetAndMetadata(9, 3)}
    books.comes.clear()
    books.first.clear()
    assert offsets.offsets() == {T0: OffsetAndMetadata(20, 3)}


def test_a_place_is_uncommitted_until_it_is_known_to_be_committed() -> None:
    books, offsets = made(p0=(9, 3), p1=(5, -1))
    assert offsets.uncommitted() == offsets.uncommitted() == offsets.offsets()
    assert offsets.uncommitted([T1]) == {T1: OffsetAndMetadata(5, -1)}
    books.known = {T0: 9, T1: 4}
    assert offsets.uncommitted() == {T1: OffsetAndMetadata(5, -1)}
    books.taken_so_far[T0] = (2, 0)
    assert offsets.uncommitted([T0]) == {T0: OffsetAndMetadata(2, 0)}


def test_what_has_ended_is_not_committed_until_it_is_assigned_again() -> None:
    _, offsets = made(p0=(9, 3), p1=(5, -1))
    offsets.end([T0])
    assert offsets.offsets() == offsets.uncommitted() == {T1: OffsetAndMetadata(5, -1)}
    offsets.begin([T0])
    assert offsets.uncommitted().keys() == {T0, T1}
    offsets.end([T0])
    offsets.keep({T1})  # it was released; when it is assigned without a word it counts again
    assert offsets.offsets().keys() == {T0, T1}
