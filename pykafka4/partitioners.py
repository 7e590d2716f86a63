"""Lists the named partitioners. Each is one row of `NAMED`: the hash of keys, the keys that count as null, the spread of records whose key
is not hashed, and the meaning of the argument `partition`.

The option `partitioner` is one of these names or a callable. `wire.records` computes partitions, in the compiled core and in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import attrs

__all__ = ["DEFAULT", "NAMED", "Hash", "PartitionFunction", "Partitioner", "Spread", "PartitionArgument", "partitioner"]

# A callable that returns the partition of a record. Its arguments are topic, key, all partitions of the topic, and the partitions with a
# leader (all partitions, if none is known to have a leader).
PartitionFunction: TypeAlias = Callable[[str, bytes | None, Sequence[int], Sequence[int]], int]

# Values of `Partitioner.least_key`.
ANY_KEY: Final = -1  # every key is hashed, a null key like an empty one
NOT_NULL: Final = 0
NOT_EMPTY: Final = 1


class Hash(IntEnum):
    """The function that computes the partition of a record from its key."""

    NONE = 0  # keys are ignored
    MURMUR2 = 1
    CRC32 = 2
    FNV1A = 3


class Spread(IntEnum):
    """The way in which a record gets its partition if its key is not hashed."""

    STICKY = 0  # records go to one partition until it has received about a batch; then a partition is chosen again
    ROUND_ROBIN = 1  # records go to the partitions in turn
    LATE = 2  # a batch gets its partition when its request is built


class PartitionArgument(IntEnum):
    """The meaning of the argument `partition` of `send`."""

    NONE = 0  # a partition, which must exist
    WAIT = 1  # a number: the partition is this number modulo the number of partitions
    NEXT = 2  # as WAIT; while this partition has no leader, the next partition with a leader


@attrs.frozen
class Partitioner:
    hash: Hash = Hash.MURMUR2
    least_key: int = NOT_NULL  # keys of at least this many bytes are hashed; a null key counts as -1 bytes
    spread: Spread = Spread.STICKY
    partition_argument: PartitionArgument = PartitionArgument.NONE
    adaptive: bool = True  # for STICKY: a partition with much unacknowledged data is chosen less often
    function: PartitionFunction | None = None  # the application's callable, in place of the other fields


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
    "partition_key": Partitioner(partition_argument=PartitionArgument.NEXT),
    "partition_key_wait": Partitioner(partition_argument=PartitionArgument.WAIT),
    "late_partition_key": Partitioner(spread=Spread.LATE, partition_argument=PartitionArgument.NEXT),
    "late_partition_key_wait": Partitioner(spread=Spread.LATE, partition_argument=PartitionArgument.WAIT),
}


def partitioner(chosen: str | PartitionFunction, ignore_keys: bool, adaptive: bool) -> Partitioner:
    if not isinstance(chosen, str):
        return Partitioner(function=chosen)
    named = attrs.evolve(NAMED[chosen], adaptive=adaptive)
    return attrs.evolve(named, hash=Hash.NONE) if ignore_keys else named
