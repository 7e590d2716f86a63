"""Cooperative rebalancing: what a member keeps, releases and commits while its group rebalances, with scripted answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.membership.coordinated import COMMITS_FIRST_S
from pykafka4.core.subscription import Assigned, Ended, Ending
from pykafka4.errors import GroupError, KafkaError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_group import (
    ConsumerProtocolSubscription,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from pykafka4.wire.protocol.schema import decode_data
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, tp
from tests.core.member_harness import ending, events, keep_alive, release, state


class Kept:
    """A cooperative assignor; these tests answer for the leader."""

    name = "kept"
    cooperative = True

    def assign(self, members: Collection[Any], topics: Mapping[str, Any]) -> dict[str, list[TopicPartition]]:
        raise AssertionError("this member does not lead")


class Member(ConsumerHarness):
    """A member in generation 1, with partitions 0 and 1 of `t`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            group_id="g",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=60_000,
            **{"partition_assignment_strategy": [Kept()], **options},
        )
        self.cluster.set("t", [1, 2, 1])
        self.stable(tp(0), tp(1))
        self.committed({tp(0): 0, tp(1): 0})
        keep_alive(self)

    def hear(self, error: str = "REBALANCE_IN_PROGRESS") -> None:
        """The next heartbeat is answered with `error`."""
        if not self.pending(HeartbeatRequest):
            self.run(3)
        self.beat(self.one(HeartbeatRequest), error)

    def next_generation(self, *tps: TopicPartition, generation: int = 2) -> None:
        """The join and the sync are answered."""
        self.join(generation=generation)
        self.sync(tps)

    def owned(self) -> tuple[dict[str, list[int]], int]:
        """The partitions that the JoinGroup names, and their generation."""
        (protocol,) = self.one(JoinGroupRequest).message.protocols
        subscription = decode_data(ConsumerProtocolSubscription, protocol.metadata)
        return {t.topic: t.partitions for t in subscription.owned_partitions}, subscription.generation_id

    def commit(self, *partitions: int) -> list[Any]:
        """Commit offset 1 of each; where the outcome comes."""
        outcomes: list[Any] = []
        self.machine.commit({tp(partition): OffsetAndMetadata(1) for partition in partitions}, self.now + 60, outcomes.append)
        self.run()
        return outcomes

    def generation_sent(self) -> int:
        """With which the commit in flight was sent."""
        generation: int = self.one(OffsetCommitRequest).message.generation_id_or_member_epoch
        return generation

    @property
    def held(self) -> list[TopicPartition]:
        return list(self.machine.membership.held)


@pytest.fixture
def member() -> Member:
    return Member()


def lost(found: list[Any]) -> list[TopicPartition]:
    return [claim.tp for ended in found if isinstance(ended, Ended) and ended.ending is Ending.LOST for claim in ended.claims]


def test_a_member_joins_at_once_and_keeps_what_it_has(member: Member) -> None:
    member.hear()
    assert member.owned() == ({"t": [0, 1]}, 1)
    assert events(member) == []
    member.fetched(member.fetch_at(2), {tp(1): batch(0, 2)})
    assert [(r.partition, r.offset) for r in member.poll()] == [(1, 0), (1, 1)]
    member.next_generation(tp(0), tp(1))
    assert state(member) is MemberState.STABLE
    (assigned,) = events(member)
    assert isinstance(assigned, Assigned)
    assert assigned.claims == ()
    assert member.held == [tp(0), tp(1)]


def test_it_releases_only_what_it_was_not_assigned_and_joins_again_after_that(member: Member) -> None:
    kept = member.machine.fetcher.positions[tp(1)]
    member.hear()
    member.next_generation(tp(1), tp(2))
    assert state(member) is MemberState.REVOKING
    ended, assigned = events(member)
    assert ([claim.tp for claim in ended.claims], ended.ending) == ([tp(0)], Ending.REVOKED)
    assert [claim.tp for claim in assigned.claims] == [tp(2)]
    assert member.machine.fetcher.positions[tp(1)] is kept
    assert member.pending(JoinGroupRequest) == []
    release(member)
    assert member.owned() == ({"t": [1, 2]}, 2)
    assert member.one(JoinGroupRequest).message.reason == "need to revoke partitions and re-join"
    member.next_generation(tp(1), tp(2), generation=3)
    assert state(member) is MemberState.STABLE


def test_a_member_that_shares_an_eager_assignor_with_others_releases_everything() -> None:
    member = Member(partition_assignment_strategy=["range", Kept()])
    member.hear()
    assert state(member) is MemberState.REVOKING
    (ended,) = events(member)
    assert [claim.tp for claim in ended.claims] == [tp(0), tp(1)]


def test_heartbeats_go_on_in_the_last_generation_until_the_next_begins(member: Member) -> None:
    member.hear()
    member.run(3)
    assert member.one(HeartbeatRequest).message.generation_id == 1
    member.hear()
    assert state(member) is MemberState.JOINING
    member.run(3)
    member.hear("ILLEGAL_GENERATION")  # the response to the join is on its way
    assert state(member) is MemberState.JOINING
    member.join(generation=2)
    member.run(3)
    assert member.one(HeartbeatRequest).message.generation_id == 2
    assert events(member) == []


def test_a_late_answer_to_a_heartbeat_of_the_last_generation_says_nothing(member: Member) -> None:
    member.hear()
    member.run(3)
    late = member.one(HeartbeatRequest)
    member.next_generation(tp(0), tp(1))
    member.beat(late, "ILLEGAL_GENERATION")
    assert state(member) is MemberState.STABLE
    member.hear("")


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])
def test_a_heartbeat_during_the_join_says_that_the_member_is_out(member: Member, error: str) -> None:
    member.hear()
    (join,) = member.pending(JoinGroupRequest)
    member.run(3)
    member.hear(error)
    assert lost(events(member)) == [tp(0), tp(1)]
    assert len(member.network.dropped) == 1, "the JoinGroup is held back there"
    member.sent.remove(join)
    release(member)
    if error == "UNKNOWN_MEMBER_ID":
        assert member.one(JoinGroupRequest).message.member_id == ""
        assert member.owned() == ({}, -1)
    else:
        assert state(member) is MemberState.FATAL


def test_partitions_are_lost_when_the_session_ends_during_the_join(member: Member) -> None:
    member.hear()
    member.run(3)
    member.answer(member.one(HeartbeatRequest), LOST)
    member.run(6.9)
    assert state(member) is MemberState.JOINING
    member.run(0.2)
    assert lost(events(member)) == [tp(0), tp(1)]


def test_a_member_that_stops_polling_leaves_during_the_join(member: Member) -> None:
    member.hear()
    member.reader.leave()
    for _ in range(8):
        member.run(9)
        for request in member.pending(HeartbeatRequest):
            member.beat(request, "REBALANCE_IN_PROGRESS")
    assert lost(events(member)) == [tp(0), tp(1)]
    assert member.as_sent(LeaveGroupRequest, 5).members[0].reason == "consumer poll timeout has expired."


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID to join", "UNKNOWN_MEMBER_ID to sync", "ILLEGAL_GENERATION to sync"])
def test_a_member_that_is_out_loses_what_it_kept(member: Member, error: str) -> None:
    member.hear()
    error, request = error.split(" to ")
    if request == "join":
        member.join(error=error)
    else:
        member.join(generation=2)
        member.sync(error=error)
    assert lost(events(member)) == [tp(0), tp(1)]
    member.run(1)
    assert member.pending(JoinGroupRequest) == []
    release(member)
    assert member.owned() == ({}, -1)


@pytest.mark.parametrize("synced", [False, True])
def test_a_rebalance_that_fails_is_repeated_with_the_partitions_of_the_last_assignment(member: Member, synced: bool) -> None:
    member.hear()
    if synced:
        member.join(generation=2)
        member.sync(error="REBALANCE_IN_PROGRESS")
    else:
        member.answer(member.one(JoinGroupRequest), LOST)
        member.run(1)
        member.find_coordinator()
    assert state(member) is MemberState.JOINING, "at once, as the others wait for it"
    member.run(1)
    assert member.owned() == ({"t": [0, 1]}, 1)
    reason = "rebalance failed due to RebalanceInProgressException" if synced else "rebalance failed due to DisconnectException"
    assert member.one(JoinGroupRequest).message.reason == reason
    assert events(member) == []


def test_a_stale_generation_after_a_join_without_answer_is_no_loss(member: Member) -> None:
    """The coordinator got the JoinGroup, and completed the generation; the member learns of it from the next response."""
    member.hear()
    member.run(3)
    (beat,) = member.pending(HeartbeatRequest)
    member.answer(member.one(JoinGroupRequest), LOST)
    member.beat(beat, "ILLEGAL_GENERATION")
    assert events(member) == []
    member.run(1)
    member.find_coordinator()
    member.run(1)
    member.next_generation(tp(0))
    assert [claim.tp for claim in events(member)[0].claims] == [tp(1)]


def test_a_stale_generation_without_a_join_is_a_loss(member: Member) -> None:
    member.hear("ILLEGAL_GENERATION")
    assert lost(events(member)) == [tp(0), tp(1)]


def test_a_static_member_that_a_generation_did_not_wait_for_has_lost_its_partitions() -> None:
    """The coordinator kept it in the group, with the subscription of its last JoinGroup, in which it owned nothing."""
    for static in (True, False):
        member = Member(**({"group_instance_id": "i"} if static else {}))
        member.hear()
        member.join(generation=3)
        assert lost(events(member)) == ([tp(0), tp(1)] if static else [])
        assert bool(member.pending(SyncGroupRequest)) is not static
        if static:
            release(member)
            assert (member.owned(), member.one(JoinGroupRequest).message.member_id) == (({}, -1), "m")


@pytest.mark.parametrize(("before", "now", "keeps"), [("", "", True), ("other", "", False), ("", "other", False)])
def test_a_group_without_a_leader_takes_nothing_from_a_member_it_does_not_wait_for(before: str, now: str, keeps: bool) -> None:
    """The coordinator assigns in a group with members of the consumer protocol; its epochs skip numbers. A group that was just converted
    may have rebalanced without this member before that."""
    member = Member(group_instance_id="i")
    member.hear()
    member.join(generation=2, leader=before)
    member.sync([tp(0), tp(1)])
    events(member)
    member.hear()
    member.join(generation=5, leader=now)
    assert lost(events(member)) == ([] if keeps else [tp(0), tp(1)])
    assert bool(member.pending(SyncGroupRequest)) is keeps


def test_partitions_of_topics_no_longer_subscribed_are_released_before_the_join(member: Member) -> None:
    member.cluster.set("u", [1])
    member.hear()
    member.next_generation(tp(0), tp(1), tp(0, "u"))
    events(member)
    member.machine.membership.subscribe(("u",))
    member.run()
    assert state(member) is MemberState.REVOKING
    (ended,) = events(member)
    assert [claim.tp for claim in ended.claims] == [tp(0), tp(1)]
    assert member.pending(JoinGroupRequest) == []


def test_a_topic_that_is_added_takes_nothing_away_meanwhile(member: Member) -> None:
    member.cluster.set("u", [1])
    member.machine.membership.subscribe(("t", "u"))
    member.run()
    assert events(member) == []
    assert member.owned() == ({"t": [0, 1]}, 1)
    assert member.one(JoinGroupRequest).message.reason == "subscription has changed"


def test_a_member_that_does_not_release_in_time_loses_everything(member: Member) -> None:
    member.hear()
    member.next_generation(tp(1))
    for _ in range(31):
        member.run(2)
        for request in member.pending(HeartbeatRequest):
            member.beat(request)
    assert [ended.ending for ended in ending(member)] == [Ending.LOST, Ending.LOST]
    member.left(member.one(LeaveGroupRequest))
    assert state(member) is MemberState.UNJOINED


# ---- commits


def test_commits_go_on_during_the_join(member: Member) -> None:
    member.hear()
    outcomes = member.commit(0)
    assert member.generation_sent() == 1
    member.commits()
    assert outcomes == [None]


def test_a_commit_that_meets_the_next_generation_is_sent_again_in_it(member: Member) -> None:
    member.hear()
    outcomes = member.commit(0)
    member.commits({tp(0): "ILLEGAL_GENERATION"})
    assert outcomes == []
    assert state(member) is MemberState.JOINING
    member.next_generation(tp(0), tp(1))
    member.run(1)
    assert member.generation_sent() == 2
    member.commits()
    assert outcomes == [None]


def test_a_commit_of_the_last_generation_that_is_refused_after_the_next_has_begun_is_sent_again(member: Member) -> None:
    outcomes = member.commit(0)
    member.hear()
    member.next_generation(tp(0), tp(1))
    member.commits({tp(0): "ILLEGAL_GENERATION"})
    assert state(member) is MemberState.STABLE
    member.run(1)
    assert member.generation_sent() == 2
    member.commits()
    assert outcomes == [None]


def test_commits_wait_for_the_assignment_of_a_generation_that_has_begun(member: Member) -> None:
    member.hear()
    member.join(generation=2)
    outcomes = member.commit(0)
    assert member.pending(OffsetCommitRequest) == []
    member.sync([tp(0), tp(1)])
    assert member.generation_sent() == 2
    member.commits()
    assert outcomes == [None]


def test_a_commit_that_waits_for_an_assignment_times_out(member: Member) -> None:
    member.hear()
    member.join(generation=2)
    outcomes = member.commit(0)
    for _ in range(31):
        member.run(2)
        keep_alive(member)
        for request in member.pending(HeartbeatRequest):
            member.beat(request)
    assert "timed out, it was not sent" in str(outcomes[0])


def test_a_commit_of_a_consumer_that_closes_waits_seconds_for_an_assignment(member: Member) -> None:
    """The leader may be dead, and then the group waits for the end of its session."""
    member.hear()
    member.join(generation=2)
    first, second = member.commit(0), member.commit(1)
    member.machine.offsets.limit_rebalance(member.now + 3)
    member.run(2.9)
    assert first == second == []
    assert member.wake_at == pytest.approx(member.now + 0.1)
    member.run(0.1)
    assert "REBALANCE_IN_PROGRESS (the group's leader has not assigned partitions in time" in str(first[0])
    assert len(second) == 1


def test_a_commit_of_a_consumer_that_closes_waits_seconds_for_the_next_generation(member: Member) -> None:
    member.hear()
    outcomes = member.commit(0)
    member.machine.offsets.limit_rebalance(member.now + 3)
    member.commits({tp(0): "ILLEGAL_GENERATION"})
    member.run(1)
    assert outcomes == []
    member.run(2)
    member.commits({tp(0): "ILLEGAL_GENERATION"})
    assert "ILLEGAL_GENERATION" in str(outcomes[0])


def test_a_commit_of_a_consumer_that_closes_waits_longer_for_a_coordinator(member: Member) -> None:
    outcomes = member.commit(0)
    member.machine.offsets.limit_rebalance(member.now + 3)
    member.run(4)
    member.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    member.run(1)
    member.commits()
    assert outcomes == [None]


def test_a_commit_is_the_first_to_hear_of_a_rebalance(member: Member) -> None:
    outcomes = member.commit(0)
    member.commits({tp(0): "REBALANCE_IN_PROGRESS"})
    assert member.one(JoinGroupRequest).message.reason == "offset commit failed since group is already rebalancing"
    member.run(1)
    assert member.generation_sent() == 1
    member.commits()
    assert outcomes == [None]


def test_a_commit_refused_as_stale_without_a_rebalance_is_a_loss(member: Member) -> None:
    outcomes = member.commit(0)
    member.commits({tp(0): "ILLEGAL_GENERATION"})
    assert isinstance(outcomes[0], GroupError)
    assert lost(events(member)) == [tp(0), tp(1)]


def test_a_commit_of_what_was_released_is_not_sent_in_the_next_generation(member: Member) -> None:
    """There another member owns the partition, and may have committed more."""
    first, kept, gone = member.commit(1), member.commit(1), member.commit(0)
    member.hear()
    member.next_generation(tp(1))
    assert member.pending(JoinGroupRequest) == []
    release(member)
    assert member.pending(JoinGroupRequest) == [], "the commit is accepted until the next generation"
    member.run(COMMITS_FIRST_S)
    member.join(generation=3)
    member.sync([tp(1)])
    assert "revoked" in str(gone[0])
    member.commits({tp(1): "ILLEGAL_GENERATION"})
    member.run(1)
    assert (member.generation_sent(), member.commits()) == (3, {tp(1): 1})
    assert (member.generation_sent(), member.commits()) == (3, {tp(1): 1})
    assert (first, kept) == ([None], [None])
    assert member.pending(OffsetCommitRequest) == []


def test_commits_of_kept_partitions_do_not_delay_a_join(member: Member) -> None:
    member.commit(0)
    member.hear()
    assert member.one(JoinGroupRequest)


def test_commits_fail_when_the_partitions_are_lost_during_the_join(member: Member) -> None:
    first, second = member.commit(0), member.commit(1)
    member.hear()
    member.join(error="UNKNOWN_MEMBER_ID")
    assert isinstance(second[0], KafkaError)
    member.commits({tp(0): "UNKNOWN_MEMBER_ID"})
    assert isinstance(first[0], GroupError)
