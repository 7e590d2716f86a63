"""Membership. Rule: the application releases partitions or is notified of their loss; only then the member rejoins.

The application's side of a group member: subscribed topics, whether the application still polls, the partitions held. The requests to the
coordinator are the protocol's part (`core.group.protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from pykafka4.config import ConsumerConfig
from pykafka4.core import INFINITY, Request
from pykafka4.core.group.classic import ClassicProtocol, Commits
from pykafka4.core.group.coordinator import Coordinator
from pykafka4.core.group.protocol import GroupProtocol, MemberState
from pykafka4.core.group.topics import SubscribedTopics
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.subscription import Assigned, Assignment, Claim, Credentials, Ended, Ending, Start, Ticket, Trouble
from pykafka4.errors import KafkaError
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition

__all__ = ["Application", "Membership", "Partitions"]

log = get_log("pykafka4.group")

LEAVE_SECONDS: Final = 5.0  # for which a coordinator is looked up only to send LeaveGroup


class Application(Protocol):
    """The interface to the thread that polls."""

    loop_wanted: bool  # set here: the next poll wakes the loop

    def idle_since(self) -> float | None:
        """When the last poll returned; None during a poll, -INFINITY before the first."""

    def put(self, item: object) -> None:
        """Pass on an event, in order with the data."""


class Partitions(Protocol):
    """What fetches the partitions assigned to this member."""

    def adopt(self, claims: tuple[Claim, ...], start: Start | int, fallback: Callable[[TopicPartition], Start]) -> None:
        """Start to fetch."""

    def drop(self, claims: tuple[Claim, ...]) -> None:
        """Stop fetching; data that arrives later is dropped."""


class Membership:
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
        self._config, self._application, self._partitions = config, application, partitions
        self._max_poll = config.max_poll_interval_ms / 1000
        self._subscribed = SubscribedTopics(config, cluster, application.put)
        self.protocol: GroupProtocol = ClassicProtocol(config, coordinator, cluster, self, random, send, commits)
        self.ticket: Ticket | None = None  # until the application releases it
        self._when_left: list[Callable[[], None]] = []

    @property
    def state(self) -> MemberState:
        """The state of this member."""
        return self.protocol.state

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the application is subscribed to."""
        return self._subscribed.names

    # ---------------------------------------------------------------- calls of the application

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Be a member with a subscription to `topics`."""
        self._subscribed.replace(topics)
        self.protocol.start_over()

    def leave(self, now: float, patience: float, then: Callable[[], None]) -> None:
        """Leave the group; `then` is called after LeaveGroup, or after `patience` seconds at the latest."""
        self.gone()
        self._when_left.append(then)
        if self.ticket is not None:
            self._partitions.drop(self.ticket.claims)
            self.ticket.ending = self.ticket.ending or Ending.REVOKED  # the application ignores it if it has not seen it yet
            self.ticket = None
        self.protocol.leave(now, now + patience)

    def gone(self) -> None:
        """End the subscription."""
        self._subscribed.clear()
        self.protocol.gone()

    def released(self, ticket: Ticket) -> None:
        """The application has released the partitions of `ticket`."""
        if self.ticket is ticket:
            self.ticket = None
            self.protocol.given_back()

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        """Do what is due; returns when to be polled again."""
        self._subscribed.look()
        if self.state is MemberState.UNJOINED:
            return self._unjoined(now)
        if self.state is MemberState.REVOKING:
            return self._revoking(now)
        return self.protocol.poll(now)

    def _unjoined(self, now: float) -> float:
        if not self.topics or self.ticket is not None:
            return INFINITY
        if self._lease_ends(now) <= now:
            self._application.loop_wanted = True
            if self._lease_ends(now) <= now:  # checked again: a poll that started in between did not see the flag
                return INFINITY
        again_at = self.protocol.join(now)
        return again_at if self.state is MemberState.UNJOINED else self._lease_ends(now)

    def _revoking(self, now: float) -> float:
        ticket = self.ticket
        assert ticket is not None
        if now >= ticket.deadline:
            self.lost(f"the revoked partitions were not released within max_poll_interval_ms={self._config.max_poll_interval_ms:g}")
            self.protocol.drop_out()
            return now
        return min(self.protocol.poll(now), ticket.deadline)

    def _lease_ends(self, now: float) -> float:
        """The time by which the application must poll again."""
        idle = self._application.idle_since()
        return (now if idle is None else idle) + self._max_poll

    def keep_lease(self, now: float) -> float:
        """Leave the group if the application has stopped polling: its partitions have to go to other members."""
        ends = self._lease_ends(now)
        if now < ends:
            return ends
        reason = (
            f"max_poll_interval_ms={self._config.max_poll_interval_ms:g} exceeded: the application did not call poll or take the next "
            "record of a loop in time; raise that option, or lower max_poll_records"
        )
        log.warning("%s: group %s: leaving: %s", self._config.client_id, self._config.group_id, reason)
        self.lost(reason)
        self.protocol.drop_out()
        self.protocol.leave(now, now + LEAVE_SECONDS)
        return now

    # ---------------------------------------------------------------- calls of the protocol

    def assigned(self, assignment: Assignment, credentials: Credentials) -> None:
        """Take the partitions of subscribed topics. Others are ignored: the subscription changed meanwhile, or the leader made an error."""
        subscribed = set(self.topics)
        tps = [tp for tp in assignment.partitions if tp.topic in subscribed]
        ticket = self.ticket = Ticket(tuple(Claim(tp) for tp in tps), credentials)
        log.info("%s: group %s: generation %d, %d partitions", self._config.client_id, self._config.group_id, assignment.epoch, len(tps))
        self._partitions.adopt(ticket.claims, Start.COMMITTED, self._subscribed.fallback)
        self._application.put(Assigned(ticket))

    def revoke(self, now: float, reason: str) -> None:
        """Have the application release its partitions; records that it has not read will be read by the next owner."""
        ticket = self.ticket
        assert ticket is not None
        log.info("%s: group %s: revoking %d partitions: %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
        ticket.ending, ticket.reason, ticket.deadline = Ending.REVOKED, reason, now + self._max_poll
        self._partitions.drop(ticket.claims)
        self._application.put(Ended(ticket))

    def lost(self, reason: str) -> None:
        """The partitions may already belong to another member. The ticket stays until the application knows of the loss."""
        ticket = self.ticket
        if ticket is not None and ticket.ending is not Ending.LOST:
            log.warning("%s: group %s: lost %d partitions: %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
            ticket.ending, ticket.reason = Ending.LOST, reason
            self._partitions.drop(ticket.claims)
            self._application.put(Ended(ticket))

    def refused(self, error: KafkaError) -> None:
        """The group rejected this member with an error that is not retriable: `poll` raises it."""
        self._application.put(Trouble(None, error))

    def left(self) -> None:
        """This member has left the group: call what waits for that."""
        waiting, self._when_left = self._when_left, []
        for then in waiting:
            then()

    def on_fatal(self, error: KafkaError) -> None:
        """Finding the coordinator failed with an error that is not retriable."""
        if self.topics and self.state is not MemberState.FATAL:
            self.protocol.fail(error)
