"""Changes of topics, as one machine takes them: all of them, each once, and nothing else."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from tests.core.scripted_brokers import World, metadata

ME = "the test"
ID = UUID(int=1)
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.fixture
def world() -> World:
    """Topics t and u, of one partition each, led by the connected broker 1."""
    world = World.make(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.metadata = metadata({"t": (ID, [(1, 5)]), "u": [(1, 5)]})
    for topic in ("t", "u"):
        world.engine.cluster.want(topic, ME)
    world.run()
    world.engine.network.want(1)
    world.run(10.0)
    return world


def changes(world: World) -> TopicChanges:
    return TopicChanges(world.engine.cluster, world.engine.recovery)


def tell(world: World, **topics: object) -> None:
    """Have the brokers tell this of them."""
    world.metadata = metadata(dict(topics))
    world.engine.cluster.refresh(world.now, topics)
    world.run(5.0)


def test_earlier_changes_are_not_reported(world: World) -> None:
    taken = changes(world)
    assert (taken.take_topics(), taken.take_online()) == ([], [])


@pytest.mark.parametrize(
    ("told", "changed"),
    [
        ((ID, [(1, 5)]), False),
        ((ID, [(2, 6)]), True),
        ((ID, [(1, 6)]), True),
        ((ID, [(1, 4)]), False),
        ((ID, [(-1, 6)]), True),
        ((ID, [(1, 5), (1, 0)]), True),
        ((UUID(int=2), [(1, 5)]), True),
        (29, True),
    ],
    ids=["nothing", "leader", "epoch", "an older epoch", "leaderless", "partitions", "id", "error"],
)
def test_a_topic_is_taken_when_its_id_its_leaders_or_its_error_changed(world: World, told: object, changed: bool) -> None:
    taken = changes(world)
    tell(world, t=told)
    assert taken.take_topics() == ["t"] * changed


def test_an_answer_that_tells_nothing_new_of_a_topic_beside_one_that_changed_does_not_name_it(world: World) -> None:
    taken = changes(world)
    tell(world, t=(ID, [(1, 5)]), u=[(2, 6)])
    assert taken.take_topics() == ["u"]


def test_several_changes_of_a_topic_are_taken_once_and_by_each_machine(world: World) -> None:
    first, second = changes(world), changes(world)
    for epoch in (6, 7):
        world.engine.cluster.hint(U0, 2, epoch)
        world.engine.cluster.hint(T0, 2, epoch)
    assert first.take_topics() == ["t", "u"]
    assert first.take_topics() == []
    world.engine.cluster.hint(T0, 1, 8)
    assert (first.take_topics(), second.take_topics()) == (["t"], ["t", "u"])


def test_a_topic_that_a_machine_notes_itself_is_taken_with_the_others(world: World) -> None:
    taken = changes(world)
    world.engine.cluster.hint(U0, 2, 6)
    taken.note("t")
    assert taken.take_topics() == ["t", "u"]
    assert taken.take_topics() == []


def test_partitions_are_taken_in_the_order_in_which_they_come_back(world: World) -> None:
    taken = changes(world)
    for tp in (U0, T0):
        world.engine.recovery.report(world.now, tp, KafkaError("x"))
    assert taken.take_online() == []
    world.engine.cluster.hint(U0, 1, 6)
    world.run()
    assert taken.take_online() == [U0]
    world.run(5.0)
    assert (taken.take_online(), taken.take_online()) == ([T0], [])


def test_a_machine_that_sends_nothing_to_leaders_takes_topics_only(world: World) -> None:
    taken = TopicChanges(world.engine.cluster)
    world.engine.recovery.report(world.now, T0, KafkaError("x"))
    world.run(5.0)
    world.engine.cluster.hint(U0, 2, 6)
    assert (taken.take_topics(), taken.take_online()) == (["u"], [])


@pytest.mark.parametrize("times", [1, 2])
def test_no_changes_are_collected_for_a_removed_machine(world: World, times: int) -> None:
    cluster, recovery = world.engine.cluster, world.engine.recovery
    before = len(cluster.on_change), len(recovery.on_online)
    taken, other = changes(world), changes(world)
    cluster.hint(T0, 2, 6)
    for _ in range(times):
        taken.end()
    cluster.hint(U0, 2, 6)
    assert (taken.take_topics(), taken.take_online()) == ([], [])
    assert other.take_topics() == ["t", "u"]
    other.end()
    assert (len(cluster.on_change), len(recovery.on_online)) == before
