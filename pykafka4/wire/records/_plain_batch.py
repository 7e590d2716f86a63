"""Holds the records of one batch and their outcome, in plain Python. The compiled counterparts are `_batch.pxi` and
parts of `_delivery.pxi`, `_policy.pxi`, `_raw_batch.pxi` and `_write.pxi`.

Invariant: a batch has at most one outcome, and its bytes live as long as a socket may still read them.
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
from pykafka4.wire.records.encoder import encode_header, encode_record, varint
from pykafka4.wire.records.layout import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    CODEC_BITS,
    COUNT,
    HEADER_SIZE,
    MOST_DECOMPRESSED_BYTES,
    TRANSACTIONAL_BIT,
)

__all__ = ["ACKED", "CALLBACK_COST", "FAILED", "NAMES", "OPEN", "SEALED", "SPLIT", "Batch", "Callback", "Callbacks", "call_back"]

Callback: TypeAlias = Callable[[Any], object]  # from `send` or `add_done_callback`; it is called with the `Delivery`
Callbacks: TypeAlias = Callable[[], None]
OPEN, SEALED, ACKED, FAILED, SPLIT = range(5)
CALLBACK_COST: Final = 24  # bytes reserved for the callback of a record
NAMES: Final = ("OPEN", "SEALED", "ACKED", "FAILED", "SPLIT")
MEANINGS: Final = {  # docs/states.md shows them
    OPEN: "accepts records",
    SEALED: "accepts no more records; waits in its queue or is in flight",
    ACKED: "acknowledged, or, with acks=0, sent",
    FAILED: "failed for good, as `not written` or `maybe written`",
    SPLIT: "replaced by other batches with its records",
}
FOLLOWS: Final = {OPEN: {SEALED, FAILED}, SEALED: {ACKED, FAILED, SPLIT}, ACKED: set(), FAILED: set(), SPLIT: set()}

_log = get_log("pykafka4")


class Batch(bytearray):
    """A record batch (format v2). The accumulator fills it, the loop sends it, then it has the outcome for its handles.

    A batch is a bytearray, which cannot be resized or emptied while a socket still reads a buffer of it. If its memory were reused after a
    delivery timeout, the request that is being written would send other records.
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
        self._dropped = False  # its records were dropped by a policy, and are not kept
        self._held = 0  # bytes reserved
        self._raw, self._used, self.codec = HEADER_SIZE, HEADER_SIZE, 0
        self._own_codec = -1  # the codec of a raw batch and of its parts; -1: the topic's codec
        self._news = False  # its last record made the combined batches reach a limit
        self._payload = 0  # bytes of keys and values, at least 1 per record; counted if the topic limits its batches
        self._base_timestamp = self._min_timestamp = self._max_timestamp = -1  # the first, lowest and highest; a raw batch: by its header
        self._callbacks: list[tuple[Any, Callback]] = []  # from `send`
        self._extras: list[tuple[Any, Callback]] = []  # from `add_done_callback`
        self._base_offset = self._append_time = -1
        self._code, self._outcome_written = "", Written.NO
        self._cause: BaseException | None = None
        self._failed_before = 0  # records of the producer that had failed before this batch
        self._kept: bytes | list[ProducerRecord] | None = None
        self._seen_failures: set[int] = set()  # failed records whose failure the application has seen
        self._parts: list[tuple[int, int, Batch]] = []  # runs of records: (first index here, first index in the part, part)
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.attempts = 0
        self.failed_attempts = 0  # error responses to requests with this batch, except errors that an earlier batch caused
        self.written = self.in_flight = False
        self.sent_at = created  # the batch's age counts from this time, which is before `created` if its first record was parked
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
        """Bytes as sent, header included."""
        return self._used

    @property
    def raw_size(self) -> int:
        """Bytes before `compress`, header included; final once the batch is sealed."""
        return self._raw

    @property
    def wanted_codec(self) -> int:
        """The codec of its bytes, or the codec that they get if compression makes them small enough."""
        return self._home.policy.codec if self._own_codec < 0 else self._own_codec

    @property
    def times(self) -> tuple[int, int]:
        return self._min_timestamp, self._max_timestamp

    @property
    def done(self) -> bool:
        return all(part.state >= ACKED for part in self.leaves())

    @property
    def maybe_repeated(self) -> bool:
        """Whether an earlier attempt may also have written the batch: without a producer id brokers find no duplicates."""
        return self.written and self.producer_id < 0

    @property
    def settled(self) -> bool:
        """Whether the batch is `done` and its callbacks have returned."""
        return all(part._settled for part in self.leaves())

    def leaves(self) -> list[Batch]:
        """The batches that now have its records, in the order of their first records: the results of splits, or the batch itself."""
        left, found = [self], []
        while left:  # no recursion: splits can nest as deep as the batch has records
            batch = left.pop()
            if batch.state == SPLIT:
                left += [part for _, there, part in reversed(batch._parts) if there == 0]
            else:
                found.append(batch)
        return found

    # ---- memory

    def _hold(self, size: int) -> None:
        self._held += size
        self._acc._reserve(self._home, self.partition, size)

    def _settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._acc._live.discard(self)
            self._acc.batches -= 1
            self._hold(-self._held)

    @property
    def outcome(self) -> tuple[int, int, str | None, Written | None, BaseException | None]:
        """After the outcome: (first record's offset or -1, append time or -1, error code or None, `Written` or None, cause or None)."""
        if self.state == FAILED:
            return -1, -1, self._code, self._outcome_written, self._cause
        return self._base_offset, self._append_time, None, None, None

    def handle(self) -> Any:
        """A handle of its first record."""
        return self._acc._new_handle(self)

    # ---- to the broker

    def compress(self) -> None:
        """Compress the records with `wanted_codec`, and keep the result if it is small enough; then the batch is `ready`.

        Any thread may call this: usually the thread that filled the batch, or, after the linger, the loop or a helper. A second call, or a
        call after the outcome, does nothing. Raises RuntimeError for an open batch.
        """
        acc = self._acc
        if self.state == OPEN:
            raise RuntimeError(f"{self!r} must be sealed before it is compressed")
        with acc._lock():
            if self.ready or self._compressing or self.state != SEALED:
                return
            self._compressing = True  # other threads check this: a second compression would compress the result of the first
        interruption = None
        try:
            self._squeeze()
        except BaseException as error:  # the batch is sent uncompressed: whatever happened, its partition continues
            if is_interruption(error):
                interruption = error
            else:
                _log.exception("%s: %s-%s: compressing a batch failed; it is sent uncompressed", acc.client_id, self.topic, self.partition)
        finally:  # runs even without memory for the log line, or on a second Ctrl-C: a batch that is never `ready` would block its queue
            self.ready = True
            self._compressing = False  # after `ready`: between the two lines another thread would compress the result
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
            # A batch that failed meanwhile no longer has bytes.
            if self.state == SEALED and len(data) < before and len(data) <= policy.compression_max_ratio * before:
                self[HEADER_SIZE:] = data
                self.codec, self._used = codec, HEADER_SIZE + len(data)
                self._hold(len(data) - before)

    def finish(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Write header and checksum. A second call is allowed while no request with the batch is in flight.

        Raises RuntimeError unless the batch is sealed and `ready`.
        """
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
            raise RuntimeError(f"{self!r} cannot become {NAMES[state]}")
        if self.state == OPEN:
            self._acc._close(self)
        self.state = state

    def _conclude(self) -> list[tuple[Any, Callback]]:
        """Release the bytes; return the callbacks."""
        rows, self._callbacks, self._extras = self._callbacks + self._extras, [], []
        with suppress(BufferError):  # a socket still reads the bytes, which live as long as its buffer
            self.clear()
        if not rows:
            self._settle()
        return rows

    def _left_to_call(self, rows: list[tuple[Any, Callback]]) -> Callbacks | None:
        """Wake the tasks that await records; return None, or a callable that runs the callbacks."""
        self._acc._nudge()
        others = wake_tasks(rows, self._acc.client_id)
        if rows and not others:
            with self._acc._lock():
                self._settle()
            self._acc._nudge()
        return (lambda: self._run(others)) if others else None

    def _run(self, rows: list[tuple[Any, Callback]]) -> None:
        """Run the callbacks, once; until they have returned, the memory stays reserved."""
        if not rows:
            return
        for delivery, function in rows:
            call_back(self._acc.client_id, function, delivery)
            if isinstance(self._acc.refusal, ForkedClientError):  # the callback forked: the remaining ones run only in the parent
                return
        rows.clear()  # a second call of the same callable runs nothing
        with self._acc._lock():
            self._settle()
        self._acc._nudge()

    def complete(self, base_offset: int, log_append_time_ms: int) -> Callbacks | None:
        """Acknowledge the batch, with its first record's offset (-1: unknown) and the broker's append time (-1: none).

        A broker that already has the batch answers a repeated request with the batch's highest timestamp, even if the topic has
        CREATE_TIME: that is no append time. Returns None, or a callable that runs the callbacks.
        """
        with self._acc._lock():
            self._move(ACKED)
            self._base_offset = base_offset
            self._append_time = -1 if self.attempts > 1 and log_append_time_ms == self._max_timestamp else log_append_time_ms
            self._acc.acked += self.count
            rows = self._conclude()
        return self._left_to_call(rows)

    def fail(self, code: str, written: Written, cause: BaseException | None = None) -> Callbacks | None:
        """Fail the batch, but keep its records, to hand them back. Returns None, or a callable that runs the callbacks."""
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
        most = self._raw if self._own_codec < 0 else MOST_DECOMPRESSED_BYTES
        return read_records(memoryview(decompress(self.codec, data, most) if self.codec else data), self.count)

    def records(self) -> list[ProducerRecord]:
        """Raises RuntimeError after the batch has been acknowledged or split, and for a raw batch also the errors of decoding."""
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
        """The record at `index` of a failed batch; None if its records cannot be decoded.

        The first call decodes all records, because decoding for each call would take quadratic time.
        """
        if not isinstance(self._kept, list):
            self._kept = self._handed_back()
        return self._kept[index] if index < len(self._kept) else None

    def _handed_back(self) -> list[ProducerRecord]:
        """Its records; none, with a log line, for a raw batch that cannot be decoded."""
        try:
            return self.records()
        except (DecodeError, RecordTooLarge, ConfigError) as error:
            if self._own_codec < 0:
                raise
            not_handed_back(self._acc.client_id, self.topic, self.partition, self.count, error)
            return []

    def lost(self) -> list[ProducerRecord]:
        return [record for part in self.leaves() if part.state == FAILED for record in part._handed_back()]

    def split(self) -> list[Batch]:  # type: ignore[override]
        """Replace the batch with two sealed batches, not compressed yet, each with half of the records and their old sequence numbers.

        Raises ValueError for a single record, RuntimeError for a batch that is not sealed.
        """
        half = (self.count + 1) // 2
        if self.count < 2:
            raise ValueError(f"{self!r} has one record and cannot be split")
        parts = first, second = self._divide([[(0, half)], [(half, self.count - half)]])
        if self.base_sequence >= 0:
            first.base_sequence, second.base_sequence = self.base_sequence, (self.base_sequence + half) & 0x7FFFFFFF
        return parts

    def set_apart(self, indexes: Iterable[int]) -> tuple[Batch | None, list[Batch]]:
        """Move each record at `indexes` into a separate batch; return (a batch of the other records, or None; the batches of one
        record, in ascending order of index).

        The new batches are sealed, have no sequence numbers, and are not compressed yet. Raises ValueError if
        `indexes` is empty, or has invalid or repeated indexes; RuntimeError for a batch that is not sealed.
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
        """Make a batch for each of `groups`. A group is a list of runs of records (index, count); together the groups cover all records."""
        if self.state != SEALED:
            raise RuntimeError(f"{self!r} cannot become SPLIT")
        raws = list(self._raws())  # before anything changes: damaged records of a raw batch raise an error
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
            item = Item(r.key, r.value, (), self._base_timestamp + r.timestamp_delta, self.partition)
            # Headers are copied as they are: names in a raw batch need not be valid UTF-8, and `r.headers` would replace their bytes.
            item.content = item.content[:-1] + varint(r.header_count) + r.encoded_headers
            part._put(item, part._encoded(item), 0)
        if self._callbacks:  # the part takes over the callbacks, so it also reserves their memory
            part._hold(part.count * CALLBACK_COST)
        part.state, part._own_codec = SEALED, self._own_codec
        part.ready = self._home.stays_plain(part._raw) if self._own_codec < 0 else self._own_codec == 0
        part.attempts, part.last_error = self.attempts, self.last_error
        part.sent_at = self.sent_at
        return part

    def _take_bytes(self, data: bytes) -> None:
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
        """Count `r`, which was just written; return whether the batch has reached a limit of its topic.

        Combined batches have a common count instead.
        """
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
