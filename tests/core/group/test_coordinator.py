"""Who coordinates the group, and what error codes mean to a member."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import LOST, Talk, tp

from pykafka4.core import ANY
from pykafka4.core.group.classic import MemberState
from pykafka4.core.group.coordinator import Reaction, reaction
from pykafka4.core.network.network import LANE
from pykafka4.error_table import BY_NAME, CODES
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_group import FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest

TELLER = ANY % LANE  # who answers questions to ANY here


def found(node: int = 1, error: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=None, node_id=node, host="h", port=1)


@pytest.fixture
def talk() -> Talk:
    talk = Talk(group_id="g", request_timeout_ms=30_000)
    talk.cluster.set("t", [1])
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.run()
    return talk


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("NONE", Reaction.NONE),
        ("NOT_COORDINATOR", Reaction.REFIND),
        ("COORDINATOR_NOT_AVAILABLE", Reaction.REFIND),
        ("COORDINATOR_LOAD_IN_PROGRESS", Reaction.RETRY),
        ("UNKNOWN_TOPIC_OR_PARTITION", Reaction.RETRY),
        ("UNSTABLE_OFFSET_COMMIT", Reaction.RETRY),
        ("REBALANCE_IN_PROGRESS", Reaction.REJOIN),
        ("ILLEGAL_GENERATION", Reaction.OUTDATED),
        ("UNKNOWN_MEMBER_ID", Reaction.STRANGER),
        ("FENCED_INSTANCE_ID", Reaction.FATAL),
        ("GROUP_AUTHORIZATION_FAILED", Reaction.FATAL),
    ],
)
def test_codes_mean_what_the_protocol_says(name: str, meaning: Reaction) -> None:
    assert reaction(BY_NAME[name].code) is meaning


def test_every_code_has_a_meaning_unknown_ones_too() -> None:
    assert all(isinstance(reaction(code), Reaction) for code in [*CODES, 32_767, -2])
    assert reaction(32_767) is Reaction.FATAL


def test_only_one_question_is_under_way(talk: Talk) -> None:
    talk.run()
    assert len(talk.pending(FindCoordinatorRequest)) == 1


@pytest.mark.parametrize("answer", [LOST, found(error=BY_NAME["COORDINATOR_NOT_AVAILABLE"].code)])
def test_the_question_is_repeated_after_a_pause_that_grows(talk: Talk, answer: object) -> None:
    pauses = []
    for _ in range(4):
        talk.answer(talk.one(FindCoordinatorRequest), answer)
        assert talk.pending(FindCoordinatorRequest) == []
        pauses.append(talk.wake_at - talk.now)
        talk.run(pauses[-1])
    assert pauses[0] == pytest.approx(0.1, rel=0.25)
    assert pauses[-1] == pytest.approx(0.8, rel=0.25)


def test_a_broker_that_is_silent_is_not_the_only_one_asked(talk: Talk) -> None:
    silent = talk.one(FindCoordinatorRequest)
    talk.run(talk.wake_at - talk.now)
    _, other = talk.pending(FindCoordinatorRequest)
    talk.answer(other, found(2))
    assert talk.machine.coordinator.node == 2
    talk.answer(silent, found(1))
    assert talk.machine.coordinator.node == 2


def test_a_coordinator_that_the_metadata_does_not_name_is_asked_for_again_with_fresh_metadata(talk: Talk) -> None:
    talk.answer(talk.one(FindCoordinatorRequest), found(node=9))
    assert talk.cluster.refreshes == 1
    assert talk.machine.coordinator.node is None
    talk.cluster.brokers[9] = None
    talk.run(1)
    talk.answer(talk.one(FindCoordinatorRequest), found(node=9))
    assert talk.machine.coordinator.node == 9


def test_a_refusal_for_good_ends_the_member(talk: Talk) -> None:
    talk.answer(talk.one(FindCoordinatorRequest), found(error=BY_NAME["GROUP_AUTHORIZATION_FAILED"].code))
    assert talk.machine.membership.state is MemberState.FATAL


def test_a_broker_that_reported_a_wrong_coordinator_is_avoided_until_one_responds(talk: Talk) -> None:
    talk.find_coordinator(2)
    talk.join(error="NOT_COORDINATOR")
    assert talk.network.avoided == [2, TELLER]
    talk.run(1)
    talk.find_coordinator(1)
    talk.join()
    talk.sync([tp(0)])
    talk.machine.coordinator.lost(talk.now, 1, LOST.reason)
    assert talk.machine.coordinator.node is None
    assert talk.network.avoided == [2, TELLER, 1]


def test_a_coordinator_that_lives_and_can_store_nothing_is_not_the_one_to_say_who_coordinates(talk: Talk) -> None:
    """Cut off from the others it answers heartbeats and names itself when it is asked."""
    talk.stable(tp(0))
    talk.committed()
    talk.machine.commit({tp(0): OffsetAndMetadata(7)}, talk.now + 60.0, lambda error: None)
    talk.run()
    for times in (1, 2, 3):
        talk.commits({tp(0): "REQUEST_TIMED_OUT"})
        assert talk.network.avoided.count(1) == times
        talk.run(1.5)
        talk.find_coordinator(1)
        talk.run(3.0)
        for request in talk.pending(HeartbeatRequest):
            talk.beat(request)


def test_a_broker_that_cannot_find_the_coordinator_is_avoided(talk: Talk) -> None:
    talk.answer(talk.one(FindCoordinatorRequest), found(-1, BY_NAME["COORDINATOR_NOT_AVAILABLE"].code))
    assert talk.network.avoided == [TELLER]


def test_losing_somebody_who_is_not_the_coordinator_any_more_changes_nothing(talk: Talk) -> None:
    talk.find_coordinator(2)
    talk.machine.coordinator.lost(talk.now, 1, LOST.reason)
    assert talk.machine.coordinator.node == 2


def checked(talk: Talk) -> Any:
    """The request that asks whether broker 1 still is the coordinator."""
    talk.find_coordinator(1)
    talk.machine.coordinator.check(talk.now, talk.now - 60.0)
    talk.run()
    return talk.one(FindCoordinatorRequest)


def test_a_check_that_names_the_same_coordinator_changes_nothing(talk: Talk) -> None:
    request, avoided = checked(talk), list(talk.network.avoided)
    assert request.deadline == talk.now + talk.config.request_timeout_ms / 1000
    talk.answer(request, found(1))
    assert talk.machine.coordinator.node == 1
    assert talk.network.avoided == avoided


def test_a_check_that_names_another_coordinator_is_believed(talk: Talk) -> None:
    talk.answer(checked(talk), found(2))
    assert talk.machine.coordinator.node == 2


def test_a_check_of_somebody_who_is_not_the_coordinator_any_more_changes_nothing(talk: Talk) -> None:
    request = checked(talk)
    talk.machine.coordinator.lost(talk.now, 1, LOST.reason)
    talk.machine.coordinator.want()
    talk.run(1.0)
    (question,) = [other for other in talk.pending(FindCoordinatorRequest) if other is not request]
    talk.answer(question, found(2))
    avoided = list(talk.network.avoided)
    talk.answer(request, found(3))
    assert talk.machine.coordinator.node == 2
    assert talk.network.avoided == avoided


def test_a_check_that_names_a_broker_unknown_to_the_metadata_has_the_coordinator_looked_for_at_once(talk: Talk) -> None:
    talk.stable(tp(0))
    talk.committed()
    talk.machine.coordinator.check(talk.now, talk.now - 60.0)
    talk.run()
    talk.answer(talk.one(FindCoordinatorRequest), found(9))
    assert talk.machine.coordinator.node is None
    talk.run(0.5)
    assert talk.one(FindCoordinatorRequest), "not before the next heartbeat is due"
