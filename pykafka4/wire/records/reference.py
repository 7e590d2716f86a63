"""The plain-Python core. Rule: it defines what the compiled core does, and replaces it if there is no compiler.

Same names, same results, same exception types. Where the compiled core relies on the GIL, this one takes `lock`, a context manager passed
by the caller, and never holds it while code of others runs (except `clock`). Capacities are counted as the compiled core reserves them,
although a bytearray grows differently, so that both reject the same record at the same moment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from pykafka4.error_table import Written
from pykafka4.errors import RecordTooLarge, short_name
from pykafka4.gil.flag import give_way
from pykafka4.records import HeadersLike, ProducerRecord, RecordMetadata
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_account import Account, Callbacks, Hooks
from pykafka4.wire.records._plain_arguments import Item, bytes_of, exact_name, header_pairs, integer, wall_ms
from pykafka4.wire.records._plain_batch import ACKED, FAILED, OPEN, SEALED, SPLIT, Batch
from pykafka4.wire.records._plain_decode import Chunk, Record, RecordIterator
from pykafka4.wire.records._plain_delivery import Delivery
from pykafka4.wire.records._plain_topic import PARKING, Callback, Handle, Parked, Topic, murmur2
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.common import fresh
from pykafka4.wire.records.layout import HEADER_SIZE, LEAST_RECORD

__all__ = [
    "ACKED",
    "FAILED",
    "OPEN",
    "SEALED",
    "SPLIT",
    "Accumulator",
    "Batch",
    "Chunk",
    "Delivery",
    "Record",
    "RecordIterator",
    "crc32c",
    "murmur2",
]

SMALL: Final = 2048  # capacity a batch starts with; it doubles
PARKED_COST: Final = 128  # bytes reserved for a parked record in addition to its data
UNDECIDED: Final = -1  # the partition of a record that has none yet
INFINITY: Final = float("inf")
MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1


class Accumulator(Account[Batch]):
    """The open batch of every partition, the sealed ones, records whose topic is not known yet, and the memory limits for them.

    `send` runs on application threads, everything else on the loop. Callables:
    `clock()` monotonic seconds; `wake()` wakes the loop; `new_topic(name)` is called for the first record of a topic, checks the name and
    may raise; `make_room(topic, partition or -1, bytes, deadline)` waits until a retry makes sense, or raises;
    `wait(predicate, timeout)` waits for a handle; `failure_seen(n)` the application has seen the failure of a record, and `n` had failed
    before its batch; `submit(callable)` runs a late callback; `wall()` milliseconds since the epoch for records without a timestamp;
    `find_partition(topic, partition, deadline)` looks up an unknown partition before it is rejected; `client_id` begins log lines.

    A record may wait several times within one deadline (of `clock`): `make_room` and `find_partition` get infinity the first time, then
    the value that they returned last.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger: float,
        buffer_memory: int,
        max_partition_bytes: int,
        max_request_size: int,
        codec: int = 0,
        compress: Callable[[int, Buffer], bytes] | None = None,
        clock: Callable[[], float],
        wake: Callable[[], object],
        new_topic: Callable[[str], object],
        make_room: Callable[[str, int, int, float], float],
        wait: Callable[[Callable[[], bool], float | None], bool],
        submit: Callable[[Callbacks], object],
        lock: AbstractContextManager[Any, bool | None] | None = None,
        awaiting: Callable[[Delivery], Generator[Any, Any, RecordMetadata]] | None = None,
        failure_seen: Callable[[int], object] | None = None,
        wall: Callable[[], int] | None = None,
        seed: int | None = None,
        find_partition: Callable[[str, int, float], float] | None = None,
        client_id: str = "pykafka4",
    ) -> None:
        if batch_size < HEADER_SIZE + LEAST_RECORD:
            raise ValueError(f"batch_size={batch_size} is too small for a record")
        if codec and compress is None:
            raise ValueError(f"codec={codec} needs a compress function")
        super().__init__(
            lock if lock is not None else contextlib.nullcontext(),
            Hooks(wait, submit, awaiting, failure_seen, client_id),
            codec,
            compress,
            wake,
        )
        self._batch_size = min(batch_size, max_request_size)
        self._linger, self._buffer_memory, self._max_partition_bytes = linger, buffer_memory, max_partition_bytes
        self._max_request_size, self._asked_request_size = min(max_request_size, buffer_memory), max_request_size
        self._clock, self._new_topic, self._make_room = clock, new_topic, make_room
        self._used_up = 0  # announcements that are void: their parked records were moved, or the topic was dropped
        self._find_partition = find_partition
        self._wall = wall if wall is not None else wall_ms
        self._topics: dict[str, Topic[Batch]] = {}
        self._sealed: list[Batch] = []
        self._flushing = False
        self._seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed & MAX_INT
        self.wake_at = INFINITY
        self._taken_at = -INFINITY  # when `take` last took batches whose linger had ended
        self._expected = INFINITY  # when it is to look for the next of them, if records come steadily

    # ---- records

    def send(
        self,
        topic: str,
        value: Buffer | str | None = None,
        *,
        key: Buffer | str | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Accept a record; returns its `Delivery`. See `Producer.send`."""
        give_way()
        self._check_open()
        name = topic if type(topic) is str else exact_name(topic)
        t = self._topics.get(name)
        if t is None:
            t = self._meet(name)
        data = bytes_of(t.name, "value", value)
        item = Item(
            bytes_of(t.name, "key", key),
            data,
            header_pairs(t.name, headers),
            partition=UNDECIDED if partition is None else integer(t.name, "partition", partition, MAX_INT),
            timestamp=self._wall() if timestamp_ms is None else integer(t.name, "timestamp_ms", timestamp_ms, MAX_LONG),
        )
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"{t.name}: on_delivery must be callable, not {type(on_delivery).__name__}")
        delivery = Delivery(item)
        while True:
            if not t.direct and self._park(t, item, on_delivery, delivery):
                return delivery
            if t.direct and self._append(t, item, on_delivery, delivery):
                return delivery
            t = self._topics.get(t.name) or self._meet(t.name)
            item.partition, item.free = UNDECIDED if partition is None else int(partition), False

    def _check_open(self) -> None:
        """Accept no records after a refusal: the code that refuses settles the earlier ones, but would not see later ones."""
        if self.refusal is not None:
            raise self.refusal.again()

    def _meet(self, name: str) -> Topic[Batch]:
        """The first send to a topic."""
        before = self._used_up
        self._new_topic(name)
        with self._lock():
            topic = self._named(name)
            if before == self._used_up:  # otherwise the announcement may be void already: `_park` announces it again
                topic.announced = True
        return topic

    def _named(self, name: str) -> Topic[Batch]:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(name)
            topic.placeholder = Batch(self, topic, PARKING, 0.0)
        return topic

    def _choose(self, t: Topic[Batch], r: Item) -> None:
        """Choose the partition of `r`, or note that any is allowed."""
        if r.partition >= t.count and self._find_partition is not None:
            r.deadline = self._find_partition(t.name, r.partition, r.deadline)
        if r.partition >= t.count:
            raise _no_partition(t, r.partition)
        if r.partition < 0 and r.key is not None:
            r.partition = (murmur2(r.key) & MAX_INT) % t.count
        r.free = r.partition < 0

    def _append(self, t: Topic[Batch], r: Item, callback: Callback | None, delivery: Handle) -> bool:
        """Write `r` into the open batch of its partition and bind `delivery` to it; False if `t` was dropped meanwhile."""
        self._choose(t, r)
        news, step = False, None
        while True:
            with self._lock():
                self._sweep()
                if not r.forced:
                    self._check_open()
                if t.dropped:
                    return False
                b = t.open.get(t.sticky if r.free else r.partition)
                if b is None:
                    news, step = self._start(t, r, news)
                    b = t.open.get(t.sticky if r.free else r.partition) if step is None else None
                if b is not None:
                    encoded = b._encoded(r)
                    if b._used + len(encoded) <= b._cap:
                        self._write(b, r, encoded, callback, delivery)
                        break
                    step = self._enlarge(t, b, r, b._used + len(encoded))
            if step is not None:
                step()
        if news:
            self._wake()
        return True

    def _write(self, b: Batch, r: Item, encoded: bytes, callback: Callback | None, delivery: Handle) -> None:
        delivery._place = b, b.count
        if callback is not None:
            b._callbacks.append((delivery, callback))
        b._put(r, encoded)
        self.accepted += not r.forced

    def _start(self, t: Topic[Batch], r: Item, news: bool) -> tuple[bool, Callbacks | None]:
        """Open a batch for `r`; returns whether to wake the loop, and what to do first if there is no room."""
        need = r.alone
        self._check_size(t, need)
        now = self._clock()
        partition = self._stick(t, need) if r.free else r.partition
        if partition in t.open:
            return news, None
        cap = 0 if self._must_queue(t, r) else self._start_size(t, partition, need, r.asked)
        if cap == 0:
            if not r.forced:
                return news, lambda: self._wait_for_room(t, r, need)
            cap = need
        batch = Batch(self, t, partition, now)
        if r.forced:
            batch.sent_at = r.sent_at
        self._introduce(batch, cap)
        t.open[partition] = batch
        self._opened[batch] = None
        if now + self._linger < self.wake_at:
            self.wake_at, news = now + self._linger, True
        return news, None

    def _stick(self, t: Topic[Batch], need: int) -> int:
        """The sticky partition; the next one if it has had its share or is full."""
        if t.sticky_bytes >= self._batch_size:
            t.rotate()
        for _ in t.available:
            if self._partition_fits(t, t.sticky, need):
                break
            t.rotate()
        return t.sticky

    def _start_size(self, t: Topic[Batch], partition: int, need: int, asked: bool) -> int:
        """The initial capacity of a batch within the limits; 0 if there is no room.

        A busy partition starts large while there is plenty of memory, and for a thread that has waited for it: in small pieces, threads
        would have to wait for it again and again, and batches would stay small.
        """
        plenty = self._reserved + self._batch_size <= self._buffer_memory // 2
        large = need <= self._batch_size and partition in t.last_was_full and (asked or plenty)
        if large and self._fits(t, partition, self._batch_size):
            return self._batch_size
        wanted = (self._grown(SMALL, need), need) if need <= self._batch_size else (need,)
        return next((cap for cap in wanted if self._fits(t, partition, cap)), 0)

    def _grown(self, cap: int, need: int) -> int:
        while cap < need:
            cap *= 2
        return min(cap, self._batch_size)

    def _enlarge(self, t: Topic[Batch], b: Batch, r: Item, need: int) -> Callbacks | None:
        """`r` does not fit into `b`: enlarge it, or seal it; returns what to do first, without the lock."""
        self._check_size(t, r.alone)
        if need <= self._batch_size:  # also ahead of waiting threads: once the batch is full, this thread waits as well
            cap = self._grown(b._cap, need)
            if self._fits(t, b.partition, cap - b._cap):
                b._resize(cap)
                return None
        if r.forced and need <= self._batch_size:
            b._resize(need)
            return None
        return self._fill(t, b, r, need)

    def _fill(self, t: Topic[Batch], b: Batch, r: Item, need: int) -> Callbacks | None:
        """Seal `b`, which has no room for `r`."""
        self._close(b, False)
        if need > self._batch_size:
            t.last_was_full.add(b.partition)
        if r.free and b.partition == t.sticky:
            t.rotate()
        if not b.ready:
            return b.compress
        return self._tell if self.can_send else None

    def _tell(self) -> None:
        self._wake()

    def _close(self, b: Batch, taken: bool) -> None:
        if not taken:
            self._sealed.append(b)
        self._detach(b)
        b.state = SEALED

    # ---- room

    def _check_size(self, t: Topic[Batch], size: int) -> None:
        if size > self._max_request_size:
            over_memory = self._max_request_size < self._asked_request_size
            option = "buffer_memory" if over_memory else "max_request_size"
            raise RecordTooLarge(
                f"{t.name}: a record of {size} bytes (overhead included) exceeds {option}={self._max_request_size}; "
                "raise that option or split the record"
            )

    def _partition_fits(self, t: Topic[Batch], partition: int, size: int) -> bool:
        """Whether the partition's own limit allows it; an empty partition may always have one batch."""
        held = t.held.get(partition, 0)
        return held == 0 or held + size <= self._max_partition_bytes

    def _fits(self, t: Topic[Batch], partition: int, size: int) -> bool:
        return self._reserved + size <= self._buffer_memory and self._partition_fits(t, partition, size)

    def _must_queue(self, t: Topic[Batch], r: Item) -> bool:
        """Whether waiting threads come first: not if all of them wait for room in full partitions, and `r` is for another one."""
        if self.waiters == 0 or r.asked or r.forced:
            return False
        full = self.full_partitions  # read once: another thread may replace it
        return full is None or (t.name, UNDECIDED if r.free else r.partition) in full

    def _wait_for_room(self, t: Topic[Batch], r: Item, size: int) -> None:
        """Wait for room, without the lock: everything may have changed afterwards."""
        r.deadline = self._make_room(t.name, UNDECIDED if r.free else r.partition, size, r.deadline)
        r.asked = True

    def room(self, topic: str, partition: int, nbytes: int) -> bool:
        """Whether there is room now for a record that called `make_room` with these arguments. Takes no lock, as the caller may hold it."""
        return self._reserved + nbytes <= self._buffer_memory and not self.crowded(topic, partition, nbytes)

    def crowded(self, topic: str, partition: int, nbytes: int) -> bool:
        """Whether only `max_partition_bytes` blocks a record that called `make_room` with these arguments, however much memory is free."""
        t = self._topics.get(exact_name(topic))
        if t is None:
            return False
        if not t.direct:
            # What has moved counts too, until nothing is parked: else a full partition would take as much as passes through here.
            backlog = t.parked_bytes + t.moved_bytes
            return backlog > 0 and backlog + nbytes > self._max_partition_bytes
        return not any(self._partition_fits(t, p, nbytes) for p in ([partition] if partition >= 0 else t.available))

    # ---- records whose topic is not known yet

    def _park(self, t: Topic[Batch], r: Item, callback: Callback | None, delivery: Handle) -> bool:
        """Keep `r` until its topic's partitions are known; False if they became known, or `t` was dropped, meanwhile."""
        self._check_size(t, r.alone)
        size = r.alone + PARKED_COST
        while True:
            if not t.announced:
                self._new_topic(t.name)
                t.announced = True
            with self._lock():
                self._check_open()
                if t.direct or t.dropped:
                    return False
                if not t.announced:
                    continue
                if not self._must_queue(t, r) and self.room(t.name, UNDECIDED, size):
                    self._keep(t, Parked(r, delivery, callback, self._clock(), size))
                    return True
            r.deadline = self._make_room(t.name, r.partition, size, r.deadline)
            r.asked = True

    def _keep(self, t: Topic[Batch], p: Parked) -> None:
        assert t.placeholder is not None
        p.delivery._place = t.placeholder, t.parked_first + len(t.parked)
        t.parked.append(p)
        t.parked_bytes += p.size
        self._reserved += p.size
        self.parked_records += 1
        self.accepted += 1

    def _unpark(self, t: Topic[Batch]) -> Parked:
        """Remove the oldest parked record of `t`, also from the count of parked records."""
        p = t.parked.popleft()
        t.parked_first += 1
        t.parked_bytes -= p.size
        self._reserved -= p.size
        self.parked_records -= 1
        if not t.parked:
            t.moved_bytes = 0
            t.announced, t.direct = False, t.count > 0
            self._used_up += 1
        return p

    def set_partitions(self, topic: str, count: int, available: Sequence[int]) -> None:
        """The topic has `count` partitions; those in `available` have a leader (empty: not known which)."""
        chosen = [p for p in available if 0 <= p < count] or list(range(count))
        with self._lock():
            t = self._named(exact_name(topic))
            if count <= 0:
                return
            if t.count == 0:  # so that not every producer starts with partition 0
                t.cursor = self._seed % len(chosen)
                self._seed = (self._seed * 1103515245 + 12345) & MAX_INT
            t.available = chosen
            if t.count == 0 or t.sticky not in chosen:
                t.cursor %= len(chosen)
                t.sticky, t.sticky_bytes = chosen[t.cursor], 0
            t.count, t.direct = count, not t.parked

    def designate(self, topic: str, limit: int = 1000, patient: bool = False) -> tuple[int, list[tuple[str, Exception, Callbacks | None]]]:
        """Move up to `limit` parked records, in order, into batches.

        Returns how many still wait, and for each record whose partition does not exist: (code, error, None or what runs its callbacks).
        With `patient` such a record does not fail but stays parked, and so do those behind it.
        """
        t = self._topics.get(exact_name(topic))
        misplaced: list[tuple[str, Exception, Callbacks | None]] = []
        if t is None:
            return 0, misplaced
        while limit > 0 and t.parked and t.count > 0:
            limit -= 1
            p = t.parked[0]
            if p.item.partition >= t.count and patient:
                break
            if p.item.partition >= t.count:
                misplaced.append(self._lose(t, p))
            else:
                self._place(t, p)
        self._nudge()
        return len(t.parked), misplaced

    def _lose(self, t: Topic[Batch], p: Parked) -> tuple[str, Exception, Callbacks | None]:
        error = _no_partition(t, p.item.partition)
        with self._lock():
            lost = self._failed_batch(t, "UNKNOWN_TOPIC_OR_PARTITION", error)
            self._fail_oldest(t, lost)
            rows = lost._conclude()
        return lost._code, error, lost._left_to_call(rows)

    def _place(self, t: Topic[Batch], p: Parked) -> None:
        """Move `p`, the oldest parked record of `t`, into a batch. Its bytes are already accounted for, so it needs no room."""
        p.item.forced, p.item.sent_at = True, p.created
        with self._lock():
            self._reserved -= p.size
            t.parked_bytes -= p.size
            t.moved_bytes += p.size
            p.size = 0
        self._append(t, p.item, p.callback, p.delivery)
        with self._lock():
            p.delivery._home()._extras.extend(p.extras)
            self._unpark(t)

    def fail_parked(self, topic: str, error: BaseException, before: float = INFINITY) -> tuple[int, Callbacks | None]:
        """Fail the parked records appended up to `before`; returns (how many, None or what runs their callbacks)."""
        t = self._topics.get(exact_name(topic))
        with self._lock():
            if t is None or not t.parked or t.parked[0].created > before:
                return 0, None
            lost = self._failed_batch(t, short_name(error), error)
            while t.parked and t.parked[0].created <= before:
                self._fail_oldest(t, lost)
            rows = lost._conclude()
        return lost.count, lost._left_to_call(rows)

    def _failed_batch(self, t: Topic[Batch], code: str, error: BaseException) -> Batch:
        """A failed batch without bytes, for parked records that will not get a partition."""
        batch = Batch(self, t, UNDECIDED, 0.0)
        batch.state, batch._kept, batch._code, batch._cause = FAILED, [], code, fresh(error)
        batch._used, batch._failed_before = 0, self.failed
        self._introduce(batch, 0)
        return batch

    def _fail_oldest(self, t: Topic[Batch], b: Batch) -> None:
        """Fail the oldest parked record of `t`, as part of `b`."""
        p = self._unpark(t)
        r = p.item
        assert isinstance(b._kept, list)
        b._kept.append(
            ProducerRecord(t.name, r.value, r.key, r.headers, r.partition if r.partition >= 0 else None, r.timestamp, Written.NO)
        )
        p.delivery._place = b, b.count  # last: another thread that reads the handle must find the batch failed
        b.count += 1
        self.failed += 1
        b._extras += [(p.delivery, p.callback)] if p.callback is not None else []
        b._extras += p.extras

    def parked(self, topic: str) -> tuple[int, float]:
        """(How many records of `topic` wait for its partitions, when the oldest was sent or 0.0.)"""
        t = self._topics.get(exact_name(topic))
        return (len(t.parked), t.parked[0].created) if t is not None and t.parked else (0, 0.0)

    # ---- the loop

    def take(self, now: float) -> tuple[list[Batch], list[Batch], float]:
        """(batches sealed since the last call, in order; open ones whose linger has ended since, or ends soon; when to call again).

        A call that finds such a batch also takes those whose linger ends within an eighth of `linger`: one turn of the loop instead of
        several. If the oldest was opened that soon after the last such call, records come steadily, and the next batch is expected: the
        loop is not woken when it is opened, and calls again by itself.
        """
        with self._lock():
            self._sweep()
            due: list[Batch] = []
            soon = self._linger / 8
            limit = now if now < self._expected else now + soon
            deadline = INFINITY
            for batch in self._opened:
                if batch.count == 0:  # just opened, its record is about to be written
                    deadline = max(batch.created + self._linger, now + 0.001)
                    break
                if batch.created + self._linger > limit and not self._flushing:
                    deadline = batch.created + self._linger
                    break
                due.append(batch)
                limit = now + soon
            for batch in due:
                del self._opened[batch]
            if due and not self._flushing:
                steady = self._linger > 0 and self._taken_at <= due[0].created <= self._taken_at + soon
                self._taken_at, self._expected = now, now + self._linger if steady else INFINITY
            elif now >= self._expected:
                self._expected = INFINITY
            self._flushing, self.wake_at = False, min(deadline, self._expected)
            taken, self._sealed = self._sealed, []
            return [batch for batch in taken if batch.state == SEALED], due, self.wake_at

    def seal(self, batch: Batch, taken: bool = False) -> bool:
        """Seal an open batch now; False if it is already sealed, or empty. If `taken`, the caller has it: `take` does not return it."""
        with self._lock():
            if batch.state != OPEN or batch.count == 0:
                return False
            if batch._acc is not self:
                raise ValueError(f"{batch!r} belongs to another accumulator")
            if batch.size * 2 < self._batch_size:
                batch._home.last_was_full.discard(batch.partition)
            self._close(batch, taken)
            return True

    def expedite(self) -> None:
        """Flush: every open batch is due at once."""
        self._flushing = True
        self._wake()

    def forget(self, topic: str) -> bool:
        """Drop `topic` if it has no parked record and no open or unsettled batch. The next `send` announces it again."""
        with self._lock():
            self._sweep()
            t = self._topics.get(exact_name(topic))
            if t is None or t.parked or any(t.held.values()):
                return False
            del self._topics[t.name]
            t.dropped = True
            self._used_up += 1
            return True

    def unfinished(self) -> list[Batch | Handle]:
        """Everything that is not settled: batches, and the handles of parked records."""
        with self._lock():
            return [*self._live, *(p.delivery for t in self._topics.values() for p in t.parked)]


def _no_partition(t: Topic[Batch], partition: int) -> ValueError:
    return ValueError(f"{t.name}: partition={partition} but the topic has {t.count} partitions, 0 to {t.count - 1}")
