"""An agent with a spool, as a process: without a cluster, killed, ended and started again, with a cluster at last."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.agent.process import AgentProcess, free_port
from integration.agent.sending import send
from integration.waiting import WaitTimeout, until
from pykafka4.testing import ModelServer

COUNT = 20_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a UNIX socket has at most 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="agent-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_messages_outlive_a_kill_and_an_end_without_a_cluster_and_arrive_in_order(folder: Path) -> None:
    tables = {
        "inputs": {"max_buffer": "1MiB"},
        "spool": {"path": str(folder / "spool")},
        "service": {"shutdown_ms": 200},
        "topics": {"default": {"batching": "combined", "linger_ms": 20}},
    }
    nowhere = {"bootstrap_servers": f"127.0.0.1:{free_port()}"}
    with AgentProcess(folder, nowhere, **tables) as agent:
        send(agent.datagram, ["a", "b"], COUNT, partition_key=1)
        total = agent.read_all(COUNT)
        assert total.spooled > 0
        assert total.discarded == 0
        agent.end()
    with AgentProcess(folder, nowhere, **tables) as agent:
        until(lambda: agent.total_if(lambda it: it.spooled + it.queued == COUNT), 30, lambda: f"{agent.total()} {agent.said()}")
        agent.kill()
    with ModelServer(brokers=1) as server:
        for topic in ("a", "b"):
            server.create_topic(topic, 1)
        with AgentProcess(folder, {"bootstrap_servers": server.bootstrap_servers}, **tables) as agent:
            assert agent.settled(COUNT, 100).discarded == 0
        numbers = {topic: [int(record.value.split(b" ")[1]) for record in server.records(topic)] for topic in ("a", "b")}
    assert sorted({*numbers["a"], *numbers["b"]}) == list(range(COUNT))
    for found in numbers.values():
        assert found == sorted(found)


def test_what_arrives_while_the_cluster_is_away_outlives_a_kill_although_memory_is_free(folder: Path) -> None:
    tables = {"spool": {"path": str(folder / "spool")}, "topics": {"default": {"batching": "combined", "linger_ms": 20}}}
    with AgentProcess(folder, {"bootstrap_servers": f"127.0.0.1:{free_port()}"}, **tables) as agent:
        probes: list[str] = []

        def is_noticed() -> bool:
            probes.append("probe")
            send(agent.datagram, probes[-1:], 1, partition_key=1)
            return any((folder / "spool").rglob("*probe*"))

        until(is_noticed, 30, agent.said)
        send(agent.datagram, ["a"], 1000, partition_key=1)
        assert agent.read_all(len(probes) + 1000).discarded == 0
        agent.kill()
    with ModelServer(brokers=1) as server:
        server.create_topic("a", 1)
        server.create_topic("probe", 1)
        with AgentProcess(folder, {"bootstrap_servers": server.bootstrap_servers}, **tables) as agent:
            until(lambda: len(server.records("a")) == 1000, 100, lambda: f"{agent.total()} {agent.said()}")
        assert [int(record.value.split(b" ")[1]) for record in server.records("a")] == list(range(1000))


def test_an_agent_that_does_not_serve_in_time_does_not_outlive_its_block(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.agent.process.START_S", 0.0)
    agent = AgentProcess(folder, {"bootstrap_servers": f"127.0.0.1:{free_port()}"})
    with pytest.raises(WaitTimeout, match="the agent to serve"), agent:
        pytest.fail("the agent cannot serve at once")
    process, agent.process = agent.process, None
    if process is not None:
        process.kill()
    assert process is None
