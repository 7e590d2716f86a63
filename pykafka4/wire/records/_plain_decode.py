"""From fetched bytes to records, in plain Python. Rule: records before a corrupt batch are handed out; the position stays at that batch.

The counterpart of `_decode.pxi`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

from pykafka4.errors import ConfigError, CorruptRecord, DecodeError, RecordTooLarge
from pykafka4.gil.flag import give_way
from pykafka4.other_clients.names import method_hint
from pykafka4.records import Headers
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records.decoder import Message, RecordBatch, open_batch, read_header, read_headers, read_messages, read_records
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


class _LazyHeaders:
    """Keeps headers encoded until they are read; see `_record.h`. Their lengths are already checked."""

    __slots__ = ("_encoded",)
    _encoded: tuple[int, bytes]  # their number, and their bytes

    def __getattr__(self, name: str) -> Any:
        if name != "headers":
            raise AttributeError(method_hint("Record", name, ()))
        headers = read_headers(*self._encoded)
        _set(self, "headers", headers)
        return headers


_set, _delete = object.__setattr__, object.__delattr__


@attrs.frozen
class Record(_LazyHeaders):
    """A record as consumed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    timestamp_type: str = "CREATE_TIME"
    key: Any = None
    value: Any = None
    headers: Headers = ()
    leader_epoch: int = -1

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, tuple(getattr(self, a.name) for a in attrs.fields(Record))


Record.__module__ = "pykafka4.wire.records.hot"  # so that pickles work across the compiled and the plain core
ABORT: Final = b"\0\0"  # the type of a marker
TIMESTAMP_TYPES: Final = {
    CREATE_TIME: "CREATE_TIME",
    LOG_APPEND_TIME: "LOG_APPEND_TIME",
    NO_TIMESTAMP: "NO_TIMESTAMP_TYPE",
}


class RecordIterator:
    """Iterates over `records`; `given` counts those handed out. With `stopped` set it ends early, and continues once that is reset."""

    __slots__ = ("_given", "records", "stopped")

    def __init__(self, records: list[Record]) -> None:
        if not isinstance(records, list):
            raise TypeError(f"records must be a list, not {type(records).__name__}")
        self.records = records
        self._given = 0
        self.stopped = False

    @property
    def given(self) -> int:
        return self._given

    @given.setter
    def given(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"given={value}: must not be negative")
        self._given = value

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> Record:
        give_way()
        if self.stopped or self._given >= len(self.records):
            raise StopIteration
        record = self.records[self._given]
        self._given += 1
        return record

    def __length_hint__(self) -> int:
        """How many are left, stopped or not."""
        return max(0, len(self.records) - self._given)


class Chunk:
    """One partition's bytes of one Fetch response, and how far they are decoded.

    The constructor reads batch headers only. `next_offset` follows the last whole batch; `position` is the next offset to hand out;
    `incomplete` is the size of the first batch if even that one is incomplete, else 0.
    `decoded` is the size in memory of the records that the last `decode` appended.
    `high_watermark`: a batch that ends behind it is too new to be compacted, so it has a record for each of its offsets, or is invalid.
    `aborted` has (producer id, first offset) of each aborted transaction: its records are passed over, up to its marker.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        fetch_offset: int,
        *,
        serial: object = None,
        decompress: Callable[[int, Buffer, int], bytes],
        max_decompressed: int,
        aborted: Iterable[tuple[int, int]] = (),
        high_watermark: int = INT64_MAX,
    ) -> None:
        self._view: memoryview | None = memoryview(data).cast("B")
        self.topic, self.partition, self.serial = str.__str__(topic), partition, serial
        self.position = self.next_offset = fetch_offset
        self.size = len(self._view)
        self.last_leader_epoch, self.incomplete = -1, 0
        self._decompress, self._max, self._high_watermark = decompress, max_decompressed, high_watermark
        self.decoded = self._weight = 0  # `_weight`: of the last record read
        self._at = self._end = 0
        self._broken = False
        self._batch: RecordBatch | None = None  # the batch entered
        self._records: Iterator[Record] | None = None  # its remaining records
        # (first offset, producer id) of aborted transactions that begin later, and producer ids of those that have begun; None: none
        later = tuple(sorted((first, producer) for producer, first in aborted))
        self._aborted: tuple[tuple[tuple[int, int], ...], frozenset[int]] | None = (later, frozenset()) if later else None
        self._scan(self._view)

    def _scan(self, view: memoryview) -> None:
        """Find the end of the complete batches and the offset after them."""
        at = 0
        while len(view) - at > MAGIC:
            offset, size, epoch, magic = struct.unpack_from(">qiib", view, at)
            size += LOG_OVERHEAD
            self._broken = magic not in LEAST_BATCH or size < LEAST_BATCH[magic] or offset < 0
            if self._broken or size > len(view) - at:
                break
            after = offset + 1 + (struct.unpack_from(">i", view, at + LAST_OFFSET_DELTA)[0] if magic == 2 else 0)
            self._broken = after <= offset or offset > 0x7FFFFFFF00000000 or (after > self._high_watermark and self._is_sparse(view, at))
            if self._broken:
                break
            self.next_offset = max(self.next_offset, after)
            self.last_leader_epoch = epoch if magic == 2 else self.last_leader_epoch
            at += size
        if at == 0 and len(view) and not self._broken:
            self.incomplete = size if len(view) > MAGIC else HEADER_SIZE
        self._end = at
        if at == 0 and not self._broken:
            self._drop()

    @staticmethod
    def _is_sparse(view: memoryview, at: int) -> bool:
        """Whether the batch at `at` has fewer or more records than offsets."""
        if view[at + MAGIC] != 2:
            return False
        return bool(struct.unpack_from(">i", view, at + COUNT)[0] != struct.unpack_from(">i", view, at + LAST_OFFSET_DELTA)[0] + 1)

    def own(self) -> None:
        """Copy the bytes if most of the response belongs to other partitions, so that a chunk that waits does not keep it in memory.

        Does nothing in the middle of a batch, because its records are read in place.
        """
        if self._view is not None and self._records is None and self.size * 2 <= memoryview(self._view.obj).nbytes:
            self._view = memoryview(bytes(self._view))

    def _drop(self) -> None:
        self._view = self._batch = self._records = None

    @property
    def exhausted(self) -> bool:
        """Whether everything was handed out."""
        return self._view is None

    def skip(self) -> int:
        """Skip the (corrupt) batch at `position`; returns the new position."""
        if self._view is None:
            return self.position
        if self._batch is None and self._at < self._end:
            self._pass_over(read_header(self._view, self._at))
        elif self._batch is None:
            self._drop()  # after an invalid header no batch can be found
            return self.position
        self._leave()
        return self.position

    def _pass_over(self, batch: RecordBatch) -> None:
        self._batch = batch
        self._at += len(batch.data)

    def _leave(self) -> None:
        """The current batch is finished: continue after its last offset, whether a record had it or not."""
        assert self._batch is not None
        self.position = max(self.position, self._batch.next_offset)
        self._batch = self._records = None
        if self._at >= self._end and not self._broken:
            self._drop()

    def _corrupt(self, reason: str, batch: RecordBatch | None = None) -> CorruptRecord:
        return CorruptRecord(self.topic, self.partition, self.position, reason, None if batch is None else self._behind(batch))

    def _behind(self, batch: RecordBatch) -> int:
        """The offset after `batch`: seeking there skips it."""
        return max(batch.next_offset, self.position)

    def _enter(self) -> bool:
        """Check the next batch and enter it; False when there is none."""
        if self._at >= self._end:
            if self._broken:
                raise self._corrupt("a batch header is invalid")
            return False
        assert self._view is not None
        batch = read_header(self._view, self._at)
        extent = f"the batch of offsets {batch.base_offset} to {batch.last_offset}"
        if batch.magic == 2 or not batch.codec:
            self.position = max(self.position, batch.base_offset)
        try:
            batch.check()
            if batch.control or self._is_aborted(batch):
                if batch.control:
                    self._end_aborted(batch)
                self._pass_over(batch)
                self._leave()
                return True
            records = self._walk(batch, open_batch(batch, self._decompress, self._max)) if batch.magic == 2 else self._old_records_of(batch)
        except RecordTooLarge as error:
            raise RecordTooLarge.fetched(self.topic, self.partition, self.position, f"{extent}: {error}", self._behind(batch)) from None
        except DecodeError as error:
            raise self._corrupt(f"{extent}: {error}", batch) from None
        self._pass_over(batch)
        self._records = records
        return True

    def _is_aborted(self, batch: RecordBatch) -> bool:
        self._begin_aborted(batch)
        return self._aborted is not None and batch.transactional and batch.producer_id in self._aborted[1]

    def _begin_aborted(self, batch: RecordBatch) -> None:
        """Note the aborted transactions that begin in `batch` or before it."""
        if self._aborted is not None and batch.magic == 2:
            later, begun = self._aborted
            count = sum(first <= batch.last_offset for first, _ in later)
            self._aborted = later[count:], begun.union(producer for _, producer in later[:count])

    def _end_aborted(self, batch: RecordBatch) -> None:
        """A marker: if it aborts, what its producer writes after it belongs to another transaction."""
        self._begin_aborted(batch)
        if self._aborted is None or batch.producer_id not in self._aborted[1] or batch.count == 0:
            return
        marker = next(read_records(open_batch(batch, self._decompress, self._max), batch.count))
        if marker.key is None or len(marker.key) < 4 or marker.key[0] > 0x7F:
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
            record = Record(self.topic, self.partition, offset, timestamp, kind, raw.key, raw.value, (), batch.leader_epoch)
            if raw.header_count:
                self._check_weight(batch, offset, raw.header_count)
                _set(record, "_encoded", (raw.header_count, raw.encoded_headers))
                _delete(record, "headers")
            yield record

    def _check_weight(self, batch: RecordBatch, offset: int, headers: int) -> None:
        """RecordTooLarge if the headers of one record would take more memory than a batch may."""
        if offset >= self.position and headers > MANY_HEADERS and self._weight > self._max:
            reason = f"its {headers:,} headers would take more than max_decompressed_bytes={self._max} as objects"
            raise RecordTooLarge.fetched(self.topic, self.partition, offset, reason, self._behind(batch))

    def _old_records_of(self, batch: RecordBatch) -> Iterator[Record]:
        return map(self._old_record, read_messages(batch, self._max))

    def _old_record(self, r: Message) -> Record:
        self._weight = RECORD_WEIGHT + len(r.key or b"") + len(r.value or b"")
        return Record(self.topic, self.partition, r.offset, r.timestamp_ms, TIMESTAMP_TYPES[r.timestamp_type], r.key, r.value, (), -1)

    def decode(self, out: list[Record], limit: int, max_bytes: int = INT64_MAX) -> int:
        """Append up to `limit` records to `out`, until their size in memory (`decoded`) is `max_bytes`; returns how many.

        Raises CorruptRecord for a damaged batch, RecordTooLarge for one that is too large once decompressed, and ConfigError for one whose
        codec's library is missing, but only if this call has appended nothing: the records before it are handed out first. `position`
        stays at that batch. After any other exception (Ctrl-C) everything is as before the call.
        """
        give_way()
        count, view, position, at = len(out), self._view, self.position, self._at - (len(self._batch.data) if self._batch else 0)
        aborted = self._aborted
        try:
            return self._decode(out, limit, max_bytes)
        except (CorruptRecord, RecordTooLarge, ConfigError):
            raise
        except BaseException:
            del out[count:]
            self._view, self.position, self._at, self._aborted = view, position, at, aborted
            self._batch = self._records = None  # an interrupted generator is finished: enter the batch again
            raise

    def _decode(self, out: list[Record], limit: int, max_bytes: int) -> int:
        n = self.decoded = 0
        while n < limit and self.decoded < max_bytes:
            try:
                if self._records is None and not self._enter():
                    break
                n += self._take(out, limit - n, max_bytes)
            except (CorruptRecord, RecordTooLarge):
                if n == 0:
                    raise
                break
            except ConfigError as error:  # the library of its codec is missing
                self._at -= len(self._batch.data) if self._batch else 0
                self._batch = self._records = None  # a generator that has raised is finished: enter the batch again
                if n == 0:
                    raise ConfigError(f"{self.topic}-{self.partition} at offset {self.position}: {error}") from None
                break
        return n

    def _take(self, out: list[Record], room: int, max_bytes: int) -> int:
        """Append up to `room` records of the batch entered, if there is one, until `decoded` is `max_bytes`."""
        n = 0
        while n < room and self._records is not None and self.decoded < max_bytes:
            try:
                record = next(self._records, None)
            except (DecodeError, RecordTooLarge) as error:
                return self._damaged(n, error)
            if record is None:
                self._leave()
            elif record.offset >= self.position:
                out.append(record)
                self.position = record.offset + 1
                self.decoded += self._weight
                n += 1
        return n

    def _damaged(self, n: int, error: DecodeError | RecordTooLarge) -> int:
        """An iterator that has raised is finished; replace it by one that raises again."""
        assert self._batch is not None
        if isinstance(error, RecordTooLarge):
            self._records = map(_raise, [error])
            if n == 0:
                raise error
            return n
        reason = f"{error}, in the batch of offsets {self._batch.base_offset} to {self._batch.last_offset}"
        self._records = map(_raise, [error])
        if n == 0:
            raise self._corrupt(reason, self._batch) from None
        return n


def _raise(error: Exception) -> Record:
    raise error
