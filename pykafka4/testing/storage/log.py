"""Validates the batches of one replica's log, gives them offsets, stores them, and keeps producer state, as a broker does.

The checks follow the protocol's description (KIP-98, KIP-360, KIP-101, KIP-467), independently of the client's batch writer, because
clients are tested against them.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

import attrs

from pykafka4.errors import DecodeError
from pykafka4.records import TopicPartition
from pykafka4.testing.storage.batch import NO_TIMESTAMP, Appended, Header, RecordError, StoredBatch, batch_refusal, parse_header, stamped
from pykafka4.testing.storage.transactions import Ended, Isolation, LogTransactions, Marker, index_bound
from pykafka4.wire.records.batch import WireRecord

__all__ = ["MOST_BYTES", "REMEMBERED", "DuplicateAnswer", "PartitionLog", "UnknownProducer"]

MOST_BYTES: Final = 1024 * 1024 + 12  # maximum bytes of a batch: the default of max.message.bytes
REMEMBERED: Final = 5  # batches of each producer and partition that a broker remembers, to find duplicates
TIMESTAMP_ERROR: Final = "One or more records have been rejected due to invalid timestamp"


class UnknownProducer(Enum):
    """A broker's response to a producer that the partition does not know, and whose first sequence is not 0.

    The value is the error; None: the batch is accepted.
    """

    ACCEPT = None  # Kafka 2.5 and newer
    REFUSE = "UNKNOWN_PRODUCER_ID"  # from 1.0 to 2.4
    OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"  # 0.11


class DuplicateAnswer(Enum):
    OFFSET = "offset"  # success, with the offset of the first copy
    ERROR = "error"  # DUPLICATE_SEQUENCE_NUMBER


@attrs.define(eq=False)
class PartitionLog:
    """Clients read up to `high_watermark`."""

    tp: TopicPartition
    wall_ms: Callable[[], int]
    max_message_bytes: int = MOST_BYTES
    append_time: bool = False  # message.timestamp.type=LogAppendTime
    compacted: bool = False  # cleanup.policy=compact: records need keys
    before_max_ms: int | None = None  # message.timestamp.before.max.ms; None: no limit
    after_max_ms: int | None = None  # message.timestamp.after.max.ms; None: no limit
    unknown_producer: UnknownProducer = UnknownProducer.ACCEPT
    duplicate_answer: DuplicateAnswer = DuplicateAnswer.OFFSET
    remembered: int = REMEMBERED
    refuse: Callable[[WireRecord], str | None] = lambda record: None  # the reason to refuse a record (INVALID_RECORD), or None
    batches: list[StoredBatch] = attrs.Factory(list)
    producers: dict[int, deque[StoredBatch]] = attrs.Factory(dict)  # producer id: its last batches, of one epoch
    transactions: LogTransactions = attrs.Factory(LogTransactions)
    epochs: list[tuple[int, int]] = attrs.Factory(list)  # (leader epoch, its first offset)
    start_offset: int = 0
    end_offset: int = 0
    high_watermark: int = 0
    _bases: list[int] = attrs.Factory(list)

    def append(self, data: bytes, leader_epoch: int) -> Appended:
        header = parse_header(data)
        refused = batch_refusal(header, data, self.max_message_bytes)
        if refused or header is None:
            return Appended(refused or "CORRUPT_MESSAGE")
        stamp = self.wall_ms() if self.append_time else NO_TIMESTAMP
        batch = StoredBatch.of(stamped(header, data, self.end_offset, leader_epoch, stamp))
        try:
            records = batch.records()
        except DecodeError:
            return Appended("INVALID_RECORD")
        if [r.offset for r in records] != list(range(self.end_offset, self.end_offset + header.records)):
            return Appended("INVALID_RECORD")
        invalid = self._record_errors(records)
        if invalid is not None:
            return invalid
        unchecked = False
        if header.producer_id >= 0:
            known = self.producers.get(header.producer_id, deque())
            first_copy = next((b for b in known if b.header.sequences == header.sequences), None)
            if first_copy is not None:
                return self._repeat(first_copy)
            refused = self._sequence_refusal(known[-1].header if known else None, header)
            if refused is None and header.producer_id in self.transactions.open and not header.transactional:
                refused = "INVALID_TXN_STATE"
            if refused:
                return Appended(refused)
            unchecked = not known and header.base_sequence > 0
        base = self.end_offset
        self._take(batch)
        return Appended("NONE", base, stamp, next_offset=self.end_offset, unchecked=unchecked)

    def _record_errors(self, records: tuple[WireRecord, ...]) -> Appended | None:
        """None if all records are valid. One invalid timestamp makes the batch's error INVALID_TIMESTAMP."""
        errors: list[RecordError] = []
        error = "INVALID_RECORD"
        for index, record in enumerate(records):
            if self.compacted and record.key is None:
                errors.append(RecordError(index, f"Compacted topic cannot accept message without key in topic partition {self.tp}."))
            elif why := self._bad_timestamp(record):
                error = "INVALID_TIMESTAMP"
                errors.append(RecordError(index, why))
            elif why := self.refuse(record):
                errors.append(RecordError(index, why))
        if not errors:
            return None
        summary = f"One or more records have been rejected due to {len(errors)} record errors in total"
        return Appended(error, record_errors=tuple(errors), message=TIMESTAMP_ERROR if error == "INVALID_TIMESTAMP" else summary)

    def _bad_timestamp(self, record: WireRecord) -> str | None:
        if self.append_time or record.timestamp_ms == NO_TIMESTAMP or (self.before_max_ms is None and self.after_max_ms is None):
            return None
        age = self.wall_ms() - record.timestamp_ms
        if (self.before_max_ms is not None and age > self.before_max_ms) or (self.after_max_ms is not None and -age > self.after_max_ms):
            return f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range"
        return None

    def _repeat(self, first_copy: StoredBatch) -> Appended:
        if self.duplicate_answer is DuplicateAnswer.ERROR:
            return Appended("DUPLICATE_SEQUENCE_NUMBER")
        stamp = first_copy.header.max_timestamp
        return Appended("NONE", first_copy.base_offset, stamp, duplicate=True, next_offset=first_copy.next_offset)

    def _sequence_refusal(self, last: Header | None, header: Header) -> str | None:
        """`last`: the producer's last batch."""
        ended = self.transactions.epochs.get(header.producer_id)
        if last is None and ended is None:
            return self.unknown_producer.value if header.base_sequence else None
        if header.producer_epoch < (last.producer_epoch if last else ended or 0):
            return "INVALID_PRODUCER_EPOCH"
        if last is None:  # only the epoch of the producer's last marker is known
            return "OUT_OF_ORDER_SEQUENCE_NUMBER" if header.base_sequence else None
        expected = (last.last_sequence + 1) % 2**31 if header.producer_epoch == last.producer_epoch else 0
        return None if header.base_sequence == expected else "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def writes_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        known = self.producers.get(producer_id)
        opened = producer_id in self.transactions.open
        return opened and known is not None and known[-1].header.producer_epoch == producer_epoch

    def mark(self, marker: Marker, leader_epoch: int) -> StoredBatch | None:
        """None if the producer has written in a later epoch."""
        known = self.producers.get(marker.producer_id)
        if known and known[-1].header.producer_epoch > marker.producer_epoch:
            return None
        batch = StoredBatch.of(marker.batch(self.end_offset, leader_epoch, self.wall_ms()))
        self._take(batch)
        return batch

    def store(self, data: bytes) -> None:
        """Append a batch unchanged, with its own offsets and epoch."""
        batch = StoredBatch.of(data)
        if batch.base_offset < self.end_offset:
            raise ValueError(f"{self.tp}: base offset {batch.base_offset} is below the end offset {self.end_offset}")
        self._take(batch)

    def _take(self, batch: StoredBatch) -> None:
        epoch = batch.header.leader_epoch
        if not self.epochs or (epoch >= 0 and epoch != self.epochs[-1][0]):
            # Epochs without records are removed, because the leader's log does not have them.
            self.epochs = [entry for entry in self.epochs if entry[0] <= epoch and entry[1] < batch.base_offset]
            if not self.epochs or self.epochs[-1][0] != epoch:
                self.epochs.append((epoch, batch.base_offset))
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        self.end_offset = batch.next_offset
        self.transactions.note(batch)
        self._remember(batch)

    def _remember(self, batch: StoredBatch) -> None:
        header = batch.header
        if header.producer_id < 0:
            return
        known = self.producers.get(header.producer_id)
        if header.control:
            if known is not None and known[-1].header.producer_epoch < header.producer_epoch:
                del self.producers[header.producer_id]
            return
        if known is None or known[-1].header.producer_epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = deque(maxlen=self.remembered)
        known.append(batch)

    # ---- replication

    def begin_epoch(self, epoch: int) -> None:
        """Begin `epoch`, in which this replica leads, at the end of its log."""
        self.epochs = [(known, start) for known, start in self.epochs if known < epoch and start < self.end_offset]
        self.epochs.append((epoch, self.end_offset))

    def follow(self, leader: PartitionLog) -> None:
        """Truncate this log where it diverges from the leader's, then copy the batches that it lacks."""
        self._agree(leader)
        if self.end_offset < leader.start_offset:
            self._restart(leader.start_offset)
        for batch in leader.batches[leader._index_of(self.end_offset) :]:
            self._take(batch)
        if self.start_offset < leader.start_offset:
            self.delete_before(leader.start_offset)

    def holds(self, batch: StoredBatch) -> bool:
        """Whether `batch` itself is in the log, and not another batch with the same offset."""
        at = self._index_of(batch.base_offset)
        return at < len(self.batches) and self.batches[at] is batch

    def divergence_from(self, other: PartitionLog) -> int | None:
        """The offset of this log's first batch that `other` does not hold (see `holds`); None if there is none.

        Offsets below the start of `other` are ignored.
        """
        for at in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[at]
            if batch.next_offset <= other.start_offset or other.holds(batch):
                return None if at == len(self.batches) - 1 else batch.next_offset
        return self.batches[0].base_offset if self.batches else None

    def _agree(self, leader: PartitionLog) -> None:
        while self.batches and self.batches[-1].next_offset > leader.start_offset and not leader.holds(self.batches[-1]):
            self.truncate(self.batches[-1].base_offset)
        if self.end_offset > leader.end_offset:
            self.truncate(leader.end_offset)

    def _restart(self, offset: int) -> None:
        """Begin again at `offset`, because the leader has no older records."""
        self.batches.clear()
        self._bases.clear()
        self.epochs.clear()
        self.transactions = LogTransactions()
        self.start_offset = self.end_offset = self.high_watermark = offset

    # ---- reading

    @property
    def stable_offset(self) -> int:
        """The last stable offset: for every record below it, the log knows whether the record's transaction was committed."""
        return self.transactions.stable_until(self.high_watermark, self.start_offset)

    def end_for(self, isolation: Isolation) -> int:
        return self.stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def aborted(self, offset: int, size: int) -> list[Ended]:
        """The aborted transactions for a response with `size` bytes of records from `offset` on, in the order of their markers."""
        if not any(entry.aborted for entry in self.transactions.ended):
            return []
        upper = index_bound(self.batches, offset, size)
        return list(self.transactions.aborted(offset, self.end_offset if upper is None else upper))

    def read(self, offset: int, max_bytes: int, limit: int | None = None) -> bytes:
        """The batches from the one that contains `offset` up to the offset `limit`, by default the high watermark.

        The first batch is complete; the last may be cut off at `max_bytes`.
        """
        limit = self.high_watermark if limit is None else limit
        parts: list[bytes] = []
        size = 0
        for at in range(self._index_of(offset), len(self.batches)):
            batch = self.batches[at]
            if batch.next_offset > limit or (parts and size >= max_bytes):
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)[: max(max_bytes, len(parts[0]))] if parts else b""

    def _index_of(self, offset: int) -> int:
        at = bisect.bisect_right(self._bases, offset) - 1
        return at if at >= 0 and self.batches[at].next_offset > offset else at + 1

    def records(self) -> Iterator[WireRecord]:
        for batch in self.batches:
            yield from batch.records()

    def records_in(self, batch: StoredBatch) -> Iterable[WireRecord]:
        return batch.records()

    def offset_at(self, timestamp_ms: int, limit: int | None = None) -> tuple[int, int]:
        """(offset, timestamp) of the first record below `limit` with `timestamp_ms` or later; (-1, -1) if there is none."""
        limit = self.high_watermark if limit is None else limit
        for offset, stamp in self._stamps():
            if stamp >= timestamp_ms and self.start_offset <= offset < limit:
                return offset, stamp
        return -1, -1

    def newest(self, limit: int | None = None) -> tuple[int, int]:
        """(offset, timestamp) of the record below `limit` with the highest timestamp; (-1, -1) if there is no record.

        As in brokers, the record may be below the start offset while its data is in the log.
        """
        limit = self.high_watermark if limit is None else limit
        return max((entry for entry in self._stamps() if entry[0] < limit), key=lambda entry: entry[1], default=(-1, -1))

    def _stamps(self) -> Iterator[tuple[int, int]]:
        """(offset, timestamp) of every record and marker, because brokers also find markers by time."""
        for batch in self.batches:
            if batch.header.control:
                yield batch.base_offset, batch.header.base_timestamp
            for record in batch.records():
                yield record.offset, record.timestamp_ms

    # ---- epochs

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the highest epoch up to `epoch`; (-1, -1) if `epoch` is newer than all known epochs.

        An epoch older than all of them ends where the oldest one starts.
        """
        at = bisect.bisect_right([e for e, _ in self.epochs], epoch)
        if at == len(self.epochs):
            return (epoch, self.end_offset) if self.epochs and self.epochs[-1][0] == epoch else (-1, -1)
        return (self.epochs[at - 1][0] if at else epoch), self.epochs[at][1]

    def epoch_at(self, offset: int) -> int:
        at = bisect.bisect_right([start for _, start in self.epochs], offset) - 1
        return self.epochs[at][0] if at >= 0 else -1

    # ---- deleting

    def delete_before(self, offset: int) -> None:
        """Raise the start offset to `offset`, as DeleteRecords and retention do; the epoch that contains `offset` then begins there."""
        self.start_offset = min(max(self.start_offset, offset), self.end_offset)
        self.high_watermark = max(self.high_watermark, self.start_offset)
        keep = next((i for i, b in enumerate(self.batches) if b.next_offset > self.start_offset), len(self.batches))
        del self.batches[:keep], self._bases[:keep]
        self.transactions.delete_before(self.start_offset)
        older = [entry for entry in self.epochs if entry[1] <= self.start_offset]
        if older:
            self.epochs[: len(older)] = [(older[-1][0], self.start_offset)]

    def truncate(self, offset: int) -> None:
        while self.batches and self.batches[-1].next_offset > offset:
            self.batches.pop()
            self._bases.pop()
        self.end_offset = self.batches[-1].next_offset if self.batches else self.start_offset
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end_offset]
        self.transactions.truncate(self.end_offset, self.batches)
        self.producers.clear()
        for batch in self.batches:
            self._remember(batch)

    def reload_producers(self) -> None:
        """Forget all but the last batch of each producer, as after a restart: a broker's snapshot has only that batch."""
        for known in self.producers.values():
            while len(known) > 1:
                known.popleft()
