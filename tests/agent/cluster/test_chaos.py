"""Brokers are frozen and killed, the agent is ended and started again, clients go on: with a spool nothing is lost, and order is kept."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from integration.agent.reading import read_topic
from integration.agent.sending import User, senders, value_of
from integration.cluster import Cluster
from tests.agent.cluster.conftest import AgentOf

SEEDS = range(int(os.environ.get("PYKAFKA4_AGENT_SEEDS", "1")))
pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(600)]

LONG_S = 180.0
PARTITIONS, STEPS = 3, 8


def disturb(cluster: Cluster, chance: random.Random) -> None:
    """Freeze all brokers, or kill one, for a while."""
    if chance.random() < 0.5:
        for node in cluster.nodes:
            cluster.freeze(node)
        time.sleep(chance.uniform(0.5, 4))
        for node in cluster.nodes:
            cluster.thaw(node)
    else:
        victim = chance.choice(cluster.nodes)
        cluster.kill(victim)
        time.sleep(chance.uniform(0.5, 4))
        cluster.start(victim)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_order_is_kept_while_everything_is_restarted(
    cluster: Cluster, topic: str, agent: AgentOf, folder: Path, seed: int
) -> None:
    chance = random.Random(seed)
    cluster.create_topic(topic, PARTITIONS)
    running = agent(
        inputs={"max_buffer": "2MiB", "unix_stream": {"path": str(folder / "agent.stream")}},
        topics={"default": {"linger_ms": 20}},
        spool={"path": str(folder / "spool"), "max_size": "256MiB"},
        service={"shutdown_ms": 500},
    )
    names = {f"{kind}{n}": (kind, n) for kind in ("datagram", "stream") for n in range(PARTITIONS)}
    places = {"datagram": running.datagram, "stream": running.stream}
    with senders(
        User(kind, places[kind], topic, name=name, rate=400, size=300, partition_key=n) for name, (kind, n) in names.items()
    ) as users:
        for _ in range(STEPS):
            time.sleep(chance.uniform(0.2, 2))
            if chance.random() < 0.5:
                assert running.end(LONG_S) == 0, running.said()
                running.start()
            else:
                disturb(cluster, chance)
        told = [user.result(LONG_S) for user in users]
    account = running.settled(timeout=LONG_S)
    assert account.discards == {}
    rows = read_topic(cluster, topic)
    repeated = 0
    for each, (name, (_, number)) in zip(told, names.items(), strict=True):
        taken = sorted(set(range(each["sent"])) - set(each["refused"]))
        found = [row.value or b"" for row in rows if row.key == name.encode()]
        assert {row.partition for row in rows if row.key == name.encode()} == {number}
        first = list(dict.fromkeys(found))
        repeated += len(found) - len(first)
        assert first == [value_of(n, name, 300) for n in taken], name
        assert each["lost"]["cut"] == 0
    print(f"\n{len(rows)} records, {repeated} of them repeated")
