"""Keeps a member in its group by the consumer protocol (KIP-848), in which the coordinator assigns the partitions.

Invariant: while in the group, a member gives a partition back only after the application has released it, and after the partition's commits
are complete or have had COMMITS_FIRST_S.

ConsumerGroupHeartbeat is the only request. It joins (epoch 0), reports changes since the last heartbeat, acknowledges the assignment with
the list of owned partitions, and leaves (epoch -1; epoch -2 for a static member, which may come back). The coordinator assigns a partition
to the next member when the previous owner no longer reports it.
A lost response may have had a new epoch. So the next heartbeat is a full one, with all owned partitions: the coordinator accepts it even in
the previous epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.group.coordinator import GroupCoordinator
from pykafka4.core.group.membership.consumer_requests import Owned, Report, group_heartbeat, needs_version_1, not_supported
from pykafka4.core.group.membership.coordinated import (
    COMMITS_FIRST_S,
    ENDS_MEMBER,
    ConsumerGroupMember,
    HeartbeatInFlight,
    HeartbeatMember,
)
from pykafka4.core.group.membership.protocol import Assignee, MemberCommits
from pykafka4.core.group.membership.states import CONSUMER_MOVES, MemberState
from pykafka4.core.group.reactions import Reaction
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

__all__ = ["ConsumerProtocol"]

log = get_log("pykafka4.group")

UNKNOWN_TOPIC_S: Final = 30.0  # seconds until a log line reports an assigned topic that stays unknown
# Seconds until the metadata is requested again for an assigned topic that is unknown. LOOK_SELDOM_S applies after the log line: with a
# pattern, each request is followed by a request for the list of all topics, which may be long.
LOOK_AGAIN_S, LOOK_SELDOM_S = 1.0, 30.0
# Seconds. A killed static member holds its instance id until its session has ended: by default within the 60 s of
# group.consumer.max.session.timeout.ms. If the id is in use for longer, another running process probably has it.
UNRELEASED_S: Final = 75.0
UNRELEASED: Final = BY_NAME["UNRELEASED_INSTANCE_ID"].code
UNSUPPORTED: Final = BY_NAME["UNSUPPORTED_VERSION"].code
NO_GROUP: Final = BY_NAME["GROUP_ID_NOT_FOUND"].code
LEAVES, LEAVES_FOR_A_WHILE = -1, -2  # epochs of a heartbeat that leaves: for good, or as a static member that may come back
S = MemberState


@attrs.define(eq=False)
class Ownership:
    """The partitions that the member reports as owned, with their topic ids. Revoked partitions stay owned until they are given back."""

    ids: dict[TopicPartition, UUID] = attrs.Factory(dict)  # the topic's id when the partition was assigned
    revoking: set[TopicPartition] = attrs.Factory(set)  # partitions that the application has to release
    closing: dict[TopicPartition, float] = attrs.Factory(dict)  # released partitions, with the latest time to give them back
    _reported: frozenset[Owned] | None = None  # the report, kept until `ids` changes, because most polls need it

    def report(self) -> frozenset[Owned]:
        """(topic id, partition) of the owned partitions."""
        if self._reported is None:
            self._reported = frozenset((topic_id, tp.partition) for tp, topic_id in self.ids.items())
        return self._reported

    def take(self, fresh: Mapping[TopicPartition, UUID]) -> None:
        self.ids.update(fresh)
        self._reported = None

    def give_back(self, tp: TopicPartition) -> None:
        """Drop `tp`, which was released, and whose commits are complete or too late."""
        del self.closing[tp], self.ids[tp]
        self._reported = None

    def clear(self) -> None:
        self._reported = None
        self.ids.clear()
        self.revoking.clear()
        self.closing.clear()


class ConsumerProtocol(ConsumerGroupMember, HeartbeatMember):
    """One member of a group. It makes its member id itself (KIP-1082)."""

    moves = CONSUMER_MOVES
    fit = needs_version_1

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        cluster: Cluster,
        assignee: Assignee,
        random: Random,
        outbox: Outbox,
        commits: MemberCommits,
    ) -> None:
        super().__init__(config, coordinator, coordinator.lane, random, outbox)
        self._config, self._cluster, self._assignee, self._commits = config, cluster, assignee, commits
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.identity: MemberIdentity | None = None  # None while the member is out of the group
        self._owned = Ownership()
        self._target: dict[UUID, frozenset[int]] | None = None  # the assignment; None: there is none yet
        self._topics: tuple[str, ...] = ()  # the subscribed topics when the assignment and the held partitions were last compared
        self._told_application = False  # the application has the first assignment since the join, which may be empty
        self._settled = False  # since the last comparison, no assignment came and no partition was given back
        self._look_at = INFINITY  # when to compare again, because an assigned topic is unknown
        self._look_pause = LOOK_AGAIN_S
        self._version = 0  # the version of the metadata at the last comparison with an unknown topic
        self._unknown_since: float | None = None  # since when an assigned topic has been unknown, or when a log line last reported it
        self._release_first = False  # leave before the next join: the coordinator may have a member with this member id or instance id
        self._unreleased_since: float | None = None  # since when the coordinator has rejected joins, because the instance id is in use

    # ---------------------------------------------------------------- calls of the assignee

    @property
    def is_known(self) -> bool:
        return False

    @property
    def _has_topics(self) -> bool:
        subscription = self._report()
        return bool(subscription.topics) or subscription.regex is not None

    def _send_join(self, now: float, node: int) -> None:
        self._target, self._told_application, self._look_at = None, False, INFINITY
        if self._release_first:
            self._in_flight = self._beat(now, node, self._last_epoch, None)
        else:
            super()._send_join(now, node)

    def released(self) -> None:
        """Mark released partitions as closing: later polls give them back."""
        held = self._assignee.held
        for tp in [tp for tp in self._owned.revoking if tp not in held]:
            self._owned.revoking.discard(tp)
            self._owned.closing[tp] = INFINITY

    def drop_out(self) -> None:
        self._owned.clear()
        self._unreleased_since = None
        super().drop_out()

    def leave(self, now: float, by: float, reason: str) -> None:
        """The request of this protocol has no field for `reason`."""
        self._begin_leaving(now, by)

    # ---------------------------------------------------------------- time

    def poll(self, now: float) -> float:
        return STEPS[self.state](self, now)

    def _joining(self, now: float) -> float:
        return self._assignee.keep_lease(now)

    def _live(self, now: float) -> float:
        lease_ends = self._assignee.keep_lease(now)
        if not self._is_in:
            return now
        give_back_at = self._give_back(now)
        self._reconcile(now)
        return min(lease_ends, give_back_at, self._look_at, self._beat_if_due(now))

    @property
    def _is_in(self) -> bool:
        return self.state is S.STABLE or self.state is S.REVOKING

    # ---------------------------------------------------------------- partitions

    def _reconcile(self, now: float) -> None:
        """If anything has changed, revoke held partitions that the assignment or the subscription lacks, and take new partitions."""
        if self._target is None or (self._settled and self._topics == self._assignee.subscription.names and not self._may_know_more(now)):
            return
        self._settled, self._topics, self._look_at = True, self._assignee.subscription.names, INFINITY
        owned, topics = self._owned, frozenset(self._topics)
        gone = [tp for tp in self._assignee.held if tp not in owned.revoking and not (tp.topic in topics and self._is_assigned(tp))]
        if gone:
            owned.revoking.update(gone)
            self._assignee.revoke(gone, now + self._rebalance_timeout, "the assignment or the subscription no longer has them")
        fresh = self._fresh(now, topics)
        if fresh or not self._told_application:
            self._told_application = True
            owned.take(fresh)
            if self.identity is not None:
                self.identity.topic_ids.update((tp.topic, topic_id) for tp, topic_id in fresh.items())
            self._assignee.assigned(list(fresh))
        if self._is_in:
            self._show_revoking()

    def _may_know_more(self, now: float) -> bool:
        return now >= self._look_at or (self._look_at < INFINITY and self._cluster.version != self._version)

    def _is_assigned(self, tp: TopicPartition) -> bool:
        """Whether `tp` is still assigned with the same topic id: a later topic of the same name is another topic."""
        topic_id = self._owned.ids.get(tp)
        return topic_id is not None and tp.partition in (self._target or {}).get(topic_id, ())

    def _fresh(self, now: float, topics: frozenset[str]) -> dict[TopicPartition, UUID]:
        """The assigned partitions of subscribed topics, except owned ones, with topic ids. Partitions of unknown topics follow when the
        topics are known."""
        filter, fresh, unknown = self._assignee.subscription.filter, dict[TopicPartition, UUID](), list[UUID]()
        by_coordinator = filter is not None and filter.regex is not None
        for topic_id, partitions in (self._target or {}).items():
            topic = self._cluster.topic_name(topic_id)
            if topic in topics:
                tps = (TopicPartition(topic, partition) for partition in sorted(partitions))
                fresh.update((tp, topic_id) for tp in tps if tp not in self._owned.ids)
            # If the coordinator matches the pattern, the metadata may have a topic that the subscription still lacks: the coordinator has
            # matched the topic before this client, and another machine of this client has requested its metadata.
            elif topic is None or by_coordinator:
                unknown.append(topic_id)
        self._note_unknown(now, unknown)
        return fresh

    def _note_unknown(self, now: float, unknown: list[UUID]) -> None:
        """Request new metadata, which may name these topics. A log line reports topics that stay unknown for UNKNOWN_TOPIC_S."""
        if not unknown:
            self._unknown_since, self._look_pause = None, LOOK_AGAIN_S
            return
        self._look_at, self._version = now + self._look_pause, self._cluster.version
        self._cluster.refresh(now, self._topics)
        self._assignee.subscription.look_for_topics(now)
        if self._unknown_since is None:
            self._unknown_since = now
        elif now >= self._unknown_since + UNKNOWN_TOPIC_S:
            self._unknown_since, self._look_pause = now, LOOK_SELDOM_S
            self._look_at = now + LOOK_SELDOM_S
            log.warning(
                "%s: cannot read the assigned topics with the ids %s: the subscription has no topics with these ids; "
                "the topics were deleted, or a pattern has another meaning in RE2 than in Python",
                self._config.log_name,
                ", ".join(sorted(map(str, unknown))),
            )

    def _give_back(self, now: float) -> float:
        """Give back released partitions whose commits are complete or late: the next heartbeat omits them.

        If a partition were given back earlier, its commit would be repeated in the next epoch, and could overwrite the next owner's commit.
        """
        owned = self._owned
        if not owned.closing:
            return INFINITY
        late = [tp for tp, by in owned.closing.items() if now >= by]
        if late:
            self._commits.fail_lost(dict.fromkeys(late, "the partition was revoked, and the commit was not complete in time"))
        incomplete, given = self._commits.incomplete(), set[str]()
        for tp, by in list(owned.closing.items()):
            if by == INFINITY:
                by = owned.closing[tp] = now + COMMITS_FIRST_S
            if now < by and tp in incomplete:
                continue
            owned.give_back(tp)
            given.add(tp.topic)
            self._settled = False  # the coordinator may have assigned `tp` to this member again
        if given and self.identity is not None:  # a topic without owned partitions may be deleted, and nothing would drop its id then
            for topic in given.difference(tp.topic for tp in owned.ids):
                self.identity.topic_ids.pop(topic, None)
        self._show_revoking()
        return min(owned.closing.values(), default=INFINITY)

    def _show_revoking(self) -> None:
        to = S.REVOKING if self._owned.revoking or self._owned.closing else S.STABLE
        if to is not self.state:
            self._move(to)

    # ---------------------------------------------------------------- heartbeats

    def _report(self) -> Report:
        topics = self._assignee.subscription
        regex = None if topics.filter is None else topics.filter.regex
        return Report(topics.names if regex is None else topics.listed, regex, self._owned.report())

    def _message(self, epoch: int, report: Report | None) -> ConsumerGroupHeartbeatRequest:
        return group_heartbeat(self._config, self.member_id, epoch, report, self._confirmed_report)

    def _answered(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        if heartbeat.report is None:
            self._released_id(now, outcome)
        else:
            super()._answered(now, heartbeat, outcome)

    def _enter(self, now: float, answer: ConsumerGroupHeartbeatResponse) -> None:
        self._unreleased_since = None
        if answer.member_epoch <= 0:  # the coordinator has no assignment for this member yet
            self._rejoin(now)
            self._paused_until = now + self._heartbeat.interval
            return
        if self.state is S.JOINING:
            group, instance = self._config.group_id or "", self._config.group_instance_id
            self._move(S.STABLE)
            self.identity = MemberIdentity(group, answer.member_epoch, self.member_id, instance)
        if answer.member_epoch != self.generation or answer.assignment is not None:
            self._heartbeat.changed(now)
        if self.identity is not None and self.identity.generation != answer.member_epoch:
            self.identity.generation = answer.member_epoch
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            before, self._settled, self._look_pause = self._target or {}, False, LOOK_AGAIN_S
            self._target = {part.topic_id: frozenset(part.partitions) for part in answer.assignment.topic_partitions}
            if self._has_lost_unknown(before):
                self._confirmed_report = None
                self._heartbeat.start(now)

    def _has_lost_unknown(self, before: Mapping[UUID, frozenset[int]]) -> bool:
        """Whether the assignment has lost partitions that the member did not own, usually because it did not know their topic. `before`
        is the previous assignment.

        For the member nothing changes, so it would report nothing. But the coordinator waits for a report without these partitions.
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

    def _not_supported(self, reason: str | None) -> UnsupportedVersion:
        return not_supported(reason)

    def _turned_away(self, now: float, node: int, code: int, error: KafkaError) -> None:
        if code == UNRELEASED and self.state is S.JOINING:
            self._wait_for_instance(now, error)
        elif code == NO_GROUP and self._is_in:  # the group was deleted, or is a classic group again: a join creates or converts it
            self._react(now, Reaction.STRANGER, error)
        else:
            super()._turned_away(now, node, code, error)

    def _put_out(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        if self.state is not S.JOINING:
            self._react(now, verdict, error)
            return
        if verdict is Reaction.STRANGER:
            self._known = False
        else:  # some brokers reject the join of a member that they know, so the member has to leave first
            self._release_first = True
        self._rejoin(now)

    def _again(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        if verdict is Reaction.REFIND:
            self._unreleased_since = None  # a new coordinator restarts all sessions, including the session of a killed member
        super()._again(now, node, verdict, error)

    def _wait_for_instance(self, now: float, error: KafkaError) -> None:
        """Give up the place with this instance id before the next join; fail if the id has been in use for UNRELEASED_S.

        The place may belong to an earlier join of this member, whose response was lost: leaving frees it. If it belongs to another process,
        leaving has no effect; if that process was killed, the place becomes free when its session ends.
        """
        if self._unreleased_since is None:
            self._unreleased_since = now
            log.warning(
                "%s: %s; trying again for at most %g s, until the session with that id ends", self._config.log_name, error, UNRELEASED_S
            )
        if now >= self._unreleased_since + UNRELEASED_S:
            self.fail(error)
            return
        self._release_first = True
        self._rejoin(now)

    def _released_id(self, now: float, outcome: Outcome) -> None:
        """Join after any outcome of leaving: if the place was not this member's, the join may be rejected again."""
        self._release_first = False
        self._move(S.UNJOINED)
        if isinstance(outcome, Failed) or outcome.message.error_code:
            self._paused_until = now + self._backoff.next()

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        if identity is not self.identity or verdict is Reaction.DENIED:
            return False  # if the whole group is denied, not just a topic, the next heartbeat reports it
        if verdict is Reaction.STALE:
            if self._in_flight is None and generation == self.generation:
                # A response with the new epoch was lost: only a full heartbeat is accepted in the previous epoch.
                self._confirmed_report = None
                self._heartbeat.start(now)
            return True
        name = getattr(getattr(error, "code", None), "name", "")
        if verdict in (Reaction.STRANGER, Reaction.OUTDATED) or name == ENDS_MEMBER:
            self.error = error
            self._react(now, verdict, error)
        return False

    def _react(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        """End the member after a FATAL error; otherwise lose all partitions, because the coordinator has put this member out."""
        if verdict is Reaction.FATAL:
            self.fail(error)
            return
        self._known = verdict is not Reaction.STRANGER
        # The coordinator keeps the place of a fenced static member until its session has ended, so the member first gives up the place.
        self._release_first = self._known and self._config.group_instance_id is not None
        self._lost(str(error))

    # ---------------------------------------------------------------- leaving

    @property
    def _last_epoch(self) -> int:
        """The partitions of a static member wait for its return."""
        return LEAVES if self._config.group_instance_id is None else LEAVES_FOR_A_WHILE

    def _send_leave(self, now: float, node: int) -> HeartbeatInFlight:
        return self._beat(now, node, self._last_epoch, None)

    def _forget_membership(self) -> None:
        self._known, self._release_first, self._unreleased_since = False, False, None
        self._owned.clear()
        self._assignee.left()

    def _move(self, to: MemberState) -> None:
        super()._move(to)
        if not self._is_in:
            self.identity = None


STEPS: Mapping[MemberState, Callable[[ConsumerProtocol, float], float]] = {
    S.UNJOINED: ConsumerProtocol._idle,
    S.JOINING: ConsumerProtocol._joining,
    S.STABLE: ConsumerProtocol._live,
    S.REVOKING: ConsumerProtocol._live,
    S.LEAVING: ConsumerProtocol._leaving,
    S.FATAL: ConsumerProtocol._idle,
}
