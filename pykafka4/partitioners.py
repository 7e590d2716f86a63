"""Partitioners. Rule: a named partitioner is one row of `NAMED`: how keys are hashed, which keys count as none, where the others go.

The option `partitioner` is one of these names or a callable. `wire.records` carries them out, in the compiled core and in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import attrs

__all__ = ["DEFAULT", "NAMED", "Hash", "PartitionFunction", "Partitioner", "Spread", "Wraps", "partitioner"]

# Called with topic, key, all partitions of the topic, and those with a leader (all, if none is known to have one); returns the partition.
PartitionFunction: TypeAlias = Callable[[str, bytes | None, Sequence[int], Sequence[int]], int]

ANY_KEY: Final = -1  # the least size of a key that is hashed: a null key is hashed as an empty one
NOT_NULL: Final = 0
NOT_EMPTY: Final = 1


class Hash(IntEnum):
    """How the partition of a record is computed from its key."""

    NONE = 0  # keys are ignored
    MURMUR2 = 1
    CRC32 = 2
    FNV1A = 3


class Spread(IntEnum):
    """Where records go whose key does not choose the partition."""

    STICKY = 0  # to one partition until it has had a batch, then to another one
    ROUND_ROBIN = 1  # each to the next partition
    LATE = 2  # a batch gets its partition when a request with it is built


class Wraps(IntEnum):
    """What the argument `partition` of `send` means."""

    NONE = 0  # a partition, which must exist
    WAIT = 1  # a number modulo all partitions
    NEXT = 2  # the same; while that partition has no leader, the next one that has


@attrs.frozen
class Partitioner:
    """How records without an explicit partition get one."""

    hash: Hash = Hash.MURMUR2
    least_key: int = NOT_NULL  # keys of at least that many bytes are hashed; a null key has -1
    spread: Spread = Spread.STICKY
    wraps: Wraps = Wraps.NONE
    adaptive: bool = True  # sticky: a partition with much unsent data is chosen less often
    function: PartitionFunction | None = None  # chooses instead


DEFAULT: Final = "murmur2"
NAMED: Final = {
    "murmur2": Partitioner(),
    "murmur2_random": Partitioner(),
    "murmur2_consistent": Partitioner(least_key=ANY_KEY),
    "consistent_random": Partitioner(Hash.CRC32, NOT_EMPTY),
    "consistent": Partitioner(Hash.CRC32, ANY_KEY),
    "fnv1a_random": Partitioner(Hash.FNV1A),
    "fnv1a": Partitioner(Hash.FNV1A, ANY_KEY),
    "random": Partitioner(Hash.NONE),
    "round_robin": Partitioner(Hash.NONE, spread=Spread.ROUND_ROBIN),
    "late": Partitioner(spread=Spread.LATE),
    "partition_key": Partitioner(wraps=Wraps.NEXT),
    "partition_key_wait": Partitioner(wraps=Wraps.WAIT),
    "late_partition_key": Partitioner(spread=Spread.LATE, wraps=Wraps.NEXT),
    "late_partition_key_wait": Partitioner(spread=Spread.LATE, wraps=Wraps.WAIT),
}


def partitioner(chosen: str | PartitionFunction, ignore_keys: bool, adaptive: bool) -> Partitioner:
    """What the options `partitioner`, `partitioner_ignore_keys` and `partitioner_adaptive_partitioning_enable` mean together."""
    if not isinstance(chosen, str):
        return Partitioner(function=chosen)
    named = attrs.evolve(NAMED[chosen], adaptive=adaptive)
    return attrs.evolve(named, hash=Hash.NONE) if ignore_keys else named
