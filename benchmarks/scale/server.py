"""Runs the model cluster in its own process, so that the CPU time of a client's process is the client's alone.

`python -m benchmarks.scale.server RELEASE BROKERS TOPICS PARTITIONS` carries out the methods of `Orders`. The sink would not do: it has no
leaders that move. The default release is 2.8, whose Fetch names topics: the model answers a Fetch of 100 partitions in 1 ms, and a later
Fetch, with topic ids, in 14 ms.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager

from benchmarks.scale.orders import Process, obey
from benchmarks.scale.shape import Place, Shape
from pykafka4.testing import ModelServer
from pykafka4.testing.model import ModelCluster
from pykafka4.wire.records.batch import WireRecord

__all__ = ["RELEASE", "serve"]

RELEASE = "2.8"
REPLICAS = 2  # so that a leader can move
LEADERLESS_S = 3600.0


def serve(shape: Shape, release: str) -> AbstractContextManager[Process]:
    """Start a cluster with one record in each partition."""
    return Process("benchmarks.scale.server", release, shape.brokers, shape.topics, shape.partitions)


class Orders:
    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._began = (0.0, 0.0)

    def bootstrap(self) -> str:
        return ",".join(self._server.bootstrap_servers.split(",")[:3])

    def append(self, places: list[Place], count: int, size: int) -> int:
        """`count` batches of one record each."""

        def act(cluster: ModelCluster) -> None:
            for topic, partition in places:
                for _ in range(count):
                    cluster.append(topic, partition, [WireRecord(timestamp_ms=cluster.wall_ms(), key=None, value=bytes(size))])

        self._server.do(act)
        return count * len(places)

    def move(self, topic: str, partition: int) -> int:
        return self._server.do(lambda cluster: cluster.move_leader(topic, partition))

    def orphan(self, places: list[Place]) -> None:

        def act(cluster: ModelCluster) -> None:
            for topic, partition in places:
                cluster.orphan(topic, partition, LEADERLESS_S)

        self._server.do(act)

    def watch(self) -> None:
        self._began = (time.monotonic(), self._server.do(lambda cluster: cluster.requests["Fetch"]))

    def fetches(self) -> float:
        """Return the Fetches a second since `watch`."""
        began, before = self._began
        count = self._server.do(lambda cluster: cluster.requests["Fetch"])
        return (count - before) / (time.monotonic() - began)


def main() -> None:
    release, *sizes = sys.argv[1:]
    shape = Shape(*map(int, sizes))
    with ModelServer(shape.brokers, release=release) as server:
        for number, name in enumerate(shape.names):
            server.create_topic(name, shape.partitions, leaders=shape.leaders(number), replicas=min(REPLICAS, shape.brokers))
        orders = Orders(server)
        orders.append(shape.places, 1, 100)
        obey(orders)


if __name__ == "__main__":
    main()
