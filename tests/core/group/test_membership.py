"""Membership: what the application wants and holds, with a clock and a coordinator made by hand."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from consumer_talk import Talk, tp
from membership_talk import events, keep_alive, release, state

from pykafka4.core.group.assignors import subscription_bytes
from pykafka4.core.group.classic import MemberState
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Ending
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_group import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
)


def test_nothing_is_asked_before_the_application_polls(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    assert talk.run() == []
    assert talk.reader.loop_wanted
    talk.poll()
    assert [type(r.message) for r in talk.run()] == [FindCoordinatorRequest]


def test_status_names_a_generation_only_while_the_member_is_in_it(talk: Talk) -> None:
    def shown() -> int:
        generation: int = talk.machine.status(talk.now)["generation"]
        return generation

    assert shown() == -1
    talk.stable(tp(0))
    assert shown() == 1
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), "UNKNOWN_MEMBER_ID")
    assert shown() == -1
    release(talk)
    talk.join(generation=2)
    assert shown() == 2
    talk.machine.leave(talk.now, 5.0, lambda: None)
    talk.run(5.0)
    assert shown() == -1


def test_subscribing_again_is_a_new_chance_after_a_refusal(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(error="GROUP_AUTHORIZATION_FAILED")
    talk.machine.membership.subscribe(("t",))
    talk.run()
    assert talk.one(JoinGroupRequest)


def test_a_rebalance_takes_back_the_partitions_and_joins_when_the_application_has_let_go(talk: Talk) -> None:
    talk.stable(tp(0), tp(1))
    keep_alive(talk)
    talk.run(3.1)
    talk.beat(talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    assert state(talk) is MemberState.REVOKING
    (ended,) = events(talk)
    assert [claim.tp for claim in ended.claims] == [tp(0), tp(1)]
    assert ended.ending is Ending.REVOKED
    assert talk.machine.fetcher.positions == {}
    talk.run(3.1)
    talk.beat(talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")  # it lives on while it waits
    assert talk.pending(JoinGroupRequest) == []
    release(talk)
    assert talk.one(JoinGroupRequest).message.member_id == "m"


def test_a_revocation_that_is_not_answered_in_time_is_a_loss(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    talk.beat(talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    for _ in range(20):
        talk.run(3.1)
        for request in talk.pending(HeartbeatRequest):
            talk.beat(request, "REBALANCE_IN_PROGRESS")
    (ended,) = events(talk)
    assert ended.ending is Ending.LOST
    assert state(talk) is MemberState.UNJOINED
    assert talk.pending(JoinGroupRequest) == []  # the application has not heard of it yet
    release(talk)
    assert talk.one(JoinGroupRequest)


@pytest.mark.parametrize(("error", "member_id"), [("UNKNOWN_MEMBER_ID", ""), ("ILLEGAL_GENERATION", "m")])
def test_a_member_that_is_not_known_any_more_has_lost_its_partitions(talk: Talk, error: str, member_id: str) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    talk.run(3.1)
    talk.beat(talk.one(HeartbeatRequest), error)
    (ended,) = events(talk)
    assert ended.ending is Ending.LOST
    release(talk)
    assert talk.one(JoinGroupRequest).message.member_id == member_id


def test_an_application_that_stops_polling_leaves_exactly_when_due(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    talk.stable(tp(0))
    talk.poll()
    left_at = talk.now

    def live(until: float) -> None:
        while talk.now < until:
            talk.run(min(1.0, until - talk.now))
            for request in talk.pending(HeartbeatRequest):
                talk.beat(request)

    live(left_at + 59.9)
    assert state(talk) is MemberState.STABLE
    assert talk.wake_at <= left_at + 60
    with caplog.at_level(logging.WARNING):
        live(left_at + 60)
    assert state(talk) is MemberState.LEAVING
    assert "max_poll_interval_ms=60000" in caplog.text
    talk.left(talk.one(LeaveGroupRequest))
    assert talk.run(100) == []
    (ended,) = events(talk)
    assert ended.ending is Ending.LOST
    release(talk)
    assert talk.pending(JoinGroupRequest) == []  # it may be gone for good
    talk.poll()
    talk.run()
    assert talk.one(JoinGroupRequest).message.member_id == ""


def test_a_poll_under_way_never_counts_as_stopped(talk: Talk) -> None:
    talk.stable(tp(0))
    keep_alive(talk)
    for _ in range(100):
        talk.run(2)
        for request in talk.pending(HeartbeatRequest):
            talk.beat(request)
    assert state(talk) is MemberState.STABLE


def test_a_changed_subscription_is_a_rebalance(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.machine.membership.subscribe(("t", "u"))
    talk.run()
    assert state(talk) is MemberState.REVOKING
    release(talk)
    request = talk.one(JoinGroupRequest)
    assert request.message.protocols[0].metadata == subscription_bytes(["t", "u"])


def test_answers_to_an_abandoned_attempt_are_ignored(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    request = talk.one(JoinGroupRequest)
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    talk.join(member="late")
    assert state(talk) is MemberState.UNJOINED
    assert done == [True]
    assert request not in talk.sent


@pytest.mark.parametrize(("version", "single", "many"), [(5, "", ["m"]), (3, "", ["m"]), (2, "m", [])])
def test_leaving_names_the_member_in_the_form_the_broker_knows(talk: Talk, version: int, single: str, many: list[str]) -> None:
    talk.stable(tp(0))
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    message = talk.as_sent(LeaveGroupRequest, version)
    assert (message.member_id, [m.member_id for m in message.members]) == (single, many)
    talk.left(talk.one(LeaveGroupRequest))
    assert done == [True]


def test_leaving_waits_for_the_commits_before_it(talk: Talk) -> None:
    talk.stable(tp(0))
    outcomes: list[Any] = []
    talk.machine.commit({tp(0): OffsetAndMetadata(5)}, talk.now + 60, outcomes.append)
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    assert talk.pending(LeaveGroupRequest) == []
    assert talk.one(OffsetCommitRequest).message.generation_id_or_member_epoch == 1
    talk.commits()
    assert outcomes == [None]
    talk.left(talk.one(LeaveGroupRequest))
    assert done == [True]


def test_leaving_is_over_when_patience_is(talk: Talk) -> None:
    talk.stable(tp(0))
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run(4.9)
    assert done == []
    talk.run(0.2)
    assert done == [True]
    assert state(talk) is MemberState.UNJOINED


def test_who_does_not_wait_sends_commit_and_leave_all_the_same_in_this_order(talk: Talk) -> None:
    talk.stable(tp(0))
    outcomes: list[Any] = []
    talk.machine.commit({tp(0): OffsetAndMetadata(5)}, talk.now + 1, outcomes.append)
    done: list[bool] = []
    talk.machine.leave(talk.now, 0, lambda: done.append(True))
    assert done == [True]
    assert [type(r.message) for r in talk.run() if r.node // LANE == 1] == [OffsetCommitRequest, LeaveGroupRequest]
    assert talk.one(LeaveGroupRequest).deadline == talk.now + 30  # the connection gets its full time to answer
    talk.commits()
    assert outcomes == [None]


def test_the_answer_to_an_earlier_leave_ends_no_later_one(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.machine.leave(talk.now, 0, lambda: None)
    talk.run()
    earlier = talk.one(LeaveGroupRequest)
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.run()
    talk.join(member="m-2")
    talk.sync([tp(0)])
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    talk.left(earlier)
    assert done == []
    talk.left(talk.one(LeaveGroupRequest))
    assert done == [True]


def test_a_member_in_the_middle_of_joining_leaves_over_another_connection(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join(member="m-1", error="MEMBER_ID_REQUIRED")
    talk.machine.leave(talk.now, 5, lambda: None)
    talk.run()
    assert talk.one(LeaveGroupRequest).node // LANE != talk.one(JoinGroupRequest).node // LANE


def test_a_static_member_leaves_without_a_word() -> None:
    talk = Talk(group_id="g", group_instance_id="i")
    talk.cluster.set("t", [1])
    talk.stable(tp(0))
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    assert done == [True]
    assert talk.pending(LeaveGroupRequest) == []


def test_an_assignment_that_ended_before_it_was_seen_is_marked(talk: Talk) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    talk.join()
    talk.sync([tp(0)])
    talk.machine.leave(talk.now, 5, lambda: None)
    (assigned,) = events(talk)
    assert [claim.ended for claim in assigned.claims] == [True]
