"""Runs an assignor and checks its assignment. Invariant: the leader assigns a partition to at most one member, a subscriber of the
partition's topic.

An application's assignor, and any assignor of a large group, runs on a helper's thread. An `AssignorRun` has all data that the run needs,
and none that the loop changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import attrs

from pykafka4.assignors.interface import Assignor, GroupMember, PartitionInfo
from pykafka4.core.group.encoding import assignment_bytes
from pykafka4.core.group.leading.strategies import is_builtin
from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import KafkaError, caused_by, shown
from pykafka4.errors.peer_text import visible
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition

__all__ = ["AssignorRun", "Placement"]

log = get_log("pykafka4.group")

NO_RACKS: Final = frozenset[str]()
MOST_ON_LOOP: Final = 500  # most members plus partitions for which a built-in assignor runs on the loop: a millisecond or two


@attrs.frozen(eq=False)
class Placement:
    """The leaders of a topic's partitions, and the racks of their replicas (empty: no broker has a rack)."""

    leaders: Sequence[Leader | None]
    racks: Sequence[frozenset[str]] = ()


@attrs.frozen(eq=False)
class AssignorRun:
    """One run of an assignor. `where` begins log lines: the client id and the group."""

    assignor: Assignor
    members: tuple[GroupMember, ...]
    placements: Mapping[str, Placement]
    where: str

    @property
    def may_run_here(self) -> bool:
        size = len(self.members) + sum(len(placement.leaders) for placement in self.placements.values())
        return is_builtin(self.assignor) and size <= MOST_ON_LOOP

    def attempt(self) -> dict[str, bytes] | KafkaError:
        """The encoded assignment by member id, or an error if the assignor has not made a valid assignment."""
        topics = {name: _partitions(name, placement) for name, placement in self.placements.items()}
        try:  # around the check as well: the partitions of a member may be a generator, whose code runs in the check
            shares = self._checked(self.assignor.assign(self.members, topics))
        except InvalidAssignment as error:
            return self.refusal(str(error))
        except BaseException as error:  # `SystemExit` of an application's assignor ends this assignment, not the helper's thread
            log.exception("%s: assignor %r raised an exception", self.where, self.assignor.name)
            return caused_by(self.refusal(f"raised {shown(error)}"), error)
        return {member_id: assignment_bytes(tps) for member_id, tps in shares.items()}

    def refusal(self, why: str) -> KafkaError:
        return KafkaError(
            f"{self.where}: assignor {self.assignor.name!r} {why}. This member led the group, and cannot continue: "
            "correct the assignor, then call subscribe again"
        )

    def _checked(self, returned: Any) -> dict[str, list[TopicPartition]]:
        """The partitions by member id, with an entry for each member. Raises InvalidAssignment if a leader must not send the assignment."""
        if not isinstance(returned, Mapping):
            raise InvalidAssignment(f"returned {shown(returned)}, not a mapping from member id to partitions")
        members = {member.member_id: member for member in self.members}
        if strangers := [name for name in returned if name not in members]:
            raise InvalidAssignment(f"returned partitions for {shown(strangers[0])}, which is not a member of the group")
        shares = {name: [_as_tp(tp) for tp in _listed(name, returned.get(name, ()))] for name in members}
        owners: dict[TopicPartition, str] = {}
        for name, tps in shares.items():
            for tp in tps:
                self._check(tp, members[name], owners)
                owners[tp] = name
        if self.assignor.cooperative:
            self._check_owned(owners)
        return shares

    def _check(self, tp: TopicPartition, member: GroupMember, owners: Mapping[TopicPartition, str]) -> None:
        """The partition is looked up in `placements`, because the assignor may have changed the lists that it got."""
        if tp.topic not in member.topics:
            raise InvalidAssignment(f"returned {tp} for member {visible(member.member_id)}, which is not subscribed to that topic")
        placement = self.placements.get(tp.topic)
        if placement is None or not 0 <= tp.partition < len(placement.leaders):
            raise InvalidAssignment(f"returned {tp} for member {visible(member.member_id)}, and the leader knows no such partition")
        if tp in owners:
            raise InvalidAssignment(f"returned {tp} twice, for members {visible(owners[tp])} and {visible(member.member_id)}")

    def _check_owned(self, owners: Mapping[TopicPartition, str]) -> None:
        """Check that a cooperative assignor moves no partition that a member owns.

        The owner releases a partition only after an assignment without that partition: until then two members would read the partition.
        As in Java, the built-in cooperative assignor is not checked: to it, a member that has missed a generation owns nothing.
        """
        if is_builtin(self.assignor):
            return
        for member in self.members:
            for tp in member.owned:
                if owners.get(tp, member.member_id) != member.member_id:
                    owned = f"gave {tp} to member {visible(owners[tp])} while {visible(member.member_id)} owns it"
                    raise InvalidAssignment(f"is cooperative, and {owned}; it must first leave the partition out")


def _partitions(topic: str, placement: Placement) -> list[PartitionInfo]:
    rows = zip_longest(placement.leaders, placement.racks, fillvalue=None)
    return [PartitionInfo(topic, p, leader.node if leader else None, racks or NO_RACKS) for p, (leader, racks) in enumerate(rows)]


class InvalidAssignment(Exception):
    """Raised if the assignor returns an assignment that a leader must not send."""


def _listed(name: str, tps: Any) -> list[Any]:
    try:
        return list(tps)
    except TypeError:
        raise InvalidAssignment(f"returned {shown(tps)} for member {name}, not a list of TopicPartition") from None


def _as_tp(tp: Any) -> TopicPartition:
    """`tp` may be a plain pair."""
    if isinstance(tp, tuple) and len(tp) == 2 and isinstance(tp[0], str) and type(tp[1]) is int:
        return TopicPartition(*tp)
    raise InvalidAssignment(f"returned {shown(tp)}, which is not a TopicPartition")
