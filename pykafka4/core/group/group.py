"""Group. Rule: partitions are given back by the application or declared lost, never taken silently; only then does the member join again.

The classic protocol: join, sync, heartbeats, leave. Losing the coordinator is a pause (`core.group.coordinator`); what the coordinator
answers decides: `REACTIONS` has a row for each thing an answer can mean.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

from pykafka4.config import ConsumerConfig
from pykafka4.core import INFINITY, Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.assignors import assigned_partitions, subscription_bytes
from pykafka4.core.group.coordinator import Coordinator, Reaction, reaction
from pykafka4.core.group.leadership import Leadership
from pykafka4.core.metadata.cluster import MISSING, Cluster
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Assigned, Claim, Ended, Ending, Lasting, Start, Ticket, Trouble
from pykafka4.errors import DecodeError, KafkaError, broker_error
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

__all__ = ["Application", "Group", "MemberState", "Partitions"]

log = get_log("pykafka4.group")

PROTOCOL: Final = "consumer"
LEAVE_MANY_FROM: Final = 3  # before, a leave names one member, in other fields
JOIN_GRACE: Final = 5.0  # seconds beyond the rebalance time-out before a silent JoinGroup is given up (Java's)
LEAVE_SECONDS: Final = 5.0  # how long to look for a coordinator only to say good-bye
COMMITS_FIRST: Final = 5.0  # how long a join waits for commits made before the partitions were given back
ENDS_MEMBER: Final = ("FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED")  # in a commit's answer; other refusals concern the commit


class MemberState(enum.Enum):
    """Where this member stands. The value is what `status()` shows as its state, `meaning` the same for people."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    REVOKING = "revoking"
    LEAVING = "leaving"
    FATAL = "fatal"

    @property
    def meaning(self) -> str | None:
        """None for the ordinary state."""
        return _MEANINGS.get(self)


_MEANINGS = {
    MemberState.UNJOINED: "is not in the group",
    MemberState.JOINING: "waits for the other members of the group",
    MemberState.SYNCING: "waits for its partitions",
    MemberState.REVOKING: "waits for the application to give its partitions back",
    MemberState.LEAVING: "leaves the group",
    MemberState.FATAL: "the group refused it for good",
}
_U, _J, _S, _T, _R, _L, _F = MemberState

MOVES = Transitions(
    "group member",
    {
        _U: {_J, _L, _F},
        _J: {_S, _U, _L, _F},
        _S: {_T, _U, _L, _F},
        _T: {_R, _U, _L, _F},
        _R: {_U, _L, _F},
        _L: {_U, _F},
        _F: {_U},
    },
)


class Application(Protocol):
    """What the group must know of, and tell, the thread that polls."""

    beckoned: bool  # set here: the next poll wakes the loop

    def idle_since(self) -> float | None:
        """When the last poll returned, None while one is under way, -INFINITY before the first."""

    def put(self, item: object) -> None:
        """Hand over an event, in order with the data."""


class Partitions(Protocol):
    """Who reads the partitions given to this member."""

    def adopt(self, claims: tuple[Claim, ...], start: Start | int, fallback: Callable[[TopicPartition], Start]) -> None:
        """Begin to read."""

    def drop(self, claims: tuple[Claim, ...]) -> None:
        """Stop reading; what is under way is dropped on arrival."""


class Commits(Protocol):
    """What the group must know of the commits under way."""

    @property
    def busy(self) -> bool:
        """Whether any commit has no answer yet."""

    @property
    def under_generation(self) -> bool:
        """Whether a commit has no answer yet that only the present generation's members may make."""


class Group:
    """This consumer as a member of its group."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        cluster: Cluster,
        application: Application,
        partitions: Partitions,
        random: Random,
        send: Callable[[Request], None],
        commits: Commits,
    ) -> None:
        self._config, self._coordinator, self._cluster = config, coordinator, cluster
        self._application, self._partitions, self._send = application, partitions, send
        self._commits = commits
        self._backoff = Backoff.retry(config, random)
        self._policy = Start(config.auto_offset_reset)
        self._max_poll = config.max_poll_interval_ms / 1000
        self._session = config.session_timeout_ms / 1000
        self.state = MemberState.UNJOINED
        self.topics: tuple[str, ...] = ()
        self.member_id = ""
        self.generation = -1
        self.ticket: Ticket | None = None  # until the application gives it back
        self.error: KafkaError | None = None  # the last thing that went wrong
        self.leadership = Leadership(cluster)
        self._joined_with: tuple[str, ...] = ()
        self._joined_at: tuple[int, float]  # whom, and when
        self._sizes: dict[str, int] = {}  # partitions per topic when the subscription was first looked at
        self._ids: dict[str, UUID | None] = {}  # of these topics
        self._picture = -1
        self._protocol: str | None = None
        self._attempt: object = None  # the join or sync under way; answers to another are ignored
        self._held = False  # the coordinator has not answered the attempt yet
        self._rest_until = 0.0
        self._join_by = INFINITY  # join then, even if commits of the last generation are still unanswered
        self._alive = self._next_beat = 0.0
        self._beating = False
        self._leave_by = INFINITY
        self._leave: object = None  # the LeaveGroup under way
        self._when_left: list[Callable[[], None]] = []

    # ---------------------------------------------------------------- the application's wishes

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Be a member that wants `topics`."""
        for topic in set(self.topics) - set(topics):
            self._cluster.forget(topic, self)
        self.topics = topics
        self._picture = -1
        self._sizes = {topic: size for topic, size in self._sizes.items() if topic in topics}
        self._ids = {topic: topic_id for topic, topic_id in self._ids.items() if topic in topics}
        for topic in topics:
            self._cluster.want(topic, self)
        if self.state is MemberState.FATAL:
            self._move(MemberState.UNJOINED)

    def leave(self, now: float, patience: float, then: Callable[[], None]) -> None:
        """Stop being a member; `then` is called once the coordinator knows, or `patience` seconds passed."""
        self.gone()
        self._sizes.clear()
        self._ids.clear()
        self._when_left.append(then)
        if self.ticket is not None:
            self._partitions.drop(self.ticket.claims)
            self.ticket.ending = self.ticket.ending or Ending.REVOKED  # an application that has not seen it yet must not take it up
            self.ticket = None
        if self.state is MemberState.FATAL:
            self._move(MemberState.UNJOINED)
        self._say_goodbye(now, now + patience)

    def gone(self) -> None:
        """Nothing is wanted any more."""
        for topic in self.topics:
            self._cluster.forget(topic, self)
        self.topics = ()
        self.leadership.resign()

    def released(self, ticket: Ticket) -> None:
        """The application has finished with the partitions of `ticket`."""
        if self.ticket is ticket:
            self.ticket = None
            if self.state is MemberState.REVOKING:
                self._move(MemberState.UNJOINED)

    # ---------------------------------------------------------------- the clock

    def poll(self, now: float) -> float:
        """Do what is due; returns when to be polled again."""
        if self._cluster.version != self._picture:
            self._picture = self._cluster.version
            self._look_at_topics()
        return STEPS[self.state](self, now)

    def _unjoined(self, now: float) -> float:
        if not self.topics or self.ticket is not None:
            return INFINITY
        if self._lease_ends(now) <= now:
            self._application.beckoned = True
            if self._lease_ends(now) <= now:  # looked at again: a poll that began in between did not see the sign
                return INFINITY
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
        return self._lease_ends(now)

    def _joining(self, now: float) -> float:
        node, since = self._joined_at
        coordinator = self._coordinator.node
        if coordinator not in (None, node):
            self._rejoin(now)
            return now
        if coordinator is None:  # lost by whoever asked it last: frozen, it would hold the join until its time is over
            self._coordinator.want()
        return min(self._keep_lease(now), self._coordinator.check(now, since))

    def _syncing(self, now: float) -> float:
        if self.leadership.due < INFINITY:
            self._deal(now)
        return min(self._keep_lease(now), self.leadership.due)

    def _stable(self, now: float) -> float:
        if self._joined_with != self.topics:
            self._revoke(now, "the subscription changed")
        elif self.leadership.outgrown():
            self._revoke(now, "partitions or topics of the group appeared or went")
        elif self.leadership.ask_at <= now and self._coordinator.node is not None:
            self._ask_what_was_dealt(now, self._coordinator.node)
        ask_at = self.leadership.ask_at
        return min(self._live(now), ask_at if ask_at > now else INFINITY)

    def _ask_what_was_dealt(self, now: float, node: int) -> None:
        ticket = self.ticket

        def answered(at: float, outcome: Outcome) -> None:
            if ticket is self.ticket:
                self.leadership.learn(at, outcome)

        message = self.leadership.question(now, self._config.group_id or "")
        self._ask(node, message, now + self._config.request_timeout_ms / 1000, answered)

    def _revoking(self, now: float) -> float:
        ticket = self.ticket
        assert ticket is not None
        if now >= ticket.deadline:
            reason = f"the partitions were not given back within max_poll_interval_ms={self._config.max_poll_interval_ms:g}"
            self._lost(now, reason, MemberState.UNJOINED)
            return now
        return min(self._live(now), ticket.deadline)

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

    def _lease_ends(self, now: float) -> float:
        """When the application must have polled again; it polls now when this is in the future."""
        idle = self._application.idle_since()
        return (now if idle is None else idle) + self._max_poll

    def _keep_lease(self, now: float) -> float:
        """Leave the group when the application stopped polling: others must not wait for a member that reads nothing."""
        ends = self._lease_ends(now)
        if now < ends:
            return ends
        reason = (
            f"max_poll_interval_ms={self._config.max_poll_interval_ms:g} was over: the application has not called poll, nor a loop asked "
            "for its next record, for that long; raise that option, or lower max_poll_records"
        )
        log.warning("%s: group %s: leaving, %s", self._config.client_id, self._config.group_id, reason)
        self._lost(now, reason, None)
        self._say_goodbye(now, now + LEAVE_SECONDS)
        return now

    def _live(self, now: float) -> float:
        """Heartbeats; returns when to look again."""
        if not self._holds():
            return now
        expires = self._alive + self._session
        if now >= expires:
            silence = f"no heartbeat was answered for session_timeout_ms={self._config.session_timeout_ms:g}"
            self._lost(now, f"{silence} ({self.error or 'no coordinator'})", MemberState.UNJOINED)
            return now
        lease_ends = self._keep_lease(now)
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
        message = HeartbeatRequest(
            group_id=self._config.group_id or "",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        # A coordinator that hangs must be noticed while there is still time to find its successor.
        patience = min(self._config.request_timeout_ms / 1000, max(self._session / 3, interval))
        ticket = self.ticket
        self._ask(node, message, now + patience, lambda at, outcome: self._beat_answered(at, now, ticket, node, outcome))
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

    # ---------------------------------------------------------------- topics

    def _look_at_topics(self) -> None:
        """Note how large each topic was when it was first looked at, and say what can never be read.

        All of a topic that is created again later is new.
        """
        for topic in self.topics:
            error, before = self._cluster.topic_error(topic), self._ids.get(topic)
            topic_id = self._ids[topic] = self._cluster.topic_id(topic) or before
            if topic in self._sizes:
                missing = error is not None and error.code in MISSING and not self._cluster.partitions(topic)
                if missing or (before is not None and topic_id != before):
                    self._sizes[topic] = 0
                continue
            if self._cluster.partitions(topic):
                self._sizes[topic] = self._cluster.partitions(topic)
            elif error is not None and error.name == "UNKNOWN_TOPIC_OR_PARTITION":
                self._sizes[topic] = 0
                log.warning(
                    "%s: group %s: subscribed topic %r does not exist; it will be read once it does",
                    self._config.client_id,
                    self._config.group_id,
                    topic,
                )
            elif error is not None and not error.retriable:
                self._sizes[topic] = 0
                self._application.put(Trouble(None, broker_error(error.code, f"topic {topic}"), Lasting.ONCE))

    def _fallback(self, tp: TopicPartition) -> Start:
        """Where to begin without a committed offset: what appeared after the subscription is read from its beginning."""
        is_new = tp.partition >= self._sizes.get(tp.topic, tp.partition + 1)
        return Start.EARLIEST if is_new and self._policy is Start.LATEST else self._policy

    # ---------------------------------------------------------------- join and sync

    def _join(self, now: float, node: int) -> None:
        self._move(MemberState.JOINING)
        self._join_by = INFINITY
        self._joined_with, self._joined_at = self.topics, (node, now)
        metadata = subscription_bytes(self.topics)
        message = JoinGroupRequest(
            group_id=self._config.group_id or "",
            session_timeout_ms=int(self._config.session_timeout_ms),
            rebalance_timeout_ms=int(self._config.max_poll_interval_ms),
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=metadata) for name in self._config.partition_assignment_strategy],
        )
        patience = max(self._config.request_timeout_ms / 1000, self._max_poll + JOIN_GRACE)
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
            self._fatal(now, KafkaError(f"group {self._config.group_id} agreed on assignor {stranger!r}, which this client does not have"))
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
        message = SyncGroupRequest(
            group_id=self._config.group_id or "",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL,
            protocol_name=self._protocol,
            assignments=[SyncGroupRequest.Assignment(member_id=member_id, assignment=share) for member_id, share in shares.items()],
        )
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
        """Take up `tps`, but for topics not subscribed to: the subscription changed meanwhile, or the leader is wrong."""
        self._move(MemberState.STABLE)
        tps = [tp for tp in tps if tp.topic in self.topics]
        self._attempt, self.error = None, None
        self._backoff.reset()
        self._coordinator.well()
        # The session begins when the coordinator answers, however long it has held the request back. An answer that took longer may be
        # late itself, so the coordinator is asked at once.
        pause = self._config.heartbeat_interval_ms / 1000
        self._alive, self._next_beat = now, now + pause if now - sent_at < pause else now
        ticket = self.ticket = Ticket(self.generation, self.member_id, tuple(Claim(tp) for tp in tps))
        log.info("%s: group %s: generation %d, %d partitions", self._config.client_id, self._config.group_id, self.generation, len(tps))
        self._partitions.adopt(ticket.claims, Start.COMMITTED, self._fallback)
        self._application.put(Assigned(ticket))

    # ---------------------------------------------------------------- answers that are not what was hoped for

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        """A join or sync got no answer: the coordinator may be another by now."""
        if not outcome.passing:
            self._fatal(now, outcome.reason)
            return
        self._coordinator.lost(now, node, outcome.reason)
        self.error = outcome.reason
        self._rejoin(now)

    def _turned_away(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        """A join or sync was refused."""
        self.error = error
        if verdict is Reaction.FATAL:
            self._fatal(now, error)
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

    def _beat_answered(self, now: float, sent_at: float, ticket: Ticket | None, node: int, outcome: Outcome) -> None:
        self._beating = False
        if ticket is not self.ticket or not self._holds():
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

    def on_commit_verdict(self, now: float, ticket: Ticket | None, verdict: Reaction, error: KafkaError) -> None:
        """The answer to a commit said something about the member that made it."""
        if ticket is None or ticket is not self.ticket or not self._holds():
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
            self._fatal(now, error)
        else:
            if verdict is Reaction.STRANGER:
                self.member_id = ""
            self._lost(now, str(error), MemberState.UNJOINED)

    # ---------------------------------------------------------------- giving up partitions

    def _revoke(self, now: float, reason: str) -> None:
        """Ask the application to give its partitions back; what it has not read yet will be read by the next owner."""
        ticket = self.ticket
        assert ticket is not None
        log.info("%s: group %s: giving back %d partitions, %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
        self._move(MemberState.REVOKING)
        ticket.ending, ticket.reason, ticket.deadline = Ending.REVOKED, reason, now + self._max_poll
        self._partitions.drop(ticket.claims)
        self._application.put(Ended(ticket))

    def _lost(self, now: float, reason: str, to: MemberState | None) -> None:
        """The partitions may be somebody else's already. The ticket stays until the application has heard of it."""
        ticket = self.ticket
        if ticket is not None and ticket.ending is not Ending.LOST:
            log.warning("%s: group %s: lost %d partitions, %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
            ticket.ending, ticket.reason = Ending.LOST, reason
            self._partitions.drop(ticket.claims)
            self._application.put(Ended(ticket))
        self.generation = -1
        if to is not None:
            self._move(to)

    def _fatal(self, now: float, error: KafkaError) -> None:
        self.error = error
        self._give_up_attempt()
        self._lost(now, str(error), None)
        self._move(MemberState.FATAL)
        self._application.put(Trouble(None, error))

    def on_fatal(self, error: KafkaError) -> None:
        """The coordinator cannot be looked up, and never will be."""
        if self.topics and self.state is not MemberState.FATAL:
            self._fatal(0.0, error)

    # ---------------------------------------------------------------- leaving

    @property
    def _is_known(self) -> bool:
        """Whether there is a member to take leave of. Static members come back: they stay silent."""
        return bool(self.member_id) and self._config.group_instance_id is None

    def _say_goodbye(self, now: float, by: float) -> None:
        """Tell the coordinator, so that the others need not wait out the session."""
        if self.state is MemberState.LEAVING:
            self._leave_by = min(by, self._leave_by)
            return
        self._give_up_attempt()
        self._move(MemberState.LEAVING)
        self._leave_by, self._leave = by, None
        self._leaving(now)

    def _send_leave(self, now: float, node: int) -> None:
        leave = self._leave = object()
        group = self._config.group_id or ""
        message = LeaveGroupRequest(group_id=group, member_id=self.member_id, members=[])
        deadline = now + self._config.request_timeout_ms / 1000  # its connection may be shared: it outlasts this member's patience
        on_reply = lambda at, outcome: self._leave_answered(leave)  # noqa: E731
        self._send(Request(via(self._coordinator.lane, node), message, deadline, on_reply, fit=_leave_in))

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
        waiting, self._when_left = self._when_left, []
        for then in waiting:
            then()

    def _move(self, to: MemberState) -> None:
        self.state = MOVES.move(self.state, to)


def _leave_in(message: LeaveGroupRequest, version: int) -> None:
    if version >= LEAVE_MANY_FROM:
        message.members = [LeaveGroupRequest.Member(member_id=message.member_id)]
        message.member_id = ""


STEPS: Mapping[MemberState, Callable[[Group, float], float]] = {
    MemberState.UNJOINED: Group._unjoined,
    MemberState.JOINING: Group._joining,
    MemberState.SYNCING: Group._syncing,
    MemberState.STABLE: Group._stable,
    MemberState.REVOKING: Group._revoking,
    MemberState.LEAVING: Group._leaving,
    MemberState.FATAL: Group._idle,
}
