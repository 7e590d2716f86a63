"""Metrics pushed to a real broker (KIP-714): its receiver decodes them, and their names are among those that Java's clients push."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from integration.java.client import JavaRecord, classes, java_consume, java_produce
from integration.local.cluster import LocalCluster
from integration.waiting import until
from pykafka4 import AdminClient, Consumer, Producer, ShareConsumer
from pykafka4.metrics.pushed import PREFIX

pytestmark = pytest.mark.cluster

RECEIVER = Path(__file__).parents[2] / "integration" / "java" / "TelemetryReceiver.java"
SECONDS = 20.0
INTERVAL_MS = "300"


@attrs.frozen
class Receiving:
    """A broker that writes what clients push to `file`."""

    brokers: LocalCluster
    file: Path

    def options(self, client_id: str) -> dict[str, Any]:
        return {**self.brokers.client, "client_id": client_id}

    def pushes(self, client_id: str) -> list[dict[str, Any]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [push for line in lines if (push := json.loads(line))["client"] == client_id]

    def names(self, client_id: str) -> set[str]:
        return {point[0] for push in self.pushes(client_id) for point in push["points"]}

    def wait_for(self, client_id: str, *names: str) -> None:
        wanted = {PREFIX + name for name in names}
        until(lambda: wanted <= self.names(client_id), SECONDS, f"{client_id} has not pushed {wanted}")


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    file = tmp_path_factory.mktemp("telemetry") / "pushes.jsonl"
    settings = {"metric.reporters": "TelemetryReceiver", "telemetry.file": str(file)}
    with LocalCluster(1, properties=settings, plugins=[classes(RECEIVER)]) as brokers:
        with AdminClient(**brokers.client) as admin:
            wanted = {"metrics": PREFIX, "interval.ms": INTERVAL_MS}
            admin.alter_configs({("client-metrics", "everything"): wanted})
        brokers.create_topic("orders", 1)
        yield Receiving(brokers, file)


def values(push: dict[str, Any]) -> dict[str, float]:
    return {name.removeprefix(PREFIX): value for name, _, value, attributes in push["points"] if not attributes}


def test_what_a_producer_pushes_equals_its_stats_and_close_pushes_the_rest(receiving: Receiving) -> None:
    with Producer(**receiving.options("shop")) as producer:
        producer.send("orders", b"a value").result(SECONDS)
        receiving.wait_for("shop", "producer.record.send.total", "producer.node.request.latency.avg")
        for _ in range(9):
            producer.send("orders", b"a value")
        producer.flush(SECONDS)
    pushes = receiving.pushes("shop")
    assert [push["terminating"] for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert len({push["instance"] for push in pushes}) == 1
    assert sum(values(push).get("producer.record.send.total", 0) for push in pushes) == producer.stats().acked == 10  # deltas
    kinds = {name.removeprefix(PREFIX): kind for push in pushes for name, kind, _, _ in push["points"]}
    assert kinds["producer.record.send.total"] == "AGGREGATION_TEMPORALITY_DELTA"
    assert kinds["producer.request.latency.avg"] == "GAUGE"
    nodes = {attributes["node_id"] for push in pushes for *_, attributes in push["points"] if attributes}
    assert "node-1" in nodes


def java_sends(receiving: Receiving) -> None:
    properties = {"client.id": "java-shop", **receiving.brokers.java}
    java_produce(receiving.brokers.bootstrap, "orders", [JavaRecord(key=None, value=b"java")] * 3, properties=properties)


def java_reads(receiving: Receiving) -> None:
    properties = {"client.id": "java-reader", "group.id": f"java-{uuid.uuid4().hex}", **receiving.brokers.java}
    java_consume(receiving.brokers.bootstrap, "orders", count=3, properties=properties)


def java_names(receiving: Receiving, client_id: str, work: Callable[[Receiving], None]) -> set[str]:
    """The names that Java's client pushes at its end. It pushes nothing if it ends before it has asked for the subscription."""
    for _ in range(5):
        work(receiving)
        if names := receiving.names(client_id):
            return names
    raise AssertionError(f"{client_id} has pushed nothing")


def test_the_names_are_those_of_java(receiving: Receiving) -> None:
    with Consumer(**receiving.options("reader"), group_id="ours", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(timeout=SECONDS)
        consumer.commit()
        receiving.wait_for("reader", "consumer.fetch.manager.records.consumed.total", "consumer.coordinator.commit.latency.avg")
    assert receiving.pushes("reader")[-1]["terminating"]
    resources = [push["resource"] for push in receiving.pushes("reader")]
    assert {resource["group_id"] for resource in resources} == {"ours"}
    assert any(resource.get("group_member_id") for resource in resources)
    assert receiving.names("shop") <= java_names(receiving, "java-shop", java_sends)
    assert receiving.names("reader") <= java_names(receiving, "java-reader", java_reads)


def test_a_share_consumer_pushes_and_the_option_turns_pushes_off(receiving: Receiving) -> None:
    with (
        ShareConsumer(**receiving.options("sharer"), group_id="s") as consumer,
        Producer(**receiving.options("silent"), enable_metrics_push=False) as silent,
    ):
        consumer.subscribe(["orders"])
        silent.send("orders", b"a value").result(SECONDS)
        name = PREFIX + "consumer.share.fetch.manager.fetch.total"
        until(lambda: consumer.poll(timeout=0.1) is not None and name in receiving.names("sharer"), SECONDS, f"a push of {name}")
    assert receiving.pushes("sharer")[-1]["terminating"]
    assert not receiving.pushes("silent")
