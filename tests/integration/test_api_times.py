"""Calls of a consumer return in time on real brokers: frozen ones, and while the group waits for a member that does not poll."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import AdminClient, Consumer
from tests.consumer.api_calls import ATTEMPTS, CLOSE_LATE, assert_all_in_time, seconds
from tests.integration.reading import GROUP, LONG_S, poll_until, produce, read

pytestmark = pytest.mark.cluster


def member(cluster: Cluster, topic: str) -> Consumer:
    """One that has read something; the caller closes it."""
    consumer = Consumer(**cluster.client, **GROUP, group_id=topic)
    consumer.subscribe([topic])
    read(consumer, 10)
    consumer.commit()
    return consumer


@contextlib.contextmanager
def frozen(cluster: Cluster, topic: str) -> Iterator[Consumer]:
    consumer = member(cluster, topic)
    for node in cluster.nodes:
        cluster.freeze(node)
    try:
        yield consumer
    finally:
        for node in cluster.nodes:
            cluster.thaw(node)
        consumer.close()


@contextlib.contextmanager
def rebalancing(cluster: Cluster, topic: str) -> Iterator[Consumer]:
    with member(cluster, topic) as consumer, Consumer(**cluster.client, **GROUP, group_id=topic) as idle:
        idle.subscribe([topic])
        poll_until(idle, lambda: consumer.poll(0) is not None and bool(idle.assignment()) and len(consumer.assignment()) == 1)
        with Consumer(**cluster.client, **GROUP, group_id=topic) as late, AdminClient(**cluster.client) as admin:
            late.subscribe([topic])
            late.poll(0)
            until(lambda: admin.describe_group(topic).state == "PreparingRebalance", LONG_S, "a rebalance")
            yield consumer
            idle.unsubscribe()


State = Callable[[Cluster, str], contextlib.AbstractContextManager[Consumer]]


@pytest.mark.parametrize("state", [frozen, rebalancing], ids=lambda state: state.__name__)
def test_every_call_returns_in_time(cluster: Cluster, topic: str, state: State) -> None:
    cluster.create_topic(topic, 2)
    produce(cluster, topic, 0, 200)
    with state(cluster, topic) as consumer:
        assert_all_in_time(consumer, topic, state.__name__)
    cluster.wait_full_isr([topic])


@pytest.mark.parametrize("timeout", [0.0, 0.5])
@pytest.mark.parametrize("state", [frozen, rebalancing], ids=lambda state: state.__name__)
def test_close_returns_in_time(cluster: Cluster, topic: str, state: State, timeout: float) -> None:
    cluster.create_topic(topic, 2)
    produce(cluster, topic, 0, 200)
    took: list[float] = []
    while not took or (took[-1] > timeout + CLOSE_LATE and len(took) < ATTEMPTS):
        with state(cluster, topic) as consumer:
            took.append(seconds(lambda consumer=consumer: consumer.close(timeout)))  # type: ignore[misc]
        cluster.wait_full_isr([topic])
        produce(cluster, topic, 0, 100)
    assert took[-1] <= timeout + CLOSE_LATE, took
