"""Declares the interface of assignors. An assignment must depend only on the arguments of `assign`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import attrs

from pykafka4.records import TopicPartition

__all__ = ["Assignor", "GroupAssignment", "GroupMember", "PartitionInfo", "SendsUserData", "Topics"]


@attrs.frozen
class GroupMember:
    """A member of the group, with the values that it sent in JoinGroup.

    `instance_id` is the `group_instance_id` of a static member. `owned` has the partitions that the member holds while it joins (none with
    an eager assignor). `generation` is the member's last generation, which assigned `owned`; -1 if there was none, or if the member's
    client does not send it. `rack` is the member's `client_rack`. `user_data` has the member's own data (see
    `SendsUserData`).
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


class PartitionInfo(NamedTuple):
    """A partition of a subscribed topic: the broker id of its leader (None: there is no leader now), and the racks of its replicas.

    `racks` is empty if the racks of the brokers are unknown.
    """

    topic: str
    partition: int
    leader: int | None = None
    racks: frozenset[str] = frozenset()

    @property
    def tp(self) -> TopicPartition:
        """The partition in the form that `Assignor.assign` returns."""
        return TopicPartition(self.topic, self.partition)


Topics: TypeAlias = Mapping[str, Sequence[PartitionInfo]]
GroupAssignment: TypeAlias = Mapping[str, Iterable[TopicPartition]]


class Assignor(Protocol):
    """An algorithm that assigns partitions to the members of a group; applications pass it in `partition_assignment_strategy`.

    The group chooses, by `name`, an assignor that all members have listed, and the group's leader calls `assign`. Several consumers may use
    the object at once, so it must keep no state between calls. The object must be picklable if the options are pickled. The calls come from
    a thread of the client, never from the thread that polls. If `assign` has not returned within three quarters of `session_timeout_ms`
    after all members have joined, the leader leaves the group.
    """

    @property
    def name(self) -> str:
        """The name by which the members of a group agree on this assignor. Assignors in one option must have different names."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions while they join (KIP-429).

        If so, `assign` must not assign a partition to a member while another member owns it. Instead, `assign` leaves the partition out, so
        that its owner releases it. The next rebalance assigns it.
        """

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> GroupAssignment:
        """The partitions of each member, by member id. A member that is left out gets no partitions.

        `members` are in the order in which the coordinator lists them, which can differ from one rebalance to the next. `topics` has the
        partitions, in order, of each topic to which any member is subscribed; topics that do not exist, or that the leader cannot look up,
        are left out. A member must get only existing partitions of topics to which it is subscribed, and a partition must go to at
        most one member: the leader checks both.
        """


@runtime_checkable
class SendsUserData(Protocol):
    """The additional method of an `Assignor` whose members send their own data to the leader (`GroupMember.user_data`)."""

    def user_data(self, topics: frozenset[str], previous: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The bytes that this member sends each time it joins; None for no data.

        `previous` has the partitions of the member's last assignment, made in `generation`; the member may have lost them since. If another
        assignor made that assignment, or there is none, `previous` is empty and `generation` is -1.

        If the call raises an error, or has not returned within half of `session_timeout_ms`, the member leaves the group, and `poll` raises
        an error.
        """
