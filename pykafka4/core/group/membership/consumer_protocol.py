"""Consumer protocol (KIP-848). Rule: a partition is given back after the application has released it and its commits are complete.

ConsumerGroupHeartbeat is the only request: it joins (epoch 0), reports what has changed since the last one, acknowledges the assignment by
the partitions that are owned, and leaves (epoch -1; a static member that comes back -2). The coordinator assigns partitions one by one: it
assigns one to a member after the member that had it no longer reports it.
A response that is lost may have changed the epoch. So the heartbeat after it is a full one, which names the partitions that are owned:
the coordinator then accepts the previous epoch.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.coordinator import GroupCoordinator
from pykafka4.core.group.membership.consumer_requests import Owned, Report, group_heartbeat, needs_version_1, not_supported
from pykafka4.core.group.membership.heartbeats import FIRST_INTERVAL, HeartbeatTimer
from pykafka4.core.group.membership.protocol import Assignee, CommitsInFlight
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import via
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import Credentials
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatResponse

__all__ = ["MOVES", "ConsumerProtocol", "ConsumerState"]

log = get_log("pykafka4.group")

COMMITS_FIRST: Final = 5.0  # seconds for which a released partition is not given back because of commits that are not complete
UNKNOWN_SECONDS: Final = 30.0  # after which an assigned topic that the metadata lacks is reported
# Seconds until the metadata is requested again for a topic id without a name. After a report: the list of all topics is long.
LOOK_AGAIN, LOOK_SELDOM = 1.0, 30.0
# A static member that was killed holds its instance id until its session is over: at most group.consumer.max.session.timeout.ms (60 s)
# by default. If the id is in use for longer, another process lives.
UNRELEASED_SECONDS: Final = 75.0
UNRELEASED: Final = BY_NAME["UNRELEASED_INSTANCE_ID"].code
UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_VERSION"].code
ENDS_MEMBER: Final = "FENCED_INSTANCE_ID"  # in a commit's response; other errors that are not retriable concern only the commit
GONE: Final = BY_NAME["GROUP_ID_NOT_FOUND"].code
LEAVES, LEAVES_FOR_A_WHILE = -1, -2  # epochs


class ConsumerState(enum.Enum):
    """The state of this member. `status()` shows the value as the state, and `meaning` as the reason."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    REVOKING = "revoking"
    LEAVING = "leaving"
    FATAL = "fatal"

    @property
    def meaning(self) -> str | None:
        """None in the normal state."""
        return _MEANINGS.get(self)


_MEANINGS = {
    ConsumerState.UNJOINED: "not a member",
    ConsumerState.JOINING: "waiting for the coordinator to accept it",
    ConsumerState.REVOKING: "waiting for the application to release revoked partitions; the others are read",
    ConsumerState.LEAVING: "leaving the group",
    ConsumerState.FATAL: "rejected by the group; it joins again when the subscription changes",
}
S = ConsumerState

MOVES = Transitions(
    "group member of the consumer protocol",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.REVOKING, S.UNJOINED, S.LEAVING, S.FATAL},
        S.REVOKING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED, S.FATAL},
        S.FATAL: {S.UNJOINED},
    },
    {**_MEANINGS, S.STABLE: "sends heartbeats, and reads what it is assigned"},
)


@attrs.define(eq=False)
class Ownership:
    """The partitions that the member reports as owned, by topic id, and what keeps it from giving them back."""

    ids: dict[TopicPartition, UUID] = attrs.Factory(dict)  # the topic's id when the partition was assigned
    revoking: set[TopicPartition] = attrs.Factory(set)  # the application has to release them
    closing: dict[TopicPartition, float] = attrs.Factory(dict)  # released; given back at that time, or when their commits are complete
    _reported: frozenset[Owned] | None = None  # until `ids` changes: every turn of the loop asks for it

    def report(self) -> frozenset[Owned]:
        """As the coordinator knows them."""
        if self._reported is None:
            self._reported = frozenset((topic_id, tp.partition) for tp, topic_id in self.ids.items())
        return self._reported

    def take(self, fresh: Mapping[TopicPartition, UUID]) -> None:
        """The member owns these as well."""
        self.ids.update(fresh)
        self._reported = None

    def give_back(self, tp: TopicPartition) -> None:
        """The member does not own it any more."""
        del self.closing[tp], self.ids[tp]
        self._reported = None

    def clear(self) -> None:
        """The member owns nothing."""
        self._reported = None
        self.ids.clear()
        self.revoking.clear()
        self.closing.clear()


@attrs.define(eq=False)
class HeartbeatInFlight(Request):
    """A ConsumerGroupHeartbeat without a response."""

    member: ConsumerProtocol = attrs.field(kw_only=True)
    coordinator: int = attrs.field(kw_only=True)
    report: Report | None = attrs.field(kw_only=True)  # None: the member gives back its place

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.member.heartbeat_ended(now, self, outcome)


class ConsumerProtocol:
    """One member of a group, identified by a member id that it makes itself (KIP-1082), and a member epoch."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        cluster: Cluster,
        assignee: Assignee,
        random: Random,
        outbox: Outbox,
        commits: CommitsInFlight,
    ) -> None:
        self._config, self._coordinator, self._cluster = config, coordinator, cluster
        self._assignee, self._outbox, self._commits = assignee, outbox, commits
        self._backoff = Backoff.retry(config, random)
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self.state = ConsumerState.UNJOINED
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.generation = -1
        self.credentials: Credentials | None = None  # while the member is in the group
        self.error: KafkaError | None = None  # the last error
        self._owned = Ownership()
        self._target: dict[UUID, frozenset[int]] | None = None  # the assignment; None: there is none yet
        self._topics: tuple[str, ...] = ()  # of the subscription, when the assignment was last compared with what is held
        self._told_application = False  # of the first assignment since the join, which may be empty
        self._settled = False  # what is held is what is assigned, or on its way
        self._look_at = INFINITY  # when to compare again, because the metadata lacks a topic
        self._look_pause = LOOK_AGAIN
        self._version = 0  # of the metadata, when it lacked one
        self._unknown_since: float | None = None  # since when it lacks one, or since that was last reported
        self._told: Report | None = None  # what the coordinator knows of this member; None: the next heartbeat is a full one
        self._in_flight: HeartbeatInFlight | None = None  # the heartbeat without a response; responses to others are ignored
        self._heartbeat = HeartbeatTimer(FIRST_INTERVAL)
        self._rest_until = 0.0  # of a member that is out
        self._known = False  # the coordinator may know this member
        self._release_first = False  # leave before joining: the coordinator has another member with this id or instance id
        self._unreleased_since: float | None = None
        self._leave_by = INFINITY
        self._leave: HeartbeatInFlight | None = None  # the last heartbeat, in flight

    # ---------------------------------------------------------------- calls of the assignee

    @property
    def is_out(self) -> bool:
        """Whether the member is out of the group, and `join` would change that."""
        return self.state is S.UNJOINED

    @property
    def is_known(self) -> bool:
        """Not a member that is out: the coordinator has put it out, or it has left."""
        return False

    def join(self, now: float) -> float:
        """Join as soon as the coordinator is known; returns when to try again."""
        if now < self._rest_until:
            return self._rest_until
        subscription = self._report()
        if not subscription.topics and subscription.regex is None:  # a pattern that no topic matches yet: there is nothing to report
            return INFINITY
        node = self._coordinator.node
        if node is None:
            self._coordinator.want()
            return INFINITY
        self._target, self._told, self._told_application = None, None, False
        self._heartbeat.interval = FIRST_INTERVAL
        self._move(S.JOINING)
        if self._release_first:
            self._ask(now, node, self._last_epoch, None)
        else:
            self._known = True
            self._beat(now, node, 0)
        return INFINITY

    def released(self) -> None:
        """The application has released partitions that were revoked. They are given back when their commits are complete."""
        held = self._assignee.held
        for tp in [tp for tp in self._owned.revoking if tp not in held]:
            self._owned.revoking.discard(tp)
            self._owned.closing[tp] = INFINITY

    def drop_out(self) -> None:
        """All partitions are lost, so the member is out of the group. No request is sent."""
        self.generation, self._in_flight = -1, None
        self._owned.clear()
        if self.state is not S.UNJOINED:
            self._move(S.UNJOINED)

    def leave(self, now: float, by: float, reason: str) -> None:
        """Tell the coordinator, so that the other members need not wait for the end of the session. It is not told the reason."""
        if self.state is S.LEAVING:
            self._leave_by = min(by, self._leave_by)
            return
        self.start_over()
        self._in_flight = None
        self._move(S.LEAVING)
        self._leave_by, self._leave = by, None
        self._leaving(now)

    def start_over(self) -> None:
        """The subscription changed: a member that was rejected tries again."""
        if self.state is S.FATAL:
            self._unreleased_since = None
            self._move(S.UNJOINED)

    def fail(self, error: KafkaError) -> None:
        """An error that is not retriable."""
        if self.state is S.FATAL:
            return
        self.error = error
        self._lost(str(error))
        self._move(S.FATAL)
        self._assignee.refused(error)

    def gone(self) -> None:
        """The subscription ended."""

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        """Send what is due while the member is in the group, joins or leaves it; returns when to be polled again."""
        return STEPS[self.state](self, now)

    def _joining(self, now: float) -> float:
        return self._assignee.keep_lease(now)

    def _live(self, now: float) -> float:
        """Compare what is held with the assignment, and send heartbeats; returns when to look again."""
        lease_ends = self._assignee.keep_lease(now)
        if not self._is_in:
            return now
        give_back_at = self._give_back(now)
        self._reconcile(now)
        return min(lease_ends, give_back_at, self._look_at, self._beat_if_due(now))

    def _leaving(self, now: float) -> float:
        """Commits first: those of a member that has left are rejected."""
        node = self._coordinator.node
        if now >= self._leave_by:
            if self._known and self._leave is None and node is not None:
                self._send_leave(now, node)  # without waiting for the response
            self._left()
            return now
        if self._commits.busy:
            return self._leave_by
        if not self._known:
            self._left()
            return now
        if self._leave is None:
            if node is not None:
                self._send_leave(now, node)
            else:
                self._coordinator.want()
        return self._leave_by

    def _idle(self, now: float) -> float:
        return INFINITY

    @property
    def _is_in(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state is S.STABLE or self.state is S.REVOKING

    # ---------------------------------------------------------------- partitions

    def _reconcile(self, now: float) -> None:
        """Revoke what is held and not assigned, take what is assigned and not held."""
        if self._target is None or (self._settled and self._topics == self._assignee.topics and not self._may_know_more(now)):
            return
        self._settled, self._topics, self._look_at = True, self._assignee.topics, INFINITY
        owned, topics = self._owned, frozenset(self._topics)
        gone = [tp for tp in self._assignee.held if tp not in owned.revoking and not (tp.topic in topics and self._is_assigned(tp))]
        if gone:
            owned.revoking.update(gone)
            self._assignee.revoke(
                gone, now + self._rebalance_timeout, "the coordinator assigned them to others, or the subscription changed"
            )
        fresh = self._fresh(now, topics)
        if fresh or not self._told_application:
            self._told_application = True
            owned.take(fresh)
            if self.credentials is not None:
                self.credentials.topic_ids.update((tp.topic, topic_id) for tp, topic_id in fresh.items())
            self._assignee.assigned(list(fresh))
        if self._is_in:
            self._show_revoking()

    def _may_know_more(self, now: float) -> bool:
        """Whether the metadata may have the topics that it lacked the last time."""
        return now >= self._look_at or (self._look_at < INFINITY and self._cluster.version != self._version)

    def _is_assigned(self, tp: TopicPartition) -> bool:
        """By the id that its topic had: a topic of the same name that was created later is another one."""
        topic_id = self._owned.ids.get(tp)
        return topic_id is not None and tp.partition in (self._target or {}).get(topic_id, ())

    def _fresh(self, now: float, topics: frozenset[str]) -> dict[TopicPartition, UUID]:
        """What is assigned and not owned yet, with topic ids. Those of topics that are not known follow when they are."""
        filter, fresh, unknown = self._assignee.filter, dict[TopicPartition, UUID](), list[UUID]()
        by_coordinator = filter is not None and filter.regex is not None
        for topic_id, partitions in (self._target or {}).items():
            topic = self._cluster.topic_name(topic_id)
            if topic in topics:
                tps = (TopicPartition(topic, partition) for partition in sorted(partitions))
                fresh.update((tp, topic_id) for tp in tps if tp not in self._owned.ids)
            elif topic is None or by_coordinator:  # the coordinator has found it; another user of the client may know it
                unknown.append(topic_id)
        self._note_unknown(now, unknown)
        return fresh

    def _note_unknown(self, now: float, unknown: list[UUID]) -> None:
        """Look for these topics, which are assigned. The metadata gets those that the subscription has; the others are reported."""
        if not unknown:
            self._unknown_since, self._look_pause = None, LOOK_AGAIN
            return
        self._look_at, self._version = now + self._look_pause, self._cluster.version
        self._cluster.refresh(now, self._topics)
        self._assignee.look_for_topics(now)
        if self._unknown_since is None:
            self._unknown_since = now
        elif now >= self._unknown_since + UNKNOWN_SECONDS:
            self._unknown_since, self._look_pause = now, LOOK_SELDOM
            self._look_at = now + LOOK_SELDOM
            log.warning(
                "%s: group %s: cannot read the assigned topics with the ids %s: no topic of the subscription has such an id; "
                "they were deleted, or the pattern has another meaning in RE2 than in Python",
                self._config.client_id,
                self._config.group_id,
                ", ".join(sorted(map(str, unknown))),
            )

    def _give_back(self, now: float) -> float:
        """End what was released and has no commit under way: the next heartbeat leaves it out. Returns when to look again."""
        owned = self._owned
        if not owned.closing:
            return INFINITY
        late = [tp for tp, by in owned.closing.items() if now >= by]
        if late:
            self._commits.fail_lost(dict.fromkeys(late, "the partition was revoked, and the commit was not complete in time"))
        incomplete, given = self._commits.incomplete(), set[str]()
        for tp, by in list(owned.closing.items()):
            if by == INFINITY:
                by = owned.closing[tp] = now + COMMITS_FIRST
            if now < by and tp in incomplete:
                continue
            owned.give_back(tp)
            given.add(tp.topic)
            self._settled = False  # it may be assigned again
        if given and self.credentials is not None:  # a topic that others read may be deleted, and its id is not known any more
            for topic in given.difference(tp.topic for tp in owned.ids):
                self.credentials.topic_ids.pop(topic, None)
        self._show_revoking()
        return min(owned.closing.values(), default=INFINITY)

    def _show_revoking(self) -> None:
        to = S.REVOKING if self._owned.revoking or self._owned.closing else S.STABLE
        if to is not self.state:
            self._move(to)

    # ---------------------------------------------------------------- heartbeats

    def _report(self) -> Report:
        filter = self._assignee.filter
        regex = None if filter is None else filter.regex
        return Report(self._assignee.topics if regex is None else self._assignee.listed, regex, self._owned.report())

    def _beat_if_due(self, now: float) -> float:
        """A heartbeat is due at its time, and when there is something to report."""
        if self._in_flight is not None:
            return INFINITY
        due = self._heartbeat.wait(now)
        if due is not None and (self._told is None or self._told == self._report()):
            return due
        node = self._coordinator.node
        if node is None:
            self._heartbeat.blocked()
            self._coordinator.want()
            return INFINITY
        self._heartbeat.sent(now)
        self._beat(now, node, self.generation)
        return INFINITY

    def _beat(self, now: float, node: int, epoch: int) -> None:
        self._ask(now, node, epoch, self._report())

    def _ask(self, now: float, node: int, epoch: int, report: Report | None) -> None:
        """Send a heartbeat; without a `report` it gives back the place of an earlier member, so that this one can join."""
        message = group_heartbeat(self._config, self.member_id, epoch, report, self._told)
        patience = min(self._config.request_timeout_ms / 1000, self._heartbeat.patience)
        self._in_flight = self._heartbeat_to(node, message, now + patience, report)
        self._outbox.send(self._in_flight)

    def _heartbeat_to(self, node: int, message: Any, deadline: float, report: Report | None) -> HeartbeatInFlight:
        address = via(self._coordinator.lane, node)
        return HeartbeatInFlight(address, message, deadline, fit=needs_version_1, member=self, coordinator=node, report=report)

    def heartbeat_ended(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        """A heartbeat has its outcome, which counts unless the member has dropped out since."""
        if heartbeat is self._leave:
            self._leave_answered()
        elif heartbeat is self._in_flight:
            self._in_flight = None
            if heartbeat.report is None:
                self._released_id(now, outcome)
            else:
                self._answered(now, heartbeat.coordinator, heartbeat.report, outcome)

    def _answered(self, now: float, node: int, report: Report, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        answer: ConsumerGroupHeartbeatResponse = outcome.message
        if answer.error_code:
            self._told = None
            self._turned_away(now, node, answer)
            return
        self.error, self._unreleased_since = None, None
        self._backoff.reset()
        self._coordinator.well()
        self._heartbeat.interval = max(answer.heartbeat_interval_ms, 1) / 1000
        if answer.member_epoch <= 0:  # it is a member, and has no assignment yet
            self._rejoin(now)
            self._rest_until = now + self._heartbeat.interval
            return
        self._told = report
        self._enter(now, answer)

    def _enter(self, now: float, answer: ConsumerGroupHeartbeatResponse) -> None:
        """The member is in this epoch."""
        if self.state is S.JOINING:
            group, instance = self._config.group_id or "", self._config.group_instance_id
            self._move(S.STABLE)
            self.credentials = Credentials(group, answer.member_epoch, self.member_id, instance)
        if answer.member_epoch != self.generation or answer.assignment is not None:
            self._heartbeat.changed(now)
        if self.credentials is not None and self.credentials.generation != answer.member_epoch:
            self.credentials.generation = answer.member_epoch
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            before, self._settled, self._look_pause = self._target or {}, False, LOOK_AGAIN
            self._target = {part.topic_id: frozenset(part.partitions) for part in answer.assignment.topic_partitions}
            if self._has_lost_unknown(before):
                self._told = None
                self._heartbeat.start(now)

    def _has_lost_unknown(self, before: Mapping[UUID, frozenset[int]]) -> bool:
        """Whether the assignment no longer has partitions that the member never took up, because it did not know their topic.

        The coordinator waits until the member reports that it does not own them, although nothing changes for the member.
        """
        target = self._target or {}
        gone = {(topic_id, partition) for topic_id, those in before.items() for partition in those - target.get(topic_id, frozenset())}
        return bool(gone - self._owned.report())

    # ---------------------------------------------------------------- errors

    def _error(self, answer: ConsumerGroupHeartbeatResponse) -> KafkaError:
        group = self._config.group_id or ""
        if answer.error_code == UNSUPPORTED:
            return not_supported(answer.error_message)
        what = f"{'joining' if self.state is S.JOINING else 'heartbeat of'} group {group}"
        return broker_error(answer.error_code, what, answer.error_message, "ConsumerGroupHeartbeat", group=group)

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        self._told = None
        reason = not_supported(str(outcome.reason)) if isinstance(outcome.reason, UnsupportedVersion) else outcome.reason
        if not outcome.passing:
            self.fail(reason)
            return
        self.error = reason
        self._again(now, node, Reaction.REFIND, reason)

    def _turned_away(self, now: float, node: int, answer: ConsumerGroupHeartbeatResponse) -> None:
        error, verdict = self._error(answer), reaction(answer.error_code)
        self.error = error
        if answer.error_code == UNRELEASED and self.state is S.JOINING:
            self._wait_for_instance(now, error)
        elif verdict is Reaction.OUTDATED and self.state is S.JOINING:  # some releases let no member that they know join again
            self._release_first = True
            self._rejoin(now)
        elif answer.error_code == GONE and self._is_in:  # deleted, or classic again: joining creates it, or converts it
            self._react(now, Reaction.STRANGER, error)
        elif verdict in (Reaction.FATAL, Reaction.NAMED):
            self.fail(error)
        elif verdict is Reaction.STRANGER and self.state is S.JOINING:
            self._known = False
            self._rejoin(now)
        elif verdict in (Reaction.STRANGER, Reaction.OUTDATED):
            self._react(now, verdict, error)
        else:
            self._again(now, node, verdict, error)

    def _again(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        """The heartbeat, or the join, is repeated."""
        self._coordinator.retried(now, error)
        if verdict is Reaction.DENIED:
            self._assignee.denied(error)
        if verdict is Reaction.REFIND:
            self._coordinator.lost(now, node, error)
            self._unreleased_since = None  # at another coordinator all sessions begin again
        if not self._is_in:
            self._rejoin(now)
            return
        self._heartbeat.start(now if verdict is Reaction.REFIND else now + self._backoff.next())

    def _wait_for_instance(self, now: float, error: KafkaError) -> None:
        """Another member has the instance id, or an earlier join of this one whose response was lost."""
        if self._unreleased_since is None:
            self._unreleased_since = now
            log.warning("%s: %s; trying again until its session is over", self._config.client_id, error)
        if now >= self._unreleased_since + UNRELEASED_SECONDS:
            self.fail(error)
            return
        self._release_first = True
        self._rejoin(now)

    def _released_id(self, now: float, outcome: Outcome) -> None:
        """The response to leaving before a join, whatever it is: if it was not this member's place, the join is rejected again."""
        self._release_first = False
        self._move(S.UNJOINED)
        if isinstance(outcome, Failed) or outcome.message.error_code:
            self._rest_until = now + self._backoff.next()

    def _rejoin(self, now: float) -> None:
        """A join was rejected."""
        self._in_flight = None
        self._move(S.UNJOINED)
        self._rest_until = now + self._backoff.next()

    def on_commit_verdict(self, now: float, credentials: Credentials, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """The response to a commit contained an error that concerns the member. Returns whether to send it again in the next epoch."""
        if credentials is not self.credentials or verdict is Reaction.DENIED:
            return False  # the next heartbeat is denied, too, if this concerns the member
        if verdict is Reaction.STALE:
            if self._in_flight is None and generation == self.generation:
                self._told = None  # a full heartbeat, because a response with the new epoch was lost
                self._heartbeat.start(now)
            return True
        name = getattr(getattr(error, "code", None), "name", "")
        if verdict in (Reaction.STRANGER, Reaction.OUTDATED) or name == ENDS_MEMBER:
            self.error = error
            self._react(now, verdict, error)
        return False

    def _react(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        """The coordinator has put this member out."""
        if verdict is Reaction.FATAL:
            self.fail(error)
            return
        self._known = verdict is not Reaction.STRANGER
        # The coordinator keeps the place of a fenced static member for its session: it has to give it up before it can join again.
        self._release_first = self._known and self._config.group_instance_id is not None
        self._lost(str(error))

    def _lost(self, reason: str) -> None:
        self._assignee.lost(self._assignee.held, reason)
        self.drop_out()

    # ---------------------------------------------------------------- leaving

    @property
    def _last_epoch(self) -> int:
        """With which the member leaves. A static member is expected back: its partitions wait for it."""
        return LEAVES if self._config.group_instance_id is None else LEAVES_FOR_A_WHILE

    def _send_leave(self, now: float, node: int) -> None:
        message = group_heartbeat(self._config, self.member_id, self._last_epoch, None, None)
        deadline = now + self._config.request_timeout_ms / 1000  # not `_leave_by`: a time-out would close a connection that may be shared
        self._leave = self._heartbeat_to(node, message, deadline, None)
        self._outbox.send(self._leave)

    def _leave_answered(self) -> None:
        """Whatever the outcome: a coordinator that did not get the request removes the member after the session time-out."""
        if self.state is S.LEAVING:
            self._left()

    def _left(self) -> None:
        if self.state is S.LEAVING:
            self._move(S.UNJOINED)
        self.generation, self._known, self._release_first = -1, False, False
        self._leave_by, self._rest_until, self._unreleased_since = INFINITY, 0.0, None
        self._owned.clear()
        self._assignee.left()

    def _move(self, to: ConsumerState) -> None:
        self.state = MOVES.move(self.state, to)
        if not self._is_in:
            self.credentials = None


STEPS: Mapping[ConsumerState, Callable[[ConsumerProtocol, float], float]] = {
    S.UNJOINED: ConsumerProtocol._idle,
    S.JOINING: ConsumerProtocol._joining,
    S.STABLE: ConsumerProtocol._live,
    S.REVOKING: ConsumerProtocol._live,
    S.LEAVING: ConsumerProtocol._leaving,
    S.FATAL: ConsumerProtocol._idle,
}
