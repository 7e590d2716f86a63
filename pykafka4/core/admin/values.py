"""Values of administration and of stateless calls. Rule: plain immutable data, as brokers reported it; an item has a value or an error."""

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
    "ListedOffset",
    "OffsetSpec",
    "Position",
]

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"  # types of groups; brokers have one more: streams


@attrs.frozen
class GroupListing:
    """A group in a list. `state` is Kafka's name (`Stable`, `Empty`, …), `type` is `classic`, `consumer` (KIP-848), `share` or `streams`.

    `protocol_type` is what its members do: `consumer`, `connect`, …; empty for a group that has only committed offsets.
    `coordinator` is a broker's number.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


@attrs.frozen
class GroupDescription:
    """State and members of a group. `state`, `type` and `protocol_type` are as in `GroupListing`.

    `assignor` is the name of the assignor in use, empty while there is none. `coordinator` is a broker's number, `coordinator_address` its
    host and port. `epoch` and `assignment_epoch` are those of a group of type `consumer` or `share`, otherwise -1.
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
        """Whether it has members: then only they commit offsets."""
        return bool(self.members)

    def owner(self, partition: TopicPartition) -> MemberDescription | None:
        """The member that has `partition`."""
        return next((member for member in self.members if partition in member.partitions), None)


@attrs.frozen
class Position:
    """Where a group stands: committed offsets, owners, and the end of each partition that has one of these, in order, or its error."""

    description: GroupDescription
    committed: Mapping[TopicPartition, OffsetAndMetadata]
    owners: Mapping[TopicPartition, MemberDescription]
    ends: Mapping[TopicPartition, int | KafkaError]


class OffsetSpec(Enum):
    """An offset with a meaning of its own, for `list_offsets`. The value is Kafka's timestamp for it. Sources: KIP-79, KIP-734, KIP-405."""

    LATEST = -1  # the offset of the next record; with read_committed the last stable offset
    EARLIEST = -2  # the first offset of the log, remote storage included
    MAX_TIMESTAMP = -3  # the first record with the highest timestamp; Kafka 3.0
    EARLIEST_LOCAL = -4  # the first offset on the leader's own disk; Kafka 3.4
    LATEST_TIERED = -5  # the last offset in remote storage; Kafka 3.9


LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = OffsetSpec


@attrs.frozen
class ListedOffset:
    """The offset of a partition that `list_offsets` looked up, or the `error` of that partition.

    `offset` is None if there is none: no record is as late as the time, the log is empty (MAX_TIMESTAMP), or nothing is in remote storage
    (LATEST_TIERED). `timestamp_ms` is the record's, None for an offset that is not that of a record. `leader_epoch` is the epoch of
    the record's leader, None if the broker does not tell (before Kafka 2.1).
    """

    partition: TopicPartition
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    error: KafkaError | None = None


@attrs.frozen
class FetchedPartition:
    """The records of one partition of a `fetch`, or the `error` of that partition.

    `next_offset` is the offset for the next fetch, behind records that compaction or an abort removed. With an error it is the
    offset that was asked for. `high_watermark`, `last_stable_offset` and `log_start_offset` are None if the broker does not tell.
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
    """The broker that coordinates a group."""

    group_id: str
    node: int
    host: str
    port: int


@attrs.frozen
class CommittedOffset:
    """The committed offset of a partition, None if there is none, or the `error` of that partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    error: KafkaError | None = None

    @property
    def offset(self) -> int | None:
        """The offset alone."""
        return None if self.committed is None else self.committed.offset


@attrs.frozen
class CommitResult:
    """The outcome of a commit for one partition: stored if `error` is None."""

    partition: TopicPartition
    error: KafkaError | None = None
