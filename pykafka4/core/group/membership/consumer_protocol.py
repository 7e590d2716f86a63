"""Consumer protocol (KIP-848). Rule: a partition is given back after the application has released it and its commits are complete.

ConsumerGroupHeartbeat is the only request: it joins (epoch 0), reports what has changed since the last one, acknowledges the assignment by
the partitions that are owned, and leaves (epoch -1; a static member that comes back -2). The coordinator assigns partitions one by one: it
assigns one to a member after the member that had it no longer reports it.
A response that is lost may have changed the epoch. So the heartbeat after it is a full one, which names the partitions that are owned:
the coordinator then accepts the previous epoch.
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
from pykafka4.core.group.membership.coordinated import HeartbeatInFlight, HeartbeatMember, OfAssignee
from pykafka4.core.group.membership.protocol import Assignee, CommitsInFlight
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
S = MemberState


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


class ConsumerProtocol(OfAssignee, HeartbeatMember):
    """One member of a group, identified by a member id that it makes itself (KIP-1082), and a member epoch."""

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
        commits: CommitsInFlight,
    ) -> None:
        super().__init__(config, coordinator, coordinator.lane, random, outbox)
        self._config, self._cluster, self._assignee, self._commits = config, cluster, assignee, commits
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.identity: MemberIdentity | None = None  # while the member is in the group
        self._owned = Ownership()
        self._target: dict[UUID, frozenset[int]] | None = None  # the assignment; None: there is none yet
        self._topics: tuple[str, ...] = ()  # of the subscription, when the assignment was last compared with what is held
        self._told_application = False  # of the first assignment since the join, which may be empty
        self._settled = False  # what is held is what is assigned, or on its way
        self._look_at = INFINITY  # when to compare again, because the metadata lacks a topic
        self._look_pause = LOOK_AGAIN
        self._version = 0  # of the metadata, when it lacked one
        self._unknown_since: float | None = None  # since when it lacks one, or since that was last reported
        self._release_first = False  # leave before joining: the coordinator has another member with this id or instance id
        self._unreleased_since: float | None = None

    # ---------------------------------------------------------------- calls of the assignee

    @property
    def is_known(self) -> bool:
        """Not a member that is out: the coordinator has put it out, or it has left."""
        return False

    @property
    def _has_topics(self) -> bool:
        """False for a pattern that no topic matches yet."""
        subscription = self._report()
        return bool(subscription.topics) or subscription.regex is not None

    def _send_join(self, now: float, node: int) -> None:
        self._target, self._told_application, self._look_at = None, False, INFINITY
        if self._release_first:
            self._in_flight = self._beat(now, node, self._last_epoch, None)
        else:
            super()._send_join(now, node)

    def released(self) -> None:
        """The application has released partitions that were revoked. They are given back when their commits are complete."""
        held = self._assignee.held
        for tp in [tp for tp in self._owned.revoking if tp not in held]:
            self._owned.revoking.discard(tp)
            self._owned.closing[tp] = INFINITY

    def drop_out(self) -> None:
        """See `CoordinatedMember`."""
        self._owned.clear()
        self._unreleased_since = None
        super().drop_out()

    def leave(self, now: float, by: float, reason: str) -> None:
        """See `GroupProtocol`. The coordinator is not told the reason."""
        self._begin_leaving(now, by)

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

    @property
    def _is_in(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state is S.STABLE or self.state is S.REVOKING

    # ---------------------------------------------------------------- partitions

    def _reconcile(self, now: float) -> None:
        """Revoke what is held and not assigned, take what is assigned and not held."""
        if self._target is None or (self._settled and self._topics == self._assignee.subscription.names and not self._may_know_more(now)):
            return
        self._settled, self._topics, self._look_at = True, self._assignee.subscription.names, INFINITY
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
            if self.identity is not None:
                self.identity.topic_ids.update((tp.topic, topic_id) for tp, topic_id in fresh.items())
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
        filter, fresh, unknown = self._assignee.subscription.filter, dict[TopicPartition, UUID](), list[UUID]()
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
        self._assignee.subscription.look_for_topics(now)
        if self._unknown_since is None:
            self._unknown_since = now
        elif now >= self._unknown_since + UNKNOWN_SECONDS:
            self._unknown_since, self._look_pause = now, LOOK_SELDOM
            self._look_at = now + LOOK_SELDOM
            log.warning(
                "%s: cannot read the assigned topics with the ids %s: no topic of the subscription has such an id; "
                "they were deleted, or the pattern has another meaning in RE2 than in Python",
                self._config.log_name,
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
        if given and self.identity is not None:  # a topic that others read may be deleted, and its id is not known any more
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
        """Without a `report` it gives back the place of this member, or of an earlier one so that this one can join."""
        return group_heartbeat(self._config, self.member_id, epoch, report, self._told)

    def _answered(self, now: float, heartbeat: HeartbeatInFlight, outcome: Outcome) -> None:
        if heartbeat.report is None:
            self._released_id(now, outcome)
        else:
            super()._answered(now, heartbeat, outcome)

    def _enter(self, now: float, answer: ConsumerGroupHeartbeatResponse) -> None:
        """The member is in this epoch."""
        self._unreleased_since = None
        if answer.member_epoch <= 0:  # it is a member, and has no assignment yet
            self._rejoin(now)
            self._rest_until = now + self._heartbeat.interval
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

    def _not_supported(self, reason: str | None) -> UnsupportedVersion:
        return not_supported(reason)

    def _turned_away(self, now: float, node: int, code: int, error: KafkaError) -> None:
        if code == UNRELEASED and self.state is S.JOINING:
            self._wait_for_instance(now, error)
        elif code == GONE and self._is_in:  # deleted, or classic again: joining creates it, or converts it
            self._react(now, Reaction.STRANGER, error)
        else:
            super()._turned_away(now, node, code, error)

    def _put_out(self, now: float, verdict: Reaction, error: KafkaError) -> None:
        if self.state is not S.JOINING:
            self._react(now, verdict, error)
            return
        if verdict is Reaction.STRANGER:
            self._known = False
        else:  # some releases let no member that they know join again
            self._release_first = True
        self._rejoin(now)

    def _again(self, now: float, node: int, verdict: Reaction, error: KafkaError) -> None:
        if verdict is Reaction.REFIND:
            self._unreleased_since = None  # at another coordinator all sessions begin again
        super()._again(now, node, verdict, error)

    def _wait_for_instance(self, now: float, error: KafkaError) -> None:
        """Another member has the instance id, or an earlier join of this one whose response was lost."""
        if self._unreleased_since is None:
            self._unreleased_since = now
            log.warning("%s: %s; trying again until its session is over", self._config.log_name, error)
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

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """The response to a commit contained an error that concerns the member. Returns whether to send it again in the next epoch."""
        if identity is not self.identity or verdict is Reaction.DENIED:
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

    # ---------------------------------------------------------------- leaving

    @property
    def _last_epoch(self) -> int:
        """With which the member leaves. A static member is expected back: its partitions wait for it."""
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
