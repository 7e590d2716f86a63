"""Accepts raw batches for sending, and copies records out of batches, in plain Python; `_raw_batch.pxi` is the compiled counterpart.

Invariant: a raw batch is queued behind all earlier records of its partition; the bytes of its records change only if the raw batch is
split.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from pykafka4.errors import DecodeError, RecordTooLarge
from pykafka4.gil.flag import give_way
from pykafka4.wire.records._plain_account import MAX_INT
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, exact_name, integer
from pykafka4.wire.records._plain_batch import Batch
from pykafka4.wire.records._plain_parking import Parking
from pykafka4.wire.records._plain_topic import Topic
from pykafka4.wire.records.decoder import read_records, read_varint
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import BASE_TIMESTAMP, COUNT, HEADER_SIZE, LEAST_RECORD, LENGTH, LOG_OVERHEAD, MAGIC

__all__ = ["RawBatches", "cut_records", "pack_records"]

LAST_DELTA: Final = 2**31 - 1


class RawBatches(Parking):
    """The accumulator's raw batches."""

    def _meet(self, name: str) -> Topic:
        raise NotImplementedError

    def _check_partition(self, t: Topic, r: Item) -> None:
        raise NotImplementedError

    def _seal_open(self, batch: Batch) -> None:
        """The caller holds the lock."""
        raise NotImplementedError

    def send_batch(self, topic: str, partition: int, data: bytes) -> Batch:
        """Accept the batch in `data`, of format v2, for `partition`. The batch follows all records that were sent there before.

        Waits until the partitions of the topic are known and none of its records is parked, then for room, as `send` does. Raises
        ValueError for bytes that are not such a batch, or a partition that does not exist, RecordTooLarge for more than `buffer_memory` or
        the topic's `max_message_bytes`, BufferFull as `send` does. With `drop_error` a batch without room is dropped: that error is the
        outcome of the returned batch.
        """
        give_way()
        self._check_open()
        data = _checked(data)
        name = exact_name(topic)
        item = Item(None, None, (), 0, UNDECIDED)
        asked, size = integer(name, "partition", partition, MAX_INT), len(data)
        while True:
            t = self._topics.get(name) or self._meet(name)
            self._await_topic(t, item)
            if t.dropped:
                continue
            item.partition = asked
            self._check_partition(t, item)
            self._check_whole_size(t, size)
            step: Callable[[], object] | None = None
            with self._lock():
                self._check_open()
                if t.dropped or not t.direct:
                    continue
                there = item.partition
                if has_room := not self._must_queue(t, item) and self._fits(t, there, size):
                    opened = t.open.get(there)
                    batch = Batch(self, t, there, self._clock())
                    self._introduce(batch)
                    batch._take_bytes(data)
                    if opened is not None:  # first into `_sealed`: its records were sent before the raw batch
                        self._seal_open(opened)
                        self._sealed.append(opened)
                    self._sealed.append(batch)
                    self.accepted += batch.count
                    if opened is not None and not opened.ready:
                        step = opened.compress
                    elif self.can_send:
                        step = self._wake
            if has_room:
                if step is not None:
                    step()
                return batch
            self._wait_for_room(t, item, size)
            if item.overflows:
                return self.drop_batch(name, there, data, "BUFFER_FULL", self._drop_error)

    def _check_whole_size(self, t: Topic, size: int) -> None:
        if size > self._buffer_memory:
            raise RecordTooLarge(f"{t.name}: a raw batch of {size} bytes exceeds buffer_memory={self._buffer_memory}; raise that")
        if 0 < (most := t.policy.max_message_bytes) < size:
            raise RecordTooLarge(f"{t.name}: a raw batch of {size} bytes exceeds max_message_bytes={most}; raise that, or send its records")

    def drop_batch(self, topic: str, partition: int, data: bytes, code: str, cause: BaseException | None) -> Batch:
        """Drop all records in `data`, for the reason `code`; return the batch that has their outcome."""
        base, highest = struct.unpack_from(">qq", _checked(data), BASE_TIMESTAMP)
        t = self._topics.get(topic) or self._meet(topic)
        return self._count_dropped(t, partition, code, cause, _int(data, COUNT), (min(base, highest), highest))


def _checked(data: bytes) -> bytes:
    size = len(data)
    if size < HEADER_SIZE or data[MAGIC] != 2 or _int(data, LENGTH) + LOG_OVERHEAD != size or _int(data, COUNT) < 1:
        raise ValueError(f"{size} bytes are not one record batch of format v2 with records")
    return data


def _int(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)


# ---- parts of batches


def cut_records(data: bytes, count: int, first: int, last: int) -> tuple[bytes, int, int]:
    """Copy the records with offset deltas from `first` to `last` out of the `count` uncompressed records in `data`.

    Returns (the copies, with offset deltas relative to the first copied record; their number; the old delta of this first record). Nothing
    else changes, not even header names that are invalid UTF-8. Raises DecodeError if the records are damaged.
    """
    return _repacked(data, count, first, last, lambda kept, delta: delta, appended=False)


def pack_records(data: bytes, count: int, appended: bool) -> bytes:
    """The records of `data` with consecutive offset deltas from 0. With `appended` all records get the base timestamp of their batch.

    Raises DecodeError if the records are damaged.
    """
    return _repacked(data, count, 0, LAST_DELTA, lambda kept, delta: kept, appended=appended)[0]


def _repacked(
    data: bytes, count: int, first: int, last: int, number: Callable[[int, int], int], *, appended: bool
) -> tuple[bytes, int, int]:
    view, at, previous, start = memoryview(data), 0, -1, 0
    if count > len(data) // LEAST_RECORD:
        raise DecodeError(f"it claims {count} records in {len(data)} bytes")
    out: list[bytes] = []
    for raw in read_records(view, count):
        if raw.offset_delta <= previous:
            raise DecodeError("the offsets of a batch are not increasing within its range")
        previous = raw.offset_delta
        if first <= previous <= last:
            if not out:
                start = previous
            _, begin = read_varint(view, at)
            _, content = read_varint(view, begin + 1, 64)
            _, content = read_varint(view, content)
            time, new = 0 if appended else raw.timestamp_delta, number(len(out), previous - start)
            body = bytes(view[begin : begin + 1]) + varint(time) + varint(new) + bytes(view[content : raw.end])
            out.append(varint(len(body)) + body)
        at = raw.end
    return b"".join(out), len(out), start
