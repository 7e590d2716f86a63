"""`pykafka4 cluster up` and `down` with a real broker, and `bench` on it, as a user runs them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.kafka.jars import kafka_jars
from pykafka4 import AdminClient
from pykafka4.cli.local import CONTROLLER_PORT_OFFSET, HOST

pytestmark = [pytest.mark.cluster, pytest.mark.jars]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def pykafka4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The program, with a cache of its own."""
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pykafka4", *arguments], capture_output=True, text=True, timeout=200, check=False)

    yield run
    assert run("cluster", "down", "--delete").returncode == 0
    assert not (tmp_path / "local").exists()


def free_port() -> int:
    for port in range(23_000, 32_000):
        with socket.socket() as one, socket.socket() as other:
            if one.connect_ex((HOST, port)) != 0 and other.connect_ex((HOST, port + CONTROLLER_PORT_OFFSET)) != 0:
                return port
    raise AssertionError("no port is free")


def test_a_kafka_of_this_machine_keeps_its_topics_and_outlives_the_command(pykafka4: Run) -> None:
    up = ("cluster", "up", "--kafka", str(kafka_jars()), "--port", str(free_port()), "--json")
    begun = pykafka4(*up)
    assert (begun.returncode, begun.stderr) == (0, "")
    bootstrap = json.loads(begun.stdout)["bootstrap"]
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({"kept": 2}, wait=True)
    assert json.loads(pykafka4("cluster", "status", "--json").stdout) == json.loads(begun.stdout)
    measured = pykafka4("bench", "-b", bootstrap, "--records", "5000", "--latency-seconds", "2", "--json")
    assert [json.loads(line)["records"] >= 1000 for line in measured.stdout.splitlines()] == [True] * 4
    assert pykafka4("cluster", "down").returncode == 0
    assert pykafka4("cluster", "status").returncode == 1
    again = pykafka4(*up)
    assert again.returncode == 0, again.stderr
    with AdminClient(bootstrap_servers=json.loads(again.stdout)["bootstrap"]) as admin:
        assert list(admin.list_topics()) == ["kept"]
