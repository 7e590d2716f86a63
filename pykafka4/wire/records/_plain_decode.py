"""Decodes fetched bytes into records, in plain Python; `_decode.pxi`, `_iterate.pxi` and `_record.h` are the compiled counterparts.

Invariant: records before a corrupt batch are handed out, and decoding does not move the position past that batch.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final

import attrs

from pykafka4.errors import ConfigError, CorruptRecord, DecodeError, RecordTooLarge
from pykafka4.gil.flag import give_way
from pykafka4.other_clients.tables import method_hint
from pykafka4.records import Headers, KeyT, ValueT
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records.decoder import Message, RecordBatch, open_batch, read_header, read_messages, read_records
from pykafka4.wire.records.layout import (
    COUNT,
    CREATE_TIME,
    HEADER_SIZE,
    HEADER_WEIGHT,
    INT64_MAX,
    LAST_OFFSET_DELTA,
    LEAST_BATCH,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MANY_HEADERS,
    NO_TIMESTAMP,
    RECORD_WEIGHT,
)

__all__ = ["Chunk", "Record", "RecordIterator"]


A = TypeVar("A")
B = TypeVar("B")


class RawSlot:
    """A slot of records that is not an attrs field, so `repr` does not show it, and `==` does not compare it."""

    __slots__ = ("_raw",)


@final
@attrs.frozen
class Record(RawSlot, Generic[KeyT, ValueT]):
    """A record as consumed. Without deserializers KeyT and ValueT are bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    timestamp_type: str = "CREATE_TIME"
    key: KeyT | None = None
    value: ValueT | None = None
    headers: Headers = ()
    leader_epoch: int = -1

    @property
    def raw(self) -> Record[bytes, bytes]:
        """The record with key and value as bytes: itself, or the record from which it was deserialized."""
        raw: Record[bytes, bytes]
        try:
            raw = object.__getattribute__(self, "_raw")
        except AttributeError:
            raw = cast("Record[bytes, bytes]", self)
        return raw

    def deserialized(self, key: A | None, value: B | None) -> Record[A, B]:
        """A copy of this record with the objects `key` and `value`; its `raw` is the record with the bytes."""
        r: Any = self
        made = Record(r.topic, r.partition, r.offset, r.timestamp_ms, r.timestamp_type, key, value, r.headers, r.leader_epoch)
        object.__setattr__(made, "_raw", self.raw)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self.raw is not self:
            return self.raw.deserialized, (self.key, self.value)
        return Record, tuple(getattr(self, a.name) for a in attrs.fields(Record))

    if not TYPE_CHECKING:  # with a `__getattr__` a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(method_hint("Record", name, ()))


Record.__module__ = "pykafka4.wire.records.hot"  # so that a pickle of one core can be read with the other
ABORT: Final = b"\0\0"  # the type in the key of a marker that aborts a transaction
TIMESTAMP_TYPES: Final = {
    CREATE_TIME: "CREATE_TIME",
    LOG_APPEND_TIME: "LOG_APPEND_TIME",
    NO_TIMESTAMP: "NO_TIMESTAMP_TYPE",
}


@final
class RecordIterator:
    """Iterates over `records`; `given` counts the records handed out.

    Another thread may set `stopped`: then `next` raises StopIteration until `stopped` is reset.
    """

    __slots__ = ("given", "records", "stopped")

    def __init__(self, records: list[Record]) -> None:
        self.records, self.given, self.stopped = records, 0, False

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> Record:
        give_way()
        if self.stopped or self.given >= len(self.records):
            raise StopIteration
        record = self.records[self.given]
        self.given += 1
        return record

    def __length_hint__(self) -> int:
        return max(0, len(self.records) - self.given)


@final
class Chunk:
    """One partition's bytes of one Fetch response, and the progress of their decoding.

    The constructor reads batch headers only. `next_offset` is the end of the last complete batch, or of the first batch that reaches
    `until`, but at least `fetch_offset`. If no batch reaches `until`, and the next batch is of format v2 and begins at or after `until`,
    `next_offset` is `until`. `position` is the next offset to hand out. `incomplete` can be above 0 only if the bytes end inside the first
    batch: it is the size of this batch, or of a header if the bytes end before the magic byte.
    `decoded` is the size of the records that the last call handed out: their size in memory for `decode`, as columns for
    `ColumnsBuilder.add`, and the size of the batch for `whole_batch`.
    A batch of format v2 that ends after `high_watermark` is too new to be compacted, so the batch is invalid unless it has a record for
    each offset.
    `aborted` has (producer id, first offset) of each aborted transaction, whose records are passed over up to its marker.
    Records from the offset `until` on are left out, except by `whole_batch`; a chunk that reaches this offset ends with `position` equal
    to `until`.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        fetch_offset: int,
        *,
        serial: Any = None,
        decompress: Callable[[int, Buffer, int], bytes],
        max_decompressed: int,
        aborted: Iterable[tuple[int, int]] = (),
        high_watermark: int = INT64_MAX,
        until: int = INT64_MAX,
    ) -> None:
        self._view: memoryview | None = memoryview(data).cast("B")
        self.topic, self.partition, self.serial = str.__str__(topic), partition, serial
        self.position = self.next_offset = fetch_offset
        self.size = len(self._view)
        self.last_leader_epoch, self.incomplete = -1, 0
        self._decompress, self._max, self._high_watermark = decompress, max_decompressed, high_watermark
        self.decoded = self._weight = 0  # `_weight`: bytes in memory of the last record read
        self._at = self._end = 0  # positions of the next batch, and of the end of the complete batches
        self.until, self._reaches = until, False  # `_reaches`: the bytes after `_end` are left out, because of `until`
        self._broken = False  # the header at `_end` is invalid
        self._batch: RecordBatch | None = None  # the batch at `_at`, once it is entered
        self._records: Iterator[Record] | None = None  # its remaining records
        # (first offset, producer id) of aborted transactions that begin later, and producer ids of aborted
        # transactions in progress; or None
        later = tuple(sorted((first, producer) for producer, first in aborted))
        self._aborted: tuple[tuple[tuple[int, int], ...], frozenset[int]] | None = (later, frozenset()) if later else None
        self._scan(self._view)

    def _scan(self, view: memoryview) -> None:
        """Find the end of the complete batches, and the offset after them.

        A header is also invalid if the offset after its batch is not above its first offset, or could exceed an int64.
        """
        at = 0
        while len(view) - at > MAGIC and self.next_offset < self.until:
            offset, size, epoch, magic = struct.unpack_from(">qiib", view, at)
            size += LOG_OVERHEAD
            self._broken = magic not in LEAST_BATCH or size < LEAST_BATCH[magic] or offset < 0
            if not self._broken and magic == 2 and self.until <= offset <= 0x7FFFFFFF00000000:
                self.next_offset = self.until
                break
            if self._broken or size > len(view) - at:
                break
            after = offset + 1 + (struct.unpack_from(">i", view, at + LAST_OFFSET_DELTA)[0] if magic == 2 else 0)
            self._broken = after <= offset or offset > 0x7FFFFFFF00000000 or (after > self._high_watermark and self._is_sparse(view, at))
            if self._broken:
                break
            self.next_offset = max(self.next_offset, after)
            self.last_leader_epoch = epoch if magic == 2 else self.last_leader_epoch
            at += size
        self._reaches = self.next_offset >= self.until
        if at == 0 and len(view) and not self._broken and not self._reaches:
            self.incomplete = size if len(view) > MAGIC else HEADER_SIZE
        self._end = at
        if at == 0 and not self._broken:
            self._drop()

    @staticmethod
    def _is_sparse(view: memoryview, at: int) -> bool:
        """Whether the batch at `at` is of format v2 and has fewer or more records than offsets."""
        if view[at + MAGIC] != 2:
            return False
        return bool(struct.unpack_from(">i", view, at + COUNT)[0] != struct.unpack_from(">i", view, at + LAST_OFFSET_DELTA)[0] + 1)

    def copy_bytes(self) -> None:
        """Copy the bytes if they are at most half of the response, which a waiting chunk would otherwise keep in memory.

        Does nothing in the middle of a batch, because the batch may be read in place.
        """
        if self._view is not None and self._records is None and self.size * 2 <= memoryview(self._view.obj).nbytes:
            self._view = memoryview(bytes(self._view))

    def _drop(self) -> None:
        if self._reaches:
            self.position = self.until
        self._view = self._batch = self._records = None

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to decode, and the bytes are released."""
        return self._view is None

    def skip(self) -> int:
        """Skip the batch at `position`, or, after an invalid header, all remaining bytes; return the new position."""
        if self._view is None or self._at >= self._end:  # after an invalid header no batch can be found
            self._drop()
            return self.position
        self._leave(self._batch or read_header(self._view, self._at))
        return self.position

    def _leave(self, batch: RecordBatch) -> None:
        """Continue after the last offset of `batch`, whether a record had it or not."""
        self.position = max(self.position, batch.next_offset)
        self._at += len(batch.data)
        self._batch = self._records = None
        if self._at >= self._end and not self._broken:  # with `_broken` the next call raises, to report the invalid header
            self._drop()

    def _enter(self) -> bool:
        """Check the next batch, then enter it or pass over it; return False if there is none."""
        batch = self._next_batch()
        if batch is None:
            return False
        if not self._inspect(batch):
            return True
        if batch.magic == 2:
            self._records = self._walk(batch, open_batch(batch, self._decompress, self._max))
        else:
            self._records = map(self._old_record, read_messages(batch, self._max))
        return True

    def _next_batch(self) -> RecordBatch | None:
        if self._at >= self._end:
            if self._broken:
                raise DecodeError("a batch header is invalid")
            return None
        assert self._view is not None
        self._batch = read_header(self._view, self._at)
        return self._batch

    def _inspect(self, batch: RecordBatch) -> bool:
        """Verify the checksum of `batch`; return False after passing over a control batch or an aborted batch."""
        if batch.magic == 2 or not batch.codec:
            self.position = max(self.position, batch.base_offset)
        batch.check()
        if batch.control or self._is_aborted(batch):
            if batch.control:
                self._end_aborted(batch)
            self._leave(batch)
            return False
        return True

    def whole_batch(self) -> bytes | None:
        """The bytes of the batch that contains `position`, or of the next one; None if there is none. `skip` continues after this batch.

        Its checksum is verified, except for formats v0 and v1. Control batches, aborted batches and batches without records are passed
        over. Raises the same errors as `decode`. The batch may have records before `position`, and from `until` on.
        """
        give_way()
        self.decoded = 0
        try:
            while True:
                if self._records is None:
                    batch = self._next_batch()
                    if batch is None:
                        return None
                    if batch.magic == 2 and not self._inspect(batch):
                        continue
                else:
                    assert self._batch is not None
                    batch = self._batch
                if batch.magic != 2 or (batch.count != 0 and self.position < batch.next_offset):
                    self.decoded = len(batch.data)
                    return bytes(batch.data)
                self._leave(batch)
        except (DecodeError, RecordTooLarge, ConfigError) as error:  # the last two: of a compressed marker
            raise self._located(error, self._batch) from None

    def _is_aborted(self, batch: RecordBatch) -> bool:
        self._begin_aborted(batch)
        return self._aborted is not None and batch.transactional and batch.producer_id in self._aborted[1]

    def _begin_aborted(self, batch: RecordBatch) -> None:
        if self._aborted is not None and batch.magic == 2:
            later, begun = self._aborted
            count = sum(first <= batch.last_offset for first, _ in later)
            self._aborted = later[count:], begun.union(producer for _, producer in later[:count])

    def _end_aborted(self, batch: RecordBatch) -> None:
        """Read the marker in `batch`. After an abort, later records of the producer belong to another transaction."""
        self._begin_aborted(batch)
        if self._aborted is None or batch.producer_id not in self._aborted[1] or batch.count == 0:
            return
        marker = next(read_records(open_batch(batch, self._decompress, self._max), batch.count))
        if marker.key is None or len(marker.key) < 4 or marker.key[0] > 0x7F:  # null, short, or of a negative version
            raise DecodeError("a marker's key is invalid")
        if marker.key[2:4] == ABORT:
            self._aborted = self._aborted[0], self._aborted[1] - {batch.producer_id}

    def _walk(self, batch: RecordBatch, view: memoryview) -> Iterator[Record]:
        previous, at = -1, 0
        appended = batch.timestamp_type == LOG_APPEND_TIME
        for raw in read_records(view, batch.count):
            if not previous < raw.offset_delta <= batch.last_offset_delta:
                raise DecodeError("the offsets of a batch are not increasing within its range")
            previous = raw.offset_delta
            self._weight = RECORD_WEIGHT + raw.end - at + raw.header_count * HEADER_WEIGHT
            at = raw.end
            timestamp = batch.max_timestamp_ms if appended else batch.base_timestamp_ms + raw.timestamp_delta
            timestamp = (timestamp + 2**63) % 2**64 - 2**63  # wraps around, as in Java
            offset = batch.base_offset + raw.offset_delta
            kind = TIMESTAMP_TYPES[batch.timestamp_type]
            if self.position <= offset < self.until and raw.header_count > MANY_HEADERS and self._weight > self._max:
                self.position = offset
                raise RecordTooLarge(
                    f"a record's {raw.header_count:,} headers would take more than max_decompressed_bytes={self._max} as objects"
                )
            yield Record(self.topic, self.partition, offset, timestamp, kind, raw.key, raw.value, raw.headers, batch.leader_epoch)

    def _old_record(self, r: Message) -> Record:
        self._weight = RECORD_WEIGHT + len(r.key or b"") + len(r.value or b"")
        return Record(self.topic, self.partition, r.offset, r.timestamp_ms, TIMESTAMP_TYPES[r.timestamp_type], r.key, r.value, (), -1)

    def decode(self, out: list[Record], limit: int, max_bytes: int = INT64_MAX) -> int:
        """Append up to `limit` records to `out`, until their size in memory (`decoded`) reaches `max_bytes`; return their number.

        Raises CorruptRecord for a damaged batch, RecordTooLarge for a batch or record that is too large in memory, ConfigError if the
        library of a codec is missing. It raises these only if this call has appended nothing: earlier records are handed out first.
        `position` does not pass the batch or record that caused the error. After any other exception (Ctrl-C) `out` and the position are as
        before the call.
        """
        give_way()
        count, before = len(out), (self._view, self.position, self._at, self._aborted)
        self.decoded = 0
        try:
            while len(out) - count < limit and self.decoded < max_bytes:
                if self._records is None:
                    if not self._enter():
                        break
                    continue
                record = next(self._records, None)
                if record is None or record.offset >= self.until:
                    assert self._batch is not None
                    self._leave(self._batch)
                elif record.offset >= self.position:
                    out.append(record)
                    self.position = record.offset + 1
                    self.decoded += self._weight
        except (DecodeError, RecordTooLarge, ConfigError) as error:
            batch, self._batch, self._records = self._batch, None, None  # a generator that has raised is finished: enter the batch again
            if len(out) == count:
                raise self._located(error, batch) from None
        except BaseException:
            del out[count:]  # the application does not have these records: the next call returns them
            self._view, self.position, self._at, self._aborted = before
            self._batch = self._records = None
            raise
        return len(out) - count

    def put_back(self, record: Record) -> None:
        """Take back `record`, which was handed out last."""
        assert self._records is not None
        self._records = itertools.chain([record], self._records)
        self.position = record.offset

    def too_large(self, reason: str) -> Exception:
        return self._located(RecordTooLarge(reason), self._batch)

    def _located(self, error: Exception, batch: RecordBatch | None) -> Exception:
        """`error` with partition and position; CorruptRecord and RecordTooLarge also have the offset after `batch`, if it is known."""
        if isinstance(error, ConfigError):  # the library of a codec is missing
            return ConfigError(f"{self.topic}-{self.partition} at offset {self.position}: {error}")
        if batch is None:
            return CorruptRecord(self.topic, self.partition, self.position, str(error))
        reason = f"the batch of offsets {batch.base_offset} to {batch.last_offset}: {error}"
        where = self.topic, self.partition, self.position, reason, max(batch.next_offset, self.position)
        return RecordTooLarge.fetched(*where) if isinstance(error, RecordTooLarge) else CorruptRecord(*where)
