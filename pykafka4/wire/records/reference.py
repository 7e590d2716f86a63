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

import attrs

from pykafka4.errors import short_name
from pykafka4.gil.flag import give_way
from pykafka4.partitioners import DEFAULT, NAMED, Hash, Partitioner, Spread
from pykafka4.records import HeadersLike, ProducerRecord, RecordMetadata, Written
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_account import Callbacks, Hooks
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, bytes_of, exact_name, header_pairs, integer, now_ms
from pykafka4.wire.records._plain_batch import ACKED, CALLBACK_COST, FAILED, OPEN, SEALED, SPLIT, Batch
from pykafka4.wire.records._plain_choice import HASHES, ask_function, in_turn, next_online, rotate
from pykafka4.wire.records._plain_decode import Chunk, Record, RecordIterator
from pykafka4.wire.records._plain_delivery import Delivery
from pykafka4.wire.records._plain_many import new_handle, send_many
from pykafka4.wire.records._plain_method import send_method
from pykafka4.wire.records._plain_room import Room, grown
from pykafka4.wire.records._plain_topic import PARKING, Callback, Handle, Lane, Parked, Topic, murmur2
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.common import checked_callback, fresh
from pykafka4.wire.records.layout import HEADER_SIZE, LEAST_RECORD
from pykafka4.wire.records.policy import Place, Policy

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
    "send_method",
    "now_ms",
]

PARKED_COST: Final = 128  # bytes reserved for a parked record in addition to its data
INFINITY: Final = float("inf")
MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1


class Accumulator(Room):
    """The open batch of every partition, the sealed ones, records whose topic is not known yet, and the memory limits for them.

    `send` runs on application threads, everything else on the loop. Callables:
    `clock()` monotonic seconds; `wake()` wakes the loop; `new_topic(name)` is called for the first record of a topic, checks the name and
    may raise; `make_room(topic, partition or -1, bytes, deadline)` waits until a retry makes sense, or raises;
    `wait(predicate, timeout)` waits for a handle; `failure_seen(n)` the application has seen the failure of a record, and `n` had failed
    before its batch; `submit(callable)` runs a late callback; `wall()` milliseconds since the epoch for records without a timestamp;
    `find_partition(topic, partition, deadline)` looks up an unknown partition before it is rejected; `find_topic(topic, deadline)` waits
    for the partitions of a topic, for a `partitioner` with a function; `client_id` begins log lines.
    With `drop_error` a record without room is dropped, for that reason; `call_dropped(callback, delivery)` calls back soon, or raises.

    A record may wait several times within one deadline (of `clock`): these functions get infinity the first time, then the value that
    they returned last.
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
        super().__init__(
            lock if lock is not None else contextlib.nullcontext(),
            Hooks(wait, submit, awaiting, failure_seen, client_id),
            compress,
            wake,
        )
        self._batch_size = min(batch_size, max_request_size)
        alike = Policy(linger, codec)
        self._policy = policy if policy is not None else lambda topic: alike
        self._lanes: dict[float, Lane[Batch]] = {}  # by linger
        self._buffer_memory, self._max_partition_bytes = buffer_memory, max_partition_bytes
        self._max_request_size = min(max_request_size, buffer_memory - PARKED_COST)  # whatever is reserved beside a record fits, too
        self._asked_request_size = max_request_size
        self._clock, self._new_topic, self._make_room = clock, new_topic, make_room
        self._used_up = 0  # announcements that are void: their parked records were moved, or the topic was dropped
        self._find_partition, self._find_topic = find_partition, find_topic
        self._plan = partitioner if partitioner is not None else attrs.evolve(NAMED[DEFAULT], adaptive=False)
        self._call_dropped, self._drop_error, self._limits = call_dropped, drop_error, limits
        self._wall = wall if wall is not None else now_ms
        self._topics: dict[str, Topic[Batch]] = {}
        self._sealed: list[Batch] = []
        self._seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed & MAX_INT
        self.wake_at = INFINITY
        self._lost_times = -1, -1

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
            partition=self._partition_of(t.name, partition),
            timestamp=self._wall() if timestamp_ms is None else integer(t.name, "timestamp_ms", timestamp_ms, MAX_LONG),
        )
        if on_delivery is not None:
            checked_callback(t.name, "on_delivery", on_delivery)
        return self._accept(t, item, on_delivery, Delivery(item))

    send_many, _new_handle = send_many, new_handle

    def _accept(self, t: Topic[Batch], item: Item, callback: Callback | None, delivery: Delivery) -> Delivery:
        """Park `item`, write it into a batch, or drop it."""
        asked = item.partition
        place = None if t.policy.admit is None else self._admission(t, item, t.policy.admit)
        if place is None:
            return self._append_as_asked(t, item, asked, callback, delivery)
        if not isinstance(place, Place):
            self._drop(t, item, "RATE_LIMITED", place, callback, delivery)
            return delivery
        try:
            return self._append_as_asked(t, item, asked, callback, delivery)
        finally:
            if not hasattr(delivery, "_place") or delivery._place[0]._dropped:
                place.give_back()

    def _append_as_asked(self, t: Topic[Batch], item: Item, asked: int, callback: Callback | None, delivery: Delivery) -> Delivery:
        """Accept `item`, for which `send` was given the partition `asked`."""
        while True:
            if not t.direct and self._park(t, item, callback, delivery):
                return delivery
            if t.direct and self._append(t, item, callback, delivery):
                return delivery
            t = self._topics.get(t.name) or self._meet(t.name)
            item.partition, item.free, item.turning = asked, False, False

    def _admission(self, t: Topic[Batch], r: Item, admit: Callable[[float], Place | Exception | None]) -> Place | Exception | None:
        """What `admit` says of `r`, which may take a while. What can be refused is refused before."""
        self._check_size(t, r.alone)
        if r.partition >= 0 and t.direct:
            self._check_partition(t, r)
        place = admit(r.deadline)
        if isinstance(place, Place):
            r.deadline = place.deadline
        return place

    def _meet(self, name: str) -> Topic[Batch]:
        """The first send to a topic."""
        before = self._used_up
        self._new_topic(name)
        policy = self._policy_of(name)
        with self._lock():
            topic = self._named(name, policy)
            if before == self._used_up:  # otherwise the announcement may be void already: `_park` announces it again
                topic.announced = True
        return topic

    def _policy_of(self, name: str) -> Policy:
        """That of the topic, or for a new one. Not called under the lock: a signal handler that runs meanwhile may send."""
        known = self._topics.get(name)
        return self._policy(name) if known is None else known.policy

    def _named(self, name: str, policy: Policy) -> Topic[Batch]:
        """The topic of that name, with `policy` if it is new."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self._new(name, policy)
        return topic

    def _new(self, name: str, policy: Policy) -> Topic[Batch]:
        lane = self._lanes.setdefault(policy.linger, Lane(policy.linger))
        topic: Topic[Batch] = Topic(name, policy, lane, self._batch_size, self._max_request_size, "max_request_size")
        self._reset_limits(topic)
        topic.placeholder = Batch(self, topic, PARKING, 0.0)
        return topic

    def _reset_limits(self, t: Topic[Batch]) -> None:
        """The sizes of batches and records of `t` as options say."""
        t.capacity, t.max_record = self._batch_size, self._max_request_size
        t.max_record_option = "the usable buffer_memory" if t.max_record < self._asked_request_size else "max_request_size"
        if t.policy.max_message_bytes:
            t.limit_records(t.policy.max_message_bytes, "max_message_bytes")

    def _choose(self, t: Topic[Batch], r: Item) -> None:
        """Choose the partition of `r`, or note that any is allowed."""
        plan = self._plan
        if r.partition >= 0:
            self._check_partition(t, r)
        elif plan.function is not None:
            r.partition = ask_function(t, r, plan.function)
        elif plan.hash != Hash.NONE and (-1 if r.key is None else len(r.key)) >= plan.least_key:
            r.partition = HASHES[plan.hash](r.key or b"") % t.count
        elif plan.spread == Spread.ROUND_ROBIN:
            with self._lock():
                self._sweep()
                r.partition, r.turning = in_turn(t, lambda partition: self._partition_fits(t, partition, r.alone)), True
        r.free = r.partition < 0 and plan.spread != Spread.LATE  # otherwise the slot of batches without a partition is -1

    def _check_partition(self, t: Topic[Batch], r: Item) -> None:
        """Find the explicit partition of `r`."""
        if self._plan.wraps:
            r.partition = next_online(t, r.partition % t.count)
        elif r.partition >= t.count and self._find_partition is not None:
            r.deadline = self._find_partition(t.name, r.partition, r.deadline)
        if r.partition >= t.count:
            raise _no_partition(t, r.partition)

    def _append(self, t: Topic[Batch], r: Item, callback: Callback | None, delivery: Handle) -> bool:
        """Write `r` into the open batch of its partition and bind `delivery` to it; False if `t` was dropped meanwhile."""
        self._choose(t, r)
        news, step = False, None
        while True:
            if r.partition < 0 and r.turning:  # it has waited
                self._check_open()
                self._choose(t, r)
            with self._lock():
                self._sweep()
                if not r.forced:
                    self._check_open()
                if t.dropped:
                    return False
                b = t.open.get(t.sticky if r.free else r.partition)
                if b is None:
                    news, step = self._start(t, r, news, 0 if callback is None else CALLBACK_COST)
                    b = t.open.get(t.sticky if r.free else r.partition) if step is None else None
                if b is not None:
                    encoded = b._encoded(r)
                    if b._used + len(encoded) > b._cap:
                        step = self._enlarge(t, b, r, b._used + len(encoded))
                    elif callback is None or b._book_callbacks(r, self._fits):
                        self._write(b, r, encoded, callback, delivery)
                        step = self._fill(t, b, r, False) if t.policy.limited and b._is_reached(r) else None
                        break
                    else:
                        step = self._fill(t, b, r, False)
            if step is not None:
                step()
            if r.overflows:
                step = None
                self._drop(t, r, "BUFFER_FULL", self._drop_error, callback, delivery)
                break
        try:
            if step is not None:
                step()
        finally:
            if news:
                self._wake()
        return True

    def _write(self, b: Batch, r: Item, encoded: bytes, callback: Callback | None, delivery: Handle) -> None:
        delivery._place = b, b.count
        if callback is not None:
            b._callbacks.append((delivery, callback))
        b._put(r, encoded)
        self.accepted += not r.forced

    def _start(self, t: Topic[Batch], r: Item, news: bool, more: int) -> tuple[bool, Callbacks | None]:
        """Open a batch for `r`, with room for `more` bytes; returns whether to wake the loop, and what to do first if there is no room."""
        need = r.alone
        if not r.forced:
            self._check_size(t, need)
        now = self._clock()
        partition = self._stick(t, need + more) if r.free else r.partition
        if partition in t.open:
            return news, None
        cap = 0 if self._must_queue(t, r) else self._start_size(t, partition, need, more, r.asked)
        if cap == 0:
            if not r.forced:
                return news, lambda: self._wait_for_room(t, r, need + more)
            cap = need
        batch = Batch(self, t, partition, now)
        if r.forced:
            batch.sent_at = r.sent_at
        self._introduce(batch, cap)
        t.open[partition] = batch
        t.lane.opened[batch] = None
        if now + batch.linger < self.wake_at:
            self.wake_at, news = now + batch.linger, True
        return news, None

    def _stick(self, t: Topic[Batch], need: int) -> int:
        """The sticky partition; the next one if it has had its share or is full."""
        if t.sticky_bytes >= self._batch_size:
            self._rotate(t)
        for _ in t.available:
            if self._partition_fits(t, t.sticky, need):
                break
            t.step()
        return t.sticky

    def _rotate(self, t: Topic[Batch]) -> None:
        rotate(t, self._batch_size if self._plan.adaptive else 0)

    def _enlarge(self, t: Topic[Batch], b: Batch, r: Item, need: int) -> Callbacks | None:
        """`r` does not fit into `b`: enlarge it, or seal it; returns what to do first, without the lock."""
        if not r.forced:
            self._check_size(t, r.alone)
        if need <= t.capacity:  # also ahead of waiting threads: once the batch is full, this thread waits as well
            cap = grown(t, b._cap, need)
            if self._fits(t, b.partition, cap - b._cap):
                b._resize(cap)
                return None
        if r.forced and need <= t.capacity:
            b._resize(need)
            return None
        return self._fill(t, b, r, need > t.capacity)

    def _fill(self, t: Topic[Batch], b: Batch, r: Item, full: bool) -> Callbacks | None:
        """Seal `b`, which has no room for `r`, or is complete with it; returns what to do afterwards, without the lock."""
        self._close(b, False)
        if full:
            t.last_was_full.add(b.partition)
        elif t.policy.limited and b._used * 2 < t.capacity:
            t.last_was_full.discard(b.partition)
        if r.free and b.partition == t.sticky:
            self._rotate(t)
        if not b.ready:
            return None if r.forced and self.defers else b.compress
        return self._tell if self.can_send else None

    def _tell(self) -> None:
        self._wake()

    def _close(self, b: Batch, taken: bool) -> None:
        if not taken:
            self._sealed.append(b)
        self._detach(b)
        b.state = SEALED

    # ---- records whose topic is not known yet

    def _park(self, t: Topic[Batch], r: Item, callback: Callback | None, delivery: Handle) -> bool:
        """Keep `r` until its topic's partitions are known; False if they became known, or `t` was dropped, meanwhile."""
        if self._plan.function is not None and r.partition < 0:
            self._await_topic(t, r)
            return False
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
            if self._drop_error is not None:
                self.hurry(size)
                self._drop(t, r, "BUFFER_FULL", self._drop_error, callback, delivery)
                return True
            r.deadline = self._make_room(t.name, r.partition, size, r.deadline)
            r.asked = True

    def _await_topic(self, t: Topic[Batch], r: Item) -> None:
        """Wait until the partitions of `t` are known, for the application's function; `t` may be dropped then."""
        assert self._find_topic is not None
        while not t.direct and not t.dropped:
            self._check_open()
            if not t.announced:
                self._new_topic(t.name)
                t.announced = True
            r.deadline = self._find_topic(t.name, r.deadline)

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
        name = exact_name(topic)
        policy = self._policy_of(name)
        with self._lock():
            t = self._named(name, policy)
            if count <= 0:
                return
            if t.count == 0:  # so that not every producer starts with partition 0
                t.cursor = self._seed % len(chosen)
                t.dice = self._seed + 1
                self._seed = (self._seed * 1103515245 + 12345) & MAX_INT
            t.available, t.online = chosen, frozenset(chosen)
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
        self._lost_times = -1, -1
        if t is None:
            return 0, misplaced
        while limit > 0 and t.parked and t.count > 0:
            limit -= 1
            p = t.parked[0]
            missing = p.item.partition >= t.count and not self._plan.wraps
            if missing and patient:
                break
            if missing:
                misplaced.append(self._lose(t, p))
            else:
                self._place(t, p)
        self._nudge()
        return len(t.parked), misplaced

    def _lose(self, t: Topic[Batch], p: Parked) -> tuple[str, Exception, Callbacks | None]:
        error = _no_partition(t, p.item.partition)
        lost = self._failed_batch(t, "UNKNOWN_TOPIC_OR_PARTITION", error)
        with self._lock():
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
        self._lost_times = -1, -1
        with self._lock():
            if t is None or not t.parked or t.parked[0].created > before:
                return 0, None
        lost = self._failed_batch(t, short_name(error), error)
        with self._lock():
            while t.parked and t.parked[0].created <= before:
                self._fail_oldest(t, lost)
            rows = lost._conclude()
        return lost.count, lost._left_to_call(rows)

    def _failed_batch(self, t: Topic[Batch], code: str, error: BaseException) -> Batch:
        """A failed batch without bytes, for parked records that will not get a partition."""
        batch = Batch(self, t, UNDECIDED, 0.0)
        batch.state, batch._kept, batch._code, batch._cause = SEALED, [], code, fresh(error)
        batch._used, batch._failed_before = 0, self.failed
        with self._lock():
            self._introduce(batch, 0)
        if self.watch is not None:
            self.watch(batch)  # before its outcome: so what this adds belongs to it
        batch.state = FAILED
        return batch

    def _fail_oldest(self, t: Topic[Batch], b: Batch) -> None:
        """Fail the oldest parked record of `t`, as part of `b`."""
        p = self._unpark(t)
        r = p.item
        first, last = self._lost_times
        self._lost_times = r.timestamp if first < 0 else min(first, r.timestamp), max(last, r.timestamp)
        assert isinstance(b._kept, list)
        b._kept.append(
            ProducerRecord(t.name, r.value, r.key, r.headers, r.partition if r.partition >= 0 else None, r.timestamp, Written.NO)
        )
        p.delivery._place = b, b.count  # last: another thread that reads the handle must find the batch failed
        b.count += 1
        self.failed += 1
        b._extras += [(p.delivery, p.callback)] if p.callback is not None else []
        b._extras += p.extras

    def direct(self, topic: str) -> bool:
        """Whether the partitions of `topic` are known and no earlier record waits for one."""
        t = self._topics.get(exact_name(topic))
        return t is not None and t.direct

    def parked(self, topic: str) -> tuple[int, float]:
        """(How many records of `topic` wait for its partitions, when the oldest was sent or 0.0.)"""
        t = self._topics.get(exact_name(topic))
        return (len(t.parked), t.parked[0].created) if t is not None and t.parked else (0, 0.0)

    # ---- the loop

    def take(self, now: float, no_linger: bool = False) -> tuple[list[Batch], list[Batch], float]:
        """(batches sealed since the last call, in order; open ones whose linger has ended since, or ends soon; when to call again).

        A call that finds such a batch also takes those whose linger ends within an eighth of it: one turn of the loop instead of several.
        If the oldest was opened that soon after the last such call, records come steadily, and the next batch is expected: the loop is
        not woken when it is opened, and calls again by itself. With `no_linger` every batch that was opened by `now` is due.
        """
        with self._lock():
            self._sweep()
            due: list[Batch] = []
            again = INFINITY
            for lane in self._lanes.values():
                again = min(again, lane.take(now + lane.linger if no_linger else now, self._flushing, due))
            self._flushing, self.wake_at = False, again
            taken, self._sealed = self._sealed, []
            return [batch for batch in taken if batch.state == SEALED], due, self.wake_at

    def seal(self, batch: Batch, taken: bool = False) -> bool:
        """Seal an open batch now; False if it is already sealed, or empty. If `taken`, the caller has it: `take` does not return it.

        The next record without a key goes to another partition: else a slow stream would stay with one for `batch_size` bytes.
        """
        with self._lock():
            if batch.state != OPEN or batch.count == 0:
                return False
            if batch._acc is not self:
                raise ValueError(f"{batch!r} belongs to another accumulator")
            if batch.size * 2 < batch._home.capacity:
                batch._home.last_was_full.discard(batch.partition)
            self._close(batch, taken)
            if len(batch._home.available) > 1 and batch.partition == batch._home.sticky:
                self._rotate(batch._home)
            return True

    def limit_batches(self, topic: str, size: int) -> None:
        """Fill no batch of `topic` beyond `size` bytes from now on: brokers refuse larger ones. A larger record has a batch of its own."""
        with self._lock():
            t = self._topics.get(exact_name(topic))
            if t is not None and size > 0:
                t.capacity = min(t.capacity, size)

    def limit_records(self, topic: str, size: int) -> None:
        """Brokers take batches of `topic` with up to `size` bytes (0: it is not known), whatever was known before: fill none beyond that
        from now on, and refuse larger records if they are not compressed.
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
        """Give `batch`, sealed and `ready`, the partition that it was not given before. Its bytes count there from now on."""
        if batch._acc is not self or batch.state != SEALED or not batch.ready or batch.partition >= 0:
            raise RuntimeError(f"{batch!r} cannot be given a partition")
        with self._lock():
            t = self._topics.get(batch.topic)
            if t is None or not 0 <= partition < t.count:
                raise ValueError(f"{batch!r}: there is no partition {partition}")
            self._reserve(t, batch.partition, -batch._cap - batch._noted)
            self._reserve(t, partition, batch._cap + batch._noted)
            batch.partition = partition
        self._nudge()

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
            self._drops.pop(t.name, None)  # what was dropped and not taken is still in `_fresh_drops`
            return True

    @property
    def lost_times(self) -> tuple[int, int]:
        """First and last timestamp of the parked records that the last call of `designate` or `fail_parked` has failed; -1: none."""
        return self._lost_times

    def census(self) -> tuple[int, list[tuple[Batch, int, bool]], list[tuple[str, int]]]:
        """(How many records were accepted; (batch, records, in flight) for each batch without an outcome; (topic, records) where any are
        parked.)

        On the loop thread. All numbers are of one moment.
        """
        with self._lock():
            batches = [(batch, batch.count, batch.in_flight) for batch in self._live if batch.state <= SEALED and batch.count > 0]
            return self.accepted, batches, [(t.name, len(t.parked)) for t in self._topics.values() if t.parked]

    def unfinished(self) -> list[Batch | Handle]:
        """Everything that is not settled: batches, and the handles of parked records."""
        with self._lock():
            return [*self._live, *(p.delivery for t in self._topics.values() for p in t.parked)]


def _no_partition(t: Topic[Batch], partition: int) -> ValueError:
    return ValueError(f"{t.name}: partition={partition} but the topic has {t.count} partitions, 0 to {t.count - 1}")
