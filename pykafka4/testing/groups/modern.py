"""Assigns partitions to a group by the consumer protocol (KIP-848). Invariant: a member gets another member's partition
only when that member has given it back, has left, or has been removed.

A member reaches the group's epoch when it has given back the partitions that it must give back, even if it still waits for
partitions of other members.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import attrs

from pykafka4.testing.groups.assigning import DEFAULT, REMOTE_ASSIGNORS, Part, Shares
from pykafka4.testing.groups.joining import JoinRequest
from pykafka4.testing.storage.partition import Topics
from pykafka4.testing.timeline import NEVER, Moment, Timeline

__all__ = ["JOIN", "GroupHeartbeatResponse", "GroupHeartbeat", "ConsumerProtocolGroup", "ModernMember"]

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2  # epochs


@attrs.frozen
class GroupHeartbeat:
    """Except for `instance_id`, a field that is None has not changed since the last heartbeat."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    client_id: str = ""
    rebalance_timeout: float | None = None
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    owned: frozenset[Part] | None = None
    regex: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether the response contains the assignment even if it has not changed."""
        return self.epoch == JOIN or None not in (self.rebalance_timeout, self.topics, self.owned)


@attrs.frozen
class GroupHeartbeatResponse:
    """`assignment` is None with an error, or if the response need not repeat it."""

    error: str = "NONE"
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[Part] | None = None
    message: str | None = None


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@attrs.define(eq=False)
class ModernMember:
    id: str
    instance_id: str | None = None
    client_id: str = ""
    epoch: int = 0
    previous: int = 0
    rebalance_timeout: float = 300.0
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    assigned: set[Part] = attrs.Factory(set)
    pending: set[Part] = attrs.Factory(set)  # partitions that the member has to give back
    waits: bool = False  # whether other members had partitions of its target when it last got its assignment
    session: Moment = NEVER
    revocation: Moment = NEVER
    classic: JoinRequest | None = None  # the last JoinGroup of a member that uses the classic protocol
    adopted: bool = False  # came with a classic group and has not joined since, so the member may hold partitions of the last generation
    awaited: Moment = NEVER  # the end of the time in which the member has to join again, or to sync

    @property
    def settled(self) -> bool:
        return not self.pending and not self.waits


@attrs.define(eq=False)
class ConsumerProtocolGroup:
    timeline: Timeline
    cluster_topics: Topics
    session_timeout: float = 45.0
    max_size: int | None = None
    epoch: int = 0
    members: dict[str, ModernMember] = attrs.Factory(dict)
    target: Shares = attrs.Factory(dict)
    on_assigned: Callable[[str, set[Part]], None] = lambda member, parts: None  # called with the partitions that a member gains
    on_removed: Callable[[], None] = lambda: None  # called by `remove`
    _assigned_for: object = None  # subscriptions, topics, assignor and members for which `target` was computed

    @property
    def state(self) -> str:
        """The group's state, as ListGroups names it."""
        if not self.members:
            return "Empty"
        done = all(member.settled and member.epoch in (self.epoch, LEAVE_STATIC) for member in self.members.values())
        return "Stable" if done else "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that the most members name, by default `DEFAULT`."""
        named = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(sorted(named), key=lambda name: named[name], default=DEFAULT)

    def heartbeat(self, beat: GroupHeartbeat) -> GroupHeartbeatResponse:
        if beat.epoch < 0:
            return self._leave(beat)
        if invalid := self.invalid(beat):
            return GroupHeartbeatResponse(invalid)
        member, error, message = self._join(beat) if beat.epoch == JOIN else self._known(beat)
        if member is None:
            return GroupHeartbeatResponse(error, message=message)
        before = set(member.assigned)
        self._note(member, beat)
        self.compute_target()
        self._reconcile(member, beat.owned)
        self.keep_alive(member)
        changed = beat.is_full or before != member.assigned
        return GroupHeartbeatResponse("NONE", member.id, member.epoch, frozenset(member.assigned) if changed else None)

    def invalid(self, beat: GroupHeartbeat) -> str | None:
        """The error for a heartbeat that no group would accept, or None."""
        if beat.assignor is not None and beat.assignor not in REMOTE_ASSIGNORS:
            return "UNSUPPORTED_ASSIGNOR"
        if beat.regex and not _is_regex(beat.regex):
            return "INVALID_REGULAR_EXPRESSION"
        subscribes = bool(beat.topics) or bool(beat.regex)
        complete = beat.rebalance_timeout is not None and beat.owned == frozenset() and subscribes
        return "INVALID_REQUEST" if beat.epoch == JOIN and not complete else None

    def _join(self, beat: GroupHeartbeat) -> tuple[ModernMember | None, str, str | None]:
        old, member = self.static(beat.instance_id), self.members.get(beat.member_id)
        if old is not None:
            if old.epoch != LEAVE_STATIC:
                return None, "UNRELEASED_INSTANCE_ID", f"the instance id is owned by {old.id}"
            member = self._replace(old, beat.member_id)
        elif member is None:
            if self.max_size is not None and len(self.members) >= self.max_size:
                return None, "GROUP_MAX_SIZE_REACHED", f"the group has its maximum size, {self.max_size}"
            member = self.members[beat.member_id] = ModernMember(beat.member_id, beat.instance_id)
        member.client_id = beat.client_id
        return member, "", None

    def _replace(self, old: ModernMember, member_id: str) -> ModernMember:
        """Give a static member that has returned with a new id the partitions and the target of its old id."""
        self._stop(old)
        del self.members[old.id]
        new = self.members[member_id] = attrs.evolve(old, id=member_id, epoch=0, previous=0, pending=set(), classic=None)
        new.session = new.revocation = new.awaited = NEVER
        self.target[member_id] = self.target.pop(old.id, set())
        self._assigned_for = None
        return new

    def _known(self, beat: GroupHeartbeat) -> tuple[ModernMember | None, str, str | None]:
        if error := self.refusal(beat.member_id, beat.instance_id):
            return None, error, None
        member = self.members[beat.member_id]
        lost_answer = beat.epoch == member.previous and beat.owned is not None and beat.owned <= member.assigned
        if beat.epoch != member.epoch and not (beat.epoch < member.epoch and lost_answer):
            return None, "FENCED_MEMBER_EPOCH", f"the member has epoch {member.epoch}, not {beat.epoch}"
        return member, "", None

    def static(self, instance_id: str | None) -> ModernMember | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def refusal(self, member_id: str, instance_id: str | None = None) -> str | None:
        static = self.static(instance_id)
        if static is not None and static.id != member_id:
            return "FENCED_INSTANCE_ID"
        return "UNKNOWN_MEMBER_ID" if member_id not in self.members or (instance_id is not None and static is None) else None

    def stale(self, member_id: str, epoch: int) -> str | None:
        """The error for a member's request about offsets, or None."""
        if member_id not in self.members:
            return "UNKNOWN_MEMBER_ID"
        return None if epoch == self.members[member_id].epoch else "STALE_MEMBER_EPOCH"

    # ---- subscriptions

    def _note(self, member: ModernMember, beat: GroupHeartbeat) -> None:
        if beat.rebalance_timeout is not None:
            member.rebalance_timeout = beat.rebalance_timeout
        if beat.topics is not None:
            member.topics = beat.topics
        if beat.regex is not None:
            member.regex = beat.regex
        if beat.assignor is not None:
            member.assignor = beat.assignor

    # ---- members that use the classic protocol

    def adopt(self, member: ModernMember) -> None:
        """Add a member of a classic group that is being converted; the member keeps its partitions."""
        self.members[member.id], member.adopted = member, True
        self.target[member.id] = set(member.assigned)
        self.keep_alive(member)

    def join_classic(self, member_id: str, request: JoinRequest) -> ModernMember:
        old = self.static(request.instance_id)
        if old is not None and old.id != member_id:
            member = self._replace(old, member_id)
        else:
            member = self.members.setdefault(member_id, ModernMember(member_id, request.instance_id))
        member.client_id, member.classic, member.rebalance_timeout = request.client_id, request, request.rebalance_timeout
        return member

    def assign_classic(self, member: ModernMember, topics: tuple[str, ...], owned: frozenset[Part]) -> None:
        member.topics, member.adopted = topics, False
        self.compute_target()
        self._reconcile(member, owned)
        self.keep_alive(member)
        member.awaited.cancel()
        self.expect(member)

    def expect(self, member: ModernMember) -> None:
        """Remove the member unless it joins again, or syncs, within its rebalance timeout."""
        if not member.awaited.pending:
            member.awaited = self.timeline.after(member.rebalance_timeout, lambda: self._expired(member))

    def free(self, member: ModernMember) -> bool:
        """Whether no other member has a partition for which `member` waits."""
        return not self._taken(member) & (self.target[member.id] - member.assigned)

    def _taken(self, member: ModernMember) -> set[Part]:
        return {part for m in self.members.values() if m is not member for part in m.assigned | m.pending}

    def compute_target(self) -> None:
        """Compute the target again if members, subscriptions, topics or the assignor have changed."""
        known = self.cluster_topics
        wanted = {
            m.id: {name for name in known if name in m.topics or (m.regex and re.fullmatch(m.regex, name))} for m in self.members.values()
        }
        subscribers = {
            known[name].id: [member for member, names in wanted.items() if name in names] for name in sorted(set().union(*wanted.values()))
        }
        sizes = {topic.id: len(topic.partitions) for topic in known.values()}
        assignor = self.assignor
        basis = ({topic: (tuple(those), sizes[topic]) for topic, those in subscribers.items()}, assignor, tuple(self.members))
        if basis == self._assigned_for:
            return
        self._assigned_for = basis
        self.epoch += 1
        shares = REMOTE_ASSIGNORS[assignor](subscribers, sizes, self.target)
        self.target = {member: shares.get(member, set()) for member in self.members}

    def _reconcile(self, member: ModernMember, owned: frozenset[Part] | None) -> None:
        if member.pending:
            if owned is None or owned & member.pending:
                return
            member.pending = set()
            member.revocation.cancel()
        target = self.target[member.id]
        gone = member.assigned - target
        member.assigned &= target
        if gone and (owned is None or owned & gone):
            member.pending = gone
            member.revocation = self.timeline.after(member.rebalance_timeout, lambda: self._overdue(member))
            return
        fresh = target - member.assigned - self._taken(member)
        if fresh:
            self.on_assigned(member.id, fresh)
        member.assigned |= fresh
        member.waits = bool(target - member.assigned)
        if member.epoch != self.epoch:
            member.previous, member.epoch = member.epoch, self.epoch

    def _overdue(self, member: ModernMember) -> None:
        if self.members.get(member.id) is member and member.pending:
            self.remove(member)

    # ---- sessions

    def keep_alive(self, member: ModernMember) -> None:
        member.session.cancel()
        seconds = self.session_timeout if member.classic is None else member.classic.session_timeout
        member.session = self.timeline.after(seconds, lambda: self._expired(member))

    def _expired(self, member: ModernMember) -> None:
        if self.members.get(member.id) is member:
            self.remove(member)

    def _leave(self, beat: GroupHeartbeat) -> GroupHeartbeatResponse:
        if error := self.refusal(beat.member_id, beat.instance_id):
            return GroupHeartbeatResponse(error)
        member = self.members[beat.member_id]
        if beat.epoch == LEAVE_STATIC:
            member.epoch, member.pending = LEAVE_STATIC, set()
            member.revocation.cancel()
            self.keep_alive(member)
        else:
            self.remove(member)
        return GroupHeartbeatResponse("NONE", beat.member_id, beat.epoch)

    def remove(self, member: ModernMember) -> None:
        """Remove the member; the group may become a classic group again."""
        self.release(member)
        self.on_removed()

    def release(self, member: ModernMember) -> None:
        """Remove the member without converting the group."""
        self._stop(member)
        del self.members[member.id]
        self.target.pop(member.id, None)
        self._assigned_for = None

    def _stop(self, member: ModernMember) -> None:
        member.session.cancel()
        member.revocation.cancel()
        member.awaited.cancel()

    def moved(self) -> None:
        """Restart all session timeouts, as a new coordinator does."""
        for member in self.members.values():
            self.keep_alive(member)
