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

__all__ = ["PARKING", "Callback", "Handle", "Parked", "Topic", "murmur2"]

PARKING: Final = -2  # the partition of a topic's placeholder batch for parked records

B = TypeVar("B")  # `Batch`, whose module imports this one


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
class Topic(Generic[B]):
    """A topic's state in the accumulator."""

    name: str
    count: int = 0  # partitions; 0 while unknown
    direct: bool = False  # partitions are known and nothing is parked: records go straight into batches
    announced: bool = False  # the loop has been notified that records wait here
    dropped: bool = False  # removed from the accumulator's topics: a send that found it earlier looks it up again
    open: dict[int, B] = attrs.Factory(dict)  # by partition
    held: dict[int, int] = attrs.Factory(dict)  # bytes reserved, by partition
    last_was_full: set[int] = attrs.Factory(set)  # partitions whose last batch was full: the next one starts large
    available: list[int] = attrs.Factory(list)  # partitions with a leader
    cursor: int = 0
    sticky: int = 0  # the current partition of records without key and partition
    sticky_bytes: int = 0  # bytes sent to it so far
    parked: deque[Parked] = attrs.Factory(deque)
    parked_first: int = 0  # running number of its head
    parked_bytes: int = 0
    moved_bytes: int = 0  # of parked records, to their partitions, since records last went straight there
    placeholder: B | None = None  # the batch of parked records' handles

    def rotate(self) -> None:
        """The next available partition becomes the sticky one."""
        self.cursor = (self.cursor + 1) % len(self.available)
        self.sticky = self.available[self.cursor]
        self.sticky_bytes = 0

    def parked_at(self, number: int) -> Parked:
        """The parked record with that running number."""
        return self.parked[number - self.parked_first]
