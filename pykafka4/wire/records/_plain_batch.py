"""Batches and handles, in plain Python. Rule: a batch has exactly one outcome, and its memory lives as long as anybody can still read it.

The counterpart of `_batch.pxi`.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import BufferFull, DeliveryFailed, ForkedClientError, KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.records import Headers, HeadersLike, ProducerRecord, RecordMetadata
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records.common import fresh, holds_pointers
from pykafka4.wire.records.compression import decompress, is_interruption
from pykafka4.wire.records.decoder import RawRecord, read_records
from pykafka4.wire.records.encoder import encode_content, encode_header, encode_record
from pykafka4.wire.records.layout import HEADER_SIZE

__all__ = [
    "ACKED",
    "FAILED",
    "OPEN",
    "PARKING",
    "SEALED",
    "SPLIT",
    "Account",
    "Batch",
    "Callbacks",
    "Delivery",
    "Hooks",
    "Item",
    "Parked",
    "Topic",
    "bytes_of",
    "exact_name",
    "header_pairs",
    "integer",
    "wall_ms",
]

OPEN, SEALED, ACKED, FAILED, SPLIT = range(5)
NAMES: Final = ("OPEN", "SEALED", "ACKED", "FAILED", "SPLIT")
FOLLOWS: Final = {OPEN: {SEALED, FAILED}, SEALED: {ACKED, FAILED, SPLIT}, ACKED: set(), FAILED: set(), SPLIT: set()}

PARKING: Final = -2  # the partition of a topic's placeholder batch for parked records
_log = get_log("pykafka4")

Callbacks: TypeAlias = Callable[[], None]


def exact_name(topic: object) -> str:
    """`topic` as a plain str: of a subclass its text, whatever its own methods say."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, not {type(topic).__name__}")
    return str.__str__(topic)


def bytes_of(topic: str, what: str, value: object) -> bytes | None:
    """`value` as bytes; TypeError naming topic and argument when it has none."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return str.encode(value)
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        view = None
    if view is None or not view.c_contiguous or holds_pointers(view.format):
        kind = type(value).__name__
        wanted = "bytes, str, a C-contiguous buffer without pointers, or None"
        raise TypeError(f"{topic}: {what} must be {wanted}, not {kind}; serialize it first")
    return bytes(view)


def header_pairs(topic: str, headers: HeadersLike | None) -> Headers:
    """`headers` as (str, bytes or None) tuples; TypeError names what is none."""
    if headers is None:
        return ()
    pairs: Any = headers.items() if hasattr(headers, "items") else headers
    if isinstance(pairs, (str, bytes)) or not hasattr(pairs, "__iter__"):
        raise TypeError(f"{topic}: headers must be (name, value) pairs or a mapping, not {type(headers).__name__}")
    return tuple(_pair(topic, pair) for pair in pairs)


def _pair(topic: str, pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"{topic}: a header must be a (name, value) pair, not {pair!r}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"{topic}: the name of a header must be str, not {name!r}")
    return exact_name(name), bytes_of(topic, f"the value of header {name!r}", value)


def integer(topic: str, what: str, value: object, most: int) -> int:
    """`value` as an integer from 0 to `most`."""
    if not isinstance(value, int):
        raise TypeError(f"{topic}: {what} must be an int or None, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise ValueError(f"{topic}: {what}={value} must be from 0 to {most}")
    return int(value)


def wall_ms() -> int:
    """The wall clock in milliseconds."""
    return int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)


@attrs.define(eq=False)
class Item:
    """A record on its way into a batch."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    partition: int
    forced: bool = False  # room is taken whatever the bounds say: its bytes are accounted for already
    asked: bool = False  # it has waited for room: those still waiting came later
    free: bool = False  # any partition will do
    sent_at: float = 0.0  # when `send` took it; set where it is forced
    deadline: float = float("inf")  # when its waiting for room ends; infinity before it has waited
    content: bytes = b""  # key, value and headers, encoded

    def __attrs_post_init__(self) -> None:
        self.content = encode_content(self.key, self.value, self.headers)

    @property
    def alone(self) -> int:
        """Bytes of a batch that holds nothing else."""
        return HEADER_SIZE + len(encode_record(0, 0, self.content))


@attrs.frozen(eq=False)
class Hooks:
    """What handles need of their producer."""

    wait: Callable[[Callable[[], bool], float | None], bool]
    submit: Callable[[Callbacks], object]
    awaiting: Callable[[Delivery], Generator[Any, Any, RecordMetadata]] | None
    failure_seen: Callable[[int], object] | None


@attrs.define(eq=False)
class Parked:
    """A record whose topic's partitions are not known yet."""

    item: Item
    delivery: Delivery
    callback: Callable[[Delivery], object] | None
    created: float
    size: int
    extras: list[tuple[Delivery, Callable[[Delivery], object]]] = attrs.Factory(list)


@attrs.define(eq=False)
class Topic:
    """What the accumulator knows about a topic."""

    name: str
    count: int = 0  # partitions; 0 while unknown
    direct: bool = False  # partitions are known and nothing is parked: records go straight into batches
    announced: bool = False  # the loop knows that records wait here
    dropped: bool = False  # no longer among the accumulator's topics: a send that found it before looks again
    open: dict[int, Batch] = attrs.Factory(dict)  # by partition
    held: dict[int, int] = attrs.Factory(dict)  # bytes reserved, by partition
    brisk: set[int] = attrs.Factory(set)  # partitions whose last batch was full: the next one starts large
    available: list[int] = attrs.Factory(list)  # partitions with a leader
    cursor: int = 0
    sticky: int = 0  # where records without key and partition go for now
    stuck: int = 0  # bytes that went there
    parked: deque[Parked] = attrs.Factory(deque)
    parked_first: int = 0  # running number of its head
    parked_bytes: int = 0
    limbo: Batch | None = None  # what handles of parked records point to

    def rotate(self) -> None:
        """The next available partition becomes the sticky one."""
        self.cursor = (self.cursor + 1) % len(self.available)
        self.sticky = self.available[self.cursor]
        self.stuck = 0

    def parked_at(self, number: int) -> Parked:
        """The parked record with that running number."""
        return self.parked[number - self.parked_first]


class Section:
    """The lock of the plain core, for `with section():`; a thread that comes back before it has left is refused. It has to be an RLock.

    The collector may run a destructor that sends, and a signal handler may send, in the middle of a change. Going on would meet half a
    change, waiting would wait for ever. (The compiled core has no such middle.)

    What the `with` enters is the lock itself, which is not Python code. Were it a method of this class, a KeyboardInterrupt at the method's
    end would come after the lock was taken and before the `with` block that releases it, and every other thread would wait for ever.
    """

    __slots__ = ("_lock", "_mine")

    def __init__(self, lock: AbstractContextManager[Any, bool | None]) -> None:
        self._lock = lock
        self._mine: Callable[[], bool] = getattr(lock, "_is_owned", bool)  # of threading.RLock; no other lock knows its thread

    def __call__(self) -> AbstractContextManager[Any, bool | None]:
        """The lock; BufferFull when this thread holds it."""
        if self._mine():
            raise BufferFull("sent by a destructor or signal handler in the middle of another send; send it from elsewhere, or again")
        return self._lock


class Account:
    """What batches book on: counters and reserved memory, under one lock."""

    def __init__(
        self,
        lock: AbstractContextManager[Any, bool | None],
        hooks: Hooks,
        codec: int,
        compress: Callable[[int, Buffer], bytes] | None,
        wake: Callable[[], object],
    ) -> None:
        self._lock, self._hooks, self._waker = Section(lock), hooks, wake
        self._codec, self._compress = codec, compress
        self._opened: dict[Batch, None] = {}  # open batches whose linger runs, by age
        self._live: set[Batch] = set()  # not settled yet
        self._zombies: list[Batch] = []  # done, but somebody still reads their bytes
        self._reserved = 0
        self.refusal: KafkaError | None = None
        self.hungry = False
        self.waiters = 0
        self.accepted = self.acked = self.failed = self.parked_records = self.batches = 0

    @property
    def spare_bytes(self) -> int:
        """Memory kept for later batches; the compiled core has some."""
        return 0

    @property
    def reserved(self) -> int:
        """Bytes reserved for records, sent or not."""
        with self._lock():
            self._sweep()
            return self._reserved

    def _sweep(self) -> None:
        """Release what the last reader has let go of since. Needs the lock."""
        if self._zombies:
            self._zombies = [batch for batch in self._zombies if not batch._let_go()]

    def _reserve(self, topic: Topic, partition: int, size: int) -> None:
        self._reserved += size
        topic.held[partition] = topic.held.get(partition, 0) + size

    def _introduce(self, batch: Batch, cap: int) -> None:
        batch._resize(cap)
        self.batches += 1
        self._live.add(batch)

    def _detach(self, batch: Batch) -> None:
        """`batch` takes no more records."""
        topic = batch._home
        self._opened.pop(batch, None)
        topic.open.pop(batch.partition)
        batch.ready = self._codec == 0
        if batch.partition == topic.sticky:
            topic.stuck += batch._used

    def _wake(self) -> None:
        try:
            self._waker()
        except BaseException:  # of a signal handler, perhaps before the loop was woken
            self._waker()
            raise

    def _nudge(self) -> None:
        """Bytes came free: the loop tells those who wait for them."""
        if self.waiters > 0:
            try:
                self._wake()
            except Exception:
                _log.exception("waking the loop failed")


class Batch(bytearray):
    """A record batch (format v2): filled by the application's threads, sent by the loop, then an outcome for its handles.

    It *is* its bytes: a bytearray cannot be resized, and so not be emptied, while somebody holds a buffer of it. Memory that a
    transport still reads is thus never used again; the accumulator looks later whether it has been let go.
    """

    partition: int  # type: ignore[assignment]  # bytearray has methods of these two names
    count: int  # type: ignore[assignment]

    def __init__(self, acc: Account, home: Topic, partition: int, created: float) -> None:
        super().__init__(HEADER_SIZE)
        self._acc, self._home = acc, home
        self.topic, self.partition, self.created = home.name, partition, created
        self.count, self.state = 0, OPEN
        self.ready, self._settled = False, False
        self._stamped, self._compressing = False, False
        self._cap = self._owed = 0
        self._raw, self._used, self._codec = HEADER_SIZE, HEADER_SIZE, 0
        self._base_timestamp = self._max_timestamp = -1
        self._callbacks: list[tuple[Delivery, Callable[[Delivery], object]]] = []  # of send
        self._extras: list[tuple[Delivery, Callable[[Delivery], object]]] = []  # of add_done_callback
        self._base_offset = self._append_time = -1
        self._code, self._outcome_written = "", Written.NO
        self._cause: BaseException | None = None
        self._failed_before = 0  # records of the producer that failed before this batch did
        self._kept: bytes | list[ProducerRecord] | None = None
        self._looked_at: set[int] = set()  # failed records whose failure the application asked for
        self._parts: list[tuple[int, int, Batch]] = []  # runs of records: (first index here, first index there, batch)
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.attempts = 0
        self.written = self.in_flight = False
        self.sent_at = created  # when `send` took its first record: before `created` if that was parked
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
        """Bytes as it will be sent, header included."""
        return self._used

    @property
    def done(self) -> bool:
        """Whether every record has its outcome."""
        return all(part.state >= ACKED for part in self._leaves())

    @property
    def settled(self) -> bool:
        """Whether it is done and its callbacks have returned."""
        return all(part._settled for part in self._leaves())

    def _leaves(self) -> Iterator[Batch]:
        """Where its records are now, in order. Without recursion: a batch can be taken apart as often as it has records."""
        left = [self]
        while left:
            batch = left.pop()
            if batch.state == SPLIT:
                left += [part for _, there, part in reversed(batch._parts) if there == 0]
            else:
                yield batch

    # ---- memory

    def _resize(self, cap: int) -> None:
        self._acc._reserve(self._home, self.partition, cap - self._cap)
        self._cap = cap

    def _let_go(self) -> bool:
        """Empty it, unless somebody still reads its bytes; returns whether that was so."""
        try:
            self.clear()
        except BufferError:
            return False
        cap, self._cap = self._cap, 0
        if self._settled:
            self._acc._reserve(self._home, self.partition, -cap)
        else:
            self._owed += cap
        return True

    def _settle(self) -> None:
        """The callbacks have returned (or there were none)."""
        if not self._settled:
            self._settled = True
            self._acc._live.discard(self)
            self._acc.batches -= 1
            self._acc._reserve(self._home, self.partition, -self._owed)
            self._owed = 0

    # ---- to the broker

    def compress(self) -> None:
        """Compress the records if the producer has a codec for that, and the result is smaller; then it is `ready`.

        Called by the thread that filled the batch, or by the loop or a helper for one that lingered. Calling again does nothing.
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
        except BaseException as error:  # sent as it is: whatever happened, the partition goes on
            if is_interruption(error):
                interruption = error
            else:
                _log.exception("%s-%s: compressing a batch failed; it is sent as it is", self.topic, self.partition)
        finally:  # also when there is no memory for the log line, or a second Ctrl-C comes
            self._compressing = False
            self.ready = True
            if acc.hungry:
                acc._wake()
        acc._nudge()
        if interruption is not None:
            raise interruption

    def _squeeze(self) -> None:
        acc = self._acc
        assert acc._compress is not None
        data = acc._compress(acc._codec, bytes(self[HEADER_SIZE:]))
        with acc._lock():
            if self.state == SEALED and len(data) < self._raw - HEADER_SIZE:
                self[HEADER_SIZE:] = data
                self._codec, self._used = acc._codec, HEADER_SIZE + len(data)
                self._resize(self._used)

    def finish(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Write header and checksum. Call it again only to change the values, and when no request with it is under way."""
        if self.state != SEALED or not self.ready:
            raise RuntimeError(f"{self!r} is not ready to be sent")
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self[:HEADER_SIZE] = encode_header(
            memoryview(self)[HEADER_SIZE:],
            attributes=self._codec,
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
            self._acc._detach(self)
        self.state = state

    def _conclude(self) -> Callbacks | None:
        """Release what the outcome makes superfluous; returns what runs the callbacks, if there are any."""
        acc = self._acc
        rows, self._callbacks, self._extras = self._callbacks + self._extras, [], []
        if not rows:
            self._settle()
        if not self._let_go():
            acc._zombies.append(self)
        return (lambda: self._run(rows)) if rows else None

    def _run(self, rows: list[tuple[Delivery, Callable[[Delivery], object]]]) -> None:
        """Run the callbacks, once; the batch keeps its reservation of memory until they have returned."""
        if not rows:
            return
        for delivery, function in rows:
            _call_back(function, delivery)
            if isinstance(self._acc.refusal, ForkedClientError):  # the callback forked: those that follow run in the parent alone
                return
        rows.clear()
        with self._acc._lock():
            self._settle()
        self._acc._wake()

    def complete(self, base_offset: int, log_append_time_ms: int) -> Callbacks | None:
        """The broker has it: the first record's offset (-1: not told) and the broker's time (-1: the records' own count).

        A broker that had the batch already answers with its highest timestamp, also where the records' own times count.
        Returns None, or a callable that runs the callbacks.
        """
        with self._acc._lock():
            self._move(ACKED)
            self._base_offset = base_offset
            self._append_time = -1 if self.attempts > 1 and log_append_time_ms == self._max_timestamp else log_append_time_ms
            self._acc.acked += self.count
            callbacks = self._conclude()
        self._acc._nudge()
        return callbacks

    def fail(self, code: str, written: Written, cause: BaseException | None = None) -> Callbacks | None:
        """It will not be delivered; the records are kept to be handed back. Returns None, or a callable that runs the callbacks."""
        with self._acc._lock():
            kept = bytes(self[HEADER_SIZE:]) if self.state in (OPEN, SEALED) else None
            self._move(FAILED)
            self._kept, self._code, self._outcome_written, self._cause = kept, code, written, fresh(cause)
            self._failed_before = self._acc.failed
            self._acc.failed += self.count
            callbacks = self._conclude()
        self._acc._nudge()
        return callbacks

    def _raws(self) -> Iterator[RawRecord]:
        if self.state not in (OPEN, SEALED, FAILED) or isinstance(self._kept, list):
            raise RuntimeError(f"{self!r} has no records any more")
        data = self._kept if self._kept is not None else bytes(self[HEADER_SIZE:])
        return read_records(memoryview(decompress(self._codec, data, self._raw) if self._codec else data), self.count)

    def records(self) -> list[ProducerRecord]:
        """Its records, as they were handed to `send`; RuntimeError after they were acknowledged or split."""
        if isinstance(self._kept, list):
            return list(self._kept)
        maybe = Written.MAYBE if self.written else Written.NO
        written = self._outcome_written if self.state == FAILED else maybe
        return [
            ProducerRecord(self.topic, r.value, r.key, r.headers, self.partition, self._base_timestamp + r.timestamp_delta, written)
            for r in self._raws()
        ]

    def _record(self, index: int) -> ProducerRecord:
        """One of `records()` of a failed batch: read once, so that asking for each of them is not quadratic."""
        if not isinstance(self._kept, list):
            self._kept = self.records()
        return self._kept[index]

    def lost(self) -> list[ProducerRecord]:
        """Those of its records that failed, through splits."""
        return [record for part in self._leaves() if part.state == FAILED for record in part.records()]

    def split(self) -> list[Batch]:  # type: ignore[override]
        """Two batches of half the records each, sealed, not compressed yet, with the sequence numbers the records had.

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
            raise ValueError(f"{self!r}: {apart!r} are no distinct indexes of its records")
        starts, ends = [0, *(index + 1 for index in apart)], [*apart, self.count]
        rest = [(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
        groups = [[(index, 1)] for index in apart]
        if not rest:
            return None, self._divide(groups)
        first, *others = self._divide([rest, *groups])
        return first, others

    def _divide(self, groups: list[list[tuple[int, int]]]) -> list[Batch]:
        """For each of `groups`, runs of records (index, how many) that together are all records of this batch, a batch of these."""
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
        acc._introduce(part, 0)
        for r in raws:
            item = Item(r.key, r.value, r.headers, self._base_timestamp + r.timestamp_delta, self.partition)
            part._put(item, part._encoded(item))
        part._resize(part._used)
        part.state, part.ready = SEALED, acc._codec == 0
        part.attempts, part.last_error = self.attempts, self.last_error
        part.sent_at = self.sent_at
        return part

    # ---- records

    def _encoded(self, r: Item) -> bytes:
        return encode_record(r.timestamp - self._base_timestamp if self.count else 0, self.count, r.content)

    def _put(self, r: Item, encoded: bytes) -> None:
        if self.count == 0:
            self._base_timestamp = self._max_timestamp = r.timestamp
        self._max_timestamp = max(self._max_timestamp, r.timestamp)
        self += encoded
        self._used += len(encoded)
        self._raw = self._used
        self.count += 1


def _call_back(function: Callable[[Delivery], object], delivery: Delivery) -> None:
    try:
        function(delivery)
    except BaseException:  # one bad callback must not keep the others from being called
        _log.exception("the callback %r of a delivery to %s raised", function, delivery.topic)


class Delivery:
    """What `send` returns: the promise of one record's outcome. Keeping it keeps no batch memory."""

    __slots__ = ("_place", "_sizes", "timestamp_ms")

    def __init__(self, r: Item) -> None:
        self._place: tuple[Batch, int]  # its batch and its index there: replaced in one step, as several threads may look at once
        self.timestamp_ms = r.timestamp
        self._sizes = tuple(-1 if data is None else len(data) for data in (r.key, r.value))

    def _found(self) -> tuple[Batch, int]:
        """The batch it belongs to, through splits, and its index there."""
        batch, index = place = self._place
        while batch.state == SPLIT:
            start, there, batch = next(run for run in reversed(batch._parts) if index >= run[0])
            index += there - start
            self._place = place = batch, index
        return place

    def _home(self) -> Batch:
        return self._found()[0]

    @property
    def topic(self) -> str:
        """The topic it goes to."""
        return self._place[0].topic

    @property
    def partition(self) -> int | None:
        """The partition it goes to; None while none was chosen."""
        partition = self._home().partition
        return partition if partition >= 0 else None

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._home().state >= ACKED

    @property
    def settled(self) -> bool:
        """Whether the outcome is there and its batch's callbacks have returned."""
        return self._home()._settled

    def _await_outcome(self, timeout: float | None) -> tuple[Batch, int]:
        if not self.done() and not self._place[0]._acc._hooks.wait(self.done, timeout):
            where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
            raise KafkaTimeoutError(f"{where}: not acknowledged within {timeout:g} s; still being sent; status() of the producer says why")
        return self._found()

    def _failure(self, b: Batch, index: int) -> DeliveryFailed:
        if index not in b._looked_at:
            b._looked_at.add(index)
            if b._acc._hooks.failure_seen is not None:
                b._acc._hooks.failure_seen(b._failed_before)
        return DeliveryFailed(b.topic, self.partition, b._code, b._outcome_written, b._record(index), fresh(b._cause))

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record lies (`RecordMetadata`), once it is acknowledged.

        `timeout` in seconds, None for no limit. Raises KafkaTimeoutError when the time is over, DeliveryFailed when it failed.
        """
        b, index = self._await_outcome(timeout)
        if b.state == FAILED:
            raise self._failure(b, index)
        offset = b._base_offset + index if b._base_offset >= 0 else -1
        return RecordMetadata(b.topic, b.partition, offset, b._append_time if b._append_time >= 0 else self.timestamp_ms, *self._sizes)

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        """The DeliveryFailed of a record that failed, None for one that was acknowledged; waits like `result`."""
        b, index = self._await_outcome(timeout)
        return self._failure(b, index) if b.state == FAILED else None

    def lost(self) -> list[ProducerRecord]:
        """Its record, if that failed. Does not count as looking at the failure."""
        b, index = self._found()
        return [b._record(index)] if b.state == FAILED else []

    def add_done_callback(self, fn: Callable[[Delivery], object]) -> None:
        """Have `fn(delivery)` called on the callback executor, once, when the outcome is there (at once if it is)."""
        if not callable(fn):
            raise TypeError(f"{self.topic}: a callback must be callable, not {type(fn).__name__}")
        acc = self._place[0]._acc
        if isinstance(acc.refusal, ForkedClientError):  # nobody here brings the outcome, and the lock may be held by who is not here
            raise acc.refusal.again()
        with acc._lock():
            b, index = self._found()
            pending = b.state < ACKED
            if pending:
                rows = b._extras if b.partition != PARKING else b._home.parked_at(index).extras
                rows.append((self, fn))
        if not pending:
            acc._hooks.submit(lambda: _call_back(fn, self))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle 'Delivery' object")

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        awaiting = self._place[0]._acc._hooks.awaiting
        assert awaiting is not None
        return awaiting(self)

    def __repr__(self) -> str:
        b = self._home()
        if b.partition == PARKING:
            return f"<Delivery {b.topic} waiting for a partition>"
        return f"<Delivery {b.topic}-{b.partition} {NAMES[b.state]}>" if b.partition >= 0 else f"<Delivery {b.topic} {NAMES[b.state]}>"
