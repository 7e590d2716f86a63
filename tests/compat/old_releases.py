"""Old releases. What the tests on old brokers share: the releases as parameters, and short ways to write and read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.cluster import Cluster
from pykafka4 import Consumer, Record, TopicPartition

REPLICATED = " x 3"
WRITTEN_TO = ("0.11.0.3", "1.1.1", "2.1.1", "2.8.2", "3.9.1")
READ_FROM = ("0.10.2.2",)
ZSTD_SINCE = (2, 1)
LONG_S = 60.0
GROUP = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}

marks = [pytest.mark.compat, pytest.mark.backend("local")]


def on(*versions: str) -> pytest.MarkDecorator:
    """The releases that a test's cluster is made of, one after the other."""
    return pytest.mark.parametrize("cluster", versions, indirect=True, scope="session")


def number(cluster: Any) -> tuple[int, ...]:
    return tuple(map(int, cluster.version.split(".")))


def codecs(cluster: Any) -> list[str]:
    """Those the broker's release knows."""
    return ["none", "gzip", "snappy", "lz4", *(["zstd"] if number(cluster) >= ZSTD_SINCE else [])]


def read_all(cluster: Cluster, topic: str, count: int) -> list[Record]:
    """`count` records of all partitions from the beginning, without a group; fewer or more are an error."""
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, p) for p in cluster.partitions(topic)])
        records = take(consumer, count)
        records += consumer.poll(0.2)
    assert len(records) == count
    return records


def take(consumer: Consumer, count: int, timeout: float = LONG_S) -> list[Record]:
    """At least `count` records."""
    records: list[Record] = []
    poll_until(consumer, lambda: len(records) >= count, timeout, records)
    return records


def poll_until(consumer: Consumer, condition: Callable[[], Any], timeout: float = LONG_S, into: list[Record] | None = None) -> list[Record]:
    records: list[Record] = [] if into is None else into
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{len(records)} records; {consumer.status()}"
        records += consumer.poll(0.1)
    return records
