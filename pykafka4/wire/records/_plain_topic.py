"""Topics, in plain Python: their partitions, and records that wait until these are known. Rule: a key gets the same partition as in Java.

Together with `reference.py` the counterpart of `_park.pxi`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records.layout import HEADER_SIZE
from pykafka4.wire.records.policy import Policy

__all__ = ["PARKING", "Callback", "Handle", "Lane", "Parked", "Topic", "murmur2"]

PARKING: Final = -2  # the partition of a topic's placeholder batch for parked records

INFINITY: Final = float("inf")


class Dated(Protocol):
    """The part of a `Batch`, whose module imports this one, that a lane uses."""

    count: int
    created: float


B = TypeVar("B", bound=Dated)


class Handle(Protocol):
    """The part of a `Delivery` that the modules below it use."""

    _place: tuple[Any, int]

    @property
    def topic(self) -> str: ...

    def _home(self) -> Any: ...


Callback: TypeAlias = Callable[[Any], object]  # of `send` or `add_done_callback`: called with the `Delivery`


def murmur2(data: Buffer) -> int:
    """Kafka's hash of a key, as in the Java client (a signed 32-bit int)."""
    key = memoryview(data).cast("B")
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for (k,) in struct.iter_unpack("<I", key[:whole]):
        k = k * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (h >> 31 << 32)


@attrs.define(eq=False)
class Parked:
    """A record whose topic's partitions are not known yet."""

    item: Item
    delivery: Handle
    callback: Callback | None
    created: float
    size: int
    extras: list[tuple[Handle, Callback]] = attrs.Factory(list)


@attrs.define(eq=False)
class Lane(Generic[B]):
    """The open batches of all topics with the same linger, by age."""

    linger: float
    opened: dict[B, None] = attrs.Factory(dict)
    taken_at: float = -INFINITY  # when `take` last took batches whose linger had ended
    expected: float = INFINITY  # when it is to look for the next of them, if records come steadily

    def take(self, now: float, flushing: bool, due: list[B]) -> float:
        """Append the batches that are due to `due`; returns when to look again. See `Accumulator.take`."""
        found: list[B] = []
        soon = self.linger / 8
        limit = now if now < self.expected else now + soon
        deadline = INFINITY
        for batch in self.opened:
            if batch.count == 0:  # just opened, its record is about to be written
                deadline = max(batch.created + self.linger, now + 0.001)
                break
            if batch.created + self.linger > limit and not flushing:
                deadline = batch.created + self.linger
                break
            found.append(batch)
            limit = now + soon
        for batch in found:
            del self.opened[batch]
        due += found
        if found and not flushing:
            steady = self.linger > 0 and self.taken_at <= found[0].created <= self.taken_at + soon
            self.taken_at, self.expected = now, now + self.linger if steady else INFINITY
        elif now >= self.expected:
            self.expected = INFINITY
        return min(deadline, self.expected)


@attrs.define(eq=False)
class Topic(Generic[B]):
    """A topic's state in the accumulator."""

    name: str
    policy: Policy
    lane: Lane[B]
    capacity: int  # a batch grows up to this; a larger record has a batch of its own
    max_record: int
    max_record_option: str  # what sets it
    count: int = 0  # partitions; 0 while unknown
    direct: bool = False  # partitions are known and nothing is parked: records go straight into batches
    announced: bool = False  # the loop has been notified that records wait here
    dropped: bool = False  # removed from the accumulator's topics: a send that found it earlier looks it up again
    open: dict[int, B] = attrs.Factory(dict)  # by partition
    held: dict[int, int] = attrs.Factory(dict)  # bytes reserved, by partition
    last_was_full: set[int] = attrs.Factory(set)  # partitions whose last batch was full: the next one starts large
    available: list[int] = attrs.Factory(list)  # partitions with a leader
    online: frozenset[int] = frozenset()  # the same
    dice: int = 1  # state of the random numbers
    cursor: int = 0
    sticky: int = 0  # the current partition of records without key and partition
    sticky_bytes: int = 0  # bytes sent to it so far
    parked: deque[Parked] = attrs.Factory(deque)
    parked_first: int = 0  # running number of its head
    parked_bytes: int = 0
    moved_bytes: int = 0  # of parked records, to their partitions, since records last went straight there
    placeholder: B | None = None  # the batch of parked records' handles

    def stays_plain(self, raw: int) -> bool:
        """Whether a batch of `raw` bytes is not to be compressed."""
        return self.policy.codec == 0 or raw - HEADER_SIZE < self.policy.compression_min_bytes

    def limit_records(self, size: int, option: str) -> None:
        """No record may have a larger batch than `size`."""
        if size < self.max_record:
            self.max_record, self.max_record_option = size, option
        self.capacity = min(self.capacity, size)

    def step(self) -> None:
        """The next available partition becomes the sticky one."""
        self.stick((self.cursor + 1) % len(self.available))

    def stick(self, cursor: int) -> None:
        """That one of the available partitions becomes the sticky one."""
        self.cursor, self.sticky, self.sticky_bytes = cursor, self.available[cursor], 0

    def parked_at(self, number: int) -> Parked:
        """The parked record with that running number."""
        return self.parked[number - self.parked_first]
