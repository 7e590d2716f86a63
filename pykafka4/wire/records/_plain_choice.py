"""The partition of a record, in plain Python. Rule: what `partitioners.NAMED` says.

The counterpart of `_choose.pxi`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from pykafka4.partitioners import Hash
from pykafka4.wire.records._plain_arguments import Item
from pykafka4.wire.records._plain_topic import Topic, murmur2
from pykafka4.wire.records.common import chosen_partition, partitioner_failed

__all__ = ["HASHES", "ask_function", "in_turn", "next_online", "rotate"]

MASK: Final = 2**64 - 1


def _fnv1a(key: bytes) -> int:
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return 2**32 - h if h >> 31 else h  # librdkafka takes it as a signed number, without its sign


HASHES: Final[dict[int, Callable[[bytes], int]]] = {
    Hash.MURMUR2: lambda key: murmur2(key) & 0x7FFFFFFF,
    Hash.CRC32: zlib.crc32,
    Hash.FNV1A: _fnv1a,
}


def next_online(t: Topic[Any], partition: int) -> int:
    """`partition`, or the next one that has a leader."""
    return next((p % t.count for p in range(partition, partition + t.count) if p % t.count in t.online), partition)


def in_turn(t: Topic[Any], fits: Callable[[int], bool]) -> int:
    """The next partition in turn. A full one is passed over, unless all are full."""
    for _ in t.available:
        t.cursor = (t.cursor + 1) % len(t.available)
        if fits(t.available[t.cursor]):
            break
    return t.available[t.cursor]


def ask_function(t: Topic[Any], r: Item, function: Callable[..., Any]) -> int:
    """The partition that the application's function chooses."""
    try:
        chosen = function(t.name, r.key, range(t.count), tuple(t.available))
    except Exception as error:
        raise partitioner_failed(t.name, function, error) from error
    return chosen_partition(t.name, function, chosen, t.count)


def rotate(t: Topic[Any], unit: int) -> None:
    """Another partition becomes the sticky one: the next one, or if `unit` is not 0 and data waits somewhere, one drawn as in KIP-794.

    A partition is the less likely the more bytes it holds (open, waiting or in flight): one with the most of all has the weight `unit`, an
    idle one that much more than the most.
    """
    held = [t.held.get(p, 0) for p in t.available] if unit else []
    most = max(held, default=0)
    if most == 0 or len(held) == 1:
        t.step()
        return
    t.dice ^= t.dice << 13 & MASK
    t.dice ^= t.dice >> 7
    t.dice ^= t.dice << 17 & MASK
    at = t.dice % ((most + unit) * len(held) - sum(held))
    for i, some in enumerate(held):
        at -= most + unit - some
        if at < 0:
            t.stick(i)
            return
