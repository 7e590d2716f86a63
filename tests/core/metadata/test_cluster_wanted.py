"""Cluster: which topics are requested, for how long, and which of them may be created."""

from __future__ import annotations

from uuid import UUID

from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from tests.core.cluster_harness import ID, ME, T0, answer_metadata, knowing, names
from tests.core.scripted_brokers import World, metadata

# -- creating


def test_only_topics_of_producers_may_be_created_and_no_others_in_their_request() -> None:
    world = World.make()
    world.engine.cluster.want("read", ME)
    world.engine.cluster.want("written", ME, create=True)
    world.run()
    asked = {tuple(t.name for t in m.topics or []): m.allow_auto_topic_creation for _, m in world.asked}
    assert asked[("written",)] is True
    assert all(not create for names, create in asked.items() if "read" in names)


def test_a_topic_that_is_known_is_never_asked_for_in_a_way_that_creates_it() -> None:
    world = World.make()
    world.metadata = metadata({"t": [(1, 0)]})
    world.engine.cluster.want("t", ME, create=True)
    world.run()
    world.asked.clear()
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    assert world.asked
    assert all(not message.allow_auto_topic_creation for _, message in world.asked)


def test_the_option_forbids_creation() -> None:
    world = World.make(allow_auto_create_topics=False)
    world.engine.cluster.want("t", ME, create=True)
    world.run(1.0)
    assert all(not message.allow_auto_topic_creation for _, message in world.asked)


# -- not wanted any more


def test_what_its_last_user_forgets_is_not_asked_for_and_not_known_any_more() -> None:
    world = knowing(metadata_max_age_ms=10_000)
    cluster = world.engine.cluster
    cluster.want("t", "another")
    cluster.want("w", ME)
    world.run()
    cluster.forget("t", ME)
    cluster.forget("t", ME)
    assert cluster.leader(T0) == Leader(1, 5)
    world.asked.clear()
    world.run(11.0)
    assert names(world) == {"t", "w"}
    cluster.forget("t", "another")
    assert cluster.leader(T0) is None
    assert not cluster.wants("t")
    world.asked.clear()
    world.run(11.0)
    assert names(world) == {"w"}


def test_topics_that_were_created_and_deleted_leave_nothing_behind() -> None:
    world = World.make()
    cluster = world.engine.cluster
    world.run()
    for number in range(50):
        name = f"t{number}"
        if number % 3:
            world.metadata = metadata({name: (UUID(int=number + 1), [(1, 5)])})
        cluster.want(name, ME)
        world.run(0.5)
        if number % 3 == 2:
            world.engine.recovery.report(world.now, TopicPartition(name, 0), KafkaError("x"))
        cluster.forget(name, ME)
    world.run(1.0)
    assert set(cluster._topics) == {""}
    assert len(cluster._queue) == ("" in cluster._queue)
    assert not cluster._wanted
    assert not cluster._names
    assert not world.engine.recovery.offline
    assert not world.engine.recovery._backoffs


def test_an_answer_about_topics_that_are_no_longer_wanted_is_discarded() -> None:
    world = World.make()
    world.run()
    world.mute.update(world.links)
    cluster = world.engine.cluster
    cluster.want("t", ME)
    world.run(0.1)
    cluster.forget("t", ME)
    link, header, _ = world.muted[-1]
    world.answer(link, header, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    assert cluster.partitions("t") == 0
    assert set(cluster._topics) == {""}


def test_a_misspelt_topic_is_not_requested_again_once_unused() -> None:
    world = World.make()
    world.engine.cluster.want("typo", ME)
    world.run(3.0)
    world.engine.cluster.forget("typo", ME)
    world.asked.clear()
    world.run(60.0)
    assert not world.asked


def test_a_deleted_topic_is_not_created_again_by_an_earlier_request() -> None:
    world = World.make(unknown_topic_timeout_ms=1_000)
    world.metadata = metadata({"t": (ID, [(1, 0)])})
    world.engine.cluster.want("t", ME, create=True)
    world.run()
    world.asked.clear()
    answer_metadata(world, metadata({}))
    world.run(10.0)
    assert world.engine.cluster.partitions("t") == 0
    assert "t" in names(world)
    assert not any(message.allow_auto_topic_creation for _, message in world.asked)
    world.engine.cluster.want("t", ME, create=True)
    world.run(2.0)
    assert any(message.allow_auto_topic_creation for _, message in world.asked)


def test_wanting_an_existing_topic_does_not_create_it_later() -> None:
    world = World.make(unknown_topic_timeout_ms=1_000)
    world.metadata = metadata({"t": (ID, [(1, 0)])})
    world.engine.cluster.want("t", "a reader")
    world.run()
    world.engine.cluster.want("t", ME, create=True)
    answer_metadata(world, metadata({}))
    world.run(10.0)
    assert not any(message.allow_auto_topic_creation for _, message in world.asked)


def test_a_cancelled_wait_is_removed_together_with_its_topics() -> None:
    world = knowing()
    world.mute.update(world.links)
    outcomes: list[KafkaError | None] = []
    waiters = [world.engine.cluster.refreshed(world.now, [f"x{n}", "t"], outcomes.append) for n in range(20)]
    world.run(0.1)
    for waiter in waiters:
        world.engine.cluster.cancel_wait(waiter)
        world.engine.cluster.cancel_wait(waiter)
    assert not world.engine.cluster._waiters
    assert set(world.engine.cluster._wanted) == {"t"}
    assert not outcomes
