"""The benchmark of the agent: its clients send what they report, and its account balances."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.agent.__main__ import MIB, run
from benchmarks.agent.process import AgentProcess
from benchmarks.agent.senders import Load
from benchmarks.sink import Sink

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing: the clients are written in C; apt-get install -y gcc")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentProcess, Path]]:
    path = tmp_path_factory.mktemp("agent") / "socket"
    with Sink() as sink, AgentProcess(path, sink.bootstrap, 64 * MIB, linger_ms=10) as agent:
        yield agent, path


@pytest.mark.parametrize("load", [Load(2, 0.2, per_second=2000), Load(2, 0.2, batch=16), Load(2, 0.2, blocking=False)])
def test_what_clients_send_is_what_the_agent_accounts_for(agent: tuple[AgentProcess, Path], load: Load) -> None:
    done = run("test", *agent, load)
    assert done.balanced
    assert done.sent.sent > 0
    assert done.sent.errors == 0
    assert done.settled.acknowledged - done.before.acknowledged == done.sent.sent
