"""Keeps topics, and the records that are parked until the partitions of their topic are known, in plain Python.

Invariant: parked records keep their order, and no later record of their topic overtakes them. The compiled counterparts are
`_park.pxi` and parts of `_choose.pxi` and `_policy.pxi`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pykafka4.errors import short_name
from pykafka4.records import ProducerRecord, Written
from pykafka4.wire.records._plain_account import MAX_INT, Account
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, exact_name
from pykafka4.wire.records._plain_batch import FAILED, SEALED, Batch, Callback, Callbacks
from pykafka4.wire.records._plain_topic import PARKING, Topic
from pykafka4.wire.records.common import fresh
from pykafka4.wire.records.policy import Policy

__all__ = ["INFINITY", "PARKED_COST", "Parking", "no_partition"]

PARKED_COST: Final = 128  # bytes reserved for a parked record in addition to the size of a batch with only this record
INFINITY: Final = float("inf")


class Parking(Account):
    """The accumulator's topics and their parked records."""

    _batch_size: int
    _max_request_size: int
    _asked_request_size: int
    _seed: int
    _clock: Callable[[], float]
    _policy: Callable[[str], Policy]
    _new_topic: Callable[[str], object]
    _find_topic: Callable[[str, float], float] | None
    _used_up = 0  # number of ended announcements: the parked records were moved or failed, or the topic was dropped
    _lost_times = -1, -1  # see `lost_times`

    def _append(self, t: Topic, r: Item, callback: Callback | None, delivery: Any) -> bool:
        """Write `r` into a batch, or drop it; return False if `t` was dropped meanwhile."""
        raise NotImplementedError

    # ---- records whose topic is not known yet

    def _park(self, t: Topic, r: Item, callback: Callback | None, delivery: Any) -> bool:
        """Park or drop `r`; return False if meanwhile the partitions of its topic became known, or `t` was dropped."""
        if self._plan.function is not None and r.partition < 0:
            self._await_topic(t, r)
            return False
        self._check_size(t, r)
        size = r.alone + PARKED_COST
        while True:
            if not t.announced:
                self._new_topic(t.name)
                t.announced = True
            with self._lock():
                self._check_open()
                if t.direct or t.dropped:
                    return False
                if not t.announced:  # the announcement ended before the lock was taken: no code would move `r`
                    continue
                if not self._must_queue(t, r) and self.room(t.name, UNDECIDED, size):
                    r.delivery, r.callback, r.created, r.size = delivery, callback, self._clock(), size
                    self._keep(t, r)
                    return True
            if self._drop_error is not None:
                self.hurry(size)
                self._drop(t, r, "BUFFER_FULL", self._drop_error, callback, delivery)
                return True
            r.deadline = self._make_room(t.name, r.partition, size, r.deadline)
            r.asked = True

    def _await_topic(self, t: Topic, r: Item) -> None:
        """Wait until the partitions of `t` are known and no record of `t` is parked, or until `t` is dropped."""
        assert self._find_topic is not None
        while not t.direct and not t.dropped:
            self._check_open()
            if not t.announced:
                self._new_topic(t.name)
                t.announced = True
            r.deadline = self._find_topic(t.name, r.deadline)

    def _keep(self, t: Topic, p: Item) -> None:
        p.delivery._place = t.placeholder, t.parked_first + len(t.parked)
        t.parked.append(p)
        t.parked_bytes += p.size
        self._reserved += p.size
        self.parked_records += 1
        self.accepted += 1

    def _unpark(self, t: Topic) -> Item:
        p = t.parked.popleft()
        t.parked_first += 1
        t.parked_bytes -= p.size
        self._reserved -= p.size
        self.parked_records -= 1
        if not t.parked:
            t.moved_bytes = 0
            t.announced, t.direct = False, t.count > 0
            self._used_up += 1
            if self.waiters > 0:  # a thread that waits since before may need the room of these records: it must not wait for their linger
                self._flushing = True
        return p

    def set_partitions(self, topic: str, count: int, available: Sequence[int]) -> None:
        """`available` has the partitions with a leader; if there are none, all partitions count as available."""
        chosen = [p for p in available if 0 <= p < count] or list(range(count))
        name = exact_name(topic)
        policy = self._policy_of(name)
        with self._lock():
            t = self._named(name, policy)
            if count <= 0:
                return
            if t.count == 0:  # a seeded start: otherwise every producer would begin with partition 0
                t.cursor = self._seed % len(chosen)
                t.random_state = self._seed + 1
                self._seed = (self._seed * 1103515245 + 12345) & MAX_INT
            t.available = chosen
            if t.count == 0 or t.sticky not in chosen:
                t.stick(t.cursor)
            t.count, t.direct = count, not t.parked

    def designate(self, topic: str, limit: int = 1000, patient: bool = False) -> tuple[int, list[tuple[str, Exception, Callbacks | None]]]:
        """Move up to `limit` parked records, in order, into batches.

        Returns the number of records still parked, and a list: for each record whose partition does not exist, (code, error, None or a
        callable that runs its callbacks). With `patient` such a record and the records after it stay parked.
        """
        t = self._topics.get(exact_name(topic))
        misplaced: list[tuple[str, Exception, Callbacks | None]] = []
        self._lost_times = -1, -1
        if t is None:
            return 0, misplaced
        while limit > 0 and t.parked and t.count > 0:
            limit -= 1
            p = t.parked[0]
            missing = p.partition >= t.count and not self._plan.partition_argument
            if missing and patient:
                break
            if missing:
                misplaced.append(self._lose(t, p))
            else:
                self._place(t, p)
        self._nudge()
        return len(t.parked), misplaced

    def _lose(self, t: Topic, p: Item) -> tuple[str, Exception, Callbacks | None]:
        error = no_partition(t, p.partition)
        lost = self._failed_batch(t, "UNKNOWN_TOPIC_OR_PARTITION", error)
        with self._lock():
            self._fail_oldest(t, lost)
            rows = lost._conclude()
        return lost._code, error, lost._left_to_call(rows)

    def _place(self, t: Topic, p: Item) -> None:
        """Move `p`, the oldest parked record of `t`, into a batch. Its bytes are already reserved, so `p` needs no room.

        `p` leaves `t.parked` last: until then `t` is not `direct`, so no later record of the topic can overtake it.
        """
        p.forced = True
        with self._lock():
            self._reserved -= p.size
            t.parked_bytes -= p.size
            t.moved_bytes += p.size
            p.size = 0
        self._append(t, p, p.callback, p.delivery)
        with self._lock():
            p.delivery._home()._extras.extend(p.extras)
            self._unpark(t)

    def fail_parked(self, topic: str, error: BaseException, before: float = INFINITY) -> tuple[int, Callbacks | None]:
        """Fail records parked up to the time `before`; return (their number, None or a callable that runs their callbacks)."""
        t = self._topics.get(exact_name(topic))
        self._lost_times = -1, -1
        with self._lock():
            if t is None or not t.parked or t.parked[0].created > before:
                return 0, None
        lost = self._failed_batch(t, short_name(error), error)
        with self._lock():
            while t.parked and t.parked[0].created <= before:  # the oldest is first, so the remaining ones were parked later
                self._fail_oldest(t, lost)
            rows = lost._conclude()
        return lost.count, lost._left_to_call(rows)

    def _failed_batch(self, t: Topic, code: str, error: BaseException) -> Batch:
        """A failed batch without bytes, for parked records that fail."""
        batch = Batch(self, t, UNDECIDED, 0.0)
        batch.state, batch._kept, batch._code, batch._cause = SEALED, [], code, fresh(error)
        batch._used, batch._failed_before = 0, self.failed
        with self._lock():
            self._introduce(batch)
        if self.watch is not None:
            self.watch(batch)  # before the outcome, so that callbacks which `watch` adds belong to this batch
        batch.state = FAILED
        return batch

    def _fail_oldest(self, t: Topic, b: Batch) -> None:
        r = self._unpark(t)
        first, last = self._lost_times
        self._lost_times = r.timestamp if first < 0 else min(first, r.timestamp), max(last, r.timestamp)
        assert isinstance(b._kept, list)
        b._kept.append(
            ProducerRecord(t.name, r.value, r.key, r.headers, r.partition if r.partition >= 0 else None, r.timestamp, Written.NO)
        )
        r.delivery._place = b, b.count  # after the append: a thread that reads the handle must find the record
        b.count += 1
        self.failed += 1
        b._extras += [(r.delivery, r.callback)] if r.callback is not None else []
        b._extras += r.extras

    def direct(self, topic: str) -> bool:
        t = self._topics.get(exact_name(topic))
        return t is not None and t.direct

    def parked(self, topic: str) -> tuple[int, float]:
        """(number of parked records, time at which the oldest was parked, or 0.0)."""
        t = self._topics.get(exact_name(topic))
        return (len(t.parked), t.parked[0].created) if t is not None and t.parked else (0, 0.0)

    @property
    def lost_times(self) -> tuple[int, int]:
        """The lowest and highest timestamps of the parked records that the last `designate` or `fail_parked` failed; -1 if none."""
        return self._lost_times

    def _policy_of(self, name: str) -> Policy:
        """Call this without the lock, because a signal handler that runs meanwhile may send."""
        known = self._topics.get(name)
        return self._policy(name) if known is None else known.policy

    def _named(self, name: str, policy: Policy) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self._new(name, policy)
        return topic

    def _new(self, name: str, policy: Policy) -> Topic:
        topic = Topic(name, policy, self._batch_size, self._max_request_size)
        self._reset_limits(topic)
        topic.placeholder = Batch(self, topic, PARKING, 0.0)
        return topic

    def _reset_limits(self, t: Topic) -> None:
        t.capacity, t.max_record = self._batch_size, self._max_request_size
        t.max_record_option = "the usable buffer_memory" if t.max_record < self._asked_request_size else "max_request_size"
        if t.policy.max_message_bytes:
            t.limit_records(t.policy.max_message_bytes, "max_message_bytes")


def no_partition(t: Topic, partition: int) -> ValueError:
    return ValueError(f"{t.name}: partition={partition}, but the highest partition of the topic is {t.count - 1}")
