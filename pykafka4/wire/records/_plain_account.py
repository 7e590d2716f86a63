"""Counts a producer's batches, reserved memory and dropped records, and finds room for records, in plain Python.

Invariant: the reserved memory and the numbers of records and batches change under one lock. The compiled counterparts are `_drop.pxi`,
parts of `_append.pxi` and `_park.pxi`, and, for combined batches, `LingerList` of `_policy.pxi`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import attrs

from pykafka4.errors import BufferFull, KafkaError, RecordTooLarge
from pykafka4.partitioners import Partitioner, Spread
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, exact_name, integer
from pykafka4.wire.records._plain_batch import FAILED, SEALED, Batch, Callback
from pykafka4.wire.records._plain_topic import Topic
from pykafka4.wire.records.common import drops_of, fresh

__all__ = ["Account", "Combined", "Section"]

MAX_INT: Final = 2**31 - 1


class Section:
    """The lock of the plain core, for `with section():`. With an RLock, a thread that already holds it is rejected.

    A destructor (run by the garbage collector) or a signal handler may call `send` in the middle of a change. If that call continued, it
    would see half a change; if it waited, it would deadlock. (In the compiled core changes are atomic.)

    `section()` returns the lock itself, whose `__enter__` is not Python code. In a Python method a KeyboardInterrupt could come after the
    lock was taken, but before the `with` block, which releases the lock; then every other thread would wait forever.
    """

    __slots__ = ("_lock", "_mine")

    def __init__(self, lock: AbstractContextManager[Any, bool | None]) -> None:
        self._lock = lock
        self._mine: Callable[[], bool] = getattr(lock, "_is_owned", bool)  # only an RLock knows the thread that holds it

    def __call__(self) -> AbstractContextManager[Any, bool | None]:
        """Raises BufferFull if this thread holds the lock."""
        if self._mine():
            raise BufferFull("a destructor or signal handler used the producer in the middle of another call; retry, or do it elsewhere")
        return self._lock


@attrs.define(eq=False)
class Dropped:
    """The records of one partition dropped for one reason; their handles share `batch`, which keeps no records."""

    batch: Batch
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0


@attrs.define(eq=False)
class Combined:
    """The totals of the lingering combined batches of all topics with the same linger and limits."""

    payload: int = 0
    records: int = 0
    reached: bool = False


class Account:
    """The accumulator's counters and memory limits."""

    client_id: str
    spare_bytes: Final = 0  # memory kept for later batches; only the compiled core has any
    _buffer_memory: int
    _max_partition_bytes: int
    _plan: Partitioner
    _make_room: Callable[[str, int, int, float], float]
    _drop_error: BaseException | None
    _call_dropped: Callable[[Callback, Any], object] | None
    _limits: str | None
    _wake: Callable[[], object]
    _flushing = False  # all open batches are due, whatever their linger

    def __init__(self, lock: AbstractContextManager[Any, bool | None]) -> None:
        self._lock = Section(lock)
        self._topics: dict[str, Topic] = {}
        self._live: set[Batch] = set()  # not settled yet
        self._opened: dict[Batch, None] = {}  # batches whose linger runs, oldest first
        self._combined: dict[tuple[float, int, int], Combined] = {}  # by linger, bytes and records
        self._sealed: list[Batch] = []
        self._reserved = 0
        self.refusal: KafkaError | None = None
        self.transactional = False  # batches get the transactional bit; this is set before the first batch is finished
        self.can_send = False
        self.defers = False  # the loop or a helper compresses batches that `designate` fills; until then they are sealed, not `ready`
        self.watch: Callable[[Batch], object] | None = None  # called with a batch of parked records that is about to fail
        self.waiters = 0
        # The partitions that threads wait for; None if a thread waits for memory.
        self.full_partitions: frozenset[tuple[str, int]] | None = None
        self.accepted = self.acked = self.failed = self.dropped = self.parked_records = self.batches = 0
        self._drops: dict[str, dict[str, dict[int, Dropped]]] = {}  # topic: reason: partition or -1
        self._fresh_drops: list[Dropped] = []  # the entries with records that `take_dropped` has not returned yet

    @property
    def reserved(self) -> int:
        """Bytes reserved for records, sent or not."""
        return self._reserved

    def _check_open(self) -> None:
        """Raise the refusal, if there is one. The code that sets it settles all earlier records, but would not see later ones."""
        if self.refusal is not None:
            raise self.refusal.again()

    # ---- batches

    def _reserve(self, topic: Topic, partition: int, size: int) -> None:
        self._reserved += size
        topic.held[partition] = topic.held.get(partition, 0) + size

    def _introduce(self, batch: Batch) -> None:
        batch._hold(batch._used)
        self.batches += 1
        self._live.add(batch)

    def _close(self, batch: Batch) -> None:
        topic = batch._home
        self._unlist(batch)
        topic.open.pop(batch.partition)
        batch.state, batch.ready = SEALED, topic.stays_plain(batch._used)
        if batch.partition == topic.sticky:
            topic.sticky_bytes += batch._used

    def _unlist(self, batch: Batch) -> None:
        """Remove `batch` from the lingering batches."""
        if batch in self._opened:
            del self._opened[batch]
            if batch._home.policy.combined:
                combined = self._combined_of(batch)
                combined.payload -= batch._payload
                combined.records -= batch.count

    def _combined_of(self, batch: Batch) -> Combined:
        policy = batch._home.policy
        return self._combined.setdefault((policy.linger, policy.batch_bytes, policy.batch_records), Combined())

    def _count_combined(self, batch: Batch, size: int) -> None:
        """Count a record of `size` bytes of key and value towards the limits of combined batches, while `batch` lingers."""
        if batch not in self._opened:
            return
        policy, combined = batch._home.policy, self._combined_of(batch)
        combined.payload += size
        combined.records += 1
        full = 0 < policy.batch_bytes <= combined.payload or 0 < policy.batch_records <= combined.records
        if full and not combined.reached:
            combined.reached = batch._news = True

    def _nudge(self) -> None:
        """Wake the loop, which wakes the threads that wait for room."""
        if self.waiters > 0:
            self._wake()

    # ---- room

    def _partition_of(self, topic: str, partition: int | None) -> int:
        if partition is None:
            return UNDECIDED
        return integer(topic, "partition", partition, 2**32 - 1 if self._plan.partition_argument else MAX_INT)

    def _check_size(self, t: Topic, r: Item) -> None:
        if r.alone > t.max_record and not r.forced:
            raise RecordTooLarge(
                f"{t.name}: a record of {r.alone} bytes (overhead included) exceeds {t.max_record_option}={t.max_record}; "
                "raise that or split the record"
            )

    def _partition_fits(self, t: Topic, partition: int, size: int) -> bool:
        """An empty partition always has room for one batch, however large."""
        held = t.held.get(partition, 0)
        return held == 0 or held + size <= self._max_partition_bytes

    def _fits(self, t: Topic, partition: int, size: int) -> bool:
        return self._reserved + size <= self._buffer_memory and self._partition_fits(t, partition, size)

    def _must_queue(self, t: Topic, r: Item) -> bool:
        """Whether waiting threads come before `r`: not if `r` has waited itself, or if all these threads wait for other partitions."""
        if self.waiters == 0 or r.asked:
            return False
        full = self.full_partitions  # read once: another thread may replace it
        return full is None or (t.name, r.decided) in full

    def _wait_for_room(self, t: Topic, r: Item, size: int) -> None:
        """Wait for room, without the lock: afterwards everything may have changed.

        With on_full=drop, set `overflows` of `r` instead; with on_full=raise, raise BufferFull instead.
        """
        if self._drop_error is not None:
            r.overflows = True
            self.hurry(size)
            return
        if self._limits is not None:
            self.hurry(size)
            raise BufferFull(self._limits, self._reserved, t.name, r.decided, size)
        r.deadline = self._make_room(t.name, r.decided, size, r.deadline)
        r.asked = True
        if r.turning:
            r.partition = UNDECIDED  # it is chosen again: another partition may have room

    def hurry(self, size: int) -> None:
        """Make open batches due if `buffer_memory` has no room for `size` more bytes."""
        if self._reserved + size > self._buffer_memory and not self._flushing:
            self._flushing = True
            if self.can_send:
                self._wake()

    def room(self, topic: str, partition: int, nbytes: int) -> bool:
        """Whether a record whose `send` called `make_room` with these arguments has room now. Takes no lock, as the caller may hold it."""
        return self._reserved + nbytes <= self._buffer_memory and not self.crowded(topic, partition, nbytes)

    def crowded(self, topic: str, partition: int, nbytes: int) -> bool:
        """Whether `max_partition_bytes` leaves no room for the record that `room` describes, however much memory is free."""
        t = self._topics.get(exact_name(topic))
        if t is None:
            return False
        if not t.direct:
            # Records that have moved to their partitions also count, until nothing is parked. Otherwise each moved record would make room
            # for another parked one, even while its partition is full: `designate` does not check for room.
            backlog = t.parked_bytes + t.moved_bytes
            return backlog > 0 and backlog + nbytes > self._max_partition_bytes
        slots = [partition] if partition >= 0 or self._plan.spread == Spread.LATE else t.available
        return not any(self._partition_fits(t, p, nbytes) for p in slots)

    # ---- dropped records

    def _drop(self, t: Topic, r: Item, code: str, cause: BaseException | None, callback: Callback | None, delivery: Any) -> None:
        """`r` counts as dropped even if `call_dropped` raises, because the callback may run nevertheless."""
        partition = r.decided if t.direct and 0 <= r.decided < t.count else UNDECIDED
        batch = self._count_dropped(t, partition, code, cause, 1, (r.timestamp, r.timestamp))
        delivery._place = batch, 0
        if callback is not None and self._call_dropped is not None:
            self._call_dropped(callback, delivery)  # last, as it may read the counters

    def _count_dropped(
        self, t: Topic, partition: int, code: str, cause: BaseException | None, records: int, times: tuple[int, int]
    ) -> Batch:
        """`times`: the lowest and highest timestamp. Returns the batch that has the outcome of the records."""
        known = drops_of(self._drops, t.name, code, self.client_id, cause)
        found: Dropped = known.get(partition) or known.setdefault(partition, Dropped(self._dropped_batch(t, partition, code, cause)))
        with self._lock():
            self._check_open()
            if not found.records:  # the first record since `take_dropped`
                self._fresh_drops.append(found)
                found.first_ms, found.last_ms = times
            found.first_ms, found.last_ms = min(found.first_ms, times[0]), max(found.last_ms, times[1])
            found.records += records
            self.dropped += records
        return found.batch

    def _dropped_batch(self, t: Topic, partition: int, code: str, cause: BaseException | None) -> Batch:
        batch = Batch(self, t, partition, 0.0)  # not introduced: the batch reserves no memory, and `unfinished` does not list it
        batch.state, batch._code, batch._cause, batch._settled, batch._dropped = FAILED, code, fresh(cause), True, True
        return batch

    def take_dropped(self) -> list[Any]:
        """The numbers of records dropped since the last call, as a flat list: see `dropped_rows`."""
        out: list[Any] = []
        with self._lock():
            taken, self._fresh_drops = self._fresh_drops, []
            for found in taken:
                batch = found.batch
                out += (batch.topic, batch.partition, batch._code, found.records, found.first_ms, found.last_ms)
                found.records = 0
        return out
