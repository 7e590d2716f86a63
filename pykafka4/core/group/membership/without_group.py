"""Assigns all partitions of the subscribed topics to a consumer without a group. Invariant: no coordinator takes part.

The metadata takes the place of the assignment: a partition that appears in the metadata is assigned; a partition that disappears, or whose
topic leaves the subscription, is revoked.
"""

from __future__ import annotations

from pykafka4.core import INFINITY
from pykafka4.core.group.membership.protocol import Assignee
from pykafka4.core.group.membership.states import LONE_MOVES, MemberState
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["WithoutGroup"]

S = MemberState


class WithoutGroup:
    """The `GroupProtocol` of a consumer without a group."""

    is_known = False  # no coordinator knows this consumer
    error: KafkaError | None = None
    identity: MemberIdentity | None = None
    member_id = ""
    generation = -1

    def __init__(self, cluster: Cluster, assignee: Assignee) -> None:
        self._cluster, self._assignee = cluster, assignee
        self.state = S.UNJOINED
        self._revoking: set[TopicPartition] = set()  # partitions that the application has to release
        self._seen: tuple[int, tuple[str, ...]] | None = None  # the version of the metadata, and the topics, at the last comparison

    @property
    def is_out(self) -> bool:
        return self.state is S.UNJOINED

    def join(self, now: float) -> float:
        """Assign all known partitions as soon as every topic has been looked up, even if the lookup found an error."""
        if all(map(self._looked_up, self._assignee.subscription.names)):
            self._move(S.STABLE)
            self._assignee.assigned(self._wanted())
        return INFINITY

    def poll(self, now: float) -> float:
        seen = self._cluster.version, self._assignee.subscription.names
        if seen != self._seen:
            self._seen = seen
            self._reconcile()
        return INFINITY

    def _reconcile(self) -> None:
        wanted, held = self._wanted(), set(self._assignee.held)
        if gone := sorted(held.difference(wanted, self._revoking)):
            self._revoking.update(gone)
            self._assignee.revoke(gone, INFINITY, "their topics left the subscription, or no longer have them")
        if fresh := [tp for tp in wanted if tp not in held]:
            self._assignee.assigned(fresh)
        self._show_revoking()

    def _wanted(self) -> list[TopicPartition]:
        names, count = self._assignee.subscription.names, self._cluster.partitions
        return [TopicPartition(topic, partition) for topic in names for partition in range(count(topic))]

    def _looked_up(self, topic: str) -> bool:
        return bool(self._cluster.partitions(topic)) or self._cluster.topic_error(topic) is not None

    def released(self) -> None:
        """Let the next poll compare again, because the subscription may have the released partitions again by now."""
        self._revoking.intersection_update(self._assignee.held)
        self._seen = None
        self._show_revoking()

    def _show_revoking(self) -> None:
        to = S.REVOKING if self._revoking else S.STABLE
        if self.state not in (S.UNJOINED, to):
            self._move(to)

    def drop_out(self) -> None:
        self._revoking.clear()
        self._seen = None
        if self.state is not S.UNJOINED:
            self._move(S.UNJOINED)

    def leave(self, now: float, by: float, reason: str) -> None:
        self.drop_out()
        self._assignee.left()

    def fail(self, error: KafkaError) -> None:
        """Do nothing: only a request to a coordinator could fail this way."""

    def start_over(self) -> None:
        """Do nothing: `fail` does not end this consumer."""

    def dispose(self) -> None:
        """Do nothing: the subscription itself gives up the metadata of its topics."""

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """A consumer without a group commits nothing."""
        return False

    def _move(self, to: MemberState) -> None:
        self.state = LONE_MOVES.move(self.state, to)
