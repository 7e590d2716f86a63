"""Chooses partitions and keeps the state of one topic, in plain Python; `_choose.pxi` and `_park.pxi` are the compiled counterparts.

Invariant: with the default partitioner a key gets the same partition as in the Java client.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.partitioners import Hash
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records.common import chosen_partition, partitioner_failed
from pykafka4.wire.records.layout import HEADER_SIZE
from pykafka4.wire.records.policy import Policy

__all__ = ["HASHES", "PARKING", "Topic", "murmur2"]

PARKING: Final = -2  # the partition of a topic's placeholder batch for parked records
MASK: Final = 2**64 - 1


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


def _fnv1a(key: bytes) -> int:
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return 2**32 - h if h >> 31 else h  # librdkafka reads the hash as a signed number, and takes its absolute value


HASHES: Final[dict[int, Callable[[bytes], int]]] = {
    Hash.MURMUR2: lambda key: murmur2(key) & 0x7FFFFFFF,
    Hash.CRC32: zlib.crc32,
    Hash.FNV1A: _fnv1a,
}


@attrs.define(eq=False)
class Topic:
    """A topic's state in the accumulator."""

    name: str
    policy: Policy
    capacity: int  # bytes up to which a batch grows; a larger record gets a separate batch
    max_record: int
    max_record_option: str = "max_request_size"  # the option that sets `max_record`
    count: int = 0  # number of partitions; 0 while unknown
    direct: bool = False  # partitions are known and nothing is parked: records go straight into batches
    announced: bool = False  # the loop knows the topic, and will move or fail the records parked here
    dropped: bool = False  # removed from the accumulator's topics: a `send` that found it earlier looks up its name again
    open: dict[int, Any] = attrs.Factory(dict)  # the open batches, by partition
    held: dict[int, int] = attrs.Factory(dict)  # bytes reserved, by partition
    available: list[int] = attrs.Factory(list)  # partitions with a leader; all, if none has one
    random_state: int = 1  # state of the random number generator
    cursor: int = 0
    sticky: int = 0  # the current partition of records that may go to any partition
    sticky_bytes: int = 0  # bytes of batches closed for the sticky partition since it became the sticky one
    parked: deque[Item] = attrs.Factory(deque)
    parked_first: int = 0  # running number of the oldest parked record
    parked_bytes: int = 0
    moved_bytes: int = 0  # bytes of records moved from `parked` to their partitions; 0 once `parked` is empty
    placeholder: Any = None  # the batch to which handles of parked records refer

    def stays_plain(self, raw: int) -> bool:
        return self.policy.codec == 0 or raw - HEADER_SIZE < self.policy.compression_min_bytes

    def limit_records(self, size: int, option: str) -> None:
        """Let no batch grow beyond `size` bytes; refuse a record that alone exceeds `size`. The error names the lowest limit."""
        if size < self.max_record:
            self.max_record, self.max_record_option = size, option
        self.capacity = min(self.capacity, size)

    def next_online(self, partition: int) -> int:
        """`partition`, or the next one that has a leader."""
        return next((p % self.count for p in range(partition, partition + self.count) if p % self.count in self.available), partition)

    def in_turn(self, fits: Callable[[int], bool]) -> int:
        """The next partition in turn that is not full; if all are full, the current one."""
        for _ in self.available:
            self.cursor = (self.cursor + 1) % len(self.available)
            if fits(self.available[self.cursor]):
                break
        return self.available[self.cursor]

    def ask(self, function: Callable[..., Any], key: bytes | None) -> int:
        try:
            chosen = function(self.name, key, range(self.count), tuple(self.available))
        except Exception as error:
            raise partitioner_failed(self.name, function, error) from error
        return chosen_partition(self.name, function, chosen, self.count)

    def stick(self, cursor: int) -> None:
        self.cursor = cursor % len(self.available)
        self.sticky, self.sticky_bytes = self.available[self.cursor], 0

    def rotate(self, unit: int) -> None:
        """Choose the sticky partition again: the next one, or, if `unit` is not 0 and a partition holds data, a random one as in KIP-794.

        A partition's weight in the random choice is `unit` plus the number of bytes (open, waiting or in flight) by which the fullest
        partition exceeds it. So a partition with a slow broker gets fewer records.
        """
        held = [self.held.get(p, 0) for p in self.available] if unit else []
        most = max(held, default=0)
        if most == 0 or len(held) == 1:
            self.stick(self.cursor + 1)
            return
        self.random_state ^= self.random_state << 13 & MASK
        self.random_state ^= self.random_state >> 7
        self.random_state ^= self.random_state << 17 & MASK
        at = self.random_state % ((most + unit) * len(held) - sum(held))
        for i, some in enumerate(held):
            at -= most + unit - some
            if at < 0:
                self.stick(i)
                return
