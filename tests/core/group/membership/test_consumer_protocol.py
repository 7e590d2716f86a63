"""The consumer protocol (KIP-848): what its heartbeats say, when they are sent, and what their responses do."""

from __future__ import annotations

import logging
import re
from uuid import UUID

import pytest

from pykafka4.core import INFINITY, Failed
from pykafka4.core.group.membership.consumer_protocol import UNRELEASED_S
from pykafka4.core.group.membership.coordinated import COMMITS_FIRST_S
from pykafka4.core.group.membership.heartbeats import SOON_S
from pykafka4.core.group.membership.states import CONSUMER_MOVES, MemberState
from pykafka4.core.group.topics.discovery import Discovery
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.errors import AuthorizationError, GroupError, KafkaError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, Written
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest as Heartbeat
from pykafka4.wire.protocol.messages_group import (
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
)
from tests.core.consumer_harness import LOST, batch, code, tp
from tests.core.group_member_harness import INTERVAL_S, UNKNOWN, GroupMember, T, U, owned
from tests.core.member_harness import steady


def state(member: GroupMember) -> MemberState:
    return member.protocol.state


# ---- what heartbeats say


def test_the_first_heartbeat_joins_with_everything_the_coordinator_has_to_know() -> None:
    member = GroupMember(client_rack="r1", group_remote_assignor="range", max_poll_interval_ms=60_000, group_instance_id="i")
    member.find_coordinator()
    message = member.message
    assert (message.group_id, message.member_epoch, message.instance_id, message.rack_id) == ("g", 0, "i", "r1")
    assert (message.rebalance_timeout_ms, message.server_assignor, message.subscribed_topic_names) == (60_000, "range", ["t"])
    assert owned(message) == {}
    assert message.member_id == member.protocol.member_id
    assert len(message.member_id) == 36
    assert state(member) is MemberState.JOINING


def test_each_member_makes_an_id_of_its_own_and_keeps_it() -> None:
    member = GroupMember().joined(0)
    before = member.protocol.member_id
    member.next_beat()
    member.reply(error="UNKNOWN_MEMBER_ID")
    member.release()
    assert member.message.member_id == before


def test_later_heartbeats_say_only_what_has_changed() -> None:
    member = GroupMember(group_instance_id="i").joined(0, 1)
    message = member.next_beat()
    assert (message.member_epoch, message.rebalance_timeout_ms, message.subscribed_topic_names) == (1, -1, None)
    assert (owned(message), message.rack_id, message.server_assignor, message.instance_id) == (None, None, None, "i")


def test_an_assignment_is_acknowledged_at_once() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(3, 0, 2)
    message = member.message
    assert (message.member_epoch, owned(message), message.subscribed_topic_names) == (3, {T: [0, 2]}, None)
    assert member.adopt() == [[tp(0), tp(2)]]
    assert state(member) is MemberState.STABLE


def test_an_empty_first_assignment_reaches_the_listener_once() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(1)
    assert member.adopt() == [[]]
    member.next_beat()
    member.reply(1, same=True)
    assert member.adopt() == []


def test_a_changed_subscription_is_reported_at_once() -> None:
    member = GroupMember().joined(0)
    member.cluster.set("u", [1], topic_id=U)
    member.machine.membership.subscribe(("t", "u"))
    member.run()
    assert member.message.subscribed_topic_names == ["t", "u"]
    assert owned(member.message) is None


def test_partitions_of_a_topic_that_is_no_longer_subscribed_are_released_without_waiting_for_the_coordinator() -> None:
    member = GroupMember().joined(0)
    member.cluster.set("u", [1], topic_id=U)
    member.machine.membership.subscribe(("u",))
    member.run()
    assert member.ended() == [("revoked", [tp(0)])]


def test_the_interval_is_the_coordinators() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(1, heartbeat_interval_ms=1_000)
    steady(member, Heartbeat, heartbeat_interval_ms=1_000)
    member.run(0.9)
    assert member.pending(Heartbeat) == []
    member.run(0.1)
    assert member.message.member_epoch == 1


def test_a_new_epoch_or_assignment_makes_the_next_heartbeats_come_sooner() -> None:
    """Partitions come with the response to a heartbeat, when their last owner has released them."""
    member = GroupMember().joined(0)
    steady(member, Heartbeat, seconds=20.0)
    for epoch, same in ((2, True), (2, False)):
        member.next_beat()
        member.reply(epoch, 0, same=same)
        member.run(SOON_S)
        member.reply(epoch, same=True)
        member.run(2 * SOON_S)
        member.reply(epoch, same=True)
        steady(member, Heartbeat, seconds=20.0)
        member.run(INTERVAL_S - 0.1)
        assert member.pending(Heartbeat) == []
        member.run(0.1)
        member.reply(epoch, same=True)


def test_the_epoch_of_the_response_is_that_of_the_next_heartbeat_and_of_commits() -> None:
    member = GroupMember().joined(0)
    identity = member.protocol.identity
    member.next_beat()
    member.reply(7, same=True)
    assert member.protocol.identity is identity
    assert member.machine.status(member.now)["generation"] == 7
    member.commit({0: 5})
    assert member.one(OffsetCommitRequest).message.generation_id_or_member_epoch == 7
    assert member.next_beat().member_epoch == 7


def test_a_member_without_an_epoch_yet_joins_again_after_the_interval() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(0)
    assert state(member) is MemberState.UNJOINED
    member.run(INTERVAL_S)
    assert (member.message.member_epoch, member.message.subscribed_topic_names) == (0, ["t"])


# ---- partitions


def test_what_stays_is_read_on_while_others_are_revoked_and_acknowledged() -> None:
    member = GroupMember().joined(0, 1)
    member.committed({tp(0): 0, tp(1): 0})
    kept = member.machine.fetcher.positions[tp(1)]
    member.next_beat()
    member.reply(1, 1)
    assert member.ended() == [("revoked", [tp(0)])]
    assert state(member) is MemberState.REVOKING
    assert member.pending(Heartbeat) == []  # it still owns the partition
    member.fetched(member.fetch_at(2), {tp(1): batch(0, 2)})
    assert [r.offset for r in member.poll()] == [0, 1]
    member.release()
    assert (member.message.member_epoch, owned(member.message)) == (1, {T: [1]})
    assert state(member) is MemberState.STABLE
    member.reply(2, 1, 2)
    assert member.adopt() == [[tp(2)]]
    assert member.machine.fetcher.positions[tp(1)] is kept


def test_a_member_that_revokes_sends_heartbeats_that_do_not_give_the_partition_back() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(1)
    message = member.next_beat()
    assert (message.member_epoch, owned(message)) == (1, None)


def test_a_partition_is_given_back_only_after_its_commits_are_complete() -> None:
    member = GroupMember().joined(0)
    outcomes = member.commit({0: 5})
    member.next_beat()
    member.reply(1)
    member.release()
    assert member.pending(Heartbeat) == []
    assert member.commits() == {tp(0): 5}
    assert outcomes == [None]
    assert owned(member.message) == {}


def test_a_commit_that_is_not_complete_in_time_fails_before_the_partition_is_given_back() -> None:
    """Sent again under the next epoch it would overwrite a commit of the next owner."""
    member = GroupMember().joined(0)
    outcomes = member.commit({0: 5})
    member.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    member.next_beat()
    member.reply(1)
    member.release()
    sent, released_at = 0, member.now
    while not outcomes:
        for _ in member.pending(OffsetCommitRequest):
            sent += 1
            member.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
        for _ in member.pending(Heartbeat):
            assert owned(member.message) is None
            member.reply(1, same=True)
        member.run(0.7)  # turns of the loop are later than the deadline
    assert 0 < member.now - released_at - COMMITS_FIRST_S < 0.7
    assert sent > 1
    assert "not complete in time" in str(outcomes[0])
    member.run(1)
    assert owned(member.message) == {}
    assert member.pending(OffsetCommitRequest) == []


def test_a_partition_that_comes_back_while_it_is_revoked_is_assigned_after_the_release() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(1)
    member.next_beat()
    member.reply(1, 0)
    assert member.adopt() == []
    member.release()
    assert member.adopt() == [[tp(0)]]


def test_a_topic_id_without_a_name_waits_for_the_metadata() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.cluster.names.clear()
    member.reply(1, 0)
    assert member.adopt() == [[]]
    assert member.cluster.refreshes == 1
    member.run(1)
    member.reply(1, same=True)
    assert member.cluster.refreshes == 2
    member.cluster.names[T] = "t"
    member.run(1)
    assert member.adopt() == [[tp(0)]]
    assert owned(member.message) == {T: [0]}


def test_a_recreated_topic_is_another_one() -> None:
    """The old partition ends before that of the same name begins."""
    member = GroupMember().joined(0)
    member.cluster.set("t", [1, 2, 1], topic_id=U)
    member.next_beat()
    member.reply(2, 0, topic_id=U)
    assert member.ended() == [("revoked", [tp(0)])]
    member.release()
    assert member.adopt() == [[tp(0)]]
    assert owned(member.message) == {U: [0]}


def test_partitions_of_unknown_topics_do_not_end_those_that_are_held() -> None:
    member = GroupMember().joined(0)
    member.cluster.names.clear()
    member.next_beat()
    member.reply(1, 0)
    assert member.ended() == []


# ---- errors


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"])
def test_a_member_that_was_put_out_loses_its_partitions_and_joins_when_they_are_released(error: str) -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(error=error)
    assert member.ended() == [("lost", [tp(0)])]
    assert state(member) is MemberState.UNJOINED
    assert member.machine.status(member.now)["generation"] == -1
    assert member.pending(Heartbeat) == []
    member.release()
    assert (member.message.member_epoch, owned(member.message)) == (0, {})


def test_a_join_to_a_group_that_cannot_be_converted_is_refused_for_good() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(error="GROUP_ID_NOT_FOUND")
    assert state(member) is MemberState.FATAL


def test_a_fenced_static_member_gives_up_its_place_before_it_joins_again() -> None:
    """The coordinator would keep the place, and refuse the join, until the session is over."""
    member = GroupMember(group_instance_id="i").joined(0)
    member.next_beat()
    member.reply(error="FENCED_MEMBER_EPOCH")
    member.release()
    assert member.message.member_epoch == -2
    member.reply(-2, same=True)
    assert member.message.member_epoch == 0


def test_a_join_that_is_fenced_leaves_first() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(error="FENCED_MEMBER_EPOCH")
    member.run(1)
    assert member.message.member_epoch == -1
    member.reply(error="UNKNOWN_MEMBER_ID")
    member.run(1)
    assert member.message.member_epoch == 0


def test_a_lost_response_makes_the_next_heartbeat_a_full_one_with_the_old_epoch() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.answer(member.beat_sent, LOST)
    member.run(1)
    member.find_coordinator(2)
    message = member.message
    assert (message.member_epoch, owned(message), message.subscribed_topic_names) == (1, {T: [0]}, ["t"])
    assert message.rebalance_timeout_ms > 0
    assert member.ended() == []


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_coordinator_that_moved_is_found_and_gets_a_full_heartbeat(error: str) -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(error=error)
    assert member.ended() == []
    member.run(1)
    member.find_coordinator(2)
    assert owned(member.message) == {T: [0]}


def test_a_coordinator_that_loads_is_asked_again_after_a_back_off() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(error="COORDINATOR_LOAD_IN_PROGRESS")
    assert member.pending(Heartbeat) == []
    member.run(0.2)
    assert owned(member.message) == {T: [0]}
    assert member.pending(FindCoordinatorRequest) == []


def test_the_pauses_between_repeated_heartbeats_grow_until_the_next_response() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    for _ in range(2):
        pauses = []
        for _ in range(4):
            member.reply(error="COORDINATOR_LOAD_IN_PROGRESS")
            pauses.append(member.wake_at - member.now)
            member.run(pauses[-1])
        assert (pauses[0], pauses[-1]) == (pytest.approx(0.1, rel=0.25), pytest.approx(0.8, rel=0.25))
        member.reply(1, same=True)
        member.next_beat()


def test_the_error_of_a_repeated_heartbeat_is_the_reason_in_status_until_the_next_response() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    for _ in range(12):
        member.reply(error="COORDINATOR_LOAD_IN_PROGRESS")
        member.run(1.5)
    troubles = member.network.troubles
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(troubles.reason(member.now))
    member.reply(1, same=True)
    assert troubles.reason(member.now) is None


def test_a_silent_coordinator_is_given_up_before_the_session_is_over() -> None:
    member = GroupMember(request_timeout_ms=30_000).joined(0)
    member.next_beat()
    assert member.beat_sent.deadline - member.now == 3 * INTERVAL_S


@pytest.mark.parametrize(
    "error", ["UNSUPPORTED_ASSIGNOR", "GROUP_MAX_SIZE_REACHED", "INVALID_REGULAR_EXPRESSION", "INVALID_REQUEST", "FENCED_INSTANCE_ID"]
)
def test_what_no_retry_can_help_is_raised_with_the_coordinators_words(error: str) -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(error=error, error_message="because")
    assert state(member) is MemberState.FATAL
    member.reader.drain()
    assert error in str(member.reader.fatal)
    assert "because" in str(member.reader.fatal)
    assert member.run(60) == []
    member.machine.membership.subscribe(("t",))
    member.run()
    assert member.message.member_epoch == 0


def test_a_rejection_that_arrives_during_the_next_subscription_does_not_concern_that() -> None:
    """`subscribe` clears the error on the application's thread; the loop may put it after that, before it learns of the subscription."""
    member = GroupMember()
    member.find_coordinator()
    member.reader.drain()
    member.reader.fatal = None
    member.reply(error="GROUP_MAX_SIZE_REACHED")
    member.machine.membership.subscribe(("t",))
    member.run()
    member.reply(1, 0)
    assert member.adopt() == [[tp(0)]]
    assert member.reader.fatal is None


def test_a_missing_right_is_raised_and_the_member_goes_on_asking() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(error="TOPIC_AUTHORIZATION_FAILED")
    member.reader.drain()
    with pytest.raises(AuthorizationError):
        member.reader.notices.raise_next()
    assert member.ended() == []
    member.run(1)
    assert owned(member.message) == {T: [0]}


def test_brokers_without_the_protocol_are_named_with_the_way_out() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.answer(member.beat_sent, Failed(UnsupportedVersion("broker 1 does not support it"), Written.NO))
    member.reader.drain()
    assert isinstance(member.reader.fatal, UnsupportedVersion)
    for words in ("group_protocol='consumer'", "group_protocol='classic'", "Kafka 4.0", "broker 1"):
        assert words in str(member.reader.fatal)


def test_brokers_on_which_the_protocol_is_off_are_named_as_well() -> None:
    member = GroupMember()
    member.find_coordinator()
    member.reply(error="UNSUPPORTED_VERSION", error_message="off")
    member.reader.drain()
    assert isinstance(member.reader.fatal, UnsupportedVersion)
    assert "group.coordinator.rebalance.protocols" in str(member.reader.fatal)


def test_version_0_is_refused() -> None:
    member = GroupMember()
    member.find_coordinator()
    with pytest.raises(UnsupportedVersion, match="version 1"):
        member.as_sent(Heartbeat, 0)
    assert member.as_sent(Heartbeat, 1).member_epoch == 0


def test_the_place_of_a_static_member_that_was_killed_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    member = GroupMember(group_instance_id="i")
    member.find_coordinator()
    began = member.now
    with caplog.at_level(logging.WARNING):
        while member.now < began + UNRELEASED_S - 10:
            if member.message.member_epoch == 0:
                member.reply(error="UNRELEASED_INSTANCE_ID")
            else:
                member.reply(error="FENCED_INSTANCE_ID")
            member.run(2)
    assert caplog.text.count("UNRELEASED_INSTANCE_ID") == 1
    if member.message.member_epoch != 0:
        member.reply(error="FENCED_INSTANCE_ID")
        member.run(2)
    member.reply(1, 0)
    assert member.adopt() == [[tp(0)]]


def test_an_instance_id_that_stays_in_use_is_an_error() -> None:
    member = GroupMember(group_instance_id="i")
    member.find_coordinator()
    for _ in range(100):
        if state(member) is MemberState.FATAL:
            break
        member.reply(error="UNRELEASED_INSTANCE_ID" if member.message.member_epoch == 0 else "FENCED_INSTANCE_ID")
        member.run(2)
    member.reader.drain()
    assert "UNRELEASED_INSTANCE_ID" in str(member.reader.fatal)


@pytest.mark.parametrize("what", ["another subscription", "another coordinator"])
def test_the_time_for_an_instance_id_begins_again(what: str) -> None:
    """A coordinator that takes over begins the session of the killed process again; and a new subscription has all of that time."""
    member = GroupMember(group_instance_id="i")
    member.find_coordinator()
    member.reply(error="UNRELEASED_INSTANCE_ID")
    member.run(2)
    if what == "another subscription":
        member.reply(error="FENCED_INSTANCE_ID")
        member.machine.leave(member.now, 0.0, lambda: None)
        member.run()
        member.sent.clear()
        member.now += UNRELEASED_S
        member.machine.membership.subscribe(("t",))
        member.run()
    else:
        member.answer(member.beat_sent, LOST)
        member.run(2)
        member.answer(member.beat_sent, LOST)
        member.run(UNRELEASED_S)
        member.find_coordinator(2)
    assert member.message.member_epoch == 0
    member.reply(error="UNRELEASED_INSTANCE_ID")
    assert state(member) is MemberState.UNJOINED


# ---- leaving


@pytest.mark.parametrize(("options", "epoch"), [({}, -1), ({"group_instance_id": "i"}, -2)])
def test_leaving_says_whether_the_member_comes_back(options: dict[str, str], epoch: int) -> None:
    member = GroupMember(**options).joined(0)
    done: list[bool] = []
    member.machine.leave(member.now, 5.0, lambda: done.append(True))
    member.run()
    assert (member.message.member_epoch, owned(member.message)) == (epoch, None)
    assert done == []
    member.reply(epoch, same=True)
    assert done == [True]
    assert member.run(100) == []


def test_a_member_that_left_takes_the_same_partition_when_it_subscribes_again() -> None:
    member = GroupMember().joined(0)
    member.machine.leave(member.now, 5.0, lambda: None)
    member.run()
    member.release()
    member.reply(-1, same=True)
    member.machine.membership.subscribe(("t",))
    member.run()
    assert owned(member.message) == {}
    member.reply(2, 0)
    assert member.adopt() == [[tp(0)]]


def test_leaving_waits_for_commits_and_goes_without_them_in_the_end() -> None:
    member = GroupMember().joined(0)
    member.commit({0: 5})
    done: list[bool] = []
    member.machine.leave(member.now, 5.0, lambda: done.append(True))
    member.run()
    assert member.pending(Heartbeat) == []
    member.run(5.0)
    assert member.message.member_epoch == -1
    assert done == [True]


@pytest.mark.parametrize(("seconds", "looks"), [(5.0, 1), (0.0, 0)])
def test_a_member_that_leaves_without_a_coordinator_looks_for_it_while_there_is_time(seconds: float, looks: int) -> None:
    member = GroupMember().joined()
    member.machine.coordinator.lost(member.now, 1, KafkaError("moved"))
    member.machine.leave(member.now, seconds, lambda: None)
    member.run(0.2)
    assert len(member.pending(FindCoordinatorRequest)) == looks
    assert state(member) is (MemberState.LEAVING if looks else MemberState.UNJOINED)


def test_a_member_that_never_joined_has_nothing_to_leave() -> None:
    member = GroupMember()
    done: list[bool] = []
    member.machine.leave(member.now, 5.0, lambda: done.append(True))
    member.run()
    assert done == [True]
    assert member.pending(Heartbeat) == []


def test_an_application_that_stops_polling_leaves(caplog: pytest.LogCaptureFixture) -> None:
    member = GroupMember(max_poll_interval_ms=20_000).joined(0)
    member.reader.leave()
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            assert member.next_beat().member_epoch in (1, -1)
            if member.message.member_epoch == 1:
                member.reply(1, same=True)
    assert member.message.member_epoch == -1
    assert "max_poll_interval_ms" in caplog.text
    assert member.ended() == [("lost", [tp(0)])]


def test_partitions_that_are_not_released_in_time_are_lost() -> None:
    member = GroupMember(max_poll_interval_ms=20_000).joined(0, 1)
    member.next_beat()
    member.reply(1, 1)
    for _ in range(4):
        if member.pending(Heartbeat):
            member.reply(1, same=True)
        member.run(INTERVAL_S)
    assert member.message.member_epoch == -1
    member.reply(-1)
    assert state(member) is MemberState.UNJOINED
    assert sorted(parts for _, parts in member.ended()) == [[tp(0)], [tp(1)]]


# ---- offsets


def test_a_commit_with_an_old_epoch_is_sent_again_with_the_new_one() -> None:
    member = GroupMember().joined(0)
    outcomes = member.commit({0: 5})
    member.commits({tp(0): "STALE_MEMBER_EPOCH"})
    assert owned(member.message) == {T: [0]}  # a full heartbeat asks for the epoch at once
    member.reply(2, same=True)
    member.run(0.2)
    assert member.one(OffsetCommitRequest).message.generation_id_or_member_epoch == 2
    member.commits()
    assert outcomes == [None]


def test_a_commit_of_an_earlier_membership_fails_and_does_not_hold_up_others() -> None:
    """The member has another epoch since it joined again; the commit keeps the one with which it was made."""
    member = GroupMember().joined(0, 1)
    outcomes = member.commit({0: 5})
    member.next_beat()
    member.reply(1, 1)
    member.release()
    member.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    member.run(0.6)
    member.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    member.reply(error="UNKNOWN_MEMBER_ID")  # partition 0 is released, and waits for its commit
    member.release()
    member.reply(9, 1)
    behind = member.commit({1: 7})
    member.run(0.5)
    member.commits({tp(0): "STALE_MEMBER_EPOCH"})
    assert "STALE_MEMBER_EPOCH" in str(outcomes[0])
    assert member.commits() == {tp(1): 7}
    assert behind == [None]


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"])
def test_a_commit_of_a_member_that_was_put_out_fails_and_the_member_joins_again(error: str) -> None:
    member = GroupMember().joined(0)
    outcomes = member.commit({0: 5})
    member.commits({tp(0): error})
    assert isinstance(outcomes[0], GroupError)
    assert error in str(outcomes[0])
    assert member.ended() == [("lost", [tp(0)])]
    member.release()
    assert (member.message.member_epoch, member.message.subscribed_topic_names, owned(member.message)) == (0, ["t"], {})


def test_a_member_that_joins_again_has_only_the_assignment_that_follows() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    member.reply(error="UNKNOWN_MEMBER_ID")
    member.machine.membership.subscribe(("t", "u"))
    member.release()
    member.ended()
    member.reply(2, same=True)
    member.run()
    assert member.adopt() == []
    member.next_beat()
    member.reply(2)
    assert member.adopt() == [[]]


def test_a_response_that_comes_after_the_member_was_put_out_says_nothing_about_it() -> None:
    member = GroupMember().joined(0)
    member.next_beat()
    late = member.beat_sent
    member.commit({0: 5})
    member.commits({tp(0): "UNKNOWN_MEMBER_ID"})
    member.reply(7, same=True)
    assert member.protocol.generation == -1
    member.release()
    assert member.beat_sent is not late
    assert member.message.member_epoch == 0


def test_commits_name_topics_by_id_where_brokers_do() -> None:
    member = GroupMember().joined(0)
    member.commit({0: 5})
    request = member.one(OffsetCommitRequest)
    assert request.max_version is None
    (topic,) = member.as_sent(OffsetCommitRequest, 10).topics
    assert topic.topic_id == T
    assert member.as_sent(OffsetCommitRequest, 9).topics[0].name == "t"


@pytest.mark.parametrize(("known", "waits"), [(U, False), (T, True)], ids=["the metadata has another id", "the coordinator lags"])
def test_a_commit_by_the_id_of_a_deleted_topic_does_not_hold_up_its_namesake(known: UUID, waits: bool) -> None:
    """The partition of the old topic is given back after its commits, and only then the one of the new topic can be taken."""
    member = GroupMember().joined(0, 1)
    outcomes, behind = member.commit({0: 5}), member.commit({1: 6})
    member.cluster.set("t", [1, 2, 1], topic_id=known)
    request, kind = member.one(OffsetCommitRequest), OffsetCommitResponse.Topic
    rows = [kind.Partition(partition_index=0, error_code=code("UNKNOWN_TOPIC_ID"))]
    member.answer(request, OffsetCommitResponse(topics=[kind(name="", topic_id=T, partitions=rows)]), version=10)
    assert (outcomes == []) is waits
    if not waits:
        assert "UNKNOWN_TOPIC_ID" in str(outcomes[0])
        assert member.commits() == {tp(1): 6}
        assert behind == [None]


def test_lookups_carry_the_members_epoch_and_topic_ids() -> None:
    member = GroupMember().joined(0, epoch=4)
    assert member.one(OffsetFetchRequest).max_version is None
    message = member.as_sent(OffsetFetchRequest, 10)
    (group,) = message.groups
    assert (group.group_id, group.member_id, group.member_epoch) == ("g", member.protocol.member_id, 4)
    assert [(t.topic_id, t.partition_indexes) for t in group.topics] == [(T, [0])]
    assert (message.topics, message.require_stable) == ([], True)


@pytest.mark.parametrize("error", ["STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_lookup_of_a_member_that_is_behind_is_repeated(error: str) -> None:
    member = GroupMember().joined(0)
    member.committed(error=error)
    member.run(1)
    member.committed({tp(0): 3})
    assert member.machine.fetcher.positions[tp(0)].offset == 3


def test_a_lookup_for_a_topic_that_others_read_now_names_it() -> None:
    """If that topic has been recreated since, no coordinator knows the id that this member knew."""
    member = GroupMember().joined(0, 1)
    member.committed({tp(0): 3, tp(1): 3})
    for left in ((1,), ()):
        member.next_beat()
        member.reply(1, *left)
        member.release()
        member.machine.offsets.lookup([tp(0)], member.now + 60, lambda *_: None)
        member.run()
        (group,) = member.as_sent(OffsetFetchRequest, 9).groups
        assert (group.topics[0].topic_id == T) is bool(left)
        member.committed({tp(0): 3})
        member.reply(1, same=True)


def test_a_lookup_for_a_topic_of_others_is_repeated_as_well() -> None:
    """The member knows no id of that topic."""
    member, found = GroupMember().joined(0), list[object]()
    member.committed({tp(0): 3})
    member.machine.offsets.lookup([tp(0, "others")], member.now + 60, lambda _, answer: found.append(answer))
    member.run()
    member.committed(error="UNKNOWN_MEMBER_ID")
    member.run(1)
    member.committed({tp(0, "others"): 8})
    assert found == [{tp(0, "others"): OffsetAndMetadata(8)}]


# ---- patterns that the coordinator matches


def by_pattern(*names: str) -> GroupMember:
    """A member that is subscribed to names and to a pattern, and has found that `t` matches."""
    member = GroupMember()
    filter = TopicFilter((re.compile("[tu]"),), with_internal=True, regex="[tu]")
    member.machine.membership.subscribe(names, filter)
    discovery = member.machine.membership.subscription._discovery
    discovery.found, discovery._due = frozenset(("t",)), INFINITY
    member.find_coordinator()
    return member


def test_a_pattern_is_sent_and_not_the_topics_that_match() -> None:
    member = by_pattern("a")
    assert (member.message.subscribed_topic_names, member.message.subscribed_topic_regex) == (["a"], "[tu]")
    member.reply(1, 0)
    assert member.adopt() == [[tp(0)]]
    assert member.message.subscribed_topic_regex is None
    member.reply(1, same=True)
    member.machine.membership.subscribe(("t",))
    member.run()
    assert (member.message.subscribed_topic_names, member.message.subscribed_topic_regex) == (["t"], "")


def test_a_member_with_a_pattern_and_no_topics_joins() -> None:
    assert by_pattern().message.subscribed_topic_names == []


def test_the_topic_of_an_unknown_id_is_looked_for_and_read_as_soon_as_it_is_known() -> None:
    member = by_pattern()
    member.reply(1, 0, topic_id=U)
    assert member.adopt() == [[]]
    discovery = member.machine.membership.subscription._discovery
    assert discovery._due <= member.now
    discovery.found = frozenset(("t", "u"))
    member.run(0.1)
    member.cluster.set("u", [1], topic_id=U)
    member.run()
    assert member.adopt() == [[tp(0, "u")]]


def test_a_topic_that_only_another_user_of_the_client_knows_is_looked_for_as_well() -> None:
    """A producer, for example: the subscription has the topic only when it is found among all topics."""
    member = by_pattern()
    member.cluster.set("u", [1], topic_id=U)
    member.reply(1, 0, topic_id=U)
    discovery = member.machine.membership.subscription._discovery
    assert discovery._due <= member.now
    discovery.found, discovery._due = frozenset(("t", "u")), INFINITY
    member.run(0.1)
    assert member.adopt() == [[], [tp(0, "u")]]
    assert member.protocol._look_at == INFINITY


def test_a_topic_that_is_not_subscribed_to_any_more_is_not_looked_for() -> None:
    member = GroupMember().joined(0)
    member.cluster.set("u", [1], topic_id=U)
    member.machine.membership.subscribe(("u",))
    member.run()
    member.reply(1, 0)
    assert member.protocol._look_at == INFINITY


def test_partitions_that_were_taken_away_before_they_were_known_are_reported_as_not_owned() -> None:
    """Otherwise the coordinator waits for that until the rebalance timeout, and removes the member."""
    member = by_pattern()
    kind = ConsumerGroupHeartbeatResponse.Assignment
    rows = [kind.TopicPartitions(topic_id=topic_id, partitions=[0]) for topic_id in (T, U)]
    member.reply(1, assignment=kind(topic_partitions=rows))
    assert member.adopt() == [[tp(0)]]
    member.reply(1, 0)
    assert owned(member.message) == {T: [0]}
    member.reply(2, 0)
    assert member.pending(Heartbeat) == []


def test_a_topic_that_the_client_does_not_find_is_reported_by_its_id(caplog: pytest.LogCaptureFixture) -> None:
    member = by_pattern()
    member.reply(1, 0, topic_id=UNKNOWN)
    for _ in range(35):
        member.run(1)
        if member.pending(Heartbeat):
            member.reply(1, same=True)
    (warning,) = [record.getMessage() for record in caplog.records if str(UNKNOWN) in record.getMessage()]
    assert warning.startswith("pykafka4: group g: cannot read the assigned topics with the ids")


def test_a_search_for_topics_ends_with_the_membership() -> None:
    """A coordinator that accepts the member again without an assignment must not keep the loop busy."""
    member = by_pattern()
    member.reply(1, 0, topic_id=UNKNOWN)
    member.next_beat()
    member.reply(error="FENCED_MEMBER_EPOCH")
    member.release()
    member.run(5.0)
    member.reply(2, same=True)
    assert member.wake_at > member.now


def test_a_topic_that_is_not_found_does_not_have_all_topics_listed_every_second_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    member, looks = by_pattern(), list[float]()
    monkeypatch.setattr(Discovery, "hurry", lambda _, when: looks.append(when))
    member.reply(1, 0, topic_id=UNKNOWN)
    began = member.now
    while member.now < began + 600:
        member.run(1)
        if member.pending(Heartbeat):
            member.reply(1, same=True)
    assert 30 < len(looks) < 60
    looks.clear()
    member.next_beat()
    member.reply(2, 1, topic_id=UNKNOWN)  # it may be another topic
    for _ in range(5):
        member.run(1)
    assert len(looks) > 3


def test_the_table_of_states_has_every_state() -> None:
    assert set(CONSUMER_MOVES.table) < set(MemberState)
    assert UNKNOWN not in (T, U)
