"""Brokers are away for minutes: the agent's memory is bounded, it says why messages wait, and delivers or reports all of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from integration.agent.process import AgentProcess
from integration.agent.reading import read_topic
from integration.agent.sending import Sender, senders
from integration.cluster import Cluster
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

SECONDS = float(os.environ.get("PYKAFKA4_OUTAGE_S", "60"))
pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(900 + 2 * SECONDS)]

LONG_S = 180.0
MIB = 1024 * 1024
POOL, MARGIN = 32 * MIB, 32 * MIB
RATE, SIZE = 2_000, 500  # bytes for all of the pool come in about half a minute


@pytest.mark.parametrize("spooled", [False, True], ids=["memory", "spool"])
def test_memory_is_bounded_while_brokers_are_away(cluster: Cluster, topic: str, agent: AgentOf, folder: Path, spooled: bool) -> None:
    topics = [f"{topic}-{n}" for n in range(6)]  # one topic may have half of the pool
    for name in topics:
        cluster.create_topic(name, 3)
    spool: dict[str, Any] = {"spool": {"path": str(folder / "spool"), "max_size": "1GiB"}} if spooled else {}
    running = agent(inputs={"max_buffer": POOL}, topics={"default": {"linger_ms": 100, "compression_type": "none"}}, **spool)
    count = int(SECONDS * RATE)
    warm = send_some(running, topics)
    before = running.memory()
    for node in cluster.nodes:
        cluster.kill(node)
    most, why = 0, set()
    with senders([Sender(running.datagram, topics, count, size=SIZE, rate=RATE)]) as (program,):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            most = max(most, running.memory())
            why.add(str(running.get("/page/json")))
            time.sleep(1)
        assert program.result()["longest"] < 5
    print(f"\nresident: {before / MIB:.1f} MiB before, at most {most / MIB:.1f} MiB; pool {POOL / MIB:g} MiB")
    assert most <= before + POOL + MARGIN
    assert any("connect" in text.lower() for text in why), why
    cluster.start_all()
    account = running.settled(warm + count)
    assert account.accepted == account.acknowledged + account.discarded
    assert set(account.discards) <= (set() if spooled else {"NO_MEM"})
    found = [row.value for name in topics for row in read_topic(cluster, name)]
    assert len(set(found)) == account.acknowledged


def send_some(running: AgentProcess, topics: list[str]) -> int:
    """A few messages that are delivered; how many."""
    with senders([Sender(running.datagram, topics, 1_000, name="warm")]) as (program,):
        sent: int = program.result()["sent"]
    until(lambda: running.total().acknowledged == sent, LONG_S, "the first messages")
    return sent
