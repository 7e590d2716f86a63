"""`python -m integration`: a cluster for work by hand, over several commands."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from integration.security.options import for_librdkafka

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


def command_line(state: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYKAFKA4_CLUSTER": str(state)}
    command = [sys.executable, "-m", "integration", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False, **options)


@pytest.mark.timeout(900)
def test_the_command_line_starts_breaks_mends_and_ends_a_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    state = tmp_path / "cluster.json"
    try:
        up = command_line(state, "up", "--backend", request.config.getoption("--cluster"))
        assert up.returncode == 0, up.stderr
        assert len(up.stdout.strip().split(",")) == 3
        assert "already up" in command_line(state, "up").stdout
        assert command_line(state, "kill", "2").stdout == "broker 2 is down\n"
        told = command_line(state, "status").stdout
        assert "broker 2: down" in told
        assert told.count("running") == 2
        assert command_line(state, "start", "2").stdout == "broker 2 is running\n"
        assert command_line(state, "freeze", "3").stdout == "broker 3 is frozen\n"
        assert command_line(state, "thaw", "3").stdout == "broker 3 is running\n"
        refused = command_line(state, "start", "1")
        assert refused.returncode == 1
        assert "broker 1 is running" in refused.stderr
        assert [command_line(state, "kill", str(node)).returncode for node in (1, 2, 3)] == [0, 0, 0]
        assert "no answers from the brokers" in command_line(state, "status").stdout
        assert command_line(state, "start").stdout == "brokers are running, running, running\n"
    finally:
        down = command_line(state, "down")
    assert down.stdout == "down\n", down.stderr
    gone = command_line(state, "status")
    assert gone.returncode == 1
    assert "integration up" in gone.stderr


@pytest.mark.timeout(900)
def test_a_secured_cluster_says_what_its_clients_need(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    state = tmp_path / "cluster.json"
    try:
        up = command_line(state, "up", "--backend", request.config.getoption("--cluster"), "--brokers", "1", "--security", "SASL_SSL")
        assert up.returncode == 0, up.stderr
        bootstrap, needed = up.stdout.splitlines()
        assert needed in command_line(state, "status").stdout.splitlines()
        options = ast.literal_eval(needed.partition("clients need: ")[2])
        assert options.pop("bootstrap_servers") == bootstrap
        client = AdminClient({"bootstrap.servers": bootstrap, **for_librdkafka(options)})
        assert list(client.list_topics(timeout=20).brokers) == [1]
    finally:
        command_line(state, "down")
