"""Rewinding a live group on real brokers: by a member and by the command; Kafka's tool sees it, and a member of another client is named."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.waiting import until
from integration.workload.verifiable import command
from pykafka4 import EARLIEST, AdminClient, Consumer, KafkaError, TopicPartition
from tests.integration.command_line import call_of, tools_bootstrap
from tests.integration.reading import GROUP, LONG_S, produce

pytestmark = pytest.mark.cluster

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS, PARTITIONS = 30, 6
STRATEGIES = [pytest.param("range", marks=pytest.mark.lengthy), "cooperative-sticky"]


class Worker:
    """A member that reads on a thread of its own; `seen` has each partition's offsets since `clear`."""

    def __init__(self, cluster: Cluster, topic: str, strategy: str) -> None:
        options = {**GROUP, "auto_commit_interval_ms": 100, "partition_assignment_strategy": strategy, "group_id": topic}
        self.consumer = Consumer(**cluster.client, **options)
        self.consumer.subscribe([topic])
        self.seen: list[tuple[int, int]] = []
        self._wish: Any = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._wish is not None:
                (offsets, futures), self._wish = self._wish, None
                futures.append(self.consumer.rewind_group(offsets, LONG_S))
            self.seen += [(record.partition, record.offset) for record in self.consumer.poll(0.05)]
        self.consumer.close()

    def begin_rewind(self, offsets: dict[TopicPartition, Any]) -> Future[dict[TopicPartition, int]]:
        """Have this member ask."""
        futures: list[Any] = []
        self._wish = offsets, futures
        until(lambda: futures, LONG_S, "the call of rewind_group")
        future: Future[dict[TopicPartition, int]] = futures[0]
        return future

    def rewind(self, offsets: dict[TopicPartition, Any]) -> dict[TopicPartition, int]:
        """Have this member ask, and wait for the outcome."""
        return self.begin_rewind(offsets).result(LONG_S)

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as it:
        yield it


def committed(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    found = admin.group_offsets([group])[group]
    return {} if isinstance(found, KafkaError) else {tp: at.offset for tp, at in found.items()}


def working(cluster: Cluster, topic: str, admin: AdminClient, stack: ExitStack, strategy: str, count: int = 3) -> list[Worker]:
    """Members that have read and committed everything."""
    cluster.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(cluster, topic, 0, RECORDS, partition)
    workers = [Worker(cluster, topic, strategy) for _ in range(count)]
    for worker in workers:
        stack.callback(worker.stop)
    until(lambda: all(worker.consumer.assignment() for worker in workers), LONG_S, "partitions for each")
    until(lambda: committed(admin, topic) == everywhere(topic, RECORDS), LONG_S, "all records are committed")
    return workers


def everywhere(topic: str, offset: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for partition in range(PARTITIONS)}


def clear(workers: list[Worker]) -> None:
    for worker in workers:
        worker.seen.clear()


def read_again(workers: list[Worker], offsets: dict[TopicPartition, int]) -> bool:
    """Whether each record from the offsets on was read once more, in order, and no other."""
    expected = {tp.partition: list(range(offset, RECORDS)) for tp, offset in offsets.items() if offset < RECORDS}
    found: dict[int, list[int]] = {}
    for worker in workers:
        for partition, offset in tuple(worker.seen):
            found.setdefault(partition, []).append(offset)
    return found == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_member_rewinds_the_group_and_then_the_command_does(
    cluster: Cluster, topic: str, admin: AdminClient, stack: ExitStack, strategy: str
) -> None:
    workers = working(cluster, topic, admin, stack, strategy)
    clear(workers)
    wanted = {TopicPartition(topic, 0): 7, TopicPartition(topic, 3): EARLIEST, TopicPartition(topic, 5): 29}
    found = workers[1].rewind(wanted)
    assert found == {TopicPartition(topic, 0): 7, TopicPartition(topic, 3): 0, TopicPartition(topic, 5): 29}
    until(lambda: read_again(workers, found), LONG_S, "the records from there on")
    until(lambda: committed(admin, topic) == everywhere(topic, RECORDS), LONG_S, "all records are committed again")
    clear(workers)
    shown = run(cluster, "rewind", topic, "--topic", topic, "--to-offset", "20", "--live", "--execute")
    assert (shown.returncode, shown.stderr) == (0, f"{PARTITIONS} offsets committed\n"), shown.stderr
    until(lambda: read_again(workers, everywhere(topic, 20)), LONG_S, "the records from there on")
    until(lambda: lag_in_kafkas_tool(cluster, topic) == ["0"] * PARTITIONS, LONG_S, "Kafka's tool sees no lag")


def lag_in_kafkas_tool(cluster: Cluster, group: str) -> list[str]:
    text = run_tool(TOOL, "--bootstrap-server", tools_bootstrap(cluster), "--timeout", "60000", "--describe", "--group", group)
    rows = [line.split() for line in text.splitlines()]
    return [row[5] for row in rows if row and row[0] == group]


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(call_of(cluster, "groups", *arguments), capture_output=True, text=True, timeout=LONG_S, check=False)


def test_a_java_member_is_named_and_nothing_changes(
    cluster: Cluster, topic: str, admin: AdminClient, stack: ExitStack, tmp_path: Any
) -> None:
    workers = working(cluster, topic, admin, stack, "range", 2)
    settings = {"name": "theirs", "topic": topic, "group": topic, "protocol": "classic", "instance": None, "session_ms": 10_000}
    with subprocess.Popen(
        command({**settings, "client": {"bootstrap_servers": tools_bootstrap(cluster)}}, tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as java:
        try:
            until(lambda: stable_with(admin, topic, 3), LONG_S, "three members have partitions")
            generation = workers[0].consumer.status()["consumer"]["generation"]
            with pytest.raises(KafkaError, match=r"nothing has changed: member theirs-\S+ \(client theirs, host \S+\) is no"):
                workers[0].rewind({TopicPartition(topic, 0): 0})
            shown = run(cluster, "rewind", topic, "--all-topics", "--to-earliest", "--live", "--execute")
            assert (shown.returncode, "client theirs" in shown.stderr) == (1, True)
            assert workers[0].consumer.status()["consumer"]["generation"] == generation
            assert committed(admin, topic) == everywhere(topic, RECORDS)
        finally:
            java.terminate()


def stable_with(admin: AdminClient, group: str, members: int) -> bool:
    found = admin.describe_group(group)
    return found.state == "Stable" and sum(bool(member.partitions) for member in found.members) == members
