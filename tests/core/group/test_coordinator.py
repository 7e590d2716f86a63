"""The coordinator: how it is looked up, and what error codes mean to a member."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import ANY
from pykafka4.core.group.committing.offsets import Commit
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.reactions import Reaction, reaction
from pykafka4.core.network.network import LANE
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.errors.codes import BY_NAME, CODES
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_group import HeartbeatRequest
from tests.core.consumer_harness import LOST, ConsumerHarness, tp

TELLER = ANY % LANE  # the broker that responds to requests to ANY here


def found(node: int = 1, error: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=None, node_id=node, host="h", port=1)


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", request_timeout_ms=30_000)
    harness.cluster.set("t", [1])
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.run()
    return harness


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
        ("GROUP_AUTHORIZATION_FAILED", Reaction.DENIED),
    ],
)
def test_codes_mean_what_the_protocol_says(name: str, meaning: Reaction) -> None:
    assert reaction(BY_NAME[name].code) is meaning


def test_every_code_has_a_meaning_unknown_ones_too() -> None:
    assert all(isinstance(reaction(code), Reaction) for code in [*CODES, 32_767, -2])
    assert reaction(32_767) is Reaction.FATAL


def test_only_one_lookup_is_in_flight(harness: ConsumerHarness) -> None:
    harness.run()
    assert len(harness.pending(FindCoordinatorRequest)) == 1


def test_a_new_coordinator_that_does_not_know_it_yet_is_asked_again_soon(harness: ConsumerHarness) -> None:
    """The lookups before took long, as there was none: their backoff has grown. The same broker once more is no news."""
    coordinator = harness.machine.coordinator

    def pause_after(node: int) -> float:
        """Until the next lookup, after this broker was named and refuses."""
        harness.answer(harness.one(FindCoordinatorRequest), found(node))
        assert coordinator.node == node
        coordinator.lost(harness.now, node, KafkaError("NOT_COORDINATOR"))
        coordinator.want()
        since = harness.now
        while not harness.pending(FindCoordinatorRequest):
            harness.run(0.01)
        return harness.now - since

    grown = [pause_after(1) for _ in range(6)][-1]
    assert grown > 0.7
    assert pause_after(2) < 0.2
    assert 0.1 < pause_after(2) < 0.4


@pytest.mark.parametrize("answer", [LOST, found(error=BY_NAME["COORDINATOR_NOT_AVAILABLE"].code)])
def test_the_lookup_is_repeated_with_a_growing_back_off(harness: ConsumerHarness, answer: object) -> None:
    pauses = []
    for _ in range(4):
        harness.answer(harness.one(FindCoordinatorRequest), answer)
        assert harness.pending(FindCoordinatorRequest) == []
        pauses.append(harness.wake_at - harness.now)
        harness.run(pauses[-1])
    assert pauses[0] == pytest.approx(0.1, rel=0.25)
    assert pauses[-1] == pytest.approx(0.8, rel=0.25)


def test_a_coordinator_of_a_closed_consumer_is_no_reason_any_more(harness: ConsumerHarness) -> None:
    for _ in range(10):
        harness.answer(harness.one(FindCoordinatorRequest), found(error=BY_NAME["COORDINATOR_NOT_AVAILABLE"].code))
        harness.run(1.5)
    troubles = harness.network.troubles
    assert "COORDINATOR_NOT_AVAILABLE" in str(troubles.reason(harness.now))
    harness.machine.dispose()
    assert troubles.reason(harness.now) is None


def test_a_silent_broker_is_not_the_only_one_asked(harness: ConsumerHarness) -> None:
    silent = harness.one(FindCoordinatorRequest)
    harness.run(harness.wake_at - harness.now)
    _, other = harness.pending(FindCoordinatorRequest)
    harness.answer(other, found(2))
    assert harness.machine.coordinator.node == 2
    harness.answer(silent, found(1))
    assert harness.machine.coordinator.node == 2


def test_a_coordinator_missing_from_the_metadata_is_looked_up_again_with_fresh_metadata(harness: ConsumerHarness) -> None:
    harness.answer(harness.one(FindCoordinatorRequest), found(node=9))
    assert harness.cluster.refreshes == 1
    assert harness.machine.coordinator.node is None
    harness.cluster.brokers[9] = None
    harness.run(1)
    harness.answer(harness.one(FindCoordinatorRequest), found(node=9))
    assert harness.machine.coordinator.node == 9


def test_a_refusal_for_good_ends_the_member(harness: ConsumerHarness) -> None:
    harness.answer(harness.one(FindCoordinatorRequest), found(error=BY_NAME["INVALID_GROUP_ID"].code))
    assert harness.machine.membership.state is MemberState.FATAL


def test_a_denied_lookup_is_raised_and_repeated(harness: ConsumerHarness) -> None:
    outcomes: list[KafkaError | None] = []
    harness.machine.offsets.commit(Commit({tp(0): OffsetAndMetadata(1)}, None, harness.now + 60, outcomes.append))
    for _ in range(3):
        harness.answer(harness.one(FindCoordinatorRequest), found(error=BY_NAME["GROUP_AUTHORIZATION_FAILED"].code))
        harness.reader.drain()
        with pytest.raises(AuthorizationError, match="needs DESCRIBE on group 'g'"):
            harness.reader.notices.raise_next()
        harness.run(1.3)
    (error,) = outcomes
    assert isinstance(error, AuthorizationError)
    harness.answer(harness.one(FindCoordinatorRequest), found(2))
    assert harness.machine.coordinator.node == 2


def test_a_broker_that_reported_a_wrong_coordinator_is_avoided_until_one_responds(harness: ConsumerHarness) -> None:
    harness.find_coordinator(2)
    harness.join(error="NOT_COORDINATOR")
    assert harness.network.avoided == [2, TELLER]
    harness.run(1)
    harness.find_coordinator(1)
    harness.join()
    harness.sync([tp(0)])
    harness.machine.coordinator.lost(harness.now, 1, LOST.reason)
    assert harness.machine.coordinator.node is None
    assert harness.network.avoided == [2, TELLER, 1]


def test_a_coordinator_that_cannot_store_commits_is_not_asked_to_find_the_coordinator(harness: ConsumerHarness) -> None:
    """Cut off from the others it answers heartbeats and names itself when it is asked."""
    harness.stable(tp(0))
    harness.committed()
    harness.machine.commit({tp(0): OffsetAndMetadata(7)}, harness.now + 60.0, lambda error: None)
    harness.run()
    for times in (1, 2, 3):
        harness.commits({tp(0): "REQUEST_TIMED_OUT"})
        assert harness.network.avoided.count(1) == times
        harness.run(1.5)
        harness.find_coordinator(1)
        harness.run(3.0)
        for request in harness.pending(HeartbeatRequest):
            harness.beat(request)


def test_a_broker_that_cannot_find_the_coordinator_is_avoided(harness: ConsumerHarness) -> None:
    harness.answer(harness.one(FindCoordinatorRequest), found(-1, BY_NAME["COORDINATOR_NOT_AVAILABLE"].code))
    assert harness.network.avoided == [TELLER]


def test_losing_a_former_coordinator_changes_nothing(harness: ConsumerHarness) -> None:
    harness.find_coordinator(2)
    harness.machine.coordinator.lost(harness.now, 1, LOST.reason)
    assert harness.machine.coordinator.node == 2


def test_a_lost_coordinator_is_looked_up_after_a_back_off(harness: ConsumerHarness) -> None:
    harness.find_coordinator(1)
    harness.machine.coordinator.lost(harness.now, 1, LOST.reason)
    harness.run()
    assert harness.pending(FindCoordinatorRequest) == []
    harness.run(0.13)
    assert harness.one(FindCoordinatorRequest)


def checked(harness: ConsumerHarness) -> Any:
    """The request that asks whether broker 1 still is the coordinator."""
    harness.find_coordinator(1)
    harness.machine.coordinator.check(harness.now, harness.now - 60.0)
    harness.run()
    return harness.one(FindCoordinatorRequest)


def test_a_check_that_names_the_same_coordinator_changes_nothing(harness: ConsumerHarness) -> None:
    request, avoided = checked(harness), list(harness.network.avoided)
    assert request.deadline == harness.now + harness.config.request_timeout_ms / 1000
    harness.answer(request, found(1))
    assert harness.machine.coordinator.node == 1
    assert harness.network.avoided == avoided


def test_a_check_that_names_another_coordinator_is_accepted(harness: ConsumerHarness) -> None:
    harness.answer(checked(harness), found(2))
    assert harness.machine.coordinator.node == 2


def test_a_check_of_a_former_coordinator_changes_nothing(harness: ConsumerHarness) -> None:
    request = checked(harness)
    harness.machine.coordinator.lost(harness.now, 1, LOST.reason)
    harness.machine.coordinator.want()
    harness.run(1.0)
    (question,) = [other for other in harness.pending(FindCoordinatorRequest) if other is not request]
    harness.answer(question, found(2))
    avoided = list(harness.network.avoided)
    harness.answer(request, found(3))
    assert harness.machine.coordinator.node == 2
    assert harness.network.avoided == avoided


def test_a_check_that_names_a_broker_unknown_to_the_metadata_has_the_coordinator_looked_for_at_once(harness: ConsumerHarness) -> None:
    harness.stable(tp(0))
    harness.committed()
    harness.machine.coordinator.check(harness.now, harness.now - 60.0)
    harness.run()
    harness.answer(harness.one(FindCoordinatorRequest), found(9))
    assert harness.machine.coordinator.node is None
    harness.run(0.5)
    assert harness.one(FindCoordinatorRequest), "not before the next heartbeat is due"
