"""Membership: what the application subscribes to and holds, with a fake clock and scripted answers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka4.core.group.encoding import subscription_bytes
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.notes import NO_NOTE, note_bytes
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Ending
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
)
from tests.core.consumer_harness import ConsumerHarness, batch, tp
from tests.core.member_harness import ending, events, keep_alive, release, state


def test_nothing_is_asked_before_the_application_polls(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t",))
    assert harness.run() == []
    assert harness.reader.loop_wanted
    harness.poll()
    assert [type(r.message) for r in harness.run()] == [FindCoordinatorRequest]


def test_a_poll_that_begins_while_the_lease_is_looked_at_is_not_missed(harness: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began before the loop asked to be woken by the next poll, so it does not wake the loop."""
    reader = harness.reader
    monkeypatch.setattr(type(reader), "idle_since", lambda self: None if self.loop_wanted else float("-inf"))
    harness.machine.membership.subscribe(("t",))
    assert [type(r.message) for r in harness.run()] == [FindCoordinatorRequest]


def test_status_names_a_generation_only_while_the_member_is_in_it(harness: ConsumerHarness) -> None:
    def shown() -> int:
        generation: int = harness.machine.status(harness.now)["generation"]
        return generation

    assert shown() == -1
    harness.stable(tp(0))
    assert shown() == 1
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "UNKNOWN_MEMBER_ID")
    assert shown() == -1
    release(harness)
    harness.join(generation=2)
    assert shown() == 2
    harness.machine.leave(harness.now, 5.0, lambda: None)
    harness.run(5.0)
    assert shown() == -1


def test_subscribing_again_retries_after_a_refusal(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(error="GROUP_MAX_SIZE_REACHED")
    harness.machine.membership.subscribe(("t",))
    harness.run()
    assert harness.one(JoinGroupRequest)


def test_a_rebalance_takes_back_the_partitions_and_joins_when_the_application_has_let_go(harness: ConsumerHarness) -> None:
    harness.stable(tp(0), tp(1))
    keep_alive(harness)
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    assert state(harness) is MemberState.REVOKING
    (ended,) = events(harness)
    assert [claim.tp for claim in ended.claims] == [tp(0), tp(1)]
    assert ended.ending is Ending.REVOKED
    assert harness.machine.fetcher.positions == {}
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")  # it lives on while it waits
    assert harness.pending(JoinGroupRequest) == []
    release(harness)
    assert harness.one(JoinGroupRequest).message.member_id == "m"


def test_a_revocation_that_is_not_answered_in_time_is_a_loss(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    for _ in range(20):
        harness.run(3.1)
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request, "REBALANCE_IN_PROGRESS")
    (ended,) = events(harness)
    assert ended.ending is Ending.LOST
    harness.left(harness.one(LeaveGroupRequest))  # the others need not wait for the end of the session
    assert state(harness) is MemberState.UNJOINED
    assert harness.pending(JoinGroupRequest) == []  # the application does not know of it yet
    release(harness)
    assert harness.one(JoinGroupRequest)


@pytest.mark.parametrize(("error", "member_id"), [("UNKNOWN_MEMBER_ID", ""), ("ILLEGAL_GENERATION", "m")])
def test_a_member_that_is_not_known_any_more_has_lost_its_partitions(harness: ConsumerHarness, error: str, member_id: str) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), error)
    (ended,) = events(harness)
    assert ended.ending is Ending.LOST
    release(harness)
    assert harness.one(JoinGroupRequest).message.member_id == member_id


@pytest.mark.parametrize(("error", "leaves"), [("UNKNOWN_MEMBER_ID", False), ("ILLEGAL_GENERATION", True)])
def test_a_member_whose_application_does_not_release_what_is_lost_leaves_when_its_lease_is_over(
    harness: ConsumerHarness, error: str, leaves: bool
) -> None:
    """In a group that is converted the coordinator may have assigned partitions to it, and waits for the end of its session."""
    harness.stable(tp(0))
    harness.poll()
    harness.run(3.1)
    harness.beat(harness.one(HeartbeatRequest), error)
    ends = harness.machine.membership._lease_ends(harness.now)
    harness.run(ends - harness.now - 0.1)
    assert harness.pending(LeaveGroupRequest) == []
    harness.run(0.2)
    assert len(harness.pending(LeaveGroupRequest)) == leaves
    release(harness)
    if leaves:
        harness.left(harness.one(LeaveGroupRequest))
    harness.poll()
    harness.run()
    assert harness.one(JoinGroupRequest).message.member_id == ""


def test_a_member_that_was_rejected_while_it_released_nothing_stays_out() -> None:
    harness = ConsumerHarness(group_id="g", max_poll_interval_ms=60_000, session_timeout_ms=600_000)
    harness.cluster.set("t", [1])
    harness.stable()
    keep_alive(harness)
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    assert state(harness) is MemberState.REVOKING
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), "FENCED_INSTANCE_ID")
    assert state(harness) is MemberState.FATAL
    harness.run(61)
    assert state(harness) is MemberState.FATAL


def test_an_application_that_stops_polling_leaves_exactly_when_due(harness: ConsumerHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.stable(tp(0))
    harness.poll()
    left_at = harness.now

    def live(until: float) -> None:
        while harness.now < until:
            harness.run(min(1.0, until - harness.now))
            for request in harness.pending(HeartbeatRequest):
                harness.beat(request)

    live(left_at + 59.9)
    assert state(harness) is MemberState.STABLE
    assert harness.wake_at <= left_at + 60
    with caplog.at_level(logging.WARNING):
        live(left_at + 60)
    assert state(harness) is MemberState.LEAVING
    assert "max_poll_interval_ms=60000" in caplog.text
    harness.left(harness.one(LeaveGroupRequest))
    assert harness.run(100) == []
    (ended,) = events(harness)
    assert ended.ending is Ending.LOST
    release(harness)
    assert harness.pending(JoinGroupRequest) == []  # it may have stopped for good
    harness.poll()
    harness.run()
    assert harness.one(JoinGroupRequest).message.member_id == ""


def test_a_poll_under_way_never_counts_as_stopped(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    keep_alive(harness)
    for _ in range(100):
        harness.run(2)
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request)
    assert state(harness) is MemberState.STABLE


def test_a_changed_subscription_is_a_rebalance(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.machine.membership.subscribe(("t", "u"))
    harness.run()
    assert state(harness) is MemberState.REVOKING
    release(harness)
    request = harness.one(JoinGroupRequest)
    assert request.message.protocols[0].metadata == subscription_bytes(["t", "u"], (), 1, user_data=note_bytes(NO_NOTE))


def test_the_order_of_the_topics_is_no_change(harness: ConsumerHarness) -> None:
    harness.stable(tp(0), topics=("t", "u"))
    keep_alive(harness)
    harness.machine.membership.subscribe(("u", "t"))
    harness.run()
    assert state(harness) is MemberState.STABLE
    harness.machine.membership.subscribe(("u", "v"))
    harness.run()
    assert state(harness) is MemberState.REVOKING


def test_answers_to_an_abandoned_join_are_ignored(harness: ConsumerHarness) -> None:
    harness.subscribe()
    request = harness.one(JoinGroupRequest)
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    harness.join(member="late")
    assert state(harness) is MemberState.UNJOINED
    assert done == [True]
    assert request not in harness.sent


@pytest.mark.parametrize(("version", "single", "many"), [(5, "", ["m"]), (3, "", ["m"]), (2, "m", [])])
def test_leaving_names_the_member_in_the_form_the_broker_knows(
    harness: ConsumerHarness, version: int, single: str, many: list[str]
) -> None:
    harness.stable(tp(0))
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    message = harness.as_sent(LeaveGroupRequest, version)
    assert (message.member_id, [m.member_id for m in message.members]) == (single, many)
    harness.left(harness.one(LeaveGroupRequest))
    assert done == [True]


def test_leaving_waits_for_the_commits_before_it(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    outcomes: list[Any] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(5)}, harness.now + 60, outcomes.append)
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    assert harness.pending(LeaveGroupRequest) == []
    assert harness.one(OffsetCommitRequest).message.generation_id_or_member_epoch == 1
    harness.commits()
    assert outcomes == [None]
    harness.left(harness.one(LeaveGroupRequest))
    assert done == [True]


def test_leaving_ends_at_its_deadline(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run(4.9)
    assert done == []
    harness.run(0.2)
    assert done == [True]
    assert state(harness) is MemberState.UNJOINED


def test_closing_without_waiting_still_sends_commit_then_leave(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    outcomes: list[Any] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(5)}, harness.now + 1, outcomes.append)
    done: list[bool] = []
    harness.machine.leave(harness.now, 0, lambda: done.append(True))
    assert done == [True]
    assert [type(r.message) for r in harness.run() if r.node // LANE == 1] == [OffsetCommitRequest, LeaveGroupRequest]
    assert harness.one(LeaveGroupRequest).deadline == harness.now + 30  # the connection gets its full time to answer
    harness.commits()
    assert outcomes == [None]


def test_the_answer_to_an_earlier_leave_ends_no_later_one(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.machine.leave(harness.now, 0, lambda: None)
    harness.run()
    earlier = harness.one(LeaveGroupRequest)
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.run()
    harness.join(member="m-2")
    harness.sync([tp(0)])
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    harness.left(earlier)
    assert done == []
    harness.left(harness.one(LeaveGroupRequest))
    assert done == [True]


def test_a_member_in_the_middle_of_joining_leaves_over_another_connection(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join(member="m-1", error="MEMBER_ID_REQUIRED")
    harness.machine.leave(harness.now, 5, lambda: None)
    harness.run()
    assert harness.one(LeaveGroupRequest).node // LANE != harness.one(JoinGroupRequest).node // LANE


def test_a_static_member_sends_no_leave_group() -> None:
    harness = ConsumerHarness(group_id="g", group_instance_id="i")
    harness.cluster.set("t", [1])
    harness.stable(tp(0))
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    assert done == [True]
    assert harness.pending(LeaveGroupRequest) == []


def test_an_assignment_that_ended_before_it_was_seen_is_marked(harness: ConsumerHarness) -> None:
    harness.subscribe()
    harness.join()
    harness.sync([tp(0)])
    harness.machine.leave(harness.now, 5, lambda: None)
    assigned, ended = events(harness)
    assert [claim.ended for claim in assigned.claims] == [True]
    assert ended.claims == assigned.claims


# -- a lease that is extended


def test_an_extended_lease_lasts_until_the_application_polls_again(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    membership = harness.machine.membership
    harness.reader.leave()
    assert membership.extend_lease(harness.now, 100.0) is None
    assert membership.keep_lease(harness.now + 99) == harness.now + 100
    harness.poll()
    assert membership.keep_lease(harness.now) == harness.now + 60


def test_the_next_record_of_a_loop_ends_the_extension(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    membership = harness.machine.membership
    harness.committed()
    harness.ends()
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3)})
    records = harness.loop(10)
    next(records)
    assert membership.extend_lease(harness.now, 100.0) is None
    assert membership.keep_lease(harness.now) == harness.now + 100
    next(records)
    assert membership.keep_lease(harness.now) == harness.now + 60


def test_an_extension_never_shortens_the_lease_and_the_last_one_counts(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    membership = harness.machine.membership
    harness.reader.leave()
    for seconds, expected in ((1.0, 60), (500.0, 500), (100.0, 100)):
        assert membership.extend_lease(harness.now, seconds) is None
        assert membership.keep_lease(harness.now) == harness.now + expected


def test_a_lease_that_is_over_cannot_be_extended(harness: ConsumerHarness) -> None:
    membership = harness.machine.membership
    assert membership.extend_lease(harness.now, 100.0) == "the lease begins with the first poll"
    harness.stable(tp(0))
    harness.reader.leave()
    harness.now += 61
    assert membership.extend_lease(harness.now, 100.0) == "max_poll_interval_ms=60000 exceeded; poll rejoins the group"
    harness.run()
    assert membership.extend_lease(harness.now, 100.0) == (
        "no heartbeat response within session_timeout_ms=10000 (no coordinator); poll rejoins the group"
    )


def test_an_extension_does_not_delay_the_end_of_a_revocation(harness: ConsumerHarness) -> None:
    """The other members wait for max_poll_interval_ms only."""
    harness.stable(tp(0))
    membership = harness.machine.membership
    harness.reader.leave()
    assert membership.extend_lease(harness.now, 1000.0) is None
    membership.subscribe(("u",))
    harness.run()
    (ended,) = ending(harness)
    assert ended.deadline == harness.now + 60
    harness.now += 20
    assert membership.extend_lease(harness.now, 41.0) == (
        "the group is rebalancing, and waits for this member for 40 s more; poll takes part in the rebalance"
    )
    assert membership.extend_lease(harness.now, 39.0) is None
    membership.poll(harness.now + 40)
    assert ended.ending is Ending.LOST
