"""Defines the results of an admin client. Invariant: no lag is a guess, because a log end that brokers did not return is None, with an
`error`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pykafka4.core.admin.values import GroupDescription, GroupListing
from pykafka4.errors import KafkaError
from pykafka4.records import MemberDescription, OffsetAndMetadata, TopicPartition

__all__ = ["GroupLag", "GroupList", "OffsetPlan", "PartitionLag", "PlannedOffset"]


@attrs.frozen
class GroupList:
    """The groups of a cluster, in the order of their ids. `errors` has the brokers that returned no list: their groups might be missing."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[int, KafkaError]

    def __iter__(self) -> Iterator[GroupListing]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


@attrs.frozen
class PartitionLag:
    """The lag of a group in a partition.

    `committed` is None if no offset is committed. `end` is the high watermark, None if there is an `error`. `owner` is the member that
    has the partition, None if no member has it.
    """

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None
    owner: MemberDescription | None
    error: KafkaError | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed offset to the log end; negative if the log ends earlier, None if either is None."""
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


@attrs.frozen
class GroupLag:
    """A group, and its partitions with a committed offset or an owner, in order."""

    description: GroupDescription
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        """The sum of the lags that are known."""
        return sum(row.lag or 0 for row in self.partitions)


@attrs.frozen
class PlannedOffset:
    """The offset to commit for a partition. `current` is the committed offset, if any; `start` and `end` are the ends of the log.

    `note` gives the reason if `new` is not the wanted offset, and is empty otherwise.
    """

    partition: TopicPartition
    current: int | None
    new: int
    start: int
    end: int
    note: str = ""


@attrs.frozen
class OffsetPlan:
    """The planned offsets of a group, which `set_offsets` can commit.

    `description` is None if no classic or consumer group had this id at the time of the plan. `has_committed` says whether any offsets were
    committed under the id, perhaps by a group of another type, such as a streams group.
    """

    group_id: str
    rows: tuple[PlannedOffset, ...]
    description: GroupDescription | None
    has_committed: bool = False

    @property
    def exists(self) -> bool:
        """Whether a classic or consumer group had this id, or offsets were committed under the id, at the time of the plan."""
        return self.description is not None or self.has_committed

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The new offset of each partition."""
        return {row.partition: row.new for row in self.rows}

    def __iter__(self) -> Iterator[PlannedOffset]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
