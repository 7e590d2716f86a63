"""Metadata requests while very many topics have errors: the cost is bounded, and the end of an outage is noticed at once."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

from pykafka4.core import INFINITY
from pykafka4.core.metadata.metadata_queue import AT_ONCE, BUDGET, TOPIC, MetadataQueue, within_budget
from pykafka4.records import TopicPartition
from tests.core.scripted_brokers import World, config, metadata

ME = "the test"  # who wants topics here
MANY = 1500  # topics: three rounds for one partition each
A_ROUND = BUDGET // (TOPIC + 1)  # topics of one partition in a round


def leaders(count: int, leader: int, epoch: int, partitions: int = 1) -> dict[str, object]:
    return {f"t{number}": (UUID(int=number + 1), [(leader, epoch)] * partitions) for number in range(count)}


def outage(count: int) -> World:
    """A world in which `count` topics have had no leader for 20 seconds."""
    world = World.make()
    world.metadata = metadata(leaders(count, -1, 5))
    for number in range(count):
        world.engine.cluster.want(f"t{number}", ME)
    world.run(20.0)
    world.asked.clear()
    return world


def asked(world: World) -> Counter[str]:
    return Counter(topic.name or "" for _, message in world.asked for topic in message.topics or [])


def test_a_request_names_no_more_topics_than_the_loop_takes_in_at_once() -> None:
    world = World.make()
    world.metadata = metadata(leaders(MANY, 1, 5))
    for number in range(MANY):
        world.engine.cluster.want(f"t{number}", ME)
    world.run(1.0)
    assert world.engine.cluster.partitions(f"t{MANY - 1}") == 1
    requests = [len(message.topics) for _, message in world.asked]
    assert sum(requests) == MANY
    assert max(requests) <= AT_ONCE // TOPIC
    world.asked.clear()
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    assert max(len(message.topics) for _, message in world.asked) <= AT_ONCE // (TOPIC + 1)
    assert set(asked(world)) == {f"t{number}" for number in range(MANY)}


def test_a_topic_that_exceeds_the_budget_is_requested_alone() -> None:
    sizes = {"a": AT_ONCE, "b": 1, "c": 2}
    assert within_budget(["a", "b"], sizes.__getitem__) == ["a"]
    assert within_budget(["b", "a"], sizes.__getitem__) == ["b"]
    assert within_budget(["b", "c"], sizes.__getitem__) == ["b", "c"]


def test_thousands_of_leaderless_topics_are_asked_for_within_a_budget() -> None:
    world = outage(MANY)
    world.run(12.0)
    times = asked(world)
    assert sum(times.values()) <= 15 * A_ROUND
    assert len(times) == MANY
    assert max(times.values()) - min(times.values()) <= 1


def test_few_leaderless_topics_are_asked_for_once_a_round() -> None:
    world = outage(10)
    world.run(12.0)
    times = asked(world)
    assert len(times) == 10
    assert all(9 <= count <= 16 for count in times.values())
    assert len(world.asked) <= 16


def test_a_change_of_one_topic_requests_all_others_at_once() -> None:
    world = outage(MANY)
    world.metadata = metadata(leaders(MANY, 2, 6))
    world.run(1.3)
    cluster = world.engine.cluster
    assert all(cluster.leader(TopicPartition(f"t{number}", 0)) is not None for number in range(MANY))


def test_a_change_of_brokers_requests_all_topics_at_once() -> None:
    world = outage(MANY)
    world.metadata = metadata(leaders(MANY, -1, 5), {1: ("h1", 1), 2: ("h2", 2), 3: ("h3", 3), 4: ("h4", 4)})
    world.run(1.3)
    assert len(asked(world)) == MANY


def test_a_topic_with_a_pending_wait_is_requested_out_of_turn() -> None:
    world = outage(MANY)
    told: list[object] = []
    for number in (0, MANY // 2, MANY - 1):
        world.engine.cluster.refreshed(world.now, [f"t{number}"], told.append)
    world.run(0.0)
    assert told == [None, None, None]


def test_topics_of_a_leader_that_cannot_be_connected_to_are_asked_for_within_the_budget() -> None:
    world = World.make()
    world.metadata = metadata(leaders(MANY, 3, 5))
    for number in range(MANY):
        world.engine.cluster.want(f"t{number}", ME)
    world.run(1.0)
    world.lose(("h3", 3))
    for number in range(MANY):
        tp = TopicPartition(f"t{number}", 0)
        world.engine.recovery.report(world.now, tp, world.engine.network._endpoints[3].error or ValueError(), 3)  # type: ignore[arg-type]
    world.run(20.0)
    world.asked.clear()
    world.run(12.0)
    times = asked(world)
    assert sum(times.values()) <= 15 * A_ROUND
    assert len(times) == MANY


def test_the_first_topic_goes_even_if_it_is_over_the_budget() -> None:
    queue = MetadataQueue(config(), Random(1))
    queue.put_in_rotation("large", 10 * BUDGET)
    queue.put_in_rotation("small", 1)
    assert queue.due(0.0, 0.1) == ["large"]
    queue.asked(["large"], 0.0)
    assert 0.8 <= queue.due_at <= 1.2
    assert queue.due(queue.due_at, queue.due_at + 0.1) == ["small"]


def test_what_is_due_is_not_kept_back_by_those_that_are_in_rotation() -> None:
    queue = MetadataQueue(config(), Random(1))
    queue.put_in_rotation("a", BUDGET)
    queue.put_in_rotation("b", BUDGET)
    queue.asked(["a"], 0.0)
    queue.put("c", 0.0)
    assert queue.due_at == 0.0
    assert queue.due(0.0, 0.1) == ["c"]


def test_what_is_due_soon_is_asked_for_along_with_what_is_due_now() -> None:
    queue = MetadataQueue(config(), Random(1))
    for name, when in (("now", 1.0), ("soon", 1.25), ("later", 1.5)):
        queue.put(name, when)
    assert queue.due(1.0, 1.25) == ["now", "soon"]


def test_a_change_after_a_change_waits_for_a_round() -> None:
    queue = MetadataQueue(config(), Random(1))
    queue.put_in_rotation("a", BUDGET)
    queue.note_change()
    assert queue.due(0.0, 0.1) == ["a"]
    queue.asked(["a"], 0.0)
    queue.put_in_rotation("a", BUDGET)
    queue.note_change()
    assert 0.8 <= queue.due_at <= 1.2
    assert queue.due(0.5, 0.6) == []
    assert queue.due(1.2, 1.3) == ["a"]


def test_an_empty_queue_is_never_due() -> None:
    queue = MetadataQueue(config(), Random(1))
    queue.put("a", 1.0)
    queue.put_in_rotation("b", 1)
    queue.discard("a")
    queue.discard("b")
    queue.note_change()
    assert queue.due_at == INFINITY
    assert len(queue) == 0
