"""Classic protocol. Rule: losing the coordinator is a pause; what a coordinator answers decides what becomes of the member.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup; eager: whoever joins has given back all its partitions. `core.group.coordinator.Reaction` has a
row for each thing an answer can mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol

from pykafka4.config import ConsumerConfig
from pykafka4.core import INFINITY, Failed, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.assignors import assigned_partitions
from pykafka4.core.group.coordinator import Coordinator, Reaction, reaction
from pykafka4.core.group.leadership import Leadership
from pykafka4.core.group.protocol import MOVES, Assignee, MemberState
from pykafka4.core.group.requests import fit_leave, heartbeat_request, join_request, leave_request, sync_request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Assignment, Credentials
from pykafka4.errors import DecodeError, KafkaError, broker_error
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition

__all__ = ["ClassicProtocol", "Commits"]

log = get_log("pykafka4.group")

JOIN_GRACE: Final = 5.0  # seconds beyond the rebalance time-out before a silent JoinGroup is given up (Java's)
COMMITS_FIRST: Final = 5.0  # how long a join waits for commits made before the partitions were given back
ENDS_MEMBER: Final = ("FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED")  # in a commit's answer; other refusals concern the commit


class Commits(Protocol):
    """What the protocol must know of the commits under way."""

    @property
    def busy(self) -> bool:
        """Whether any commit has no answer yet."""

    @property
    def under_generation(self) -> bool:
        """Whether a commit has no answer yet that only the present generation's members may make."""


class ClassicProtocol:
    """One member of a group that its coordinator knows by a member id and a generation."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        cluster: Cluster,
        assignee: Assignee,
        random: Random,
        send: Callable[[Request], None],
        commits: Commits,
    ) -> None:
        self._config, self._coordinator = config, coordinator
        self._assignee, self._send = assignee, send
        self._commits = commits
        self._backoff = Backoff.retry(config, random)
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self._session = config.session_timeout_ms / 1000
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation = -1
        self._credentials: Credentials | None = None  # while partitions are ours
        self.error: KafkaError | None = None  # the last thing that went wrong
        self.leadership = Leadership(cluster)
        self._joined_with: tuple[str, ...] = ()
        self._joined_at: tuple[int, float]  # whom, and when
        self._protocol: str | None = None
        self._attempt: object = None  # the join or sync under way; answers to another are ignored
        self._held = False  # the coordinator has not answered the attempt yet
        self._rest_until = 0.0
        self._join_by = INFINITY  # join then, even if commits of the last generation are still unanswered
        self._alive = self._next_beat = 0.0
        self._beating = False
        self._leave_by = INFINITY
        self._leave: object = None  # the LeaveGroup under way

    # ---------------------------------------------------------------- the assignee's wishes

    def join(self, now: float) -> float:
        """Join when the coordinator can be asked; returns when to try again."""
        if now < self._rest_until:
            return self._rest_until
        if self._coordinator.node is None:
            self._coordinator.want()
            return INFINITY
        if self._commits.under_generation:
            # The coordinator takes them until the next generation begins, which this join may bring about.
            self._join_by = min(self._join_by, now + COMMITS_FIRST)
            if now < self._join_by:
                return self._join_by
        self._join(now, self._coordinator.node)
        return INFINITY

    def given_back(self) -> None:
        """The application has given back what was revoked."""
        if self.state is MemberState.REVOKING:
            self._move(MemberState.UNJOINED)

    def drop_out(self) -> None:
        """The partitions are lost, so this generation is over for this member. The coordinator is not told."""
        self.generation = -1
        if self.state is not MemberState.UNJOINED:
            self._move(MemberState.UNJOINED)

    def leave(self, now: float, by: float) -> None:
        """Tell the coordinator, so that the others need not wait out the session."""
        if self.state is MemberState.LEAVING:
            self._leave_by = min(by, self._leave_by)
            return
        self.start_over()
        self._give_up_attempt()
        self._move(MemberState.LEAVING)
        self._leave_by, self._leave = by, None
        self._leaving(now)

    def start_over(self) -> None:
        """The application wants something else: what was refused before may not be refused now."""
        if self.state is MemberState.FATAL:
            self._move(MemberState.UNJOINED)

    def fail(self, error: KafkaError) -> None:
        """No retry helps."""
        self.error = error
        self._give_up_attempt()
        self._lost(str(error))
        self._move(MemberState.FATAL)
        self._assignee.refused(error)

    def gone(self) -> None:
        """Nothing is wanted any more."""
        self.leadership.resign()

    # ---------------------------------------------------------------- the clock

    def poll(self, now: float) -> float:
        """Send what is due for a member that is in the group, enters or leaves it; returns when to be polled again."""
        return STEPS[self.state](self, now)

    def _joining(self, now: float) -> float:
        node, since = self._joined_at
        coordinator = self._coordinator.node
        if coordinator not in (None, node):
            self._rejoin(now)
            return now
        if coordinator is None:  # lost by whoever asked it last: frozen, it would hold the join until its time is over
            self._coordinator.want()
        return min(self._assignee.keep_lease(now), self._coordinator.check(now, since))

    def _syncing(self, now: float) -> float:
        if self.leadership.due < INFINITY:
            self._deal(now)
        return min(self._assignee.keep_lease(now), self.leadership.due)

    def _stable(self, now: float) -> float:
        if self._joined_with != self._assignee.topics:
            self._revoke(now, "the subscription changed")
        elif self.leadership.outgrown():
            self._revoke(now, "partitions or topics of the group appeared or went")
        elif self.leadership.ask_at <= now and self._coordinator.node is not None:
            self._ask_what_was_dealt(now, self._coordinator.node)
        ask_at = self.leadership.ask_at
        return min(self._live(now), ask_at if ask_at > now else INFINITY)

    def _ask_what_was_dealt(self, now: float, node: int) -> None:
        credentials = self._credentials

        def answered(at: float, outcome: Outcome) -> None:
            if credentials is self._credentials:
                self.leadership.learn(at, outcome)

        message = self.leadership.question(now, self._config.group_id or "")
        self._ask(node, message, now + self._config.request_timeout_ms / 1000, answered)

    def _leaving(self, now: float) -> float:
        """Positions first: they are refused from a member that has left."""
        if now >= self._leave_by:
            if self._is_known and self._leave is None and self._coordinator.node is not None:
                self._send_leave(now, self._coordinator.node)  # nobody waits for the answer
            self._left()
            return now
        if self._commits.busy:
            return self._leave_by
        if not self._is_known:
            self._left()
            return now
        if self._leave is None:
            if self._coordinator.node is not None:
                self._send_leave(now, self._coordinator.node)
            else:
                self._coordinator.want()
        return self._leave_by

    def _idle(self, now: float) -> float:
        return INFINITY

    def _live(self, now: float) -> float:
        """Heartbeats; returns when to look again."""
        if not self._holds():
            return now
        expires = self._alive + self._session
        if now >= expires:
            silence = f"no heartbeat was answered for session_timeout_ms={self._config.session_timeout_ms:g}"
            self._lost(f"{silence} ({self.error or 'no coordinator'})")
            return now
        lease_ends = self._assignee.keep_lease(now)
        if not self._holds():
            return now
        return min(lease_ends, expires, self._beat(now))

    def _holds(self) -> bool:
        """Whether partitions are ours, so that the coordinator expects heartbeats."""
        return self.state is MemberState.STABLE or self.state is MemberState.REVOKING

    def _beat(self, now: float) -> float:
        if self._beating:
            return INFINITY
        if now < self._next_beat:
            return self._next_beat
        node = self._coordinator.node
        if node is None:
            self._coordinator.want()
            return INFINITY
        interval = self._config.heartbeat_interval_ms / 1000
        self._beating = True
        self._next_beat = now + interval
        message = heartbeat_request(self._config, self.member_id, self.generation)
        # A coordinator that hangs must be noticed while there is still time to find its successor.
        patience = min(self._config.request_timeout_ms / 1000, max(self._session / 3, interval))
        credentials = self._credentials
        self._ask(node, message, now + patience, lambda at, outcome: self._beat_answered(at, now, credentials, node, outcome))
        return INFINITY

    def _ask(self, node: int, message: Any, deadline: float, on_reply: Callable[[float, Outcome], None]) -> None:
        self._send(Request(via(self._coordinator.lane, node), message, deadline, on_reply))

    def _attempt_with(self, node: int, message: Any, deadline: float, on_answer: Callable[[float, Outcome], None]) -> None:
        """Send a JoinGroup or SyncGroup; `on_answer` is called unless the attempt was given up before the answer."""
        attempt = self._attempt = object()
        self._held = True

        def answered(now: float, outcome: Outcome) -> None:
            if attempt is self._attempt:
                self._held = False
                on_answer(now, outcome)

        self._send(Request(via(self._coordinator.join_lane, node), message, deadline, answered))

    # ---------------------------------------------------------------- join and sync

    def _join(self, now: float, node: int) -> None:
        self._move(MemberState.JOINING)
        self._join_by = INFINITY
        self._joined_with, self._joined_at = self._assignee.topics, (node, now)
        message = join_request(self._config, self.member_id, self._joined_with)
        patience = max(self._config.request_timeout_ms / 1000, self._rebalance_timeout + JOIN_GRACE)
        self._attempt_with(node, message, now + patience, lambda at, outcome: self._join_answered(at, node, outcome))

    def _join_answered(self, now: float, node: int, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        answer = outcome.message
        verdict = reaction(answer.error_code)
        if verdict is not Reaction.NONE:
            at_once = verdict is Reaction.NAMED and not self.member_id  # being given another id every time is no progress
            self._turned_away(now, node, verdict, broker_error(answer.error_code, f"joining group {self._config.group_id}"))
            if verdict is Reaction.NAMED:
                self.member_id = answer.member_id
            if at_once:
                self._rest_until = now
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._move(MemberState.SYNCING)
        self._protocol = answer.protocol_name
        stranger = self.leadership.decide(answer, now + min(self._config.request_timeout_ms / 1000, self._session / 2))
        if stranger is not None:
            self.fail(KafkaError(f"group {self._config.group_id} agreed on assignor {stranger!r}, which this client does not have"))
        elif self.leadership.holds:
            self._deal(now)
        else:
            self._sync(now, {})

    def _deal(self, now: float) -> None:
        shares = self.leadership.deal(now)
        if shares is not None:
            self._sync(now, shares)

    def _sync(self, now: float, shares: Mapping[str, bytes]) -> None:
        node = self._coordinator.node
        if node is None:  # lost since the answer to the join: the generation will not wait for us
            self._rejoin(now)
            return
        message = sync_request(self._config, self.member_id, self.generation, self._protocol, shares)
        deadline = now + self._config.request_timeout_ms / 1000
        self._attempt_with(node, message, deadline, lambda at, outcome: self._sync_answered(at, now, node, outcome))

    def _sync_answered(self, now: float, sent_at: float, node: int, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        verdict = reaction(outcome.message.error_code)
        if verdict is not Reaction.NONE:
            self._turned_away(now, node, verdict, broker_error(outcome.message.error_code, f"group {self._config.group_id}: sync"))
            return
        try:
            tps = assigned_partitions(outcome.message.assignment)
        except DecodeError as error:
            self._turned_away(now, node, Reaction.RETRY, error)
            return
        self._enter(now, sent_at, tps)

    def _enter(self, now: float, sent_at: float, tps: list[TopicPartition]) -> None:
        """The generation begins, with these partitions for this member."""
        self._move(MemberState.STABLE)
        self._attempt, self.error = None, None
        self._backoff.reset()
        self._coordinator.well()
        # The session begins when the coordinator answers, however long it has held the request back. An answer that took longer may be
        # late itself, so the coordinator is asked at once.
        pause = self._config.heartbeat_interval_ms / 1000
        self._alive, self._next_beat = now, now + pause if now - sent_at < pause else now
        instance = self._config.group_instance_id
        credentials = self._credentials = Credentials(self._config.group_id or "", self.generation, self.member_id, instance)
        self._assignee.assigned(Assignment(self.generation, tuple(tps)), credentials)

    # ---------------------------------------------------------------- answers that are not what was hoped for

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        """A join or sync got no answer: the coordinator may be another by now."""
        if not outcome.passing:
            self.fail(outcome.reason)
            return
        self._coordinator.lost(now, node, outcome.reason)
        self.error = outcome.reason
        self._rejoin(now)

    def _turned_away(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        """A join or sync was refused."""
        self.error = error
        if verdict is Reaction.FATAL:
            self.fail(error)
            return
        if verdict is Reaction.REFIND:
            self._coordinator.lost(now, node, error)
        elif verdict is Reaction.STRANGER:
            self.member_id = ""
        self._rejoin(now)

    def _rejoin(self, now: float) -> None:
        self._give_up_attempt()
        self._move(MemberState.UNJOINED)
        self._rest_until = now + self._backoff.next()

    def _give_up_attempt(self) -> None:
        if self._held:
            self._coordinator.renew_join_lane()
        self._attempt, self._held = None, False
        self.leadership.abandon()

    def _beat_answered(self, now: float, sent_at: float, credentials: Credentials | None, node: int, outcome: Outcome) -> None:
        self._beating = False
        if credentials is not self._credentials:
            return
        if isinstance(outcome, Failed):
            self.error = outcome.reason
            self._next_beat = now
            self._coordinator.lost(now, node, outcome.reason)
            return
        code = outcome.message.error_code
        self._verdict(now, sent_at, node, reaction(code), broker_error(code, f"group {self._config.group_id}: heartbeat"))

    def _verdict(self, now: float, sent_at: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        if verdict in (Reaction.NONE, Reaction.REJOIN):
            self._alive = max(self._alive, sent_at)
            self._coordinator.well()
        if verdict is Reaction.REFIND:
            self._next_beat = now
            self._coordinator.lost(now, node, error)
        elif verdict is Reaction.RETRY:
            self._next_beat = now + self._backoff.next()
        elif verdict is not Reaction.NONE:
            self._heed(now, verdict, error)
        self.error = error if verdict is not Reaction.NONE else None

    def on_commit_verdict(self, now: float, credentials: Credentials, verdict: Reaction, error: KafkaError) -> None:
        """The answer to a commit said something about the member that made it."""
        if credentials is not self._credentials:
            return
        name = getattr(getattr(error, "code", None), "name", "")
        if verdict is not Reaction.FATAL or name in ENDS_MEMBER:
            self.error = error
            self._heed(now, verdict, error)

    def _heed(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        """The coordinator told a member with partitions what has become of it."""
        if verdict is Reaction.REJOIN:
            if self.state is MemberState.STABLE:
                self._revoke(now, "the group is rebalancing")
        elif verdict is Reaction.FATAL:
            self.fail(error)
        else:
            if verdict is Reaction.STRANGER:
                self.member_id = ""
            self._lost(str(error))

    def _revoke(self, now: float, reason: str) -> None:
        """Partitions have to be given back before this member can join again."""
        self._move(MemberState.REVOKING)
        self._assignee.revoke(now, reason)

    def _lost(self, reason: str) -> None:
        self._assignee.lost(reason)
        self.drop_out()

    # ---------------------------------------------------------------- leaving

    @property
    def _is_known(self) -> bool:
        """Whether there is a member to take leave of. Static members come back: they stay silent."""
        return bool(self.member_id) and self._config.group_instance_id is None

    def _send_leave(self, now: float, node: int) -> None:
        leave = self._leave = object()
        message = leave_request(self._config, self.member_id)
        deadline = now + self._config.request_timeout_ms / 1000  # its connection may be shared: it outlasts this member's patience
        on_reply = lambda at, outcome: self._leave_answered(leave)  # noqa: E731
        self._send(Request(via(self._coordinator.lane, node), message, deadline, on_reply, fit=fit_leave))

    def _leave_answered(self, leave: object) -> None:
        """Whatever the answer: a coordinator that did not hear it drops the member when its session is over."""
        if self.state is MemberState.LEAVING and leave is self._leave:
            self._left()

    def _left(self) -> None:
        if self.state is MemberState.LEAVING:
            self._move(MemberState.UNJOINED)
        if self._config.group_instance_id is None:
            self.member_id = ""
        self.generation = -1
        self._leave_by, self._rest_until = INFINITY, 0.0
        self._assignee.left()

    def _move(self, to: MemberState) -> None:
        self.state = MOVES.move(self.state, to)
        if not self._holds():
            self._credentials = None


STEPS: Mapping[MemberState, Callable[[ClassicProtocol, float], float]] = {
    MemberState.UNJOINED: ClassicProtocol._idle,
    MemberState.JOINING: ClassicProtocol._joining,
    MemberState.SYNCING: ClassicProtocol._syncing,
    MemberState.STABLE: ClassicProtocol._stable,
    MemberState.REVOKING: ClassicProtocol._live,
    MemberState.LEAVING: ClassicProtocol._leaving,
    MemberState.FATAL: ClassicProtocol._idle,
}
