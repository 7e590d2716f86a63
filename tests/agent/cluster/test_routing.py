"""Where messages go on a real cluster while a broker is down: AnyPartition as brokers lead partitions, partition keys wait or go on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Producer
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.message import Message, Source
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import Router
from pykafka4.agent.settings.values import AgentSettings, Batching, InputSettings, Offline, TcpSettings, TopicSettings, TopicsSettings
from tests.integration.test_partitioners import SPREAD, await_leaderless, dealt

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LONG_S = 60.0
QUICK = TopicSettings(batching=Batching.PER_TOPIC, linger_ms=5)


class Routed:
    """A router with its producer."""

    def __init__(self, cluster: Cluster, offline: Offline) -> None:
        settings = AgentSettings(
            inputs=InputSettings(tcp=TcpSettings(port=1)),
            kafka={**cluster.client, "metadata_max_age_ms": 1_000, "batch_size": 1_024},
            topics=TopicsSettings(default=QUICK, offline=offline),
        )
        self.producer = Producer(**producer_options(settings))
        self.router = Router(self.producer, Ledger())

    def accept(self, topic: str, numbers: list[int | None], value: bytes) -> None:
        """Messages with these partition keys; the record's key is no part of the choice."""
        messages: list[Message] = [(topic, value, b"the same key", number, 0) for number in numbers]
        self.router.accept(messages, Source.TCP)


@contextlib.contextmanager
def routed(cluster: Cluster, offline: Offline) -> Iterator[Routed]:
    made = Routed(cluster, offline)
    try:
        yield made
    finally:
        made.producer.close(5.0)


def places(cluster: Cluster, topic: str, value: bytes) -> Counter[int]:
    """By partition: the records with this value."""
    found = cluster.log(topic)
    return Counter({p: n for p, records in found.items() if (n := sum(record.value == value for record in records))})


@pytest.mark.parametrize("offline", Offline)
def test_while_a_broker_is_down(cluster: Cluster, topic: str, offline: Offline) -> None:
    away, gone = dealt(cluster, topic)
    online = [partition for partition in range(SPREAD) if partition not in gone]
    with routed(cluster, offline) as it:
        it.accept(topic, [*range(2 * SPREAD), *range(2**32 - SPREAD, 2**32)], b"before")
        it.producer.flush(LONG_S)
        assert places(cluster, topic, b"before") == Counter({**dict.fromkeys(range(SPREAD), 2)}) + Counter(
            n % SPREAD for n in range(2**32 - SPREAD, 2**32)
        )
        cluster.kill(away)
        try:
            await_leaderless(it.producer, topic, gone)
            before = it.producer.stats().acked
            for _ in range(200):
                it.accept(topic, [None] * 30, bytes(100))
            until(lambda: it.producer.stats().acked == before + 6_000, LONG_S, "messages for any partition")
            before = it.producer.stats().acked
            it.accept(topic, [*range(SPREAD)], b"keyed")
            waiting = len(gone) if offline is Offline.WAIT else 0
            until(lambda: it.producer.stats().acked == before + SPREAD - waiting, LONG_S, "keyed messages")
            assert it.producer.stats().queued == waiting
        finally:
            cluster.start(away)
        it.producer.flush(LONG_S)
        assert it.producer.stats().failed == {}
    got = places(cluster, topic, bytes(100))
    assert set(got) == set(online)
    share = 6_000 / len(online)
    assert all(0.7 * share < count < 1.3 * share for count in got.values()), got
    keyed = Counter(range(SPREAD))
    if offline is Offline.NEXT:
        keyed = Counter(next(p % SPREAD for p in range(n, n + SPREAD) if p % SPREAD in online) for n in range(SPREAD))
    assert places(cluster, topic, b"keyed") == keyed
