"""Runs the model cluster on TCP sockets, for tests of applications. Invariant: one thread at a time changes the cluster, under the lock.

    with ModelServer(brokers=3, release="3.9") as server:
        server.create_topic("orders", partitions=6)
        server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders", partition=3)
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            producer.send("orders", b"x", partition=3)
        assert [record.value for record in server.records("orders")] == [b"x"]
        server.assert_all_met()

Any Kafka client may connect. The server writes nothing to disk, and listens on 127.0.0.1 only. Any thread may call its methods.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Any, Final, TypeVar

from pykafka4.errors import ClosedError, KafkaTimeoutError
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import TopicPartition
from pykafka4.testing.faults.checks import known, whole
from pykafka4.testing.faults.names import Api, nearest
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.server import orders
from pykafka4.testing.server.orders import Order
from pykafka4.testing.server.sockets import Sockets
from pykafka4.testing.storage.partition import Topic
from pykafka4.testing.timeline import Timeline
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import now_ms

__all__ = ["ModelServer"]

T = TypeVar("T")
log = logging.getLogger(__name__)
OPTIONS: Final = ("brokers", "release", "auto_create_topics", "default_partitions", "random")
LONGEST_SLEEP_S: Final = 1.0  # the thread's longest sleep, so that a missed wake-up causes a delay, not a hang


def as_bytes(name: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"{name} must be bytes, str or None, not {type(value).__name__}")


def check_partition(topic: Topic, partition: int) -> None:
    if not 0 <= partition < len(topic.partitions):
        raise IndexError(f"topic {topic.name!r} has no partition {partition}; its last partition is {len(topic.partitions) - 1}")


class ModelServer:
    """A model cluster to which real clients can connect.

    `release`: the release of Kafka whose API versions and behaviour the brokers have, one of `cluster.releases.RELEASES`. Other
    `options` go to `ModelCluster`: `auto_create_topics` (True), `default_partitions` (3), `random`. Raises TypeError or ValueError for
    invalid options.
    """

    def __init__(self, brokers: int = 3, *, release: str = "4.4", **options: Any) -> None:
        known(options, OPTIONS, "an option of ModelServer")
        self._process = os.getpid()
        self._timeline = Timeline(system.monotonic())
        options.setdefault("random", Random(0))
        self.cluster = ModelCluster(brokers, timeline=self._timeline, release=release, **options)
        self.cluster.wall_ms = now_ms
        self._lock = system.RLock()
        self._changed = Signal()
        self._sockets = Sockets(self.cluster)
        self._stopping = False
        self._crash: BaseException | None = None
        self._orders: list[Order] = []
        self._thread = system.Thread(target=self._run, name="pykafka4-model", daemon=True)
        self._thread.start()

    # ---- for applications

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker, for a client's option `bootstrap_servers`."""
        return ",".join(f"{b.host}:{b.port}" for b in self.cluster.brokers.values())

    def do(self, act: Callable[[ModelCluster], T]) -> T:
        """Run `act` on the cluster while no other code changes the cluster, and return the result.

        Raises RuntimeError if the server has crashed, or in a forked child; ClosedError after `close`.
        """
        self._check_process()
        with self._lock:
            self._check_running()
            self._timeline.now = max(self._timeline.now, system.monotonic())  # the thread may be asleep, and `act` plans relative to `now`
            result = act(self.cluster)
            self._sockets.follow_brokers()
        self._sockets.wake()
        return result

    def wait_for(self, condition: Callable[[ModelCluster], Any], timeout: float | None = 10.0) -> None:
        """Wait until `condition(cluster)` holds. Raises KafkaTimeoutError after `timeout` seconds (None: never), and the errors of `do`."""
        limit = check_timeout(timeout)
        self._check_process()

        def holds() -> bool:
            with self._lock:
                self._check_running()
                return bool(condition(self.cluster))

        if not self._changed.wait(holds, limit):
            raise KafkaTimeoutError(f"the condition did not hold within {timeout} s")

    def create_topic(self, name: str, partitions: int | None = None, **settings: Any) -> None:
        """See `ModelCluster.create_topic`. Raises ValueError for an existing topic, and for names and numbers that Kafka does not allow."""
        check_topic(name)
        self.do(lambda cluster: cluster.create_topic(name, partitions, **settings))

    def produce(
        self, topic: str, *values: bytes | str | None, key: bytes | str | None = None, partition: int = 0, timestamp_ms: int | None = None
    ) -> int:
        """Append a record for each value, as another producer would, and return the first offset. str is encoded as UTF-8.

        The topic is created if it does not exist. `timestamp_ms` is the time of all records, by default now. Raises IndexError if there is
        no such partition.
        """
        if not values:
            raise ValueError("produce() needs at least one value")
        check_topic(topic)
        partition = whole("partition", partition, -(2**31))
        if timestamp_ms is not None:
            timestamp_ms = whole("timestamp_ms", timestamp_ms, 0, 2**63 - 1)
        rows = [(as_bytes("key", key), as_bytes("value", value)) for value in values]

        def append(cluster: ModelCluster) -> int:
            check_partition(cluster.ensure_topic(topic), partition)
            now = cluster.wall_ms() if timestamp_ms is None else timestamp_ms
            return cluster.append(topic, partition, [WireRecord(timestamp_ms=now, key=key, value=value) for key, value in rows])

        return self.do(append)

    def records(self, topic: str, partition: int | None = None) -> list[WireRecord]:
        """The records of one partition, or of all partitions of the topic, with `offset`, `key`, `value`, `headers` and `timestamp_ms`.

        Raises ValueError if there is no such topic, IndexError if the topic has no such partition.
        """
        check_topic(topic)
        if partition is not None:
            partition = whole("partition", partition, -(2**31))

        def look(cluster: ModelCluster) -> list[WireRecord]:
            if topic not in cluster.topics:
                raise ValueError(f"no such topic {topic!r}{nearest(topic, cluster.topics)}")
            if partition is not None:
                check_partition(cluster.topics[topic], partition)
            return cluster.records(topic, partition)

        return self.do(look)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed; empty for a group that has never committed, or does not exist."""
        return self.do(lambda cluster: {tp: p.offset for tp, p in cluster.groups[group].offsets.items()} if group in cluster.groups else {})

    def close(self) -> None:
        """Stop the server. Raises RuntimeError if it has crashed. A second call, or a call in a forked child, does nothing."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._stopping = True
        self._sockets.wake()
        self._thread.join(10.0)
        crash, self._crash = self._crash, None
        if crash is not None:
            raise RuntimeError("the model server crashed") from crash

    # ---- faults

    def fail(
        self, api: Api, error: str, *, topic: str | None = None, partition: int | None = None, times: int = 1, after: bool = False
    ) -> None:
        """Answer the next `times` requests of an API with an error: `fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders")`.

        `error` is Kafka's name for the error; `api` is Kafka's name for the API, its key, or its request class. A Produce, Fetch or
        ListOffsets request fails for each partition that matches `topic` and `partition`; each of these partitions uses up one of
        `times`. The request, or its part for the partition, is not executed; with `after` (Produce, OffsetCommit, and requests of group
        membership and transactions) it is executed, and then the error is returned. Raises ValueError at once for a fault that could
        never happen, such as one with an unknown name, or of an API that this release does not have.
        """
        self._order(lambda cluster: orders.fail(cluster, api, error, topic, partition, times, after))

    def delay(self, api: Api, seconds: float, *, broker: int | None = None, times: int = 1) -> None:
        """Execute the next `times` requests of an API `seconds` late (at `broker`, by default at any). Raises ValueError as `fail` does."""
        self._order(lambda cluster: orders.delay(cluster, api, seconds, broker, times))

    def disconnect(self, api: Api, *, broker: int | None = None, times: int = 1, after: bool = False) -> None:
        """Close the connection instead of responding to the next `times` requests of an API (at `broker`, by default at any broker).

        The request is not executed; with `after` it is executed, but gets no response. Raises ValueError as `fail` does.
        """
        self._order(lambda cluster: orders.disconnect(cluster, api, broker, times, after))

    def unmet(self) -> list[str]:
        """The faults of `fail`, `delay` and `disconnect` that did not happen as often as ordered, one line each."""
        return self.do(lambda cluster: [str(order) for order in self._orders if order.entry.times])

    def assert_all_met(self) -> None:
        """Raise AssertionError if a fault did not happen as often as ordered, because then the test has not tested its case."""
        left = self.unmet()
        if left:
            raise AssertionError("ordered faults that did not happen, or not as often as ordered: " + "; ".join(left))

    def _order(self, give: Callable[[ModelCluster], Order]) -> None:
        self.do(lambda cluster: self._orders.append(give(cluster)))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this model server runs in process {self._process}: a forked child has only a copy of its memory; "
                "connect clients to bootstrap_servers there, and order faults in the parent"
            )

    def _check_running(self) -> None:
        if self._crash is not None:
            raise RuntimeError("the model server crashed") from self._crash
        if self._stopping:
            raise ClosedError("the model server is closed; create a new one")

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- the thread

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            log.exception("the model server crashed; every connection is closed")
            self._crash = error
        finally:
            self._release()

    def _turn(self) -> bool:
        with self._lock:
            pause = min(self._timeline.next_at - system.monotonic(), LONGEST_SLEEP_S)
        # The lock is free here: `do` may change the cluster meanwhile and plan an earlier event; its wake-up ends this sleep.
        ready = self._sockets.select(max(0.0, pause))
        with self._lock:
            if self._stopping:
                return False
            self._timeline.advance(system.monotonic())
            self._sockets.serve(ready)
            self._sockets.follow_brokers()
        self._changed.notify()
        return True

    def _release(self) -> None:
        with self._lock:
            self._stopping = True
            self._sockets.close()
        self._changed.notify()
