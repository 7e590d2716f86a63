"""Interface of assignors. Rule: an assignor is a function of its arguments; what the leader knows of a group is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import attrs

from pykafka4.records import TopicPartition

__all__ = ["Assignor", "GroupAssignment", "GroupMember", "PartitionInfo", "SendsUserData", "Topics"]


@attrs.frozen
class GroupMember:
    """A member as the leader of its group sees it: what it sent in JoinGroup.

    `instance_id` is the `group_instance_id` of a static member. `owned` are the partitions that it holds while it joins: with an eager
    assignor none. `generation` is the one in which it got them; -1: none, or a client that does not send it. `rack` is its `client_rack`,
    `user_data` what its assignor returned from `user_data`.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


class PartitionInfo(NamedTuple):
    """A partition of a subscribed topic: the broker id of its leader (None: it has none now), and the racks of its replicas.

    `racks` is empty if the racks of the brokers are unknown.
    """

    topic: str
    partition: int
    leader: int | None = None
    racks: frozenset[str] = frozenset()

    @property
    def tp(self) -> TopicPartition:
        """The partition as it is returned from `Assignor.assign`."""
        return TopicPartition(self.topic, self.partition)


Topics: TypeAlias = Mapping[str, Sequence[PartitionInfo]]
GroupAssignment: TypeAlias = Mapping[str, Iterable[TopicPartition]]


class Assignor(Protocol):
    """How partitions are assigned to the members of a group; an object for the option `partition_assignment_strategy`.

    The group chooses an assignor that all members have listed, by `name`, and its leader calls `assign`. Several consumers may use the
    object at once, so it keeps nothing between calls; it must pickle if the options do. It is called on a thread of the client, never on
    the one that polls. If it has not returned in three quarters of `session_timeout_ms`, the leader leaves the group.
    """

    @property
    def name(self) -> str:
        """The name by which the members of a group agree on it; not that of another assignor in the option."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions while they join (KIP-429). Then `assign` must not give a partition to a member while
        another one owns it: it leaves the partition out, which makes its owner release it, and assigns it in the next rebalance."""

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> GroupAssignment:
        """The partitions of each member, by member id; a member that is left out gets none.

        `members` are in the order in which the coordinator lists them, which differs from one rebalance to the next. `topics` has the
        partitions, in order, of each topic to which any of them is subscribed; topics that do not exist are left out. A member can only get
        existing partitions of its own topics, and each partition only one member: the leader checks that.
        """


@runtime_checkable
class SendsUserData(Protocol):
    """What an `Assignor` has in addition if its members send data of their own to the leader (`GroupMember.user_data`)."""

    def user_data(self, topics: frozenset[str], previous: Sequence[TopicPartition], generation: int) -> bytes | None:
        """What this member sends, each time that it joins. `previous`: the partitions that this assignor gave to it last, in `generation`;
        it may have lost them since. None, and -1: it has had none from this assignor."""
