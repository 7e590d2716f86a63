"""Member of a share group. Rule: losing the coordinator only delays heartbeats; acquired records belong to sessions with their leaders.

ShareGroupHeartbeat is the only request: it joins (epoch 0), reports a changed subscription, and leaves (epoch -1). The coordinator assigns
partitions, and may assign one to several members. An assignment needs no answer: what this member has acquired from a partition that is
assigned to others stays acquired.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Protocol
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.membership.heartbeats import FIRST_INTERVAL, HeartbeatTimer
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.metadata.coordinators import Coordinator
from pykafka4.core.network.network import via
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.sources import Parts
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.wire.protocol.messages_share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

__all__ = ["MOVES", "ShareCoordinator", "ShareMember", "ShareState"]

log = get_log("pykafka4.share")

JOINS, LEAVES = 0, -1  # epochs
UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_VERSION"].code


class ShareState(enum.Enum):
    """The state of this member. `status()` shows the value as the state, and `meaning` as the reason."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    LEAVING = "leaving"
    FATAL = "fatal"

    @property
    def meaning(self) -> str | None:
        """None in the normal state."""
        return _MEANINGS.get(self)


_MEANINGS = {
    ShareState.UNJOINED: "not a member",
    ShareState.JOINING: "waiting for the coordinator to accept it",
    ShareState.LEAVING: "leaving the group",
    ShareState.FATAL: "rejected by the group; it joins again when the subscription changes",
}
S = ShareState

MOVES = Transitions(
    "member of a share group",
    {
        S.UNJOINED: {S.JOINING, S.LEAVING, S.FATAL},
        S.JOINING: {S.STABLE, S.UNJOINED, S.LEAVING, S.FATAL},
        S.STABLE: {S.UNJOINED, S.LEAVING, S.FATAL},
        S.LEAVING: {S.UNJOINED, S.FATAL},
        S.FATAL: {S.UNJOINED, S.LEAVING},
    },
    {**_MEANINGS, S.STABLE: "sends heartbeats, and acquires records of what it is assigned"},
)


class ShareCoordinator(Coordinator):
    """The coordinator of the share group."""

    __slots__ = ()

    def _is_final(self, code: int) -> bool:
        return reaction(code) in (Reaction.FATAL, Reaction.DENIED)


@attrs.define(eq=False)
class HeartbeatInFlight(Request):
    """A ShareGroupHeartbeat without a response."""

    member: ShareMember = attrs.field(kw_only=True)
    coordinator: int = attrs.field(kw_only=True)
    topics: tuple[str, ...] = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.member.heartbeat_ended(now, self, outcome)


class ShareAssignee(Protocol):
    """The machine of the share consumer."""

    def assign(self, parts: Parts) -> None:
        """The member has this assignment."""

    def explain(self, reason: str | None) -> UnsupportedVersion:
        """The error for brokers without share groups."""


class ShareMember:
    """One member, identified by a member id that it makes itself, and a member epoch."""

    def __init__(
        self,
        config: ShareConsumerConfig,
        coordinator: ShareCoordinator,
        lane: int,
        mailbox: Mailbox,
        random: Random,
        outbox: Outbox,
        consumer: ShareAssignee,
    ) -> None:
        self._config, self._coordinator, self._lane, self._mailbox = config, coordinator, lane, mailbox
        self._outbox, self._consumer = outbox, consumer
        self._backoff = Backoff.retry(config, random)
        self.state = ShareState.UNJOINED
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.epoch = JOINS
        self.error: KafkaError | None = None  # the last one
        self.topics: tuple[str, ...] = ()
        self._told: tuple[str, ...] | None = None  # the topics that the coordinator knows; None: the next heartbeat has everything
        self._polled = False  # the application polls: it may join
        self._in_flight: HeartbeatInFlight | None = None  # responses to other heartbeats are ignored
        self._heartbeat = HeartbeatTimer(FIRST_INTERVAL)
        self._rest_until = 0.0
        self._known = False  # the coordinator may know this member
        self._leave_by = INFINITY
        self._left: Callable[[], None] | None = None

    # ---------------------------------------------------------------- calls

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Be a member with a subscription to `topics`. A member that was rejected tries again."""
        self.topics = topics
        if self._mailbox.fatal is not None:
            self._mailbox.end(None)
        if self.state is S.FATAL:
            self._move(S.UNJOINED)

    def unsubscribe(self) -> None:
        """Join no more, until there is another subscription and a poll."""
        self.topics, self._polled = (), False

    def polled(self) -> None:
        """The application polls, so it may join."""
        self._polled = True

    def leave(self, now: float, by: float, done: Callable[[], None]) -> None:
        """Tell the coordinator; `done` is called when it has answered, at `by` at the latest. A member with a subscription joins again."""
        self._left, self._leave_by = done, by
        self._consumer.assign(frozenset())
        self._in_flight = None
        if self.state is not S.LEAVING:
            self._move(S.LEAVING)
        self._leaving(now)

    def _leaving(self, now: float) -> float:
        """Without a word from a member that has left, the coordinator would keep partitions for it until the session time-out."""
        if self._known and self._in_flight is None:
            node = self._coordinator.node
            if node is None:
                self._coordinator.want()
            else:
                self._beat(now, node, LEAVES)
        if not self._known or now >= self._leave_by:
            self._gone()
            return now
        return self._leave_by

    def _gone(self) -> None:
        self._in_flight = None  # an answer after `_leave_by` changes nothing
        self.epoch, self._told, self._known, self._leave_by = JOINS, None, False, INFINITY
        self._move(S.UNJOINED)
        done, self._left = self._left, None
        if done is not None:
            done()

    def fail(self, error: KafkaError) -> None:
        """An error that is not retriable."""
        if self.state is S.FATAL:
            return
        if self.state is S.LEAVING:  # then it cannot tell the coordinator
            self.error = error
            self._gone()
            return
        self.error, self._in_flight, self._told, self.epoch = error, None, None, JOINS
        self._consumer.assign(frozenset())
        self._move(S.FATAL)
        self._mailbox.end(error)

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        """Send the heartbeat that is due; returns when to be polled again."""
        if self.state is S.LEAVING:
            return self._leaving(now)
        if self.state is S.FATAL:
            return INFINITY
        lease_ends = self._mailbox.idle_since + self._config.max_poll_interval_ms / 1000 if self._polled else INFINITY
        if now >= lease_ends:
            self._expire(now)
            return now
        if self.state is S.UNJOINED:
            return min(self._join(now), lease_ends)
        return min(self._beat_if_due(now), lease_ends)

    def _join(self, now: float) -> float:
        if not self.topics or not self._polled:
            return INFINITY
        if now < self._rest_until:
            return self._rest_until
        node = self._coordinator.node
        if node is None:
            self._coordinator.want()
            return INFINITY
        self._told, self.epoch, self._known = None, JOINS, True
        self._heartbeat.interval = FIRST_INTERVAL
        self._move(S.JOINING)
        self._beat(now, node, JOINS)
        return INFINITY

    def _expire(self, now: float) -> None:
        """The application has not polled for max_poll_interval_ms: others get its partitions."""
        if self.state is not S.UNJOINED:
            log.warning(
                "%s: group %s: no poll within max_poll_interval_ms=%g; leaving the group until the next one",
                self._config.client_id,
                self._config.group,
                self._config.max_poll_interval_ms,
            )
            self.leave(now, now + self._config.request_timeout_ms / 1000, lambda: None)
        self._polled = False

    # ---------------------------------------------------------------- heartbeats

    def _beat_if_due(self, now: float) -> float:
        """A heartbeat is due at its time, and when the subscription has changed."""
        if self._in_flight is not None:
            return INFINITY
        due = self._heartbeat.wait(now)
        if due is not None and (self._told is None or self._told == self.topics):
            return due
        node = self._coordinator.node
        if node is None:
            self._heartbeat.blocked()
            self._coordinator.want()
            return INFINITY
        self._heartbeat.sent(now)
        self._beat(now, node, self.epoch)
        return INFINITY

    def _beat(self, now: float, node: int, epoch: int) -> None:
        message = ShareGroupHeartbeatRequest(group_id=self._config.group, member_id=self.member_id, member_epoch=epoch)
        if epoch != LEAVES and self._told is None:
            message.rack_id = self._config.client_rack
        if epoch != LEAVES and self._told != self.topics:
            message.subscribed_topic_names = list(self.topics)
        seconds = self._config.request_timeout_ms / 1000
        if epoch != LEAVES:  # a time-out closes the connection
            seconds = min(seconds, self._heartbeat.patience)
        self._in_flight = HeartbeatInFlight(
            via(self._lane, node), message, now + seconds, member=self, coordinator=node, topics=self.topics
        )
        self._outbox.send(self._in_flight)

    def heartbeat_ended(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        """A heartbeat has its outcome, which counts unless the member has joined or left since."""
        if heartbeat is not self._in_flight:
            return
        self._in_flight = None
        if not isinstance(outcome, Failed) and not outcome.message.error_code:
            self._told = heartbeat.topics
        if heartbeat.message.member_epoch == LEAVES:
            self._gone()
        else:
            self._answered(now, heartbeat.coordinator, outcome)

    def _answered(self, now: float, node: int, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        answer: ShareGroupHeartbeatResponse = outcome.message
        if answer.error_code:
            self._turned_away(now, node, answer)
            return
        self.error = None
        self._backoff.reset()
        self._coordinator.well()
        self._heartbeat.interval = max(answer.heartbeat_interval_ms, 1) / 1000
        if self.state is S.JOINING:
            self._move(S.STABLE)
            self._heartbeat.start(now + self._heartbeat.interval)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._consumer.assign(
                frozenset((each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions)
            )

    # ---------------------------------------------------------------- errors

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        self._told = None
        if isinstance(outcome.reason, UnsupportedVersion):
            self.fail(self._consumer.explain(str(outcome.reason)))
            return
        self.error = outcome.reason
        self._again(now, node, Reaction.REFIND, outcome.reason)

    def _turned_away(self, now: float, node: int, answer: ShareGroupHeartbeatResponse) -> None:
        self._told = None
        if answer.error_code == UNSUPPORTED:
            self.fail(self._consumer.explain(answer.error_message))
            return
        group = self._config.group
        what = f"{'joining' if self.state is S.JOINING else 'heartbeat of'} share group {group}"
        error = self.error = broker_error(answer.error_code, what, answer.error_message, "ShareGroupHeartbeat", group=group)
        verdict = reaction(answer.error_code)
        if verdict in (Reaction.FATAL, Reaction.NAMED):
            self.fail(error)
        elif verdict in (Reaction.STRANGER, Reaction.OUTDATED):  # the coordinator has removed the member: it joins again
            self._rejoin(now)
        else:
            self._again(now, node, verdict, error)

    def _again(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        self._coordinator.retried(now, error)
        if verdict is Reaction.DENIED:
            self._mailbox.tell(error)
        if verdict is Reaction.REFIND:
            self._coordinator.lost(now, node, error)
        if self.state is S.JOINING:
            self._rejoin(now)
            return
        self._heartbeat.start(now if verdict is Reaction.REFIND else now + self._backoff.next())

    def _rejoin(self, now: float) -> None:
        self._in_flight, self._told, self.epoch = None, None, JOINS
        self._move(S.UNJOINED)
        self._rest_until = now + self._backoff.next()

    def _move(self, to: ShareState) -> None:
        self.state = MOVES.move(self.state, to)

    def status(self) -> Mapping[str, object]:
        """The state of the member."""
        return {
            "state": self.state.value,
            "reason": self.state.meaning if self.error is None else str(self.error),
            "member_id": self.member_id,
            "epoch": self.epoch,
            "coordinator": self._coordinator.node,
        }
