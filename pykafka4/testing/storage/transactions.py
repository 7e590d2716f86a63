"""Finds the transactions in one replica's log. Invariant: the log is the only source, so each replica has its own view (KIP-98).

A producer's transaction in a partition begins with its first transactional batch and ends with a marker: a control batch of the same
producer. A marker without records before it ends no transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

import attrs

from pykafka4.errors import DecodeError
from pykafka4.testing.storage.batch import StoredBatch
from pykafka4.wire.records.batch import ControlType, build_batch, control_record, control_type, records_of
from pykafka4.wire.records.decoder import read_header

__all__ = ["Ended", "Isolation", "LogTransactions", "Marker", "index_bound"]

INDEX_INTERVAL: Final = 4096  # bytes between two entries of a log's index


class Isolation(Enum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@attrs.frozen
class Marker:
    """The end of a transaction, as the coordinator sends it to the leaders of the partitions."""

    producer_id: int
    producer_epoch: int
    kind: ControlType

    def batch(self, base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytes:
        return build_batch(
            [attrs.evolve(control_record(self.kind), timestamp_ms=timestamp_ms)],
            base_offset=base_offset,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            leader_epoch=leader_epoch,
            transactional=True,
            control=True,
        )


@attrs.frozen
class Ended:
    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool


@attrs.define(eq=False)
class LogTransactions:
    open: dict[int, int] = attrs.Factory(dict)  # producer id: the offset of the transaction's first record
    ended: list[Ended] = attrs.Factory(list)  # in the order of their markers
    epochs: dict[int, int] = attrs.Factory(dict)  # producer id: the producer epoch of its last marker

    def note(self, batch: StoredBatch) -> None:
        header = batch.header
        if header.producer_id < 0 or not header.transactional:
            return
        if not header.control:
            self.open.setdefault(header.producer_id, batch.base_offset)
        elif (kind := _kind(batch)) is not None:
            self.epochs[header.producer_id] = header.producer_epoch
            first = self.open.pop(header.producer_id, None)
            if first is not None:
                self.ended.append(Ended(header.producer_id, first, batch.base_offset, kind is ControlType.ABORT))

    def truncate(self, end: int, batches: Iterable[StoredBatch]) -> None:
        """`end` is the log's new end; `batches` are the remaining batches."""
        while self.ended and self.ended[-1].marker_offset >= end:
            undone = self.ended.pop()
            self.open[undone.producer_id] = undone.first_offset
        self.open = {producer: first for producer, first in self.open.items() if first < end}
        self.epochs = {b.header.producer_id: b.header.producer_epoch for b in batches if b.header.control and b.header.producer_id >= 0}

    def delete_before(self, start: int) -> None:
        self.ended = [entry for entry in self.ended if entry.marker_offset >= start]

    def stable_until(self, high_watermark: int, start: int) -> int:
        """The last stable offset, from `start` to the high watermark.

        Every transaction that began between `start` and this offset has its marker below the high watermark.
        """
        first = min(self.open.values(), default=high_watermark)
        for entry in reversed(self.ended):
            if entry.marker_offset < high_watermark:
                break
            first = min(first, entry.first_offset)
        return max(min(first, high_watermark), start)

    def aborted(self, offset: int, upper: int) -> Iterator[Ended]:
        """The aborted transactions that touch the offsets from `offset` to below `upper`."""
        return (entry for entry in self.ended if entry.aborted and entry.marker_offset >= offset and entry.first_offset < upper)


def _kind(batch: StoredBatch) -> ControlType | None:
    """None for an invalid batch that a test has stored."""
    try:
        records = records_of(read_header(batch.data))
        return control_type(records[0]) if records else None
    except DecodeError:
        return None


def index_bound(batches: Iterable[StoredBatch], offset: int, size: int) -> int | None:
    """An upper bound on the offsets that a read of `size` bytes from `offset` returns, by the log's sparse index; None: the log's end.

    The bound can be far beyond the records read: then a response also names transactions that begin after its records, as in Kafka.
    """
    position = since_entry = 0
    until: int | None = None
    for batch in batches:
        if until is None and batch.next_offset > offset:
            until = position + size
        if since_entry > INDEX_INTERVAL:
            if until is not None and position >= until:
                return batch.next_offset - 1
            since_entry = 0
        position += len(batch.data)
        since_entry += len(batch.data)
    return None
