"""What the consumer does about every error code in every answer. The expectations are written by hand, not read off the table."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.errors import KafkaError
from pykafka4.errors.codes import CODES
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tests.core.consumer_harness import ConsumerHarness, code, tp

FIND_COORDINATOR = {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"}
GROUP_ONLY = {
    "UNKNOWN_MEMBER_ID": Reaction.STRANGER,
    "ILLEGAL_GENERATION": Reaction.OUTDATED,
    "REBALANCE_IN_PROGRESS": Reaction.REJOIN,
    "MEMBER_ID_REQUIRED": Reaction.NAMED,
    "FENCED_MEMBER_EPOCH": Reaction.OUTDATED,
    "STALE_MEMBER_EPOCH": Reaction.STALE,
}
# RetriableException and its children in Kafka's own clients.
PASSING = {
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_CONTROLLER",
    "CONCURRENT_TRANSACTIONS",
    "KAFKA_STORAGE_ERROR",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "LISTENER_NOT_FOUND",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "ELECTION_NOT_NEEDED",
    "UNSTABLE_OFFSET_COMMIT",
    "THROTTLING_QUOTA_EXCEEDED",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "FETCH_SESSION_TOPIC_ID_ERROR",
    "SHARE_SESSION_NOT_FOUND",
    "INVALID_SHARE_SESSION_EPOCH",
    "SHARE_SESSION_LIMIT_REACHED",
}
# Rights that may be granted at any time.
DENIED = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
}
NAMES = sorted(row.name for row in CODES.values() if row.code != 0)


def expected(name: str) -> Reaction:
    if name in GROUP_ONLY:
        return GROUP_ONLY[name]
    if name in FIND_COORDINATOR:
        return Reaction.REFIND
    if name in DENIED:
        return Reaction.DENIED
    return Reaction.RETRY if name in PASSING or name == "UNKNOWN_SERVER_ERROR" else Reaction.FATAL


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=3_000)
    harness.cluster.set("t", [1])
    return harness


@pytest.mark.parametrize("name", NAMES)
def test_what_a_code_means_to_a_member(name: str) -> None:
    assert reaction(code(name)) is expected(name)


@pytest.mark.parametrize("number", [-2, 137, 32_767])
def test_a_code_of_a_later_kafka_is_not_retried(number: int) -> None:
    assert reaction(number) is Reaction.FATAL


@pytest.mark.parametrize("name", NAMES)
def test_join_group(harness: ConsumerHarness, name: str) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator(1)
    harness.join(member="m-1", error="MEMBER_ID_REQUIRED")
    harness.join(member="m-1", error=name)
    meaning = expected(name)
    if meaning is Reaction.FATAL:
        assert harness.machine.membership.state is MemberState.FATAL
        harness.reader.drain()
        assert harness.reader.fatal is not None
        assert name in str(harness.reader.fatal)
        return
    assert harness.pending(JoinGroupRequest) == []  # never again at once
    harness.run(1)
    if meaning is Reaction.REFIND:
        assert harness.pending(JoinGroupRequest) == []
        harness.find_coordinator(2)
        harness.run(1)
    assert harness.one(JoinGroupRequest).message.member_id == ("" if meaning is Reaction.STRANGER else "m-1")


@pytest.mark.parametrize("name", NAMES)
def test_sync_group(harness: ConsumerHarness, name: str) -> None:
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.find_coordinator(1)
    harness.join(member="m-1")
    harness.sync(error=name)
    meaning = expected(name)
    at_once = {Reaction.FATAL: MemberState.FATAL, Reaction.REJOIN: MemberState.JOINING}  # the next round has begun: the group waits for it
    assert harness.machine.membership.state is at_once.get(meaning, MemberState.UNJOINED)
    assert harness.machine.membership.protocol.member_id == ("" if meaning is Reaction.STRANGER else "m-1")
    assert harness.machine.coordinator.node == (None if meaning is Reaction.REFIND else 1)


@pytest.mark.parametrize("name", NAMES)
def test_heartbeat(harness: ConsumerHarness, name: str) -> None:
    """Only what is about the member costs its partitions; a failing coordinator costs nothing."""
    harness.stable(tp(0))
    harness.run(3)
    harness.beat(harness.one(HeartbeatRequest), name)
    meaning = expected(name)
    lost = meaning in (Reaction.STRANGER, Reaction.OUTDATED, Reaction.FATAL, Reaction.NAMED)
    ending = "LOST" if lost else "REVOKED" if meaning is Reaction.REJOIN else None
    assert [ended.ending.name for ended in harness.machine.membership._ending] == ([] if ending is None else [ending])
    assert harness.pending(HeartbeatRequest) == []
    assert harness.machine.coordinator.node == (None if meaning is Reaction.REFIND else 1)


def commit(harness: ConsumerHarness, name: str) -> list[Any]:
    outcomes: list[Any] = []
    harness.machine.commit({tp(0): OffsetAndMetadata(1)}, harness.now + 60, outcomes.append)
    harness.run()
    harness.commits({tp(0): name})
    return outcomes


@pytest.mark.parametrize("name", NAMES)
def test_offset_commit(harness: ConsumerHarness, name: str) -> None:
    harness.stable(tp(0))
    outcomes = commit(harness, name)
    meaning, membership = expected(name), harness.machine.membership
    if meaning in (Reaction.RETRY, Reaction.STALE, Reaction.REFIND):
        assert outcomes == []  # it is sent again
        assert harness.pending(OffsetCommitRequest) == []
        assert membership.state is MemberState.STABLE
        harness.run(1)
        if meaning is Reaction.REFIND:
            harness.find_coordinator(2)
        harness.run(1)
        harness.commits()
        assert outcomes == [None]
        return
    assert name in str(outcomes[0])
    fatal = {"FENCED_INSTANCE_ID": MemberState.FATAL, "GROUP_ID_NOT_FOUND": MemberState.UNJOINED}
    states = {
        Reaction.REJOIN: MemberState.REVOKING,
        Reaction.FATAL: fatal.get(name, MemberState.STABLE),
        Reaction.DENIED: MemberState.STABLE,
    }
    assert membership.state is states.get(meaning, MemberState.UNJOINED)


@pytest.mark.parametrize("name", NAMES)
def test_offset_fetch(harness: ConsumerHarness, name: str) -> None:
    found: list[Any] = []
    harness.machine.offsets.lookup([tp(0)], harness.now + 60, lambda now, answer: found.append(answer))
    harness.find_coordinator(1)
    harness.committed(error=name)
    meaning = expected(name)
    assert harness.pending(OffsetFetchRequest) == []
    if meaning not in (Reaction.RETRY, Reaction.STALE, Reaction.REFIND):
        assert isinstance(found[0], KafkaError)
        return
    assert found == []
    harness.run(1)
    if meaning is Reaction.REFIND:
        harness.find_coordinator(2)
    harness.run(1)
    harness.committed({tp(0): 7})
    assert found == [{tp(0): OffsetAndMetadata(7)}]


@pytest.mark.parametrize("name", NAMES)
def test_leave_group(harness: ConsumerHarness, name: str) -> None:
    """Whatever the answer, the member has left: a coordinator that did not get the request ends the session by itself."""
    harness.stable(tp(0))
    done: list[bool] = []
    harness.machine.leave(harness.now, 5, lambda: done.append(True))
    harness.run()
    request = harness.one(LeaveGroupRequest)
    harness.answer(request, LeaveGroupResponse(error_code=code(name), members=[]))
    assert done == [True]
    assert harness.machine.membership.state is MemberState.UNJOINED
    harness.run(10)
    assert harness.pending(LeaveGroupRequest) == []
    assert done == [True]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "OFFSET_OUT_OF_RANGE"])
def test_fetch(harness: ConsumerHarness, name: str) -> None:
    """What passes is waited out in silence; the rest is raised once, and so is a damaged log. All are asked for again."""
    harness.assign(tp(0), start=7)
    harness.fetched(harness.fetch_at(1), {tp(0): name})
    assert harness.pending(FetchRequest) == []
    told = None
    try:
        harness.poll()
    except KafkaError as error:
        told = str(error)
    if (name in PASSING and name != "CORRUPT_MESSAGE") or name == "UNKNOWN_SERVER_ERROR":
        assert told is None
    else:
        assert told is not None
        assert name in told
    harness.recovery.bring_back()
    harness.run(1.3)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 7}


@pytest.mark.parametrize("name", NAMES)
def test_list_offsets(harness: ConsumerHarness, name: str) -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    harness.assign(tp(0))
    harness.ends(error=name)
    assert harness.pending(ListOffsetsRequest) == []
    told = None
    try:
        harness.poll()
    except KafkaError as error:
        told = str(error)
    assert (told is None) == (name in PASSING or name == "UNKNOWN_SERVER_ERROR")
    harness.recovery.bring_back()
    harness.run()
    harness.ends(5)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 5}
