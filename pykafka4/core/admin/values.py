"""Declares the results of calls about groups, offsets and records. Invariant: results are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from pykafka4.errors import KafkaError
from pykafka4.records import MemberDescription, OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "EARLIEST",
    "EARLIEST_LOCAL",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "SHARE",
    "CommitResult",
    "CommittedOffset",
    "FetchedPartition",
    "GroupCoordinator",
    "GroupDescription",
    "GroupListing",
    "GroupPosition",
    "ListedOffset",
    "OffsetSpec",
]

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"  # types of groups; brokers have one more: streams


@attrs.frozen
class GroupListing:
    """A group in a list. `state` is Kafka's name (`Stable`, `Empty`, …), empty if the broker does not report it.

    `type` is `classic`, `consumer` (KIP-848), `share` or `streams`.
    `protocol_type` is the kind of the group's members: `consumer`, `connect`, …; empty for a group that has only committed offsets.
    `coordinator` is the number of a broker.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


@attrs.frozen
class GroupDescription:
    """State and members of a group. `state`, `type` and `protocol_type` are as in `GroupListing`.

    `assignor` is the name of the assignor in use, empty while there is none. `coordinator` is the number of a broker, `coordinator_address`
    its host and port. `epoch` and `assignment_epoch` are -1 unless the type is `consumer` or `share`.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: int
    coordinator_address: str = ""
    members: tuple[MemberDescription, ...] = ()
    epoch: int = -1
    assignment_epoch: int = -1

    @property
    def is_active(self) -> bool:
        """Whether the group has members. While it has members, an admin client cannot commit its offsets."""
        return bool(self.members)

    def owner(self, partition: TopicPartition) -> MemberDescription | None:
        """A member that has `partition` (in a share group, several can have it); None if no member has it."""
        return next((member for member in self.members if partition in member.partitions), None)


@attrs.frozen
class GroupPosition:
    """The committed offsets and owners of a group's partitions, and the end of each partition's log: an offset or an error."""

    description: GroupDescription
    committed: Mapping[TopicPartition, OffsetAndMetadata]
    owners: Mapping[TopicPartition, MemberDescription]
    ends: Mapping[TopicPartition, int | KafkaError]


class OffsetSpec(Enum):
    """A special offset, for `list_offsets`. Requests have its value as a timestamp. Sources: KIP-79, KIP-734, KIP-405, KIP-1005."""

    LATEST = -1  # the offset of the next record; with read_committed the last stable offset
    EARLIEST = -2  # the first offset of the log, remote storage included
    MAX_TIMESTAMP = -3  # the offset of a record with the highest timestamp; Kafka 3.0
    EARLIEST_LOCAL = -4  # the first offset on the leader's own disk; Kafka 3.5
    LATEST_TIERED = -5  # the last offset in remote storage; Kafka 3.9


LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = OffsetSpec


@attrs.frozen
class ListedOffset:
    """The offset of a partition that `list_offsets` looked up, or the `error` of that partition.

    `offset` is None if there is none: no record is as late as the timestamp, the log is empty (MAX_TIMESTAMP), or nothing is in remote
    storage (LATEST_TIERED). `timestamp_ms` is the record's timestamp; None for every OffsetSpec except MAX_TIMESTAMP. `leader_epoch` is
    the leader epoch at `offset`, None if the broker does not report it.
    """

    partition: TopicPartition
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    error: KafkaError | None = None


@attrs.frozen
class FetchedPartition:
    """The records of one partition of a `fetch`, or the `error` of that partition.

    `next_offset` is the offset for the next fetch. It need not directly follow the last record, because compacted and aborted records are
    skipped. With an `error`, `next_offset` is the requested offset. `high_watermark`, `last_stable_offset` and `log_start_offset` are None
    if the broker does not report them.
    """

    partition: TopicPartition
    next_offset: int
    records: tuple[Record, ...] = ()
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    error: KafkaError | None = None


@attrs.frozen
class GroupCoordinator:
    """The broker that coordinates a group: its number, host and port."""

    group_id: str
    node: int
    host: str
    port: int


@attrs.frozen
class CommittedOffset:
    """The committed offset of a partition, None if nothing is committed, or the `error` of that partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    error: KafkaError | None = None

    @property
    def offset(self) -> int | None:
        """The committed offset without its metadata."""
        return None if self.committed is None else self.committed.offset


@attrs.frozen
class CommitResult:
    """The outcome of a commit for one partition. The offset is stored if `error` is None."""

    partition: TopicPartition
    error: KafkaError | None = None
