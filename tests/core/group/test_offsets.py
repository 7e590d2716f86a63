"""Commits and lookups, with a coordinator made by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest
from consumer_talk import LOST, Talk, tp

from pykafka4.core import INFINITY, Failed
from pykafka4.core.group.classic import MemberState
from pykafka4.core.group.offsets import LATE_SECONDS, MOST_WAITING, UNKNOWN_SECONDS
from pykafka4.error_table import Written
from pykafka4.errors import AuthorizationError, BrokerError, ClosedError, GroupError, KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_group import FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest


@pytest.fixture
def talk() -> Talk:
    talk = Talk(group_id="g", enable_auto_commit=False, request_timeout_ms=30_000)
    talk.cluster.set("t", [1, 1])
    return talk


class Outcomes(list[Any]):
    """What became of commits."""


def commit(talk: Talk, offsets: dict[Any, int], timeout: float = 60) -> Outcomes:
    outcomes = Outcomes()
    talk.machine.commit({p: OffsetAndMetadata(o, 3, "note") for p, o in offsets.items()}, talk.now + timeout, outcomes.append)
    talk.run()
    return outcomes


def joined(talk: Talk) -> None:
    talk.stable(tp(0), tp(1))
    talk.committed()
    talk.ends()
    talk.reader.enter()


# ---------------------------------------------------------------- commits


def test_a_commit_carries_epoch_metadata_and_membership(talk: Talk) -> None:
    joined(talk)
    outcomes = commit(talk, {tp(0): 5})
    message = talk.one(OffsetCommitRequest).message
    assert (message.group_id, message.generation_id_or_member_epoch, message.member_id) == ("g", 1, "m")
    part = message.topics[0].partitions[0]
    assert (part.partition_index, part.committed_offset, part.committed_leader_epoch, part.committed_metadata) == (0, 5, 3, "note")
    assert outcomes == []
    talk.commits()
    assert outcomes == [None]
    assert talk.machine.offsets.stored[tp(0)] == 5


def test_without_membership_a_commit_carries_no_generation(talk: Talk) -> None:
    commit(talk, {tp(0): 5})
    talk.find_coordinator()
    message = talk.one(OffsetCommitRequest).message
    assert (message.generation_id_or_member_epoch, message.member_id, message.group_instance_id) == (-1, "", None)


def test_commits_go_one_after_the_other_so_that_none_overtakes_a_newer_one(talk: Talk) -> None:
    first = commit(talk, {tp(0): 1})
    second = commit(talk, {tp(0): 2})
    talk.find_coordinator()
    talk.answer(talk.one(OffsetCommitRequest), LOST)
    talk.run(1)
    talk.find_coordinator()
    talk.run(1)
    assert talk.commits() == {tp(0): 1}
    assert (first, second) == ([None], [])
    assert talk.commits() == {tp(0): 2}
    assert second == [None]


def test_the_pause_of_a_commit_that_ran_out_of_time_is_not_that_of_the_next(talk: Talk) -> None:
    first, second = commit(talk, {tp(0): 1}, timeout=0.05), commit(talk, {tp(0): 2})
    talk.find_coordinator()
    talk.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    talk.run(0.05)
    assert isinstance(first[0], KafkaTimeoutError)
    assert talk.commits() == {tp(0): 2}
    assert second == [None]


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_SERVER_ERROR"])
def test_only_what_was_refused_for_now_is_sent_again(talk: Talk, error: str) -> None:
    outcomes = commit(talk, {tp(0): 1, tp(1): 2})
    talk.find_coordinator()
    talk.commits({tp(1): error})
    assert outcomes == []
    talk.run(1)
    assert talk.commits() == {tp(1): 2}
    assert outcomes == [None]


def test_commits_wait_only_so_long_behind_one_of_a_deleted_partition(talk: Talk) -> None:
    first, second = commit(talk, {tp(0): 1, tp(0, "gone"): 2}), commit(talk, {tp(1): 3})
    talk.find_coordinator()
    began = talk.now
    while not first:
        assert talk.now - began <= UNKNOWN_SECONDS + 2
        talk.commits({tp(0, "gone"): "UNKNOWN_TOPIC_OR_PARTITION"})
        talk.run(0.5)
        talk.run(0.5)
    assert talk.now - began >= UNKNOWN_SECONDS
    (error,) = first
    assert isinstance(error, BrokerError)
    assert "commit of gone-0" in str(error)
    assert talk.machine.offsets.stored == {tp(0): 1}
    assert talk.commits() == {tp(1): 3}
    assert second == [None]


def test_a_commit_of_a_topic_that_the_metadata_says_is_gone_is_refused_at_once(talk: Talk) -> None:
    talk.cluster.set("gone", error="UNKNOWN_TOPIC_OR_PARTITION")
    first, second = commit(talk, {tp(0): 1, tp(0, "gone"): 2}), commit(talk, {tp(1): 3})
    talk.find_coordinator()
    talk.commits({tp(0, "gone"): "UNKNOWN_TOPIC_OR_PARTITION"})
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(first[0])
    assert talk.commits() == {tp(1): 3}
    assert second == [None]


def test_a_partition_that_the_answer_leaves_out_is_not_stored(talk: Talk) -> None:
    outcomes = commit(talk, {tp(0): 1})
    talk.find_coordinator()
    request = talk.one(OffsetCommitRequest)
    talk.answer(request, type(request.message).response(topics=[]))
    assert outcomes == []
    talk.run(1)
    assert talk.commits() == {tp(0): 1}


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT"])
def test_a_commit_follows_the_coordinator(talk: Talk, error: str) -> None:
    outcomes = commit(talk, {tp(0): 1})
    talk.find_coordinator(1)
    talk.commits({tp(0): error})
    talk.run(1)
    talk.find_coordinator(2)
    talk.run(1)
    talk.commits()
    assert outcomes == [None]


@pytest.mark.parametrize(
    ("error", "after", "hint"),
    [
        ("UNKNOWN_MEMBER_ID", MemberState.UNJOINED, "removed this member"),
        ("ILLEGAL_GENERATION", MemberState.UNJOINED, "has rebalanced without this member"),
        ("REBALANCE_IN_PROGRESS", MemberState.REVOKING, "is rebalancing"),
        ("FENCED_INSTANCE_ID", MemberState.FATAL, "FENCED_INSTANCE_ID"),
        ("GROUP_AUTHORIZATION_FAILED", MemberState.FATAL, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_what_the_answer_says_of_the_member_is_raised_and_heeded(talk: Talk, error: str, after: MemberState, hint: str) -> None:
    joined(talk)
    outcomes = commit(talk, {tp(0): 1})
    talk.commits({tp(0): error})
    assert isinstance(outcomes[0], BrokerError)
    assert hint in str(outcomes[0])
    assert talk.machine.membership.state is after


@pytest.mark.parametrize("error", ["OFFSET_METADATA_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "INVALID_COMMIT_OFFSET_SIZE"])
def test_what_the_answer_says_of_the_commit_ends_the_commit_only(talk: Talk, error: str) -> None:
    joined(talk)
    outcomes = commit(talk, {tp(0): 1})
    talk.commits({tp(0): error})
    assert error in str(outcomes[0])
    assert talk.machine.membership.state is MemberState.STABLE


def test_a_commit_from_outside_into_a_group_with_members_says_so(talk: Talk) -> None:
    outcomes = commit(talk, {tp(0): 1})
    talk.find_coordinator()
    talk.commits({tp(0): "UNKNOWN_MEMBER_ID"})
    assert isinstance(outcomes[0], GroupError)
    assert "has active members" in str(outcomes[0])


def test_a_commit_of_lost_partitions_is_refused_without_asking(talk: Talk) -> None:
    joined(talk)
    talk.machine.membership.lost([tp(0)], "the session was over")
    outcomes = commit(talk, {tp(0): 1})
    assert isinstance(outcomes[0], GroupError)
    assert "the session was over" in str(outcomes[0])
    assert talk.pending(OffsetCommitRequest) == []


def test_a_commit_out_of_time_says_whether_it_may_be_stored(talk: Talk) -> None:
    unsent = commit(talk, {tp(0): 1}, timeout=2)
    talk.run(2)
    assert isinstance(unsent[0], KafkaTimeoutError)
    assert "it was not sent" in str(unsent[0])
    sent = commit(talk, {tp(0): 1, tp(1): 1}, timeout=2)
    talk.find_coordinator()
    talk.run(2.1)
    assert "commit of t-0, t-1: timed out, it may have been stored" in str(sent[0])


def test_a_commit_out_of_time_says_what_was_seen_last(talk: Talk) -> None:
    outcomes = commit(talk, {tp(0): 1}, timeout=2)
    talk.run(2)
    assert "(last error: none)" in str(outcomes[0])
    outcomes = commit(talk, {tp(0): 1}, timeout=2)
    talk.answer(talk.pending(FindCoordinatorRequest)[0], LOST)
    talk.run(2)
    assert "(last error: 127.0.0.1:9092: connection refused)" in str(outcomes[0])


def test_a_commit_behind_one_that_hangs_waits_for_its_answer(talk: Talk) -> None:
    """Sent at once it could be overtaken by the hanging one."""
    commit(talk, {tp(0): 1}, timeout=2)
    talk.find_coordinator()
    hanging = talk.one(OffsetCommitRequest)
    later = commit(talk, {tp(0): 2})
    talk.run(3)
    assert talk.pending(OffsetCommitRequest) == [hanging]
    talk.commits()
    talk.commits()
    assert later == [None]


def test_too_many_commits_in_line_are_refused(talk: Talk) -> None:
    outcomes = Outcomes()
    for offset in range(MOST_WAITING + 1):
        talk.machine.commit({tp(0): OffsetAndMetadata(offset)}, talk.now + 60, outcomes.append)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], KafkaError)


def test_a_broker_too_old_ends_the_commit(talk: Talk) -> None:
    outcomes = commit(talk, {tp(0): 1})
    talk.find_coordinator()
    talk.answer(talk.one(OffsetCommitRequest), Failed(UnsupportedVersion("OffsetCommit: too old"), Written.NO))
    assert isinstance(outcomes[0], UnsupportedVersion)


def test_a_crash_is_heard_by_everyone_who_waits(talk: Talk) -> None:
    outcomes = commit(talk, {tp(0): 1})
    answers: list[Any] = []
    talk.machine.offsets.lookup([tp(0)], talk.now + 60, lambda now, found: answers.append(found))
    reason = KafkaError("the loop crashed")
    talk.machine.crash(reason)
    assert outcomes == [reason]
    assert answers == [reason]
    with pytest.raises(KafkaError, match="the loop crashed"):
        raise_what_poll_raises(talk)


def test_a_consumer_that_is_gone_fails_commits_and_lookups_by_what_is_known_of_them(talk: Talk) -> None:
    sent = commit(talk, {tp(0): 1})
    talk.find_coordinator()
    waiting = commit(talk, {tp(1): 1})
    found: list[Any] = []
    talk.machine.offsets.lookup([tp(0)], talk.now + 60, lambda now, answer: found.append(answer))
    request = talk.one(OffsetCommitRequest)
    talk.machine.gone()
    late = commit(talk, {tp(0): 2})
    talk.machine.offsets.lookup([tp(1)], talk.now + 60, lambda now, answer: found.append(answer))
    for outcomes, what in ((sent, "t-0: .* may have been stored"), (waiting, "t-1: .* it was not sent"), (late, "t-0: .* it was not sent")):
        (error,) = outcomes
        assert isinstance(error, ClosedError)
        assert re.search(what, str(error))
    assert [type(answer) for answer in found] == [ClosedError, ClosedError]
    assert request in talk.sent
    talk.commits()  # its answer comes too late for anybody
    assert len(sent) == 1


def raise_what_poll_raises(talk: Talk) -> None:
    talk.reader.drain()
    assert talk.reader.fatal is not None
    raise talk.reader.fatal


# ---------------------------------------------------------------- auto-commit


@pytest.fixture
def auto() -> Talk:
    talk = Talk(group_id="g", auto_commit_interval_ms=5_000)
    talk.cluster.set("t", [1, 1])
    return talk


def test_auto_commit_stores_what_is_finished_and_only_what_changed(auto: Talk) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    assert auto.commits() == {tp(0): 5}
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []
    auto.reader.finished[tp(1)] = (7, 0)
    auto.run(5)
    assert auto.commits() == {tp(1): 7}


def test_auto_commit_leaves_out_what_the_application_has_to_release(auto: Talk) -> None:
    joined(auto)
    auto.reader.finished.update({tp(0): (5, 0), tp(1): (6, 0)})
    auto.machine.membership.revoke([tp(0)], INFINITY, "for this test")
    auto.run(5)
    assert auto.commits() == {tp(1): 6}


def test_auto_commit_of_a_subscribed_consumer_waits_until_it_is_a_member(auto: Talk) -> None:
    auto.machine.membership.subscribe(("t",))
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []


def test_an_auto_commit_that_fails_is_logged_and_tried_again(auto: Talk, caplog: pytest.LogCaptureFixture) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    auto.commits({tp(0): "OFFSET_METADATA_TOO_LARGE"})
    assert "auto-commit failed" in caplog.text
    auto.run(5)
    assert auto.commits() == {tp(0): 5}


def test_auto_commit_repeats_itself_while_a_lost_commit_may_still_be_executed(auto: Talk) -> None:
    """The coordinator that is reached again may find the request of the connection before in its queue, and go back to its offset."""
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    auto.answer(auto.one(OffsetCommitRequest), LOST)
    auto.run(1)
    auto.find_coordinator()
    auto.reader.finished[tp(0)] = (6, 0)
    assert auto.commits() == {tp(0): 5}
    for _ in range(2):
        auto.run(5)
        assert auto.commits() == {tp(0): 6}
    for _ in range(int(LATE_SECONDS // 5)):
        auto.run(5)
        if auto.pending(OffsetCommitRequest):
            auto.commits()
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []


def test_only_one_auto_commit_is_under_way(auto: Talk) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    auto.reader.finished[tp(0)] = (6, 0)
    auto.run(5)
    assert auto.commits() == {tp(0): 5}
    assert auto.pending(OffsetCommitRequest) == []
    auto.run(5)
    assert auto.commits() == {tp(0): 6}


# ---------------------------------------------------------------- lookups


def lookup(talk: Talk, timeout: float = 60) -> list[Any]:
    answers: list[Any] = []
    talk.machine.offsets.lookup([tp(0), tp(1)], talk.now + timeout, lambda now, found: answers.append(found))
    talk.run()
    return answers


def test_a_lookup_tells_offset_and_none(talk: Talk) -> None:
    answers = lookup(talk)
    talk.find_coordinator()
    talk.committed({tp(1): 9})
    assert answers == [{tp(0): None, tp(1): OffsetAndMetadata(9)}]


@pytest.mark.parametrize(("version", "stable"), [(7, True), (6, False)])
def test_what_was_committed_last_is_asked_for_where_the_broker_can(talk: Talk, version: int, stable: bool) -> None:
    lookup(talk)
    talk.find_coordinator()
    assert talk.as_sent(OffsetFetchRequest, version).require_stable is stable


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT"])
def test_a_lookup_is_repeated_after_a_pause(talk: Talk, error: str) -> None:
    answers = lookup(talk)
    talk.find_coordinator()
    talk.committed(error=error)
    assert talk.pending(OffsetFetchRequest) == []
    talk.run(1)
    talk.committed({tp(0): 1, tp(1): 1})
    assert len(answers) == 1


def test_a_lookup_follows_the_coordinator(talk: Talk) -> None:
    answers = lookup(talk)
    talk.find_coordinator(1)
    assert talk.one(OffsetFetchRequest).deadline == talk.now + talk.config.request_timeout_ms / 1000
    talk.committed(error="NOT_COORDINATOR")
    talk.run(1)
    talk.find_coordinator(2)
    talk.answer(talk.one(OffsetFetchRequest), LOST)
    talk.run(1)
    talk.find_coordinator(1)
    talk.run(1)
    talk.committed()
    assert len(answers) == 1


def test_a_lookup_refused_for_good_or_out_of_time_tells_the_error(talk: Talk) -> None:
    late = lookup(talk, timeout=2)
    talk.run(2)
    assert isinstance(late[0], KafkaTimeoutError)
    refused = lookup(talk)
    talk.find_coordinator()
    talk.committed(error="GROUP_AUTHORIZATION_FAILED")
    assert isinstance(refused[0], AuthorizationError)


def test_nothing_to_ask_means_nobody_is_looked_for(talk: Talk) -> None:
    talk.run(100)
    assert talk.pending(FindCoordinatorRequest) == []
