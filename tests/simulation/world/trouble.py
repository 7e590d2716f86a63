"""Trouble. Rule: what can happen to any cluster is written once; `integration.faults.catalog` says how long it lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from integration.faults.catalog import Span
from pykafka4.records import TopicPartition
from pykafka4.testing.model import ModelCluster
from tests.simulation.plans.schedule import Schedule

__all__ = [
    "Trouble",
    "cut_all",
    "cut_connection",
    "dark_node",
    "deafen_broker",
    "freeze_broker",
    "hide_topic",
    "lose_leadership",
    "more_partitions",
    "move_leader",
    "orphan",
    "slow_broker",
    "stale_metadata",
    "stop_broker",
]

Trouble: TypeAlias = "Callable[[Schedule[Any, Any]], None]"


def _spell(what: str, begin: Callable[[ModelCluster, int, float], None], span: Span) -> Trouble:
    """A fault of one broker for some time."""

    def happen(sim: Schedule[Any, Any]) -> None:
        node = sim.some_node()
        seconds = sim.random.uniform(*span)
        sim.note(f"broker {node} {what}")
        if begin is ModelCluster.deafen:
            sim.disturb(seconds, misleads=True)  # clients that request metadata from it
        else:
            sim.disturb(seconds, node=node)
        begin(sim.cluster, node, seconds)

    return happen


def move_leader(sim: Schedule[Any, Any]) -> None:
    """Another broker leads a partition."""
    tp = sim.some_partition()
    sim.disturb(0.0, tp)
    sim.note(f"leader of {tp} moves to {sim.cluster.move_leader(*tp)}")


def lose_leadership(sim: Schedule[Any, Any]) -> None:
    """A leader is lost between an append and its acknowledgement; the new one has these records, which were not readable, or lacks them."""
    tp, kept = sim.some_partition(), sim.random.random() < 0.5
    sim.note(f"{tp} loses its leader after the next append; the new one has {'it' if kept else 'it not'}")
    sim.disturb(0.0, tp)
    sim.cluster.lose_leadership_after_append(*tp, kept=kept)


def orphan(span: Span) -> Trouble:
    """A partition has no leader."""

    def happen(sim: Schedule[Any, Any]) -> None:
        tp = sim.some_partition()
        sim.note(f"{tp} has no leader")
        seconds = sim.random.uniform(*span)
        sim.disturb(seconds, tp)
        sim.cluster.orphan(*tp, seconds)

    return happen


def stop_broker(span: Span, *, failover: float) -> Trouble:
    """A broker is down; others lead after a while."""

    def happen(sim: Schedule[Any, Any]) -> None:
        node = sim.some_node()
        sim.note(f"broker {node} stops")
        vacant, down = sim.random.uniform(0.0, failover), sim.random.uniform(*span)
        sim.disturb(max(vacant, down), node=node)
        sim.cluster.stop_broker(node, failover=vacant)
        sim.timeline.after(down, lambda: sim.cluster.start_broker(node))

    return happen


def freeze_broker(span: Span) -> Trouble:
    """A broker is frozen: it accepts bytes and does nothing."""
    return _spell("freezes", ModelCluster.freeze, span)


def slow_broker(span: Span, *, each: float) -> Trouble:
    """A broker takes up to `each` seconds for a request."""

    def happen(sim: Schedule[Any, Any]) -> None:
        node = sim.some_node()
        sim.note(f"broker {node} is slow")
        sim.cluster.slow(node, sim.random.uniform(0.01, each))
        seconds = sim.random.uniform(*span)
        sim.disturb(seconds, node=node)
        sim.timeline.after(seconds, lambda: sim.cluster.slow(node, 0.0))

    return happen


def dark_node(span: Span) -> Trouble:
    """A broker is unreachable, without a reset of its connections."""

    def happen(sim: Schedule[Any, Any]) -> None:
        node = sim.some_node()
        sim.note(f"nothing gets through to broker {node}")
        seconds = sim.random.uniform(*span)
        sim.disturb(seconds, node=node)
        for weather in sim.weathers():
            weather.darken(node, seconds)

    return happen


def cut_connection(sim: Schedule[Any, Any]) -> None:
    """A connection breaks."""
    paths = [path for weather in sim.weathers() for path in weather.open_paths()]
    if paths:
        path = sim.random.choice(paths)
        sim.disturb(0.0, node=path.node)
        path.weather.cut(path)


def cut_all(sim: Schedule[Any, Any]) -> None:
    """All connections break."""
    sim.disturb(0.0)
    for path in [path for weather in sim.weathers() for path in weather.open_paths()]:
        path.weather.cut(path)


def stale_metadata(span: Span) -> Trouble:
    """Brokers answer with stale metadata."""

    def happen(sim: Schedule[Any, Any]) -> None:
        sim.note("metadata is stale")
        seconds = sim.random.uniform(*span)
        sim.disturb(seconds, misleads=True)
        sim.cluster.stale_metadata(seconds)

    return happen


def deafen_broker(span: Span) -> Trouble:
    """A broker gets no metadata updates and answers with stale metadata."""
    return _spell("hears no news", ModelCluster.deafen, span)


def hide_topic(span: Span) -> Trouble:
    """Metadata does not know a topic."""

    def happen(sim: Schedule[Any, Any]) -> None:
        topic = sim.some_partition().topic
        sim.note(f"metadata hides {topic}")
        seconds = sim.random.uniform(*span)
        sim.disturb(seconds, *(p.tp for p in sim.cluster.topics[topic].partitions))
        sim.cluster.hide_topic(topic, seconds)

    return happen


def more_partitions(limit: int) -> Trouble:
    """A topic grows, up to `limit` partitions."""

    def happen(sim: Schedule[Any, Any]) -> None:
        topic = sim.some_partition().topic
        count = len(sim.cluster.topics[topic].partitions)
        if count < limit:
            sim.note(f"{topic} grows to {count + 1} partitions")
            sim.cluster.add_partitions(topic, count + 1)
            sim.grown(TopicPartition(topic, count))

    return happen
