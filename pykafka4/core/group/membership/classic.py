"""Keeps a member in its group by the classic protocol: joins, syncs, sends heartbeats, leaves. Invariant: the loss of the coordinator by
itself ends no membership before a timeout.

An eager member releases all its partitions before it joins. A cooperative member (KIP-429) keeps the partitions of its subscription: after
SyncGroup it releases the held partitions that the assignment lacks, and joins again when the application has released them. Until the
response to JoinGroup it sends heartbeats and commits in the last generation, so that it soon notices its removal from the group.
In a rewind (`rewind_group`), a member loses the rewound partitions that it holds, so that they are assigned again, at the new offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.group.coordinator import GroupCoordinator
from pykafka4.core.group.encoding import assigned_partitions
from pykafka4.core.group.leading.leadership import Leadership
from pykafka4.core.group.leading.strategies import Strategies, UserData
from pykafka4.core.group.membership import classic_requests as requests
from pykafka4.core.group.membership.classic_requests import ATTEMPTS, Fit, GroupInFlight, GroupRequest
from pykafka4.core.group.membership.coordinated import COMMITS_FIRST_S, ENDS_MEMBER, ConsumerGroupMember
from pykafka4.core.group.membership.protocol import Assignee, MemberCommits
from pykafka4.core.group.membership.rewinds import Rewinds
from pykafka4.core.group.membership.states import CLASSIC_MOVES, OUT, MemberState
from pykafka4.core.group.reactions import Reaction, reaction, way_out
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import via
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import DecodeError, KafkaError, broker_error, short_name
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["ClassicProtocol", "MemberState"]

log = get_log("pykafka4.group")

MISMATCH: Final = "received assignment does not match the current subscription"  # the reason in a JoinGroup, in Java's words
REWOUND: Final = "the group is rewound to other offsets (rewind_group)"


class ClassicProtocol(ConsumerGroupMember):
    moves = CLASSIC_MOVES
    _coordinator: GroupCoordinator

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        cluster: Cluster,
        assignee: Assignee,
        random: Random,
        outbox: Outbox,
        commits: MemberCommits,
    ) -> None:
        super().__init__(config, coordinator, random, outbox, config.heartbeat_interval_ms / 1000)
        self._config, self._assignee, self._commits = config, assignee, commits
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self._session = config.session_timeout_ms / 1000
        self.identity: MemberIdentity | None = None  # from the first assignment until the member is out (`OUT`)
        self._held_since = -1  # the generation that assigned the held partitions
        self._given_back: set[TopicPartition] = set()  # partitions that were revoked, or lost by a rewind, in this generation
        self._asked = False  # a JoinGroup has been sent since the last assignment
        self._came_back = False  # the last JoinGroup had no member id
        self._why = ""  # the reason for the next JoinGroup, in the style of Java (KIP-800)
        self._why_leaving = ""
        where = config.log_name
        self._strategies = Strategies(config, where, outbox)
        self._cooperative = all(assignor.cooperative for assignor in self._strategies.by_name.values())
        self.leadership = Leadership(cluster, where, self._strategies, outbox)
        self.rewinds = Rewinds(config, commits)
        self._joined_with: tuple[str, ...] = ()  # the topics in the last JoinGroup
        self._led = True  # whether the group had a leader in the last generation
        self._asked_at: tuple[int, float]  # (coordinator, time) of the last join or sync
        self._assignor: str | None = None  # the name of the group's assignor, from the response to JoinGroup
        self._attempt: GroupInFlight | None = None  # the JoinGroup or SyncGroup in flight; responses to earlier ones are ignored
        self._join_by = INFINITY  # until then the join waits for commits of the last generation
        self._alive = 0.0  # the time from which this member counts its session
        self._beating = False  # a heartbeat is in flight

    # ---------------------------------------------------------------- calls of the assignee

    def join(self, now: float) -> float:
        if now < self._paused_until:
            return self._paused_until
        if self._coordinator.node is None:
            self._coordinator.want()
            self._join_by = INFINITY  # nobody responds to commits now: their COMMITS_FIRST_S begins when there is a coordinator
            return INFINITY
        if self.identity is None:
            self._look_at_members(now, self._coordinator.node)
            if self.rewinds.checking:  # the response comes soon: DescribeGroups is not on the connection on which joins are held back
                return INFINITY
        commits = self._commits
        if not commits.incomplete().isdisjoint(self._given_back) if self.identity is not None else commits.under_generation:
            # The coordinator accepts these commits until the next generation begins, and this join may begin it.
            self._join_by = min(self._join_by, now + COMMITS_FIRST_S)
            if now < self._join_by:
                return self._join_by
        self._join(now, self._coordinator.node)
        return INFINITY

    def released(self) -> None:
        if self.state is MemberState.REVOKING and self._given_back.isdisjoint(self._assignee.held):
            self._move(MemberState.REJOINING if self._cooperative else MemberState.UNJOINED)

    def drop_out(self) -> None:
        self._held_since = -1
        super().drop_out()

    def leave(self, now: float, by: float, reason: str) -> None:
        self._why_leaving = reason
        self._begin_leaving(now, by)

    def dispose(self) -> None:
        self.leadership.resign()
        self.rewinds.left()

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        return STEPS[self.state](self, now)

    def _joining(self, now: float) -> float:
        return min(self._strategies.check(now), self._held_back(now, MemberState.JOINING))

    def _syncing(self, now: float) -> float:
        if self.leadership.due < INFINITY:
            self._assign(now)
        return min(self.leadership.due, self._held_back(now, MemberState.SYNCING))

    def _held_back(self, now: float, state: MemberState) -> float:
        """Wait for a response that the coordinator holds back; join again if another broker is the coordinator by now."""
        if self.state is not state:
            return now
        node, since = self._asked_at
        coordinator = self._coordinator.node
        if coordinator not in (None, node):
            self._rejoin(now)
            return now
        if coordinator is None:  # lost by another request: a frozen coordinator would hold this response back until the timeout
            self._coordinator.want()
        wake_at = self._live(now)
        return min(wake_at, self._coordinator.check(now, since)) if self.state is state else now

    def _rejoining(self, now: float) -> float:
        """First release partitions whose topics left the subscription. The member keeps its other partitions."""
        topics = frozenset(self._assignee.subscription.names)
        strange = [tp for tp in self._assignee.held if tp.topic not in topics]
        if strange:
            self._revoke(now, strange, "the subscription changed")
            return now
        wake_at = self._live(now)
        return min(wake_at, self.join(now)) if self.state is MemberState.REJOINING else now

    def _stable(self, now: float) -> float:
        if self._joined_with != self._assignee.subscription.names:
            self._rebalance(now, "the subscription changed", "subscription has changed")
            return now
        if self.leadership.outgrown():
            self._rebalance(now, "subscribed topics or partitions were added or deleted", "cached metadata has changed")
            return now
        if self.rewinds.ready:
            self._rebalance(now, REWOUND, "the group is to be rewound")
            return now
        if self._coordinator.node is not None:
            if self.leadership.ask_at <= now:
                self._request_assignment(now, self._coordinator.node)
            self._look_at_members(now, self._coordinator.node)
        return min(self._live(now), INFINITY, *(at for at in (self.leadership.ask_at, self.rewinds.check_at) if at > now))

    def _request_assignment(self, now: float, node: int) -> None:
        message = self.leadership.question(now, self._config.group_id or "")
        self._ask(now, node, message, now + self._timeout, GroupRequest.ASSIGNMENT)

    def _assignment_answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        if request.identity is self.identity:
            self.leadership.learn(now, outcome)

    def _look_at_members(self, now: float, node: int) -> None:
        if self.rewinds.check_at <= now:
            self._ask(now, node, self.rewinds.question(), now + self._timeout, GroupRequest.MEMBERS)

    def _live(self, now: float) -> float:
        """Keep the lease and, with an assignment, the session; return when to be polled again."""
        if self.identity is None:
            return self._assignee.keep_lease(now)
        expires = self._alive + self._session
        if now >= expires:
            silence = f"no heartbeat response within session_timeout_ms={self._config.session_timeout_ms:g}"
            self._lost(f"{silence} ({self.error or 'no coordinator'})")
            return now
        lease_ends = self._assignee.keep_lease(now)
        if self.state in OUT:
            return now
        return min(lease_ends, expires, self._beat(now))

    def _beat(self, now: float) -> float:
        if self._beating:
            return INFINITY
        if (due := self._heartbeat.wait(now)) is not None:
            return due
        node = self._coordinator.node
        if node is None:
            self._heartbeat.blocked()
            self._coordinator.want()
            return INFINITY
        self._beating = True
        self._heartbeat.sent(now)
        message = requests.heartbeat_request(self._config, self.member_id, self.generation)
        # A frozen coordinator sends no response. A third of the session timeout suffices to notice that.
        # The rest is for finding a new coordinator.
        patience = min(self._timeout, max(self._session / 3, self._heartbeat.interval))
        self._ask(now, node, message, now + patience, GroupRequest.HEARTBEAT)
        return INFINITY

    def _ask(self, now: float, node: int, message: Any, deadline: float, kind: GroupRequest, fit: Fit | None = None) -> GroupInFlight:
        lane = self._coordinator.join_lane if kind in ATTEMPTS else self._coordinator.lane
        request = GroupInFlight(
            via(lane, node),
            message,
            deadline,
            fit=fit,
            member=self,
            kind=kind,
            coordinator=node,
            sent_at=now,
            identity=self.identity,
            generation=self.generation,
        )
        self._outbox.send(request)
        return request

    def _attempt_with(self, now: float, node: int, message: Any, deadline: float, kind: GroupRequest) -> None:
        self._attempt = self._ask(now, node, message, deadline, kind)

    def answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        if request.kind in ATTEMPTS:
            if request is not self._attempt:
                return
            self._attempt = None
        if request.kind is GroupRequest.MEMBERS:
            self.rewinds.learn(now, outcome, is_member=self.identity is not None)
        else:
            READERS[request.kind](self, now, request, outcome)

    # ---------------------------------------------------------------- join and sync

    def _join(self, now: float, node: int) -> None:
        self._move(MemberState.JOINING)
        self._join_by = INFINITY
        self._joined_with, self._asked_at = self._assignee.subscription.names, (node, now)
        self._strategies.ask(now, self._joined_with, lambda at, data: self._send_join(at, node, data))

    def _send_join(self, now: float, node: int, data: UserData | KafkaError) -> None:
        if isinstance(data, KafkaError):
            self._cannot_assign(now, data)
            return
        self._asked, self._came_back = True, not self.member_id
        data = self.rewinds.with_note(data, self.generation)
        message = requests.join_request(
            self._config, self.member_id, self._joined_with, self._assignee.held, self._held_since, data, self._why
        )
        deadline = now + requests.join_patience(self._config)
        self._attempt_with(now, node, message, deadline, GroupRequest.JOIN)

    def _join_answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        node = request.coordinator
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        answer = outcome.message
        verdict = reaction(answer.error_code)
        if verdict is not Reaction.NONE:
            self.rewinds.turned_away()
            at_once = verdict is Reaction.NAMED and not self.member_id  # but back off if each response names another id
            self._turned_away(now, node, verdict, self._error(answer.error_code, "joining", "JoinGroup"))
            if verdict is Reaction.NAMED:
                self.member_id = answer.member_id
                self._why = f"need to re-join with the given member-id: {answer.member_id}"
            if at_once:
                self._paused_until = now
            return
        if self._missed(answer.generation_id, led=bool(answer.leader)):
            self._lost(f"the group has rebalanced without this member: generation {answer.generation_id} came after {self.generation}")
            self._paused_until = now
            return
        self.member_id, self.generation, self._why, self._led = answer.member_id, answer.generation_id, "", bool(answer.leader)
        self._move(MemberState.SYNCING)
        self._begin_generation()
        self._assignor = answer.protocol_name
        due = now + min(self._timeout, self._session / 2)
        unsupported = self.leadership.decide(answer, due, now + requests.assign_patience(self._config))
        if unsupported is not None:
            self.fail(KafkaError(f"group {self._config.group_id} chose assignor {unsupported!r}, which this client does not support"))
        elif self.leadership.holds:
            self._assign(now)
        else:
            self._sync(now, {})

    def _missed(self, generation: int, *, led: bool) -> bool:
        """Whether the group may have gone through a generation without this member before `generation`.

        Only a static member stays in such a group. Other members may own its partitions by now, because the leader may not have known that
        this member held them. A group with members of the consumer protocol has no leader (`led` is False): its epochs skip numbers, and
        its coordinator waits for no member, and assigns no partition that another member holds.
        """
        static = self._config.group_instance_id is not None and (led or self._led)
        return static and self.identity is not None and generation > self.generation + 1

    def _begin_generation(self) -> None:
        if self.identity is not None:
            self.identity.generation = self.generation
            self._commits.fail_lost(dict.fromkeys(self._given_back, "the partition was revoked before the commit was accepted"))
        self._given_back.clear()

    def _assign(self, now: float) -> None:
        try:
            shares = self.leadership.assign(now)
        except KafkaError as error:
            self._cannot_assign(now, error)
            return
        if shares is not None:
            self._sync(now, shares)

    def _cannot_assign(self, now: float, error: KafkaError) -> None:
        """End this member after an assignor's failure: if the member joined again, the group would rebalance without end."""
        if self.is_known and self._coordinator.node is not None:
            self._send_leave(now, self._coordinator.node)  # other members need not wait for its session to end; the response is ignored
            self.member_id = ""
        self.fail(error)

    def _sync(self, now: float, shares: Mapping[str, bytes]) -> None:
        node = self._coordinator.node
        if node is None:  # the coordinator was lost, and the generation may end before a coordinator is found
            self._rejoin(now)
            return
        message = requests.sync_request(self._config, self.member_id, self.generation, self._assignor, shares)
        deadline = now + requests.sync_patience(self._config, leads=self.leadership.holds)
        self._asked_at = (node, now)
        self._attempt_with(now, node, message, deadline, GroupRequest.SYNC)

    def _sync_answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        node = request.coordinator
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        verdict = reaction(outcome.message.error_code)
        if verdict is not Reaction.NONE:
            self._turned_away(now, node, verdict, self._error(outcome.message.error_code, "syncing", "SyncGroup"))
            if verdict is Reaction.REJOIN:  # no backoff, as in Java: the other members wait for this one
                self._paused_until = now
            return
        try:
            tps, starts = assigned_partitions(outcome.message.assignment), self.rewinds.take(now, outcome.message.assignment)
        except DecodeError as error:
            self._turned_away(now, node, Reaction.RETRY, error)
            return
        self._enter(now, request.sent_at, tps, starts)

    def _enter(self, now: float, sent_at: float, tps: list[TopicPartition], starts: Mapping[TopicPartition, int]) -> None:
        """`starts` are the offsets of a rewind, for partitions of this member."""
        self._move(MemberState.STABLE)
        self.error = None
        self._backoff.reset()
        self._coordinator.well()
        # The session begins when the coordinator responds. A response that took a heartbeat interval or longer may have been delayed on its
        # way. Then the session began before `now`, so a heartbeat is sent at once.
        self._alive = now
        self._heartbeat.changed(now)
        if now - sent_at >= self._heartbeat.interval:
            self._heartbeat.start(now)
        self._held_since, self._asked = self.generation, False
        if self.identity is None:
            instance = self._config.group_instance_id
            self.identity = MemberIdentity(self._config.group_id or "", self.generation, self.member_id, instance)
        self._strategies.assigned(self._assignor, tps, self.generation)
        self._take(now, tps, starts)
        if self._came_back and self._config.group_instance_id is not None and not {tp.topic for tp in tps}.issubset(self._joined_with):
            self._rebalance(now, "the assignment belongs to an earlier subscription", MISMATCH)

    def _take(self, now: float, tps: list[TopicPartition], starts: Mapping[TopicPartition, int]) -> None:
        """Lose rewound partitions, release held ones that the assignment lacks, take new ones. An eager member holds no partitions here."""
        held, given = tuple(self._assignee.held), set(tps)
        rewound = [tp for tp in held if tp in starts]
        gone, fresh = [tp for tp in held if tp not in given and tp not in starts], [tp for tp in tps if tp not in held]
        if rewound or gone:
            self._why = "need to revoke partitions and re-join"
            self._move(MemberState.REVOKING)
            self._given_back.update(rewound, gone)
            self._assignee.lost(rewound, REWOUND)  # a later commit of the application would undo the rewind
        if gone:
            self._assignee.revoke(gone, now + self._rebalance_timeout, "this member's new assignment lacks them")
        if starts:  # after `lost`, which fails the queued commits of these partitions
            self.rewinds.commit(now, self.identity, starts)
        self._assignee.assigned(fresh, starts)

    # ---------------------------------------------------------------- errors

    def _error(self, code: int, what: str, request: str) -> KafkaError:
        group = self._config.group_id or ""
        return broker_error(code, f"{what} group {group}", way_out(self._config, code), request, group=group)

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        """Join again after a join or sync without a response, because there may be a new coordinator; fail if a retry cannot help."""
        if not outcome.passing:
            self.fail(outcome.reason)
            return
        self._coordinator.lost(now, node, outcome.reason)
        self.error, self._why = outcome.reason, requests.failed_because(outcome.reason)
        self._rejoin(now)

    def _turned_away(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        self.error = error
        self._coordinator.retried(now, error)
        if verdict is Reaction.FATAL:
            self.fail(error)
            return
        self._why = requests.failed_because(error)
        if verdict is Reaction.REFIND:
            self._coordinator.lost(now, node, error)
        elif verdict in (Reaction.STRANGER, Reaction.OUTDATED):
            self._cast_out(verdict, error)
        elif verdict is Reaction.DENIED:
            self._assignee.denied(error)
        self._rejoin(now)

    def _rejoin(self, now: float) -> None:
        """Join again after a backoff."""
        self._ignore_responses()
        to = MemberState.UNJOINED if self.identity is None else MemberState.REJOINING
        if self.state is not to:
            self._move(to)
        self._paused_until = now + self._backoff.next()

    def _ignore_responses(self) -> None:
        if self._attempt is not None:
            self._coordinator.renew_join_lane()
        self._attempt = None
        self._strategies.abandon()
        self.leadership.abandon()

    def _beat_answered(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        self._beating = False
        if request.identity is not self.identity or request.generation != self.generation:
            return
        node = request.coordinator
        if isinstance(outcome, Failed):
            self.error = outcome.reason
            self._heartbeat.start(now)
            self._coordinator.lost(now, node, outcome.reason)
            return
        code = outcome.message.error_code
        self._verdict(now, request.sent_at, node, reaction(code), self._error(code, "heartbeat of", "Heartbeat"))

    def _verdict(self, now: float, sent_at: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        joins = self._joins_next(verdict)
        if verdict in (Reaction.NONE, Reaction.REJOIN) or joins:
            self._alive = max(self._alive, sent_at)
            self._coordinator.well()
        if verdict is Reaction.REFIND:
            self._heartbeat.start(now)
            self._coordinator.lost(now, node, error)
        elif verdict in (Reaction.RETRY, Reaction.STALE, Reaction.DENIED):
            self._heartbeat.start(now + self._backoff.next())
            if verdict is Reaction.DENIED:  # the coordinator keeps the member until its session ends; by then, the right may be granted
                self._assignee.denied(error)
        elif verdict is not Reaction.NONE and not joins:
            self._react(now, verdict, error, f"encountered {short_name(error)} from HEARTBEAT response")
        self.error = error if verdict is not Reaction.NONE else None

    def _joins_next(self, verdict: Reaction) -> bool:
        """Whether ILLEGAL_GENERATION only means that the next generation has begun, with the JoinGroup that this member has sent.

        In REJOINING, that attempt to join has failed, and the coordinator might not have the JoinGroup. If a generation begins without it,
        the coordinator removes the member, whose error is then UNKNOWN_MEMBER_ID. Only a static member stays, and gets ILLEGAL_GENERATION.
        """
        if verdict is not Reaction.OUTDATED or not self._asked:
            return False
        return self.state is not MemberState.REJOINING or self._config.group_instance_id is None

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        if identity is not self.identity:
            return False
        if verdict in (Reaction.DENIED, Reaction.STALE):  # if the whole group is denied, not just a topic, the next heartbeat reports it
            return verdict is Reaction.STALE
        if verdict is Reaction.OUTDATED and (generation != self.generation or self._joins_next(verdict)):
            return True
        name = short_name(error)
        if verdict is not Reaction.FATAL or name == ENDS_MEMBER:
            self.error = error
            why = "offset commit failed since group is already rebalancing" if verdict is Reaction.REJOIN else ""
            self._react(now, verdict, error, why or f"encountered {name} from OFFSET_COMMIT response")
        return verdict is Reaction.REJOIN and self._cooperative

    def _react(self, now: float, verdict: Reaction, error: KafkaError, why: str = "") -> None:
        if verdict is Reaction.REJOIN:
            if self.state is MemberState.STABLE:
                self._rebalance(now, "the group is rebalancing", why)
        elif verdict is Reaction.FATAL:
            self.fail(error)
        else:
            self._why = why
            self._cast_out(verdict, error)

    def _rebalance(self, now: float, reason: str, why: str) -> None:
        """Join again: an eager member after the release of its partitions. `reason` is for the log, `why` for the JoinGroup."""
        self._why = why
        if not self._cooperative:
            self._revoke(now, self._assignee.held, reason)
        elif self.state is MemberState.STABLE:  # in REVOKING the member waits for the application, and joins after that
            log.info("%s: joining again: %s", self._config.log_name, reason, generation=self.generation)
            self._move(MemberState.REJOINING)

    def _revoke(self, now: float, partitions: Collection[TopicPartition], reason: str) -> None:
        """Have the application release `partitions`; then this member joins again."""
        self._move(MemberState.REVOKING)
        self._given_back.update(partitions)
        self._assignee.revoke(partitions, now + self._rebalance_timeout, reason)

    def _cast_out(self, verdict: Reaction, error: KafkaError) -> None:
        """Lose all partitions: the coordinator does not know this member, or does not accept its generation."""
        if verdict is Reaction.STRANGER:
            self.member_id = ""
        if self.identity is not None:
            self._lost(str(error))

    # ---------------------------------------------------------------- leaving

    @property
    def is_known(self) -> bool:
        """A static member does not leave: the group expects it back."""
        return bool(self.member_id) and self._config.group_instance_id is None

    @property
    def _may_be_known(self) -> bool:
        return self.is_known

    def _send_leave(self, now: float, node: int) -> GroupInFlight:
        message, fit = requests.leave_request(self._config, self.member_id), partial(requests.fit_leave, self._why_leaving)
        return self._ask(now, node, message, now + self._timeout, GroupRequest.LEAVE, fit)

    def _left_group(self, now: float, request: GroupInFlight, outcome: Outcome) -> None:
        if request is self._leave:
            self._leave_answered()

    def _refused(self, error: KafkaError) -> None:
        super()._refused(error)
        self.rewinds.end(error)

    def _forget_membership(self) -> None:
        # A static member returns like a restarted one: without its member id, and without a generation in its metadata. The coordinator
        # can then answer with the former assignment. A JoinGroup with the id and changed metadata would make the whole group rebalance.
        self.member_id, self._held_since = "", -1
        self._assignee.left()

    def _move(self, to: MemberState) -> None:
        super()._move(to)
        if self.identity is not None:
            self.identity.begins = to is MemberState.SYNCING  # commits wait, because coordinators may reject them before SyncGroup
            if to in OUT:
                self.identity = None


STEPS: Mapping[MemberState, Callable[[ClassicProtocol, float], float]] = {
    MemberState.UNJOINED: ClassicProtocol._idle,
    MemberState.JOINING: ClassicProtocol._joining,
    MemberState.SYNCING: ClassicProtocol._syncing,
    MemberState.STABLE: ClassicProtocol._stable,
    MemberState.REVOKING: ClassicProtocol._live,
    MemberState.REJOINING: ClassicProtocol._rejoining,
    MemberState.LEAVING: ClassicProtocol._leaving,
    MemberState.FATAL: ClassicProtocol._idle,
}

READERS: Mapping[GroupRequest, Callable[[ClassicProtocol, float, GroupInFlight, Outcome], None]] = {
    GroupRequest.JOIN: ClassicProtocol._join_answered,
    GroupRequest.SYNC: ClassicProtocol._sync_answered,
    GroupRequest.HEARTBEAT: ClassicProtocol._beat_answered,
    GroupRequest.ASSIGNMENT: ClassicProtocol._assignment_answered,
    GroupRequest.LEAVE: ClassicProtocol._left_group,
}
