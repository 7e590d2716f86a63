"""What the client does for every error code in the answers to Metadata, ApiVersions and FindCoordinator.

The expectations are written by hand.
"""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from pykafka4.core import ANY
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import AuthorizationError, BrokerError, KafkaError
from pykafka4.errors.codes import CODES
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_cluster import ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse
from tests.core.consumer_harness import ConsumerHarness
from tests.core.network.network_harness import NetworkHarness
from tests.core.scripted_brokers import World, frame, metadata, versions

ID = UUID(int=1)
UNKNOWN = 32_000  # a code of a later Kafka
EVERY = [*sorted(CODES.keys() - {0}), UNKNOWN]

# A topic with one of these is asked for again and again, and records for it wait.
PASSING = {
    -1,  # a hiccup of the broker
    *(2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20),
    36,  # TOPIC_ALREADY_EXISTS: two brokers created it at once, and it is there
    38,  # INVALID_REPLICATION_FACTOR: too few brokers are up yet
    *(41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106, 122, 123, 133),
}
# So is one with these: the right may be granted. But its records fail meanwhile, and whoever waits gets the error.
DENIED = {29, 30, 31, 53, 65}
GONE = {3, 100}  # and with these it has no leaders any more


def name_of(code: int) -> str:
    return CODES[code].name if code in CODES else f"UNKNOWN({code})"


def world_with_topic() -> World:
    world = World.make(metadata_max_age_ms=3_600_000)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)]), "other": (UUID(int=2), [(3, 1)])})
    for topic in ("t", "other"):
        world.engine.cluster.want(topic, "the test")
    world.run(5.0)
    world.asked.clear()
    return world


def asked_for(world: World, topic: str) -> int:
    return sum(topic in [t.name for t in message.topics or []] for _, message in world.asked)


# -- Metadata


@pytest.mark.parametrize("code", EVERY, ids=name_of)
def test_an_error_of_a_topic_has_it_asked_for_again_or_ends_the_asking(code: int) -> None:
    world = world_with_topic()
    cluster, outcomes = world.engine.cluster, list[KafkaError | None]()
    world.metadata = metadata({"t": code, "other": (UUID(int=2), [(3, 1)])})
    cluster.refreshed(world.now, ["t", "other"], outcomes.append)
    world.run(0.05)
    (outcome,) = outcomes
    assert (outcome is None) == (code not in DENIED), "whoever waits for an answer has one"
    assert cluster.topic_error("t") is not None
    assert str(cluster.topic_error("t")) == name_of(code)
    assert cluster.leader(TopicPartition("t", 0)) == (None if code in GONE else Leader(1, 5)), "what is known stays"
    assert (cluster.unknown_since("t") is not None) == (code in GONE)
    assert cluster.leader(TopicPartition("other", 0)) == Leader(3, 1), "other topics are not concerned"
    world.asked.clear()
    world.run(20.0)
    assert cluster.topic_error("t").retriable == (code in PASSING)  # type: ignore[union-attr]
    if code in PASSING | DENIED:
        assert 10 <= asked_for(world, "t") <= 40
    else:
        assert asked_for(world, "t") == 0
    world.metadata = metadata({"t": (ID, [(2, 6), (2, 7)])})
    cluster.refresh(world.now)
    world.run(2.0)
    assert cluster.leader(TopicPartition("t", 0)) == Leader(2, 6), "it is over with the next good answer"
    assert cluster.topic_error("t") is None


@pytest.mark.parametrize("code", EVERY, ids=name_of)
def test_an_error_of_a_whole_metadata_answer_is_waited_out(code: int) -> None:
    world = world_with_topic()
    cluster = world.engine.cluster
    good = world.metadata
    world.metadata = attrs.evolve(metadata({"t": (ID, [(3, 9), (3, 9)])}), error_code=code)
    cluster.refresh(world.now)
    world.run(20.0)
    rebootstrap = name_of(code) == "REBOOTSTRAP_REQUIRED"
    assert isinstance(cluster.error, BrokerError)
    assert str(cluster.error) == f"Metadata: {name_of(code)}"
    assert cluster.leader(TopicPartition("t", 0)) == (None if rebootstrap else Leader(1, 5)), "the rest of the answer is not read"
    assert bool(cluster.brokers) is not rebootstrap
    assert 10 <= len(world.asked) <= 40
    world.metadata = good
    world.run(2.0)
    assert cluster.error is None
    assert cluster.leader(TopicPartition("t", 0)) == Leader(1, 5)
    assert set(cluster.brokers) == {1, 2, 3}


@pytest.mark.parametrize("code", EVERY, ids=name_of)
def test_a_partition_is_led_by_whom_the_answer_names_whatever_its_error(code: int) -> None:
    """A replica or a listener may be missing while the leader works; without a leader the broker names none."""
    world = world_with_topic()
    world.metadata = metadata({"t": (ID, [(3, 8), (-1, 8)])})
    for partition in world.metadata.topics[0].partitions:
        partition.error_code = code
    world.engine.cluster.refresh(world.now)
    world.run(0.5)
    assert world.engine.cluster.leader(TopicPartition("t", 0)) == Leader(3, 8)
    assert world.engine.cluster.leader(TopicPartition("t", 1)) is None
    assert world.engine.cluster.seeks("t")


# -- ApiVersions


@pytest.mark.parametrize("code", EVERY, ids=name_of)
def test_an_error_of_api_versions_ends_the_connection_or_has_a_lower_version_asked(code: int) -> None:
    harness = NetworkHarness(bootstrap_servers="b1:1", reconnect_backoff_ms=50)
    answers = harness.submit(ANY)
    harness.poll(0.0)
    link = harness.connects[-1].link
    harness.network.connected(0.0, link)
    harness.poll(0.0)
    ((_, header, _),) = harness.unanswered
    harness.unanswered.clear()
    told = ApiVersionsResponse(error_code=code, api_keys=[])
    harness.network.receive(0.0, link, frame(told, header.version, header.correlation_id))
    harness.poll(0.0)
    if name_of(code) == "UNSUPPORTED_VERSION":
        ((at, header, _),) = harness.unanswered
        assert (at, header.version) == (link, 0)
        harness.network.receive(0.0, link, frame(versions(), 0, header.correlation_id))
        harness.unanswered.clear()
        harness.poll(0.0)
    else:
        assert link in harness.closed
        assert f"ApiVersions: {name_of(code)}" in harness.network.why_unreachable()
        while len(harness.connects) < 2:
            harness.poll(harness.effects.wake_at)
            assert harness.effects.wake_at < 1.0
        now = harness.effects.wake_at
        link = harness.accept(now, harness.connects[-1].link)
    assert harness.network.up
    harness.answer(1.0, link)
    assert answers.reply


# -- FindCoordinator

# Permanent errors: the application gets them; everything else is repeated after a pause.
REFUSED = {
    *(1, 4, 10, 11, 12, 17, 18, 21, 23, 24, 26, 28, 32, 33, 34, 35, 36, 37, 38, 39, 40, 42, 43, 44, 45, 46, 47, 48, 49, 50),
    *(52, 54, 55, 57, 58, 59, 60, 61, 62, 63, 64, 66, 67, 68, 69, 73, 76, 77, 81, 82, 85, 86, 87, 90, 91, 92, 93, 94, 95, 96),
    *(97, 98, 99, 101, 102, 104, 105, 107, 108, 109, 111, 112, 114, 115, 116, 117, 118, 119, 120, 121, 124, 125, 126, 127, 128),
    *(129, 130, 131, 132, 134, 135, 136, UNKNOWN),
}


@pytest.mark.parametrize("code", EVERY, ids=name_of)
def test_an_error_of_find_coordinator_is_waited_out_or_ends_the_member(code: int) -> None:
    harness = ConsumerHarness(group_id="g", request_timeout_ms=30_000)
    harness.cluster.set("t", [1])
    harness.machine.membership.subscribe(("t",))
    harness.poll()
    harness.run()
    answer = FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, host="", port=-1)
    harness.answer(harness.one(FindCoordinatorRequest), answer)
    assert harness.machine.coordinator.node is None
    assert name_of(code) in str(harness.machine.coordinator.last_error)
    assert harness.pending(FindCoordinatorRequest) == [], "not at once"
    harness.run(1.0)
    assert len(harness.pending(FindCoordinatorRequest)) == (code not in REFUSED)
    assert (harness.machine.membership.state is MemberState.FATAL) == (code in REFUSED)
    harness.reader.drain()
    assert [type(error) for error in harness.reader.notices.waiting] == ([AuthorizationError] if code in DENIED else [])
