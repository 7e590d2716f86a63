"""Cluster harness. A cluster machine that knows topic t, and the metadata answers that it gets."""

from __future__ import annotations

from uuid import UUID

from pykafka4.core.metadata.topic import Leader
from pykafka4.records import TopicPartition
from tests.core.scripted_brokers import World, metadata

ME = "the test"  # who wants topics here
ID, OTHER = UUID(int=1), UUID(int=2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def knowing(**options: object) -> World:
    """A world whose client knows topic t: two partitions, led by 1 (epoch 5) and 2 (epoch 7)."""
    world = World.make(**options)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    return world


def answer_metadata(world: World, answer: object) -> None:
    """The brokers answer the next Metadata requests with `answer`."""
    world.metadata = answer  # type: ignore[assignment]
    world.engine.cluster.refresh(world.now)
    world.run(2.0)


def names(world: World) -> set[str | None]:
    return {topic.name for _, message in world.asked for topic in message.topics or []}
