"""An hour without brokers, on a virtual clock: bounded memory, and every message is delivered afterwards or was discarded by name."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

pytest.importorskip("greenlet", reason="pip install -e '.[test]'")

from pykafka4.agent.account.books import Books
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.values import TopicAccount
from pykafka4.agent.message import Reason, Source
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import Router
from pykafka4.agent.settings.values import AgentSettings, InputSettings, TcpSettings, TopicSettings, TopicsSettings
from pykafka4.producer import Producer
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.timeline import Timeline
from tests.simulation.world.virtual import World
from tests.simulation.world.weather import Climate, VirtualTransport, Weather

pytestmark = pytest.mark.simulation

HOUR_S = 3_600.0  # virtual seconds
PAUSE, EACH = 10.0, 50  # seconds between groups of messages, and how many there are in one
MIB = 1024 * 1024
TOPICS = ("clicks", "views", "errors")


class Outage:
    """A router with its producer, and brokers that are all stopped for an hour while messages come."""

    def __init__(self, pool: int) -> None:
        self.timeline = Timeline(1000.0)
        self.cluster = ModelCluster(3, random=Random(1), timeline=self.timeline, default_partitions=3)
        for topic in TOPICS:
            self.cluster.create_topic(topic, 3)
        self.world = World(self.timeline, Random(2), 0.0)
        self.weather = Weather(self.timeline, Random(3), self.cluster, Climate(), lambda line: None)
        servers = ",".join(f"{broker.host}:{broker.port}" for broker in self.cluster.brokers.values())
        topics = TopicsSettings(default=TopicSettings(linger_ms=100))
        self.settings = AgentSettings(InputSettings(tcp=TcpSettings(9101), max_buffer=pool), {"bootstrap_servers": servers}, topics)
        self.ledger = Ledger()
        self.sent = 0
        self.accounts: list[TopicAccount] = []  # after each group of messages, and at the end
        self.most = 0  # bytes of the producer's pool
        self.reasons: set[str] = set()
        self.ended = False

    def run(self) -> None:
        """Until everything that was not discarded is delivered."""
        with self.world.installed(self._transport, 4, self.cluster.wall_ms):
            self.world.spawn(self._main, "main")
            while not self.ended:
                self.world.step()

    def _transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        return VirtualTransport(self.world, self.weather, max_frame, lambda transport: None)

    def _main(self) -> None:
        producer = Producer(**producer_options(self.settings))
        router = Router(producer, self.ledger)
        books = Books(producer, self.ledger, Reasons(autocreate=False))
        self._send(router)
        producer.flush(60)
        for node in list(self.cluster.brokers):
            self.cluster.stop_broker(node)
        end = self.timeline.now + HOUR_S
        while self.timeline.now < end:
            self._send(router)
            self.world.sleep(PAUSE)
            self.most = max(self.most, producer.stats().buffered_bytes)
            self.accounts.append(books.account().total)
            self.reasons.add(str(producer.status().get("reason")))
        for node in list(self.cluster.brokers):
            self.cluster.start_broker(node)
        producer.flush(120)
        self.accounts.append(books.account().total)
        assert producer.close() == []
        self.ended = True

    def _send(self, router: Router) -> None:
        numbers, now = range(self.sent, self.sent + EACH), self.cluster.wall_ms()
        router.accept([(TOPICS[n % 3], b"%d " % n + bytes(990), b"key", n, now) for n in numbers], Source.TCP)
        self.sent += EACH

    def arrived(self) -> Counter[int]:
        """How often each number is in the cluster's logs."""
        return Counter(int((record.value or b"-1").split()[0]) for topic in TOPICS for record in self.cluster.records(topic))


@pytest.mark.parametrize("pool", [4 * MIB, 64 * MIB], ids=["small pool", "large pool"])
def test_messages_of_an_hour_without_brokers_are_delivered_or_discarded(pool: int) -> None:
    outage = Outage(pool)
    outage.run()
    arrived, account = outage.arrived(), outage.accounts[-1]
    discarded = Counter(account.discards.by_reason)
    assert outage.sent > 0.9 * HOUR_S / PAUSE * EACH
    assert set(arrived.values()) == {1}
    assert len(arrived) + discarded.total() == outage.sent
    assert (account.accepted, account.acknowledged, account.queued) == (outage.sent, len(arrived), 0)
    assert [each.accepted for each in outage.accounts[:-1]] == list(range(2 * EACH, outage.sent + 1, EACH)), "each balances"
    assert outage.most <= pool
    assert (discarded.total() == 0) == (pool > 32 * MIB)
    assert set(discarded) <= {Reason.NO_MEM}
    assert any("refused" in reason or "connect" in reason for reason in outage.reasons), outage.reasons
