"""Room for records, in plain Python. Rule: what the limits allow is decided here, and nowhere else.

Together with `reference.py` the counterpart of the part of `_append.pxi` about memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka4.errors import BufferFull, RecordTooLarge
from pykafka4.partitioners import Partitioner, Spread
from pykafka4.wire.records._plain_arguments import UNDECIDED, Item, exact_name, integer
from pykafka4.wire.records._plain_batch import Batch
from pykafka4.wire.records._plain_drop import Dropping
from pykafka4.wire.records._plain_topic import Topic

__all__ = ["UNDECIDED", "Room", "grown"]

MAX_INT: Final = 2**31 - 1
SMALL: Final = 2048  # capacity a batch starts with; it doubles


class Room(Dropping):
    """The account with its limits, and what a record without room does."""

    _buffer_memory: int
    _max_partition_bytes: int
    _plan: Partitioner
    _topics: dict[str, Topic[Batch]]
    _make_room: Callable[[str, int, int, float], float]
    _drop_error: BaseException | None
    _limits: str | None
    _flushing = False  # open batches are due

    @property
    def _most_partition(self) -> int:
        return 2**32 - 1 if self._plan.wraps else MAX_INT

    def _partition_of(self, topic: str, partition: int | None) -> int:
        return UNDECIDED if partition is None else integer(topic, "partition", partition, self._most_partition)

    def _check_size(self, t: Topic[Batch], size: int) -> None:
        if size > t.max_record:
            raise RecordTooLarge(
                f"{t.name}: a record of {size} bytes (overhead included) exceeds {t.max_record_option}={t.max_record}; "
                "raise that or split the record"
            )

    def _partition_fits(self, t: Topic[Batch], partition: int, size: int) -> bool:
        """Whether the partition's own limit allows it; an empty partition may always have one batch."""
        held = t.held.get(partition, 0)
        return held == 0 or held + size <= self._max_partition_bytes

    def _fits(self, t: Topic[Batch], partition: int, size: int) -> bool:
        return self._reserved + size <= self._buffer_memory and self._partition_fits(t, partition, size)

    def _start_size(self, t: Topic[Batch], partition: int, need: int, more: int, asked: bool) -> int:
        """The initial capacity of a batch within the limits, which leaves room for `more` bytes; 0 if there is no room.

        A busy partition starts large while there is plenty of memory, and for a thread that has waited for it: in small pieces, threads
        would have to wait for it again and again, and batches would stay small.
        """
        plenty = self._reserved + t.capacity <= self._buffer_memory // 2
        large = need <= t.capacity and partition in t.last_was_full and (asked or plenty)
        if large and self._fits(t, partition, t.capacity + more):
            return t.capacity
        wanted = (grown(t, SMALL, need), need) if need <= t.capacity else (need,)
        return next((cap for cap in wanted if self._fits(t, partition, cap + more)), 0)

    def _must_queue(self, t: Topic[Batch], r: Item) -> bool:
        """Whether waiting threads come first: not if all of them wait for room in full partitions, and `r` is for another one."""
        if self.waiters == 0 or r.asked or r.forced:
            return False
        full = self.full_partitions  # read once: another thread may replace it
        return full is None or (t.name, r.decided) in full

    def _wait_for_room(self, t: Topic[Batch], r: Item, size: int) -> None:
        """Wait for room, without the lock: everything may have changed afterwards.

        With on_full=drop: note that there is none. With on_full=raise: BufferFull.
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
            r.partition = UNDECIDED  # chosen again: another one may have room

    def hurry(self, size: int) -> None:
        """There is no room for `size` bytes: open batches are due, unless only a partition's limit is in the way."""
        if self._reserved + size > self._buffer_memory and not self._flushing:
            self._flushing = True
            if self.can_send:
                self._wake()

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
        slots = [partition] if partition >= 0 or self._plan.spread == Spread.LATE else t.available
        return not any(self._partition_fits(t, p, nbytes) for p in slots)


def grown(t: Topic[Batch], cap: int, need: int) -> int:
    """The capacity of a batch that has `cap` and needs `need`."""
    while cap < need:
        cap *= 2
    return min(cap, t.capacity)
