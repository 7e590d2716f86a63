"""Joins a share group, sends heartbeats and leaves. The loss of the coordinator delays heartbeats, but ends no locks of acquired records:
locks belong to the share sessions with the leaders.

ShareGroupHeartbeat is the only request: it joins (epoch 0), reports a changed subscription, and leaves (epoch -1). The coordinator may
assign a partition to several members. The member does not confirm an assignment; records that the member has acquired from a partition
stay acquired when the partition is assigned to other members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Protocol
from uuid import UUID

from pykafka4.core import INFINITY
from pykafka4.core.group.coordinator import MembersCoordinator
from pykafka4.core.group.membership.coordinated import HeartbeatInFlight, HeartbeatMember
from pykafka4.core.group.membership.states import SHARE_MOVES, MemberState
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.sources import Parts
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.wire.protocol.messages_share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

__all__ = ["ShareMember"]

log = get_log("pykafka4.share")

LEAVES: Final = -1  # the member epoch of a heartbeat that leaves the group
UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_VERSION"].code
S = MemberState


class ShareAssignee(Protocol):
    """The machine of the share consumer."""

    def assign(self, parts: Parts) -> None:
        """Replace the member's assignment with `parts`."""

    def explain(self, reason: str | None) -> UnsupportedVersion:
        """Return the error for brokers without share groups."""


class ShareMember(HeartbeatMember):
    """The member makes its own id."""

    moves = SHARE_MOVES

    def __init__(
        self,
        config: ShareConsumerConfig,
        coordinator: MembersCoordinator,
        lane: int,
        mailbox: Mailbox,
        random: Random,
        outbox: Outbox,
        consumer: ShareAssignee,
    ) -> None:
        super().__init__(config, coordinator, lane, random, outbox)
        self._config, self._mailbox, self._consumer = config, mailbox, consumer
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.topics: tuple[str, ...] = ()
        self._polled = False  # the member may join only while the application polls
        self._done: Callable[[], None] | None = None  # called when the member has left

    # ---------------------------------------------------------------- calls

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """A member that the coordinator has rejected tries again."""
        self.topics = topics
        if self._mailbox.fatal is not None:
            self._mailbox.end(None)
        self.start_over()

    def unsubscribe(self) -> None:
        """Do not join the group until the application subscribes again and polls."""
        self.topics, self._polled = (), False

    def polled(self) -> None:
        self._polled = True

    def leave(self, now: float, by: float, done: Callable[[], None]) -> None:
        """Leave the group; call `done` when the member has left, at the time `by` at the latest. Then the member joins again if the
        application has subscribed and polled."""
        self._done = done
        self._consumer.assign(frozenset())
        self._begin_leaving(now, by)

    @property
    def _commits_under_way(self) -> bool:
        return False

    def _send_leave(self, now: float, node: int) -> HeartbeatInFlight:
        return self._beat(now, node, LEAVES, None)

    def _forget_membership(self) -> None:
        self._known = False
        done, self._done = self._done, None
        if done is not None:
            done()

    def _lost(self, reason: str) -> None:
        self._consumer.assign(frozenset())
        self.drop_out()

    def _refused(self, error: KafkaError) -> None:
        self._mailbox.end(error)

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        if self.state is S.LEAVING:
            return self._leaving(now)
        if self.state is S.FATAL:
            return INFINITY
        lease_ends = self._mailbox.idle_since + self._config.max_poll_interval_ms / 1000 if self._polled else INFINITY
        if now >= lease_ends:
            self._expire(now)
            return now
        if self.state is S.UNJOINED:
            return min(self.join(now), lease_ends)
        return min(self._beat_if_due(now), lease_ends)

    @property
    def _has_topics(self) -> bool:
        return bool(self.topics) and self._polled

    def _expire(self, now: float) -> None:
        """Leave the group, so that other members get the partitions."""
        if self.state is not S.UNJOINED:
            log.warning(
                "%s: group %s: no poll within max_poll_interval_ms=%g; leaving the group until the next poll",
                self._config.client_id,
                self._config.group,
                self._config.max_poll_interval_ms,
                group=self._config.group,
            )
            self.leave(now, now + self._config.request_timeout_ms / 1000, lambda: None)
        self._polled = False

    # ---------------------------------------------------------------- heartbeats

    def _report(self) -> tuple[str, ...]:
        return self.topics

    def _message(self, epoch: int, report: tuple[str, ...] | None) -> ShareGroupHeartbeatRequest:
        message = ShareGroupHeartbeatRequest(group_id=self._config.group, member_id=self.member_id, member_epoch=epoch)
        if report is not None and self._confirmed_report is None:
            message.rack_id = self._config.client_rack
        if report is not None and self._confirmed_report != report:
            message.subscribed_topic_names = list(report)
        return message

    def _enter(self, now: float, answer: ShareGroupHeartbeatResponse) -> None:
        if self.state is S.JOINING:
            self._move(S.STABLE)
            self._heartbeat.start(now + self._heartbeat.interval)
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self._consumer.assign(frozenset((each.topic_id, index) for each in parts for index in each.partitions))

    def _put_out(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        self._rejoin(now)

    def _not_supported(self, reason: str | None) -> UnsupportedVersion:
        return self._consumer.explain(reason)

    def _denied(self, error: KafkaError) -> None:
        self._mailbox.put_error(error)

    def _error(self, answer: ShareGroupHeartbeatResponse) -> KafkaError:
        if answer.error_code == UNSUPPORTED:
            return self._not_supported(answer.error_message)
        group = self._config.group
        what = f"{'joining' if self.state is S.JOINING else 'heartbeat of'} share group {group}"
        return broker_error(answer.error_code, what, answer.error_message, "ShareGroupHeartbeat", group=group)

    def status(self) -> Mapping[str, object]:
        return {
            "state": self.state.value,
            "reason": self.state.meaning if self.error is None else str(self.error),
            "member_id": self.member_id,
            "epoch": max(self.generation, 0),
            "coordinator": self._coordinator.node,
        }
