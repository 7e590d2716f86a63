"""Commits and lookups of committed offsets, with scripted answers of the coordinator."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pykafka4.core import INFINITY, Failed
from pykafka4.core.group.committing.offsets import LATE_S, MOST_WAITING, UNKNOWN_S
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.errors import AuthorizationError, BrokerError, ClosedError, GroupError, KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, Written
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest, OffsetFetchRequest
from tests.core.consumer_harness import LOST, ConsumerHarness, tp


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False, request_timeout_ms=30_000)
    harness.cluster.set("t", [1, 1])
    return harness


class Outcomes(list[Any]):
    """What became of commits."""


def commit(harness: ConsumerHarness, offsets: dict[Any, int], timeout: float = 60) -> Outcomes:
    outcomes = Outcomes()
    harness.machine.commit({p: OffsetAndMetadata(o, 3, "note") for p, o in offsets.items()}, harness.now + timeout, outcomes.append)
    harness.run()
    return outcomes


def joined(harness: ConsumerHarness) -> None:
    harness.stable(tp(0), tp(1))
    harness.committed()
    harness.ends()
    harness.reader.enter()


# ---------------------------------------------------------------- commits


def test_a_commit_carries_epoch_metadata_and_membership(harness: ConsumerHarness) -> None:
    joined(harness)
    outcomes = commit(harness, {tp(0): 5})
    message = harness.one(OffsetCommitRequest).message
    assert (message.group_id, message.generation_id_or_member_epoch, message.member_id) == ("g", 1, "m")
    part = message.topics[0].partitions[0]
    assert (part.partition_index, part.committed_offset, part.committed_leader_epoch, part.committed_metadata) == (0, 5, 3, "note")
    assert outcomes == []
    harness.commits()
    assert outcomes == [None]
    assert harness.machine.offsets.stored[tp(0)] == 5


def test_without_membership_a_commit_carries_no_generation(harness: ConsumerHarness) -> None:
    commit(harness, {tp(0): 5})
    harness.find_coordinator()
    message = harness.one(OffsetCommitRequest).message
    assert (message.generation_id_or_member_epoch, message.member_id, message.group_instance_id) == (-1, "", None)


def test_commits_go_one_after_the_other_so_that_none_overtakes_a_newer_one(harness: ConsumerHarness) -> None:
    first = commit(harness, {tp(0): 1})
    second = commit(harness, {tp(0): 2})
    harness.find_coordinator()
    harness.answer(harness.one(OffsetCommitRequest), LOST)
    harness.run(1)
    harness.find_coordinator()
    harness.run(1)
    assert harness.commits() == {tp(0): 1}
    assert (first, second) == ([None], [])
    assert harness.commits() == {tp(0): 2}
    assert second == [None]


def test_the_pause_of_a_commit_that_ran_out_of_time_is_not_that_of_the_next(harness: ConsumerHarness) -> None:
    first, second = commit(harness, {tp(0): 1}, timeout=0.05), commit(harness, {tp(0): 2})
    harness.find_coordinator()
    harness.commits({tp(0): "COORDINATOR_LOAD_IN_PROGRESS"})
    harness.run(0.05)
    assert isinstance(first[0], KafkaTimeoutError)
    assert harness.commits() == {tp(0): 2}
    assert second == [None]


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_SERVER_ERROR"])
def test_only_what_was_refused_for_now_is_sent_again(harness: ConsumerHarness, error: str) -> None:
    outcomes = commit(harness, {tp(0): 1, tp(1): 2})
    harness.find_coordinator()
    harness.commits({tp(1): error})
    assert outcomes == []
    harness.run(1)
    assert harness.commits() == {tp(1): 2}
    assert outcomes == [None]


def test_commits_wait_only_so_long_behind_one_of_a_deleted_partition(harness: ConsumerHarness) -> None:
    first, second = commit(harness, {tp(0): 1, tp(0, "gone"): 2}), commit(harness, {tp(1): 3})
    harness.find_coordinator()
    began = harness.now
    while not first:
        assert harness.now - began <= UNKNOWN_S + 2
        harness.commits({tp(0, "gone"): "UNKNOWN_TOPIC_OR_PARTITION"})
        harness.run(0.5)
        harness.run(0.5)
    assert harness.now - began >= UNKNOWN_S
    (error,) = first
    assert isinstance(error, BrokerError)
    assert "commit of gone-0" in str(error)
    assert harness.machine.offsets.stored == {tp(0): 1}
    assert harness.commits() == {tp(1): 3}
    assert second == [None]


def test_a_commit_of_a_topic_that_the_metadata_says_is_gone_is_refused_at_once(harness: ConsumerHarness) -> None:
    harness.cluster.set("gone", error="UNKNOWN_TOPIC_OR_PARTITION")
    first, second = commit(harness, {tp(0): 1, tp(0, "gone"): 2}), commit(harness, {tp(1): 3})
    harness.find_coordinator()
    harness.commits({tp(0, "gone"): "UNKNOWN_TOPIC_OR_PARTITION"})
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(first[0])
    assert harness.commits() == {tp(1): 3}
    assert second == [None]


def test_a_partition_that_the_answer_leaves_out_is_not_stored(harness: ConsumerHarness) -> None:
    outcomes = commit(harness, {tp(0): 1})
    harness.find_coordinator()
    request = harness.one(OffsetCommitRequest)
    harness.answer(request, type(request.message).response(topics=[]))
    assert outcomes == []
    harness.run(1)
    assert harness.commits() == {tp(0): 1}


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT"])
def test_a_commit_follows_the_coordinator(harness: ConsumerHarness, error: str) -> None:
    outcomes = commit(harness, {tp(0): 1})
    harness.find_coordinator(1)
    harness.commits({tp(0): error})
    harness.run(1)
    harness.find_coordinator(2)
    harness.run(1)
    harness.commits()
    assert outcomes == [None]


@pytest.mark.parametrize(
    ("error", "after", "hint"),
    [
        ("UNKNOWN_MEMBER_ID", MemberState.UNJOINED, "removed this member"),
        ("ILLEGAL_GENERATION", MemberState.UNJOINED, "has rebalanced without this member"),
        ("REBALANCE_IN_PROGRESS", MemberState.REVOKING, "is rebalancing"),
        ("FENCED_INSTANCE_ID", MemberState.FATAL, "FENCED_INSTANCE_ID"),
    ],
)
def test_an_error_of_the_member_in_a_commit_answer_is_raised_and_acted_on(
    harness: ConsumerHarness, error: str, after: MemberState, hint: str
) -> None:
    joined(harness)
    outcomes = commit(harness, {tp(0): 1})
    harness.commits({tp(0): error})
    assert isinstance(outcomes[0], BrokerError)
    assert hint in str(outcomes[0])
    assert harness.machine.membership.state is after


@pytest.mark.parametrize(
    "error", ["OFFSET_METADATA_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "INVALID_COMMIT_OFFSET_SIZE"]
)
def test_an_error_of_the_commit_alone_ends_the_commit_only(harness: ConsumerHarness, error: str) -> None:
    joined(harness)
    outcomes = commit(harness, {tp(0): 1})
    harness.commits({tp(0): error})
    assert error in str(outcomes[0])
    assert harness.machine.membership.state is MemberState.STABLE


def test_a_commit_from_outside_into_a_group_with_members_says_so(harness: ConsumerHarness) -> None:
    outcomes = commit(harness, {tp(0): 1})
    harness.find_coordinator()
    harness.commits({tp(0): "UNKNOWN_MEMBER_ID"})
    assert isinstance(outcomes[0], GroupError)
    assert "has active members" in str(outcomes[0])


def test_a_commit_of_lost_partitions_is_refused_without_asking(harness: ConsumerHarness) -> None:
    joined(harness)
    harness.machine.membership.lost([tp(0)], "the session was over")
    outcomes = commit(harness, {tp(0): 1})
    assert isinstance(outcomes[0], GroupError)
    assert "the session was over" in str(outcomes[0])
    assert harness.pending(OffsetCommitRequest) == []


def test_a_commit_out_of_time_says_whether_it_may_be_stored(harness: ConsumerHarness) -> None:
    unsent = commit(harness, {tp(0): 1}, timeout=2)
    harness.run(2)
    assert isinstance(unsent[0], KafkaTimeoutError)
    assert "it was not sent" in str(unsent[0])
    sent = commit(harness, {tp(0): 1, tp(1): 1}, timeout=2)
    harness.find_coordinator()
    harness.run(2.1)
    assert "commit of t-0, t-1: timed out, it may have been stored" in str(sent[0])


def test_a_commit_out_of_time_says_what_was_seen_last(harness: ConsumerHarness) -> None:
    outcomes = commit(harness, {tp(0): 1}, timeout=2)
    harness.run(2)
    assert "(last error: none)" in str(outcomes[0])
    outcomes = commit(harness, {tp(0): 1}, timeout=2)
    harness.answer(harness.pending(FindCoordinatorRequest)[0], LOST)
    harness.run(2)
    assert "(last error: 127.0.0.1:9092: connection refused)" in str(outcomes[0])


def test_a_commit_behind_one_that_hangs_waits_for_its_answer(harness: ConsumerHarness) -> None:
    """Sent at once it could be overtaken by the hanging one."""
    commit(harness, {tp(0): 1}, timeout=2)
    harness.find_coordinator()
    hanging = harness.one(OffsetCommitRequest)
    later = commit(harness, {tp(0): 2})
    harness.run(3)
    assert harness.pending(OffsetCommitRequest) == [hanging]
    harness.commits()
    harness.commits()
    assert later == [None]


def test_a_lost_commit_behind_one_that_hangs_fails_at_once(harness: ConsumerHarness) -> None:
    joined(harness)
    first = commit(harness, {tp(0): 1}, timeout=2)
    lost = commit(harness, {tp(0): 2})
    harness.run(2)
    assert isinstance(first[0], KafkaTimeoutError)
    assert lost == []
    harness.machine.membership.lost([tp(0)], "the session was over")
    harness.run()
    assert isinstance(lost[0], GroupError)
    assert "the session was over" in str(lost[0])


def test_too_many_commits_in_line_are_refused(harness: ConsumerHarness) -> None:
    outcomes = Outcomes()
    for offset in range(MOST_WAITING + 1):
        harness.machine.commit({tp(0): OffsetAndMetadata(offset)}, harness.now + 60, outcomes.append)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], KafkaError)


def test_a_broker_too_old_ends_the_commit(harness: ConsumerHarness) -> None:
    outcomes = commit(harness, {tp(0): 1})
    harness.find_coordinator()
    harness.answer(harness.one(OffsetCommitRequest), Failed(UnsupportedVersion("OffsetCommit: too old"), Written.NO))
    assert isinstance(outcomes[0], UnsupportedVersion)


def test_a_crash_fails_every_pending_commit_and_lookup(harness: ConsumerHarness) -> None:
    outcomes = commit(harness, {tp(0): 1})
    answers: list[Any] = []
    harness.machine.offsets.lookup([tp(0)], harness.now + 60, lambda now, found: answers.append(found))
    reason = KafkaError("the loop crashed")
    harness.machine.crash(reason)
    assert outcomes == [reason]
    assert answers == [reason]
    with pytest.raises(KafkaError, match="the loop crashed"):
        raise_what_poll_raises(harness)


def test_a_removed_consumer_fails_commits_and_lookups_by_whether_they_may_be_stored(harness: ConsumerHarness) -> None:
    sent = commit(harness, {tp(0): 1})
    harness.find_coordinator()
    waiting = commit(harness, {tp(1): 1})
    found: list[Any] = []
    harness.machine.offsets.lookup([tp(0)], harness.now + 60, lambda now, answer: found.append(answer))
    request = harness.one(OffsetCommitRequest)
    harness.machine.dispose()
    late = commit(harness, {tp(0): 2})
    harness.machine.offsets.lookup([tp(1)], harness.now + 60, lambda now, answer: found.append(answer))
    for outcomes, what in ((sent, "t-0: .* may have been stored"), (waiting, "t-1: .* it was not sent"), (late, "t-0: .* it was not sent")):
        (error,) = outcomes
        assert isinstance(error, ClosedError)
        assert re.search(what, str(error))
    assert [type(answer) for answer in found] == [ClosedError, ClosedError]
    assert request in harness.sent
    harness.commits()  # its answer comes too late for anybody
    assert len(sent) == 1


def raise_what_poll_raises(harness: ConsumerHarness) -> None:
    harness.reader.drain()
    assert harness.reader.fatal is not None
    raise harness.reader.fatal


# ---------------------------------------------------------------- auto-commit


@pytest.fixture
def auto() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", auto_commit_interval_ms=5_000)
    harness.cluster.set("t", [1, 1])
    return harness


def test_auto_commit_stores_what_is_finished_and_only_what_changed(auto: ConsumerHarness) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    assert auto.commits() == {tp(0): 5}
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []
    auto.reader.finished[tp(1)] = (7, 0)
    auto.run(5)
    assert auto.commits() == {tp(1): 7}


def test_auto_commit_leaves_out_what_the_application_has_to_release(auto: ConsumerHarness) -> None:
    joined(auto)
    auto.reader.finished.update({tp(0): (5, 0), tp(1): (6, 0)})
    auto.machine.membership.revoke([tp(0)], INFINITY, "for this test")
    auto.run(5)
    assert auto.commits() == {tp(1): 6}


def test_auto_commit_of_a_subscribed_consumer_waits_until_it_is_a_member(auto: ConsumerHarness, caplog: pytest.LogCaptureFixture) -> None:
    auto.machine.membership.subscribe(("t",))
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []
    assert "auto-commit failed" not in caplog.text


def test_an_auto_commit_that_fails_is_logged_and_tried_again(auto: ConsumerHarness, caplog: pytest.LogCaptureFixture) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    auto.commits({tp(0): "OFFSET_METADATA_TOO_LARGE"})
    assert "auto-commit failed" in caplog.text
    auto.run(5)
    assert auto.commits() == {tp(0): 5}


def test_auto_commit_repeats_itself_while_a_lost_commit_may_still_be_executed(auto: ConsumerHarness) -> None:
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
    for _ in range(int(LATE_S // 5)):
        auto.run(5)
        if auto.pending(OffsetCommitRequest):
            auto.commits()
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []


def test_only_one_auto_commit_is_under_way(auto: ConsumerHarness) -> None:
    joined(auto)
    auto.reader.finished[tp(0)] = (5, 0)
    auto.run(5)
    auto.reader.finished[tp(0)] = (6, 0)
    auto.run(5)
    assert auto.commits() == {tp(0): 5}
    assert auto.pending(OffsetCommitRequest) == []
    auto.run(5)
    assert auto.commits() == {tp(0): 6}


def test_the_last_commit_follows_an_older_offset_that_waits(auto: ConsumerHarness) -> None:
    """The application went back, committed, and read up to the offset that was stored before."""
    joined(auto)
    commit(auto, {tp(0): 5})
    assert auto.commits() == {tp(0): 5}
    commit(auto, {tp(0): 3})
    outcomes: list[Any] = []
    auto.machine.commit_last({tp(0): OffsetAndMetadata(5, 0)}, auto.now + 10, outcomes.append)
    auto.run()
    assert auto.commits() == {tp(0): 3}
    assert outcomes == []
    assert auto.commits() == {tp(0): 5}
    assert outcomes == [None]


def texts(harness: ConsumerHarness) -> list[str]:
    """Of the commit under way, which is answered."""
    parts = [part for topic in harness.one(OffsetCommitRequest).message.topics for part in topic.partitions]
    harness.commits()
    return [part.committed_metadata for part in parts]


def last_commit(harness: ConsumerHarness, offset: int) -> list[Any]:
    outcomes: list[Any] = []
    harness.machine.commit_last({tp(0): OffsetAndMetadata(offset, 0)}, harness.now + 10, outcomes.append)
    harness.run()
    return outcomes


def test_the_last_commit_leaves_the_text_of_a_commit_before_it_and_waits_for_that(auto: ConsumerHarness) -> None:
    joined(auto)
    own = commit(auto, {tp(0): 5})
    last = last_commit(auto, 5)
    assert (own, last) == ([], [])
    assert texts(auto) == ["note"]
    auto.run()
    assert (own, last, auto.pending(OffsetCommitRequest)) == ([None], [None], [])


def test_the_last_commit_is_sent_if_the_one_before_it_fails(auto: ConsumerHarness) -> None:
    joined(auto)
    commit(auto, {tp(0): 5})
    last = last_commit(auto, 5)
    auto.commits({tp(0): "OFFSET_METADATA_TOO_LARGE"})
    assert texts(auto) == [""]
    assert last == [None]


def test_auto_commit_leaves_the_text_of_a_commit_that_waits(auto: ConsumerHarness) -> None:
    joined(auto)
    commit(auto, {tp(0): 5})
    auto.reader.finished.update({tp(0): (5, 0), tp(1): (7, 0)})
    auto.run(5)
    assert texts(auto) == ["note"]
    assert auto.commits() == {tp(1): 7}
    auto.run(5)
    assert auto.pending(OffsetCommitRequest) == []


def test_auto_commit_repeats_the_text_while_a_lost_commit_may_still_be_executed(auto: ConsumerHarness) -> None:
    joined(auto)
    commit(auto, {tp(0): 5})
    auto.answer(auto.one(OffsetCommitRequest), LOST)
    auto.run(1)
    auto.find_coordinator()
    auto.reader.finished[tp(0)] = (5, 0)
    for _ in range(2):
        assert texts(auto) == ["note"]
        auto.run(5)
    auto.reader.finished[tp(0)] = (6, 0)
    texts(auto)
    auto.run(5)
    assert texts(auto) == [""]


# ---------------------------------------------------------------- lookups


def lookup(harness: ConsumerHarness, timeout: float = 60) -> list[Any]:
    answers: list[Any] = []
    harness.machine.offsets.lookup([tp(0), tp(1)], harness.now + timeout, lambda now, found: answers.append(found))
    harness.run()
    return answers


def test_a_lookup_returns_the_offset_or_none(harness: ConsumerHarness) -> None:
    answers = lookup(harness)
    harness.find_coordinator()
    harness.committed({tp(1): 9})
    assert answers == [{tp(0): None, tp(1): OffsetAndMetadata(9)}]


@pytest.mark.parametrize(("version", "stable"), [(7, True), (6, False)])
def test_the_stable_committed_offset_is_requested_where_the_broker_supports_it(
    harness: ConsumerHarness, version: int, stable: bool
) -> None:
    lookup(harness)
    harness.find_coordinator()
    assert harness.as_sent(OffsetFetchRequest, version).require_stable is stable


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT", "UNKNOWN_SERVER_ERROR"])
def test_a_lookup_is_repeated_after_a_pause(harness: ConsumerHarness, error: str) -> None:
    answers = lookup(harness)
    harness.find_coordinator()
    harness.committed(error=error)
    assert harness.pending(OffsetFetchRequest) == []
    harness.run(1)
    harness.committed({tp(0): 1, tp(1): 1})
    assert len(answers) == 1


def test_a_lookup_follows_the_coordinator(harness: ConsumerHarness) -> None:
    answers = lookup(harness)
    harness.find_coordinator(1)
    assert harness.one(OffsetFetchRequest).deadline == harness.now + harness.config.request_timeout_ms / 1000
    harness.committed(error="NOT_COORDINATOR")
    harness.run(1)
    harness.find_coordinator(2)
    harness.answer(harness.one(OffsetFetchRequest), LOST)
    harness.run(1)
    harness.find_coordinator(1)
    harness.run(1)
    harness.committed()
    assert len(answers) == 1


def test_a_lookup_refused_for_good_or_out_of_time_returns_the_error(harness: ConsumerHarness) -> None:
    late = lookup(harness, timeout=2)
    harness.run(2)
    assert isinstance(late[0], KafkaTimeoutError)
    refused = lookup(harness)
    harness.find_coordinator()
    harness.committed(error="GROUP_AUTHORIZATION_FAILED")
    assert isinstance(refused[0], AuthorizationError)


def test_without_offsets_to_fetch_no_coordinator_is_looked_up(harness: ConsumerHarness) -> None:
    harness.run(100)
    assert harness.pending(FindCoordinatorRequest) == []
