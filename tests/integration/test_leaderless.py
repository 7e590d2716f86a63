"""Partitions without a leader, 3,000 of them: their producer opens few connections, costs next to nothing, and delivers at the end."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import pytest

from integration.backends import proxied
from integration.cluster import NOT_YET
from integration.faults.proxied import Proxied
from integration.security.settings import Security
from integration.waiting import until
from pykafka4 import Producer
from pykafka4.wire.protocol.messages_admin import CreateTopicsRequest
from tests.inspection import inspect

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.backend("local"), pytest.mark.timeout(1800)]

SECONDS = float(os.environ.get("LEADERLESS_SECONDS", "60"))
SETTLED_S = 15.0  # seconds from the broker's death until only waiting is measured
PER_SECOND = 1.0  # connections opened
SHARE = 0.02  # of a core, the loop's thread
WINDOW_S = 10  # seconds in which no more than WINDOW_S * PER_SECOND connections may be opened
AT_ONCE = 250  # topics in one request
LONG_S = 240.0
CONFIGS = {"unclean.leader.election.enable": "true"}  # the only replica of a killed broker has left the in-sync set


def create(cluster: Proxied, names: list[str], partitions: int, node: int) -> None:
    """Topics with one replica, on `node`; returns when brokers know their leaders."""
    settings = [CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in CONFIGS.items()]
    rows = [CreateTopicsRequest.Topic.Assignment(partition_index=p, broker_ids=[node]) for p in range(partitions)]

    def judge(response: Any, again: bool) -> None:
        assert all(row.error_code in ((0, 36) if again else (0,)) for row in response.topics), response.topics[0]

    for at in range(0, len(names), AT_ONCE):
        topics = [
            CreateTopicsRequest.Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows, configs=settings)
            for name in names[at : at + AT_ONCE]
        ]
        cluster.admin.order(CreateTopicsRequest(topics=topics, timeout_ms=30_000), judge, LONG_S)
    wait_led(cluster, names, partitions)


def wait_led(cluster: Proxied, names: list[str], partitions: int) -> None:
    def led() -> bool:
        answer = cluster.admin.metadata(None, names)
        return sum(p.leader_id >= 0 for topic in answer.topics for p in topic.partitions) == len(names) * partitions

    until(led, LONG_S, f"leaders of {len(names) * partitions} partitions", forgive=NOT_YET)


def loop_seconds(producer: Producer) -> float:
    """CPU time of the loop's thread."""
    thread = inspect(producer).thread.ident
    assert thread is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


@pytest.mark.parametrize(("topics", "partitions"), [(3_000, 1), (1, 3_000)])
def test_partitions_without_a_leader_cost_few_connections_and_little_time(
    demanded: dict[str, Security], topics: int, partitions: int
) -> None:
    names = [f"leaderless-{n}" for n in range(topics)]
    outcomes: list[BaseException | None] = []
    properties = {"log.index.size.max.bytes": "65536"}
    with proxied("local")(3, properties=properties, **demanded) as cluster, contextlib.ExitStack() as stack:
        away = next(node for node in cluster.nodes if node != cluster.controller())
        create(cluster, names, partitions, away)
        cluster.create_topic("healthy", 6)
        producer = stack.enter_context(Producer(**cluster.client, delivery_timeout_ms=1_200_000))

        def send_all() -> None:
            for name in names:
                for partition in range(partitions):
                    producer.send(name, b"v", partition=partition, on_delivery=lambda d: outcomes.append(d.exception(0)))

        for partition in range(6):
            producer.send("healthy", b"v", partition=partition)
        send_all()
        producer.flush(LONG_S)
        cluster.kill(away)
        send_all()
        time.sleep(SETTLED_S)
        opened, used, began = [connections(cluster)], loop_seconds(producer), time.monotonic()
        while time.monotonic() < began + SECONDS:
            time.sleep(1.0)
            opened.append(connections(cluster))
        took, share = time.monotonic() - began, (loop_seconds(producer) - used) / (time.monotonic() - began)
        busiest = max(later - earlier for earlier, later in zip(opened, [*opened[WINDOW_S:], *[opened[-1]] * WINDOW_S], strict=False))
        print(
            f"\nleaderless, {topics} topics of {partitions} partitions for {took:.0f} s: {opened[-1] - opened[0]} connections opened, "
            f"{busiest} in the busiest {WINDOW_S} s; the loop took {share:.2%} of a core"
        )
        cluster.start(away)
        producer.flush(LONG_S)
        assert outcomes == [None] * (2 * topics * partitions)
        assert (opened[-1] - opened[0]) / took <= PER_SECOND
        assert busiest <= WINDOW_S * PER_SECOND
        assert share <= SHARE


def connections(cluster: Proxied) -> int:
    """What was opened to brokers so far, refused connections included."""
    return sum(proxy.counters.connections for proxy in cluster.proxies.values())
