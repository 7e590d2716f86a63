"""What the consumer does about every error code in every answer. The expectations are written by hand, not read off the table."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import Talk, code, tp

from pykafka4.core.group.classic import MemberState
from pykafka4.core.group.coordinator import Reaction, reaction
from pykafka4.error_table import CODES
from pykafka4.errors import KafkaError
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

FIND_COORDINATOR = {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"}
GROUP_ONLY = {
    "UNKNOWN_MEMBER_ID": Reaction.STRANGER,
    "ILLEGAL_GENERATION": Reaction.OUTDATED,
    "REBALANCE_IN_PROGRESS": Reaction.REJOIN,
    "MEMBER_ID_REQUIRED": Reaction.NAMED,
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
NAMES = sorted(row.name for row in CODES.values() if row.code != 0)


def expected(name: str) -> Reaction:
    if name in GROUP_ONLY:
        return GROUP_ONLY[name]
    if name in FIND_COORDINATOR:
        return Reaction.REFIND
    return Reaction.RETRY if name in PASSING or name == "UNKNOWN_SERVER_ERROR" else Reaction.FATAL


@pytest.fixture
def talk() -> Talk:
    talk = Talk(group_id="g", enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=3_000)
    talk.cluster.set("t", [1])
    return talk


@pytest.mark.parametrize("name", NAMES)
def test_what_a_code_means_to_a_member(name: str) -> None:
    assert reaction(code(name)) is expected(name)


@pytest.mark.parametrize("number", [-2, 137, 32_767])
def test_a_code_of_a_later_kafka_is_not_retried(number: int) -> None:
    assert reaction(number) is Reaction.FATAL


@pytest.mark.parametrize("name", NAMES)
def test_join_group(talk: Talk, name: str) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator(1)
    talk.join(member="m-1", error="MEMBER_ID_REQUIRED")
    talk.join(member="m-1", error=name)
    meaning = expected(name)
    if meaning is Reaction.FATAL:
        assert talk.machine.membership.state is MemberState.FATAL
        talk.reader.drain()
        assert talk.reader.fatal is not None
        assert name in str(talk.reader.fatal)
        return
    assert talk.pending(JoinGroupRequest) == []  # never again at once
    talk.run(1)
    if meaning is Reaction.REFIND:
        assert talk.pending(JoinGroupRequest) == []
        talk.find_coordinator(2)
        talk.run(1)
    assert talk.one(JoinGroupRequest).message.member_id == ("" if meaning is Reaction.STRANGER else "m-1")


@pytest.mark.parametrize("name", NAMES)
def test_sync_group(talk: Talk, name: str) -> None:
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator(1)
    talk.join(member="m-1")
    talk.sync(error=name)
    meaning = expected(name)
    state = MemberState.FATAL if meaning is Reaction.FATAL else MemberState.UNJOINED
    assert talk.machine.membership.state is state
    assert talk.machine.membership.protocol.member_id == ("" if meaning is Reaction.STRANGER else "m-1")
    assert talk.machine.coordinator.node == (None if meaning is Reaction.REFIND else 1)


@pytest.mark.parametrize("name", NAMES)
def test_heartbeat(talk: Talk, name: str) -> None:
    """Only what is about the member costs its partitions; a coordinator in trouble costs nothing."""
    talk.stable(tp(0))
    talk.run(3)
    talk.beat(talk.one(HeartbeatRequest), name)
    meaning = expected(name)
    lost = meaning in (Reaction.STRANGER, Reaction.OUTDATED, Reaction.FATAL, Reaction.NAMED)
    ending = "LOST" if lost else "REVOKED" if meaning is Reaction.REJOIN else None
    assert [ended.ending.name for ended in talk.machine.membership._ending] == ([] if ending is None else [ending])
    assert talk.pending(HeartbeatRequest) == []
    assert talk.machine.coordinator.node == (None if meaning is Reaction.REFIND else 1)


def commit(talk: Talk, name: str) -> list[Any]:
    outcomes: list[Any] = []
    talk.machine.commit({tp(0): OffsetAndMetadata(1)}, talk.now + 60, outcomes.append)
    talk.run()
    talk.commits({tp(0): name})
    return outcomes


@pytest.mark.parametrize("name", NAMES)
def test_offset_commit(talk: Talk, name: str) -> None:
    talk.stable(tp(0))
    outcomes = commit(talk, name)
    meaning, membership = expected(name), talk.machine.membership
    if meaning in (Reaction.RETRY, Reaction.REFIND):
        assert outcomes == []  # it is sent again
        assert talk.pending(OffsetCommitRequest) == []
        assert membership.state is MemberState.STABLE
        talk.run(1)
        if meaning is Reaction.REFIND:
            talk.find_coordinator(2)
        talk.run(1)
        talk.commits()
        assert outcomes == [None]
        return
    assert name in str(outcomes[0])
    ends = name in ("FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED")
    states = {Reaction.REJOIN: MemberState.REVOKING, Reaction.FATAL: MemberState.FATAL if ends else MemberState.STABLE}
    assert membership.state is states.get(meaning, MemberState.UNJOINED)


@pytest.mark.parametrize("name", NAMES)
def test_offset_fetch(talk: Talk, name: str) -> None:
    found: list[Any] = []
    talk.machine.offsets.lookup([tp(0)], talk.now + 60, lambda now, answer: found.append(answer))
    talk.find_coordinator(1)
    talk.committed(error=name)
    meaning = expected(name)
    assert talk.pending(OffsetFetchRequest) == []
    if meaning not in (Reaction.RETRY, Reaction.REFIND):
        assert isinstance(found[0], KafkaError)
        return
    assert found == []
    talk.run(1)
    if meaning is Reaction.REFIND:
        talk.find_coordinator(2)
    talk.run(1)
    talk.committed({tp(0): 7})
    assert found == [{tp(0): OffsetAndMetadata(7)}]


@pytest.mark.parametrize("name", NAMES)
def test_leave_group(talk: Talk, name: str) -> None:
    """Whatever the answer, the member has left: a coordinator that did not hear it ends the session by itself."""
    talk.stable(tp(0))
    done: list[bool] = []
    talk.machine.leave(talk.now, 5, lambda: done.append(True))
    talk.run()
    request = talk.one(LeaveGroupRequest)
    talk.answer(request, LeaveGroupResponse(error_code=code(name), members=[]))
    assert done == [True]
    assert talk.machine.membership.state is MemberState.UNJOINED
    talk.run(10)
    assert talk.pending(LeaveGroupRequest) == []
    assert done == [True]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "OFFSET_OUT_OF_RANGE"])
def test_fetch(talk: Talk, name: str) -> None:
    """What passes is waited out in silence; the rest is raised once, and so is a damaged log. All are asked for again."""
    talk.assign(tp(0), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): name})
    assert talk.pending(FetchRequest) == []
    told = None
    try:
        talk.poll()
    except KafkaError as error:
        told = str(error)
    if (name in PASSING and name != "CORRUPT_MESSAGE") or name == "UNKNOWN_SERVER_ERROR":
        assert told is None
    else:
        assert told is not None
        assert name in told
    talk.recovery.bring_back()
    talk.run(1.3)
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 7}


@pytest.mark.parametrize("name", NAMES)
def test_list_offsets(talk: Talk, name: str) -> None:
    talk = Talk()
    talk.cluster.set("t", [1])
    talk.assign(tp(0))
    talk.ends(error=name)
    assert talk.pending(ListOffsetsRequest) == []
    told = None
    try:
        talk.poll()
    except KafkaError as error:
        told = str(error)
    assert (told is None) == (name in PASSING or name == "UNKNOWN_SERVER_ERROR")
    talk.recovery.bring_back()
    talk.run()
    talk.ends(5)
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 5}
