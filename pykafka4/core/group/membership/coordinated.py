"""Implements the common base of group members with a coordinator: states, heartbeats, leaving.

Invariant: the loss of the coordinator by itself ends no membership before a timeout.

`CoordinatedMember` has the states and the steps of leaving. `HeartbeatMember` is for members whose only request is the heartbeat
(KIP-848, KIP-932). `ConsumerGroupMember` connects members of consumer groups with their assignee.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Final

import attrs

from pykafka4.core import INFINITY, Failed, Outcome, Request, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.membership.heartbeats import FIRST_INTERVAL_S, HeartbeatTimer
from pykafka4.core.group.membership.protocol import Assignee, MemberCommits
from pykafka4.core.group.membership.states import MemberState
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.metadata.coordinators import Coordinator
from pykafka4.core.network.network import via
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError, UnsupportedVersion
from pykafka4.options.config import ClientConfig

__all__ = ["COMMITS_FIRST_S", "ENDS_MEMBER", "ConsumerGroupMember", "CoordinatedMember", "HeartbeatInFlight", "HeartbeatMember"]

COMMITS_FIRST_S: Final = 5.0  # seconds for which released partitions, or a join, wait for commits
ENDS_MEMBER: Final = "FENCED_INSTANCE_ID"  # the only fatal error of a commit that ends the member: all others concern only the commit
S = MemberState


class CoordinatedMember(ABC):
    moves: ClassVar[Transitions[MemberState]]

    def __init__(self, config: ClientConfig, coordinator: Coordinator, random: Random, outbox: Outbox, interval: float) -> None:
        """`interval` is the time between heartbeats, in seconds."""
        self._coordinator, self._outbox = coordinator, outbox
        self._backoff = Backoff.retry(config, random)
        self._timeout = config.request_timeout_ms / 1000
        self.state = S.UNJOINED
        self.member_id = ""
        self.generation = -1
        self.error: KafkaError | None = None  # the last error; None after a success
        self._heartbeat = HeartbeatTimer(interval)
        self._paused_until = 0.0  # the member does not join before this time
        self._leave_by = INFINITY  # in LEAVING: the deadline
        self._leave: Request | None = None  # in LEAVING: the request that leaves the group; None: not sent yet

    @property
    def is_out(self) -> bool:
        return self.state is S.UNJOINED

    def start_over(self) -> None:
        if self.state is S.FATAL:
            self._move(S.UNJOINED)

    def drop_out(self) -> None:
        self.generation = -1
        self._ignore_responses()
        if self.state is not S.UNJOINED:
            self._move(S.UNJOINED)

    def fail(self, error: KafkaError) -> None:
        """End the member with an error. A member in LEAVING leaves at once instead, and the application does not get the error."""
        if self.state is S.FATAL:
            return
        self.error = error
        if self.state is S.LEAVING:  # a coordinator that still has the member removes it after the session timeout
            self._left()
            return
        self._lost(str(error))
        self._move(S.FATAL)
        self._refused(error)

    def _move(self, to: MemberState) -> None:
        self.state = self.moves.move(self.state, to)

    # ---------------------------------------------------------------- leaving

    def _begin_leaving(self, now: float, by: float) -> None:
        """Begin to leave. A member that is already leaving can only get an earlier deadline."""
        if self.state is S.LEAVING:
            self._leave_by = min(by, self._leave_by)
            return
        self.start_over()
        self._ignore_responses()
        self._move(S.LEAVING)
        self._leave_by, self._leave = by, None
        self._leaving(now)

    def _leaving(self, now: float) -> float:
        """Leave after the commits under way, because coordinators reject commits of a member that has left. The leaving ends at the
        deadline in any case."""
        node, late = self._coordinator.node, now >= self._leave_by
        if self._may_be_known and self._leave is None and (late or not self._commits_under_way):
            if node is not None:
                self._leave = self._send_leave(now, node)
            elif not late:
                self._coordinator.want()
        if late or not (self._may_be_known or self._commits_under_way):
            self._left()
            return now
        return self._leave_by

    def _leave_answered(self) -> None:
        """Any outcome ends the leaving: a coordinator that did not get the request removes the member after the session timeout."""
        if self.state is S.LEAVING:
            self._left()

    def _left(self) -> None:
        self._move(S.UNJOINED)
        self.generation, self._leave_by, self._paused_until = -1, INFINITY, 0.0
        self._forget_membership()

    # ---------------------------------------------------------------- the protocol's part

    @property
    @abstractmethod
    def _may_be_known(self) -> bool:
        """Whether the member has to leave, because the coordinator may know it."""

    @property
    @abstractmethod
    def _commits_under_way(self) -> bool:
        """Whether commits are incomplete, so that the member does not leave yet."""

    @abstractmethod
    def _ignore_responses(self) -> None:
        """From now on, ignore responses to earlier requests that would bring the member into the group."""

    @abstractmethod
    def _send_leave(self, now: float, node: int) -> Request:
        """Send the request that leaves the group, with the full request timeout: a timeout closes the connection, which may be shared."""

    @abstractmethod
    def _forget_membership(self) -> None:
        """Reset the state of a member that has left, and report that the member has left."""

    @abstractmethod
    def _lost(self, reason: str) -> None:
        """Put the member out of the group: all its partitions are lost."""

    @abstractmethod
    def _refused(self, error: KafkaError) -> None:
        """Report to the application an error that is not retriable."""


class ConsumerGroupMember(CoordinatedMember):
    _assignee: Assignee
    _commits: MemberCommits

    @property
    def _commits_under_way(self) -> bool:
        return self._commits.busy

    def _lost(self, reason: str) -> None:
        self._assignee.lost(self._assignee.held, reason)
        self.drop_out()

    def _refused(self, error: KafkaError) -> None:
        self._assignee.refused(error)

    def _denied(self, error: KafkaError) -> None:
        self._assignee.denied(error)

    def dispose(self) -> None:
        """See `GroupProtocol`."""

    def _idle(self, now: float) -> float:
        return INFINITY


@attrs.define(eq=False)
class HeartbeatInFlight(Request):
    member: HeartbeatMember = attrs.field(kw_only=True)
    coordinator: int = attrs.field(kw_only=True)
    report: Any = attrs.field(kw_only=True)  # None: the member gives up its place

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.member.heartbeat_ended(now, self, outcome)


class HeartbeatMember(CoordinatedMember):
    """A member whose only request is the heartbeat. A heartbeat reports only changes since `_confirmed_report`.

    After a lost response or an error, the next heartbeat is a full one, because the coordinator might not have the last report, and a lost
    response might have had another epoch.
    """

    fit: ClassVar[Callable[[Any, int], None] | None] = None  # see `Request.fit`

    def __init__(self, config: ClientConfig, coordinator: Coordinator, lane: int, random: Random, outbox: Outbox) -> None:
        super().__init__(config, coordinator, random, outbox, FIRST_INTERVAL_S)
        self._lane = lane
        self._confirmed_report: Any = None  # the last report that the coordinator confirmed; None: the next heartbeat is a full one
        self._in_flight: HeartbeatInFlight | None = None  # responses to other heartbeats, except `_leave`, are ignored
        self._known = False  # the coordinator may know this member

    @property
    def _may_be_known(self) -> bool:
        return self._known

    def _ignore_responses(self) -> None:
        self._in_flight = None

    def join(self, now: float) -> float:
        if now < self._paused_until:
            return self._paused_until
        if not self._has_topics:
            return INFINITY
        node = self._coordinator.node
        if node is None:
            self._coordinator.want()
            return INFINITY
        self._confirmed_report = None
        self._move(S.JOINING)
        self._send_join(now, node)
        return INFINITY

    def _send_join(self, now: float, node: int) -> None:
        self._known = True
        self._in_flight = self._beat(now, node, 0, self._report())

    def _beat_if_due(self, now: float) -> float:
        if self._in_flight is not None:
            return INFINITY
        due = self._heartbeat.wait(now)
        if due is not None and (self._confirmed_report is None or self._confirmed_report == self._report()):
            return due
        node = self._coordinator.node
        if node is None:
            self._heartbeat.blocked()
            self._coordinator.want()
            return INFINITY
        self._heartbeat.sent(now)
        self._in_flight = self._beat(now, node, self.generation, self._report())
        return INFINITY

    def _beat(self, now: float, node: int, epoch: int, report: Any) -> HeartbeatInFlight:
        """Without a `report`, the heartbeat gives up the place of this member, or of an earlier member with the same id."""
        patience = self._timeout if self.state is S.LEAVING else min(self._timeout, self._heartbeat.patience)
        address, message = via(self._lane, node), self._message(epoch, report)
        request = HeartbeatInFlight(address, message, now + patience, fit=type(self).fit, member=self, coordinator=node, report=report)
        self._outbox.send(request)
        return request

    def heartbeat_ended(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        if heartbeat is self._leave:
            self._leave_answered()
        elif heartbeat is self._in_flight:
            self._in_flight = None
            self._answered(now, heartbeat, outcome)

    def _answered(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        node = heartbeat.coordinator
        if isinstance(outcome, Failed):
            self._unanswered(now, node, outcome)
            return
        if outcome.message.error_code:
            self._confirmed_report = None
            self.error = self._error(outcome.message)
            self._turned_away(now, node, outcome.message.error_code, self.error)
            return
        self.error, self._confirmed_report = None, heartbeat.report
        self._backoff.reset()
        self._coordinator.well()
        self._heartbeat.interval = max(outcome.message.heartbeat_interval_ms, 1) / 1000
        self._enter(now, outcome.message)

    def _unanswered(self, now: float, node: int, outcome: Failed) -> None:
        self._confirmed_report = None
        reason = self._not_supported(str(outcome.reason)) if isinstance(outcome.reason, UnsupportedVersion) else outcome.reason
        if not outcome.passing:
            self.fail(reason)
            return
        self.error = reason
        self._again(now, node, Reaction.REFIND, reason)

    def _turned_away(self, now: float, node: int, code: int, error: KafkaError) -> None:
        verdict = reaction(code)
        if verdict in (Reaction.FATAL, Reaction.NAMED):
            self.fail(error)
        elif verdict in (Reaction.STRANGER, Reaction.OUTDATED):
            self._put_out(now, verdict, error)
        else:
            self._again(now, node, verdict, error)

    def _again(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        self._coordinator.retried(now, error)
        if verdict is Reaction.DENIED:
            self._denied(error)
        if verdict is Reaction.REFIND:
            self._coordinator.lost(now, node, error)
        if self.state is S.JOINING:
            self._rejoin(now)
            return
        self._heartbeat.start(now if verdict is Reaction.REFIND else now + self._backoff.next())

    def _rejoin(self, now: float) -> None:
        self._in_flight, self._confirmed_report, self.generation = None, None, -1
        self._move(S.UNJOINED)
        self._paused_until = now + self._backoff.next()

    # ---------------------------------------------------------------- the protocol's part

    @property
    @abstractmethod
    def _has_topics(self) -> bool:
        """Whether the member may join; False without a subscription."""

    @abstractmethod
    def _report(self) -> Any:
        """The state of this member, for its next heartbeat."""

    @abstractmethod
    def _message(self, epoch: int, report: Any) -> Any:
        """The request, with the parts of `report` that differ from the last confirmed report."""

    @abstractmethod
    def _enter(self, now: float, answer: Any) -> None:
        """Apply the epoch and assignment in a response without an error."""

    @abstractmethod
    def _put_out(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        """React to an error: the coordinator does not know this member, or does not accept its epoch."""

    @abstractmethod
    def _error(self, answer: Any) -> KafkaError:
        """The error in a response."""

    @abstractmethod
    def _not_supported(self, reason: str | None) -> UnsupportedVersion:
        """The error for brokers without the protocol."""

    @abstractmethod
    def _denied(self, error: KafkaError) -> None:
        """Report to the application that a right is missing."""
