"""Accepts records and fills batches, in the plain core. Invariant: the same bytes, outcomes and exception types as the compiled core.

Where the compiled core relies on the GIL, the plain core takes `lock`, a context manager from the caller. Code of the application or the
producer runs without the lock, except `clock`. The plain core reserves memory byte by byte, the compiled core block by block, so they find
the buffer full at different records. The compiled counterparts are `_append.pxi`, `_many.pxi`, `_method.pxi`, `_write.pxi`, and parts of
`_choose.pxi`, `_park.pxi`, `_policy.pxi` and `_rows.pxi`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import attrs

from pykafka4.gil.flag import give_way
from pykafka4.partitioners import DEFAULT, NAMED, Hash, PartitionArgument, Partitioner, Spread
from pykafka4.records import HeadersLike, RecordMetadata
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_account import MAX_INT, Combined
from pykafka4.wire.records._plain_arguments import Item, bytes_of, exact_name, header_pairs, integer, now_ms
from pykafka4.wire.records._plain_batch import ACKED, CALLBACK_COST, FAILED, OPEN, SEALED, SPLIT, Batch, Callback, Callbacks
from pykafka4.wire.records._plain_columns import ColumnsBuilder, ColumnsStream, RecordColumns
from pykafka4.wire.records._plain_decode import Chunk, Record, RecordIterator
from pykafka4.wire.records._plain_delivery import Delivery
from pykafka4.wire.records._plain_parking import INFINITY, PARKED_COST, no_partition
from pykafka4.wire.records._plain_raw_batch import RawBatches, cut_records, pack_records
from pykafka4.wire.records._plain_rows import ArrowRows, SentRows
from pykafka4.wire.records._plain_topic import HASHES, Topic, murmur2
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.common import checked_callback, many_ended, many_values
from pykafka4.wire.records.layout import HEADER_SIZE, LEAST_RECORD
from pykafka4.wire.records.policy import Admission, Policy
from pykafka4.wire.records.rows import rows_ended

__all__ = [
    "ACKED",
    "FAILED",
    "OPEN",
    "SEALED",
    "SPLIT",
    "Accumulator",
    "ArrowRows",
    "Batch",
    "Chunk",
    "ColumnsBuilder",
    "ColumnsStream",
    "Delivery",
    "Record",
    "RecordColumns",
    "RecordIterator",
    "SentRows",
    "crc32c",
    "cut_records",
    "murmur2",
    "pack_records",
    "send_method",
    "now_ms",
]

MAX_LONG: Final = 2**63 - 1
MAX_UINT: Final = 2**32 - 1
MISSING: Final = object()
F = TypeVar("F", bound=Callable[..., Any])


def send_method(function: F) -> F:
    """Decorate `Producer.send`; only the compiled core has a shortcut around the method."""
    return function


class Accumulator(RawBatches):
    """The open batch of every partition, the sealed batches, the parked records, and the memory limits for all of them.

    `send` and its variants, `drop_batch`, `hurry`, `room`, `crowded`, `direct` and `unfinished` run on any thread; the other methods run
    on the loop, or on any thread after the loop has ended.

    Callables: `clock()`: monotonic seconds; `new_topic(name)` announces a topic to the loop, or raises for an invalid name;
    `make_room(topic, partition or -1, bytes, deadline)` waits until a retry makes sense, or raises; `wait(predicate, timeout)` waits for a
    handle; `failure_seen(n)`: the application has seen the failure of a record, and `n` records had failed before its batch;
    `submit(callable)` runs a late callback; `wall()`: milliseconds since the epoch, for records without a timestamp; `find_partition(topic,
    partition, deadline)` looks up an unknown partition before it is rejected; `find_topic(topic, deadline)` waits for the partitions of a
    topic, for raw batches and for a `partitioner` with a function; `call_dropped(callback, delivery)` calls `callback` soon, or raises.

    With `drop_error`, a record without room is dropped with that error. `client_id` begins log lines.

    A record may wait several times within one deadline (of `clock`): the functions with a `deadline` get infinity the first time, then the
    value that such a function returned last.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger: float = 0.0,
        buffer_memory: int,
        max_partition_bytes: int,
        max_request_size: int,
        codec: int = 0,
        compress: Callable[..., bytes] | None = None,
        policy: Callable[[str], Policy] | None = None,
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
        find_topic: Callable[[str, float], float] | None = None,
        partitioner: Partitioner | None = None,
        client_id: str = "pykafka4",
        limits: str | None = None,
        drop_error: BaseException | None = None,
        call_dropped: Callable[[Callback, Delivery], object] | None = None,
    ) -> None:
        if batch_size < HEADER_SIZE + LEAST_RECORD:
            raise ValueError(f"batch_size={batch_size} is too small for a record")
        if compress is None and (codec or policy is not None):
            raise ValueError("codec and policy need a compress function")
        super().__init__(lock if lock is not None else contextlib.nullcontext())
        self._compress, self._wake, self.client_id = compress, wake, client_id
        self._wait, self._submit, self._awaiting, self._failure_seen = wait, submit, awaiting, failure_seen
        self._batch_size = min(batch_size, max_request_size)
        alike = Policy(linger, codec)
        self._policy = policy if policy is not None else lambda topic: alike
        self._buffer_memory, self._max_partition_bytes = buffer_memory, max_partition_bytes
        # The overhead of a parked record must also fit into buffer_memory: otherwise `send` would wait for room that cannot come.
        self._max_request_size = min(max_request_size, buffer_memory - PARKED_COST)
        self._asked_request_size = max_request_size
        self._clock, self._new_topic, self._make_room = clock, new_topic, make_room
        self._find_partition, self._find_topic = find_partition, find_topic
        self._plan = partitioner if partitioner is not None else attrs.evolve(NAMED[DEFAULT], adaptive=False)
        self._call_dropped, self._drop_error, self._limits = call_dropped, drop_error, limits
        self._wall = wall if wall is not None else now_ms
        self._seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed & MAX_INT
        self.wake_at = INFINITY

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
        """Accept a record; return its `Delivery`. See `Producer.send`."""
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
            partition=self._partition_of(t.name, partition),
            timestamp=self._wall() if timestamp_ms is None else integer(t.name, "timestamp_ms", timestamp_ms, MAX_LONG),
        )
        if on_delivery is not None:
            checked_callback(t.name, "on_delivery", on_delivery)
        return self._accept(t, item, on_delivery, Delivery(item))

    def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | str | None],
        *,
        keys: Iterable[Buffer | str | None] | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> list[Delivery]:
        self._check_open()
        name = exact_name(topic)
        if name not in self._topics:
            self._meet(name)
        pairs = header_pairs(name, headers)
        asked = self._partition_of(name, partition)
        given = None if timestamp_ms is None else integer(name, "timestamp_ms", timestamp_ms, MAX_LONG)
        if on_delivery is not None:
            checked_callback(name, "on_delivery", on_delivery)
        items, others = many_values(name, values, keys)
        out: list[Delivery] = []
        try:
            for n, value in enumerate(items):
                give_way()
                data, now = bytes_of(name, "value", value), self._wall() if given is None else given
                item = Item(None if others is None else _next_key(name, others, n), data, pairs, partition=asked, timestamp=now)
                # Before the record is accepted: Ctrl-C may come right after that, and `accepted` of its exception must list the record.
                out.append(Delivery(item))
                self._accept(self._topics.get(name) or self._meet(name), item, on_delivery, out[-1])
            if others is not None and next(others, MISSING) is not MISSING:
                raise ValueError(f"{name}: keys has more items than values, which ended after {len(out)}")
        except BaseException as error:
            if out and not hasattr(out[-1], "_place"):
                out.pop()
            many_ended(error, name, out)
            raise
        return out

    def send_rows(self, rows: ArrowRows, sent: SentRows | None = None, most: int = MAX_LONG) -> SentRows:
        """Accept up to `most` of `rows`; return `sent`, or a new handle, with the accepted rows added.

        The first refused row ends the call: `accepted` of the exception is the handle of the rows before it. Another call with the same
        `rows` begins with the refused row.
        """
        self._check_open()
        handle, delivery = SentRows(self, rows.topic) if sent is None else sent, None
        end = rows.position + most
        with rows.in_use():
            try:
                while rows.position < end and rows.has_row():
                    give_way()
                    item = rows.item(MAX_UINT if self._plan.partition_argument else MAX_INT, self._wall)
                    delivery = Delivery(item)
                    self._accept(self._topics.get(rows.topic) or self._meet(rows.topic), item, None, delivery)
                    handle.took(rows, delivery)
            except BaseException as error:
                if delivery is not None and hasattr(delivery, "_place"):  # the row was accepted, and then a signal handler raised
                    handle.took(rows, delivery)
                rows_ended(error, rows.topic, rows.position, handle)
                raise
        return handle

    def _new_handle(self, batch: Batch) -> Delivery:
        delivery = Delivery(Item(None, None, (), batch._base_timestamp, batch.partition))
        delivery._place = batch, 0
        return delivery

    def _accept(self, t: Topic, item: Item, callback: Callback | None, delivery: Delivery) -> Delivery:
        asked = item.partition
        admission = None if t.policy.admit is None else self._admission(t, item, t.policy.admit)
        if admission is None:
            return self._append_as_asked(t, item, asked, callback, delivery)
        if not isinstance(admission, Admission):
            self._drop(t, item, "RATE_LIMITED", admission, callback, delivery)
            return delivery
        try:
            return self._append_as_asked(t, item, asked, callback, delivery)
        finally:  # a record that was refused or dropped does not count towards the rate
            if not hasattr(delivery, "_place") or delivery._place[0]._dropped:
                admission.give_back()

    def _append_as_asked(self, t: Topic, item: Item, asked: int, callback: Callback | None, delivery: Delivery) -> Delivery:
        """`asked`: the partition given to `send`."""
        while True:
            if not t.direct and self._park(t, item, callback, delivery):
                return delivery
            if t.direct and self._append(t, item, callback, delivery):
                return delivery
            # `t` was dropped meanwhile. The partition was chosen with the old number of partitions, so it is chosen again.
            t = self._topics.get(t.name) or self._meet(t.name)
            item.partition, item.free, item.turning = asked, False, False

    def _admission(self, t: Topic, r: Item, admit: Callable[[float], Admission | Exception | None]) -> Admission | Exception | None:
        """Ask `admit`, which may wait. The size, and a given partition if the topic's partitions are known, are checked first."""
        self._check_size(t, r)
        if r.partition >= 0 and t.direct:
            self._check_partition(t, r)
        admission = admit(r.deadline)
        if isinstance(admission, Admission):
            r.deadline = admission.deadline
        return admission

    def _meet(self, name: str) -> Topic:
        """Announce the topic to the loop."""
        before = self._used_up
        self._new_topic(name)
        policy = self._policy_of(name)
        with self._lock():
            topic = self._named(name, policy)
            # Without the comparison: another thread announces the topic and parks a record. The loop moves or fails that record, which ends
            # the announcement. Then this thread marks the topic as announced, and no code moves the records that are parked next.
            # With the comparison the topic stays unannounced, and `_park` announces it again.
            if before == self._used_up:
                topic.announced = True
        return topic

    def _choose(self, t: Topic, r: Item) -> None:
        plan = self._plan
        if r.partition >= 0:
            self._check_partition(t, r)
        elif plan.function is not None:
            r.partition = t.ask(plan.function, r.key)
        elif plan.hash != Hash.NONE and (-1 if r.key is None else len(r.key)) >= plan.least_key:
            r.partition = HASHES[plan.hash](r.key or b"") % t.count
        elif plan.spread == Spread.ROUND_ROBIN:
            with self._lock():
                r.partition, r.turning = t.in_turn(lambda partition: self._partition_fits(t, partition, r.alone)), True
        r.free = r.partition < 0 and plan.spread != Spread.LATE  # with LATE, -1 is the slot of the batch without a partition

    def _check_partition(self, t: Topic, r: Item) -> None:
        if self._plan.partition_argument:
            r.partition %= t.count
            if self._plan.partition_argument == PartitionArgument.NEXT:
                r.partition = t.next_online(r.partition)
        elif r.partition >= t.count and self._find_partition is not None:
            r.deadline = self._find_partition(t.name, r.partition, r.deadline)
        if r.partition >= t.count:
            raise no_partition(t, r.partition)

    def _append(self, t: Topic, r: Item, callback: Callback | None, delivery: Any) -> bool:
        self._choose(t, r)
        more = 0 if callback is None else CALLBACK_COST
        while True:
            if r.partition < 0 and r.turning:  # `r` has waited for room, and another partition may have room first
                self._check_open()
                self._choose(t, r)
            written, news = False, False
            step: Callable[[], object] | None = None
            with self._lock():
                if not r.forced:  # `send` accepted a parked record before the refusal, so the record still gets its outcome
                    self._check_open()
                if t.dropped:
                    return False
                self._check_size(t, r)
                partition = self._stick(t, r.alone + more) if r.free else r.partition
                b = t.open.get(partition)
                encoded = (b or t.placeholder)._encoded(r)
                if b is not None and b._used + len(encoded) > t.capacity:
                    step = self._fill(b, r)
                elif r.forced or self._has_room(t, r, b, partition, (r.alone if b is None else len(encoded)) + more):
                    news, step = self._write(t, b, r, partition, encoded, callback, delivery)
                    written = True
                elif b is not None:
                    step = self._fill(b, r)
            try:
                if step is not None:
                    step()  # without the lock: compression may take a long time, and `wake` is code of the producer
            finally:  # even after Ctrl-C in `step`: without the wake-up the loop would miss the end of the new batch's linger
                if news:
                    self._wake()
            if written:
                return True
            if b is None:
                self._wait_for_room(t, r, r.alone + more)
                if r.overflows:
                    self._drop(t, r, "BUFFER_FULL", self._drop_error, callback, delivery)
                    return True

    def _has_room(self, t: Topic, r: Item, b: Batch | None, partition: int, size: int) -> bool:
        """Whether `r` has room. An open batch accepts `r` ahead of waiting threads; a new batch comes after them."""
        return (b is not None or not self._must_queue(t, r)) and self._fits(t, partition, size)

    def _write(
        self, t: Topic, b: Batch | None, r: Item, partition: int, encoded: bytes, callback: Callback | None, delivery: Any
    ) -> tuple[bool, Callable[[], object] | None]:
        """Write `r`; return whether to wake the loop, and a function to call before that, without the lock."""
        news = False
        if b is None:
            b = t.open[partition] = Batch(self, t, partition, self._clock())
            if r.forced:  # the age of a batch counts from `send`, even if its first record was parked
                b.sent_at = r.created
            self._introduce(b)
            self._opened[b] = None
            if b.created + b.linger < self.wake_at:
                self.wake_at, news = b.created + b.linger, True
        delivery._place = b, b.count
        if callback is not None:
            b._callbacks.append((delivery, callback))
        b._put(r, encoded, 0 if callback is None else CALLBACK_COST)
        self.accepted += not r.forced  # a parked record was counted when it was parked
        step = self._fill(b, r) if t.policy.limited and b._is_reached(r) else None
        news, b._news = news or b._news, False
        return news, step

    def _stick(self, t: Topic, need: int) -> int:
        """The sticky partition. If it has no open batch, and has had its share or is full, another one is chosen first."""
        if t.sticky in t.open:
            return t.sticky
        if t.sticky_bytes >= self._batch_size:
            self._rotate(t)
        for _ in t.available:
            if t.sticky in t.open or self._partition_fits(t, t.sticky, need):
                break
            t.stick(t.cursor + 1)
        return t.sticky

    def _rotate(self, t: Topic) -> None:
        t.rotate(self._batch_size if self._plan.adaptive else 0)

    def _fill(self, b: Batch, r: Item) -> Callable[[], object] | None:
        """Seal `b`, which has no room for `r`, or is complete with `r`; return a function to call without the lock, or None."""
        self._close(b)
        self._sealed.append(b)
        if r.free and b.partition == b._home.sticky:
            self._rotate(b._home)
        if not b.ready:  # the sending thread compresses; for a parked record that is the loop, which may leave the work to a helper
            return None if r.forced and self.defers else b.compress
        return self._wake if self.can_send else None

    # ---- the loop

    def take(self, now: float, no_linger: bool = False) -> tuple[list[Batch], list[Batch], float]:
        """(batches sealed since the last call, in order; open batches that have become due since; the time of the next call).

        A batch is due when its linger, or the linger of a batch combined with it, has ended, when these batches together have reached a
        limit, after `expedite`, and after a `hurry` that found no room. With `no_linger` every batch opened by `now` is due. Unlike the
        compiled core, this method does not take batches whose linger ends soon.
        """
        with self._lock():
            due: list[Batch] = []
            again = INFINITY
            together = self._due_together(now, no_linger)
            for batch in self._opened:
                at = batch.created + (0.0 if no_linger else batch.linger)
                if batch._home.policy.combined and self._combined_of(batch) in together:
                    at = now
                if batch.count == 0 or (at > now and not self._flushing):
                    again = min(again, max(at, now + 0.001))  # not at once: an overdue batch without a record would make the loop spin
                else:
                    due.append(batch)
            for batch in due:
                self._unlist(batch)
            self._flushing, self.wake_at = False, again
            taken, self._sealed = self._sealed, []
            return [batch for batch in taken if batch.state == SEALED], due, again  # without batches that have failed meanwhile

    def _due_together(self, now: float, no_linger: bool) -> list[Combined]:
        """The groups of combined batches with a batch that is due, or with a reached limit."""
        due = [c for c in self._combined.values() if c.reached]
        for batch in self._opened:
            if batch._home.policy.combined and batch.count and (no_linger or batch.created + batch.linger <= now):
                due.append(self._combined_of(batch))
        for combined in due:
            combined.reached = False
        return due

    def seal(self, batch: Batch, taken: bool = False) -> bool:
        """Seal an open batch; return False if it is sealed or empty. If `taken`, the caller has the batch: `take` does not return it.

        If `batch` is for the sticky partition, the next sticky partition is chosen: otherwise a slow stream would stay on one partition
        for `batch_size` bytes.
        """
        with self._lock():
            if batch.state != OPEN or batch.count == 0:
                return False
            if batch._acc is not self:
                raise ValueError(f"{batch!r} belongs to another accumulator")
            self._seal_open(batch)
            if not taken:
                self._sealed.append(batch)
            return True

    def _seal_open(self, batch: Batch) -> None:
        self._close(batch)
        if len(batch._home.available) > 1 and batch.partition == batch._home.sticky:
            self._rotate(batch._home)

    def limit_batches(self, topic: str, size: int) -> None:
        """Fill no batch of `topic` beyond `size` bytes: brokers refuse larger ones. A larger record is still accepted, in its own batch."""
        with self._lock():
            t = self._topics.get(exact_name(topic))
            if t is not None and size > 0:
                t.capacity = min(t.capacity, size)

    def limit_records(self, topic: str, size: int) -> None:
        """Replace the limit of `topic`: brokers accept batches of up to `size` bytes (0: unknown).

        Without compression larger records are refused; with compression they may still fit.
        """
        with self._lock():
            t = self._topics.get(exact_name(topic))
            if t is None or size < 0:
                return
            self._reset_limits(t)
            if size == 0:
                return
            if t.policy.codec:
                t.capacity = min(t.capacity, size)
            else:
                t.limit_records(size, "max.message.bytes of the topic")

    def assign(self, batch: Batch, partition: int) -> None:
        """Give a sealed and `ready` batch without a partition its partition, where its bytes count from now on.

        Raises RuntimeError for any other batch, ValueError if there is no such partition.
        """
        if batch._acc is not self or batch.state != SEALED or not batch.ready or batch.partition >= 0:
            raise RuntimeError(f"{batch!r} cannot be given a partition")
        with self._lock():
            t = self._topics.get(batch.topic)
            if t is None or not 0 <= partition < t.count:
                raise ValueError(f"{batch!r}: there is no partition {partition}")
            self._reserve(t, batch.partition, -batch._held)
            self._reserve(t, partition, batch._held)
            batch.partition = partition
        self._nudge()  # the slot of batches without a partition has room again

    def expedite(self) -> None:
        """Make every open batch due at once, for a flush."""
        self._flushing = True
        self._wake()

    def forget(self, topic: str) -> bool:
        """Drop `topic` if it has no parked record and no open or unsettled batch. The next `send` announces it again."""
        with self._lock():
            t = self._topics.get(exact_name(topic))
            if t is None or t.parked or any(t.held.values()):
                return False
            del self._topics[t.name]
            t.dropped = True
            self._used_up += 1
            self._drops.pop(t.name, None)  # `_fresh_drops` still has the dropped records that `take_dropped` has not returned
            return True

    def census(self) -> tuple[int, list[tuple[Batch, int, bool]], list[tuple[str, int]]]:
        """(number of accepted records; (batch, records, in flight) of each batch without an outcome; (topic, number of parked records)), at
        one moment.
        """
        with self._lock():
            batches = [(batch, batch.count, batch.in_flight) for batch in self._live if batch.state <= SEALED and batch.count > 0]
            return self.accepted, batches, [(t.name, len(t.parked)) for t in self._topics.values() if t.parked]

    def unfinished(self) -> list[Batch | Delivery]:
        with self._lock():
            return [*self._live, *(p.delivery for t in self._topics.values() for p in t.parked)]


def _next_key(topic: str, keys: Iterator[Any], n: int) -> bytes | None:
    key = next(keys, MISSING)
    if key is MISSING:
        raise ValueError(f"{topic}: keys has fewer items than values; keys ended after {n}")
    return bytes_of(topic, "key", key)
