"""Cluster: which answers are accepted. The metadata only moves forward."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka4.core.metadata.cluster import EPOCHS_FROM, MetadataChange
from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved
from pykafka4.core.metadata.topic import CONTRADICTED_S, Leader
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.fields import NO_UUID
from tests.core.cluster_harness import ID, ME, OTHER, T0, T1, answer_metadata, knowing
from tests.core.scripted_brokers import World, metadata, versions

# -- moving forward only


def test_an_older_epoch_never_moves_a_partition_back() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(3, 4), (3, 8)])}))
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    assert world.engine.cluster.leader(T1) == Leader(3, 8)


@pytest.mark.parametrize("topic_id", [ID, NO_UUID], ids=["restored", "recreated without an id"])
def test_older_epochs_are_accepted_when_no_broker_has_sent_newer_ones_for_long(topic_id: UUID) -> None:
    world = World.make()
    world.metadata = metadata({"t": (topic_id, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    answer_metadata(world, metadata({"t": (topic_id, [(3, 0), (3, 0)])}))
    world.run(CONTRADICTED_S)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    answer_metadata(world, world.metadata)
    assert world.engine.cluster.leader(T0) == Leader(3, 0)
    assert world.engine.cluster.leader(T1) == Leader(3, 0)


def test_older_epochs_are_ignored_while_a_broker_sends_newer_ones() -> None:
    world = knowing()
    older, newer = metadata({"t": (ID, [(2, 4), (2, 6)])}), world.metadata
    for _ in range(20):
        answer_metadata(world, older)
        answer_metadata(world, newer)
    answer_metadata(world, older)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_topic_without_an_id_that_was_missing_may_be_another_one() -> None:
    world = World.make()
    world.metadata = metadata({"t": (NO_UUID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    answer_metadata(world, metadata({"t": 3}))
    answer_metadata(world, metadata({"t": (NO_UUID, [(2, 0)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 0)
    assert world.engine.cluster.partitions("t") == 1


def test_an_answer_that_waited_for_a_frozen_process_does_not_show_that_a_topic_is_missing_until_now() -> None:
    world = knowing()
    answer_metadata(world, metadata({}))
    world.mute.update(world.links)
    world.run(5.0)
    assert not world.engine.cluster.was_missing("t", 10.0)
    world.now += 60.0  # no turn
    for link, header, _ in world.muted:
        world.answer(link, header, world.metadata)
    assert not world.engine.cluster.was_missing("t", 10.0)
    world.mute.clear()
    world.run(10.0)
    assert world.engine.cluster.was_missing("t", 10.0)


def test_epochs_of_brokers_that_tell_old_ones_are_not_used() -> None:
    """A leader would refuse every fetch with such an epoch, for as long as brokers send it."""
    world = World.make()
    world.speaks = versions(Metadata=(0, EPOCHS_FROM - 1))
    world.metadata = metadata({"t": (NO_UUID, [(1, 5)])})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.leader(T0) == Leader(1, -1)
    answer_metadata(world, metadata({"t": (NO_UUID, [(2, 4)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, -1)


def test_an_older_answer_without_leader_does_not_take_the_leader_away() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(-1, 4), (2, 7)])}))
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_recreated_topic_replaces_the_old_one_and_the_old_id_never_returns() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (OTHER, [(2, 0)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 0)
    assert world.engine.cluster.partitions("t") == 1
    assert world.engine.cluster.topic_id("t") == OTHER
    answer_metadata(world, metadata({"t": (ID, [(1, 99), (2, 99)])}))
    assert world.engine.cluster.topic_id("t") == OTHER
    assert world.engine.cluster.leader(T0) == Leader(2, 0)


def test_answers_of_brokers_too_old_for_epochs_are_accepted() -> None:
    world = World.make()
    world.metadata = metadata({"t": [(1, -1)]})
    world.engine.cluster.want("t", ME)
    world.run()
    answer_metadata(world, metadata({"t": [(2, -1)]}))
    assert world.engine.cluster.leader(T0) == Leader(2, -1)


def test_a_replaced_topic_id_is_accepted_when_no_broker_has_sent_another_for_long() -> None:
    """A broker that lagged behind sent the old topic after the others had sent the new one."""
    world = knowing()
    new = world.metadata
    answer_metadata(world, metadata({"t": (OTHER, [(3, 9), (3, 9)])}))
    answer_metadata(world, new)
    world.run(CONTRADICTED_S / 2)
    answer_metadata(world, new)
    assert world.engine.cluster.topic_id("t") == OTHER
    world.run(CONTRADICTED_S / 2)
    answer_metadata(world, new)
    assert world.engine.cluster.topic_id("t") == ID
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    answer_metadata(world, metadata({"t": (OTHER, [(3, 9), (3, 9)])}))
    assert world.engine.cluster.topic_id("t") == ID, "now that one is the older"
    answer_metadata(world, metadata({"t": (ID, [(2, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 6)


def test_a_replaced_topic_id_is_ignored_while_a_broker_sends_the_current_one() -> None:
    world = knowing()
    old, new = world.metadata, metadata({"t": (OTHER, [(3, 0), (3, 0)])})
    for _ in range(4):
        answer_metadata(world, new)
        answer_metadata(world, old)
        world.run(CONTRADICTED_S / 2)
    answer_metadata(world, old)
    assert world.engine.cluster.topic_id("t") == OTHER
    assert world.engine.cluster.leader(T0) == Leader(3, 0)


def test_fewer_partitions_of_the_same_topic_id_are_an_older_answer() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(1, 5)])}))
    assert world.engine.cluster.partitions("t") == 2


def test_more_partitions_are_learned() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(1, 5), (2, 7), (3, 0)])}))
    assert world.engine.cluster.available("t") == [0, 1, 2]


def test_a_topic_that_vanishes_keeps_its_partitions_without_leaders_for_a_while() -> None:
    world = knowing(unknown_topic_timeout_ms=10_000)
    answer_metadata(world, metadata({}))
    cluster = world.engine.cluster
    assert cluster.partitions("t") == 2
    assert cluster.available("t") == []
    assert cluster.topic_id("t") == ID
    assert cluster.unknown_since("t") is not None
    world.run(12.0)
    assert cluster.partitions("t") == 0
    assert cluster.topic_id("t") == ID
    answer_metadata(world, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    assert cluster.leader(T0) == Leader(1, 5)


def test_a_topic_that_was_hidden_for_a_moment_comes_back_as_it_was() -> None:
    world = knowing()
    answer_metadata(world, metadata({}))
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_an_answer_without_brokers_changes_nothing_and_is_requested_again() -> None:
    world = knowing()
    before = len(world.asked)
    answer_metadata(world, metadata({"t": (ID, [(1, 5), (2, 7)])}, brokers={}))
    assert set(world.engine.cluster.brokers) == {1, 2, 3}
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    assert len(world.asked) >= before + 2


@pytest.mark.parametrize("create", [False, True])
def test_topics_of_an_answer_without_brokers_are_ignored(create: bool) -> None:
    """Before KRaft, one that had just started said of every topic that it does not exist, until the controller sent it the state."""
    world = World.make()
    world.metadata = metadata({}, brokers={})
    cluster = world.engine.cluster
    cluster.want("t", ME, create=create)
    world.run(1.0)
    assert cluster.topic_error("t") is None
    assert cluster.unknown_since("t") is None
    assert "contains no brokers" in str(cluster.error)
    assert 2 <= len(world.asked) <= 16, "asked again, with a growing backoff"
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert cluster.partitions("t") == 2
    assert cluster.error is None


def test_a_pending_refresh_keeps_waiting_while_answers_list_no_brokers() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.metadata = metadata({}, brokers={})
    world.engine.cluster.refreshed(world.now, ["t"], outcomes.append)
    world.run(1.0)
    assert outcomes == []
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert outcomes == [None]


def test_a_leader_that_is_not_among_the_brokers_is_no_leader() -> None:
    world = knowing()
    answer_metadata(world, metadata({"t": (ID, [(9, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) is None


def test_a_leader_that_left_leads_nothing_and_its_topics_are_requested_whatever_the_answer_was_about() -> None:
    """Nobody else would: there is no connection to him that could be lost, and a producer waits for one before it sends."""
    world = knowing()
    cluster = world.engine.cluster
    cluster.want("other", ME)
    world.run(5.0)
    world.asked.clear()
    seen: list[tuple[MetadataChange, Leader | None]] = []
    cluster.on_change.append(lambda change: seen.append((change, cluster.leader(T1))))
    world.metadata = metadata({"t": (ID, [(1, 5), (3, 8)]), "other": (OTHER, [(1, 1)])}, brokers={1: ("h1", 1), 3: ("h3", 3)})
    cluster.refresh(world.now, ["other"])
    world.run(1.0)
    assert [[topic.name for topic in message.topics or []] for _, message in world.asked] == [["other"], ["t"]]
    assert [(change.topics, change.brokers, leader) for change, leader in seen] == [
        ({"t", "other"}, True, None),
        ({"t"}, False, Leader(3, 8)),
    ]
    assert cluster.leader(T0) == Leader(1, 5)


def test_an_older_answer_without_the_leader_does_not_restore_the_previous_one() -> None:
    world = knowing()
    cluster = world.engine.cluster
    answer_metadata(world, metadata({"t": (ID, [(1, 4), (1, 6)])}, brokers={1: ("h1", 1)}))
    assert cluster.leader(T1) is None
    answer_metadata(world, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    assert cluster.leader(T1) == Leader(2, 7)


def test_a_partition_number_beyond_reason_costs_no_memory() -> None:
    world = knowing()
    broken = metadata({"t": (ID, [(1, 5), (2, 7)])})
    broken.topics[0].partitions[1].partition_index = 2**31 - 1
    answer_metadata(world, broken)
    assert world.engine.cluster.partitions("t") == 2


# -- hints


def test_a_newer_leader_hint_is_accepted_and_an_older_or_equal_one_is_not() -> None:
    world = knowing()
    cluster = world.engine.cluster
    version = cluster.version
    cluster.hint(T0, 2, 5)
    cluster.hint(T0, 2, 4)
    assert cluster.leader(T0) == Leader(1, 5)
    assert cluster.version == version
    cluster.hint(T0, 2, 6)
    assert cluster.leader(T0) == Leader(2, 6)
    assert cluster.version == version + 1


def test_a_hint_can_bring_a_broker_that_is_new() -> None:
    world = knowing()
    cluster = world.engine.cluster
    cluster.hint(T0, 9, 6)
    assert cluster.leader(T0) == Leader(1, 5), "nobody knows where 9 is"
    cluster.hint(T0, 9, 6, ("h9", 9))
    assert cluster.leader(T0) == Leader(9, 6)
    world.engine.network.want(9)
    world.run()
    world.engine.network.want(9)
    world.run()
    assert world.engine.network.ready(9)


def test_a_broker_that_a_hint_brought_is_announced_like_any_other() -> None:
    world = knowing()
    world.events.clear()
    world.engine.cluster.hint(T0, 9, 6, ("h9", 9))
    world.engine.cluster.hint(T0, 2, 7, ("moved", 2))
    world.engine.cluster.hint(T0, 9, 8, ("h9", 9))
    told = [event for event in world.events if isinstance(event, (BrokerAdded, BrokerRemoved))]
    assert told == [BrokerAdded(9, "h9", 9), BrokerRemoved(2, "h2", 2), BrokerAdded(2, "moved", 2)]


def test_hints_about_the_unknown_are_ignored() -> None:
    world = World.make()
    world.run()
    world.engine.cluster.hint(TopicPartition("x", 0), 1, 9)
    world.engine.cluster.hint(TopicPartition("t", 77), 1, 9)
    assert world.engine.cluster.leader(TopicPartition("x", 0)) is None


# -- racks


def test_racks_of_replicas_are_known_once_brokers_have_racks_and_a_move_is_a_change() -> None:
    world = knowing()
    cluster = world.engine.cluster
    assert cluster.racks("t") == []
    assert [leader and leader.node for leader in cluster.leaders("t")] == [1, 2]
    told = metadata({"t": (ID, [(1, 5), (2, 7)])})
    for broker, rack in zip(told.brokers, ("a", "b", None), strict=True):
        broker.rack = rack
    for partition, nodes in zip(told.topics[0].partitions, ([1, 2], [2, 3, 9]), strict=True):
        partition.replica_nodes = nodes
    answer_metadata(world, told)
    assert cluster.racks("t") == [frozenset("ab"), frozenset("b")]
    version = cluster.version
    answer_metadata(world, told)
    assert cluster.version == version
    told.topics[0].partitions[1].replica_nodes = [1]
    answer_metadata(world, told)
    assert cluster.version == version + 1
    assert cluster.racks("t") == [frozenset("ab"), frozenset("a")]
    assert cluster.racks("unknown") == cluster.leaders("unknown") == []


def test_advertised_hosts_racks_and_the_cluster_id_reach_events_and_log_lines_without_control_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = knowing()
    answer_metadata(world, metadata({}, {1: ("h1\x1b[2J\nforged", 1), 2: ("h" * 30_000, 2)}, cluster_id="other\r\nforged"))
    assert world.engine.cluster.brokers[1].host == r"h1\x1b[2J\nforged"
    assert len(world.engine.cluster.brokers[2].host) < 300
    logged = [record.getMessage() for record in caplog.records]
    assert logged
    assert all(line.isprintable() for line in logged)
