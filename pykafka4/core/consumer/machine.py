"""Polls the parts of one consumer on the loop: membership, fetcher, auto-commit, offsets, coordinator, rewinds. Invariant: each turn polls
the parts in this order, so a part handles in the same turn the work that an earlier part passes to it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from pykafka4.core import INFINITY, Effects
from pykafka4.core.consumer.fetcher import Fetcher
from pykafka4.core.consumer.positions import Intake
from pykafka4.core.group.committing.offsets import Commit, Offsets
from pykafka4.core.group.coordinator import GroupCoordinator
from pykafka4.core.group.membership.membership import Application, Membership
from pykafka4.core.group.membership.protocol import GroupProtocol
from pykafka4.core.group.membership.without_group import WithoutGroup
from pykafka4.core.group.notes import Rewind
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.group.topics.discovery import Discovery
from pykafka4.core.metadata.cluster import MISSING, Cluster
from pykafka4.core.metadata.coordinators import Coordinator
from pykafka4.core.metadata.events import NOBODY, EventSink
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import MemberIdentity, OffsetAndEpoch, PollError
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import now_ms

if TYPE_CHECKING:
    from pykafka4.core.group.membership.rewinds import Done, Rewinds

__all__ = ["CLOSING", "COMMIT_S", "UNSUBSCRIBING", "ConsumerMachine", "PollingSide"]

log = get_log("pykafka4.consumer")

COMMIT_S = 60.0  # timeout, in seconds, of commits that no caller waits for
# Reasons for LeaveGroup, as Java words them (KIP-800).
CLOSING = "the consumer is being closed"
UNSUBSCRIBING = "the consumer unsubscribed from all topics"


class PollingSide(Intake, Application, Protocol):
    """The part of a consumer on the thread that polls."""

    def progress(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The position after the finished records of each partition."""

    def tell_refused(self, error: KafkaError) -> None:
        """Have `poll` raise `error`, with which a broker refuses this client."""


class ConsumerMachine:
    """Implements `Committer`, `CoordinatorUser`."""

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        cluster: Cluster,
        recovery: Recovery,
        random: Random,
        reader: PollingSide,
        wall_ms: Callable[[], int] = now_ms,
        events: EventSink = NOBODY,
    ) -> None:
        """`wall_ms` returns the time of day, in ms since 1970."""
        self._config, self._network, self._cluster, self._reader = config, network, cluster, reader
        self._outbox = outbox = Outbox()
        group_lane, fetch_lane = network.new_lane(), network.new_lane()
        self.coordinator = GroupCoordinator(config, network, cluster, group_lane, random, outbox, self)
        self.offsets = Offsets(config, self.coordinator, random, outbox, self)
        self.fetcher = Fetcher(
            config, cluster, recovery, self.offsets, reader, (fetch_lane, network.new_lane()), random, outbox, wall_ms, events
        )
        discovery = Discovery(config, network, random, outbox)
        member = self.membership = Membership(config, cluster, reader, self.fetcher, self.offsets, discovery)
        protocol = member.protocol = self._new_protocol(member, random)
        self._rewinds: Rewinds | None = getattr(protocol, "rewinds", None)  # only members of classic groups rewind
        self._next_auto = 0.0 if config.enable_auto_commit and config.group_id is not None else INFINITY
        self._auto_under_way = False
        network.refusals.listeners[self._refused_by] = None

    def _new_protocol(self, member: Membership, random: Random) -> GroupProtocol:
        config = self._config
        if config.group_id is None:
            return WithoutGroup(self._cluster, member)
        # Imported here: a consumer without a group need not declare the messages of members and commits; with a group, they are declared on
        # the thread that creates the consumer, not on the loop.
        from pykafka4.core.group.membership.classic import ClassicProtocol
        from pykafka4.core.group.membership.consumer_protocol import ConsumerProtocol

        kind = ConsumerProtocol if config.group_protocol == "consumer" else ClassicProtocol
        return kind(config, self.coordinator, self._cluster, member, random, self._outbox, self.offsets)

    def poll(self, now: float) -> Effects:
        wake_at = self.membership.poll(now)
        wake_at = min(wake_at, self.fetcher.poll(now), self._auto_commit(now))
        was_busy = self.offsets.busy
        wake_at = min(wake_at, self.offsets.poll(now))
        if was_busy and not self.offsets.busy:
            wake_at = now  # a member that leaves or rejoins waits for the end of its commits
        wake_at = min(wake_at, self.coordinator.poll(now))
        if self._rewinds is not None:
            wake_at = min(wake_at, self._rewinds.expire(now))
        self._reader.news()
        return self._outbox.effects(wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Fail all commits, lookups of committed offsets, a rewind, and every poll."""
        try:
            self.offsets.fail(reason)
            if self._rewinds is not None:
                self._rewinds.end(reason)
        finally:
            self._reader.put(PollError(None, reason))
            self._reader.news()
        return ()

    def leave(self, now: float, timeout: float, then: Callable[[], None], reason: str = CLOSING) -> None:
        """Send the commits, then leave the group; call `then` afterwards, after `timeout` seconds at the latest.

        If the coordinator is known, the first queued commit is sent before the request to leave, even without time for responses.
        """
        self.offsets.poll(now)
        self.membership.leave(now, timeout, then, reason)

    def dispose(self) -> None:
        self._network.refusals.listeners.pop(self._refused_by, None)
        self.fetcher.end()
        self.offsets.end()
        self.membership.dispose()
        self.coordinator.dispose()
        for lane in self.fetcher.lanes:
            self._network.drop_lane(lane)

    # ---------------------------------------------------------------- commits

    def commit(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        deadline: float,
        done: Callable[[KafkaError | None], None],
        *,
        only_new: bool = False,
    ) -> None:
        """Commit `offsets`, as a member of the group if there is a subscription. `only_new`: omit stored offsets."""
        identity, lost = None, ""
        if self.membership.subscription.active:
            identity, losses = self.membership.protocol.identity, self.membership.losses()
            lost = next((losses[tp] for tp in offsets if tp in losses), "" if identity else "this consumer is not in the group now")
        self.offsets.commit(Commit(offsets, identity, deadline, done, lost, only_new))

    def commit_last(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: float, done: Callable[[KafkaError | None], None]
    ) -> None:
        """Commit offsets before partitions are released, except stored offsets and offsets of lost partitions."""

        def tell(error: KafkaError | None) -> None:
            self._auto_committed(error)
            done(error)

        losses, stored = self.membership.losses(), self.offsets.stored
        fresh = {tp: place for tp, place in offsets.items() if tp not in losses and stored.get(tp) != place.offset}
        self.commit(fresh, deadline, tell, only_new=True)

    def rewind(self, rewind: Rewind, deadline: float, done: Done) -> Callable[[], None]:
        """Request a rewind of the group, which must be classic. Return a callable that withdraws the request."""
        assert self._rewinds is not None
        return self._rewinds.ask(rewind, deadline, done)

    def _auto_commit(self, now: float) -> float:
        """At most once per auto_commit_interval_ms, commit the offsets after finished records, except stored offsets.

        Only the application's thread changes the finished offsets, so the loop reads them without a lock. When the thread that polls
        releases revoked partitions, it commits all their finished records (`commit_last`). Offsets of lost partitions are not committed.
        """
        if now < self._next_auto:
            return self._next_auto
        self._next_auto = now + self._config.auto_commit_interval_ms / 1000
        if self._auto_under_way or (self.membership.subscription.active and self.membership.protocol.identity is None):
            return self._next_auto
        ending = self.membership.ending()
        fresh = {
            tp: OffsetAndMetadata(offset, epoch)
            for tp, (offset, epoch) in self._reader.progress().items()
            if tp not in ending and self.offsets.stored.get(tp) != offset
        }
        if fresh:
            self._auto_under_way = True
            self.commit(fresh, now + COMMIT_S, self._auto_committed, only_new=True)
        return self._next_auto

    def _auto_committed(self, error: KafkaError | None) -> None:
        self._auto_under_way = False
        if error is not None:
            log.warning("%s: auto-commit failed: %s", self._config.log_name, error)
            if isinstance(error, AuthorizationError):  # without a subscription, no heartbeat reports a denial
                self._reader.tell_denied(error)

    # ---------------------------------------------------------------- status

    @property
    def trouble(self) -> KafkaError | None:
        """The error that keeps the member from its partitions while the client retries. Any thread may read it."""
        return self.membership.protocol.error or self.coordinator.last_error

    def status(self, now: float) -> dict[str, Any]:
        membership, coordinator, protocol = self.membership, self.coordinator, self.membership.protocol
        trouble = self.trouble
        return {
            "state": membership.state.value,
            "group_id": self._config.group_id,
            "member_id": protocol.member_id,
            "generation": protocol.generation,
            "coordinator": coordinator.node,
            "pattern": None if membership.subscription.filter is None else str(membership.subscription.filter),
            "reason": str(trouble) if trouble is not None else membership.state.meaning,
            "partitions": {str(tp): self.fetcher.status(position) for tp, position in sorted(self.fetcher.positions.items())},
            "unknown_topics": [topic for topic in membership.subscription.names if not self._cluster.partitions(topic)],
        }

    # ---------------------------------------------------------------- calls of offsets and coordinator

    @property
    def lookup_identity(self) -> MemberIdentity | None:
        """In the consumer protocol, the coordinator checks the member that sends a lookup."""
        return self.membership.protocol.identity if self._config.group_protocol == "consumer" else None

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        return self.membership.protocol.on_commit_verdict(now, identity, generation, verdict, error)

    def exists(self, topic: str, topic_id: UUID | None) -> bool:
        """True also for a topic without metadata, because `Cluster` has only the metadata of topics in use."""
        if topic in self.membership.subscription.deleted:
            return False
        error = self._cluster.topic_error(topic)
        if error is not None and error.code in MISSING:
            return False
        return topic_id is None or self._cluster.topic_id(topic) in (None, topic_id)

    def _refused_by(self, now: float, broker: int, error: KafkaError) -> None:
        self._reader.tell_refused(error)

    def coordinator_refused(self, coordinator: Coordinator, error: KafkaError) -> None:
        self.offsets.fail(error)
        self.membership.on_fatal(error)
