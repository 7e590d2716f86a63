"""Commits and looks up the offsets of one consumer.

Invariant: at most one commit is in flight, so an older commit overwrites a newer one only if the older one got no response in time; a
commit without a response never counts as stored.

Such a commit may still be executed after a later one. So for LATE_S, confirmed offsets of its partitions stay out of `stored`: auto-commit
sends offsets that `stored` lacks, and so repeats the later commit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.coordinator import GroupCoordinator
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.metadata.cluster import MISSING
from pykafka4.core.network.call import Call, Next, Verdict, unanswered
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import MemberIdentity
from pykafka4.errors import ClosedError, GroupError, KafkaError, broker_error, listed, short_name
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.fields import NO_UUID

if TYPE_CHECKING:
    from pykafka4.wire.protocol.messages_group import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

__all__ = ["LATE_S", "MOST_WAITING", "UNKNOWN_S", "Commit", "Lookup", "Offsets", "names_of"]

LAST_NAME_VERSION: Final = 9  # OffsetCommit and OffsetFetch identify topics by id from v10 on
# OffsetFetch can name several groups, in other fields, from v8 on; every broker supports one of the versions 1 to 7.
LAST_ONE_GROUP_VERSION: Final = 7
# `require_stable` needs v7. Without it, a coordinator that has just taken over may return older offsets than its predecessor acknowledged,
# and a lookup would not wait for the offsets of open transactions.
STABLE_FROM: Final = 7
MOST_WAITING: Final = 1000  # queued commits: a limit for an application that keeps committing while the coordinator is unreachable
UNKNOWN_S: Final = 5.0  # seconds for which the coordinator might not know a new partition; after that the partition counts as deleted
ILLEGAL_GENERATION: Final = BY_NAME["ILLEGAL_GENERATION"].code
REBALANCE_IN_PROGRESS: Final = BY_NAME["REBALANCE_IN_PROGRESS"].code
UNKNOWN_ID: Final = BY_NAME["UNKNOWN_TOPIC_ID"].code
NO_GROUP: Final = BY_NAME["GROUP_ID_NOT_FOUND"].code  # a member gets this if the group removed it, and was deleted afterwards
LATE_S: Final = 30.0  # the client assumes that a request without a response is executed within this time, or never

OffsetsToCommit = Mapping[TopicPartition, OffsetAndMetadata]
Found = Mapping[TopicPartition, OffsetAndMetadata | None]
Verdicts = Mapping[TopicPartition, Reaction]
NEXT_BY_REACTION: Final = {
    Reaction.RETRY: Next.RETRY,
    Reaction.STALE: Next.RETRY,
    Reaction.REFIND: Next.ELSEWHERE,
}


def names_of(tps: Collection[TopicPartition]) -> str:
    return listed(sorted(tps), most=3)


@attrs.define(eq=False)
class Commit:
    """Offsets to be committed. `done(None)` means that the coordinator has stored all of them."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    identity: MemberIdentity | None  # the member that commits, with its generation at the time of sending; None: no member commits
    deadline: float
    done: Callable[[KafkaError | None], None]
    lost: str = ""  # the reason why the member lost some of the partitions
    only_new: bool = False  # an auto-commit: when sent, it omits stored offsets, and keeps the confirmed `metadata` of other offsets
    sent: bool = False
    ids: dict[str, UUID] = attrs.Factory(dict)  # topic ids when the commit was made: a later topic of the same name is another topic
    unknown_until: float | None = None  # a partition that the coordinator does not know by then counts as deleted
    rebalanced_by: float = INFINITY  # until then the commit waits for the next generation, or for the assignment of the current one

    @property
    def outcome(self) -> str:
        return "it may have been stored" if self.sent else "it was not sent"

    def finish(self, error: KafkaError | None) -> None:
        """Call `done`, and drop the reference to it: a request in flight keeps the commit until the response."""
        done, self.done = self.done, _finished
        done(error)


@attrs.define(eq=False)
class Lookup:
    tps: frozenset[TopicPartition]
    deadline: float
    done: Callable[[float, Found | KafkaError], None]
    wanted: Callable[[], bool]
    some: Callable[[float, Found], None] | None
    ids: dict[str, UUID] = attrs.Factory(dict)  # topic ids in the last request
    of_member: bool = False  # the last request had the member's epoch


class Committer(Protocol):
    @property
    def lookup_identity(self) -> MemberIdentity | None:
        """The identity with which lookups are sent; None: without one."""

    def exists(self, topic: str, topic_id: UUID | None) -> bool:
        """False if the metadata says that the topic does not exist, or has an id other than `topic_id`."""

    def on_commit_verdict(self, now: float, identity: MemberIdentity, generation: int, verdict: Reaction, error: KafkaError) -> bool:
        """See `GroupProtocol.on_commit_verdict`."""


class Offsets:
    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        random: Random,
        outbox: Outbox,
        consumer: Committer,
    ) -> None:
        self._config, self._coordinator, self._random = config, coordinator, random
        self._outbox, self._consumer = outbox, consumer
        self._no_member = MemberIdentity(config.group_id or "")
        self._queue: deque[Commit] = deque()
        self._sent: tuple[Commit, OffsetsToCommit, int]  # the commit sent last, with its offsets and generation at that time
        # Every request has the full timeout, even if its caller's deadline is earlier: a request that times out closes the connection,
        # which heartbeats and other commits use.
        self._timeout = config.request_timeout_ms / 1000
        backoff, refused = Backoff.retry(config, random), lambda now, error: self._finish(self._sent[0], error)
        self._call = Call(coordinator, backoff, self._timeout, self._commit_message, self._commit_answered, refused, LAST_NAME_VERSION)
        # A call refers to its lookup, but a lookup does not refer to its call: so a finished lookup is freed without a garbage collection.
        self._lookups: dict[Lookup, Call] = {}
        self._ended = False
        self.finished = Counter[str]()  # number of commits by outcome: "" for stored commits, otherwise the name of the error
        self.stored: dict[TopicPartition, int] = {}  # offsets that were looked up, or confirmed while no late commit could overwrite them
        self._confirmed: dict[TopicPartition, OffsetAndMetadata] = {}  # confirmed offsets, including those that a late commit may overwrite
        # Partitions of a commit without a response: until this time the coordinator may still execute that commit after a later one.
        self._late: dict[TopicPartition, float] = {}

    @property
    def busy(self) -> bool:
        return bool(self._queue)

    @property
    def under_generation(self) -> bool:
        return any(commit.identity is not None and not commit.lost for commit in self._queue)

    def incomplete(self) -> set[TopicPartition]:
        waiting = (commit.offsets for commit in self._queue if commit.identity is not None and not commit.lost)
        return set().union(*waiting)

    # ---------------------------------------------------------------- calls

    def commit(self, commit: Commit) -> None:
        """Queue `commit`, or end it at once if it is empty or cannot be queued. Its `done` is called exactly once."""
        if not commit.offsets:
            commit.done(None)
        elif self._ended:
            commit.done(_abandoned(commit))
        elif len(self._queue) >= MOST_WAITING:
            commit.done(
                KafkaError(
                    f"{MOST_WAITING} commits already wait for the coordinator of group {self._config.group_id}; this one was rejected"
                )
            )
        else:
            if commit.identity is not None:
                commit.ids = _ids_of(commit.offsets, commit.identity)
            self._queue.append(commit)
            for tp in commit.offsets:
                self.stored.pop(tp, None)  # until the response confirms the new offset

    def limit_rebalance(self, by: float) -> None:
        """Let no queued commit wait for a rebalance after `by`: a dead member can delay the rebalance, and the application waits."""
        for commit in self._queue:
            commit.rebalanced_by = min(commit.rebalanced_by, by)

    def forget(self, tp: TopicPartition) -> None:
        """Forget the offsets of `tp`: brokers drop the committed offsets of a deleted topic."""
        self.stored.pop(tp, None)
        self._confirmed.pop(tp, None)

    def fail_lost(self, losses: Mapping[TopicPartition, str]) -> None:
        """Let the next poll fail the member's commits with lost partitions, except a commit in flight. `losses` has the reasons."""
        for commit in self._queue:
            if commit.identity is not None and not commit.lost:
                commit.lost = next((losses[tp] for tp in commit.offsets if tp in losses), "")

    def lookup(
        self,
        tps: Collection[TopicPartition],
        deadline: float,
        done: Callable[[float, Found | KafkaError], None],
        wanted: Callable[[], bool] = lambda: True,
        some: Callable[[float, Found], None] | None = None,
    ) -> None:
        """Look up the committed offsets of `tps`; `done(now, found)` gets None for a partition without one, or an error instead of offsets.

        When `wanted()` is False, the next poll drops the lookup without calling `done`. With `some`, partitions with an error do not
        delay the others: `some(now, found)` gets the offsets without an error at once, `done` only the remaining ones.
        """
        lookup = Lookup(frozenset(tps), deadline, done, wanted, some)
        backoff, refused = Backoff.retry(self._config, self._random), partial(self._settle, lookup)
        message, answered = partial(self._lookup_message, lookup), partial(self._lookup_answered, lookup)
        if self._ended:
            done(0.0, _unanswered(lookup))
        else:
            self._lookups[lookup] = Call(
                self._coordinator, backoff, self._timeout, message, answered, refused, LAST_ONE_GROUP_VERSION, _fit_lookup
            )

    def poll(self, now: float) -> float:
        wake_at = self._poll_queue(now)
        if self._lookups:
            self._lookups = {lookup: call for lookup, call in self._lookups.items() if lookup.wanted()}
            wake_at = min([wake_at, *(self._poll_lookup(now, lookup, call) for lookup, call in list(self._lookups.items()))])
        return wake_at

    def fail(self, error: KafkaError) -> None:
        queue, self._queue = self._queue, deque()
        lookups, self._lookups = self._lookups, {}
        for commit in queue:
            commit.finish(error)
        for lookup in lookups:
            lookup.done(0.0, error)

    def end(self) -> None:
        self._ended = True
        queue, self._queue = self._queue, deque()
        lookups, self._lookups = self._lookups, {}
        for commit in queue:
            commit.finish(_abandoned(commit))
        for lookup in lookups:
            lookup.done(0.0, _unanswered(lookup))

    # ---------------------------------------------------------------- commits

    def _poll_queue(self, now: float) -> float:
        for commit in [c for c in self._queue if self._hopeless(c, now)]:
            self._finish(commit, self._why_not(commit, now))
        self._leave_stored_texts()
        if not self._queue:
            return INFINITY
        identity = self._queue[0].identity
        # From the response to JoinGroup to the assignment, the coordinator may reject the member's commits.
        waits = identity is not None and identity.begins and not self._is_in_flight(self._queue[0])
        wake_at = self._queue[0].rebalanced_by if waits else self._call.poll(now, self._outbox)
        return min(wake_at, *(commit.deadline for commit in self._queue))

    def _leave_stored_texts(self) -> None:
        """Prepare the next auto-commit: it has no `metadata` of its own, and keeps the `metadata` of the application's commits.

        Stored offsets are left out. An offset that a late commit may overwrite is sent again, with its confirmed `metadata`.
        """
        while self._queue and not self._call.in_flight and (commit := self._queue[0]).only_new:
            for tp, place in tuple(commit.offsets.items()):
                confirmed = self._confirmed.get(tp)
                if self.stored.get(tp) == place.offset:
                    del commit.offsets[tp]
                elif confirmed is not None and confirmed.offset == place.offset:
                    commit.offsets[tp] = confirmed
            if commit.offsets:
                commit.only_new = False  # prepared
                return
            self._finish(commit, None)

    def _hopeless(self, commit: Commit, now: float) -> bool:
        """Whether `commit` fails now: at its deadline, after a loss, or because a rebalance takes too long.

        A commit in flight fails only at its deadline: the coordinator may still accept it.
        """
        if self._is_in_flight(commit):
            return now >= commit.deadline
        begins = commit.identity is not None and commit.identity.begins
        return now >= commit.deadline or bool(commit.lost) or (begins and now >= commit.rebalanced_by)

    def _is_in_flight(self, commit: Commit) -> bool:
        """The request in flight may belong to an earlier commit, whose deadline has passed."""
        return self._call.in_flight and commit is self._sent[0]

    def _why_not(self, commit: Commit, now: float) -> KafkaError:
        what = f"commit of {names_of(commit.offsets)}"
        if now < commit.deadline and commit.lost:
            why = f"{commit.lost}; uncommitted records will be redelivered to the partitions' new owner"
            return GroupError(ILLEGAL_GENERATION, what, why)
        if now < commit.deadline:
            why = "the group's leader has not assigned partitions in time; uncommitted records will be redelivered"
            return GroupError(REBALANCE_IN_PROGRESS, what, why)
        return self._call.timed_out(f"{what}: timed out, {commit.outcome}")

    def _commit_message(self) -> OffsetCommitRequest:
        from pykafka4.wire.protocol.messages_group import OffsetCommitRequest

        commit = self._queue[0]
        identity = self._identity_of(commit)
        self._sent, commit.sent = (commit, dict(commit.offsets), identity.generation), True
        topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
        for tp, place in commit.offsets.items():
            topics.setdefault(tp.topic, []).append(
                OffsetCommitRequest.Topic.Partition(
                    partition_index=tp.partition,
                    committed_offset=place.offset,
                    committed_leader_epoch=place.leader_epoch,
                    committed_metadata=place.metadata,
                )
            )
        self._call.max_version = None if topics.keys() <= commit.ids.keys() else LAST_NAME_VERSION
        return OffsetCommitRequest(
            group_id=identity.group_id,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[
                OffsetCommitRequest.Topic(name=name, topic_id=commit.ids.get(name, NO_UUID), partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _identity_of(self, commit: Commit) -> MemberIdentity:
        return commit.identity or self._no_member

    def _commit_answered(self, now: float, outcome: Outcome) -> Verdict:
        commit, asked, _ = self._sent
        if isinstance(outcome, Failed):
            if outcome.passing:
                self._late.update(dict.fromkeys(asked, now + LATE_S))
            return unanswered(outcome)
        verdicts = self._read_verdicts(now, commit, outcome.message, asked)
        for tp, verdict in verdicts.items():
            if verdict is Reaction.NONE:
                self._confirmed[tp] = asked[tp]
                # The race: the commit of offset 5 gets no response, the commit of offset 9 is confirmed, then the coordinator executes the
                # first one. So while a commit may be late, offset 9 does not count as stored, and auto-commit sends it again.
                if self._late.get(tp, now) > now:
                    self.stored.pop(tp, None)
                else:
                    self._late.pop(tp, None)
                    self.stored[tp] = asked[tp].offset
                commit.offsets.pop(tp, None)
        return self._act(now, commit, outcome.message, verdicts)

    def _read_verdicts(self, now: float, commit: Commit, answer: OffsetCommitResponse, asked: OffsetsToCommit) -> Verdicts:
        verdicts = dict.fromkeys(asked, Reaction.RETRY)  # partitions that the response lacks are not stored
        for tp, error in _errors_of(answer, commit.ids):
            if tp in verdicts:
                verdicts[tp] = Reaction.STRANGER if error == NO_GROUP and commit.identity is not None else reaction(error)
                if error in MISSING and self._is_gone(now, commit, tp, commit.ids.get(tp.topic) if error == UNKNOWN_ID else None):
                    verdicts[tp] = Reaction.FATAL
        return verdicts

    def _is_gone(self, now: float, commit: Commit, tp: TopicPartition, topic_id: UUID | None) -> bool:
        """Whether `tp`, which the coordinator does not know, counts as deleted. Other commits wait, so `commit` is not repeated for long.

        `topic_id` is the topic's id if the coordinator does not know that id, otherwise None.
        """
        if commit.unknown_until is None:
            commit.unknown_until = now + UNKNOWN_S
        return now >= commit.unknown_until or not self._consumer.exists(tp.topic, topic_id)

    def _act(self, now: float, commit: Commit, answer: OffsetCommitResponse, verdicts: Verdicts) -> Verdict:
        worst = max(verdicts.values(), key=_SEVERITY.index, default=Reaction.NONE)
        if worst is Reaction.NONE:
            self._coordinator.well()
            self._call.reset()
            self._finish(commit, None)
            return None
        hint = (_HINTS if commit.identity is not None else _HINTS_OUTSIDE).get(worst)
        error = _commit_error(_errors_of(answer, commit.ids), verdicts, worst, hint, self._config.group_id or "")
        if worst in NEXT_BY_REACTION and worst is not Reaction.STALE:
            return NEXT_BY_REACTION[worst], error
        if self._consumer.on_commit_verdict(now, self._identity_of(commit), self._sent[2], worst, error) and now < commit.rebalanced_by:
            return Next.RETRY, error
        self._finish(commit, error)
        return None

    def _finish(self, commit: Commit, error: KafkaError | None) -> None:
        if commit in self._queue:
            if commit is self._queue[0]:
                self._call.start_over()
            self._queue.remove(commit)
            if commit.sent or error is not None:
                self.finished["" if error is None else short_name(error)] += 1
            commit.finish(error)

    # ---------------------------------------------------------------- lookups

    def _poll_lookup(self, now: float, lookup: Lookup, call: Call) -> float:
        if now < lookup.deadline:
            return min(call.poll(now, self._outbox), lookup.deadline)
        self._settle(lookup, now, call.timed_out(f"committed offsets of {names_of(lookup.tps)}: timed out"))
        return INFINITY

    def _lookup_message(self, lookup: Lookup) -> OffsetFetchRequest:
        """OffsetFetch with the fields of all layouts that the broker may need: `_fit_lookup` keeps one layout."""
        from pykafka4.wire.protocol.messages_group import OffsetFetchRequest

        topics: dict[str, list[int]] = {}
        for tp in sorted(lookup.tps):
            topics.setdefault(tp.topic, []).append(tp.partition)
        member, group, kind = self._consumer.lookup_identity, OffsetFetchRequest.Group, OffsetFetchRequest.Topic
        message = OffsetFetchRequest(
            group_id=self._config.group_id or "",
            topics=[kind(name=name, partition_indexes=numbers) for name, numbers in topics.items()],
        )
        call = self._lookups[lookup]
        lookup.of_member = member is not None
        if member is None:
            lookup.ids, call.max_version = {}, LAST_ONE_GROUP_VERSION
            return message
        lookup.ids = _ids_of(lookup.tps, member)
        call.max_version = None if topics.keys() <= lookup.ids.keys() else LAST_NAME_VERSION
        rows = [
            group.Topic(name=name, topic_id=lookup.ids.get(name, NO_UUID), partition_indexes=numbers) for name, numbers in topics.items()
        ]
        message.groups = [
            group(group_id=message.group_id, member_id=member.member_id, member_epoch=member.generation, topics=rows),
        ]
        return message

    def _lookup_answered(self, lookup: Lookup, now: float, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        answer = _read_lookup(outcome.message, lookup.ids)
        code, tp = answer.first_error()
        if code == 0:
            self._coordinator.well()
            self._settle(lookup, now, answer.found(lookup.tps))
            return None
        self._tell_found(now, lookup, answer)
        topic, group = "" if tp is None else tp.topic, self._config.group_id or ""
        error = broker_error(code, f"committed offset of {tp or names_of(lookup.tps)}", None, "OffsetFetch", topic=topic, group=group)
        if lookup.of_member and reaction(code) is Reaction.STRANGER:  # the next heartbeat also gets this error, and the member joins again
            return Next.RETRY, error
        return NEXT_BY_REACTION.get(reaction(code), Next.GIVE_UP), error

    def _tell_found(self, now: float, lookup: Lookup, answer: LookupAnswer) -> None:
        """With `some`, report the partitions without an error; `lookup` continues with the other partitions."""
        refused = frozenset(tp for tp, row in answer.rows if row.error_code)
        found = lookup.tps - refused
        if lookup.some is not None and not answer.error_code and found and found != lookup.tps:
            lookup.tps &= refused
            lookup.some(now, answer.found(found))

    def _settle(self, lookup: Lookup, now: float, answer: Found | KafkaError) -> None:
        if self._lookups.pop(lookup, None) is not None:
            lookup.done(now, answer)


def _finished(error: KafkaError | None) -> None:
    """Do nothing: the `done` of a commit whose outcome has been reported."""


def _abandoned(commit: Commit) -> ClosedError:
    return ClosedError(f"commit of {names_of(commit.offsets)}: the consumer was closed before the coordinator responded, {commit.outcome}")


def _unanswered(lookup: Lookup) -> ClosedError:
    return ClosedError(f"committed offsets of {names_of(lookup.tps)}: the consumer was closed before the coordinator responded")


# If the partitions of a response have different reactions, the last of them in this list decides for the whole commit.
_SEVERITY = [
    Reaction.NONE,
    Reaction.RETRY,
    Reaction.STALE,
    Reaction.REFIND,
    Reaction.NAMED,
    Reaction.DENIED,
    Reaction.REJOIN,
    Reaction.FATAL,
    Reaction.OUTDATED,
    Reaction.STRANGER,
]

_HINTS = {
    Reaction.STALE: "the member's epoch is outdated; poll rejoins the group if the member is out of it",
    Reaction.REJOIN: "the group is rebalancing; poll rejoins it, and uncommitted records are redelivered",
    Reaction.OUTDATED: "the group has rebalanced without this member; poll rejoins it, and uncommitted records are redelivered",
    Reaction.STRANGER: "the group removed this member (session_timeout_ms or max_poll_interval_ms exceeded); poll rejoins it",
}


_HINTS_OUTSIDE = dict.fromkeys(
    (Reaction.REJOIN, Reaction.OUTDATED, Reaction.STRANGER),
    "the group has active members; subscribe to join it, or use another group_id",
)


def _commit_error(
    errors: Iterable[tuple[TopicPartition, int]], verdicts: Verdicts, worst: Reaction, hint: str | None, group: str
) -> KafkaError:
    for tp, code in errors:
        if verdicts.get(tp) is worst and code:
            if worst is Reaction.STRANGER:  # GROUP_ID_NOT_FOUND as well, which `broker_error` would not make a GroupError
                return GroupError(code, f"commit of {tp}", hint)
            return broker_error(code, f"commit of {tp}", hint, "OffsetCommit", topic=tp.topic, group=group)
    return KafkaError("commit: the response to OffsetCommit lacks some of the committed partitions")


def _ids_of(tps: Iterable[TopicPartition], member: MemberIdentity) -> dict[str, UUID]:
    return {tp.topic: member.topic_ids[tp.topic] for tp in tps if tp.topic in member.topic_ids}


def _errors_of(answer: OffsetCommitResponse, ids: Mapping[str, UUID]) -> list[tuple[TopicPartition, int]]:
    """A response has topic names or topic ids; `ids` are the ids in the request."""
    names = {topic_id: name for name, topic_id in ids.items()}
    return [
        (TopicPartition(topic.name or names.get(topic.topic_id, ""), row.partition_index), row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    ]


def _fit_lookup(message: OffsetFetchRequest, version: int) -> None:
    """Keep only the layout of `version`; require stable offsets if `version` supports that."""
    message.require_stable = version >= STABLE_FROM
    if version > LAST_ONE_GROUP_VERSION:
        message.group_id, message.topics = "", []
    else:
        message.groups = []


@attrs.frozen
class LookupAnswer:
    error_code: int  # the error of the whole group
    rows: list[tuple[TopicPartition, Any]]

    def first_error(self) -> tuple[int, TopicPartition | None]:
        """(first error code, its partition). The partition is None for an error of the whole group; the code is 0 without an error."""
        if self.error_code:
            return self.error_code, None
        return next(((row.error_code, tp) for tp, row in self.rows if row.error_code), (0, None))

    def found(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None for a partition without a committed offset."""
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(tps)
        for tp, row in self.rows:
            if tp in found and row.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
        return found


def _read_lookup(answer: OffsetFetchResponse, ids: Mapping[str, UUID]) -> LookupAnswer:
    names = {topic_id: name for name, topic_id in ids.items()}
    if not answer.groups:
        return LookupAnswer(
            answer.error_code,
            [(TopicPartition(topic.name, row.partition_index), row) for topic in answer.topics for row in topic.partitions],
        )
    (group,) = answer.groups
    return LookupAnswer(
        group.error_code,
        [
            (TopicPartition(topic.name or names.get(topic.topic_id, ""), row.partition_index), row)
            for topic in group.topics
            for row in topic.partitions
        ],
    )
