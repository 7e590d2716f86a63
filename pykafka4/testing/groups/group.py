"""Coordinates a group by the classic protocol, as brokers do, and keeps its offsets.

Invariant: apart from conversions (`take_over`), a generation changes only after PREPARING, in which heartbeats notify the members. A group
is EMPTY, PREPARING (members rejoin), COMPLETING (they have joined, and wait for the leader's assignment) or STABLE. Joins and syncs
get their responses through callables, because a response may have to wait for other members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from pykafka4.core import Transitions
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing.groups.joining import Joined, JoinRequest, Synced
from pykafka4.testing.groups.mixed import Mixed
from pykafka4.testing.groups.modern import JOIN, ConsumerProtocolGroup, GroupHeartbeat, GroupHeartbeatResponse
from pykafka4.testing.storage.partition import Topics
from pykafka4.testing.timeline import NEVER, Moment, Timeline

__all__ = ["Group", "GroupState", "JoinRequest", "Joined", "Member", "Synced"]


class GroupState(Enum):
    """The state of a group, under the names of DescribeGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


S = GroupState
TABLE = Transitions[S](
    "group",
    {
        S.EMPTY: {S.PREPARING},
        S.PREPARING: {S.COMPLETING, S.EMPTY},
        S.COMPLETING: {S.STABLE, S.PREPARING},
        S.STABLE: {S.PREPARING},
    },
)


@attrs.define(eq=False)
class Member:
    id: str
    request: JoinRequest
    assignment: bytes = b""
    held: bytes = b""  # the last assignment, which the member may still have while it joins again
    joining: Callable[[Joined], None] | None = None
    syncing: Callable[[Synced], None] | None = None
    session: Moment = NEVER

    def metadata(self, protocol: str) -> bytes:
        return next(data for name, data in self.request.protocols if name == protocol)


@attrs.define(eq=False)
class Group:
    """While any member uses the consumer protocol, all members are in `modern`."""

    id: str
    timeline: Timeline
    new_id: Callable[[str], str]
    interrupts_sync: bool = False  # as before Kafka 2.4: heartbeats get REBALANCE_IN_PROGRESS until the leader's assignment arrives
    modern: ConsumerProtocolGroup = attrs.field(
        default=attrs.Factory(lambda self: ConsumerProtocolGroup(self.timeline, Topics()), takes_self=True)
    )
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol: str | None = None
    protocol_type: str = ""
    leader: str = ""
    members: dict[str, Member] = attrs.Factory(dict)
    expected: set[str] = attrs.Factory(set)  # ids that new members have received (MEMBER_ID_REQUIRED) but have not joined with yet
    offsets: dict[TopicPartition, OffsetAndMetadata] = attrs.Factory(dict)
    pending: dict[int, dict[TopicPartition, tuple[int, OffsetAndMetadata]]] = attrs.Factory(dict)  # by producer id: (commit number, offset)
    producer_epochs: dict[int, int] = attrs.Factory(dict)  # producer id: the highest epoch of its commits and markers here
    _commits: int = 0  # number of commits so far, with and without transactions
    _last_commit: dict[TopicPartition, int] = attrs.Factory(dict)  # the number of the last commit without a transaction
    _before: dict[TopicPartition, OffsetAndMetadata | None] = attrs.Factory(dict)  # the values before the last commits
    _behind_until: float = 0.0  # the time until which a new coordinator may return `_before`
    history: list[tuple[int, dict[str, bytes]]] = attrs.Factory(list)  # (generation, assignments), for checks
    upgrades: int = 0  # number of conversions, with members, to the consumer protocol
    downgrades: int = 0  # number of conversions back to the classic protocol
    _rebalance: Moment = NEVER
    mixed: Mixed = attrs.field(init=False, default=attrs.Factory(lambda self: Mixed(self), takes_self=True))

    # ---- JoinGroup

    def join(self, request: JoinRequest, answer: Callable[[Joined], None]) -> None:
        """`answer` may be called later, because the response may have to wait for the next generation."""
        if self.modern.members:
            return self.mixed.join(request, answer)
        error = self._join_refusal(request)
        if error:
            return answer(Joined(error, member_id=request.member_id))
        member = self._static(request.instance_id) or self.members.get(request.member_id)
        if member is not None and request.member_id not in ("", member.id):
            return answer(Joined("FENCED_INSTANCE_ID", member_id=request.member_id))
        if member is None:
            return self._join_new(request, answer)
        if not request.member_id:
            return self._replace_static(member, request, answer)
        return self._join_again(member, request, answer)

    def _join_refusal(self, request: JoinRequest) -> str | None:
        known = request.member_id in self.members or request.member_id in self.expected
        if request.member_id and not known and self._static(request.instance_id) is None:
            return "UNKNOWN_MEMBER_ID"
        if self.members and (request.protocol_type != self.protocol_type or not self._common([request])):
            return "INCONSISTENT_GROUP_PROTOCOL"
        return None if request.protocols and request.protocol_type else "INCONSISTENT_GROUP_PROTOCOL"

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.request.instance_id == instance_id), None)

    def _join_new(self, request: JoinRequest, answer: Callable[[Joined], None]) -> None:
        if not request.member_id:
            member_id = self.new_id(request.instance_id or request.client_id)
            if request.needs_id_first and request.instance_id is None:
                self.expected.add(member_id)
                return answer(Joined("MEMBER_ID_REQUIRED", member_id=member_id))
            request = attrs.evolve(request, member_id=member_id)
        self.expected.discard(request.member_id)
        member = self.members[request.member_id] = Member(request.member_id, request)
        self.protocol_type = request.protocol_type
        return self._wait_for_others(member, answer)

    def _replace_static(self, old: Member, request: JoinRequest, answer: Callable[[Joined], None]) -> None:
        """Let a static member that rejoins without its id take its old place under a new id; the old id is fenced."""
        self.dismiss(old, "FENCED_INSTANCE_ID")
        new_id = self.new_id(request.instance_id or "")
        member = Member(new_id, attrs.evolve(request, member_id=new_id), old.assignment, old.held)
        self.members = {(new_id if i == old.id else i): (member if i == old.id else m) for i, m in self.members.items()}
        was_leader = self.leader == old.id
        if was_leader:
            self.leader = new_id
        if self.state is S.STABLE and self._common([])[0] == self.protocol:  # even if the member subscribes to other topics now
            self.keep_alive(member)
            if was_leader and not request.skips_assignment:  # the member must not assign, so the response names its old id as the leader
                return answer(Joined("NONE", self.generation, self.protocol, old.id, new_id))
            return answer(self._joined(member, skip=was_leader))
        return self._wait_for_others(member, answer)

    def _join_again(self, member: Member, request: JoinRequest, answer: Callable[[Joined], None]) -> None:
        unchanged = member.request.protocols == request.protocols
        member.request = request
        if (self.state is S.COMPLETING and unchanged) or (self.state is S.STABLE and unchanged and member.id != self.leader):
            self.keep_alive(member)
            return answer(self._joined(member))
        return self._wait_for_others(member, answer)

    def _wait_for_others(self, member: Member, answer: Callable[[Joined], None]) -> None:
        member.joining = answer  # an earlier join of this member came over a connection that is lost
        member.session.cancel()
        self.prepare()
        if all(m.joining for m in self.members.values()):
            self._complete()

    def _common(self, more: list[JoinRequest]) -> list[str]:
        """The protocols that all members support, in the first member's order of preference."""
        requests = [m.request for m in self.members.values()] + more
        names = [{name for name, _ in r.protocols} for r in requests]
        return [name for name, _ in requests[0].protocols if all(name in known for known in names)]

    # ---- rebalances

    def prepare(self) -> None:
        if self.state is S.PREPARING:
            return
        for member in self.members.values():
            self._answer_sync(member, Synced("REBALANCE_IN_PROGRESS"))
        self._rebalance.cancel()
        self.state = TABLE.move(self.state, S.PREPARING)
        self._rebalance = self.timeline.after(self._longest(), self._complete)

    def _complete(self) -> None:
        """Begin a generation without the members that have not joined; static members stay until their sessions end. If members are left,
        but none has joined, wait again.
        """
        self._rebalance.cancel()
        for member in [m for m in self.members.values() if m.joining is None and m.request.instance_id is None]:
            self._drop(member)
        if self.members and not any(m.joining for m in self.members.values()):
            self._rebalance = self.timeline.after(self._longest(), self._complete)
            return
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = TABLE.move(self.state, S.EMPTY), None, ""
            return
        self.state, self.protocol = TABLE.move(self.state, S.COMPLETING), self._common([])[0]
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = next(iter(m.id for m in self.members.values() if m.joining), next(iter(self.members)))
        for member in list(self.members.values()):
            joining, member.joining, member.assignment = member.joining, None, b""
            if joining is not None:
                self.keep_alive(member)
                joining(self._joined(member))
        self._rebalance = self.timeline.after(self._longest(), self._sync_timed_out)

    def _longest(self) -> float:
        return max((m.request.rebalance_timeout for m in self.members.values()), default=0.0)

    def _sync_timed_out(self) -> None:
        """Drop the members that have not synced; the others rejoin."""
        if self.state is S.COMPLETING:
            for member in [m for m in self.members.values() if m.syncing is None]:
                self._drop(member)
            self._after_drop()

    def _joined(self, member: Member, *, skip: bool = False) -> Joined:
        protocol = self.protocol or ""
        leads = member.id == self.leader
        everybody = tuple((m.id, m.request.instance_id, m.metadata(protocol)) for m in self.members.values()) if leads else ()
        return Joined("NONE", self.generation, protocol, self.leader, member.id, everybody, skip)

    # ---- SyncGroup, Heartbeat, LeaveGroup

    def refusal(self, generation: int, member_id: str, instance_id: str | None) -> str | None:
        """None if the member is in this generation."""
        static = self._static(instance_id)
        if static is not None and static.id != member_id:
            return "FENCED_INSTANCE_ID"
        if member_id not in self.members or (instance_id is not None and static is None):
            return "UNKNOWN_MEMBER_ID"
        return "ILLEGAL_GENERATION" if generation != self.generation else None

    def sync(
        self, generation: int, member_id: str, instance_id: str | None, assignments: Mapping[str, bytes], answer: Callable[[Synced], None]
    ) -> None:
        """`answer` may be called later, because the response may have to wait for the leader's assignment."""
        if self.modern.members:
            return self.mixed.sync(generation, member_id, instance_id, answer)
        error = self.refusal(generation, member_id, instance_id)
        if error:
            return answer(Synced(error))
        member = self.members[member_id]
        if self.state is S.PREPARING:
            return answer(Synced("REBALANCE_IN_PROGRESS"))
        self.keep_alive(member)
        if self.state is S.STABLE:
            return answer(Synced("NONE", member.assignment, self.protocol))
        member.syncing = answer
        if member_id == self.leader:
            self._assign(assignments)
        return None

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        self._rebalance.cancel()
        self.state = TABLE.move(self.state, S.STABLE)
        self.history.append((self.generation, dict(assignments)))
        for member in list(self.members.values()):
            member.assignment = member.held = assignments.get(member.id, b"")
            self._answer_sync(member, Synced("NONE", member.assignment, self.protocol))

    def _answer_sync(self, member: Member, synced: Synced) -> None:
        syncing, member.syncing = member.syncing, None
        if syncing is not None:
            self.keep_alive(member)
            syncing(synced)

    def heartbeat(self, generation: int, member_id: str, instance_id: str | None) -> str:
        """NONE, REBALANCE_IN_PROGRESS, or the error of `refusal`."""
        if self.modern.members:
            return self.mixed.heartbeat(generation, member_id, instance_id)
        error = self.refusal(generation, member_id, instance_id)
        if error:
            return error
        self.keep_alive(self.members[member_id])
        rebalancing = self.state is S.PREPARING or (self.interrupts_sync and self.state is S.COMPLETING)
        return "REBALANCE_IN_PROGRESS" if rebalancing else "NONE"

    def leave(self, member_id: str, instance_id: str | None) -> str:
        """NONE, or the error."""
        if self.modern.members:
            return self.mixed.leave(member_id, instance_id)
        static = self._static(instance_id)
        if static is not None and member_id not in ("", static.id):
            return "FENCED_INSTANCE_ID"
        member_id = member_id if static is None else static.id
        if member_id in self.expected:
            self.expected.discard(member_id)
            return "NONE"
        if member_id not in self.members:
            return "UNKNOWN_MEMBER_ID"
        self._drop(self.members[member_id])
        self._after_drop()
        return "NONE"

    # ---- ConsumerGroupHeartbeat

    def group_heartbeat(self, beat: GroupHeartbeat) -> GroupHeartbeatResponse:
        """A join may convert a group with classic members."""
        if self.members and beat.epoch == JOIN and (static := self._static(beat.instance_id)) is not None:
            return GroupHeartbeatResponse("UNRELEASED_INSTANCE_ID", message=f"the instance id is owned by {static.id}")
        if beat.epoch != JOIN and not self.exists:
            return GroupHeartbeatResponse("GROUP_ID_NOT_FOUND", message=f"Group {self.id} not found.")
        if self.members and not (beat.epoch == JOIN and self.modern.invalid(beat) is None and self.mixed.upgrade()):
            return GroupHeartbeatResponse("GROUP_ID_NOT_FOUND", message=f"Group {self.id} is not a consumer group.")
        return self.modern.heartbeat(beat)

    def hand_over(self) -> None:
        """Drop all members, which `modern` has adopted; waiting joins and syncs get REBALANCE_IN_PROGRESS."""
        self.upgrades += 1
        olds, self.members = list(self.members.values()), {}
        for old in olds:
            self.dismiss(old, "REBALANCE_IN_PROGRESS")
        self._rebalance.cancel()
        self.state, self.protocol, self.leader = S.EMPTY, None, ""

    def take_over(self, generation: int, members: list[tuple[str, JoinRequest, bytes]]) -> None:
        """Become a classic group again, with these members and assignments, and rebalance."""
        self.downgrades += 1
        self.generation, self.protocol_type = generation, "consumer"
        self.members = {id: Member(id, attrs.evolve(request, member_id=id), data, data) for id, request, data in members}
        self.state, self.protocol, self.leader = S.STABLE, self._common([])[0], ""
        for member in self.members.values():
            self.keep_alive(member)
        self.prepare()

    # ---- sessions

    def keep_alive(self, member: Member) -> None:
        member.session.cancel()
        member.session = self.timeline.after(member.request.session_timeout, lambda: self._expired(member))

    def _expired(self, member: Member) -> None:
        if self.members.get(member.id) is member and member.joining is None and member.syncing is None:
            self._drop(member)
            self._after_drop()

    def dismiss(self, member: Member, error: str) -> None:
        member.session.cancel()
        joining, member.joining = member.joining, None
        syncing, member.syncing = member.syncing, None
        if joining is not None:
            joining(Joined(error, member_id=member.id))
        if syncing is not None:
            syncing(Synced(error))

    def _drop(self, member: Member) -> None:
        self.members.pop(member.id, None)
        self.dismiss(member, "UNKNOWN_MEMBER_ID")

    def _after_drop(self) -> None:
        if self.state in (S.STABLE, S.COMPLETING):
            self.prepare()
        if self.state is S.PREPARING and all(m.joining for m in self.members.values()):
            self._complete()

    # ---- offsets

    @property
    def exists(self) -> bool:
        """Whether brokers would know the group."""
        return bool(self.members or self.modern.members or self.generation or self.modern.epoch or self.offsets or self.pending)

    def forget(self, tp: TopicPartition) -> None:
        self.offsets.pop(tp, None)
        self._before.pop(tp, None)

    def may_commit(self, generation: int, member_id: str, instance_id: str | None) -> str | None:
        """Members commit in their generation, other clients only to an empty group."""
        if self.modern.members:
            error = self.modern.stale(member_id, generation)
            classic = member_id in self.modern.members and self.modern.members[member_id].classic is not None
            return "ILLEGAL_GENERATION" if error == "STALE_MEMBER_EPOCH" and classic else error
        if self.interrupts_sync and self.state is S.COMPLETING:
            return "REBALANCE_IN_PROGRESS"
        if generation < 0 and not member_id:
            return None if self.state is S.EMPTY or not self.members else "UNKNOWN_MEMBER_ID"
        error = self.refusal(generation, member_id, instance_id)
        if error is None and self.state is S.COMPLETING:
            return "REBALANCE_IN_PROGRESS"
        return error

    def may_look_up(self, generation: int, member_id: str) -> str | None:
        """A lookup without a member is always allowed."""
        return self.modern.stale(member_id, generation) if member_id and self.modern.members else None

    def commit(self, tp: TopicPartition, position: OffsetAndMetadata) -> None:
        """Call `may_commit` first."""
        self._commits += 1
        self._last_commit[tp] = self._commits
        self._store(tp, position)

    def _store(self, tp: TopicPartition, position: OffsetAndMetadata) -> None:
        self._before[tp] = self.offsets.get(tp)
        self._behind_until = 0.0
        self.offsets[tp] = position

    def stored(self, tp: TopicPartition, *, stable: bool) -> OffsetAndMetadata | None:
        """Unless `stable`, a new coordinator returns the previous offset while it does not know that the last one is replicated."""
        behind = not stable and self.timeline.now < self._behind_until
        return self._before.get(tp) if behind else self.offsets.get(tp)

    # ---- offsets in transactions

    def may_pend(self, producer: tuple[int, int], generation: int, member_id: str, instance_id: str | None) -> str | None:
        """Members name their generation; other clients are trusted (KIP-447)."""
        if producer[1] < self.producer_epochs.get(producer[0], 0):
            return "INVALID_PRODUCER_EPOCH"
        if generation < 0 and not member_id and instance_id is None:
            return None
        if self.modern.members:
            error = self.modern.stale(member_id, generation)
            return "ILLEGAL_GENERATION" if error == "STALE_MEMBER_EPOCH" else error
        return self.refusal(generation, member_id, instance_id)

    def pend(self, producer: tuple[int, int], tp: TopicPartition, position: OffsetAndMetadata) -> None:
        self._commits += 1
        self.producer_epochs[producer[0]] = producer[1]
        self.pending.setdefault(producer[0], {})[tp] = self._commits, position

    def settle(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Store or drop the transaction's offsets. An offset that was committed later, without a transaction, stays."""
        self.producer_epochs[producer_id] = max(epoch, self.producer_epochs.get(producer_id, 0))
        for tp, (number, position) in self.pending.pop(producer_id, {}).items():
            if committed and number > self._last_commit.get(tp, 0):
                self._store(tp, position)

    def unstable(self, tp: TopicPartition) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(tp in offsets for offsets in self.pending.values())

    def change_coordinator(self, behind: float = 0.0) -> None:
        """Waiting requests get NOT_COORDINATOR; members and offsets stay.

        The new coordinator needs `behind` seconds to learn that the other replicas have all of its log.
        """
        self._behind_until = self.timeline.now + behind
        self.modern.moved()
        for member in self.members.values():
            self.dismiss(member, "NOT_COORDINATOR")
            self.keep_alive(member)
        if self.state is S.COMPLETING:
            self.prepare()
