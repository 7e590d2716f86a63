"""Values of administration. Rule: plain immutable data, as coordinators reported it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka4.errors import KafkaError
from pykafka4.records import MemberDescription, OffsetAndMetadata, TopicPartition

__all__ = ["CLASSIC", "CONSUMER", "GroupDescription", "GroupListing", "Position"]

CLASSIC, CONSUMER = "classic", "consumer"  # types of groups; brokers have more: share, streams


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
    host and port. `epoch` and `assignment_epoch` are those of a group of type `consumer`, otherwise -1.
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
