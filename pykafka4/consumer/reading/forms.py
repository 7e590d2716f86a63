"""Defines the forms in which polls return records and raw batches.

`Reader.take` passes chunks to a form, one after another. The reader handles errors, markers, positions and the recovery after Ctrl-C for
all forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from pykafka4.consumer.arguments import MOST_RECORDS, check_limit
from pykafka4.consumer.hooks import PollCalls
from pykafka4.consumer.reading.cursors import IN_LOOP, HandedOut
from pykafka4.consumer.reading.deserializing import Added, Deserializing, Halted
from pykafka4.core.subscription import Claim, OffsetAndEpoch
from pykafka4.wire.records.hot import Chunk, Record, RecordIterator
from pykafka4.wire.records.raw_batch import RawBatch, fetched_batch

__all__ = ["Added", "Form", "ListForm", "LoopForm", "RawForm"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Form(Protocol[T_co]):
    """Collects the records of one poll, and makes the result of the poll. Used by the thread that polls.

    To read chunks, a poll calls `begin`, then `add` repeatedly, at most until the form is `full`, then `finish` if there are records.
    Ctrl-C can interrupt each of these calls: the next `begin` drops the records.
    """

    @property
    def call(self) -> str:
        """The consumer's method that uses this form, for messages."""

    def limit(self, most: int | None) -> int:
        """The item limit of a poll to which the application passed `most`. Raises ConfigError for an invalid `most`."""

    def begin(self, limit: int) -> None:
        """Drop all records, and set the item limit of the poll."""

    def __len__(self) -> int:
        """The number of collected records, rows or batches."""

    @property
    def records(self) -> int:
        """The number of collected records, even if `len` counts batches."""
        return len(self)

    @property
    def full(self) -> bool:
        """Whether the poll ends here."""

    def add(self, chunk: Chunk, room: int) -> Added | None:
        """Collect the next records of `chunk` until these take `room` bytes (`chunk.decoded`). Returns None if no record was collected.

        Raises an error of the chunk (CorruptRecord, RecordTooLarge, ConfigError) only if this call has collected nothing: otherwise the
        next call raises the error. Raises Halted before a record that reading cannot pass now.
        """

    def finish(self, positions: Mapping[Claim, OffsetAndEpoch]) -> tuple[T_co, HandedOut]:
        """The result of the poll, and its `HandedOut`. `positions` are the positions after the records."""

    def go_on(self, handed: HandedOut, limit: int) -> tuple[T_co, HandedOut] | None:
        """The result of a poll from the rest of a `for` loop's list. None if this form cannot use those records: they are fetched again."""

    def nothing(self) -> T_co:
        """The result of a poll without records."""


class _Records(Form[T_co]):
    call = "poll"

    def __init__(self, default_limit: int, deserializing: Deserializing | None = None, hooks: PollCalls | None = None) -> None:
        self._records: list[Record[Any, Any]] = []
        self._limit, self._default_limit, self._deserializing, self._hooks = 0, default_limit, deserializing, hooks

    def limit(self, most: int | None) -> int:
        if self._hooks is not None:
            self._hooks.begin()
        return check_limit(most, self._default_limit)

    def begin(self, limit: int) -> None:
        self._records, self._limit = [], limit

    def __len__(self) -> int:
        return len(self._records)

    @property
    def full(self) -> bool:
        return len(self._records) >= self._limit

    def add(self, chunk: Chunk, room: int) -> Added | None:
        records = self._records
        before = len(records)
        chunk.decode(records, self._limit - before, room)
        if self._deserializing is not None and (halt := self._deserializing.convert(records, before)) is not None:
            raise Halted(halt, self._added(before))
        return self._added(before)

    def _added(self, before: int) -> Added | None:
        records = self._records
        if len(records) == before:
            return None
        last = records[-1]
        return records[before].offset, last.offset, last.leader_epoch

    def _taken(self) -> list[Record[Any, Any]]:
        """The collected records, after the hooks have seen them."""
        if self._hooks is not None:  # first: if a hook is interrupted, no poll has returned the records, so they are fetched again
            self._hooks.call_hooks(self._records)
        records, self._records = self._records, []
        return records


class ListForm(_Records[list[Record[Any, Any]]]):
    def finish(self, positions: Mapping[Claim, OffsetAndEpoch]) -> tuple[list[Record[Any, Any]], HandedOut]:
        return self._taken(), HandedOut(positions)

    def go_on(self, handed: HandedOut, limit: int) -> tuple[list[Record[Any, Any]], HandedOut] | None:
        rest = _rest_of(handed)
        rest.given = min(limit, len(rest.records))
        return rest.records[:limit], HandedOut(handed.positions, rest)

    def nothing(self) -> list[Record[Any, Any]]:
        return []


class LoopForm(_Records[Iterator[Record[Any, Any]]]):
    """Collects a list for a `for` loop. If the loop is left, `go_on` continues with the remaining records."""

    def finish(self, positions: Mapping[Claim, OffsetAndEpoch]) -> tuple[RecordIterator, HandedOut]:
        iterator = RecordIterator(self._taken())
        return iterator, HandedOut(positions, iterator, IN_LOOP)

    def go_on(self, handed: HandedOut, limit: int) -> tuple[RecordIterator, HandedOut] | None:
        rest = _rest_of(handed)
        return rest, HandedOut(handed.positions, rest, IN_LOOP)

    def nothing(self) -> Iterator[Record[Any, Any]]:
        return iter(())


class RawForm(Form[list[RawBatch]]):
    call = "poll_raw"

    def __init__(self, most_bytes: int, max_decompressed: int) -> None:
        """A poll ends with the batch that brings the size of its batches to `most_bytes`."""
        self._batches: list[RawBatch] = []
        self._limit, self._left, self._most_bytes, self._max_decompressed = 0, most_bytes, most_bytes, max_decompressed
        self._count = 0

    def limit(self, most: int | None) -> int:
        return check_limit(most, MOST_RECORDS, "max_batches", "no limit")

    def begin(self, limit: int) -> None:
        self._batches, self._limit, self._left, self._count = [], limit, self._most_bytes, 0

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def records(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return len(self._batches) >= self._limit or self._left <= 0

    def add(self, chunk: Chunk, room: int) -> Added | None:
        """Collect one batch. A batch with records before the position, or past the end of the claim, is unpacked and packed again
        without these records.
        """
        data = chunk.whole_batch()
        if data is None:
            return None
        batch = fetched_batch(data, chunk.topic, chunk.partition, chunk.position, chunk.until - 1, self._max_decompressed)
        chunk.skip()
        if batch is None:
            return None
        self._batches.append(batch)
        self._left -= batch.size
        self._count += batch.count
        return batch.base_offset, batch.last_offset, batch.leader_epoch

    def finish(self, positions: Mapping[Claim, OffsetAndEpoch]) -> tuple[list[RawBatch], HandedOut]:
        batches, self._batches = self._batches, []
        return batches, HandedOut(positions)

    def go_on(self, handed: HandedOut, limit: int) -> tuple[list[RawBatch], HandedOut] | None:
        return None

    def nothing(self) -> list[RawBatch]:
        return []


def _rest_of(handed: HandedOut) -> RecordIterator:
    assert handed.iterator is not None
    # Have a `for` loop poll before its next record: otherwise the loop and the poll would both return the remaining records.
    handed.iterator.stopped = True
    iterator = RecordIterator(handed.rest)  # without the finished records: a loop would count the last of them as the one in hand
    iterator.stopped = True
    return iterator
