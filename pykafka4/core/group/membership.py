"""Membership. Rule: partitions are given back by the application or declared lost, never taken silently; then the member joins again.

The application's side of a group member: what it is subscribed to, whether it still polls, which partitions it holds. How the group's
coordinator is spoken with is the protocol's part (`core.group.protocol`).
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

LEAVE_SECONDS: Final = 5.0  # how long to look for a coordinator only to say good-bye


class Application(Protocol):
    """What a membership must know of, and tell, the thread that polls."""

    loop_wanted: bool  # set here: the next poll wakes the loop

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
        self.ticket: Ticket | None = None  # until the application gives it back
        self._when_left: list[Callable[[], None]] = []

    @property
    def state(self) -> MemberState:
        """Where this member stands."""
        return self.protocol.state

    @property
    def topics(self) -> tuple[str, ...]:
        """What the application is subscribed to now."""
        return self._subscribed.names

    # ---------------------------------------------------------------- the application's wishes

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Be a member that wants `topics`."""
        self._subscribed.replace(topics)
        self.protocol.start_over()

    def leave(self, now: float, patience: float, then: Callable[[], None]) -> None:
        """Stop being a member; `then` is called once the coordinator knows, or `patience` seconds passed."""
        self.gone()
        self._when_left.append(then)
        if self.ticket is not None:
            self._partitions.drop(self.ticket.claims)
            self.ticket.ending = self.ticket.ending or Ending.REVOKED  # an application that has not seen it yet must not take it up
            self.ticket = None
        self.protocol.leave(now, now + patience)

    def gone(self) -> None:
        """Nothing is wanted any more."""
        self._subscribed.clear()
        self.protocol.gone()

    def released(self, ticket: Ticket) -> None:
        """The application has finished with the partitions of `ticket`."""
        if self.ticket is ticket:
            self.ticket = None
            self.protocol.given_back()

    # ---------------------------------------------------------------- the clock

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
            if self._lease_ends(now) <= now:  # looked at again: a poll that began in between did not see the sign
                return INFINITY
        again_at = self.protocol.join(now)
        return again_at if self.state is MemberState.UNJOINED else self._lease_ends(now)

    def _revoking(self, now: float) -> float:
        ticket = self.ticket
        assert ticket is not None
        if now >= ticket.deadline:
            self.lost(f"the partitions were not given back within max_poll_interval_ms={self._config.max_poll_interval_ms:g}")
            self.protocol.drop_out()
            return now
        return min(self.protocol.poll(now), ticket.deadline)

    def _lease_ends(self, now: float) -> float:
        """When the application must have polled again; it polls now when this is in the future."""
        idle = self._application.idle_since()
        return (now if idle is None else idle) + self._max_poll

    def keep_lease(self, now: float) -> float:
        """Leave the group when the application stopped polling: others must not wait for a member that reads nothing."""
        ends = self._lease_ends(now)
        if now < ends:
            return ends
        reason = (
            f"max_poll_interval_ms={self._config.max_poll_interval_ms:g} was over: the application has not called poll, nor a loop asked "
            "for its next record, for that long; raise that option, or lower max_poll_records"
        )
        log.warning("%s: group %s: leaving, %s", self._config.client_id, self._config.group_id, reason)
        self.lost(reason)
        self.protocol.drop_out()
        self.protocol.leave(now, now + LEAVE_SECONDS)
        return now

    # ---------------------------------------------------------------- what the protocol says

    def assigned(self, assignment: Assignment, credentials: Credentials) -> None:
        """Take up the partitions, but for topics not subscribed to: the subscription changed meanwhile, or the leader is wrong."""
        subscribed = set(self.topics)
        tps = [tp for tp in assignment.partitions if tp.topic in subscribed]
        ticket = self.ticket = Ticket(tuple(Claim(tp) for tp in tps), credentials)
        log.info("%s: group %s: generation %d, %d partitions", self._config.client_id, self._config.group_id, assignment.epoch, len(tps))
        self._partitions.adopt(ticket.claims, Start.COMMITTED, self._subscribed.fallback)
        self._application.put(Assigned(ticket))

    def revoke(self, now: float, reason: str) -> None:
        """Ask the application to give its partitions back; what it has not read yet will be read by the next owner."""
        ticket = self.ticket
        assert ticket is not None
        log.info("%s: group %s: giving back %d partitions, %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
        ticket.ending, ticket.reason, ticket.deadline = Ending.REVOKED, reason, now + self._max_poll
        self._partitions.drop(ticket.claims)
        self._application.put(Ended(ticket))

    def lost(self, reason: str) -> None:
        """The partitions may be somebody else's already. The ticket stays until the application has heard of it."""
        ticket = self.ticket
        if ticket is not None and ticket.ending is not Ending.LOST:
            log.warning("%s: group %s: lost %d partitions, %s", self._config.client_id, self._config.group_id, len(ticket.claims), reason)
            ticket.ending, ticket.reason = Ending.LOST, reason
            self._partitions.drop(ticket.claims)
            self._application.put(Ended(ticket))

    def refused(self, error: KafkaError) -> None:
        """The group refused this member for good: `poll` raises `error`."""
        self._application.put(Trouble(None, error))

    def left(self) -> None:
        """This member is out of the group, and whoever waits for that is told."""
        waiting, self._when_left = self._when_left, []
        for then in waiting:
            then()

    def on_fatal(self, error: KafkaError) -> None:
        """The coordinator cannot be looked up, and never will be."""
        if self.topics and self.state is not MemberState.FATAL:
            self.protocol.fail(error)
