"""Opens the brokers of a run. Invariant: every run has its own topic, and the place counts the topic's records in the end."""

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
WARM_UP = 300_000  # records for the real brokers before anything is measured: brokers are slow at first


@attrs.frozen
class Ground:
    """`count` returns the number of records in the topic. `server`: None without model brokers."""

    bootstrap: str
    topic: str
    count: Callable[[], int]
    server: ModelServer | None = None


class Place(Protocol):
    name: str

    def ground(self) -> contextlib.AbstractContextManager[Ground]:
        """Provide the brokers and a topic for one run."""


class SinkPlace:
    """The sink that only acknowledges; each run has a new one."""

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
    """Model brokers in this process, which does nothing else during a run; each run has new ones."""

    name = "model"

    @contextlib.contextmanager
    def ground(self) -> Iterator[Ground]:
        with ModelServer(3) as server:
            server.create_topic(TOPIC, PARTITIONS)
            yield Ground(server.bootstrap_servers, TOPIC, lambda: len(server.records(TOPIC)), server)


@contextlib.contextmanager
def open_places(wanted: list[str]) -> Iterator[list[Place]]:
    with contextlib.ExitStack() as stack:
        made: list[Place] = []
        if "sink" in wanted:
            made.append(SinkPlace())
        if "model" in wanted:
            made.append(ModelPlace())
        if "cluster" in wanted:
            made.append(ClusterPlace(stack.enter_context(LocalCluster())))
        yield made
