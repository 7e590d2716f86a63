"""The classic protocol: joins, heartbeats and the coordinator's answers, with a fake clock and scripted answers."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import Failed
from pykafka4.core.group.committing.offsets import Commit
from pykafka4.core.group.coordinator import CHECK_S
from pykafka4.core.group.encoding import assignment_bytes
from pykafka4.core.group.leading.leadership import ASK_AGAIN_S
from pykafka4.core.group.membership.classic import ClassicProtocol, MemberState
from pykafka4.core.group.membership.coordinated import COMMITS_FIRST_S
from pykafka4.core.group.membership.heartbeats import SOON_S
from pykafka4.core.group.membership.states import CLASSIC_MOVES
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Assigned, Ended, Ending
from pykafka4.errors import AuthorizationError, KafkaError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, Written
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_group import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.core.consumer_harness import LOST, ConsumerHarness, code, tp
from tests.core.member_harness import ending, events, held_join, keep_alive, other, release, state, steady


@pytest.mark.parametrize("before", MemberState)
@pytest.mark.parametrize("after", MemberState)
def test_only_the_moves_of_the_table_are_possible(harness: ConsumerHarness, before: MemberState, after: MemberState) -> None:
    protocol = harness.machine.membership.protocol
    assert isinstance(protocol, ClassicProtocol)
    protocol.state = before
    if after in CLASSIC_MOVES.table[before]:
        protocol._move(after)
        assert state(harness) is after
    else:
        with pytest.raises(RuntimeError, match=f"{after.name} cannot follow {before.name}"):
            protocol._move(after)


def test_a_new_member_takes_the_id_it_is_given_and_joins_at_once(harness: ConsumerHarness) -> None:
    harness.subscribe()
    assert harness.one(JoinGroupRequest).message.member_id == ""
    harness.join(member="m-1", error="MEMBER_ID_REQUIRED")
    assert harness.one(JoinGroupRequest).message.member_id == "m-1"


def test_nothing_waits_behind_a_join_or_sync(harness: ConsumerHarness) -> None:
    """A coordinator reads nothing more from a connection whose JoinGroup or SyncGroup it holds back."""
    lanes: dict[type, set[int]] = {}

    def note() -> None:
        for request in harness.sent:
            if request.node >= 0:
                lanes.setdefault(type(request.message), set()).add(request.node // LANE)

    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator(2)
    assert harness.network.wanted == [2 + LANE]
    note()
    harness.machine.offsets.lookup([tp(0)], harness.now + 60, lambda now, found: None)
    harness.run()
    note()
    harness.committed()
    harness.join()
    note()
    harness.sync([tp(0)])
    note()
    harness.run(3)
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, lambda error: None)
    harness.run()
    note()
    harness.machine.leave(harness.now, 5, lambda: None)
    harness.commits()
    harness.run()
    note()
    held = lanes.pop(JoinGroupRequest) | lanes.pop(SyncGroupRequest)
    assert held == {3}
    assert lanes == {kind: {1} for kind in (OffsetFetchRequest, HeartbeatRequest, OffsetCommitRequest, LeaveGroupRequest)}


def test_a_commit_made_before_partitions_were_given_back_is_answered_before_the_join(harness: ConsumerHarness) -> None:
    """The coordinator takes it until the next generation begins; the join may be what begins it."""
    harness.stable(tp(0))
    errors: list[Any] = []
    for offset in (1, 2):
        harness.machine.commit({tp(0): OffsetAndMetadata(offset)}, harness.now + 60, errors.append)
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    release(harness)
    assert harness.pending(JoinGroupRequest) == []
    assert harness.commits() == {tp(0): 1}
    assert harness.pending(JoinGroupRequest) == []
    assert harness.commits() == {tp(0): 2}
    assert errors == [None, None]
    assert harness.one(JoinGroupRequest)


def test_a_commit_that_is_not_answered_delays_the_join_by_seconds_only(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, lambda error: None)
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    release(harness)
    harness.run(COMMITS_FIRST_S - 0.1)
    assert harness.pending(JoinGroupRequest) == []
    assert harness.wake_at == pytest.approx(harness.now + 0.1)
    harness.run(0.1)
    assert harness.one(JoinGroupRequest)


def test_a_join_waits_for_a_commit_though_it_took_long_to_find_the_coordinator_again(harness: ConsumerHarness) -> None:
    """The new coordinator has not seen the commit yet: the join would begin the generation that refuses it."""
    harness.stable(tp(0))
    errors: list[Any] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, errors.append)
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    release(harness)
    harness.commits({tp(0): "NOT_COORDINATOR"})
    harness.run(COMMITS_FIRST_S + 1)
    harness.find_coordinator(2)
    harness.run(1)
    assert harness.pending(JoinGroupRequest) == []
    assert harness.commits() == {tp(0): 1}
    assert errors == [None]
    assert harness.one(JoinGroupRequest)


def test_a_heartbeat_that_a_loading_coordinator_refuses_is_sent_again_soon(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "COORDINATOR_LOAD_IN_PROGRESS")
    assert harness.pending(HeartbeatRequest) == []
    harness.run(0.5)
    assert harness.one(HeartbeatRequest)


def test_a_late_answer_to_a_heartbeat_of_the_last_generation_says_nothing_about_this_one(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.run(3)
    late = harness.one(HeartbeatRequest)
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, lambda error: None)
    harness.run()
    harness.commits({tp(0): "ILLEGAL_GENERATION"})
    release(harness)
    harness.run(1)
    harness.join(generation=2)
    harness.sync([tp(0)])
    assert state(harness) is MemberState.STABLE
    harness.beat(late, "UNKNOWN_MEMBER_ID")
    assert state(harness) is MemberState.STABLE


def test_a_commit_of_no_member_that_is_refused_says_nothing_about_the_member(harness: ConsumerHarness) -> None:
    """The coordinator refuses offsets of partitions assigned by hand once the group has members."""
    harness.stable(tp(0))
    errors: list[Any] = []
    harness.machine.offsets.commit(Commit({tp(0, "u"): OffsetAndMetadata(1)}, None, harness.now + 60, errors.append))
    harness.run()
    harness.commits({tp(0, "u"): "UNKNOWN_MEMBER_ID"})
    assert "UNKNOWN_MEMBER_ID" in str(errors)
    assert state(harness) is MemberState.STABLE
    assert ending(harness) == []


def test_a_commit_of_lost_partitions_or_of_no_member_does_not_delay_a_join(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, lambda error: None)
    harness.machine.offsets.commit(Commit({tp(0, "u"): OffsetAndMetadata(1)}, None, harness.now + 60, lambda error: None))
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "ILLEGAL_GENERATION")
    release(harness)
    assert harness.one(JoinGroupRequest)


def test_a_join_that_was_given_up_while_held_back_is_not_in_the_way_of_the_next(harness: ConsumerHarness) -> None:
    """A static member does not leave, so the coordinator goes on holding its first JoinGroup back."""
    harness = ConsumerHarness(group_id="g", group_instance_id="i", session_timeout_ms=10_000)
    held_join(harness)
    (first,) = harness.pending(JoinGroupRequest)
    harness.machine.leave(harness.now, 5, lambda: None)
    assert harness.network.dropped == [first.node // LANE]
    harness.machine.membership.subscribe(("t",))
    harness.run()
    second = next(request for request in harness.pending(JoinGroupRequest) if request is not first)
    assert second.node // LANE not in (first.node // LANE, 1, 2)
    first.on_reply(harness.now, LOST)
    assert state(harness) is MemberState.JOINING


def test_followers_sync_without_assignments_and_the_leader_sends_all(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="a", leader="b")
    assert harness.shares() == {}
    assert harness.one(SyncGroupRequest).deadline == harness.now + harness.config.request_timeout_ms / 1000
    harness.sync([tp(1)])
    assert state(harness) is MemberState.STABLE
    (assigned,) = events(harness)
    assert isinstance(assigned, Assigned)
    assert [c.tp for c in assigned.claims] == [tp(1)]


def test_the_leader_waits_for_the_topics_of_all_members(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="a", leader="a", members=[other("a", "t"), other("b", "t", "u")])
    assert "u" in harness.cluster.wanted
    assert harness.pending(SyncGroupRequest) == []
    harness.cluster.set("u", [1])
    harness.run()
    assert harness.shares() == {"a": [tp(0), tp(1)], "b": [tp(2), tp(0, "u")]}


def test_the_leader_assigns_without_topics_that_do_not_exist_or_get_no_answer(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="a", leader="a", members=[other("a", "t", "gone", "silent")])
    harness.cluster.set("gone", error="UNKNOWN_TOPIC_OR_PARTITION")
    keep_alive(harness)
    harness.run()
    assert harness.pending(SyncGroupRequest) == []
    harness.run(5)
    assert harness.shares() == {"a": [tp(0), tp(1), tp(2)]}


def test_a_static_leader_that_came_back_leaves_the_assignment_as_it_is(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    assert harness.shares() == {}


def test_a_returning_static_leader_requests_the_assignment_and_rejoins_if_partitions_are_missing(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    keep_alive(harness)
    harness.find_coordinator()
    harness.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    harness.sync([tp(0)])
    assert state(harness) is MemberState.STABLE
    request = harness.one(DescribeGroupsRequest)
    assert (request.node, request.message.groups) == (harness.one(OffsetFetchRequest).node, ["g"])
    harness.answer(request, LOST)
    harness.run(ASK_AGAIN_S)
    member = DescribeGroupsResponse.Group.Member(member_id="a", member_assignment=assignment_bytes([tp(0)]))
    group = DescribeGroupsResponse.Group(error_code=0, group_id="g", group_state="Stable", members=[member])
    harness.answer(harness.one(DescribeGroupsRequest), DescribeGroupsResponse(groups=[group]))
    assert state(harness) is MemberState.REVOKING
    assert harness.pending(DescribeGroupsRequest) == []


def test_a_late_answer_about_the_assignment_before_the_member_was_lost_is_ignored(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator()
    harness.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    harness.sync([tp(0)])
    late = harness.one(DescribeGroupsRequest)
    harness.run(harness.config.session_timeout_ms / 1000)  # without a heartbeat response
    release(harness)
    harness.poll()
    harness.run(1.0)
    harness.join(member="a", leader="a", members=[other("a", "t")], generation=3)
    harness.sync([tp(0), tp(1), tp(2)])
    assert state(harness) is MemberState.STABLE
    member = DescribeGroupsResponse.Group.Member(member_id="a", member_assignment=assignment_bytes([tp(0)]))
    group = DescribeGroupsResponse.Group(error_code=0, group_id="g", group_state="Stable", members=[member])
    harness.answer(late, DescribeGroupsResponse(groups=[group]))
    assert state(harness) is MemberState.STABLE


def test_the_connection_of_joins_stays_after_an_answered_join(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator()
    harness.join(error="REBALANCE_IN_PROGRESS")
    harness.run(1.0)
    harness.join()
    harness.sync([tp(0)], error="REBALANCE_IN_PROGRESS")
    harness.run(1.0)
    assert harness.network.dropped == []
    harness.join()  # the member leaves while the coordinator holds the SyncGroup back
    harness.machine.leave(harness.now, 1.0, lambda: None)
    assert len(harness.network.dropped) == 1


def test_the_loop_wakes_to_request_the_assignment_again_though_no_heartbeat_is_due() -> None:
    harness = ConsumerHarness(group_id="g", session_timeout_ms=60_000, heartbeat_interval_ms=20_000, max_poll_interval_ms=60_000)
    harness.cluster.set("t", [1, 2, 1])
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    keep_alive(harness)
    harness.find_coordinator()
    harness.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    harness.sync([tp(0)])
    harness.committed()
    harness.answer(harness.one(DescribeGroupsRequest), LOST)
    assert harness.now < harness.wake_at <= harness.now + ASK_AGAIN_S


def test_a_join_does_not_wait_for_a_coordinator_that_is_none_any_more(harness: ConsumerHarness) -> None:
    """Frozen or cut off it holds the JoinGroup for ever, while the group goes on elsewhere."""
    held_join(harness)
    harness.run(CHECK_S - 0.1)
    assert harness.pending(FindCoordinatorRequest) == []
    assert harness.wake_at == pytest.approx(harness.now + 0.1)
    harness.run(0.1)
    assert harness.network.avoided == [1]
    harness.find_coordinator(2)
    harness.run(1)
    old, new = harness.pending(JoinGroupRequest)
    assert (old.node % LANE, new.node % LANE) == (1, 2)
    harness.sent.remove(old)
    old.on_reply(harness.now, LOST)
    assert state(harness) is MemberState.JOINING
    harness.join(member="a")
    harness.sync([tp(0)])
    assert state(harness) is MemberState.STABLE


def test_a_sync_does_not_wait_for_a_coordinator_that_is_none_any_more(harness: ConsumerHarness) -> None:
    held_join(harness)
    harness.run(CHECK_S - 1)
    harness.join()
    (old,) = harness.pending(SyncGroupRequest)
    harness.run(CHECK_S - 0.1)
    assert harness.pending(FindCoordinatorRequest) == []
    assert harness.wake_at == pytest.approx(harness.now + 0.1)
    harness.run(0.1)
    harness.find_coordinator(2)
    harness.run(1)
    harness.sent.remove(old)
    old.on_reply(harness.now, LOST)
    assert harness.one(JoinGroupRequest).node % LANE == 2
    harness.join(member="a", generation=2)
    harness.sync([tp(0)])
    assert state(harness) is MemberState.STABLE


@pytest.mark.parametrize(("max_poll", "patience"), [(300_000, 95.0), (60_000, 65.0), (10_000, 30.0)])
def test_followers_wait_as_long_as_a_leader_may_take_to_assign(max_poll: int, patience: float) -> None:
    """If they gave up before, they would join again, and the leader would have to assign again: without end."""
    harness = ConsumerHarness(group_id="g", session_timeout_ms=120_000, request_timeout_ms=30_000, max_poll_interval_ms=max_poll)
    harness.cluster.set("t", [1])
    held_join(harness)
    harness.join(leader="n")
    assert harness.one(SyncGroupRequest).deadline == harness.now + patience


def test_a_join_waits_on_while_its_coordinator_still_is_one_as_far_as_anybody_says(harness: ConsumerHarness) -> None:
    held_join(harness)
    (join,) = harness.sent
    harness.run(CHECK_S)
    harness.find_coordinator(1)
    harness.run(CHECK_S)
    harness.answer(harness.one(FindCoordinatorRequest), FindCoordinatorResponse(error_code=code("COORDINATOR_NOT_AVAILABLE"), node_id=-1))
    harness.run(CHECK_S)
    harness.answer(harness.one(FindCoordinatorRequest), LOST)
    harness.run(CHECK_S - 0.1)
    assert harness.sent == [join]


def test_a_join_waits_while_the_coordinator_is_being_looked_up(harness: ConsumerHarness) -> None:
    held_join(harness)
    (join,) = harness.sent
    harness.run(CHECK_S)
    harness.answer(harness.one(FindCoordinatorRequest), FindCoordinatorResponse(error_code=0, node_id=9))
    assert harness.cluster.refreshes == 1
    assert harness.pending(JoinGroupRequest) == [join]
    assert harness.wake_at > harness.now
    harness.cluster.brokers[9] = None
    harness.run(1)
    harness.find_coordinator(9)
    harness.run(1)
    assert [request.node % LANE for request in harness.pending(JoinGroupRequest)] == [1, 9]


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_a_join_refused_for_the_wrong_coordinator_looks_for_the_right_one(harness: ConsumerHarness, error: str) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator(1)
    harness.join(error=error)
    assert state(harness) is MemberState.UNJOINED
    harness.run(1)
    harness.find_coordinator(2)
    assert harness.one(JoinGroupRequest).node % LANE == 2


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR"])
def test_a_join_refused_for_now_is_repeated_after_a_pause(harness: ConsumerHarness, error: str) -> None:
    harness.subscribe()
    harness.join(error=error)
    assert harness.pending(JoinGroupRequest) == []
    harness.run(1)
    assert harness.one(JoinGroupRequest)


def test_a_join_without_answer_is_repeated_with_the_same_member_id(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="m-1", error="MEMBER_ID_REQUIRED")
    harness.answer(harness.one(JoinGroupRequest), LOST)
    harness.run(1)
    harness.find_coordinator()
    harness.run(1)
    assert harness.one(JoinGroupRequest).message.member_id == "m-1"


def test_a_sync_refused_as_unknown_joins_as_a_new_member(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="m-1")
    harness.sync(error="UNKNOWN_MEMBER_ID")
    harness.run(1)
    assert harness.one(JoinGroupRequest).message.member_id == ""


def test_an_assignment_that_cannot_be_read_is_asked_for_again(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join()
    harness.answer(harness.one(SyncGroupRequest), type(harness.one(SyncGroupRequest).message).response(error_code=0, assignment=b"\x00"))
    harness.run(1)
    assert harness.one(JoinGroupRequest)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("INVALID_SESSION_TIMEOUT", "session_timeout_ms=10000 is not between the brokers' group.min.session.timeout.ms and"),
        (
            "INCONSISTENT_GROUP_PROTOCOL",
            "no assignor of this consumer (partition_assignment_strategy: range, cooperative-sticky) is supported by all",
        ),
        ("GROUP_MAX_SIZE_REACHED", "the group has as many members as the brokers' group.max.size allows"),
        ("INVALID_GROUP_ID", "joining group g: INVALID_GROUP_ID"),
    ],
)
def test_a_refusal_for_good_is_raised_and_nothing_more_is_asked(harness: ConsumerHarness, error: str, says: str) -> None:
    harness.subscribe()
    harness.join(error=error)
    assert state(harness) is MemberState.FATAL
    harness.reader.drain()
    assert error in str(harness.reader.fatal)
    assert says in str(harness.reader.fatal)
    assert harness.run(100) == []


@pytest.mark.parametrize("synced", [False, True])
def test_a_denied_join_is_raised_and_repeated(harness: ConsumerHarness, synced: bool) -> None:
    harness.subscribe()
    for _ in range(3):
        harness.join(error="" if synced else "GROUP_AUTHORIZATION_FAILED")
        if synced:
            harness.sync(error="GROUP_AUTHORIZATION_FAILED")
        assert state(harness) is MemberState.UNJOINED
        assert harness.pending(JoinGroupRequest) == [], "not at once"
        denied(harness, "READ")
        harness.run(1.3)
    harness.join()
    harness.sync([tp(0)])
    assert state(harness) is MemberState.STABLE


def denied(harness: ConsumerHarness, operation: str) -> None:
    """`poll` raises it."""
    harness.reader.drain()
    with pytest.raises(AuthorizationError, match=f"needs {operation} on group 'g'"):
        harness.reader.notices.raise_next()


def test_a_denied_heartbeat_costs_the_partitions_only_when_the_session_is_over(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    began = harness.now
    harness.run(3.1)
    while harness.now < began + harness.config.session_timeout_ms / 1000 - 2:
        harness.beat(harness.one(HeartbeatRequest), "GROUP_AUTHORIZATION_FAILED")
        assert harness.pending(HeartbeatRequest) == [], "not at once"
        denied(harness, "READ")
        harness.run(1.3)
    assert state(harness) is MemberState.STABLE
    harness.beat(harness.one(HeartbeatRequest))
    assert events(harness) == []
    harness.run(3.1)
    for _ in range(20):
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request, "GROUP_AUTHORIZATION_FAILED")
        harness.run(1.3)
        keep_alive(harness)
    (ended,) = events(harness)
    assert ended.ending is Ending.LOST
    assert "GROUP_AUTHORIZATION_FAILED" in ended.reason


def test_a_broker_too_old_is_a_refusal_for_good(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.answer(harness.one(JoinGroupRequest), Failed(UnsupportedVersion("JoinGroup: too old"), Written.NO))
    assert state(harness) is MemberState.FATAL


def test_heartbeats_keep_their_interval_and_only_one_is_under_way(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    steady(harness)
    harness.run(2.9)
    assert harness.pending(HeartbeatRequest) == []
    harness.run(0.2)
    first = harness.one(HeartbeatRequest)
    harness.run(3)
    assert harness.one(HeartbeatRequest) is first
    harness.beat(first)
    assert harness.one(HeartbeatRequest).message.generation_id == 1


def test_a_coordinator_that_goes_is_looked_for_and_nothing_is_given_up(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    harness.answer(harness.one(HeartbeatRequest), LOST)
    harness.run(1)
    harness.find_coordinator(2)
    again = harness.one(HeartbeatRequest)
    assert again.node % LANE == 2
    harness.beat(again, "NOT_COORDINATOR")
    harness.run(1)
    harness.find_coordinator(1)
    harness.beat(harness.one(HeartbeatRequest))
    assert state(harness) is MemberState.STABLE
    assert events(harness) == []


def test_without_a_coordinator_for_the_session_the_partitions_are_lost(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    harness.answer(harness.one(HeartbeatRequest), LOST)
    harness.run(6.8)
    assert state(harness) is MemberState.STABLE
    harness.run(0.2)
    (ended,) = events(harness)
    assert ended.ending is Ending.LOST
    assert "session_timeout_ms" in ended.reason


def test_nothing_is_sent_for_partitions_whose_session_ended_during_a_freeze_of_the_loop(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.committed({tp(0): 3})
    harness.fetched(harness.fetch_at(1), {tp(0): b""})
    harness.sent.clear()
    harness.now += harness.config.session_timeout_ms / 1000  # no turn
    outcomes: list[Any] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(3)}, harness.now + 60, outcomes.append)
    harness.machine.fetcher.space(harness.now)
    assert harness.run() == []
    assert "session_timeout_ms" in str(outcomes[0])


@pytest.mark.parametrize("held", [1.0, 7.1, 11.0])
def test_the_session_begins_when_the_sync_is_answered(harness: ConsumerHarness, held: float) -> None:
    """A slow leader holds the answer back: the coordinator counts from its answer, and the first heartbeat must not come too late."""
    harness.subscribe()
    harness.join()
    harness.one(SyncGroupRequest)
    harness.run(held)
    keep_alive(harness)
    harness.sync([tp(0)])
    first, *_ = steady(harness)
    assert state(harness) is MemberState.STABLE
    assert first == pytest.approx(SOON_S if held < 3 else 0.0, abs=0.06)


def test_the_session_counts_from_when_the_answered_heartbeat_was_sent(harness: ConsumerHarness) -> None:
    """A late answer must not make the member believe in a session that the coordinator has ended."""
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    request = harness.one(HeartbeatRequest)
    harness.run(2.5)
    harness.beat(request)
    for request in harness.pending(HeartbeatRequest):
        harness.answer(request, LOST)
    harness.run(7.4)
    assert state(harness) is MemberState.STABLE
    harness.run(0.2)
    assert state(harness) is MemberState.UNJOINED


def test_a_heartbeat_fails_early_enough_to_find_another_coordinator(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    assert harness.one(HeartbeatRequest).deadline - harness.now <= 10 / 2


def test_the_leader_calls_a_rebalance_when_partitions_appear_and_others_do_not(harness: ConsumerHarness) -> None:
    for leader in ("m", "other"):
        harness = ConsumerHarness(group_id="g")
        harness.cluster.set("t", [1, 2])
        harness.subscribe()
        harness.join(member="m", leader=leader, members=[other("m", "t")])
        harness.sync([tp(0), tp(1)])
        harness.cluster.set("t", [1, 2, 1])
        harness.run()
        assert state(harness) is (MemberState.REVOKING if leader == "m" else MemberState.STABLE)


def test_a_fenced_static_member_is_finished(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), "FENCED_INSTANCE_ID")
    assert state(harness) is MemberState.FATAL
    found = events(harness)
    assert isinstance(found[0], Ended)
    assert "FENCED_INSTANCE_ID" in str(harness.reader.fatal)


def test_a_heartbeat_with_an_unknown_code_is_raised(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    request = harness.one(HeartbeatRequest)
    harness.answer(request, type(request.message).response(error_code=32_000))
    harness.reader.drain()
    assert "UNKNOWN(32000)" in str(harness.reader.fatal)


def test_a_join_alone_looks_up_the_new_coordinator(harness: ConsumerHarness) -> None:
    """The last commit has lost the coordinator, which is frozen and holds the join."""
    held_join(harness)
    harness.run(1)
    harness.machine.coordinator.lost(harness.now, 1, KafkaError("frozen"))
    harness.run(1)
    harness.find_coordinator(2)
    harness.run(1)
    assert [request.node % LANE for request in harness.pending(JoinGroupRequest)] == [1, 2]
