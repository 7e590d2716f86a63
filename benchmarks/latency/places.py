"""Places. Rule: every run has a topic of its own, and the place knows how many records it has in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs

from benchmarks import places
from benchmarks.plan import Entry
from benchmarks.sink import PARTITIONS, Sink
from integration.local.cluster import LocalCluster
from pykafka4.testing import ModelServer

__all__ = ["NAMES", "Ground", "Place", "open_places"]

NAMES = ("sink", "cluster", "model")
TOPIC = "bench"
WARM_UP = 300_000  # records that the real brokers get before anything is measured, as they are slow at first


@attrs.frozen
class Ground:
    """Where one run takes place. `count`: the records of the topic. `server`: in this process; None where brokers are others."""

    bootstrap: str
    topic: str
    count: Callable[[], int]
    server: ModelServer | None = None


class Place(Protocol):
    """Somewhere to run."""

    name: str

    def ground(self) -> contextlib.AbstractContextManager[Ground]:
        """For one run."""


class SinkPlace:
    """The sink that only acknowledges, a fresh one for each run."""

    name = "sink"

    @contextlib.contextmanager
    def ground(self) -> Iterator[Ground]:
        with Sink() as sink:
            yield Ground(sink.bootstrap, TOPIC, lambda: sum(sink.ends(TOPIC).values()))


class ClusterPlace:
    """Three real brokers, the same for all runs."""

    name = "cluster"

    def __init__(self, cluster: LocalCluster) -> None:
        self._place = places.ClusterPlace(cluster, WARM_UP)
        self._place.produce(Entry("confluent", "produce"))

    @contextlib.contextmanager
    def ground(self) -> Iterator[Ground]:
        with self._place.topic() as topic:
            yield Ground(self._place.cluster.bootstrap, topic, lambda: sum(self._place.filled(topic).values()))


class ModelPlace:
    """Model brokers in this process, which does nothing else during a run; fresh ones for each."""

    name = "model"

    @contextlib.contextmanager
    def ground(self) -> Iterator[Ground]:
        with ModelServer(3) as server:
            server.create_topic(TOPIC, PARTITIONS)
            yield Ground(server.bootstrap_servers, TOPIC, lambda: len(server.records(TOPIC)), server)


@contextlib.contextmanager
def open_places(wanted: list[str]) -> Iterator[list[Place]]:
    """Those of these names; the cluster is up as long as they are used."""
    with contextlib.ExitStack() as stack:
        made: list[Place] = []
        if "sink" in wanted:
            made.append(SinkPlace())
        if "model" in wanted:
            made.append(ModelPlace())
        if "cluster" in wanted:
            made.append(ClusterPlace(stack.enter_context(LocalCluster())))
        yield made
