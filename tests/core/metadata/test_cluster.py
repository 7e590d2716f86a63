"""Cluster: what it learns of brokers and topics, and which listeners it notifies."""

from __future__ import annotations

import logging
from random import Random

import pytest

from pykafka4.core import INFINITY, Failed
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import MetadataChange
from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved, MetadataChanged
from pykafka4.core.metadata.topic import CONTRADICTED_S, Leader, Topic
from pykafka4.errors import ConfigError, ConnectionLost, KafkaError, UnsupportedVersion
from pykafka4.records import TopicPartition, Written
from tests.core.cluster_harness import ID, ME, T0, T1, answer_metadata, knowing
from tests.core.scripted_brokers import World, metadata

# -- learning


def test_brokers_are_learned_without_being_asked_and_topics_when_wanted() -> None:
    world = World.make()
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    cluster = world.engine.cluster
    world.run()
    assert set(cluster.brokers) == {1, 2, 3}
    assert (cluster.controller, cluster.cluster_id) == (1, "c")
    assert cluster.partitions("t") == 0
    cluster.want("t", ME)
    world.run()
    assert cluster.partitions("t") == 2
    assert cluster.available("t") == [0, 1]
    assert cluster.leader(T1) == Leader(2, 7)
    assert cluster.topic_id("t") == ID
    assert cluster.topic_name(ID) == "t"
    assert cluster.leader(TopicPartition("t", 2)) is None
    assert cluster.leader(TopicPartition("t", -1)) is None


def test_the_age_of_a_topic_is_the_time_since_it_was_asked_for() -> None:
    world = knowing()
    cluster, asked_at = world.engine.cluster, world.asked[-1][0]
    assert cluster.age("t", world.now + 3.0) == world.now + 3.0 - asked_at
    assert cluster.age("u", world.now) == INFINITY
    cluster.want("u", ME)
    assert cluster.age("u", world.now) == INFINITY, "not asked for yet"


def test_while_no_broker_is_connected_it_is_looked_twice_a_second_whether_one_is() -> None:
    world = World.make()
    assert world.engine.cluster.poll(world.now).wake_at == world.now + 0.5


@pytest.mark.parametrize("epoch", [-1, 4])
def test_a_lower_epoch_or_none_does_not_replace_a_known_one_until_nothing_newer_was_heard_for_long(epoch: int) -> None:
    known = Topic(Backoff(0.1, 1.0, Random(1)))
    known.resize(1)
    known.lead(0, 1, 5)
    for now in (0.0, CONTRADICTED_S - 0.1):
        known.compare(now, [(0, epoch)])
        known.lead(0, 2, epoch)
        assert known.leaders == [Leader(1, 5)]
    known.compare(CONTRADICTED_S, [(0, epoch)])
    known.lead(0, 2, epoch)
    assert known.leaders == [Leader(2, epoch)]


def test_without_any_epoch_the_last_leader_counts() -> None:
    known = Topic(Backoff(0.1, 1.0, Random(1)))
    known.resize(1)
    for node in (1, 2, 1):
        known.compare(0.0, [(0, -1)])
        known.lead(0, node, -1)
        assert known.leaders == [Leader(node, -1)]
    assert known.behind_since is None


def test_many_topics_wanted_at_once_are_one_request() -> None:
    world = World.make()
    for number in range(50):
        world.engine.cluster.want(f"t{number}", ME)
    world.run()
    assert len(world.asked) == 1
    assert len(world.asked[0][1].topics or []) == 50


def test_brokers_that_are_starting_are_too_few_for_a_topic_only_for_now() -> None:
    """A broker before 0.11 says so of every topic when it has just started; of a new one any broker does."""
    world = World.make()
    world.metadata = metadata({"t": [(1, 0)]})
    for topic in ("t", "new"):
        world.engine.cluster.want(topic, ME, create=True)
    world.run(1.0)
    world.metadata = metadata({"t": 38, "new": 38})
    world.engine.cluster.refresh(world.now, ("t",))
    world.run(1.0)
    for topic in ("t", "new"):
        error = world.engine.cluster.topic_error(topic)
        assert error is not None
        assert error.name == "INVALID_REPLICATION_FACTOR"
        assert error.retriable
    world.metadata = metadata({"t": [(1, 0)], "new": [(2, 0)]})
    world.run(1.5)
    assert [world.engine.cluster.topic_error(topic) for topic in ("t", "new")] == [None, None]
    assert [world.engine.cluster.partitions(topic) for topic in ("t", "new")] == [1, 1]


def test_a_topic_that_does_not_exist_is_requested_with_a_growing_back_off_until_it_does() -> None:
    world = World.make(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.engine.cluster.want("t", ME)
    world.run(20.0)
    assert world.engine.cluster.unknown_since("t") == pytest.approx(100.0, abs=0.5)
    error = world.engine.cluster.topic_error("t")
    assert error is not None
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert 15 <= len(world.asked) <= 35
    world.metadata = metadata({"t": [(1, 0)]})
    world.run(1.3)
    assert world.engine.cluster.partitions("t") == 1
    assert world.engine.cluster.unknown_since("t") is None
    assert world.engine.cluster.topic_error("t") is None


def test_a_newly_wanted_topic_does_not_wait_for_the_back_off_of_another() -> None:
    world = World.make(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    world.engine.cluster.want("missing", ME)
    world.run(1.0)
    world.metadata = metadata({"t": [(1, 0)]})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.partitions("t") == 1


def test_a_permanent_error_is_not_requested_continuously() -> None:
    world = World.make()
    world.metadata = metadata({"t": 17})
    world.engine.cluster.want("t", ME)
    world.run(60.0)
    assert len(world.asked) == 1
    world.engine.cluster.want("t", ME)
    world.run(1.0)
    assert len(world.asked) == 2


def test_a_partition_without_leader_is_asked_about_until_it_has_one() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(-1, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) is None
    assert world.engine.cluster.available("t") == [1]
    world.metadata = metadata({"t": (ID, [(3, 7), (2, 7)])})
    world.run(1.3)
    assert world.engine.cluster.leader(T0) == Leader(3, 7)


# -- telling others


def test_listeners_and_events_hear_of_changes_and_only_of_changes() -> None:
    world = knowing()
    heard: list[MetadataChange] = []
    world.engine.cluster.on_change.append(heard.append)
    world.events.clear()
    answer_metadata(world, world.metadata)
    assert not heard
    assert not world.events
    answer_metadata(world, metadata({"t": (ID, [(2, 6), (2, 7)])}, brokers={1: ("h1", 1), 2: ("moved", 2)}))
    assert heard == [MetadataChange(world.engine.cluster.version, frozenset({"t"}), True)]
    assert BrokerRemoved(3, "h3", 3) in world.events
    assert BrokerRemoved(2, "h2", 2) in world.events
    assert BrokerAdded(2, "moved", 2) in world.events
    assert world.events[-1] == MetadataChanged(world.engine.cluster.version)


@pytest.mark.parametrize("name", [5, b"t", "", "no/such", "\udc80", "t" * 250, None])
def test_a_name_that_kafka_does_not_allow_is_refused_and_spoils_no_other_request(name: object) -> None:
    world = knowing()
    cluster, outcomes = world.engine.cluster, list[KafkaError | None]()
    with pytest.raises((TypeError, ConfigError)):
        cluster.refreshed(world.now, ["t", name], outcomes.append)  # type: ignore[list-item]
    with pytest.raises((TypeError, ConfigError)):
        cluster.want(name, ME)  # type: ignore[arg-type]
    cluster.refreshed(world.now, ["t"], outcomes.append)
    world.run(2.0)
    assert outcomes == [None]
    assert not cluster._waiters


def test_refreshed_answers_when_a_request_sent_after_it_is_answered() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.metadata = metadata({"t": (ID, [(2, 6), (2, 7)])})
    world.engine.cluster.refreshed(world.now, ["t", "unknown"], outcomes.append)
    assert not outcomes
    world.run()
    assert outcomes == [None]
    assert world.engine.cluster.leader(T0) == Leader(2, 6)


@pytest.mark.parametrize("passing", [True, False])
def test_pending_refreshes_keep_waiting_after_a_transient_failure(passing: bool) -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, ["t"], outcomes.append)
    request = world.engine.cluster.poll(world.now).requests[0]
    reason = ConnectionLost("h1:1: reset") if passing else UnsupportedVersion("the broker is too old")
    request.on_reply(world.now, Failed(reason, Written.NO))
    assert outcomes == ([] if passing else [reason])
    world.run(2.0)
    assert outcomes == ([None] if passing else [reason])


def test_a_crash_fails_pending_refreshes() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, None, outcomes.append)
    world.engine.crash(KafkaError("the loop crashed"))
    assert str(outcomes[0]) == "the loop crashed"


def test_two_clusters_among_the_bootstrap_servers_log_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = knowing()
    with caplog.at_level(logging.WARNING, "pykafka4.cluster"):
        answer_metadata(world, metadata({"t": (ID, [(1, 5), (2, 7)])}, cluster_id="another"))
    assert "cluster id changed from c to another" in caplog.text


def test_topic_errors_name_what_is_wrong_with_wanted_topics() -> None:
    world = knowing()
    world.engine.cluster.want("missing", ME)
    answer_metadata(world, metadata({"t": (ID, [(-1, 6), (2, 7)])}))
    cluster = world.engine.cluster
    assert cluster.troubles(cluster.topics) == {
        "t": "no leader for partition 0",
        "missing": "UNKNOWN_TOPIC_OR_PARTITION",
    }
