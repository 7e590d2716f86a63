"""Batches, in plain Python. Rule: a batch has exactly one outcome, and its memory lives as long as it can still be read.

The counterpart of `_batch.pxi`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pykafka4.errors import ConfigError, DecodeError, ForkedClientError, RecordTooLarge
from pykafka4.gil.flag import step_aside
from pykafka4.logs import get_log
from pykafka4.records import ProducerRecord, Written
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records._plain_topic import Topic
from pykafka4.wire.records.common import fresh, not_handed_back, wake_tasks
from pykafka4.wire.records.compression import decompress, is_interruption
from pykafka4.wire.records.decoder import RawRecord, read_records
from pykafka4.wire.records.encoder import encode_header, encode_record
from pykafka4.wire.records.layout import ATTRIBUTES, BASE_TIMESTAMP, CODEC_BITS, COUNT, HEADER_SIZE, TRANSACTIONAL_BIT

__all__ = ["ACKED", "CALLBACK_COST", "FAILED", "NAMES", "OPEN", "SEALED", "SPLIT", "Batch", "Callback", "Callbacks", "call_back"]

Callback: TypeAlias = Callable[[Any], object]  # of `send` or `add_done_callback`: called with the `Delivery`
Callbacks: TypeAlias = Callable[[], None]
OPEN, SEALED, ACKED, FAILED, SPLIT = range(5)
MAX_RAW: Final = 64 * 1024 * 1024  # bytes of a raw batch that is decompressed: to be split, or handed back
CALLBACK_COST: Final = 24  # bytes reserved for the callback of a record
NAMES: Final = ("OPEN", "SEALED", "ACKED", "FAILED", "SPLIT")
MEANINGS: Final = {  # docs/states.md shows them
    OPEN: "takes records",
    SEALED: "takes no more records; waits in its queue or is in flight",
    ACKED: "acknowledged; its records have their offsets",
    FAILED: "failed for good, as `not written` or `maybe written`",
    SPLIT: "too large for its topic; replaced by two halves",
}
FOLLOWS: Final = {OPEN: {SEALED, FAILED}, SEALED: {ACKED, FAILED, SPLIT}, ACKED: set(), FAILED: set(), SPLIT: set()}

_log = get_log("pykafka4")


class Batch(bytearray):
    """A record batch (format v2): filled by application threads, sent by the loop; then it holds the outcome for its handles.

    It *is* its bytes: a bytearray cannot be resized, so also not emptied, while a transport still reads a buffer of it.
    """

    partition: int  # type: ignore[assignment]  # bytearray has methods of these two names
    count: int  # type: ignore[assignment]

    def __init__(self, acc: Any, home: Topic, partition: int, created: float) -> None:
        super().__init__(HEADER_SIZE)
        self._acc, self._home = acc, home
        self.topic, self.partition, self.created, self.linger = home.name, partition, created, home.policy.linger
        self.count, self.state = 0, OPEN
        self.ready, self._settled = False, False
        self._stamped, self._compressing = False, False
        self._dropped = False  # of records that a policy dropped, which are not kept
        self._held = 0  # bytes reserved
        self._raw, self._used, self.codec = HEADER_SIZE, HEADER_SIZE, 0
        self._own_codec = -1  # of a raw batch, which its parts get as well; -1: that of the topic
        self._news = False  # with its last record, the batches that it is combined with have reached a limit
        self._payload = 0  # bytes of keys and values, where the topic limits them
        self._base_timestamp = self._min_timestamp = self._max_timestamp = -1  # of the first record, the lowest, the highest
        self._callbacks: list[tuple[Any, Callback]] = []  # of send
        self._extras: list[tuple[Any, Callback]] = []  # of add_done_callback
        self._base_offset = self._append_time = -1
        self._code, self._outcome_written = "", Written.NO
        self._cause: BaseException | None = None
        self._failed_before = 0  # records of the producer that had failed before this batch
        self._kept: bytes | list[ProducerRecord] | None = None
        self._looked_at: set[int] = set()  # failed records whose failure the application has seen
        self._parts: list[tuple[int, int, Batch]] = []  # runs of records: (first index here, first index there, batch)
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.attempts = 0
        self.failed_attempts = 0  # error responses to requests with it
        self.written = self.in_flight = False
        self.sent_at = created  # when its first record was sent: before `created` if that was parked
        self.last_error: Any = None

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __repr__(self) -> str:
        return f"<Batch {self.topic}-{self.partition} {NAMES[self.state]} {self.count} records, {self._used} bytes>"

    __str__ = __repr__

    def __len__(self) -> int:
        return self._used

    @property
    def size(self) -> int:
        """Its size in bytes as sent, header included."""
        return self._used

    @property
    def raw_size(self) -> int:
        """Its size in bytes before compression, header included; final once it is sealed."""
        return self._raw

    @property
    def wanted_codec(self) -> int:
        """The codec that its bytes have, or will have if that makes them smaller."""
        return self._home.policy.codec if self._own_codec < 0 else self._own_codec

    @property
    def times(self) -> tuple[int, int]:
        """The lowest and the highest timestamp of its records, in milliseconds."""
        return self._min_timestamp, self._max_timestamp

    @property
    def done(self) -> bool:
        """Whether every record has its outcome."""
        return all(part.state >= ACKED for part in self.leaves())

    @property
    def maybe_repeated(self) -> bool:
        """Whether an earlier attempt may have written it, too: without a producer id brokers find no duplicates."""
        return self.written and self.producer_id < 0

    @property
    def settled(self) -> bool:
        """Whether it is done and its callbacks have returned."""
        return all(part._settled for part in self.leaves())

    def leaves(self) -> list[Batch]:
        """The batches that have its records now, in order: those that splits have made of it, or itself."""
        left, found = [self], []
        while left:  # no recursion: a batch can be split as often as it has records
            batch = left.pop()
            if batch.state == SPLIT:
                left += [part for _, there, part in reversed(batch._parts) if there == 0]
            else:
                found.append(batch)
        return found

    # ---- memory

    def _hold(self, size: int) -> None:
        """Reserve `size` bytes more, or return some."""
        self._held += size
        self._acc._reserve(self._home, self.partition, size)

    def _settle(self) -> None:
        """The callbacks have returned (or there were none)."""
        if not self._settled:
            self._settled = True
            self._acc._live.discard(self)
            self._acc.batches -= 1
            self._hold(-self._held)

    @property
    def outcome(self) -> tuple[int, int, str | None, Written | None, BaseException | None]:
        """(offset of its first record or -1, append time or -1; reason or None, whether written, cause) once it has its outcome."""
        if self.state == FAILED:
            return -1, -1, self._code, self._outcome_written, self._cause
        return self._base_offset, self._append_time, None, None, None

    def handle(self) -> Any:
        """A handle of its first record, to be called back when it has its outcome."""
        return self._acc._new_handle(self)

    # ---- to the broker

    def compress(self) -> None:
        """Compress the records if the topic has a codec and the result is small enough; then the batch is `ready`.

        Called by the thread that filled the batch, or by the loop or a helper thread after its linger. Calling again does nothing.
        """
        acc = self._acc
        if self.state == OPEN:
            raise RuntimeError(f"{self!r} must be sealed before it is compressed")
        with acc._lock():
            if self.ready or self._compressing or self.state != SEALED:
                return
            self._compressing = True
        interruption = None
        try:
            self._squeeze()
        except BaseException as error:  # sent uncompressed: whatever happened, the partition continues
            if is_interruption(error):
                interruption = error
            else:
                _log.exception("%s: %s-%s: compressing a batch failed; it is sent uncompressed", acc.client_id, self.topic, self.partition)
        finally:  # also if the log line runs out of memory, or on a second Ctrl-C
            self._compressing = False
            self.ready = True
            if acc.can_send:
                acc._wake()
        acc._nudge()
        if interruption is not None:
            raise interruption

    def _squeeze(self) -> None:
        acc, policy, before = self._acc, self._home.policy, self._raw - HEADER_SIZE
        assert acc._compress is not None
        codec = self.wanted_codec
        level = () if policy.level is None or codec != policy.codec else (policy.level,)
        data = acc._compress(codec, bytes(self[HEADER_SIZE:]), *level)
        with acc._lock():
            if self.state == SEALED and len(data) < before and len(data) <= policy.compression_max_ratio * before:
                self[HEADER_SIZE:] = data
                self.codec, self._used = codec, HEADER_SIZE + len(data)
                self._hold(len(data) - before)

    def finish(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Write header and checksum. Call it again only to change the values, and only while no request with it is in flight."""
        if self.state != SEALED or not self.ready:
            raise RuntimeError(f"{self!r} is not ready to be sent")
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self[:HEADER_SIZE] = encode_header(
            memoryview(self)[HEADER_SIZE:],
            attributes=self.codec | TRANSACTIONAL_BIT * self._acc.transactional,
            last_offset_delta=self.count - 1,
            base_timestamp_ms=self._base_timestamp,
            max_timestamp_ms=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=self.count,
        )
        self._stamped = True

    # ---- the outcome

    def _move(self, state: int) -> None:
        if state not in FOLLOWS[self.state]:
            raise RuntimeError(f"{self!r} cannot become {NAMES[state]}: a batch has one outcome")
        if self.state == OPEN:
            self._acc._close(self)
        self.state = state

    def _conclude(self) -> list[tuple[Any, Callback]]:
        """Release what is no longer needed after the outcome; returns the callbacks."""
        rows, self._callbacks, self._extras = self._callbacks + self._extras, [], []
        with suppress(BufferError):
            self.clear()
        if not rows:
            self._settle()
        return rows

    def _left_to_call(self, rows: list[tuple[Any, Callback]]) -> Callbacks | None:
        """Wake the tasks; returns a callable that runs the other callbacks, if there are any."""
        self._acc._nudge()
        others = wake_tasks(rows, self._acc.client_id)
        if rows and not others:
            with self._acc._lock():
                self._settle()
            self._acc._nudge()
        return (lambda: self._run(others)) if others else None

    def _run(self, rows: list[tuple[Any, Callback]]) -> None:
        """Run the callbacks, once; the batch keeps its reservation of memory until they have returned."""
        if not rows:
            return
        for delivery, function in rows:
            call_back(self._acc.client_id, function, delivery)
            if isinstance(self._acc.refusal, ForkedClientError):  # the callback forked: the remaining ones run in the parent alone
                return
        rows.clear()
        with self._acc._lock():
            self._settle()
        self._acc._nudge()

    def complete(self, base_offset: int, log_append_time_ms: int) -> Callbacks | None:
        """Acknowledge it, with the first record's offset (-1: unknown) and the broker's append time (-1: the records keep their own).

        A broker that had the batch already answers with its highest timestamp, also where the records' own times count.
        Returns None, or a callable that runs the callbacks.
        """
        with self._acc._lock():
            self._move(ACKED)
            self._base_offset = base_offset
            self._append_time = -1 if self.attempts > 1 and log_append_time_ms == self._max_timestamp else log_append_time_ms
            self._acc.acked += self.count
            rows = self._conclude()
        return self._left_to_call(rows)

    def fail(self, code: str, written: Written, cause: BaseException | None = None) -> Callbacks | None:
        """Fail it; the records are kept to be handed back. Returns None, or a callable that runs the callbacks."""
        with self._acc._lock():
            kept = bytes(self[HEADER_SIZE:]) if self.state in (OPEN, SEALED) else None
            self._move(FAILED)
            self._kept, self._code, self._outcome_written, self._cause = kept, code, written, fresh(cause)
            self._failed_before = self._acc.failed
            self._acc.failed += self.count
            rows = self._conclude()
        return self._left_to_call(rows)

    def _raws(self) -> Iterator[RawRecord]:
        if self.state not in (OPEN, SEALED, FAILED) or isinstance(self._kept, list):
            raise RuntimeError(f"{self!r} no longer has records")
        data = self._kept if self._kept is not None else bytes(self[HEADER_SIZE:])
        most = self._raw if self._own_codec < 0 else MAX_RAW
        return read_records(memoryview(decompress(self.codec, data, most) if self.codec else data), self.count)

    def records(self) -> list[ProducerRecord]:
        """Its records, as passed to `send`; RuntimeError after it was acknowledged or split."""
        if isinstance(self._kept, list):
            return list(self._kept)
        maybe = Written.MAYBE if self.written else Written.NO
        written = self._outcome_written if self.state == FAILED else maybe
        partition = self.partition if self.partition >= 0 else None
        return [
            ProducerRecord(self.topic, r.value, r.key, r.headers, partition, self._base_timestamp + r.timestamp_delta, written)
            for r in self._raws()
        ]

    def _record(self, index: int) -> ProducerRecord | None:
        """One of `records()` of a failed batch; decoded once, so that reading each of them is not quadratic."""
        if not isinstance(self._kept, list):
            self._kept = self._handed_back()
        return self._kept[index] if index < len(self._kept) else None

    def _handed_back(self) -> list[ProducerRecord]:
        """`records()`. A raw batch whose bytes cannot be decoded has none, and a log line says so."""
        try:
            return self.records()
        except (DecodeError, RecordTooLarge, ConfigError) as error:
            if self._own_codec < 0:
                raise
            not_handed_back(self._acc.client_id, self.topic, self.partition, self.count, error)
            return []

    def lost(self) -> list[ProducerRecord]:
        """Those of its records that failed, through splits."""
        return [record for part in self.leaves() if part.state == FAILED for record in part._handed_back()]

    def split(self) -> list[Batch]:  # type: ignore[override]
        """Two batches of half the records each, sealed, not compressed yet, with the records' old sequence numbers.

        ValueError for a single record.
        """
        half = (self.count + 1) // 2
        if self.count < 2:
            raise ValueError(f"{self!r} has one record and cannot be split")
        parts = first, second = self._divide([[(0, half)], [(half, self.count - half)]])
        if self.base_sequence >= 0:
            first.base_sequence, second.base_sequence = self.base_sequence, (self.base_sequence + half) & 0x7FFFFFFF
        return parts

    def set_apart(self, indexes: Iterable[int]) -> tuple[Batch | None, list[Batch]]:
        """(A batch of the records not at `indexes`, or None; for each of `indexes`, in order, a batch of that record.)

        All are sealed, have no sequence numbers, and are not compressed yet. ValueError for an index that is not of a record here, or is
        there twice.
        """
        apart = sorted(indexes)
        if not apart or apart[0] < 0 or apart[-1] >= self.count or len(set(apart)) < len(apart):
            raise ValueError(f"{self!r}: {apart!r} are not distinct indexes of its records")
        starts, ends = [0, *(index + 1 for index in apart)], [*apart, self.count]
        rest = [(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
        groups = [[(index, 1)] for index in apart]
        if not rest:
            return None, self._divide(groups)
        first, *others = self._divide([rest, *groups])
        return first, others

    def _divide(self, groups: list[list[tuple[int, int]]]) -> list[Batch]:
        """A batch for each of `groups`, which are runs of records (index, count) and together cover all records of this batch."""
        if self.state != SEALED:
            raise RuntimeError(f"{self!r} cannot become SPLIT: a batch has one outcome")
        raws = list(self._raws())
        batches: list[Batch] = []
        with self._acc._lock():
            for runs in groups:
                there, part = 0, self._part([raw for start, count in runs for raw in raws[start : start + count]])
                batches.append(part)
                for start, count in runs:
                    self._parts.append((start, there, part))
                    there += count
            self._parts.sort(key=itemgetter(0))
            self._move(SPLIT)
            for delivery, function in self._callbacks:
                delivery._home()._callbacks.append((delivery, function))
            for delivery, function in self._extras:
                delivery._home()._extras.append((delivery, function))
            self._callbacks, self._extras = [], []
            self._conclude()
        self._acc._nudge()
        return batches

    def _part(self, raws: list[RawRecord]) -> Batch:
        acc = self._acc
        part = Batch(acc, self._home, self.partition, self.created)
        acc._introduce(part)
        for r in raws:
            item = Item(r.key, r.value, r.headers, self._base_timestamp + r.timestamp_delta, self.partition)
            part._put(item, part._encoded(item), 0)
        if self._callbacks:
            part._hold(part.count * CALLBACK_COST)
        part.state, part._own_codec = SEALED, self._own_codec
        part.ready = self._home.stays_plain(part._raw) if self._own_codec < 0 else self._own_codec == 0
        part.attempts, part.last_error = self.attempts, self.last_error
        part.sent_at = self.sent_at
        return part

    def _take_bytes(self, data: bytes) -> None:
        """Be the batch in `data`, a whole one."""
        self[:] = data
        self._hold(len(data) - self._used)
        self._raw = self._used = len(data)
        (self.count,) = struct.unpack_from(">i", data, COUNT)
        self.codec = self._own_codec = int(struct.unpack_from(">h", data, ATTRIBUTES)[0]) & CODEC_BITS
        self._base_timestamp, self._max_timestamp = struct.unpack_from(">qq", data, BASE_TIMESTAMP)
        self._min_timestamp = min(self._base_timestamp, self._max_timestamp)
        self.state, self.ready = SEALED, True

    # ---- records

    def _is_reached(self, r: Item) -> bool:
        """Count `r`, which is now in here; whether the batch has as much as its topic allows."""
        policy = self._home.policy
        size = max(len(r.key or b"") + len(r.value or b""), 1)
        self._payload += size
        if policy.combined:
            self._acc._count_combined(self, size)
            return False
        return 0 < policy.batch_bytes <= self._payload or 0 < policy.batch_records <= self.count

    def _encoded(self, r: Item) -> bytes:
        return encode_record(r.timestamp - self._base_timestamp if self.count else 0, self.count, r.content)

    def _put(self, r: Item, encoded: bytes, more: int) -> None:
        """Write `r`, and reserve the memory for it and `more` bytes."""
        if self.count == 0:
            self._base_timestamp = self._min_timestamp = self._max_timestamp = r.timestamp
        self._min_timestamp = min(self._min_timestamp, r.timestamp)
        self._max_timestamp = max(self._max_timestamp, r.timestamp)
        self += encoded
        self._used += len(encoded)
        self._raw = self._used
        self._hold(len(encoded) + more)
        self.count += 1


def call_back(client_id: str, function: Callback, delivery: Any) -> None:
    try:
        step_aside()
        function(delivery)
    except BaseException:  # one failing callback must not keep the others from being called
        _log.exception("%s: the delivery callback %r for topic %s raised an exception", client_id, function, delivery.topic)
