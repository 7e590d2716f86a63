"""Keeps a member's partitions and its lease, between the application and the protocol.

Invariant: a partition is held until the application has released it, or until this consumer leaves; a member that is out of the group joins
without partitions.

The protocol (`core.group.membership.protocol`) sends the requests, and chooses the partitions to revoke.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from pykafka4.core import INFINITY
from pykafka4.core.group.membership.protocol import NOWHERE, GroupProtocol, MemberCommits, State
from pykafka4.core.group.topics.discovery import Discovery
from pykafka4.core.group.topics.subscribed import SubscribedTopics
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.subscription import Assigned, Claim, Ended, Ending, Policy, PollError, Start, Subscribed
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["Application", "Membership", "Partitions"]

log = get_log("pykafka4.group")

LEAVE_S: Final = 5.0  # seconds for which a member that gives up (`_give_up`) waits for a coordinator and for commits before it leaves


class Application(Protocol):
    """The thread that polls, as the loop sees it."""

    loop_wanted: bool  # True, set by the loop: the next poll wakes the loop

    def idle_since(self) -> float | None:
        """The time of the last return from a poll, of the start of a listener, or of later progress of a `for` loop.

        None during a poll, except in a listener; -INFINITY before the first poll.
        """

    def poll_mark(self) -> object:
        """A value that changes when the application polls again, or takes a record of a `for` loop."""

    def put(self, item: object) -> None:
        """Pass an event to the application, in order with the data."""

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise `error`, which reports a missing right, unless an error about the same right waits to be raised."""


class Partitions(Protocol):
    """The part of the consumer that fetches the partitions of this member."""

    def adopt(self, claims: Collection[Claim], start: Start | int, fallback: Callable[[TopicPartition], Policy]) -> None:
        """Begin to fetch `claims` at `start`; without a committed offset, by the policy that `fallback` returns."""

    def locate(self, claim: Claim, offset: int) -> None:
        """Fetch `claim`, which was just adopted, from `offset` on, as if a lookup had found that offset."""

    def drop(self, claims: Collection[Claim], deleted: Collection[str]) -> None:
        """Stop fetching `claims`; data that arrives later is dropped. `deleted`: topics that no longer exist."""


class Membership:
    protocol: GroupProtocol  # set by the machine, because protocol and membership refer to each other

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        application: Application,
        partitions: Partitions,
        commits: MemberCommits,
        discovery: Discovery,
    ) -> None:
        self._config, self._application, self._partitions, self._commits = config, application, partitions, commits
        self._max_poll = config.max_poll_interval_ms / 1000
        self.subscription = SubscribedTopics(config, cluster, application, discovery)
        self._extension: tuple[float, object] = (-INFINITY, None)  # the end of an extended lease, and the `poll_mark` at its extension
        self._claims: dict[TopicPartition, Claim] = {}  # the held partitions
        self._ending: list[Ended] = []  # revocations and losses whose partitions the application has not released yet
        self._when_left: list[Callable[[], None]] = []
        self._rejected = False  # an error has ended this member since the last call of `subscribe`
        self.assignments = 0  # assignments received so far

    @property
    def state(self) -> State:
        return self.protocol.state

    @property
    def held(self) -> Collection[TopicPartition]:
        return self._claims.keys()

    # ---------------------------------------------------------------- calls of the application

    def subscribe(self, topics: tuple[str, ...], filter: TopicFilter | None = None) -> None:
        if self._rejected:
            self._rejected = False
            self._application.put(Subscribed())
        self.subscription.replace(topics, filter)
        self.protocol.start_over()

    def leave(self, now: float, patience: float, then: Callable[[], None], reason: str) -> None:
        """`then` is called when the member has left, after `patience` seconds at the latest."""
        self.dispose()
        self._when_left.append(then)
        # An assignment may still be on its way to the application. Its claims end here, so that the application does not begin to read the
        # partitions, or releases them if it has just begun.
        if self._claims:
            self._end(Ended(tuple(self._claims.values()), Ending.LOST, "this consumer left the group"))
        self._claims.clear()
        self._ending.clear()
        self.protocol.leave(now, now + patience, reason)

    def dispose(self) -> None:
        self.subscription.clear()
        self.protocol.dispose()

    def released(self, ended: Ended) -> None:
        if ended in self._ending:
            self._ending.remove(ended)
            for claim in ended.claims:
                del self._claims[claim.tp]
            self.protocol.released()

    def losses(self) -> dict[TopicPartition, str]:
        """The lost partitions that the application has to release, with the reasons. Their offsets cannot be committed."""
        return {claim.tp: ended.reason for ended in self._ending if ended.ending is Ending.LOST for claim in ended.claims}

    def ending(self) -> set[TopicPartition]:
        """The revoked and lost partitions that the application has to release."""
        return {claim.tp for ended in self._ending for claim in ended.claims}

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        look_at = self.subscription.poll(now)
        return min(look_at, self._poll_protocol(now))

    def _poll_protocol(self, now: float) -> float:
        if self.protocol.is_out:
            return self._join(now)
        release_by = min((ended.deadline for ended in self._ending), default=INFINITY)
        if now >= release_by:
            most = self._config.max_poll_interval_ms
            return self._give_up(now, f"the revoked partitions were not released within max_poll_interval_ms={most:g}")
        return min(self.protocol.poll(now), release_by)

    def _join(self, now: float) -> float:
        if self._claims or self._ending:  # the application releases them first; meanwhile the coordinator may still wait for this member
            return self.keep_lease(now) if self.protocol.is_known else INFINITY
        if not self.subscription.active or not self.subscription.known:
            return INFINITY
        if self._lease_ends(now) <= now:
            # An application that does not poll must not take partitions: the join waits for the next poll, which sees the flag and wakes
            # the loop. A poll that begins between the check and the flag sees no flag. So the lease is checked again after the flag is set.
            self._application.loop_wanted = True
            if self._lease_ends(now) <= now:
                return INFINITY
        again_at = self.protocol.join(now)
        return again_at if self.protocol.is_out else self._lease_ends(now)

    def _lease_ends(self, now: float) -> float:
        """The time by which the application must poll again."""
        idle, (until, mark) = self._application.idle_since(), self._extension
        ends = (now if idle is None else idle) + self._max_poll
        return until if until > ends and mark == self._application.poll_mark() else ends

    def extend_lease(self, now: float, seconds: float) -> str | None:
        """Extend the lease until `seconds` from now; the extension ends early when the `poll_mark` changes.

        Return None, or the reason for a refusal.
        """
        if (idle := self._application.idle_since()) == -INFINITY:
            return "the lease begins with the first poll"
        if losses := self.losses():
            return f"{next(iter(losses.values()))}; poll rejoins the group"
        if idle is not None and self._lease_ends(now) <= now:
            return f"max_poll_interval_ms={self._config.max_poll_interval_ms:g} exceeded; poll rejoins the group"
        left = min((ended.deadline for ended in self._ending), default=INFINITY) - now
        if seconds > left:
            return f"the group is rebalancing, and waits for this member for {left:.3g} s more; poll takes part in the rebalance"
        self._extension = (now + seconds, self._application.poll_mark())
        return None

    def keep_lease(self, now: float) -> float:
        ends = self._lease_ends(now)
        if now < ends:
            return ends
        reason = (
            f"max_poll_interval_ms={self._config.max_poll_interval_ms:g} exceeded: the application did not call poll or take the next "
            "record of a loop in time; raise that option, lower max_poll_records, or call extend_lease during long work"
        )
        log.warning("%s: leaving: %s", self._config.log_name, reason)
        return self._give_up(now, reason)

    def _give_up(self, now: float, reason: str) -> float:
        """Lose all partitions and leave, because the lease has ended, or revoked partitions were not released in time."""
        self.lost(self.held, reason)
        self.protocol.drop_out()
        self.protocol.leave(now, now + LEAVE_S, "consumer poll timeout has expired.")
        return now

    # ---------------------------------------------------------------- calls of the protocol

    def assigned(self, partitions: Collection[TopicPartition], starts: Mapping[TopicPartition, int] = NOWHERE) -> None:
        """Topics outside the subscription are left out: the subscription may have changed meanwhile, or the leader may be wrong."""
        subscribed = set(self.subscription.names)
        claims = tuple(Claim(tp) for tp in dict.fromkeys(partitions) if tp.topic in subscribed)
        generation, self.assignments = self.protocol.generation, self.assignments + 1
        where, count = self._config.log_name, len(claims)
        log.info("%s: generation %d, new partitions: %d", where, generation, count, generation=generation, partitions=count)
        self._claims.update((claim.tp, claim) for claim in claims)
        self._partitions.adopt(claims, Start.COMMITTED, self.subscription.fallback)
        self._application.put(Assigned(claims))
        for claim in claims:
            if claim.tp in starts:
                self._partitions.locate(claim, starts[claim.tp])

    def revoke(self, partitions: Collection[TopicPartition], deadline: float, reason: str) -> None:
        """Have the application release `partitions` by `deadline`."""
        log.info("%s: revoking partitions (%d): %s", self._config.log_name, len(partitions), reason, partitions=len(partitions))
        claims = tuple(self._claims[tp] for tp in partitions)
        # Without partitions, the application still has to confirm the revocation, but there is nothing to lose at a deadline.
        self._end(Ended(claims, Ending.REVOKED, reason, deadline if claims else INFINITY))

    def lost(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Lose `partitions`, which other members may own already. A revocation with any of them becomes a loss of all its partitions."""
        lost = set(partitions) - self.losses().keys()
        if not lost:
            return
        log.warning("%s: lost partitions (%d): %s", self._config.log_name, len(lost), reason, partitions=len(lost))
        for ended in self._ending:
            if any(claim.tp in lost for claim in ended.claims):
                ended.ending, ended.reason, ended.deadline = Ending.LOST, reason, INFINITY
        ending = self.ending()
        claims = tuple(self._claims[tp] for tp in partitions if tp in lost and tp not in ending)
        if claims:
            self._end(Ended(claims, Ending.LOST, reason))
        self._commits.fail_lost(self.losses())

    def _end(self, ended: Ended) -> None:
        for claim in ended.claims:
            claim.ended = True
        self._ending.append(ended)
        self._partitions.drop(ended.claims, self.subscription.deleted)
        self._application.put(ended)

    def refused(self, error: KafkaError) -> None:
        self._rejected = True
        self._application.put(PollError(None, error))

    def denied(self, error: KafkaError) -> None:
        self._application.tell_denied(error)

    def left(self) -> None:
        waiting, self._when_left = self._when_left, []
        for then in waiting:
            then()

    def on_fatal(self, error: KafkaError) -> None:
        """React to a FindCoordinator error that is not retriable. With a subscription, report a missing right, which may be granted later,
        or end the member after any other error."""
        if self.subscription.active and isinstance(error, AuthorizationError):
            self.denied(error)
        elif self.subscription.active:
            self.protocol.fail(error)
