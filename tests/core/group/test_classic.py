"""The classic protocol: joins, heartbeats and what coordinators answer, with a clock and a coordinator made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import LOST, Talk, code, tp
from membership_talk import events, held_join, keep_alive, other, release, state

from pykafka4.core import Failed
from pykafka4.core.group.assignors import assignment_bytes
from pykafka4.core.group.classic import COMMITS_FIRST, MOVES, ClassicProtocol, MemberState
from pykafka4.core.group.coordinator import CHECK
from pykafka4.core.group.leadership import ASK_AGAIN
from pykafka4.core.group.offsets import Commit
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Assigned, Ended, Ending
from pykafka4.error_table import Written
from pykafka4.errors import KafkaError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_group import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


@pytest.mark.parametrize("before", MemberState)
@pytest.mark.parametrize("after", MemberState)
def test_only_the_moves_of_the_table_are_possible(talk: Talk, before: MemberState, after: MemberState) -> None:
    protocol = talk.machine.membership.protocol
    assert isinstance(protocol, ClassicProtocol)
    protocol.state = before
    if after in MOVES.table[before]:
        protocol._move(after)
        assert state(talk) is after
    else:
        with pytest.raises(RuntimeError, match=f"{after.name} cannot follow {before.name}"):
            protocol._move(after)


def test_a_new_member_takes_the_id_it_is_given_and_joins_at_once(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    assert talk.one(JoinGroupRequest).message.member_id == ""
    talk.join(member="m-1", error="MEMBER_ID_REQUIRED")
    assert talk.one(JoinGroupRequest).message.member_id == "m-1"


def test_nothing_waits_behind_a_join_or_sync(talk: Talk) -> None:
    """A coordinator reads nothing more from a connection whose JoinGroup or SyncGroup it holds back."""
    lanes: dict[type, set[int]] = {}

    def note() -> None:
        for request in talk.sent:
            if request.node >= 0:
                lanes.setdefault(type(request.message), set()).add(request.node // LANE)

    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator(2)
    assert talk.network.wanted == [2 + LANE]
    note()
    talk.machine.offsets.lookup([tp(0)], talk.now + 60, lambda now, found: None)
    talk.run()
    note()
    talk.committed()
    talk.join()
    note()
    talk.sync([tp(0)])
    note()
    talk.run(3)
    talk.machine.commit({tp(0): OffsetAndMetadata(1)}, talk.now + 60, lambda error: None)
    talk.run()
    note()
    talk.machine.leave(talk.now, 5, lambda: None)
    talk.commits()
    talk.run()
    note()
    held = lanes.pop(JoinGroupRequest) | lanes.pop(SyncGroupRequest)
    assert held == {3}
    assert lanes == {kind: {1} for kind in (OffsetFetchRequest, HeartbeatRequest, OffsetCommitRequest, LeaveGroupRequest)}


def test_a_commit_made_before_partitions_were_given_back_is_answered_before_the_join(talk: Talk) -> None:
    """The coordinator takes it until the next generation begins; the join may be what begins it."""
    talk.stable(tp(0))
    errors: list[Any] = []
    for offset in (1, 2):
        talk.machine.commit({tp(0): OffsetAndMetadata(offset)}, talk.now + 60, errors.append)
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    release(talk)
    assert talk.pending(JoinGroupRequest) == []
    assert talk.commits() == {tp(0): 1}
    assert talk.pending(JoinGroupRequest) == []
    assert talk.commits() == {tp(0): 2}
    assert errors == [None, None]
    assert talk.one(JoinGroupRequest)


def test_a_commit_that_is_not_answered_delays_the_join_by_seconds_only(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.machine.commit({tp(0): OffsetAndMetadata(1)}, talk.now + 60, lambda error: None)
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    release(talk)
    talk.run(COMMITS_FIRST - 0.1)
    assert talk.pending(JoinGroupRequest) == []
    assert talk.wake_at == pytest.approx(talk.now + 0.1)
    talk.run(0.1)
    assert talk.one(JoinGroupRequest)


def test_a_heartbeat_that_a_loading_coordinator_refuses_is_sent_again_soon(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), "COORDINATOR_LOAD_IN_PROGRESS")
    assert talk.pending(HeartbeatRequest) == []
    talk.run(0.5)
    assert talk.one(HeartbeatRequest)


def test_a_late_answer_to_a_heartbeat_of_the_last_generation_says_nothing_about_this_one(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.run(3)
    late = talk.one(HeartbeatRequest)
    talk.machine.commit({tp(0): OffsetAndMetadata(1)}, talk.now + 60, lambda error: None)
    talk.run()
    talk.commits({tp(0): "ILLEGAL_GENERATION"})
    release(talk)
    talk.run(1)
    talk.join(generation=2)
    talk.sync([tp(0)])
    assert state(talk) is MemberState.STABLE
    talk.beat(late, "UNKNOWN_MEMBER_ID")
    assert state(talk) is MemberState.STABLE


def test_a_commit_of_lost_partitions_or_of_no_member_does_not_delay_a_join(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.machine.commit({tp(0): OffsetAndMetadata(1)}, talk.now + 60, lambda error: None)
    talk.machine.offsets.commit(Commit({tp(0, "u"): OffsetAndMetadata(1)}, None, talk.now + 60, lambda error: None))
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), "ILLEGAL_GENERATION")
    release(talk)
    assert talk.one(JoinGroupRequest)


def test_a_join_that_was_given_up_while_held_back_is_not_in_the_way_of_the_next(talk: Talk) -> None:
    """A static member does not leave, so the coordinator goes on holding its first JoinGroup back."""
    talk = Talk(group_id="g", group_instance_id="i", session_timeout_ms=10_000)
    held_join(talk)
    (first,) = talk.pending(JoinGroupRequest)
    talk.machine.leave(talk.now, 5, lambda: None)
    assert talk.network.dropped == [first.node // LANE]
    talk.machine.membership.subscribe(("t",))
    talk.run()
    second = next(request for request in talk.pending(JoinGroupRequest) if request is not first)
    assert second.node // LANE not in (first.node // LANE, 1, 2)
    first.on_reply(talk.now, LOST)
    assert state(talk) is MemberState.JOINING


def test_a_follower_asks_for_its_share_and_the_leader_deals_out_all(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="a", leader="b")
    assert talk.shares() == {}
    assert talk.one(SyncGroupRequest).deadline == talk.now + talk.config.request_timeout_ms / 1000
    talk.sync([tp(1)])
    assert state(talk) is MemberState.STABLE
    (assigned,) = events(talk)
    assert isinstance(assigned, Assigned)
    assert [c.tp for c in assigned.claims] == [tp(1)]


def test_the_leader_waits_for_the_topics_of_all_members(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="a", leader="a", members=[other("a", "t"), other("b", "t", "u")])
    assert "u" in talk.cluster.wanted
    assert talk.pending(SyncGroupRequest) == []
    talk.cluster.set("u", [1])
    talk.run()
    assert talk.shares() == {"a": [tp(0), tp(1)], "b": [tp(2), tp(0, "u")]}


def test_the_leader_deals_without_a_topic_that_does_not_exist_or_stays_silent(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="a", leader="a", members=[other("a", "t", "gone", "silent")])
    talk.cluster.set("gone", error="UNKNOWN_TOPIC_OR_PARTITION")
    keep_alive(talk)
    talk.run()
    assert talk.pending(SyncGroupRequest) == []
    talk.run(5)
    assert talk.shares() == {"a": [tp(0), tp(1), tp(2)]}


def test_a_static_leader_that_came_back_leaves_the_assignment_as_it_is(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    assert talk.shares() == {}


def test_a_static_leader_that_came_back_asks_what_was_dealt_out_and_rejoins_if_partitions_are_missing(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    keep_alive(talk)
    talk.find_coordinator()
    talk.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    talk.sync([tp(0)])
    assert state(talk) is MemberState.STABLE
    request = talk.one(DescribeGroupsRequest)
    assert (request.node, request.message.groups) == (talk.one(OffsetFetchRequest).node, ["g"])
    talk.answer(request, LOST)
    talk.run(ASK_AGAIN)
    member = DescribeGroupsResponse.Group.Member(member_id="a", member_assignment=assignment_bytes([tp(0)]))
    group = DescribeGroupsResponse.Group(error_code=0, group_id="g", group_state="Stable", members=[member])
    talk.answer(talk.one(DescribeGroupsRequest), DescribeGroupsResponse(groups=[group]))
    assert state(talk) is MemberState.REVOKING
    assert talk.pending(DescribeGroupsRequest) == []


def test_the_loop_wakes_to_ask_again_what_was_dealt_out_though_no_heartbeat_is_due() -> None:
    talk = Talk(group_id="g", session_timeout_ms=60_000, heartbeat_interval_ms=20_000, max_poll_interval_ms=60_000)
    talk.cluster.set("t", [1, 2, 1])
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    keep_alive(talk)
    talk.find_coordinator()
    talk.join(member="a", leader="a", members=[other("a", "t")], skip_assignment=True)
    talk.sync([tp(0)])
    talk.committed()
    talk.answer(talk.one(DescribeGroupsRequest), LOST)
    assert talk.now < talk.wake_at <= talk.now + ASK_AGAIN


def test_a_join_does_not_wait_for_a_coordinator_that_is_none_any_more(talk: Talk) -> None:
    """Frozen or cut off it holds the JoinGroup for ever, while the group goes on elsewhere."""
    held_join(talk)
    talk.run(CHECK - 0.1)
    assert talk.pending(FindCoordinatorRequest) == []
    assert talk.wake_at == pytest.approx(talk.now + 0.1)
    talk.run(0.1)
    assert talk.network.avoided == [1]
    talk.find_coordinator(2)
    talk.run(1)
    old, new = talk.pending(JoinGroupRequest)
    assert (old.node % LANE, new.node % LANE) == (1, 2)
    talk.sent.remove(old)
    old.on_reply(talk.now, LOST)
    assert state(talk) is MemberState.JOINING
    talk.join(member="a")
    talk.sync([tp(0)])
    assert state(talk) is MemberState.STABLE


def test_a_join_waits_on_while_its_coordinator_still_is_one_as_far_as_anybody_says(talk: Talk) -> None:
    held_join(talk)
    (join,) = talk.sent
    talk.run(CHECK)
    talk.find_coordinator(1)
    talk.run(CHECK)
    talk.answer(talk.one(FindCoordinatorRequest), FindCoordinatorResponse(error_code=code("COORDINATOR_NOT_AVAILABLE"), node_id=-1))
    talk.run(CHECK)
    talk.answer(talk.one(FindCoordinatorRequest), LOST)
    talk.run(CHECK - 0.1)
    assert talk.sent == [join]


def test_a_join_waits_while_who_coordinates_now_is_being_looked_for(talk: Talk) -> None:
    held_join(talk)
    (join,) = talk.sent
    talk.run(CHECK)
    talk.answer(talk.one(FindCoordinatorRequest), FindCoordinatorResponse(error_code=0, node_id=9))
    assert talk.cluster.refreshes == 1
    assert talk.pending(JoinGroupRequest) == [join]
    assert talk.wake_at > talk.now
    talk.cluster.brokers[9] = None
    talk.run(1)
    talk.find_coordinator(9)
    talk.run(1)
    assert [request.node % LANE for request in talk.pending(JoinGroupRequest)] == [1, 9]


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_a_join_refused_for_the_wrong_coordinator_looks_for_the_right_one(talk: Talk, error: str) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator(1)
    talk.join(error=error)
    assert state(talk) is MemberState.UNJOINED
    talk.run(1)
    talk.find_coordinator(2)
    assert talk.one(JoinGroupRequest).node % LANE == 2


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR"])
def test_a_join_refused_for_now_is_repeated_after_a_pause(talk: Talk, error: str) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(error=error)
    assert talk.pending(JoinGroupRequest) == []
    talk.run(1)
    assert talk.one(JoinGroupRequest)


def test_a_join_without_answer_is_repeated_with_the_same_member_id(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="m-1", error="MEMBER_ID_REQUIRED")
    talk.answer(talk.one(JoinGroupRequest), LOST)
    talk.run(1)
    talk.find_coordinator()
    talk.run(1)
    assert talk.one(JoinGroupRequest).message.member_id == "m-1"


def test_a_sync_refused_as_unknown_joins_as_a_new_member(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="m-1")
    talk.sync(error="UNKNOWN_MEMBER_ID")
    talk.run(1)
    assert talk.one(JoinGroupRequest).message.member_id == ""


def test_an_assignment_that_cannot_be_read_is_asked_for_again(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join()
    talk.answer(talk.one(SyncGroupRequest), type(talk.one(SyncGroupRequest).message).response(error_code=0, assignment=b"\x00"))
    talk.run(1)
    assert talk.one(JoinGroupRequest)


@pytest.mark.parametrize("error", ["GROUP_AUTHORIZATION_FAILED", "INVALID_SESSION_TIMEOUT", "INCONSISTENT_GROUP_PROTOCOL"])
def test_a_refusal_for_good_is_raised_and_nothing_more_is_asked(talk: Talk, error: str) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(error=error)
    assert state(talk) is MemberState.FATAL
    talk.reader.drain()
    assert error in str(talk.reader.fatal)
    assert talk.run(100) == []


def test_a_broker_too_old_is_a_refusal_for_good(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.answer(talk.one(JoinGroupRequest), Failed(UnsupportedVersion("JoinGroup: too old"), Written.NO))
    assert state(talk) is MemberState.FATAL


def test_heartbeats_keep_their_interval_and_only_one_is_under_way(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(2.9)
    assert talk.pending(HeartbeatRequest) == []
    talk.run(0.2)
    first = talk.one(HeartbeatRequest)
    talk.run(3)
    assert talk.one(HeartbeatRequest) is first
    talk.beat(first)
    assert talk.one(HeartbeatRequest).message.generation_id == 1


def test_a_coordinator_that_goes_is_looked_for_and_nothing_is_given_up(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    talk.answer(talk.one(HeartbeatRequest), LOST)
    talk.run(1)
    talk.find_coordinator(2)
    again = talk.one(HeartbeatRequest)
    assert again.node % LANE == 2
    talk.beat(again, "NOT_COORDINATOR")
    talk.run(1)
    talk.find_coordinator(1)
    talk.beat(talk.one(HeartbeatRequest))
    assert state(talk) is MemberState.STABLE
    assert events(talk) == []


def test_without_a_coordinator_for_the_session_the_partitions_are_lost(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    talk.answer(talk.one(HeartbeatRequest), LOST)
    talk.run(6.8)
    assert state(talk) is MemberState.STABLE
    talk.run(0.2)
    (ended,) = events(talk)
    assert ended.ending is Ending.LOST
    assert "session_timeout_ms" in ended.reason


@pytest.mark.parametrize("held", [1.0, 7.1, 11.0])
def test_the_session_begins_when_the_sync_is_answered(talk: Talk, held: float) -> None:
    """A slow leader holds the answer back: the coordinator counts from its answer, and the first heartbeat must not come too late."""
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join()
    talk.one(SyncGroupRequest)
    talk.run(held)
    keep_alive(talk)
    talk.sync([tp(0)])
    beats = 0
    for _ in range(40):
        talk.run(0.1)
        for request in talk.pending(HeartbeatRequest):
            beats += 1
            talk.beat(request)
    assert state(talk) is MemberState.STABLE
    assert beats == (1 if held < 3 else 2)


def test_the_session_counts_from_when_the_answered_heartbeat_was_sent(talk: Talk) -> None:
    """A late answer must not make the member believe in a session that the coordinator has ended."""
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    request = talk.one(HeartbeatRequest)
    talk.run(2.5)
    talk.beat(request)
    for request in talk.pending(HeartbeatRequest):
        talk.answer(request, LOST)
    talk.run(7.4)
    assert state(talk) is MemberState.STABLE
    talk.run(0.2)
    assert state(talk) is MemberState.UNJOINED


def test_a_heartbeat_fails_early_enough_to_find_another_coordinator(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    assert talk.one(HeartbeatRequest).deadline - talk.now <= 10 / 2


def test_the_leader_calls_a_rebalance_when_partitions_appear_and_others_do_not(talk: Talk) -> None:
    for leader in ("m", "other"):
        talk = Talk(group_id="g")
        talk.cluster.set("t", [1, 2])
        talk.machine.membership.subscribe(("t",))
        talk.poll()
        talk.find_coordinator()
        talk.join(member="m", leader=leader, members=[other("m", "t")])
        talk.sync([tp(0), tp(1)])
        talk.cluster.set("t", [1, 2, 1])
        talk.run()
        assert state(talk) is (MemberState.REVOKING if leader == "m" else MemberState.STABLE)


def test_a_fenced_static_member_is_finished(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    talk.beat(talk.one(HeartbeatRequest), "FENCED_INSTANCE_ID")
    assert state(talk) is MemberState.FATAL
    found = events(talk)
    assert isinstance(found[0], Ended)
    assert "FENCED_INSTANCE_ID" in str(talk.reader.fatal)


def test_a_heartbeat_with_an_unknown_code_is_raised(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    request = talk.one(HeartbeatRequest)
    talk.answer(request, type(request.message).response(error_code=32_000))
    talk.reader.drain()
    assert "UNKNOWN(32000)" in str(talk.reader.fatal)


def test_a_join_goes_to_the_new_coordinator_though_nobody_else_asks_for_one(talk: Talk) -> None:
    """The last commit has lost the coordinator, which is frozen and holds the join."""
    held_join(talk)
    talk.run(1)
    talk.machine.coordinator.lost(talk.now, 1, KafkaError("frozen"))
    talk.run(1)
    talk.find_coordinator(2)
    talk.run(1)
    assert [request.node % LANE for request in talk.pending(JoinGroupRequest)] == [1, 2]
